"""A broker that a test holds: what it waits for, and what it disturbs."""

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.testing import BrokerControl, control
from flintmq.config.keys import KEYS, StoreConfig
from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.remoting.frames import RemotingFrame
from flintmq.remoting.names import (
    CHECK_TRANSACTION,
    COMMIT_OFFSET,
    GET_MEMBERS,
    GET_QUEUE_END,
    HEARTBEAT,
    POLLING_TIMEOUT,
    POP,
    PULL,
    SEND_SHORT,
    SERVICE_NOT_AVAILABLE,
    SUCCESS,
)
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.broker.talk import Line, heartbeat, pop, popped, pull, send


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerControl]:
    with BrokerControl(tmp_path / "store") as broker:
        broker.store.create_topic("T", queues=2)
        yield broker


@pytest.fixture
def client(broker: BrokerControl) -> Iterator[Line]:
    with Line(broker.address) as line:
        yield line


def sent(client: Line, body: bytes, **more: Any) -> RemotingFrame:
    return client.ask(SEND_SHORT, send(**more), body)


def bodies(broker: BrokerControl, topic: str = "T") -> list[bytes]:
    return [message.body for message in broker.messages(topic)]


def test_wait_gives_messages_in_the_order_in_which_they_arrived(broker: BrokerControl, client: Line):
    late = threading.Timer(0.1, lambda: [sent(client, b"%d" % n, queue_id=n % 2) for n in range(5)])
    late.start()
    assert [message.body for message in broker.wait("T", 4)] == [b"0", b"1", b"2", b"3"], "no more than were asked for"
    late.join()
    broker.wait("T", 5)
    assert bodies(broker) == [b"0", b"1", b"2", b"3", b"4"] and bodies(broker, "nobody's") == []


def test_wait_shows_what_is_there(broker: BrokerControl, client: Line):
    with pytest.raises(TimeoutError, match=r"^T has 0 of 1 messages after 0 s: none$"):
        broker.wait("T", 1, timeout=0)
    for n in range(5):
        sent(client, b"%d" % n)
    broker.wait("T", 5)
    with pytest.raises(TimeoutError, match=r"^T has 5 of 6 messages after 0.01 s: b'0', b'1', b'2', b'3'$"):
        broker.wait("T", 6, timeout=0.01)


def test_lag_and_consumed(broker: BrokerControl, client: Line):
    for n in range(4):
        sent(client, b"x", queue_id=n % 2)
    broker.wait("T", 4)
    assert broker.lag("G", "T") == 4 and broker.lag("G", "nobody's") == 0
    with pytest.raises(TimeoutError, match=r"^G has not committed after 0.01 s: it has no offsets$"):
        broker.wait_consumed("G", timeout=0.01)

    def commit(queue_id: int, offset: int) -> None:
        place = {"consumerGroup": "G", "topic": "T", "queueId": queue_id, "commitOffset": offset}
        assert client.ask(COMMIT_OFFSET, place).code == SUCCESS

    broker.store.create_group("G")
    commit(0, 2)
    commit(1, 1)
    assert broker.lag("G", "T") == 1
    for topic in (None, "T"):
        with pytest.raises(TimeoutError, match=r"^G has not committed after 0.01 s: 1 of T$"):
            broker.wait_consumed("G", topic, timeout=0.01)
    late = threading.Timer(0.1, commit, (1, 2))
    late.start()
    broker.wait_consumed("G")
    broker.wait_consumed("G", "T", timeout=0)
    late.join()


def test_dead_letters_are_those_of_the_group(broker: BrokerControl):
    broker.store.put(Message("%DLQ%G", b"bad"))
    broker.store.put(Message("%DLQ%H", b"worse"))
    broker.wait("%DLQ%H", 1)
    assert [message.body for message in broker.dead_letters("G")] == [b"bad"]


def test_requests_are_those_that_clients_sent(broker: BrokerControl, client: Line):
    sent(client, b"x")
    client.ask(PULL, pull())
    client.ask(9999)
    host, port = client.socket.getsockname()
    assert [asked.code for asked in broker.requests()] == [SEND_SHORT, PULL, 9999]
    [asked] = broker.requests(PULL)
    assert asked.fields["topic"] == "T" and asked.client == f"{host}:{port}"


@pytest.mark.parametrize(("before", "stored"), [(True, [b"3"]), (False, [b"1", b"2", b"3"])])
def test_a_send_that_fails_is_stored_or_not(broker: BrokerControl, client: Line, before: bool, stored: list[bytes]):
    broker.fail(SEND_SHORT, before=before)
    assert client.ask(GET_QUEUE_END, {"topic": "T", "queueId": 0}).code == SUCCESS, "others do not fail"
    codes = [sent(client, b"%d" % n).code for n in (1, 2, 3)]
    assert codes == [SERVICE_NOT_AVAILABLE, SERVICE_NOT_AVAILABLE, SUCCESS]
    assert [message.body for message in broker.wait("T", len(stored))] == stored == bodies(broker)


@pytest.mark.parametrize("before", [True, False])
def test_a_request_loses_its_connection(broker: BrokerControl, before: bool):
    broker.drop_connections(2, SEND_SHORT, before)
    for n in range(3):
        with Line(broker.address) as line:
            line.start(SEND_SHORT, send(), b"%d" % n)
            assert line.hung_up(0.5) is (n < 2)
    assert [message.body for message in broker.wait("T", 1 if before else 3)][-1] == b"2"
    assert len(bodies(broker)) == (1 if before else 3)


def test_any_request_loses_its_connection(broker: BrokerControl, client: Line):
    broker.drop_connections()
    client.start(PULL, pull())
    assert client.hung_up()
    with Line(broker.address) as again:
        assert sent(again, b"x").code == SUCCESS


def test_a_request_is_delayed_until_a_test_ends_it(broker: BrokerControl, client: Line):
    broker.delay(SEND_SHORT, 0.1)
    began = time.monotonic()
    assert sent(client, b"0").code == SUCCESS and time.monotonic() - began >= 0.1
    broker.delay(SEND_SHORT, 60)
    broker.fail(SEND_SHORT, times=1)
    first, second = (client.start(SEND_SHORT, send(), b"%d" % n) for n in (1, 2))
    assert client.is_quiet(0.1) and bodies(broker) == [b"0"]
    broker.calm()
    assert [client.answer(one).code for one in (first, second)] == [SERVICE_NOT_AVAILABLE, SUCCESS]
    assert [message.body for message in broker.wait("T", 2)] == [b"0", b"2"]


def test_an_end_does_not_wait_for_what_is_delayed(broker: BrokerControl, client: Line):
    broker.delay(SEND_SHORT, 60)
    client.start(SEND_SHORT, send(), b"x")
    assert client.is_quiet(0.05)
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 20


def test_numbers_that_cannot_be(broker: BrokerControl):
    for call in (lambda: broker.fail(10, times=0), lambda: broker.drop_connections(0), lambda: broker.delay(10, -1)):
        with pytest.raises(UsageError, match=r"give [01] or more"):
            call()
    for answer in (-1, 0x8000, 99999999999):
        with pytest.raises(UsageError, match="give 0 to 32767"):
            broker.fail(10, answer)
    with pytest.raises(UsageError, match=r"^count=-1: give 0 or more$"):
        broker.wait("T", -1)


def test_the_largest_code_of_an_answer_can_be_read(broker: BrokerControl, client: Line):
    broker.fail(SEND_SHORT, 0x7FFF, times=1)
    assert sent(client, b"x").code == 0x7FFF


@pytest.mark.parametrize("key", ["storePathCommitLog", "readOnlyCommitLogStorePaths"])
@pytest.mark.parametrize("way", ["config", "made", "file", "settings"])
def test_the_log_of_another_store_is_not_taken(tmp_path: Path, key: str, way: str):
    with BrokerControl(tmp_path / "mine") as broker:
        broker.store.put(Message("T", b"x"))
    log = str(tmp_path / "mine" / "commitlog")
    (tmp_path / "broker.conf").write_text(f"{key}={log}\n", encoding="utf-8")
    words: dict[str, Any] = {
        "config": {"config": {key: log}},
        "made": {"config": StoreConfig(**{KEYS[key]: log})},
        "file": {"config": tmp_path / "broker.conf"},
        "settings": {"settings": [f"{key}={log}"]},
    }[way]
    with pytest.raises(UsageError, match=f"^{key}: .* leave out this key$"):
        BrokerControl(tmp_path / "store", **words)


def test_what_a_test_disturbs_is_no_warning(broker: BrokerControl, client: Line, caplog: pytest.LogCaptureFixture):
    """A pipe of standard error that nobody reads would fill with them, and stop the broker."""
    caplog.set_level(logging.INFO, "flintmq")
    broker.drop_connections()
    client.start(PULL, pull())
    assert client.hung_up()
    with Line(broker.address) as line:
        line.ask(PULL, pull())
        broker.kill()
        assert line.hung_up()
    assert "connection closed" not in caplog.text


def test_a_restart_keeps_address_and_messages(broker: BrokerControl, client: Line):
    address = broker.address
    sent(client, b"1")
    broker.fail(SEND_SHORT)
    broker.restart()
    assert client.hung_up() and broker.address == address
    with Line(address) as again:
        assert sent(again, b"2").code == SUCCESS, "a restart ends what was disturbed"
    assert [message.body for message in broker.wait("T", 2)] == [b"1", b"2"]


def test_a_reset_leaves_nothing_but_connections(broker: BrokerControl, client: Line):
    sent(client, b"1")
    sent(client, b"2", properties="DELAY\x011\x02")
    broker.store.create_group("G")
    broker.store.commit_offset("G", "T", 0, 1)
    broker.fail(SEND_SHORT)
    broker.delay(PULL, 60)
    broker.reset()
    assert broker.requests() == [] and broker.messages("T") == [] == list(broker.store.groups())
    assert broker.store.consumer_offset("G", "T", 0) in (None, -1)
    assert sent(client, b"3").code == SUCCESS and broker.wait("T", 1)
    assert client.ask(PULL, pull()).code == SUCCESS
    assert [message.body for message in broker.wait("T", 2)] == [b"3", b"2"], "a delay ends all the same"


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_nobody_is_there_until_the_restart(broker: BrokerControl, way: str):
    getattr(broker, way)()
    with pytest.raises(ConnectionRefusedError):
        Line(broker.address)
    with pytest.raises(UsageError, match="is stopped"):
        broker.wait("T", 1)
    broker.fail(SEND_SHORT, times=1)
    broker.restart()
    with Line(broker.address) as line:
        assert sent(line, b"x").code == SUCCESS


def test_a_kill_leaves_no_clean_end_and_every_answered_message(broker: BrokerControl, client: Line, tmp_path: Path):
    for n in range(200):
        assert sent(client, b"%d" % n, queue_id=n % 2).code == SUCCESS
    waiting = client.start(PULL, pull(offset=100, suspendTimeoutMillis=20_000, sysFlag=6))
    broker.kill()
    with pytest.raises(EOFError):
        client.answer(waiting)
    assert (tmp_path / "store" / "abort").exists() and [path.name for path in tmp_path.iterdir()] == ["store"]
    with open_store(tmp_path / "store") as view:
        assert [message.body for message in view.messages()] == [b"%d" % n for n in range(200)]
    broker.restart()
    assert [message.body for message in broker.wait("T", 200)] == [b"%d" % n for n in range(200)]
    broker.stop()
    assert not (tmp_path / "store" / "abort").exists()


def test_a_kill_that_fails_changes_nothing(broker: BrokerControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(source: str, target: str) -> None:
        raise OSError("no space left")

    broker.store.put(Message("T", b"1"))
    with monkeypatch.context() as patch:
        patch.setattr(control, "_copy", fails)
        with pytest.raises(shutil.Error, match="no space left"):
            broker.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    with Line(broker.address) as line:
        assert sent(line, b"2").code == SUCCESS, "nothing is disturbed any more"
    broker.kill()
    broker.restart()
    assert [message.body for message in broker.wait("T", 2)] == [b"1", b"2"]


def test_a_kill_needs_no_name_that_another_may_have(broker: BrokerControl, tmp_path: Path):
    """Also an earlier kill that was ended in the midst may have left something."""
    (tmp_path / "store.killed").mkdir()
    (tmp_path / "store.killed" / "mine").write_bytes(b"x")
    broker.store.put(Message("T", b"1"))
    broker.kill()
    broker.restart()
    assert [message.body for message in broker.wait("T", 1)] == [b"1"]
    assert (tmp_path / "store.killed" / "mine").read_bytes() == b"x"


def test_a_kill_ends_with_one_store_or_the_other(
    broker: BrokerControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """If the copy cannot take its place, neither is deleted."""
    broker.store.put(Message("T", b"1"))
    rename, names = control.os.rename, list[str]()

    def fails_later(source: str, target: str) -> None:
        names.append(target)
        if len(names) == 2:
            raise OSError("gone")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(control.os, "rename", fails_later)
        with pytest.raises(OSError, match="gone"):
            broker.kill()
    [aside] = tmp_path.iterdir()
    for name in ("before", "copy"):
        with open_store(aside / name) as view:
            assert [message.body for message in view.messages()] == [b"1"]


def test_a_kill_that_is_interrupted_keeps_both(broker: BrokerControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broker.store.put(Message("T", b"1"))
    rename = control.os.rename

    def interrupted(source: str, target: str) -> None:
        rename(source, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(control.os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            broker.kill()
    [aside] = tmp_path.iterdir()
    for name in ("before", "copy"):
        with open_store(aside / name) as view:
            assert [message.body for message in view.messages()] == [b"1"]


def test_clients_that_send_meanwhile_lose_no_answered_message_by_a_kill(broker: BrokerControl):
    answered: list[bytes] = []

    def produce() -> None:
        with Line(broker.address) as line:
            try:
                for n in range(100_000):
                    if sent(line, b"%d" % n).code == SUCCESS:
                        answered.append(b"%d" % n)
            except EOFError:
                return

    producer = threading.Thread(target=produce)
    producer.start()
    broker.wait("T", 50)
    broker.kill()
    producer.join(10)
    broker.restart()
    stored = [message.body for message in broker.wait("T", len(answered))]
    assert not producer.is_alive() and len(answered) >= 50 and stored == answered


# -- the clock ---------------------------------------------------------------------------------------------------------


def test_what_waits_for_a_time_comes_when_the_clock_is_moved(broker: BrokerControl, client: Line):
    """A delay level of two hours, and a timer of a day."""
    due = int(time.time() * 1000) + 86_400_000
    sent(client, b"level", properties="DELAY\x0118\x02")
    sent(client, b"timer", properties=f"TIMER_DELIVER_MS\x01{due}\x02")
    time.sleep(0.3)
    assert bodies(broker) == []
    broker.advance(3 * 3600)
    assert [message.body for message in broker.wait("T", 1, timeout=20)] == [b"level"]
    time.sleep(0.3)
    assert bodies(broker) == [b"level"]
    broker.restart()
    broker.advance(86_400)
    [_, message] = broker.wait("T", 2, timeout=20)
    assert message.body == b"timer" and message.store_timestamp > due, "a restart keeps the clock"


def test_a_popped_message_comes_again_when_the_clock_is_moved(broker: BrokerControl, client: Line):
    sent(client, b"x")
    broker.wait("T", 1)
    assert len(popped(client.ask(POP, pop(invisibleTime=3_600_000)))) == 1
    broker.advance(3500)
    time.sleep(0.2)
    assert client.ask(POP, pop()).code == POLLING_TIMEOUT
    broker.advance(101)
    assert [message.body for message in broker.wait("%RETRY%G_T", 1)] == [b"x"]
    [again] = popped(client.ask(POP, pop()))
    assert (again.message.body, again.message.reconsume_times) == (b"x", 1)


def test_members_and_pulls_stay_when_the_clock_is_moved(broker: BrokerControl, client: Line):
    client.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "*"}))
    waiting = client.start(PULL, pull(sysFlag=6, suspendTimeoutMillis=20_000))
    assert client.is_quiet(0.1)
    broker.advance(3600)
    assert client.is_quiet(0.3)
    with Line(broker.address) as other:
        assert sent(other, b"x").code == SUCCESS
    assert client.answer(waiting).code == SUCCESS
    assert client.ask(GET_MEMBERS, {"consumerGroup": "G"}).code == SUCCESS


def test_an_old_transaction_is_asked_for_when_the_clock_is_moved(tmp_path: Path):
    keys = {"transactionTimeOut": 3_600_000, "transactionCheckInterval": 100}
    with BrokerControl(tmp_path / "store", keys) as broker, Line(broker.address) as client:
        now = int(time.time() * 1000)
        text = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01K\x02"
        assert sent(client, b"x", properties=text, born=now).code == SUCCESS
        assert client.is_quiet(0.4)
        broker.advance(3601)
        asked = client.frame()
        assert asked is not None and (asked.code, asked.fields["msgId"]) == (CHECK_TRANSACTION, "K")


def test_a_reset_sets_a_moved_clock_right(tmp_path: Path, broker: BrokerControl, client: Line):
    """The next test finds the time of day, a store that has seen no other, and nothing that waits."""
    sent(client, b"level", properties="DELAY\x0118\x02")
    broker.store.create_group("G")
    (tmp_path / "store" / "notes.txt").write_bytes(b"mine")
    broker.advance(3600)
    sent(client, b"late")
    address = broker.address
    broker.reset()
    assert broker.address == address and client.hung_up() and broker.requests() == []
    assert list(broker.store.groups()) == [] == broker.messages("T")
    assert (tmp_path / "store" / "notes.txt").read_bytes() == b"mine"
    due = int(time.time() * 1000) + 2000
    with Line(address) as again:
        assert sent(again, b"now").code == SUCCESS
        assert sent(again, b"timer", properties=f"TIMER_DELIVER_MS\x01{due}\x02").code == SUCCESS
        [first] = broker.wait("T", 1)
        assert len(popped(again.ask(POP, pop(invisibleTime=1000)))) == 1
        assert abs(first.store_timestamp - time.time() * 1000) < 60_000
        assert [message.body for message in broker.wait("T", 2)] == [b"now", b"timer"]
        assert time.time() * 1000 >= due, "not before its time"
        assert [message.body for message in broker.wait("%RETRY%G_T", 1)] == [b"now"]
    broker.advance(7200)
    with pytest.raises(TimeoutError):
        broker.wait("T", 3, timeout=0.5)


def test_the_log_of_a_store_that_was_there_is_not_deleted(tmp_path: Path):
    with MessageStore(tmp_path / "store", config={"mappedFileSizeCommitLog": 1 << 20}) as store:
        store.put(Message("T", b"1"))
    with BrokerControl(tmp_path / "store") as broker:
        broker.advance(3600)
        with pytest.raises(UsageError, match="store was there before: its log is not deleted"):
            broker.reset()
        assert bodies(broker) == [b"1"]


def test_pops_that_wait_are_answered_when_the_clock_is_moved(broker: BrokerControl, client: Line):
    waiting = client.start(POP, pop(pollTime=20_000))
    assert client.is_quiet(0.1)
    broker.advance(3600)
    assert client.answer(waiting).code == POLLING_TIMEOUT


def test_a_clock_that_cannot_be(broker: BrokerControl):
    for seconds in (-1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="give 0 or more seconds"):
            broker.advance(seconds)


def test_options_of_a_broker(tmp_path: Path):
    with BrokerControl(tmp_path / "store", grpc="127.0.0.1:0", name="b-7", dev=False) as broker:
        addresses = broker.addresses
        assert len(addresses) == 2 and 'node_id="b-7"' in broker.metrics()
        broker.restart()
        assert broker.addresses == addresses
        for address in addresses:
            with Line(address) as line:
                assert sent(line, b"x").code == SUCCESS
    with pytest.raises(UsageError, match="stopped"):
        broker.metrics()

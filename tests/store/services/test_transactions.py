"""Transactions: each half message ends once, as its sender says; what a stop leaves between two records is mended."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq import Half
from flintmq.errors import MessageNotFoundError, PutFailedError, UsageError
from flintmq.message import Message, PutMessageStatus, StoredMessage
from flintmq.store.append import half_message
from flintmq.store.message_store import MessageStore
from flintmq.store.services import transactions
from flintmq.store.view import open_store
from tests.support.engine import open_small
from tests.support.faults import Faulty
from tests.support.threads import at_once, within

HALF, OUTCOME, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
NOW = 1_700_000_000_000
LATE_MS = 7_000  # after which a sender is asked


class Opened:
    """A store whose clock stands, and whose senders are asked by hand."""

    def __init__(self, root: Path, clock: int = NOW, **keys: Any) -> None:
        self.disk = Faulty()
        self.disk.clock = clock
        self.store = open_small(root, self.disk, **keys)
        self.store._parts.housekeeping.stop()
        self.asked: list[Half] = []

    def settle(self) -> None:
        assert self.store.wait_dispatched(60)
        self.store._parts.transactions.check_invariants()

    def check(self, answer: Callable[[Half], object] = lambda half: None, later_ms: int = LATE_MS) -> list[bytes]:
        """Let time pass and have senders asked; the bodies that they are asked about."""
        self.settle()
        assert self.disk.clock is not None
        self.disk.clock += later_ms
        before = len(self.asked)

        def ask(half: Half) -> object:
            self.asked.append(half)
            return answer(half)

        end = self.store.on_check(ask)
        self.store._parts.transactions.check_once()
        end()
        self.settle()
        return [half.message.body for half in self.asked[before:]]

    def bodies(self, topic: str = "T", queue_id: int = 0) -> list[bytes]:
        self.settle()
        return [one.body for one in self.records(topic, queue_id)]

    def records(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        self.settle()
        low, high = self.store.bounds(topic, queue_id)
        found: list[StoredMessage] = []
        while low < high:
            got = self.store.get(topic, queue_id, low)
            found, low = [*found, *got.messages], got.next_begin_offset
        return found

    def done(self) -> tuple[int | None, int | None]:
        """Up to where the group has done half messages and outcomes."""
        return (
            self.store.consumer_offset(GROUP, HALF, 0),
            self.store.consumer_offset(GROUP, OUTCOME, 0),
        )


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """opened(...) -> the store, opened again with each call."""
    with contextlib.ExitStack() as stack:

        def open_again(clock: int = NOW, **keys: Any) -> Opened:
            stack.close()
            found = Opened(tmp_path / "s", clock, **keys)
            stack.callback(found.store.close)
            return found

        yield open_again


def begun(store: MessageStore, *bodies: bytes, **given: Any) -> list[Half]:
    return [store.begin(Message("T", body, tags="a", queue_id=1, **given), "Shop") for body in bodies]


def commit(half: Half) -> None:
    half.commit()


# -- ends -----------------------------------------------------------------------------------------------------------


def test_a_message_is_there_once_it_is_committed(opened: Callable[..., Opened]):
    one = opened()
    first, second = begun(one.store, b"first", b"second", flag=3)
    assert (first.topic, first.queue_id, first.group, first.checks) == ("T", 1, "Shop", 0)
    assert one.bodies("T", 1) == [], "nobody gets it"
    result = second.commit()
    assert result and (result.queue_offset, result.msg_id) == (0, second.message.msg_id)
    dropped = first.rollback()
    assert dropped and one.bodies("T", 1) == [b"second"]
    [found] = one.records("T", 1)
    assert found.physical_offset == result.physical_offset
    assert found.prepared_transaction_offset == second.message.physical_offset
    assert (found.sys_flag, found.flag, found.tags, found.born_timestamp) == (8, 3, "a", NOW)
    assert one.bodies(OUTCOME) == [b"1,", b"0,"] and one.done() == (2, 2)


@pytest.mark.parametrize("again", ["commit", "rollback"])
@pytest.mark.parametrize("first", ["commit", "rollback"])
def test_an_end_that_comes_again_is_refused(opened: Callable[..., Opened], first: str, again: str):
    one = opened()
    [half] = begun(one.store, b"x")
    getattr(half, first)()
    with pytest.raises(UsageError, match="at queue offset 0 has ended"):
        getattr(half, again)()
    one = opened()
    with pytest.raises(UsageError, match="at queue offset 0 has ended"):
        getattr(one.store.half_at(half.message.physical_offset), again)()
    assert one.bodies("T", 1) == ([b"x"] if first == "commit" else [])


def test_ends_of_many_threads(opened: Callable[..., Opened]):
    one = opened()
    halves = begun(one.store, *(b"%d" % n for n in range(40)))

    def run() -> None:
        for half in halves:
            with contextlib.suppress(UsageError):
                half.commit()

    at_once(run, run, run)
    assert sorted(one.bodies("T", 1)) == sorted(b"%d" % n for n in range(40)) and one.done() == (40, 40)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("pool", [False, True])
def test_real_disks(tmp_path: Path, flush: str, pool: bool):
    """A half message may be in the pool still when it is committed, and undispatched."""
    keys = {"flushDiskType": flush, "transientStorePoolEnable": pool}
    with open_small(tmp_path / "s", **keys) as store:
        for n in range(20):
            half = store.begin(Message("T", b"%d" % n), "Shop")
            assert half.commit().status is PutMessageStatus.PUT_OK if n % 2 else half.rollback()
        assert store.wait_dispatched(60)
        assert [one.body for one in store.get("T", 0, 0).messages] == [b"%d" % n for n in range(1, 20, 2)]


@pytest.mark.parametrize(
    ("message", "group", "error"),
    [
        (Message("T", delay_level=3), "Shop", UsageError),
        (Message("T"), "", UsageError),
        (Message("a/b"), "Shop", PutFailedError),
        (Message("T", b"x" * 5_000_000), "Shop", PutFailedError),
        ("T", "Shop", TypeError),
        (Message("T"), 5, TypeError),
    ],
)
def test_what_cannot_begin(opened: Callable[..., Opened], message: Any, group: Any, error: type[Exception]):
    one = opened()
    with pytest.raises(error):
        one.store.begin(message, group)
    assert one.store.max_physical_offset == 0


def test_where_no_half_message_is(opened: Callable[..., Opened]):
    one = opened()
    plain = one.store.put(Message("T", b"x"))
    for offset in (plain.physical_offset, 5, 1 << 40):
        with pytest.raises(MessageNotFoundError, match="no half message"):
            one.store.half_at(offset)


def test_stores_that_end_no_transactions(tmp_path: Path):
    with (
        open_small(tmp_path / "slave", brokerRole="SLAVE") as slave,
        open_small(tmp_path / "external", dispatch="external") as external,
    ):
        for store in (slave, external):
            with pytest.raises(UsageError):
                store.begin(Message("T"), "Shop")
            with pytest.raises(UsageError):
                store.on_check(commit)
            with pytest.raises(UsageError):
                store.half_at(0)


def test_a_closed_store(opened: Callable[..., Opened]):
    one = opened()
    [half] = begun(one.store, b"x")
    one.store.close()
    with pytest.raises(UsageError, match="is closed"):
        half.commit()
    one = opened()
    assert one.store.half_at(half.message.physical_offset).commit()


def test_a_disk_that_is_full_leaves_it_open(opened: Callable[..., Opened]):
    one = opened()
    [half] = begun(one.store, bytes(3000))
    one.disk.refuse("create", "commitlog", times=2)
    one.disk.refuse("allocate", "commitlog", times=2)
    refused = half.commit()
    assert refused.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED and refused.physical_offset < 0
    while not half.commit():
        pass
    assert one.bodies("T", 1) == [bytes(3000)] and one.bodies(OUTCOME) == [b"0,"]


def test_an_outcome_that_is_refused_is_put_later(opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch):
    one = opened()
    first, second = begun(one.store, b"first", b"second")
    put, service = one.store._parts.puts.put, one.store._parts.puts

    def full(message: Message) -> Any:
        return put(Message("a/b")) if message.topic == OUTCOME else put(message)

    monkeypatch.setattr(service, "put", full)
    assert first.commit(), "the message is there"
    with pytest.raises(UsageError, match="has ended"):
        first.commit()
    monkeypatch.setattr(service, "put", put)
    second.commit()
    assert one.bodies("T", 1) == [b"first", b"second"] and one.bodies(OUTCOME) == [b"0,1,"]


# -- asking ---------------------------------------------------------------------------------------------------------


def test_senders_are_asked_until_they_say(opened: Callable[..., Opened]):
    one = opened()
    begun(one.store, b"a", b"b", b"c")
    assert one.check(later_ms=6_000) == [], "not before transactionTimeOut"
    assert one.check(later_ms=1) == [b"a", b"b", b"c"]
    assert [half.checks for half in one.asked] == [0, 0, 0] and one.done() == (3, 3)
    assert one.check(lambda half: half.commit() if half.message.body == b"b" else None) == [b"a", b"b", b"c"]
    assert [half.checks for half in one.asked[3:]] == [1, 1, 1]
    assert one.check(lambda half: half.rollback()) == [b"a", b"c"]
    assert one.check() == [] and one.bodies("T", 1) == [b"b"]
    assert one.done() == (one.store.bounds(HALF, 0)[1], one.store.bounds(OUTCOME, 0)[1])
    [found] = one.records("T", 1)
    assert found.properties["TRANSACTION_CHECK_TIMES"] == "1"


def test_a_sender_that_was_asked_may_answer_later_of_any_copy(opened: Callable[..., Opened]):
    """Also before the copy is dispatched; and of each of them once alone."""
    one = opened()
    first, second = begun(one.store, b"first", b"second")
    one.check()
    copies = one.asked[:]
    one.check()
    assert first.commit() and copies[1].rollback()
    for half in (first, second, *one.asked):
        with pytest.raises(UsageError, match="has ended"):
            half.commit()
    assert one.check() == [] and one.bodies("T", 1) == [b"first"]


def test_one_that_nobody_can_be_asked_about_waits(opened: Callable[..., Opened]):
    one = opened(transactionCheckMax=2)
    begun(one.store, b"x")
    for _ in range(5):
        assert one.check(lambda half: False) == [b"x"]
    assert len(one.records(HALF)) == 1 and one.bodies(OUTCOME) == []
    assert one.check(commit) == [b"x"] and one.bodies("T", 1) == [b"x"]


def test_the_next_function_is_asked_if_one_knows_nobody(opened: Callable[..., Opened]):
    one = opened()
    begun(one.store, b"x")
    end = one.store.on_check(lambda half: False)
    assert one.check(commit) == [b"x"]
    end()
    end()
    assert one.bodies("T", 1) == [b"x"]


def test_an_error_of_the_function_counts_as_an_answer(opened: Callable[..., Opened], caplog: pytest.LogCaptureFixture):
    one = opened(transactionCheckMax=1)
    begun(one.store, b"x")

    def fail(half: Half) -> None:
        raise ValueError("mine")

    one.check(fail)
    assert "the function that was asked about Half(group='Shop', topic='T', queue_id=1" in caplog.text
    one.check(fail)
    assert one.bodies(GIVEN_UP) == [b"x"]


def test_what_is_asked_too_often_is_given_up(opened: Callable[..., Opened], caplog: pytest.LogCaptureFixture):
    one = opened(transactionCheckMax=3)
    [half] = begun(one.store, b"x", flag=5)
    asked = [one.check() for _ in range(5)]
    assert asked == [[b"x"], [b"x"], [b"x"], [], []] and "TRANS_CHECK_MAX_TIME_TOPIC" in caplog.text
    [found] = one.records(GIVEN_UP)
    assert (found.body, found.flag, found.properties["TRANSACTION_CHECK_TIMES"]) == (b"x", 5, "3")
    assert (found.properties["REAL_TOPIC"], found.properties["REAL_QID"], found.sys_flag) == ("T", "1", 0)
    with pytest.raises(UsageError, match="has ended"):
        half.commit()
    assert one.store.topic(GIVEN_UP).write_queues == 1  # type: ignore[union-attr]
    assert one.store.topic(HALF).write_queues == 1  # type: ignore[union-attr]
    assert one.done() == (4, 4)


def test_what_is_too_old_is_given_up(opened: Callable[..., Opened]):
    one = opened(fileReservedTime=1)
    begun(one.store, b"x")
    assert one.check(lambda half: False, later_ms=3_600_000) == [b"x"]
    assert one.check(lambda half: False, later_ms=1) == [] and one.bodies(GIVEN_UP) == [b"x"]


@pytest.mark.parametrize(
    ("seconds", "ages"),
    [("20", (20_000, 20_001)), ("2", (2_000, 2_001)), ("x", (6_000, 6_001)), ("-1", (6_000, 6_001))],
)
def test_a_sender_may_say_when_it_is_asked_first(opened: Callable[..., Opened], seconds: str, ages: tuple[int, int]):
    one = opened()
    begun(one.store, b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": seconds})
    assert one.check(later_ms=ages[0]) == []
    assert one.check(later_ms=1) == [b"x"]


def test_a_sender_whose_clock_is_days_behind_is_asked(opened: Callable[..., Opened]):
    one = opened()
    begun(one.store, b"x", born_timestamp=NOW - 100 * 3_600_000)
    assert one.check(commit) == [b"x"] and one.bodies("T", 1) == [b"x"]


def test_who_is_never_to_be_asked_is_asked_once(opened: Callable[..., Opened]):
    one = opened(transactionCheckMax=0)
    begun(one.store, b"x")
    assert one.check() == [b"x"] and one.bodies(GIVEN_UP) == []
    assert one.check() == [] and one.bodies(GIVEN_UP) == [b"x"]


def test_one_that_cannot_be_asked_about_keeps_no_other_back(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    one, again = opened(), half_message.asked_again

    def broken(half: StoredMessage) -> Message:
        if half.body == b"bad":
            raise OSError(5, "Input/output error")
        return again(half)

    begun(one.store, b"bad", b"good")
    monkeypatch.setattr(transactions.half_message, "asked_again", broken)
    assert one.check() == [b"bad", b"good"] and "cannot be asked about now" in caplog.text


def test_two_of_one_id_that_were_both_asked_about(opened: Callable[..., Opened]):
    """Each ends as its sender says, by the copy that it was asked about or by the first one."""
    one = opened()
    first, second = begun(one.store, b"first", b"second", properties={"UNIQ_KEY": "U"})
    assert one.check() == [b"first", b"second"]
    first.commit()
    assert one.bodies("T", 1) == [b"first"]
    second.commit()
    assert one.bodies("T", 1) == [b"first", b"second"] and one.check() == []


def test_one_from_the_future_is_asked_about_at_once(opened: Callable[..., Opened]):
    """Its time is the sender's clock; as upstream."""
    one = opened()
    begun(one.store, b"x", born_timestamp=NOW + 60_000)
    assert one.check(later_ms=0) == [b"x"]


def test_a_thread_asks_by_itself(tmp_path: Path):
    with open_small(tmp_path / "s", transactionTimeOut=50, transactionCheckInterval=20) as store:
        store.on_check(lambda half: half.commit() if half.checks else None)
        store.begin(Message("T", b"x"), "Shop")
        assert within(lambda: len(store.get("T", 0, 0).messages) == 1)


def test_one_that_is_never_ended_does_not_keep_all_outcomes(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
):
    """It is put again at the queue's end, and is the same transaction still."""
    monkeypatch.setattr(transactions, "OUTCOMES_KEPT", 5)
    one = opened()
    [orphan] = begun(one.store, b"orphan")
    for n in range(30):
        begun(one.store, b"%d" % n)[0].commit()
        one.settle()
    done = one.done()
    assert done[0] is not None and done[0] > 20
    one = opened()
    assert one.check(lambda half: False) == [b"orphan"]
    assert one.store.half_at(orphan.message.physical_offset).commit() and one.check() == []
    assert one.bodies("T", 1)[-1] == b"orphan" and len(one.bodies("T", 1)) == 31


# -- earlier lives --------------------------------------------------------------------------------------------------


def test_a_start_goes_on(opened: Callable[..., Opened]):
    one = opened()
    begun(one.store, b"a", b"b", b"c")[1].commit()
    one.check(lambda half: half.rollback() if half.message.body == b"c" else None)
    one = opened(NOW + LATE_MS)
    assert one.check(commit) == [b"a"] and one.asked[0].checks == 1
    assert one.bodies("T", 1) == [b"b", b"a"]
    one = opened(NOW + LATE_MS)
    assert one.check() == [] and one.done() == (4, 4)


def test_d37_a_stop_between_message_and_outcome(opened: Callable[..., Opened]):
    """RocketMQ asks again, and delivers it twice."""
    one = opened()
    halves = begun(one.store, b"committed", b"open", b"rolled back", b"twice")
    for half in (halves[0], halves[2], halves[3]):
        assert one.store.put(half_message.committed(half.message, "5.3.3"))  # type: ignore[arg-type]
    one = opened()
    again = one.store.half_at(halves[0].message.physical_offset).commit()
    assert again.queue_offset == 0 and again.physical_offset == one.records("T", 1)[0].physical_offset
    with pytest.raises(UsageError, match="was committed before"):
        one.store.half_at(halves[2].message.physical_offset).rollback()
    assert one.check(commit) == [b"open"]
    assert one.bodies("T", 1) == [b"committed", b"rolled back", b"twice", b"open"]
    assert one.bodies(OUTCOME) == [b"0,", b"2,", b"1,", b"3,"] and one.done() == (4, 4)


def test_a_stop_between_a_copy_and_the_earlier_one_s_outcome(opened: Callable[..., Opened]):
    one = opened()
    first, second = begun(one.store, b"first", b"second")
    assert one.store.put(half_message.asked_again(first.message))
    assert one.store.put(half_message.moved(second.message))
    one = opened()
    assert one.check(commit) == [b"first", b"second"]
    assert sorted(half.checks for half in one.asked) == [0, 1]
    assert one.check() == [] and sorted(one.bodies("T", 1)) == [b"first", b"second"]


def test_d37_what_was_committed_from_a_later_copy(opened: Callable[..., Opened]):
    """RocketMQ writes no outcome for what it has copied: only the group's offset moves, and a kill takes that."""
    one = opened()
    [half] = begun(one.store, b"x")
    copied = one.store.put(half_message.asked_again(half.message))
    copy = one.store.half_at(copied.physical_offset).message
    assert one.store.put(half_message.committed(copy, "5.4.0"))  # type: ignore[arg-type]
    assert one.store.put(half_message.outcome([copy.queue_offset]))
    one = opened(NOW + 60_000)
    assert one.check(commit) == [] and one.bodies("T", 1) == [b"x"]


def test_d37_what_was_committed_is_not_moved(opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch):
    """It keeps many outcomes, and would look new once it were put again."""
    one = opened()
    [half] = begun(one.store, b"x")
    assert one.store.put(half_message.committed(half.message, "5.4.0"))  # type: ignore[arg-type]
    monkeypatch.setattr(transactions, "OUTCOMES_KEPT", 5)
    one = opened()
    for number in range(10):
        begun(one.store, b"%d" % number)[0].rollback()
    one.settle()
    assert one.check(commit) == [] and one.bodies("T", 1) == [b"x"]


def test_d37_what_was_committed_from_an_earlier_copy(opened: Callable[..., Opened]):
    """RocketMQ put a copy before the sender's word came, and a kill took the outcome of it."""
    one = opened()
    [half] = begun(one.store, b"x")
    one.check()
    assert one.store.put(half_message.committed(half.message, "5.4.0"))  # type: ignore[arg-type]
    one = opened(NOW + 60_000)
    assert one.check(commit) == [] and one.bodies("T", 1) == [b"x"]
    assert one.store.bounds(HALF, 0) == (0, 2) and one.done() == (2, 2)


def test_two_messages_of_one_id_are_two(opened: Callable[..., Opened]):
    """A sender that sends one object twice: both are delivered, if both are committed."""
    one = opened()
    first, second = begun(one.store, b"x", b"x", properties={"UNIQ_KEY": "U"})
    first.commit()
    second.commit()
    assert one.bodies("T", 1) == [b"x", b"x"]
    third, fourth = begun(one.store, b"y", b"y", properties={"UNIQ_KEY": "V"})
    third.commit()
    one = opened()
    assert one.check(commit) == [b"y"] and one.bodies("T", 1) == [b"x", b"x", b"y", b"y"]
    assert fourth.message.msg_id == "V"


def test_without_an_index_it_is_asked_again_as_at_rocketmq(opened: Callable[..., Opened]):
    one = opened(messageIndexEnable=False)
    [half] = begun(one.store, b"x")
    one.store.put(half_message.committed(half.message, "5.3.3"))  # type: ignore[arg-type]
    one = opened(messageIndexEnable=False)
    assert one.check(commit) == [b"x"] and one.bodies("T", 1) == [b"x", b"x"]


@pytest.mark.parametrize(
    ("name", "halves", "asked"),
    [("config", 39, 3), ("config540", 56, 3), ("config550", 17, 1)],
)
def test_what_a_broker_left_waiting(golden: Any, tmp_path: Path, name: str, halves: int, asked: int):
    """Each message that nobody committed is asked about once; of 5.4.0 one was committed, and its copies are open."""
    root = golden(name).copy(tmp_path)
    peer = {"config": "5.3.3", "config540": "5.4.0", "config550": "5.5.0"}[name]
    with open_store(root) as view:
        before = [one for one in view.messages() if one.topic in ("Tx", HALF)]
    committed = {one.msg_id for one in before if one.topic == "Tx"}
    disk = Faulty()
    disk.clock = before[-1].store_timestamp + 60_000
    got: list[Half] = []
    with MessageStore(root, effects=disk, peer=peer) as store:
        assert store.bounds(HALF, 0)[1] == halves
        store.on_check(lambda half: (got.append(half), half.commit()))
        for _ in range(2):
            store._parts.transactions.check_once()
            assert store.wait_dispatched(60)
        assert (len(got), len({half.message.msg_id for half in got})) == (asked, asked)
        assert not committed & {half.message.msg_id for half in got}
        ends = store.bounds(HALF, 0)[1], store.bounds(OUTCOME, 0)[1]
        assert (store.consumer_offset(GROUP, HALF, 0), store.consumer_offset(GROUP, OUTCOME, 0)) == ends
    with open_store(root) as view:
        delivered = [one.msg_id for one in view.messages() if one.topic == "Tx"]
    assert len(delivered) == len(set(delivered)) == len(committed) + asked, "none of them twice"


def test_half_messages_that_retention_deleted(
    opened: Callable[..., Opened], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    one = opened()
    [half] = begun(one.store, b"gone")
    one.check(lambda half: False)
    for n in range(12):
        one.store.put(Message("U", bytes(1000), keys=str(n)))
    one.settle()
    one.store.flush()
    one.store._parts.checkpointer.write()
    monkeypatch.setattr(one.disk, "disk_used", lambda path: 88)  # so full that files go before their time
    one.store._parts.retention.clean_once()
    assert one.store.min_physical_offset > half.message.physical_offset
    assert one.check() == [] and "its sender never said how it ends" in caplog.text
    with pytest.raises(MessageNotFoundError):
        one.store.half_at(half.message.physical_offset)
    with pytest.raises(UsageError, match="has ended"):
        half.commit()
    assert one.done()[0] == 1

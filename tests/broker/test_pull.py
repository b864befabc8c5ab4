"""Pulls: each status, the subscription, and pulls that are held until a message comes."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.format.text import java_hash
from flintmq.message import Message
from flintmq.remoting.frames import RemotingFrame
from tests.broker.talk import KEYS, LOOSE, PLAIN, Line, heartbeat, pull, records
from tests.support.engine import log_bytes, log_files, message, open_small, put_dispatched, stored, units
from tests.support.threads import within

Serve = Callable[..., Broker]
Connected = Callable[[Broker], Line]
PULL, LITE, HEARTBEAT = 11, 361, 34
FOUND, NOT_FOUND, AGAIN, MOVED = 0, 19, 20, 21
HOLD = {"sysFlag": 4 | 2, "suspendTimeoutMillis": 8000}  # longer than any test waits


@pytest.fixture(autouse=True, params=[PLAIN, LOOSE], ids=["plain", "loose"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that kernels read, and that they leave to the general codec."""
    monkeypatch.setattr("tests.broker.talk.SEPARATORS", request.param)


def place(answer: RemotingFrame) -> tuple[int, int, int]:
    fields = answer.fields
    return int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"])


def raw(root: Path) -> list[bytes]:
    """The records of queue 0 of T, as they lie in the log."""
    there, (log, _) = units(root), log_bytes(root)
    return [log[one.physical_offset :][: one.size] for one in there]


@pytest.mark.parametrize("code", [PULL, LITE])
def test_a_queue_from_its_begin_to_its_end(served: Serve, resting: Path, line: Connected, code: int):
    expected, found, at = raw(resting), list[bytes](), 0
    talk = line(served(resting))
    while (answer := talk.ask(code, pull(offset=at, maxMsgNums=7))).code == FOUND:
        assert answer.remark == "FOUND"
        assert place(answer) == (min(at + 7, 30), 0, 30)
        assert {name: answer.fields[name] for name in ("suggestWhichBrokerId", "topicSysFlag", "groupSysFlag")} == {
            "suggestWhichBrokerId": "0", "topicSysFlag": "0", "groupSysFlag": "0",
        }  # fmt: skip
        found += records(answer.body)
        at = place(answer)[0]
    assert (answer.code, place(answer)) == (NOT_FOUND, (30, 0, 30))
    assert found == expected and len(found) == 30


@pytest.mark.parametrize(
    ("queue_id", "offset", "code", "there"),
    [
        (0, 29, FOUND, (30, 0, 30)),
        (0, 30, NOT_FOUND, (30, 0, 30)),  # its end
        (0, 31, MOVED, (30, 0, 30)),  # beyond it
        (0, 1 << 60, MOVED, (30, 0, 30)),
        (0, -1, MOVED, (0, 0, 30)),
        (1, 0, NOT_FOUND, (0, 0, 0)),  # a queue without messages
        (1, 5, MOVED, (0, 0, 0)),
    ],
)
def test_offsets_and_what_they_get(
    served: Serve, resting: Path, line: Connected, queue_id: int, offset: int, code: int, there: tuple[int, int, int]
):
    answer = line(served(resting)).ask(PULL, pull(queue_id=queue_id, offset=offset))
    assert (answer.code, place(answer)) == (code, there)
    assert (answer.body != b"") == (code == FOUND)


def test_an_offset_before_the_queues_begin(served: Serve, tmp_path: Path, line: Connected):
    """Retention took the first files."""
    with open_small(tmp_path / "store") as made:
        put_dispatched(made, 200)
    log_files(tmp_path / "store")[0].unlink()
    with open_small(tmp_path / "store") as made:
        low = made.get("T", 0, 0).min_offset
    assert low > 0
    answer = line(served(tmp_path / "store")).ask(PULL, pull(offset=0))
    assert (answer.code, place(answer)) == (MOVED, (low, low, 200))


def test_limits_of_one_answer(served: Serve, resting: Path, line: Connected):
    talk, size = line(served(resting)), len(raw(resting)[0])
    for given, count in (
        ({"maxMsgNums": 0}, 1),
        ({"maxMsgNums": -5}, 1),
        ({"maxMsgNums": 3}, 3),
        ({"maxMsgNums": 2_000_000}, 30),
        ({"maxMsgBytes": 1}, 1),  # whole messages, one at least
        ({"maxMsgBytes": 3 * size + 1}, 3),
        ({"maxMsgBytes": 0}, 30),
        ({"maxMsgBytes": -1}, 30),
    ):
        assert len(list(records(talk.ask(PULL, pull(**given)).body))) == count, given


def test_an_answer_has_256_kib_or_one_larger_message(served: Serve, tmp_path: Path, line: Connected):
    with open_small(tmp_path / "store", mappedFileSizeCommitLog=4 << 20) as made:
        for size in (100_000, 100_000, 100_000, 1_000_000, 100):
            made.put(message(0, size=size))
    talk = line(served(tmp_path / "store"))
    counts, at = [], 0
    while (answer := talk.ask(PULL, pull(offset=at))).code == FOUND:
        counts.append(len(list(records(answer.body))))
        at = place(answer)[0]
    assert counts == [2, 1, 1, 1]


# -- subscriptions -----------------------------------------------------------------------------------------------------


def numbers(answer: RemotingFrame) -> list[int]:
    """The queue offsets in the records of an answer."""
    return [int.from_bytes(record[20:28], "big") for record in records(answer.body)]


def test_tags_of_the_request(served: Serve, resting: Path, line: Connected):
    talk = line(served(resting))
    for tags, wanted in (
        ("t1", [1]),
        (" t0 ||t2", [0, 2]),
        ("*", [0, 1, 2]),
        ("", [0, 1, 2]),
        ("t1||*", [0, 1, 2]),
    ):
        answer = talk.ask(PULL, pull(subscription=tags))
        assert numbers(answer) == [n for n in range(30) if n % 3 in wanted], tags
    none = talk.ask(PULL, pull(subscription="nobody"))
    assert (none.code, place(none)[0], none.body) == (AGAIN, 30, b""), "the client goes on behind them"


def test_tags_with_equal_hashes_both_come(served: Serve, tmp_path: Path, line: Connected):
    """The queue has the tags' hashes only; the client compares the words."""
    assert java_hash("Aa") == java_hash("BB")
    with open_small(tmp_path / "store") as made:
        for tags in ("Aa", "BB", "CC"):
            made.put(Message("T", b"x", tags=tags, queue_id=0))
    assert numbers(line(served(tmp_path / "store")).ask(PULL, pull(subscription="Aa"))) == [0, 1]


def test_the_subscription_of_a_heartbeat(served: Serve, resting: Path, line: Connected):
    talk = line(served(resting))
    asked = pull(sysFlag=0, subVersion=7)
    del asked["subscription"]
    nobody = talk.ask(PULL, asked)
    assert (nobody.code, nobody.remark) == (24, "the consumer's subscription not exist")
    talk.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "t1"}, version=6))
    old = talk.ask(PULL, asked)
    assert (old.code, old.remark) == (25, "the consumer's subscription not latest")
    talk.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "t1"}, version=7))
    assert numbers(talk.ask(PULL, asked)) == list(range(1, 30, 3))
    assert talk.ask(PULL, {**asked, "topic": "T", "consumerGroup": "H"}).code == 24
    talk.ask(HEARTBEAT, body=heartbeat("b", "G", topics={"T": "t2"}, version=8))
    assert numbers(talk.ask(PULL, asked)) == list(range(2, 30, 3)), "the newest one of the group counts"


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"topic": "Nope"}, 17, "topic[Nope] not exist, apply first please!"),
        ({"queueId": 2}, 1, "queueId[2] is illegal, topic:[T] topicConfig.readQueueNums:[2]"),
        ({"queueId": -1}, 1, "queueId[-1] is illegal, topic:[T] topicConfig.readQueueNums:[2]"),
        ({"queueId": "x"}, 1, "queueId"),
        ({"queueId": 1 << 31}, 29, "queueId"),
        ({"queueOffset": "1.5"}, 1, "queueOffset"),
        ({"queueOffset": 1 << 63}, 1, "queueOffset"),
        ({"queueOffset": ""}, 1, "queueOffset"),
        ({"maxMsgNums": "many"}, 1, "maxMsgNums"),
        ({"maxMsgNums": 1 << 40}, 29, "maxMsgNums"),
        ({"sysFlag": "yes"}, 1, "sysFlag"),
        ({"suspendTimeoutMillis": "x", "sysFlag": 6}, 1, "suspendTimeoutMillis"),
        ({"subVersion": "new"}, 1, "subVersion"),
        ({"commitOffset": "x", "sysFlag": 5}, 1, "commitOffset"),
    ],
)
def test_refusals_name_what_is_wrong(
    served: Serve, resting: Path, line: Connected, given: dict[str, Any], code: int, said: str
):
    broker = served(resting)
    answer = line(broker).ask(PULL, pull(**given))
    assert answer.code == code and said in str(answer.remark)
    assert broker.stats().failed == 0


@pytest.mark.parametrize("name", ["topic", "queueId", "queueOffset", "consumerGroup"])
def test_a_field_that_is_missing(served: Serve, resting: Path, line: Connected, name: str):
    asked = pull()
    del asked[name]
    answer = line(served(resting)).ask(PULL, asked)
    assert (answer.code, answer.remark) == (1, f"the field {name} is missing")


def test_a_topic_that_may_not_be_read(served: Serve, store: Path, line: Connected):
    config = store / "config" / "topics.json"
    told = json.loads(config.read_text(encoding="utf-8"))
    told["topicConfigTable"]["T"]["perm"] = 2
    config.write_text(json.dumps(told), encoding="utf-8")
    answer = line(served(store)).ask(PULL, pull())
    assert (answer.code, answer.remark) == (16, "the topic[T] pulling message is forbidden")


def test_a_group_that_may_not_consume(served: Serve, store: Path, line: Connected):
    path = store / "config" / "subscriptionGroup.json"
    path.write_bytes(b'{"subscriptionGroupTable":{"G":{"consumeEnable":false},"H":{"consumeEnable":true}}}')
    talk = line(served(store))
    answer = talk.ask(PULL, pull(group="G"))
    assert (answer.code, answer.remark) == (16, "subscription group no permission, G")
    assert talk.ask(PULL, pull(group="H")).code == FOUND


# -- pulls that are held -----------------------------------------------------------------------------------------------


def test_a_held_pull_gets_the_next_message(served: Serve, store: Path, line: Connected):
    broker = served(store)
    talk, busy = line(broker), line(broker)
    with open_small(store, **KEYS) as made:
        number = talk.start(PULL, pull(offset=30, **HOLD))
        assert within(lambda: broker.stats().held == 1)
        put_dispatched(made, 1, topic="Other")  # another queue does not wake it
        assert talk.is_quiet(0.2) and busy.ask(PULL, pull(offset=5)).code == FOUND
        put_dispatched(made, 2, 30)
        answer = talk.answer(number)
    assert answer.code == FOUND and list(records(answer.body)) == raw(store)[30 : 30 + len(numbers(answer))]
    assert broker.stats().held == 0


WRITER = """
import sys
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
with MessageStore(sys.argv[1], config={"mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 2000}) as store:
    print("open", flush=True)
    sys.stdin.readline()
    store.put(Message("T", b"from afar", queue_id=0))
    store.wait_dispatched(60)
    print("put", flush=True)
    sys.stdin.readline()
"""


def test_a_message_of_another_process_wakes_it(served: Serve, store: Path, line: Connected):
    broker = served(store)
    command = [sys.executable, "-c", WRITER, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdin is not None
        try:
            assert child.stdout.readline() == "open\n"
            talk = line(broker)
            number = talk.start(PULL, pull(offset=30, **HOLD))
            assert within(lambda: broker.stats().held == 1)
            child.stdin.write("go\n")
            child.stdin.flush()
            answer = talk.answer(number)
            assert answer.code == FOUND and b"from afar" in answer.body and numbers(answer) == [30]
        finally:
            child.kill()


def test_a_held_pull_with_tags_goes_on_behind_others(served: Serve, store: Path, line: Connected):
    """Messages of other tags: 20 with the next offset, from which the client pulls again."""
    broker = served(store)
    talk = line(broker)
    number = talk.start(PULL, pull(offset=30, subscription="t2", **HOLD))
    assert within(lambda: broker.stats().held == 1)
    with open_small(store, **KEYS) as made:
        put_dispatched(made, 2, 30)  # t0 and t1
        answer = talk.answer(number)
        assert answer.code == AGAIN and 30 < place(answer)[0] <= 32


def test_its_time_is_over(served: Serve, store: Path, line: Connected):
    broker = served(store)
    begin = time.monotonic()
    answer = line(broker).ask(PULL, pull(offset=30, sysFlag=6, suspendTimeoutMillis=200))
    assert (answer.code, place(answer)) == (NOT_FOUND, (30, 0, 30))
    assert 0.2 <= time.monotonic() - begin < 5 and broker.stats().held == 0


@pytest.mark.parametrize("given", [{"sysFlag": 4}, {"suspendTimeoutMillis": 0}, {"suspendTimeoutMillis": -1}])
def test_without_bit_or_time_it_does_not_wait(served: Serve, store: Path, line: Connected, given: dict[str, int]):
    answer = line(served(store)).ask(PULL, pull(offset=30, **{**HOLD, **given}))
    assert answer.code == NOT_FOUND


def test_a_queue_without_messages_may_be_waited_for(served: Serve, store: Path, line: Connected):
    broker = served(store)
    talk = line(broker)
    number = talk.start(PULL, pull(queue_id=1, **HOLD))
    assert within(lambda: broker.stats().held == 1)
    with open_small(store, **KEYS) as made:
        put_dispatched(made, 1, queue_id=1)
        assert numbers(talk.answer(number)) == [0]


def test_a_held_pull_goes_with_its_connection(served: Serve, store: Path, line: Connected):
    broker = served(store)
    talks = [line(broker) for _ in range(3)]
    for talk in talks:
        talk.start(PULL, pull(offset=30, **HOLD))
    assert within(lambda: broker.stats().held == 3)
    talks[0].close()
    assert within(lambda: broker.stats().held == 2)
    with open_small(store, **KEYS) as made:
        put_dispatched(made, 1, 30)
        assert [talk.answer(1).code for talk in talks[1:]] == [FOUND, FOUND]
    assert broker.stats().failed == 0


def test_more_than_may_be_held(served: Serve, store: Path, line: Connected, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.held.HELD_MAX", 2)
    broker = served(store)
    talk = line(broker)
    held = [talk.start(PULL, pull(offset=30, **HOLD)) for _ in range(2)]
    assert within(lambda: broker.stats().held == 2)
    assert talk.ask(PULL, pull(offset=30, **HOLD)).code == NOT_FOUND
    assert held == [1, 2] and broker.stats().held == 2


def test_many_held_pulls_of_one_connection(served: Serve, store: Path, line: Connected):
    """A client has one connection for all its queues; each answer has the number of its request."""
    broker = served(store)
    talk = line(broker)
    waiting = {talk.start(PULL, pull(offset=30, **HOLD)) for _ in range(50)}
    at_once = talk.ask(PULL, pull(offset=29))
    assert at_once.code == FOUND and within(lambda: broker.stats().held == 50)
    with open_small(store, **KEYS) as made:
        put_dispatched(made, 1, 30)
        answered = [talk.frame() for _ in waiting]
    assert {one.opaque for one in answered if one is not None and one.code == FOUND} == waiting


def test_a_oneway_pull_is_answered_by_nothing(served: Serve, store: Path, line: Connected):
    talk = line(served(store))
    talk.start(PULL, pull(), flag=2)
    talk.start(PULL, pull(topic="Nope"), flag=2)
    assert talk.ask(PULL, pull(offset=29)).opaque == 3 and talk.told == []


def test_records_of_more_than_one_queue_file(served: Serve, tmp_path: Path, line: Connected):
    stored(tmp_path / "store", 120)  # ten units a file
    expected, talk = raw(tmp_path / "store"), line(served(tmp_path / "store"))
    found, at = list[bytes](), 0
    while (answer := talk.ask(PULL, pull(offset=at, maxMsgNums=1000))).code == FOUND:
        found += records(answer.body)
        at = place(answer)[0]
    assert found == expected and at == 120

"""Single facts of a store: messages by key and by place, offsets by time, begin and end of a queue."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.format import properties, record
from flintmq.message import Message
from flintmq.testing import slow_read, write_store
from flintmq.testing.write_store import Written
from tests.broker.talk import KEYS, Line, records
from tests.support.engine import log_files, open_small, stored

Serve = Callable[..., Broker]
Connected = Callable[[Broker], Line]
QUERY, AT_TIME, END, BEGIN, EARLIEST, VIEW = 12, 29, 30, 31, 32, 33
FILE_SIZE = 1 << 20
BROKEN = [
    (QUERY, {"key": "k"}, 1, "topic"),
    (QUERY, {"topic": "T"}, 1, "key"),
    (QUERY, {"topic": "T", "key": "k", "maxNum": "x"}, 1, "maxNum"),
    (QUERY, {"topic": "T", "key": "k", "maxNum": -1}, 29, "maxNum"),
    (QUERY, {"topic": "T", "key": "k", "beginTimestamp": "then"}, 1, "beginTimestamp"),
    (QUERY, {"topic": "T", "key": "k", "endTimestamp": "now"}, 1, "endTimestamp"),
    (VIEW, {}, 1, "offset"),
    (VIEW, {"offset": "x"}, 1, "offset"),
    (VIEW, {"offset": -1}, 29, "offset"),
    (AT_TIME, {"topic": "T", "queueId": 0}, 1, "timestamp"),
    (AT_TIME, {"topic": "T", "queueId": 0, "timestamp": ""}, 1, "timestamp"),
    (AT_TIME, {"topic": "T", "timestamp": 0}, 1, "queueId"),
    (END, {"topic": "T"}, 1, "queueId"),
    (END, {"queueId": 0}, 1, "topic"),
    (BEGIN, {"topic": "T", "queueId": "0x1"}, 1, "queueId"),
    (EARLIEST, {"topic": "T", "queueId": 1 << 33}, 29, "queueId"),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Three hundred messages of a minute, each with a key of its own and some that others have, too."""
    return write_store(
        tmp_path_factory.mktemp("lookup") / "shop", 300, topics=["Orders"], queues=2, keys=20, duration_ms=60_000,
        commit_log_file_size=FILE_SIZE, peer="5.4.0",
    )  # fmt: skip


@pytest.fixture(scope="module")
def there(shop: Written) -> list[record.Record]:
    """Its records, by the slow codec."""
    return slow_read.records(shop.path, FILE_SIZE)


@pytest.fixture(scope="module")
def log(shop: Written) -> bytes:
    return slow_read.log_bytes(shop.path)[0]


def raw(log: bytes, one: record.Record) -> bytes:
    return log[one.physical_offset :][: one.size]


def keys(one: record.Record) -> list[str]:
    return properties.parse_bytes(one.properties)["KEYS"].split()


def tags_of(one: record.Record) -> str | None:
    return properties.parse_bytes(one.properties).get("TAGS")


# -- by key ------------------------------------------------------------------------------------------------------------


def test_by_a_key_of_one_message(served: Serve, shop: Written, there: list[record.Record], log: bytes, line: Connected):
    talk = line(served(shop.path))
    for one in (there[0], there[57], there[-1]):
        answer = talk.ask(QUERY, {"topic": "Orders", "key": keys(one)[0], "maxNum": 32})
        assert (answer.code, answer.body) == (0, raw(log, one))
        assert answer.fields["indexLastUpdateTimestamp"] == str(one.store_timestamp)
        assert answer.fields["indexLastUpdatePhyoffset"] == str(one.physical_offset)


def test_by_a_key_of_many(served: Serve, shop: Written, there: list[record.Record], log: bytes, line: Connected):
    """The newest ones, within the times that are asked for, both included."""
    talk, [(key, _)] = line(served(shop.path)), Counter(key for one in there for key in keys(one)).most_common(1)
    having = [one for one in there if key in keys(one)]
    assert 5 < len(having) < 64
    times = [one.store_timestamp for one in having]
    for given, wanted in (
        ({"maxNum": 64}, having[-64:]),
        ({"maxNum": 3}, having[-3:]),
        ({"maxNum": 1 << 30, "indexType": "K"}, having[-64:]),
        ({}, having[-64:]),
        ({"maxNum": 64, "beginTimestamp": times[1], "endTimestamp": times[3]}, having[1:4]),
        ({"maxNum": 64, "beginTimestamp": times[-2]}, having[-2:]),
        ({"maxNum": 1, "endTimestamp": times[2]}, having[2:3]),
    ):
        answer = talk.ask(QUERY, {"topic": "Orders", "key": key, **given})
        assert list(records(answer.body)) == [raw(log, one) for one in wanted], given


@pytest.mark.parametrize(
    "given",
    [
        {"key": "nobody"},
        {"key": ""},
        {"topic": "Nope"},
        {"beginTimestamp": 1 << 60},
        {"endTimestamp": 0},
        {"maxNum": 0},
        {"indexType": "T"},
    ],
)
def test_nothing_has_the_key(
    served: Serve, shop: Written, there: list[record.Record], line: Connected, given: dict[str, Any]
):
    answer = line(served(shop.path)).ask(QUERY, {"topic": "Orders", "key": keys(there[0])[1], **given})
    assert (answer.code, answer.body) == (22, b"")
    assert answer.remark == "can not find message, maybe time range not correct"


def test_by_unique_key(served: Serve, tmp_path: Path, line: Connected):
    """The command `queryMsgByUniqueKey` asks so."""
    with open_small(tmp_path / "store", unique_keys=True, **KEYS) as made:
        for number in range(3):
            made.put(Message("T", b"%d" % number, tags="red", queue_id=0))
        made.wait_dispatched(60)
        expected = [one.raw for one in made.get("T", 0, 0).messages]
        ids = [one.properties["UNIQ_KEY"] for one in made.get("T", 0, 0).messages]
    talk = line(served(tmp_path / "store"))
    for one, raw_one in zip(ids, expected, strict=True):
        asked = {"topic": "T", "key": one, "maxNum": 32, "indexType": "U", "_UNIQUE_KEY_QUERY": "true"}
        assert talk.ask(QUERY, asked).body == raw_one


def test_by_tags(served: Serve, shop: Written, there: list[record.Record], log: bytes, line: Connected):
    """The index of 5.4.0 and later has them, too."""
    talk, [(tags, _)] = line(served(shop.path)), Counter(map(tags_of, there)).most_common(1)
    having = [raw(log, one) for one in there if tags_of(one) == tags]
    answer = talk.ask(QUERY, {"topic": "Orders", "key": tags, "maxNum": 5, "indexType": "T"})
    assert tags and list(records(answer.body)) == having[-5:]
    assert talk.ask(QUERY, {"topic": "Orders", "key": tags, "maxNum": 5}).code == 22, "no key has this text"


def test_more_than_a_frame_may_hold(served: Serve, tmp_path: Path, line: Connected):
    """Five messages of 3 MiB have the key: the newest two fit into 8 MiB, and a frame has at most 16."""
    with open_small(tmp_path / "store", mappedFileSizeCommitLog=32 << 20) as made:
        for number in range(5):
            made.put(Message("T", bytes([number]) * (3 << 20), keys="big", queue_id=0))
        made.wait_dispatched(60)
        expected = [one.raw for one in made.get("T", 0, 3, 1).messages + made.get("T", 0, 4, 1).messages]
    answer = line(served(tmp_path / "store")).ask(QUERY, {"topic": "T", "key": "big", "maxNum": 64})
    assert answer.code == 0 and list(records(answer.body)) == expected


# -- by place ----------------------------------------------------------------------------------------------------------


def test_by_place(served: Serve, shop: Written, there: list[record.Record], log: bytes, line: Connected):
    talk = line(served(shop.path))
    for one in there[::40]:
        answer = talk.ask(VIEW, {"offset": one.physical_offset})
        assert (answer.code, answer.body) == (0, raw(log, one))
    for offset in (1, shop.max_offset, 1 << 60):
        answer = talk.ask(VIEW, {"offset": offset})
        assert answer.code == 1 and f"can not find message by the offset, {offset}" in str(answer.remark)


# -- in a queue --------------------------------------------------------------------------------------------------------


def test_by_time(served: Serve, shop: Written, there: list[record.Record], line: Connected):
    """LOWER: the first message at or after a time. UPPER: the last one at or before it."""
    talk = line(served(shop.path))
    for queue_id in (0, 1):
        times = [one.store_timestamp for one in there if one.queue_id == queue_id]
        for time in {times[0], times[7], times[7] + 1, times[7] - 1, times[-1], times[0] - 5, times[-1] + 5}:
            asked = {"topic": "Orders", "queueId": queue_id, "timestamp": time}
            lower = next((n for n, one in enumerate(times) if one >= time), len(times))
            upper = max((n for n, one in enumerate(times) if one <= time), default=0)
            for boundary, expected in (
                ({}, lower),
                ({"boundaryType": "LOWER"}, lower),
                ({"boundaryType": "UPPER"}, upper),
            ):
                answer = talk.ask(AT_TIME, {**asked, **boundary})
                assert (answer.code, answer.fields) == (0, {"offset": str(expected)}), (asked, boundary)


def test_begin_and_end(served: Serve, shop: Written, there: list[record.Record], line: Connected):
    talk = line(served(shop.path))
    for queue_id in (0, 1):
        asked = {"topic": "Orders", "queueId": queue_id}
        own = [one for one in there if one.queue_id == queue_id]
        assert talk.ask(BEGIN, asked).fields == {"offset": "0"}
        assert talk.ask(END, {**asked, "committed": "true"}).fields == {"offset": str(len(own))}
        assert talk.ask(EARLIEST, asked).fields == {"timestamp": str(own[0].store_timestamp)}


@pytest.mark.parametrize("place", [("Orders", 9), ("Orders", -1), ("Nope", 0)])
def test_of_a_queue_that_is_not_there(served: Serve, shop: Written, line: Connected, place: tuple[str, int]):
    """RocketMQ answers 0 and -1, and makes the queue; a client takes the 0 as the offset to begin at."""
    talk, asked = line(served(shop.path)), {"topic": place[0], "queueId": place[1]}
    assert (talk.ask(BEGIN, asked).fields, talk.ask(END, asked).fields) == ({"offset": "0"}, {"offset": "0"})
    assert talk.ask(EARLIEST, asked).fields == {"timestamp": "-1"}
    assert talk.ask(AT_TIME, {**asked, "timestamp": shop.last_ms}).fields == {"offset": "0"}


def test_after_retention_took_the_first_files(served: Serve, tmp_path: Path, line: Connected):
    stored(tmp_path / "store", 200)
    log_files(tmp_path / "store")[0].unlink()
    first = next(one for one in slow_read.records(tmp_path / "store", 4096))
    talk, asked = line(served(tmp_path / "store")), {"topic": "T", "queueId": 0}
    assert first.queue_offset > 0
    assert talk.ask(BEGIN, asked).fields == {"offset": str(first.queue_offset)}
    assert talk.ask(END, asked).fields == {"offset": "200"}
    assert talk.ask(EARLIEST, asked).fields == {"timestamp": str(first.store_timestamp)}
    assert talk.ask(AT_TIME, {**asked, "timestamp": 0}).fields == {"offset": str(first.queue_offset)}
    assert talk.ask(VIEW, {"offset": 0}).code == 1


@pytest.mark.parametrize(("asked", "fields", "code", "said"), BROKEN)
def test_refusals_name_the_field(
    served: Serve, resting: Path, line: Connected, asked: int, fields: dict[str, Any], code: int, said: str
):
    broker = served(resting)
    answer = line(broker).ask(asked, fields)
    assert answer.code == code and said in str(answer.remark) and broker.stats().failed == 0

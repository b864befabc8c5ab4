"""Batches: all of their messages or none, one after the other in one file; as one record in topics of type BatchCQ."""

from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.format import inner_batch
from flintmq.format.batch_queue import BATCH_UNIT
from flintmq.message import GetMessageStatus, Message, PutMessageStatus, PutResult
from flintmq.store.append.batch import put_batch
from tests.store.append.test_commit_log import Log
from tests.support.engine import FILE_SIZE, open_small, records, units
from tests.support.interrupts import interrupted_at

OK, ILLEGAL = PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL
TOO_LONG = "x" * 20_000


def batch(count: int, size: int = 10, **rest: Any) -> list[Message]:
    return [Message("T", b"%03d" % n + bytes(size), flag=n, **rest) for n in range(count)]


def statuses(results: list[PutResult]) -> set[PutMessageStatus]:
    return {result.status for result in results}


def test_each_message_is_a_record_and_offsets_follow_each_other(tmp_path: Path):
    with open_small(tmp_path) as store:
        store.put(Message("T", b"before"))
        results = store.put_batch(batch(3, tags="t"))
        assert statuses(results) == {OK} and [r.queue_offset for r in results] == [1, 2, 3]
        assert [r.physical_offset for r in results[1:]] == [r.physical_offset + r.size for r in results[:2]]
        assert store.put(Message("T", b"after")).queue_offset == 4
    found = records(tmp_path)
    assert [r.body[:3] for r in found] == [b"bef", b"000", b"001", b"002", b"aft"]
    assert [r.flag for r in found[1:4]] == [0, 1, 2] and [r.properties for r in found[1:4]] == [b"TAGS\1t\2"] * 3
    assert len({r.store_timestamp for r in found[1:4]}) == 1 and [u.size for u in units(tmp_path)][1:4] == [
        r.size for r in results
    ]


def test_a_batch_that_does_not_fit_moves_to_the_next_file_as_a_whole(tmp_path: Path):
    with open_small(tmp_path) as store:
        store.put(Message("T", bytes(FILE_SIZE - 900)))
        results = store.put_batch(batch(6, 100))
        assert statuses(results) == {OK} and results[0].physical_offset == FILE_SIZE
    assert [r.queue_offset for r in records(tmp_path)] == list(range(7))


@pytest.mark.parametrize("spare", [0, 1])
def test_a_batch_fills_a_file_but_for_eight_bytes_and_no_further(tmp_path: Path, spare: int):
    """D8: upstream answers PUT_OK for what no file holds, stores nothing and wastes a file."""
    rest = FILE_SIZE - 8 - sum(91 + 1 + len(m.body) for m in batch(3)) + spare
    messages = [*batch(3), Message("T", bytes(rest - 92), flag=9)]
    with open_small(tmp_path) as store:
        results = store.put_batch(messages)
        assert statuses(results) == {ILLEGAL if spare else OK}
        assert store._parts.log.end == (0 if spare else FILE_SIZE - 8)


@pytest.mark.parametrize("peer", ["5.3.3", "5.4.0", "5.5.0"])
@pytest.mark.parametrize(
    ("own", "stored"),
    [(b"", b"CLUSTER\1c\2"), (b"a\1b\2", b"a\1b\2CLUSTER\1c\2"), (b"a\1b", b"a\1b\2CLUSTER\1c\2")],
)
def test_the_batchs_own_properties_go_to_each_message_in_533_and_nowhere_in_540(
    tmp_path: Path, peer: str, own: bytes, stored: bytes
):
    log = Log(tmp_path)
    messages = [Message("T", b"x", properties_bytes=own)] * 2
    assert statuses(put_batch(log.log, messages, {"CLUSTER": "c"}, peer)) == {OK}
    assert [r.properties for r in log.records()] == [stored if peer == "5.3.3" else own] * 2


def test_d32_properties_that_are_too_long_together_are_refused(tmp_path: Path):
    """Upstream's length wraps; the next clean start throws away everything behind such a record."""
    messages = [Message("T", b"x", properties={"a": TOO_LONG})]
    log = Log(tmp_path, mappedFileSizeCommitLog=1 << 20)
    assert statuses(put_batch(log.log, messages, {"b": TOO_LONG}, "5.3.3")) == {ILLEGAL}
    assert log.log.end == 0


@pytest.mark.parametrize(
    "messages",
    [
        batch(2, delay_level=1),
        batch(2, sys_flag=4),
        batch(2, sys_flag=8),
        batch(2, sys_flag=0x80),
        batch(2, prepared_transaction_offset=7),
        batch(2, properties={"INNER_NUM": "2"}),
        batch(2, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}),
        batch(2, properties={"a": "\1"}),
        batch(2, born_host="nowhere"),
        [Message("a/b", b"x")],
        batch(2, queue_id=-1),
        batch(4, 950),
    ],
    ids=lambda m: f"{m[0]!r:.120}",
)
def test_refused_as_a_whole(tmp_path: Path, messages: list[Message]):
    with open_small(tmp_path, maxMessageSize="3000") as store:
        results = store.put_batch(messages)
        assert len(results) == len(messages) and statuses(results) == {ILLEGAL} and store._parts.log.end == 0
        assert store.stats().puts_refused == {"MESSAGE_ILLEGAL": len(messages)}


def test_what_a_batch_has_once_must_be_the_same(tmp_path: Path):
    with open_small(tmp_path) as store:
        for other in ({"queue_id": 1}, {"born_timestamp": 5}, {"reconsume_times": 1}, {"sys_flag": 1}):
            with pytest.raises(UsageError, match=next(iter(other))):
                store.put_batch([*batch(1), Message("T", b"x", **other)])
        with pytest.raises(UsageError, match="topic"):
            store.put_batch([*batch(1), Message("U")])
        assert store.put_batch([]) == [] and store._parts.log.end == 0


def test_a_batch_counts_as_a_whole_or_not_at_all_where_a_signal_falls(tmp_path: Path):
    """SIGINT anywhere in it: the next put finishes it or takes it back."""
    step = 0
    while True:
        log = Log(tmp_path / f"{step}")
        log.put(body=bytes(FILE_SIZE - 700))
        before = log.log.end
        if not interrupted_at(step, lambda log=log: put_batch(log.log, batch(5, 60), None, "5.3.3")):
            break
        assert not log.log.lock.locked(), step
        after = log.put(body=b"after")
        found = log.records()
        assert [r.queue_offset for r in found] == list(range(len(found))) and len(found) in (2, 7), step
        assert found[-1].physical_offset == after.physical_offset and after.queue_offset == len(found) - 1, step
        assert found[1].physical_offset in (before, FILE_SIZE), step
        step += 1
    assert step > 20


def test_into_a_topic_of_type_batchcq_a_batch_goes_as_one_record(tmp_path: Path):
    with open_small(tmp_path) as store:
        store.create_topic("T", 2, "BatchCQ")
        store.put(Message("T", b"single"))
        results = store.put_batch(batch(3, keys="k"), {"UNIQ_KEY": "u"})
        assert [(r.queue_offset, r.physical_offset) for r in results] == [
            (n, results[0].physical_offset) for n in (1, 2, 3)
        ]
        assert statuses(results) == {OK} and store.put(Message("T", b"next")).queue_offset == 4
        assert store.wait_dispatched(60)
    single, whole, following = records(tmp_path)
    assert (whole.sys_flag, whole.queue_offset, following.queue_offset) == (0xC0, 1, 4)
    assert whole.properties == b"INNER_BASE\0011\2UNIQ_KEY\1u\2INNER_NUM\0013\2"  # in the order of upstream's map
    entries = list(inner_batch.iterate(whole.body))
    assert [(e.flag, e.body[:3], e.properties) for e in entries] == [(n, b"%03d" % n, b"KEYS\1k\2") for n in range(3)]
    data = (tmp_path / "batchconsumequeue/T/0" / ("0" * 20)).read_bytes()
    found = [(u.physical_offset, u.size, u.base_offset, u.messages) for u in BATCH_UNIT.iter(data[: 3 * 46])]
    assert found == [
        (r.physical_offset, r.size, base, n) for r, base, n in ((single, 0, 1), (whole, 1, 3), (following, 4, 1))
    ]
    assert not any(data[3 * 46 :]) and not (tmp_path / "consumequeue").exists()


def test_inner_batches_are_read_back_and_go_on_after_a_restart(tmp_path: Path):
    for turn in range(3):
        with open_small(tmp_path, mapperFileSizeBatchConsumeQueue="92") as store:
            if not turn:
                store.create_topic("T", 1, "BatchCQ")
            results = store.put_batch(batch(4))
            assert [r.queue_offset for r in results] == [4 * turn + n for n in range(4)]
            assert store.wait_dispatched(60)
            got = store.get("T", 0, 4 * turn + 2)  # inside the batch: the record that holds it
            assert (got.status, got.next_begin_offset, got.min_offset, got.max_offset) == (
                GetMessageStatus.FOUND, 4 * turn + 4, 0, 4 * turn + 4,
            )  # fmt: skip
            assert [m.physical_offset for m in got.messages] == [results[0].physical_offset]
            assert store.get("T", 0, 4 * turn + 4).status is GetMessageStatus.OFFSET_OVERFLOW_ONE


@pytest.mark.parametrize("messages", [batch(2, delay_level=1), batch(2, sys_flag=0x80)])
def test_an_inner_batch_is_refused_for_what_no_entry_can_say(tmp_path: Path, messages: list[Message]):
    with open_small(tmp_path) as store:
        store.create_topic("T", 1, "BatchCQ")
        assert statuses(store.put_batch(messages)) == {ILLEGAL} and store._parts.log.end == 0


def test_all_messages_together_may_be_no_larger_than_one(tmp_path: Path):
    """maxMessageSize bounds the batch: each message fits, the sum of entries (22 bytes, body, properties) must too."""
    with open_small(tmp_path, maxMessageSize=1000) as store:
        fits = [Message("T", bytes(478)), Message("T", bytes(478))]
        assert statuses(store.put_batch(fits)) == {PutMessageStatus.PUT_OK}
        assert statuses(store.put_batch([*fits[:1], Message("T", bytes(479))])) == {PutMessageStatus.MESSAGE_ILLEGAL}
    assert len(records(tmp_path)) == 2


@pytest.mark.parametrize("spare", [0, 1, 7, 8])
def test_a_batch_that_fits_only_without_the_blank_rolls(tmp_path: Path, spare: int):
    """Behind it there must be room for the eight bytes of a blank; with less, it begins the next file."""
    messages = batch(3)
    size = sum(91 + 1 + len(m.body) for m in messages)
    first = FILE_SIZE - size - spare
    with open_small(tmp_path) as store:
        assert store.put(Message("T", bytes(first - 92))).physical_offset == 0
        assert store._parts.log.end == first
        results = store.put_batch(messages)
        assert statuses(results) == {OK}
        assert results[0].physical_offset == (first if spare == 8 else FILE_SIZE)
    assert [r.queue_offset for r in records(tmp_path)] == [0, 1, 2, 3]

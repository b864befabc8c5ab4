"""Blocks from pieces: queues told apart, slow records among fast ones, small arrays that fill up."""

from pathlib import Path

import pytest

from flintmq.format import record
from flintmq.format.consume_queue import UNIT
from flintmq.format.index import key_hash
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.dispatch import dispatcher as module
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.layout.queue_name import Queue, path_name

BATCHED = b"INNER_NUM\x013\x02INNER_BASE\x019\x02UNIQ_KEY\x01u\x02"
LIGHT = b"INNER_MULTI_DISPATCH\x01%LMQ%x,y\x02INNER_MULTI_QUEUE_OFFSET\x014,5\x02"
RULES = DispatchRules(delay_ms=(1000, 5000), batch_topics=frozenset({b"Batch"}), light_queues=True)


def log_of(folder: Path, *records: record.Record) -> LogFiles:
    data = b""
    for one in records:
        data += record.encode(one._replace(physical_offset=len(data), body_crc=record.crc(one.body)))
    (folder / f"{0:020d}").write_bytes(data + bytes(64))
    return LogFiles.discover([str(folder)])


def dispatched(log: LogFiles, rules: DispatchRules = RULES) -> tuple[dict[Queue, list[tuple[int, int]]], list[int]]:
    """Queue -> (queue offset, physical offset) of its units, and the hashes of all keys."""
    dispatcher, found, hashes = Dispatcher(rules), {}, []
    for piece in LogWalk(log):
        for block in dispatcher.blocks(piece):
            for number, first, end in block.queues:
                found.setdefault(dispatcher.queues.keys[number], []).extend(
                    (block.offsets[n], UNIT.unpack(block.units, 20 * n).physical_offset) for n in range(first, end)
                )
            for number, unit in block.batch_units:
                found.setdefault(dispatcher.queues.keys[number], []).append((unit.base_offset, unit.physical_offset))
            hashes += block.key_hashes[: block.keys]
    return found, hashes


def test_slow_records_stand_among_fast_ones_in_log_order(tmp_path: Path) -> None:
    records = [
        record.Record(topic=b"T", queue_offset=0, properties=b"KEYS\x01a\x02"),
        record.Record(topic=b"T", queue_offset=1, properties=b"KEYS\x01\xff b\x02"),
        record.Record(topic=b"Batch", queue_offset=7, properties=BATCHED),
        record.Record(topic=b"T", queue_offset=2, sys_flag=record.TRANSACTION_PREPARED, properties=b"KEYS\x01p\x02"),
        record.Record(topic=b"T", queue_offset=2, properties=LIGHT),
        record.Record(topic=b"T", queue_offset=3, queue_id=9, properties=b"KEYS\x01c\x02"),
    ]  # fmt: skip
    log = log_of(tmp_path, *records)
    at = [0]
    for one in records:
        at.append(at[-1] + one.size)
    found, hashes = dispatched(log)
    assert found == {
        Queue("consumequeue", b"T", 0): [(0, at[0]), (1, at[1]), (2, at[4])],
        Queue("batchconsumequeue", b"Batch", 0): [(9, at[2])],
        Queue("consumequeue", b"%LMQ%x", 0): [(4, at[4])],
        Queue("consumequeue", b"y", 0): [(5, at[4])],
        Queue("consumequeue", b"T", 9): [(3, at[5])],
    }
    names = [("T", "a"), ("T", "\ufffd"), ("T", "b"), ("Batch", "u"), ("T", "p"), ("T", "c")]
    assert hashes == [key_hash(topic, key) for topic, key in names]


def test_without_index_and_light_queues_neither_is_made(tmp_path: Path) -> None:
    text = b"KEYS\x01k\x02INNER_MULTI_DISPATCH\x01x\x02INNER_MULTI_QUEUE_OFFSET\x014\x02"
    log = log_of(tmp_path, record.Record(topic=b"T", properties=text))
    assert dispatched(log, DispatchRules((1000,), index=False)) == ({Queue("consumequeue", b"T", 0): [(0, 0)]}, [])


def test_more_queues_than_the_table_begins_with(tmp_path: Path) -> None:
    records = [record.Record(topic=b"T%d" % (n % 1500), queue_offset=n // 1500) for n in range(4500)]
    found, _ = dispatched(log_of(tmp_path, *records))
    assert len(found) == 1500
    assert all([offset for offset, _ in units] == [0, 1, 2] for units in found.values())


def test_full_arrays_make_more_blocks_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = b"KEYS\x01" + b"k " * 400 + b"\x02"
    log = log_of(tmp_path, *[record.Record(topic=b"T", queue_offset=n, properties=keys) for n in range(50)])
    whole = dispatched(log)
    monkeypatch.setattr(module, "MOST_KEYS", 1000)
    assert dispatched(log) == whole
    assert len(whole[1]) == 50 * 400


def test_units_that_are_held_back_come_later_and_are_all_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        record.Record(topic=b"T", queue_offset=n, store_timestamp=n, properties=b"KEYS\x01k\x02") for n in range(95)
    ]
    log = log_of(tmp_path, *records)
    monkeypatch.setattr(module, "ENOUGH_UNITS", 30)
    dispatcher, sizes, offsets, lasts = Dispatcher(RULES), [], [], []
    for piece in LogWalk(log, max_rows=7):
        for block in dispatcher.blocks(piece, hold=True):
            sizes.append((block.queues[0][2], block.keys))
            offsets += block.offsets[: block.queues[0][2]]
            lasts.append((block.last_offset, block.last_time))
    assert sizes == [(35, 35), (35, 35)]
    rest = list(dispatcher.rest())
    assert [block.keys for block in rest] == [25]
    assert [*offsets, *rest[0].offsets[:25]] == list(range(95))
    size = records[0].size
    assert [*lasts, (rest[0].last_offset, rest[0].last_time)] == [(34 * size, 34), (69 * size, 69), (94 * size, 94)]
    assert list(dispatcher.rest()) == []


@pytest.mark.parametrize("topic", [b"", b".", b"..", b"a/b", b"a\0b", b"x" * 256])
def test_topics_that_cannot_be_directories(topic: bytes) -> None:
    assert path_name(topic) is None and Queue("consumequeue", topic, 0).path is None


def test_any_other_topic_is_a_directory_as_java_names_it() -> None:
    assert path_name("日本".encode()) == "日本"
    assert Queue("consumequeue", b"%RETRY%g", -5).path == "consumequeue/%RETRY%g/-5"

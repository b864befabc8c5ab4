"""What the first stage of a job leaves: it is read back as it was written, queue by queue, key by key."""

from pathlib import Path

import pytest

from flintmq.format.consume_queue import UNIT
from flintmq.format.index import key_hash, keys_of
from flintmq.message import StoredMessage
from flintmq.spark.jobs import staged
from flintmq.spark.jobs.staged import Stage, StageWriter
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from tests.compat.stores import Golden

RULES = DispatchRules(delay_ms=(1000,), batch_topics=frozenset({b"BatchTopic"}))


def stage(golden: Golden, into: Path, with_times: bool = True) -> tuple[Stage, list[StoredMessage]]:
    """The whole log of a store as one task's stage, and its records."""
    dispatcher, writer, records = Dispatcher(RULES), StageWriter(str(into), with_times), []
    for piece in LogWalk(LogFiles.discover([str(golden.path / "commitlog")])):
        for at in piece.positions[: piece.count]:
            size = int.from_bytes(piece.data[at : at + 4], "big")
            records.append(StoredMessage(bytes(piece.data[at : at + size])))
        for block in dispatcher.blocks(piece):
            writer.take(block)
    return Stage.of(writer.finish(dispatcher)), records


@pytest.mark.parametrize("with_times", [True, False])
def test_units_come_back_by_queue_in_log_order(golden, tmp_path: Path, with_times: bool) -> None:  # type: ignore[no-untyped-def]
    left, records = stage(golden("basic"), tmp_path, with_times)
    for number, queue in enumerate(left.queues):
        wanted = [r for r in records if (r.fields.topic, r.queue_id) == (queue.queue.topic, queue.queue_id)]
        offsets: list[int] = []
        times: list[int] = []
        places: list[int] = []
        for got, at, stored, units in staged.segments(left.path, {number}, with_times):
            assert got == number
            offsets += at
            times += stored
            places += [unit.physical_offset for unit in UNIT.iter(units)]
        assert offsets == [r.queue_offset for r in wanted] and places == [r.physical_offset for r in wanted]
        assert times == ([r.store_timestamp for r in wanted] if with_times else [])
        assert queue.units == len(wanted)
    assert sum(queue.units for queue in left.queues) == len(records) == 3000


def test_keys_come_back_by_their_numbers(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    left, records = stage(golden("basic"), tmp_path)
    expected = [
        (key_hash(r.topic, key), r.physical_offset, r.store_timestamp)
        for r in records
        for key in keys_of(r.properties, r.sys_flag)
    ]
    assert left.keys == len(expected)
    for first, end in ((0, left.keys), (17, 18), (100, 4000), (5, 5)):
        found = [key for parts in staged.keys(left.path, first, end) for key in zip(*parts, strict=True)]
        assert found == expected[first:end]


def test_batch_units_come_back(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    left, records = stage(golden("batch"), tmp_path)
    numbers = {n for n, queue in enumerate(left.queues) if queue.kind == "batchconsumequeue"}
    found = [unit.physical_offset for _, unit in staged.batch_units(left.path, numbers)]
    assert found == [r.physical_offset for r in records if r.topic == "BatchTopic"] and found
    assert list(staged.batch_units(left.path, set())) == []


def test_each_attempt_has_a_directory_of_its_own(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    one, _ = stage(golden("batch"), tmp_path)
    other, _ = stage(golden("batch"), tmp_path)
    assert one.path != other.path and one.queues == other.queues

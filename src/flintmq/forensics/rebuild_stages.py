"""A rebuild in two stages of independent tasks, for a cluster. The bytes are those of `rebuild`.

Stage one, a task a range of the log: walk it, and write what it gives into a part of the staging directory: units,
chunk by chunk as the blocks come, with a table of contents; index keys as three plain arrays, so that any key can be
read by its number. Stage two: a task a bucket of queues places their units, part by part in log order; a task an index
file inserts its keys. The driver sees counts, and reads one key's time for each index file to name it.

A task may be run again: parts are renamed into place when they are whole, and a bucket or an index file begins with
removing what an earlier attempt left. Two attempts at the same time (speculation) are not supported.
"""

from __future__ import annotations

import json
import os
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from flintmq.errors import CorruptStoreError
from flintmq.forensics.rebuild import RebuildPlan, queue_writer
from flintmq.format.batch_queue import BATCH_UNIT
from flintmq.store.dispatch import BATCH, Block, Dispatcher, Queue
from flintmq.store.index_writer import IndexFileWriter, file_name
from flintmq.store.log import LogWalk
from flintmq.store.queue_writer import UNIT_SIZE, BatchQueueWriter, OpenFiles, QueueWriter
from flintmq.store.report import Report

PARTS = "parts"
KEY_ARRAYS = (("hash", "i"), ("offset", "q"), ("time", "q"))
KEYS_A_STEP = 1 << 18


class Part(NamedTuple):
    """What a task of stage one tells: counts, and the log's last record in its range (offset -1 if there is none)."""

    number: int
    records: int
    units: int
    keys: int
    last_offset: int
    last_time: int


class Chunk(NamedTuple):
    """Units of one queue in a part's file of units."""

    kind: str
    topic: str  # hexadecimal: topics are raw bytes
    queue_id: int
    light: bool
    position: int
    count: int

    @property
    def queue(self) -> Queue:
        return Queue(self.kind, bytes.fromhex(self.topic), self.queue_id)


class IndexTask(NamedTuple):
    """One index file: its name, the range of keys it holds, and the end of the file before it."""

    name: str
    first: int
    end: int
    begin_offset: int
    begin_time: int


def _path(plan: RebuildPlan, part: int, what: str) -> str:
    return os.path.join(plan.staging, PARTS, f"{part:06d}.{what}")


# -- stage one ------------------------------------------------------------------------------------------------------


def stage_part(plan: RebuildPlan, number: int, begin: int, end: int) -> Part:
    """Read the records that start in [begin, end) of the log and write what they give into part `number`.

    Args:
        plan: of the rebuild.
        number: of the part; parts are in log order.
        begin: log offset of a record's first byte, as the neighbour's end was cut.
        end: log offset, where the next part begins.

    Raises:
        CorruptStoreError: damage within the range.
    """
    plan.log.effects.mkdirs(os.path.join(plan.staging, PARTS))
    walk = LogWalk(plan.log, plan.facts, begin, end)
    dispatcher = Dispatcher(plan.rules)
    records = units = keys = 0
    last = (-1, 0)
    with _PartFiles(plan, number) as files:
        for piece in walk:
            records += piece.count
            for block in dispatcher.blocks(piece):
                units += files.write(block, dispatcher)
                keys += block.keys
                last = block.last_offset, block.last_time
    return Part(number, records, units, keys, *last)


class _PartFiles:
    """The files of one part, renamed into place when they are whole."""

    def __init__(self, plan: RebuildPlan, number: int) -> None:
        self.plan, self.number = plan, number
        self.names = ["units", "toc", *(name for name, _ in KEY_ARRAYS)]
        self.chunks: list[Chunk] = []
        self.position = 0

    def __enter__(self) -> _PartFiles:
        self.stack = ExitStack()
        self.files = {n: self.stack.enter_context(open(self._temporary(n), "wb", 1 << 20)) for n in self.names}
        return self

    def _temporary(self, name: str) -> str:
        return f"{_path(self.plan, self.number, name)}.{os.getpid()}"

    def write(self, block: Block, dispatcher: Dispatcher) -> int:
        """Append one block; gives its units."""
        units = 0
        out = self.files["units"]
        for number, first, end in block.queues:
            self._chunk(dispatcher, number, end - first)
            out.write(block.offsets[first:end])
            out.write(block.times[first:end])
            out.write(block.units[UNIT_SIZE * first : UNIT_SIZE * end])
            self.position += (16 + UNIT_SIZE) * (end - first)
            units += end - first
        for number, unit in block.batch_units:
            self._chunk(dispatcher, number, 1)
            out.write(BATCH_UNIT.pack(unit))
            self.position += BATCH_UNIT.size
            units += 1
        for (name, _), values in zip(
            KEY_ARRAYS, (block.key_hashes, block.key_offsets, block.key_times), strict=True
        ):
            self.files[name].write(memoryview(values)[: block.keys])
        return units

    def _chunk(self, dispatcher: Dispatcher, number: int, count: int) -> None:
        queue = dispatcher.queues.keys[number]
        light = number in dispatcher.light_numbers
        self.chunks.append(Chunk(queue.kind, queue.topic.hex(), queue.queue_id, light, self.position, count))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.files["toc"].write(json.dumps(self.chunks).encode())
        self.stack.close()
        for name in self.names:
            if kind is None:
                os.replace(self._temporary(name), _path(self.plan, self.number, name))
            else:
                with suppress(FileNotFoundError):
                    os.unlink(self._temporary(name))


# -- stage two: queues --------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """What a bucket's task tells."""

    queues: int
    units: int
    notes: dict[str, int]


def bucket_of(queue: Queue, buckets: int) -> int:
    """Which task places this queue."""
    return zlib.crc32(b"%s/%d" % (queue.topic, queue.queue_id)) % buckets


def place_bucket(plan: RebuildPlan, parts: Sequence[int], bucket: int, buckets: int) -> Placed:
    """Write the queues of one bucket, from all parts in log order.

    Raises:
        OSError: a part cannot be read, or a queue file cannot be written.
    """
    report = Report()
    files = OpenFiles(plan.log.effects)
    plain: dict[Queue, QueueWriter | None] = {}
    batch: dict[Queue, BatchQueueWriter | None] = {}
    units = 0
    for part in parts:
        with open(_path(plan, part, "toc"), "rb") as toc:
            chunks = [Chunk(*values) for values in json.load(toc)]
        with open(_path(plan, part, "units"), "rb") as source:
            for chunk in chunks:
                if bucket_of(chunk.queue, buckets) != bucket:
                    continue
                source.seek(chunk.position)
                if chunk.kind == BATCH:
                    _place_batch(plan, files, batch, chunk, source.read(BATCH_UNIT.size * chunk.count))
                else:
                    data = source.read((16 + UNIT_SIZE) * chunk.count)
                    _place_plain(plan, files, plain, chunk, data, report)
                units += chunk.count
    files.close()
    return Placed(sum(w is not None for w in (*plain.values(), *batch.values())), units, dict(report.note_counts))


def _place_plain(
    plan: RebuildPlan,
    files: OpenFiles,
    writers: dict[Queue, QueueWriter | None],
    chunk: Chunk,
    data: bytes,
    report: Report,
) -> None:
    queue, count = chunk.queue, chunk.count
    if queue not in writers:
        writers[queue] = writer = queue_writer(plan, files, queue.path, chunk.light, report)
        if writer is not None:
            writer.clear()
    writer = writers[queue]
    if writer is not None:
        view = memoryview(data)
        offsets, times = view[: 8 * count].cast("q"), view[8 * count : 16 * count].cast("q")
        writer.place(offsets, times, view[16 * count :], 0, count)


def _place_batch(
    plan: RebuildPlan, files: OpenFiles, writers: dict[Queue, BatchQueueWriter | None], chunk: Chunk, data: bytes
) -> None:
    queue = chunk.queue
    if queue not in writers:
        path = queue.path
        writers[queue] = None if path is None else BatchQueueWriter(files, plan.staging, path, plan.batch_file)
        writer = writers[queue]
        if writer is not None:
            writer.units.remove()
    writer = writers[queue]
    if writer is not None:
        writer.put(BATCH_UNIT.unpack(data))


# -- stage two: index -----------------------------------------------------------------------------------------------


def index_tasks(plan: RebuildPlan, parts: Sequence[Part]) -> list[IndexTask]:
    """The index files there will be. RocketMQ's rules for when a file begins are those of IndexWriter."""
    if not plan.rules.index:
        return []
    total, room = sum(part.keys for part in parts), plan.items - 1
    taken: set[str] = set()
    tasks = []
    for first in range(0, total, room):
        _, _, time = next(_keys(plan, parts, first, first + 1))
        tasks.append(IndexTask(file_name(time[0], taken), first, min(first + room, total), *_end(plan, parts, first)))
    last = max((part for part in parts if part.last_offset >= 0), key=lambda p: p.last_offset, default=None)
    if last is not None and total % room == 0:
        before = _end(plan, parts, total)
        if total == 0 or last.last_offset > before[0]:
            tasks.append(IndexTask(file_name(last.last_time, taken), total, total, *before))
    return tasks


def _end(plan: RebuildPlan, parts: Sequence[Part], first: int) -> tuple[int, int]:
    """Offset and time of the key before number `first`; zeros for the first key."""
    if first == 0:
        return 0, 0
    _, offset, time = next(_keys(plan, parts, first - 1, first))
    return offset[0], time[0]


def build_index(plan: RebuildPlan, parts: Sequence[Part], task: IndexTask) -> int:
    """Write one index file; gives the number of its items."""
    directory = os.path.join(plan.staging, "index")
    plan.log.effects.mkdirs(directory)
    path = os.path.join(directory, task.name)
    with suppress(FileNotFoundError):
        plan.log.effects.unlink(path)
    writer = IndexFileWriter(path, plan.slots, plan.items, task.begin_offset, task.begin_time, plan.log.effects)
    try:
        for hashes, offsets, times in _keys(plan, parts, task.first, task.end):
            writer.insert(hashes, offsets, times, 0, len(hashes))
    finally:
        writer.close()
    return task.end - task.first


def _keys(
    plan: RebuildPlan, parts: Sequence[Part], first: int, end: int
) -> Iterator[tuple[array[int], array[int], array[int]]]:
    """Keys [first, end) of the whole log, some at a time: (hashes, offsets, times)."""
    begin = 0  # number of the part's first key
    for part in parts:
        low, high = max(first, begin), min(end, begin + part.keys)
        for at in range(low, high, KEYS_A_STEP):
            count = min(high - at, KEYS_A_STEP)
            hashes, offsets, times = (
                _read_array(_path(plan, part.number, name), code, at - begin, count) for name, code in KEY_ARRAYS
            )
            yield hashes, offsets, times
        begin += part.keys


def _read_array(path: str, code: str, first: int, count: int) -> array[int]:
    values = array(code)
    with open(path, "rb") as source:
        source.seek(first * values.itemsize)
        data = source.read(count * values.itemsize)
    if len(data) != count * values.itemsize:
        raise CorruptStoreError(path, first * values.itemsize, "the staged part is too short", "run the rebuild again")
    values.frombytes(data)
    return values

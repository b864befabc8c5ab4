"""Rebuilds queues and index from the commit log alone, as RocketMQ dispatches them.

`rebuild` works in one pass and one process; `flintmq.spark.jobs.rebuild` does the same on a cluster with the same
functions, and writes the same bytes. The result is first written to a staging directory and renamed at the end, so that
either all of it appears or nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.format.index import PEER_533, checked_peer
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.full_disk import naming
from flintmq.storage.files.lock import is_live
from flintmq.storage.files.store_url import local_only, outside_store
from flintmq.storage.files.tree import walk_tree
from flintmq.storage.files.whole_file import sync_file
from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue.writer import BatchQueueWriter, OpenFiles, QueueWriter
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules, UnitBlock, each_block
from flintmq.store.index.builder import IndexFileBuilder
from flintmq.store.index.writer import IndexWriter
from flintmq.store.layout import deleted_topics
from flintmq.store.layout.file_geometry import FileGeometry, index_header
from flintmq.store.layout.queue_name import BATCH, PLAIN
from flintmq.store.layout.root_names import other_things
from flintmq.store.layout.store_config import batch_topics
from flintmq.tabular import Summary

STAGING = ".flintmq-rebuild"
RESULTS = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
Progress = Callable[[int, int], None]  # bytes of log done, bytes in all


@dataclass
class Rebuilt(Summary):
    """The result of a rebuild.

    Attributes:
        records, units, keys: records read, queue units and index items that the files have.
        queues: number of queues.
        index_files: number of index files.
        log_bytes: bytes of log read.
        notes: counts by code (repeats, holes, queues begun again, tails).
    """

    records: int = 0
    units: int = 0
    keys: int = 0
    queues: int = 0
    index_files: int = 0
    log_bytes: int = 0
    notes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RebuildPlan:
    """The input of a rebuild, picklable for workers."""

    root: str
    into: str
    log: LogFiles
    facts: StopFacts
    rules: DispatchRules  # how records become units and keys
    sizes: FileGeometry

    @property
    def disk(self) -> Effects:
        """The disk that the result is written to; the store itself may be on object storage."""
        return REAL if self.log.effects.remote else self.log.effects

    @property
    def staging(self) -> str:
        return os.path.join(self.into, STAGING)


def plan_rebuild(
    root: str, into: str, config: StoreConfig | None = None, peer: str = PEER_533, effects: Effects | None = None
) -> RebuildPlan:
    """Check that a rebuild is possible and collect its input."""
    plan = plan_of(root, into, config, peer, effects)
    outside_store(into, root, config, root_itself=True)  # the root itself is allowed: a bulk writer rebuilds in place
    into, disk = plan.into, plan.disk
    taken = [name for name in RESULTS if disk.is_dir(os.path.join(into, name))]
    if taken:
        verb = "exist" if taken[1:] else "exists"
        raise UsageError(f"{into}: {', '.join(taken)} {verb} already; give an empty directory")
    if others := [name for name in other_things(into, disk) if name != STAGING]:
        raise UsageError(f"{into} holds other things ({others[0]!a}); give an empty directory")
    if is_live(into):
        raise UsageError(f"{into}: a running store holds its lock; stop it or give another directory")
    return plan


def plan_of(
    root: str, into: str, config: StoreConfig | None = None, peer: str = PEER_533, effects: Effects | None = None
) -> RebuildPlan:
    """Collect the input of a rebuild, whatever `into` holds already."""
    config = config or StoreConfig()
    checked_peer(peer)
    into = local_only(into)
    store = Snapshot.open(root, config, effects)
    root, effects = store.root, store.effects
    rules = DispatchRules.of(config, batch_topics(root, effects), peer, deleted_topics.read(root, effects))
    return RebuildPlan(root, into, store.log, store.facts, rules, FileGeometry.of(root, config, effects))


def rebuild(
    root: str,
    into: str,
    config: StoreConfig | None = None,
    peer: str = PEER_533,
    progress: Progress | None = None,
    access: str = "pread",
) -> Rebuilt:
    """Write consume queues, extensions, batch queues and index into a directory, from the log.

    The directories are `consumequeue/`, `consumequeue_ext/`, `batchconsumequeue/` and `index/`.

    `root`: the store. Its `config/topics.json` gives the queue types; of its own queues and index only the file sizes
    are used.
    """
    return run(plan_rebuild(root, into, config, peer), progress, access)


def run(plan: RebuildPlan, progress: Progress | None = None, access: str = "pread") -> Rebuilt:
    report = Report()
    with making(plan):
        builder = Builder(plan, report)
        dispatcher = Dispatcher(plan.rules)
        walk = LogWalk(plan.log, plan.facts, access=access, report=report)
        done = Rebuilt()
        size = sum(file.size for file in plan.log.files)
        last = (-1, 0)

        def blocks() -> Iterator[UnitBlock]:
            for piece in walk:
                done.records += piece.count
                yield from dispatcher.blocks(piece, hold=True)
                if progress:
                    progress(piece.base + piece.end - plan.log.min_offset, size)
            yield from dispatcher.rest()

        def take(block: UnitBlock) -> bool:
            nonlocal last
            last = block.last_offset, block.last_time
            builder.take(block, dispatcher)
            return True

        each_block(blocks(), take, beside=True)
        done.log_bytes = walk.position - plan.log.min_offset
        assert done.records == 0 or last[0] >= 0  # RocketMQ has an index file as soon as there is a record
        builder.finish(*last)
        publish(plan)
        done.units, done.keys, done.queues, done.index_files = builder.counts()
        done.notes = dict(report.note_counts)
        return done


class Builder:
    """Writes blocks of units and keys into queue files and index files."""

    def __init__(self, plan: RebuildPlan, report: Report) -> None:
        self.plan, self.report = plan, report
        self.files = OpenFiles(plan.disk)
        self.plain: dict[int, QueueWriter | None] = {}
        self.batch: dict[int, BatchQueueWriter | None] = {}
        directory = os.path.join(plan.staging, "index")
        self.index = None
        if plan.rules.index:
            plan.disk.mkdirs(directory)
            self.index = IndexWriter(directory, plan.sizes.slots, plan.sizes.items, plan.disk, IndexFileBuilder)
        self.keys = 0

    def take(self, block: UnitBlock, dispatcher: Dispatcher) -> None:
        plan, files = self.plan, self.files
        for number, first, end in block.queues:
            if number not in self.plain:
                path, light = self._path(number, dispatcher), number in dispatcher.lmq_numbers
                self.plain[number] = None if path is None else queue_writer(plan, files, path, light, self.report)
            if (plain := self.plain[number]) is not None:
                plain.place(block.offsets, block.times, block.units, first, end)
        for number, unit in block.batch_units:
            if number not in self.batch:
                path = self._path(number, dispatcher)
                self.batch[number] = None if path is None else batch_writer(plan, files, path)
            if (batch := self.batch[number]) is not None:
                batch.put(unit)
        if self.index is not None:
            self.index.insert(block.key_hashes, block.key_offsets, block.key_times, block.keys)
            self.keys += block.keys

    def _path(self, number: int, dispatcher: Dispatcher) -> str | None:
        queue = dispatcher.queues.keys[number]
        if queue.path is None:
            text = f"topic {queue.topic[:60]!r} cannot be a directory's name; its messages get no queue"
            self.report.note("unusable_topic", text)
        return queue.path

    def finish(self, last_offset: int, last_time: int) -> None:
        self.files.close()
        if self.index is not None:
            self.index.finish(last_offset, last_time)

    def counts(self) -> tuple[int, int, int, int]:
        counts = [writer.count for writer in (*self.plain.values(), *self.batch.values()) if writer is not None]
        return sum(counts), self.keys, len(counts) - counts.count(0), len(self.index.names) if self.index else 0


def queue_writer(plan: RebuildPlan, files: OpenFiles, path: str, is_light: bool, report: Report) -> QueueWriter:
    """Return the writer of one plain queue; a light queue has no ext queue."""
    return QueueWriter(files, plan.staging, path, plan.sizes.queue_file, 0 if is_light else plan.sizes.ext_file, report)


def batch_writer(plan: RebuildPlan, files: OpenFiles, path: str) -> BatchQueueWriter:
    return BatchQueueWriter(files, plan.staging, path, plan.sizes.batch_file)


@contextmanager
def making(plan: RebuildPlan) -> Iterator[None]:
    """Provide an empty staging directory for the block, without the rest of a killed rebuild.

    If the block fails or is interrupted, staging is removed, and so is the target if it was not there before.
    """
    shutil.rmtree(plan.staging, ignore_errors=True)
    there = plan.disk.is_dir(plan.into)
    try:
        for name in (PLAIN, BATCH):
            plan.disk.mkdirs(os.path.join(plan.staging, name))
        with naming(plan.into):
            yield
    except BaseException:
        shutil.rmtree(plan.staging, ignore_errors=True)
        if not there:
            with suppress(OSError):
                os.rmdir(plan.into)
        raise


def publish(plan: RebuildPlan) -> None:
    """Sync the staged files and rename them into place; drop an empty batchconsumequeue/."""
    effects = plan.disk
    for folder, _, names in walk_tree(plan.staging):
        for name in names:
            sync_file(os.path.join(folder, name), effects)
        effects.sync_dir(folder)
    for name in RESULTS:
        source = os.path.join(plan.staging, name)
        if effects.is_dir(source) and (name == PLAIN or effects.listdir(source)):
            effects.rename(source, os.path.join(plan.into, name))
    shutil.rmtree(plan.staging, ignore_errors=True)
    effects.sync_dir(plan.into)


def indexed_time(root: str, items: int, flushed: int) -> int:
    """Return the checkpoint's index time in ms for index files that were just made.

    It is the end time of the last full index file, at most `flushed`.
    """
    folder = os.path.join(root, "index")
    full = 0
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        header = index_header(os.path.join(folder, name))
        if header is not None and header.index_count >= items:
            full = header.end_timestamp
    return min(full, flushed)

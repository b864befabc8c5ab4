"""Verify a store: every record, every queue unit, every index item, and the small files around them.

One walk through the log gives, by the same function that dispatch and rebuild use, the units and keys that must be on
disk; they are compared in log order with what is there (verify_queues, verify_index). Nothing is held but a cursor for
each queue, one index file's slots and a piece of the log, so a store of any size takes about the same memory.

Verify never writes, takes no lock, and never stops at damage: it tells, steps over it and goes on. What each finding
means is in docs/verify.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from flintmq.config import StoreConfig
from flintmq.forensics.findings import Defect, Findings, Note
from flintmq.forensics.ground import Ground
from flintmq.forensics.unit_files import Disk
from flintmq.forensics.verify_config import (
    check_checkpoint,
    check_config,
    check_mark,
    check_offsets,
    check_root,
    read_checkpoint,
)
from flintmq.forensics.verify_index import IndexCheck, KeyBlock
from flintmq.forensics.verify_index_files import index_items
from flintmq.forensics.verify_log import LogCheck, LogReport, check_files, check_spares
from flintmq.forensics.verify_queue_set import QueueSet
from flintmq.forensics.verify_timer import TimerCheck
from flintmq.format.index import PEER_533, PEER_540
from flintmq.storage.effects import Effects
from flintmq.storage.where import effects_for
from flintmq.store import geometry
from flintmq.store.dispatch import Dispatcher
from flintmq.store.log import LogWalk
from flintmq.store.log_files import LARGEST_OFFSET
from flintmq.store.recovery import Verdict
from flintmq.store.snapshot import Snapshot

PIECE_BYTES = 8 << 20
Progress = Callable[[int, int], None]  # bytes of log done, bytes in all


@dataclass
class Verification:
    """What verify found.

    Attributes:
        root: the store.
        clean: it stopped cleanly (no `abort`); live: somebody writes it now.
        records: records that count; log_begin, log_end: log offsets of the first byte and behind the last record.
        ending: what stands at the log's end (the names of recovery.Verdict, in lower case).
        queues, units: queues on disk or in the log, units that stand for their record.
        index_files, index_items: files looked at, items passed.
        defects: the first 10,000, with defect_count and defect_counts (by code) for all.
        notes: the first 1,000, with note_counts (by code) for all.
    """

    root: str
    clean: bool = True
    live: bool = False
    records: int = 0
    log_begin: int = 0
    log_end: int = 0
    ending: str = "end"
    queues: int = 0
    units: int = 0
    index_files: int = 0
    index_items: int = 0
    defect_count: int = 0
    defect_counts: dict[str, int] = field(default_factory=dict)
    note_counts: dict[str, int] = field(default_factory=dict)
    defects: list[Defect] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 without defects, else 1."""
        return 1 if self.defect_count else 0


def verify(
    root: str | os.PathLike[str],
    config: StoreConfig | None = None,
    progress: Progress | None = None,
    *,
    access: str = "pread",
    effects: Effects | None = None,
) -> Verification:
    """Check everything in a store.

    Args:
        root: the store's directory.
        config: RocketMQ's keys for what the files do not tell.
        progress: called now and then with bytes of log done and in all.
        access: how the log is read: "pread" or "map".
        effects: the disk; None for what the path means.

    Raises:
        NotAStoreError: root is no store.
        UnsupportedFormatError: a DLedger log, or consume queues in RocksDB.
        StoreAccessError: the root or a directory of the log may not be listed.
        ConfigError: given keys contradict each other.
    """
    config = config or StoreConfig()
    effects = effects or effects_for(root, config.s3)
    path = geometry.open_root(root, config, effects)
    disk = Disk(effects)
    try:
        return Run(path, config, disk).run(progress, access)
    finally:
        disk.close()


@dataclass
class Seen:
    """What a verification saw in the log and beside it.

    Attributes:
        records, log_end, last_time, ending: see Verification; last_time is the latest store time in ms.
        queues, units, index_files, index_items: see Verification.
        end_of: queue offset behind the last message of a queue; None for a queue that does not exist.
    """

    records: int
    log_end: int
    last_time: int
    ending: Verdict
    queues: int
    units: int
    index_files: int
    index_items: int
    end_of: Callable[[str, int], int | None]


def _no_end(topic: str, queue_id: int) -> int:
    """A queue that may end anywhere."""
    return LARGEST_OFFSET


class Run:
    """One verification: what is looked at, and in which order. The job on Spark looks at the log in another way."""

    def __init__(self, root: str, config: StoreConfig, disk: Disk) -> None:
        self.root, self.config, self.disk, self.effects = root, config, disk, disk.effects
        self.findings = Findings()
        self.checkpoint = read_checkpoint(root, self.findings, self.effects)
        self.snapshot = Snapshot(root, config, None, self.effects)
        self.log, self.facts = self.snapshot.log, self.snapshot.facts
        self.ground = Ground(self.findings, self.log.min_offset, self.snapshot.replay_start, self.facts.live)

    def run(self, progress: Progress | None, access: str) -> Verification:
        """Look at everything."""
        directories = [place.path for place in geometry.log_directories(self.root, self.config, self.effects)]
        check_root(self.root, self.config, self.findings, self.effects)
        if self.facts.live:
            self.findings.note("live", "a running store holds the lock; what it writes meanwhile is not judged")
        check_files(self.log, directories, self.findings, self.effects)
        seen = self.look(progress, access)
        check_checkpoint(self.root, self.checkpoint, seen.log_end, seen.last_time, self.findings)
        check_mark(self.root, self.findings, self.effects)
        check_config(self.root, self.findings, self.effects)
        if not self.facts.live:
            # Without any queue files (a copy of the log and config/ alone) nobody knows where the queues end.
            end_of = seen.end_of if seen.queues or not seen.records else _no_end
            check_offsets(self.root, self.snapshot.broker, end_of, self.findings)
            TimerCheck(self.root, self.config, self.disk, self.ground, self.log, seen.log_end).run(end_of)
        return Verification(
            root=self.root,
            clean=self.facts.clean,
            live=self.facts.live,
            records=seen.records,
            log_begin=self.log.min_offset,
            log_end=seen.log_end,
            ending=seen.ending.name.lower(),
            queues=seen.queues,
            units=seen.units,
            index_files=seen.index_files,
            index_items=seen.index_items,
            defect_count=self.findings.defect_count,
            defect_counts=dict(self.findings.defect_counts),
            note_counts=dict(self.findings.note_counts),
            defects=self.findings.defects,
            notes=self.findings.notes,
        )

    def look(self, progress: Progress | None, access: str) -> Seen:
        """Walk the log once and compare queues and index with it."""
        queues = QueueSet(self.root, self.config, self.snapshot.broker, self.disk, self.ground)
        items = list(index_items(self.root, self.config, self.disk, self.ground))
        index = IndexCheck(items, self.ground) if queues.rules.index else None
        report = LogReport(self.ground)
        walk = LogWalk(self.log, self.facts, access=access, strict=False, report=report, piece_bytes=PIECE_BYTES)
        log = LogCheck(self.log, self.ground)
        self._walk(walk, log, queues, index, progress)
        log.finish()
        check_spares(self.log, log.end, self.ground)
        queues.finish()
        if index is not None:
            index.finish(log.end)
        return Seen(
            log.records,
            log.end,
            log.last_time,
            walk.verdict or Verdict.END,
            queues.count,
            queues.matched,
            len(items),
            index.items if index is not None else 0,
            queues.end_of,
        )

    def _walk(
        self, walk: LogWalk, log: LogCheck, queues: QueueSet, index: IndexCheck | None, progress: Progress | None
    ) -> None:
        size = sum(file.size for file in self.log.files)
        dispatcher = Dispatcher(queues.rules)
        for piece in walk:
            log.take(piece)
            dispatcher.follow(PEER_540 if index is not None and index.tags else PEER_533)
            for block in dispatcher.blocks(piece):
                queues.take(block, dispatcher)
                if index is not None:
                    index.expect(
                        KeyBlock(
                            piece, block.last_offset, block.key_hashes, block.key_offsets, block.key_times, block.keys
                        )
                    )
            if progress:
                progress(piece.base + piece.end - self.log.min_offset, size)

"""Verifies a store: every record, every unit, every index item, and the small files.

One walk through the log derives the units and keys that must be on disk, by the same function that dispatch and rebuild
use. They are compared in log order with those on disk (`queue_check.py`, `index_check.py`). Memory holds only a cursor
for each queue, one index file's slots and a piece of the log, so a store of any size takes about the same memory.

A check has one of three places: before the walk (`VerifyRun.run`: names and sizes of files), on the walk (each piece:
`VerifyPass.take`; the log's end: `VerifyPass.finish`) or after it (`VerifyRun._finish`: small files, compared with the
log's end; offsets of a store in use move and are left out). The job on Spark shares the first and the last. Its walk
(`spark/jobs/verify.py`) runs `LogCheck` without `VerifyPass`: what `VerifyPass.take` or `finish` calls is called in
`check_range` or `SparkRun.look` too, and what `_finish` reads of the walk is set in `SparkRun.look`.

Verify never writes, takes no lock, and never stops at damage: it reports it, skips it and continues.
docs/operations/verify.md describes each finding.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Defect, Findings, Note
from flintmq.forensics.verify.log_check import check_files
from flintmq.forensics.verify.queue_files import Disk
from flintmq.forensics.verify.small_files import (
    check_checkpoint,
    check_config,
    check_deleted,
    check_mark,
    check_offsets,
    check_root,
    read_checkpoint,
)
from flintmq.forensics.verify.timer_check import TimerStoreCheck
from flintmq.forensics.verify.verify_pass import VerifyPass
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.store_url import effects_for
from flintmq.store.commitlog.end_of_log import Verdict
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFiles
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import youngest
from flintmq.store.layout import directories as store_directories
from flintmq.store.layout.given_sizes import open_root

AT_END, ASKED = "end", "asked"  # why a pass stopped before the log's end
UNSEEN = "unseen"  # the `ending` of a log that was not read to its end
Progress = Callable[[int, int], None]  # bytes of log done, bytes in all


@dataclass
class Verification:
    """The result of verify.

    Attributes:
        ending: the reason why the log ends there (the names of end_of_log.Verdict, in lower case), or "unseen".
        defects: the first 10,000, with defect_count and defect_counts (by code) for all.
        part_begin, part_end: log offsets between which the log was checked; a later part continues at part_end.
        stopped: why the log's end was not reached: "end" (of the part), "asked" (by `stop`); None if it was reached.
    """

    root: str
    clean: bool = True  # it stopped cleanly (no `abort`, or one that says that only queues lag)
    live: bool = False  # a process is writing it now
    records: int = 0
    log_begin: int = 0  # log_begin, log_end: log offsets of the first byte and after the last record
    log_end: int = 0
    ending: str = "end"
    queues: int = 0  # queues, units: queues on disk or in the log, units that agree with their record
    units: int = 0
    index_files: int = 0  # index_files, index_items: files checked, items passed
    index_items: int = 0
    defect_count: int = 0
    defect_counts: dict[str, int] = field(default_factory=dict)
    note_counts: dict[str, int] = field(default_factory=dict)
    defects: list[Defect] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)  # the first 1,000, with note_counts (by code) for all
    part_begin: int = 0
    part_end: int = 0
    stopped: str | None = None

    @property
    def exit_code(self) -> int:
        return 1 if self.defect_count else 0


def verify(
    root: str | os.PathLike[str],
    config: StoreConfig | None = None,
    progress: Progress | None = None,
    *,
    access: str = "pread",
    effects: Effects | None = None,
    begin: int | None = None,
    end: int | None = None,
    stop: Callable[[], bool] | None = None,
    findings: Findings | None = None,
) -> Verification:
    """Check everything in a store, or a part of it.

    Args:
        root: the store's directory.
        config: RocketMQ's keys for settings that the files do not record.
        progress: called now and then with bytes of log done and in all.
        access: how the log is read: "pread" or "map".
        effects: the disk; None chooses it by the path.
        begin: first log offset: the part begins with the first intact record there or later; None for the log's begin.
        end: last log offset: the block of the log (8 MiB at most) that reaches it is checked whole; None for the log's
            end.
        stop: asked after each block of the log; true ends the walk there, as `end` does.
        findings: collects the findings as they are made; None for a new collection.

    Raises:
        UsageError: the part ends before it begins, or begins after the log's end.
        NotAStoreError: root is no store.
        UnsupportedFormatError: the log is a DLedger log.
        StoreAccessError: the root or a directory of the log may not be listed.
        ConfigError: given keys contradict each other.
    """
    if (begin or 0) < 0 or (end is not None and end <= (begin or 0)):
        raise UsageError(f"from {begin or 0} to {end}: the end must be after the beginning; neither may be negative")
    config = config or StoreConfig()
    effects = effects or effects_for(root, config.s3)
    path = open_root(root, config, effects)
    with closing(Disk(effects)) as disk:
        run = VerifyRun(path, config, disk, findings)
        run.begin, run.end, run.stop = begin, end, stop
        return run.run(progress, access)


def _no_end(topic: str, queue_id: int) -> int:
    """Return an end that no offset exceeds, for a queue of unknown end."""
    return LARGEST_OFFSET


def _first_record(log: LogFiles, begin: int) -> int:
    """Return the log offset of the first intact record at `begin` or later."""
    found = next_record(log, begin)
    if found is None:
        files = f"its files have offsets from {log.min_offset} up to {log.limit}"
        raise UsageError(f"--from {begin}: there is no intact record there or later; {files}")
    return found


class VerifyRun:
    """One verification, in order. The job on Spark replaces `look`.

    Attributes:
        found: the result, as far as it is known.
        latest_time: the latest store time in ms of the log's records, 0 without records.
        end_of: queue offset after the last message of a queue; None for a queue that does not exist.
    """

    begin: int | None = None
    end: int | None = None
    stop: Callable[[], bool] | None = None
    latest_time = 0
    end_of: Callable[[str, int], int | None]

    def __init__(self, root: str, config: StoreConfig, disk: Disk, findings: Findings | None = None) -> None:
        self.root, self.config, self.disk, self.effects = root, config, disk, disk.effects
        self.findings = findings or Findings()
        self.checkpoint = read_checkpoint(root, self.findings, self.effects)
        self.snapshot = Snapshot(root, config, self.effects)
        self.log, self.facts = self.snapshot.log, self.snapshot.facts
        begin, kept = self.log.min_offset, self.findings
        self.ground = Ground(kept, begin, self.snapshot.replay_start, self.facts.live)
        self.found = Verification(
            root, self.facts.clean, self.facts.live, 0, begin, part_begin=begin, defects=kept.defects, notes=kept.notes
        )

    def run(self, progress: Progress | None, access: str) -> Verification:
        directories = [place.path for place in store_directories.log_directories(self.root, self.config, self.effects)]
        check_root(self.root, self.config, self.findings, self.effects)
        if self.facts.live:
            self.findings.note("live", "a running store holds the lock; its writes meanwhile are not judged")
        check_files(self.log, directories, self.findings, self.effects)
        self.look(progress, access)
        if self.found.stopped is None:
            self._finish()
        self.found.defect_count = self.findings.defect_count
        self.found.defect_counts = dict(self.findings.defect_counts)
        self.found.note_counts = dict(self.findings.note_counts)
        return self.found

    def _finish(self) -> None:
        known, latest, found = self.checkpoint, self.latest_time, self.found
        times = max(known.physic_timestamp, known.logics_timestamp, known.index_timestamp)
        if found.part_begin > self.log.min_offset and times > latest:  # the youngest record may be before the part
            latest = max(latest, youngest(self.log, times))
        check_checkpoint(self.root, known, found.log_end, latest, self.findings)
        check_mark(self.root, self.findings, self.effects)
        check_deleted(self.root, self.findings, self.effects)
        check_config(self.root, self.findings, self.effects)
        if not self.facts.live:
            # Without any queue files (a copy of the log and config/ alone) the ends of the queues are unknown.
            end_of = self.end_of if found.queues or not found.records else _no_end
            check_offsets(self.root, self.snapshot.broker, end_of, self.findings)
            TimerStoreCheck(self.root, self.config, self.disk, self.ground, self.log, found.log_end).run(end_of)

    def look(self, progress: Progress | None, access: str) -> None:
        """Walk the log, or a part of it, and compare queues and index with it."""
        course, found = VerifyPass(self.root, self.config, self.snapshot, self.disk, self.ground, access), self.found
        if self.begin is not None and self.begin > self.log.min_offset:
            found.part_begin = _first_record(self.log, self.begin)
            course.begin_at(found.part_begin)
        found.stopped = self._walk(course, progress)
        if found.stopped is None:
            course.finish()
            found.ending = (course.walk.verdict or Verdict.END).name.lower()
        else:
            course.stop()
            found.ending = UNSEEN
        if course.is_part:
            self.findings.forget("units-expired", "index-expired")  # they are of the log before the part
        end_of = course.queues.end_of
        # The end of a queue without files is unknown if the log's begin was not read.
        self.end_of = (lambda *queue: end_of(*queue) or LARGEST_OFFSET) if course.is_part else end_of
        self.latest_time = course.log.latest_time
        found.records, found.log_end = course.log.records, course.log.end
        found.part_end = course.log.end if found.stopped is None else course.position
        found.queues, found.units = course.queues.count, course.queues.met
        found.index_files = len(course.items)
        found.index_items = course.index.passed if course.index is not None else 0

    def _walk(self, course: VerifyPass, progress: Progress | None) -> str | None:
        """Take piece after piece; return why it stopped before the log's end, None if it did not."""
        size, begin = sum(file.size for file in self.log.files), self.log.min_offset
        end = LARGEST_OFFSET if self.end is None else self.end
        if course.position >= end:
            return AT_END
        for piece in course.walk:
            course.take(piece)
            if self.end is not None:
                course.pass_blank(piece.file)
            if progress:
                progress(course.position - begin, size)
            why = AT_END if course.position >= end else ASKED if self.stop is not None and self.stop() else None
            if why is not None and next_record(self.log, course.position) is not None:  # else nothing is left out
                return why
        return None

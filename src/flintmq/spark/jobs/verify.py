"""Verifies a store as Spark tasks, with the checks of `forensics/verify/run.py`.

1.  A task walks a range of the log, checks its records, and stages the units that they must have (`staged.py`). One
    further task compares the index, whose items are in log order over all files, with a walk of its own.
2.  A task takes some queues and compares the units staged for them with those on disk.

The driver checks the small files, and data that concern several queues (committed offsets, the timer), and combines
the findings. Nothing is written to the store. Staged units (36 bytes each) go to a scratch directory that workers
and driver must both see; it is removed at the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import KEPT_DEFECTS, KEPT_NOTES, Defect, Findings, Note
from flintmq.forensics.verify.index_check import IndexCheck, KeyBlock
from flintmq.forensics.verify.index_files import index_items
from flintmq.forensics.verify.log_check import LogCheck, LogReport, check_spares
from flintmq.forensics.verify.queue_files import Disk
from flintmq.forensics.verify.queue_set import QueueSet
from flintmq.forensics.verify.run import Verification, VerifyRun
from flintmq.forensics.verify.verify_pass import PIECE_BYTES
from flintmq.format.batch_queue import BatchUnit
from flintmq.format.index import PEER_533, PEER_540
from flintmq.lake.read.splits import LogRange, check_end, resolve_cuts, shares, walk_count
from flintmq.spark.jobs import staged
from flintmq.spark.jobs.staged import Stage
from flintmq.spark.jobs.tasks import Progress, parallelism, run_tasks, scaled
from flintmq.storage.files.store_url import absolute, effects_for
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.report import Damage, DamageKind, Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock
from flintmq.store.layout.config_reader import read_config
from flintmq.store.layout.given_sizes import open_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Lost = list[tuple[int, int]]
"""Ranges of log offsets that contain no valid record."""

RUN_UNITS = 2048  # units of a queue that are compared at once
_NO_BYTES = memoryview(b"")
_NO_NUMBERS = _NO_BYTES.cast("q")


@dataclass(frozen=True)
class VerifyPlan:
    """The picklable context of all tasks."""

    root: str
    config: StoreConfig
    log: LogFiles
    end: int
    replay_from: int | None
    live: bool
    scratch: str
    access: str

    def ground(self, lost: Iterable[tuple[int, int]] = ()) -> Ground:
        """Make a separate context for a task, with the known damage."""
        ground = Ground(Findings(), self.log.min_offset, self.replay_from, self.live)
        for begin, end in lost:
            ground.lost.add(begin, end)
        return ground

    def queues(self, disk: Disk, ground: Ground) -> QueueSet:
        return QueueSet(self.root, self.config, read_config(self.root, self.log.effects), disk, ground)

    def walk(self, part: LogRange, report: Report) -> LogWalk:
        """Return a walk over one range that skips damage."""
        return LogWalk(
            self.log, begin=part.begin, end=part.end,
            access=self.access, strict=False, report=report, piece_bytes=PIECE_BYTES,
        )  # fmt: skip


class RangeReport(LogReport):
    """A log's report that also keeps the damaged ranges as a list, for other tasks."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.ranges: Lost = []

    def damage(self, damage: Damage) -> None:
        super().damage(damage)
        self.ranges.append((damage.offset, damage.offset + damage.lost))


def verify(
    spark: SparkSession,
    root: str,
    config: StoreConfig | None = None,
    progress: Progress | None = None,
    *,
    access: str = "pread",
    scratch: str | None = None,
) -> Verification:
    """Check everything in a store, with the same defects as forensics/verify/run.py.

    Two notes differ: of clocks that were set back (`time-step`) only those of the last log file with records are
    given, as a range does not know the one before; and what is noted 20 times and then counted is so in each range.

    Args:
        spark: the session. Workers must see the store under the same path as the driver.
        root: directory of the store.
        config: RocketMQ's keys, for settings that the files do not show.
        progress: called from time to time with bytes of log done and in all, approximately.
        access: "pread" or "map".
        scratch: a directory that workers and driver see, for staged units; by default that for temporary files, which
            is right if all run on one machine.

    Raises:
        StoreError: Spark gave up.
        FlintError: as flintmq.forensics.verify.run.verify raises it.
    """
    config = config or StoreConfig()
    effects = effects_for(root, config.s3)
    path = open_root(absolute(root), config, effects)
    disk = Disk(effects)
    folder = tempfile.mkdtemp(prefix="flintmq-verify-", dir=scratch)
    try:
        return SparkRun(spark, path, config, disk, folder).run(progress, access)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        disk.close()


class SparkRun(VerifyRun):
    """One verification whose log, queues and index are checked by tasks."""

    def __init__(self, spark: SparkSession, root: str, config: StoreConfig, disk: Disk, scratch: str) -> None:
        super().__init__(root, config, disk)
        self.spark, self.scratch = spark, scratch

    def look(self, progress: Progress | None, access: str) -> None:
        """Run both stages and combine their findings."""
        tail = Report()
        log_end = find_end(self.log, self.facts, tail, ask_queues=True)
        for damage in tail.damages:
            if damage.kind is DamageKind.END:  # the tasks of the ranges report all other damage
                LogReport(self.ground).damage(damage)
        for note in tail.notes:
            self.findings.note(note.code.replace("_", "-"), note.text)
        begin = self.log.min_offset
        span = max(0, log_end.offset - begin)
        groups = 2 * parallelism(self.spark)
        plan = VerifyPlan(
            self.root,
            self.config,
            self.log,
            log_end.offset,
            self.ground.replay_from,
            self.facts.live,
            self.scratch,
            access,
        )
        parts = shares(self.log, begin, log_end.offset, walk_count(span, parallelism(self.spark)))
        work = [None, *parts]  # the index first: it takes longest
        index, *ranges = run_tasks(self.spark, partial(first_stage, plan), work, scaled(progress, span, 0, 0.7))
        for answer in [*ranges, index]:
            self._take(answer["findings"])
        lost = [(first, after) for answer in ranges for first, after in answer["lost"]]
        for first, after in lost:
            self.ground.lost.add(first, after)
        stages = [Stage.of(answer) for answer in ranges]
        task = partial(check_queues, plan, stages, lost, groups)
        queues = run_tasks(self.spark, task, range(groups), scaled(progress, span, 0.7, 1))
        ends: dict[tuple[str, int], int] = {}
        for answer in queues:
            self._take(answer["findings"])
            ends.update({(topic, queue): end for topic, queue, end in answer["ends"] if end is not None})
        last = max((answer["end"] for answer in ranges if answer["records"]), default=begin)
        check_spares(self.log, last, self.ground)
        self.latest_time = max((answer["latest_time"] for answer in ranges), default=0)
        self.end_of = lambda topic, queue: ends.get((topic, queue))
        self.found = replace(
            self.found,
            records=sum(answer["records"] for answer in ranges),
            log_end=last,
            ending=log_end.verdict.name.lower(),
            queues=sum(answer["queues"] for answer in queues),
            units=sum(answer["units"] for answer in queues),
            index_files=index["files"],
            index_items=index["items"],
            part_end=last,
        )

    def _take(self, answer: dict[str, Any]) -> None:
        found = self.findings
        found.defects += [Defect(*values) for values in answer["defects"]][: KEPT_DEFECTS - len(found.defects)]
        found.notes += [Note(*values) for values in answer["notes"]][: KEPT_NOTES - len(found.notes)]
        found.defect_counts.update(answer["defect_counts"])
        found.note_counts.update(answer["note_counts"])


def findings_answer(findings: Findings) -> dict[str, Any]:
    return {
        "defects": [astuple(defect) for defect in findings.defects],
        "notes": [astuple(note) for note in findings.notes],
        "defect_counts": dict(findings.defect_counts),
        "note_counts": dict(findings.note_counts),
    }


def first_stage(plan: VerifyPlan, part: LogRange | None) -> dict[str, Any]:
    """Run one task: check one range of the log; or, for None, the index."""
    return check_index(plan) if part is None else check_range(plan, part)


def check_range(plan: VerifyPlan, part: LogRange) -> dict[str, Any]:
    """Check the records of a range and stage the units that they must have."""
    with closing(Disk(plan.log.effects)) as disk:
        queues = plan.queues(disk, plan.ground())
    ground = plan.ground()
    dispatcher = Dispatcher(replace(queues.rules, index=False))
    writer = staged.StageWriter(plan.scratch, with_times=True)
    part = resolve_cuts(plan.log, part, plan.end)
    report, log = RangeReport(ground), LogCheck(plan.log, ground, queues.multi_dispatch)
    walk = plan.walk(part, report)
    for piece in walk if part.begin < part.end else ():
        log.take(piece)
        for block in dispatcher.blocks(piece):
            writer.take(block)
    check_end(walk, plan.log, part.end, plan.end)
    log.finish()
    answer = {"findings": findings_answer(ground.findings), "lost": report.ranges, "records": log.records}
    return {**writer.finish(dispatcher), **answer, "latest_time": log.latest_time, "end": log.end}


def check_index(plan: VerifyPlan) -> dict[str, Any]:
    with closing(Disk(plan.log.effects)) as disk:
        ground = plan.ground()
        rules = plan.queues(disk, plan.ground()).rules
        items = list(index_items(plan.root, plan.config, disk, ground))
        counts = {"files": len(items), "items": 0}
        if rules.index:
            index = IndexCheck(items, ground)
            silent = replace(ground, findings=Findings())  # the tasks of the ranges report damage in the log
            part = LogRange(plan.log.min_offset, plan.end)
            dispatcher = Dispatcher(rules)
            for piece in plan.walk(part, LogReport(silent)) if part.begin < part.end else ():
                dispatcher.follow(PEER_540 if index.tags else PEER_533)
                for block in dispatcher.blocks(piece):
                    keys = block.key_hashes, block.key_offsets, block.key_times, block.keys
                    index.expect(KeyBlock(piece, block.last_offset, *keys))
            index.finish(plan.end)
            counts["items"] = index.items
    return {"findings": findings_answer(ground.findings), **counts}


def check_queues(plan: VerifyPlan, stages: list[Stage], lost: Lost, groups: int, group: int) -> dict[str, Any]:
    """Compare the queues of one group: the units staged for them with those on disk."""
    with closing(Disk(plan.log.effects)) as disk:
        ground = plan.ground(lost)
        queues = plan.queues(disk, ground)
        if group:
            ground.findings = Findings()  # findings on all queues together are reported by the first group
        for kind, names in queues.on_disk.items():
            queues.on_disk[kind] = [n for n in names if group_of(f"{kind}/{n.topic}/{n.queue_id}", groups) == group]
        seen = {(name.topic, name.queue_id) for names in queues.on_disk.values() for name in names}
        table = Dispatcher(queues.rules)  # only for its table of queues
        runs = Runs()
        for stage in stages:
            numbers = {}
            for number, each in enumerate(stage.queues):
                if group_of(each.queue.path, groups) == group:
                    numbers[number] = table.queues.number(each.queue)
                    if each.light:
                        table.lmq_numbers.add(numbers[number])
                    if each.queue.path is not None:
                        seen.add((each.queue.path.split("/")[1], each.queue_id))
            for number, *segment in staged.segments(stage.path, numbers, with_times=True):
                longer = runs.add(numbers[number], segment)
                if longer is not None:
                    queues.take(longer, table)
            for number, unit in staged.batch_units(stage.path, numbers):
                queues.take(_block([], batch_units=[(numbers[number], unit)]), table)
        for rest in runs.rest():
            queues.take(rest, table)
        if group == 0 or not queues.none:
            queues.finish()
    ends = [(topic, queue, queues.end_of(topic, queue)) for topic, queue in sorted(seen)]
    return {"findings": findings_answer(ground.findings), "units": queues.matched, "queues": queues.count, "ends": ends}


class Runs:
    """Joins short segments of a queue, so that it is compared in runs as long as in one process."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[bytearray]] = {}  # number of the queue -> offsets, times, units

    def add(self, number: int, segment: Sequence[memoryview]) -> UnitBlock | None:
        """Add a segment (offsets, times, units); return a block once its queue has enough."""
        joined = self._waiting.setdefault(number, [bytearray(), bytearray(), bytearray()])
        for part, more in zip(joined, segment, strict=True):
            part += more
        return self._block(number) if len(joined[0]) >= 8 * RUN_UNITS else None

    def rest(self) -> Iterator[UnitBlock]:
        for number in list(self._waiting):
            yield self._block(number)

    def _block(self, number: int) -> UnitBlock:
        offsets, times, units = (memoryview(part) for part in self._waiting.pop(number))
        return _block([(number, 0, len(offsets) // 8)], offsets.cast("q"), times.cast("q"), units)


def _block(
    queues: list[tuple[int, int, int]],
    offsets: memoryview = _NO_NUMBERS,
    times: memoryview = _NO_NUMBERS,
    units: memoryview = _NO_BYTES,
    batch_units: Iterable[tuple[int, BatchUnit]] = (),
) -> UnitBlock:
    return UnitBlock(queues, offsets, times, units, list(batch_units), array("i"), array("q"), array("q"), 0, 0, 0)


def group_of(path: str | None, groups: int) -> int:
    """Return the task that compares a queue: the same for units from the log and for its files."""
    return zlib.crc32(os.fsencode(path or "")) % groups

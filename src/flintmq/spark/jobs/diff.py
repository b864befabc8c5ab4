"""Compares two stores with tasks that read ranges of both logs.

The driver names the differences; no message passes through it but those that differ: tasks return ranges, sums of
blocks of queue offsets, and log offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flintmq.config.keys import StoreConfig
from flintmq.forensics.diff import ranges
from flintmq.forensics.diff.by_message import SUM_MASK, Block, BlockSum, block_of, sums_of
from flintmq.forensics.diff.reading import PartSummary, summary_of
from flintmq.forensics.diff.records import messages
from flintmq.forensics.diff.run import Comparison
from flintmq.forensics.diff.run import compare as compare_in
from flintmq.lake.read.splits import LogRange, check_end, files_of, resolve_cuts, shares, split_count, walk_count
from flintmq.message import StoredMessage
from flintmq.spark.jobs.tasks import Progress, parallelism, run_tasks, scaled
from flintmq.storage.files.store_url import absolute
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import RecordReader
from flintmq.store.commitlog.report import Damage, DamageKind, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSES = 2  # over both logs, by message: one for each


def compare(
    spark: SparkSession,
    a: str,
    b: str,
    config: StoreConfig | None = None,
    by: str = "auto",
    progress: Progress | None = None,
) -> Comparison:
    """Compare two stores, with the same result as flintmq.forensics.diff.run.compare.

    Args:
        spark: the session. Workers must see both stores under the same paths as the driver.
        a, b, config, by: as there.
        progress: called from time to time with bytes done and in all, approximately.

    Raises:
        StoreError: Spark gave up.
        CorruptStoreError: part of a message looks like a message of its own, where a log was split; compare here.
        FlintError: as there.
    """
    return compare_in(absolute(a), absolute(b), config, by, progress, partial(SparkPair, spark))


@dataclass(frozen=True)
class SplitTask:
    log: LogFiles
    part: LogRange
    end: int

    def messages(self, report: Report) -> Iterator[StoredMessage]:
        part = resolve_cuts(self.log, self.part, self.end)
        walk = LogWalk(self.log, begin=part.begin, end=part.end, strict=False, report=report)
        yield from messages(walk)
        check_end(walk, self.log, part.end, self.end)


class SparkPair:
    """Reads two logs by tasks; see flintmq.forensics.diff.reading.PairReader."""

    def __init__(self, spark: SparkSession, a: Snapshot, b: Snapshot) -> None:
        self.spark, self.stores = spark, (a, b)

    def ranges_that_differ(self, begin: int, end: int, progress: Progress | None) -> Iterator[tuple[int, int]]:
        """Yield the ranges in which the bytes differ; the logs are cut between pieces."""
        a, b = (store.log for store in self.stores)
        count = walk_count(end - begin, parallelism(self.spark))
        wanted = (begin + (end - begin) * number // count for number in range(1, count))
        cuts = sorted({begin, end, *(max(begin, at - at % ranges.PIECE) for at in wanted)}) if begin < end else []
        tasks = [(files_of(a, part), files_of(b, part), part) for part in (LogRange(*cut) for cut in pairwise(cuts))]
        answers = run_tasks(self.spark, differing_pieces, tasks, scaled(progress, end - begin, 0, 1))
        return ranges.joined((first, last) for answer in answers for first, last in answer["pieces"])

    def summary(self, number: int, begin: int, end: int) -> PartSummary:
        answers = run_tasks(self.spark, part_summary, self._tasks(number, begin, end))
        found = [PartSummary(*answer["summary"]) for answer in answers]
        filled = [one for one in found if one.messages]
        if not filled:
            return PartSummary(0, None, None)
        return PartSummary(sum(one.messages for one in filled), filled[0].first_timestamp, filled[-1].last_timestamp)

    def sums(self, number: int, report: Report, progress: Progress | None) -> dict[Block, BlockSum]:
        size = self.stores[number].end - self.stores[number].log.min_offset
        share = scaled(progress, size, number / PASSES, (number + 1) / PASSES)
        sums: dict[Block, list[int]] = defaultdict(lambda: [0, 0])
        for answer in run_tasks(self.spark, block_sums, self._tasks(number), share):
            for topic, queue_id, block, count, digests in answer["sums"]:
                one = sums[topic, queue_id, block]
                one[0], one[1] = one[0] + count, one[1] + digests
            for *values, kind in answer["damages"]:
                report.damage(Damage(*(*values, DamageKind(kind))))
            for note in answer["notes"]:
                report.note(*note)
        return {block: BlockSum(count, total & SUM_MASK) for block, (count, total) in sums.items()}

    def messages_of(self, number: int, blocks: frozenset[Block]) -> list[StoredMessage]:
        """Have tasks find the messages of some blocks, and read these here."""
        answers = run_tasks(self.spark, partial(offsets_of, blocks), self._tasks(number))
        with RecordReader(self.stores[number].log) as records:
            found = [records.at(at) for answer in answers for at in answer["offsets"]]
        return [one for one in found if one is not None]

    def _tasks(self, number: int, begin: int | None = None, end: int | None = None) -> list[SplitTask]:
        store = self.stores[number]
        begin = store.log.min_offset if begin is None else begin
        end = store.end if end is None else end
        parts = shares(store.log, begin, end, split_count(end - begin, parallelism(self.spark)))
        return [SplitTask(files_of(store.log, part), part, end) for part in parts if part.begin < part.end]


def differing_pieces(task: tuple[LogFiles, LogFiles, LogRange]) -> dict[str, Any]:
    a, b, part = task
    return {"pieces": list(ranges.pieces_that_differ(a, b, part.begin, part.end))}


def part_summary(task: SplitTask) -> dict[str, Any]:
    return {"summary": summary_of(task.messages(Report()))}


def block_sums(task: SplitTask) -> dict[str, Any]:
    report = Report()
    sums = [[*block, *found] for block, found in sums_of(task.messages(report)).items()]
    return {
        "sums": sums,
        "damages": [[*astuple(damage)[:-1], damage.kind.value] for damage in report.damages],
        "notes": [astuple(note) for note in report.notes],
    }


def offsets_of(blocks: frozenset[Block], task: SplitTask) -> dict[str, Any]:
    """Run one task: find the messages of some blocks."""
    return {"offsets": [one.physical_offset for one in task.messages(Report()) if block_of(one) in blocks]}

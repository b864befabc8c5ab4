"""Rebuilds queues and index from the commit log as Spark tasks, byte for byte as locally.

Two stages use the same functions as the local engine (`forensics/rebuild.py`):

1.  a task walks a range of the log and stages its units by queue and its index keys in log order (`staged.py`);
2.  a task takes some queues, reads their units of all ranges in order, and places them; or it takes one index file,
    whose keys are known by number after the keys of all ranges are counted.

Between the stages the driver adds up counts, assigns queues to tasks, and names the index files. Nothing else comes to
it, and no body leaves its range. Workers must see the store and the result's directory under the same paths as the
driver. Each attempt writes into its own directory; the driver moves the results of the winning attempts.
"""

from __future__ import annotations

import heapq
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from flintmq.arrow.vanished import refuse_vanished
from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import (
    Progress,
    RebuildPlan,
    Rebuilt,
    batch_writer,
    making,
    plan_rebuild,
    publish,
    queue_writer,
)
from flintmq.format.index import PEER_533
from flintmq.lake.read.splits import LogRange, check_end, resolve_cuts, shares, walk_count
from flintmq.spark.jobs import staged
from flintmq.spark.jobs.staged import Stage
from flintmq.spark.jobs.tasks import parallelism, run_tasks, scaled
from flintmq.storage.files.store_url import absolute, local_only
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue.writer import BatchQueueWriter, OpenFiles, QueueWriter
from flintmq.store.dispatch.dispatcher import Dispatcher
from flintmq.store.index.builder import IndexFileBuilder
from flintmq.store.index.writer import IndexFileWriter, file_name
from flintmq.store.layout.queue_name import Queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_STAGE = 0.7  # of the work, for progress


@dataclass(frozen=True, slots=True)
class PlannedIndexFile:
    """An index file to make: name, end of the one before, and keys as (stage, first, end)."""

    name: str
    begin_offset: int
    begin_time: int
    keys: list[tuple[int, int, int]]


def rebuild(
    spark: SparkSession,
    root: str,
    into: str,
    config: StoreConfig | None = None,
    peer: str = PEER_533,
    progress: Progress | None = None,
    access: str = "pread",
) -> Rebuilt:
    """Write the queue directories and `index/` into a directory, from the log.

    The queue directories are `consumequeue/`, `consumequeue_ext/` and `batchconsumequeue/`.

    Args:
        spark: the session.
        root, into, config, peer, access: as flintmq.forensics.rebuild.rebuild.
        progress: called from time to time with bytes of log done and in all, approximately.

    Raises:
        StoreError: Spark gave up.
        FlintError: as flintmq.forensics.rebuild.rebuild raises it.
    """
    plan = plan_rebuild(absolute(root), os.path.abspath(local_only(into)), config, peer)
    report = Report()
    with making(plan):
        os.mkdir(stages_path(plan))
        end = find_end(plan.log, plan.facts, report).offset
        span = max(0, end - plan.log.min_offset)
        ranges = shares(plan.log, 0, end, walk_count(span, parallelism(spark)))
        done = Rebuilt(log_bytes=span)

        answers = run_tasks(
            spark,
            partial(stage_range, plan, stages_path(plan), end, access),
            ranges,
            scaled(progress, span, 0, FIRST_STAGE),
        )
        stages = [Stage.of(answer) for answer in answers]
        done.records = sum(answer["records"] for answer in answers)
        done.keys = sum(stage.keys for stage in stages)
        last = max((tuple(answer["last"]) for answer in answers), default=(-1, 0))
        totals, refused = units_of(stages)
        for queue in refused:
            report.note(
                "unusable_topic", f"topic {queue.topic[:60]!r} cannot be a directory's name; its messages get no queue"
            )
        files = index_files(plan, stages, last) if plan.rules.index else []
        done.index_files = len(files)
        work: list[list[str] | PlannedIndexFile] = [*files, *share_out(totals, 2 * parallelism(spark))]
        made = run_tasks(spark, partial(make, plan, stages), work, scaled(progress, span, FIRST_STAGE, 1))
        counts = [count for answer in made for count in answer["units"]]
        done.units, done.queues = sum(counts), len(counts) - counts.count(0)
        collect(plan, work, [answer["path"] for answer in made])
        publish(plan)
        done.notes = dict(sum((Counter(answer["notes"]) for answer in made), report.note_counts))
        return done


def stages_path(plan: RebuildPlan) -> str:
    return os.path.join(plan.staging, "stages")


def stage_range(plan: RebuildPlan, into: str, log_end: int, access: str, part: LogRange) -> dict[str, Any]:
    """Run a task of the first stage: stage units and keys of one range below `into`."""
    writer = staged.StageWriter(into, bool(plan.sizes.ext_file))
    dispatcher = Dispatcher(plan.rules)
    records, last = 0, (-1, 0)
    part = resolve_cuts(plan.log, part, log_end)
    walk = LogWalk(plan.log, begin=part.begin, end=part.end, access=access)
    for piece in walk if part.begin < part.end else ():
        records += piece.count
        for block in dispatcher.blocks(piece, hold=True):
            writer.take(block)
            last = block.last_offset, block.last_time
    for block in dispatcher.rest():
        writer.take(block)
        last = block.last_offset, block.last_time
    refuse_vanished(walk.report, "rebuild again")
    check_end(walk, plan.log, part.end, log_end)
    return {**writer.finish(dispatcher), "records": records, "last": last}


def units_of(stages: list[Stage]) -> tuple[Counter[str], set[Queue]]:
    """Return the units of each queue by its path, and the queues that have none."""
    totals: Counter[str] = Counter()
    refused = set()
    for each in (queue for stage in stages for queue in stage.queues):
        if (path := each.queue.path) is None:
            refused.add(each.queue)
        else:
            totals[path] += each.units
    return totals, refused


def share_out(totals: Counter[str], groups: int) -> list[list[str]]:
    """Assign queues to tasks, the largest first, each to the task that has the least."""
    assert groups > 0
    heap: list[tuple[int, int]] = [(0, number) for number in range(groups)]
    shares: list[list[str]] = [[] for _ in range(groups)]
    for path, units in totals.most_common():
        load, number = heapq.heappop(heap)
        shares[number].append(path)
        heapq.heappush(heap, (load + units, number))
    return [share for share in shares if share]


class IndexTail(NamedTuple):
    names: list[str]
    keys: int = 0  # number of keys in the last file if it has room, else 0
    end_offset: int = 0  # end_offset, end_time: log offset and store time of the last key
    end_time: int = 0


def index_files(
    plan: RebuildPlan, stages: list[Stage], last: tuple[int, int], tail: IndexTail | None = None
) -> list[PlannedIndexFile]:
    """Plan all index files by counting, with the result that IndexWriter has key by key.

    Args:
        last: log offset and store time of the log's last record, offset -1 for none.
        tail: the existing files. One with room comes first in the result, with its new keys.
    """
    tail = tail or IndexTail([])
    capacity = plan.sizes.items - 1
    assert capacity > tail.keys >= 0 and (tail.names or not tail.keys)  # the last file has room, or counts as full
    begins = [0]
    for stage in stages:
        begins.append(begins[-1] + stage.keys)
    names = dict.fromkeys(tail.names, 0)
    files: list[PlannedIndexFile] = []
    end_offset, end_time = tail.end_offset, tail.end_time
    for n in range(-(-(begins[-1] + tail.keys) // capacity)):
        first, end = max(n * capacity - tail.keys, 0), min((n + 1) * capacity - tail.keys, begins[-1])
        parts = [
            (number, max(first, begins[number]) - begins[number], min(end, begins[number + 1]) - begins[number])
            for number, stage in enumerate(stages)
            if begins[number] < end and begins[number + 1] > first
        ]
        if not parts:  # nothing new for the last one
            break
        goes_on = tail.keys > 0 and n == 0
        name = tail.names[-1] if goes_on else file_name(key_place(stages[parts[0][0]].path, parts[0][1])[1], names)
        files.append(PlannedIndexFile(name, end_offset, end_time, parts))
        end_offset, end_time = key_place(stages[parts[-1][0]].path, parts[-1][2] - 1)
    assert sum(end - first for file in files for _, first, end in file.keys) == begins[-1]  # each key is in one file
    full = (begins[-1] + tail.keys) % capacity == 0
    if last[0] >= 0 and full and (not names or last[0] > end_offset):
        files.append(PlannedIndexFile(file_name(last[1], names), end_offset, end_time, []))
    return files


def key_place(path: str, number: int) -> tuple[int, int]:
    """Return the log offset and store time of one staged key."""
    _, offsets, times = next(staged.keys(path, number, number + 1))
    return offsets[0], times[0]


def make(plan: RebuildPlan, stages: list[Stage], work: list[str] | PlannedIndexFile) -> dict[str, Any]:
    """Run a task of the second stage: make some queues or one index file in a new directory."""
    attempt = os.path.join(stages_path(plan), uuid.uuid4().hex)
    report = Report()
    units: list[int] = []
    if isinstance(work, PlannedIndexFile):
        os.makedirs(os.path.join(attempt, "index"))
        make_index_file(plan, stages, work, os.path.join(attempt, "index", work.name))
    else:
        units = place_queues(replace(plan, into=attempt), stages, frozenset(work), report)
    return {"path": attempt, "notes": dict(report.note_counts), "units": units}


def insert_keys(writer: IndexFileBuilder | IndexFileWriter, stages: list[Stage], file: PlannedIndexFile) -> None:
    for number, first, end in file.keys:
        for hashes, offsets, times in staged.keys(stages[number].path, first, end):
            done = writer.insert(hashes, offsets, times, 0, len(hashes))
            assert done == len(hashes)  # the plan gave the file no more keys than it has room for


def make_index_file(plan: RebuildPlan, stages: list[Stage], file: PlannedIndexFile, path: str) -> None:
    writer = IndexFileBuilder(path, plan.sizes.slots, plan.sizes.items, file.begin_offset, file.begin_time, plan.disk)
    insert_keys(writer, stages, file)
    writer.close()


def place_queues(plan: RebuildPlan, stages: list[Stage], paths: frozenset[str], report: Report) -> list[int]:
    """Write these queues from staged units, below plan.staging; return the units of each."""
    files = OpenFiles(plan.disk)
    plains, batches = place_staged(
        stages,
        paths,
        bool(plan.sizes.ext_file),
        lambda path, light: queue_writer(plan, files, path, light, report),
        lambda path: batch_writer(plan, files, path),
    )
    files.close()
    return [*(writer.count for writer in plains.values()), *(writer.count for writer in batches.values())]


def place_staged(
    stages: list[Stage],
    paths: Container[str],
    with_times: bool,
    plain: Callable[[str, bool], QueueWriter],
    batch: Callable[[str], BatchQueueWriter],
) -> tuple[dict[str, QueueWriter], dict[str, BatchQueueWriter]]:
    """Write the units of these queues, in log order.

    `plain`, `batch`: make the writer of a queue at its first unit (`plain` gets whether it is an LMQ).
    """
    plains: dict[str, QueueWriter] = {}
    batches: dict[str, BatchQueueWriter] = {}
    for stage in stages:
        mine = {
            number: path
            for number, each in enumerate(stage.queues)
            if (path := each.queue.path) is not None and path in paths
        }
        for number, offsets, times, units in staged.segments(stage.path, mine, with_times):
            path = mine[number]
            if path not in plains:
                plains[path] = plain(path, stage.queues[number].light)
            plains[path].place(offsets, times, units, 0, len(offsets))
        for number, unit in staged.batch_units(stage.path, mine):
            path = mine[number]
            if path not in batches:
                batches[path] = batch(path)
            batches[path].put(unit)
    return plains, batches


def collect(plan: RebuildPlan, work: list[list[str] | PlannedIndexFile], attempts: list[str]) -> None:
    """Move the attempts' results to where `publish` expects them; remove other staged files."""
    effects = plan.disk
    if plan.rules.index:
        effects.mkdirs(os.path.join(plan.staging, "index"))
    for item, attempt in zip(work, attempts, strict=True):
        if isinstance(item, PlannedIndexFile):
            effects.rename(os.path.join(attempt, "index", item.name), os.path.join(plan.staging, "index", item.name))
            continue
        made = replace(plan, into=attempt).staging
        for path in item:
            for place in (path, path.replace("consumequeue", "consumequeue_ext", 1)):
                if effects.is_dir(os.path.join(made, place)):
                    effects.mkdirs(os.path.join(plan.staging, os.path.dirname(place)))
                    effects.rename(os.path.join(made, place), os.path.join(plan.staging, place))
    shutil.rmtree(stages_path(plan))

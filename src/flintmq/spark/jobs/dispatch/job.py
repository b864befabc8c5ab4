"""Keeps queues and index of a log current while it is written, like RocketMQ's dispatch.

A round takes the records of the log after the committed offset. Tasks walk ranges of it and stage units and keys, like
those of a rebuild (`rebuild.stage_range`); then tasks place them after the existing ones (`tasks`). When
everything is on disk, one small file is replaced that says so (`state`). After any crash, the next start truncates
queues to the state in that file and rebuilds the last index file from the log (`preflight`), so the bytes are those
of one local rebuild. Only counts, queue positions and names come to the driver.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_seconds
from flintmq.errors import CorruptStoreError, StoreError, UsageError
from flintmq.forensics.rebuild import Progress, RebuildPlan
from flintmq.format.index import PEER_533
from flintmq.lake.read.splits import LogRange, equal_ranges, split_count
from flintmq.spark.jobs.dispatch import preflight as start
from flintmq.spark.jobs.dispatch.index import brought_in, planned, remade
from flintmq.spark.jobs.dispatch.state import commit
from flintmq.spark.jobs.dispatch.tasks import (
    DispatchTask,
    Round,
    begin_work,
    do_share,
    end_work,
    make_locks,
    stages_path,
)
from flintmq.spark.jobs.rebuild import PlannedIndexFile, share_out, stage_range, units_of
from flintmq.spark.jobs.staged import Stage
from flintmq.spark.jobs.tasks import parallelism, run_tasks
from flintmq.storage.files.dispatch_lock import DispatchLock
from flintmq.storage.files.store_url import absolute, outside_store
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store import arguments
from flintmq.store.commitlog.anchor import anchor_at
from flintmq.store.commitlog.log_end import LogEnd, find_end, refuse_damaged_ends
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot, list_log
from flintmq.store.consumequeue.writer import WriterState
from flintmq.store.layout.store_config import batch_topics
from flintmq.tabular import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S = 1.0
MAX_BYTES = 4 << 30  # of log in one round: bounds the staged data, and the work lost by a kill
UNITS_A_TASK = 20_000  # fewer do not justify a separate task
NEW = WriterState(-1, -1, 0, -1)


@dataclass
class Dispatched(Summary):
    """The sums of a dispatch.

    Attributes:
        begin, end: log offsets: it dispatched the records that start in [begin, end).
        rounds: number of rounds.
        records, units, keys: records read, queue units and index items written.
        queues: number of queues now.
        index_files: number of index files now.
        log_bytes: bytes of log read for the first time.
        notes: code -> number of occurrences (repeats, holes, queues begun again; `log_lost`: the log's begin was
            deleted before it was dispatched).
    """

    begin: int = 0
    end: int = 0
    rounds: int = 0
    records: int = 0
    units: int = 0
    keys: int = 0
    queues: int = 0
    index_files: int = 0
    log_bytes: int = 0
    notes: dict[str, int] = field(default_factory=dict)


def dispatch(
    spark: SparkSession,
    root: str,
    into: str,
    config: StoreConfig | None = None,
    peer: str = PEER_533,
    *,
    once: bool = False,
    anew: bool = False,
    interval_s: float = INTERVAL_S,
    max_bytes: int = MAX_BYTES,
    access: str = "pread",
    stop: threading.Event | None = None,
    on_round: Callable[[Dispatched], None] | None = None,
    progress: Progress | None = None,
) -> Dispatched:
    """Write queues and index of a store's log into a directory, and continue with new records.

    Args:
        spark: the session; its workers must see both directories under the same paths as the driver.
        root: directory of the store, at rest or being written.
        into: another directory (created if missing), or the store itself while no engine dispatches it.
        config, peer, access: as flintmq.forensics.rebuild.rebuild.
        once: end with the records that exist now.
        anew: remove the contents of `into` and make all of it again.
        interval_s: seconds to wait after a round that found nothing more.
        max_bytes: approximate most bytes of log in one round.
        stop: when it is set, one more round is done, then the job ends.
        on_round: called with the sums after each round that dispatched something.
        progress: called with bytes of log done and in all after each round.

    Returns:
        The sums of all rounds.

    Raises:
        TypeError: a switch that is neither True nor False; nothing was done.
        NotAStoreError, UnsupportedFormatError, StoreAccessError: root is not a store that can be read.
        UsageError: `into` is inside the store, or contains files that this job did not make, or another log; or the log
            is not the one of before; or an argument is impossible.
        ConfigError: the geometry is impossible, or not that of `into`.
        StoreLockedError: another process writes queues and index there.
        CorruptStoreError: damage in the log; records before it stay dispatched.
        StoreError: Spark gave up.
    """
    arguments.flags(once=once, anew=anew)
    if max_bytes < 1:
        raise UsageError(f"max_bytes={max_bytes}; give at least 1")
    check_seconds("interval_s", interval_s)
    root, into = absolute(root), os.path.abspath(outside_store(into, root, config, root_itself=True))
    plan = start.checked(root, into, config or StoreConfig(), peer)
    lock = DispatchLock(into)
    try:
        job = _Dispatch(spark, plan, config or StoreConfig(), access, max_bytes, anew)
        stop, until = stop or StopEvent(), None
        while True:
            last = stop.is_set()  # read before the round, which then takes all records written before the stop
            more = job.round(until)
            if job.done.rounds and on_round is not None and job.news:
                on_round(job.done)
            if progress is not None:
                progress(job.state.position - job.done.begin, max(job.seen, job.state.position) - job.done.begin)
            if once and until is None:
                until = job.seen
            if last or (once and not more):
                break
            if not more:
                stop.wait(interval_s)
        job.close()
        return job.done
    finally:
        lock.release()


class _Dispatch:
    """One dispatch: the committed state, and the next round.

    `seen` is the log offset where the log ended when it was last listed, `news` whether the last round dispatched
    something.
    """

    def __init__(
        self, spark: SparkSession, plan: RebuildPlan, config: StoreConfig, access: str, max_bytes: int, anew: bool
    ) -> None:
        self.spark, self.config, self.access, self.max_bytes = spark, config, access, max_bytes
        self.plan, self.state = start.begun(plan, config, anew)
        self.done = Dispatched(self.state.position, self.state.position)
        self.seen, self.news = self.state.position, False
        self._end: LogEnd | None = None
        start.cut_queues(self.plan, self.state)
        if not start.index_is_whole(self.plan, self.state):
            self._remake_index()
        self.state.clean = False
        commit(self.plan.into, self.plan, self.state)

    def round(self, until: int | None) -> bool:
        """Dispatch the new records of the log, or a part of them; return whether there are more.

        `until`: records that begin at this log offset or later are left; None for everything.
        """
        self.news = False
        self._look()
        state, plan = self.state, self.plan
        begin = max(state.position, plan.log.min_offset)
        end = self.seen if until is None else min(self.seen, until)
        if begin >= end:
            self._judge_end()
            return False
        ranges = self._ranges(begin, end)
        work = begin_work(plan.into)
        answers = self._stage(work, ranges, self.seen)
        if list_log(plan.root, self.config, plan.log.effects).min_offset > begin:
            end_work(work)  # the begin of the log was deleted during the read: the next round begins after it
            return True
        self._place(work, [Stage.of(answer) for answer in answers], answers, ranges[-1].end)
        self.done.log_bytes += ranges[-1].end - begin
        end_work(work)
        self.news = True
        if ranges[-1].end < end:
            return True
        self._judge_end()
        return False

    def close(self) -> None:
        """Commit that the job stopped by itself."""
        self.state.clean = True
        commit(self.plan.into, self.plan, self.state)
        start.settle(self.plan, self.state, self._look)

    # -- before a round ---------------------------------------------------------------------------------------------

    def _look(self) -> int:
        """List the log again, check that it is the same, and return where it ends."""
        plan = self.plan
        start.check_writer(plan)
        now = Snapshot(plan.root, self.config, plan.log.effects)
        log, facts = now.log, now.facts
        topics = batch_topics(plan.root, plan.log.effects)
        rules = replace(plan.rules, batch_topics=start.raw_topics(topics))
        self.plan = replace(plan, log=log, facts=facts, rules=rules)
        known = None if self._end is None else self._end.last
        if known is not None and (known < log.min_offset or log.limit - known > self.max_bytes):
            known = None
        self._end = find_end(log, facts, Report(), known)
        start.check_log(self.plan, self.state, self._end.offset)
        self.seen = max(self._end.offset, min(self.state.position, log.limit))
        lost = log.min_offset - self.state.position
        if self.state.last[0] >= 0 and lost > 0:
            self.done.notes["log_lost"] = self.done.notes.get("log_lost", 0) + 1
        self._follow_beginning()
        return self._end.offset

    def _follow_beginning(self) -> None:
        """Remove files that refer only to expired records."""
        if self.plan.log.min_offset > self.state.log_begin:
            start.expire(self.plan, self.state, self.config)
            self.state.log_begin = self.plan.log.min_offset
            commit(self.plan.into, self.plan, self.state)

    def _judge_end(self) -> None:
        """Raise if the log ends with permanent damage."""
        if self._end is not None:
            refuse_damaged_ends(self.plan.log, self.plan.facts, self._end)

    def _ranges(self, begin: int, end: int) -> list[LogRange]:
        ranges = equal_ranges(self.plan.log, begin, end, split_count(end - begin, parallelism(self.spark)))
        first, *rest = [part for part in ranges if part.begin < part.end]
        return [first, *(part for part in rest if part.end - begin <= self.max_bytes)]

    # -- a round ----------------------------------------------------------------------------------------------------

    def _stage(self, work: str, ranges: list[LogRange], log_end: int) -> list[dict[str, Any]]:
        try:
            return run_tasks(
                self.spark, partial(stage_range, self.plan, stages_path(work), log_end, self.access), ranges
            )
        except CorruptStoreError:
            end_work(work)
            raise

    def _place(self, work: str, stages: list[Stage], answers: list[dict[str, Any]], position: int) -> None:
        """Run the second stage of a round, and commit."""
        plan, state, done = self.plan, self.state, self.done
        assert position > self.state.position  # what is committed is not placed again
        last = max((tuple(answer["last"]) for answer in answers), default=(-1, 0))
        totals, refused = units_of(stages)
        if refused:
            done.notes["unusable_topic"] = done.notes.get("unusable_topic", 0) + len(refused)
        files, index = planned(plan, stages, last, state.index)
        shares = self._shares(totals, stages, files)
        job = Round(plan, work, stages)
        make_locks(work, shares)
        made = run_tasks(self.spark, partial(do_share, job), shares)
        if any(answer.get("again") for answer in made):  # an index file to continue, which is always the first share
            self._remake_index()
            if state.index.keys != shares[0].begun:
                raise StoreError(f"{plan.root}: the log's begin expired while the index was made; run the job again")
            again = [replace(shares[0], number=len(shares))]
            make_locks(work, again)
            made[0] = run_tasks(self.spark, partial(do_share, job), again)[0]
            if made[0].get("again"):
                raise StoreError(f"{plan.into}/index: a worker died twice in one file; run the job again")
        brought_in(plan, state.index, index, files, [answer.get("made") for answer in made[: len(files)]])
        for answer in made[len(files) :]:
            state.queues.update((path, WriterState(*row)) for path, row in answer["queues"].items())
            state.batches.update(answer["batches"])
            done.notes = dict(Counter(done.notes) + Counter(answer["notes"]))
        state.index, state.position, state.clean = index, position, False
        if last[0] >= 0:
            state.last, state.anchor = (last[0], last[1]), anchor_at(plan.log, last[0])
        # The commit comes last: tasks have synced their files, and the index files are in place. A start truncates
        # whatever this state does not describe.
        commit(plan.into, plan, state)
        done.rounds, done.end = done.rounds + 1, position
        done.records += sum(answer["records"] for answer in answers)
        done.keys += sum(stage.keys for stage in stages)
        done.units += totals.total()
        done.queues = len(state.queues) + len(state.batches)
        done.index_files = len(index.names) + (index.empty is not None)

    def _shares(self, totals: Counter[str], stages: list[Stage], files: list[PlannedIndexFile]) -> list[DispatchTask]:
        """Return the tasks of the second stage: index files first."""
        state = self.state
        begun = state.index.names[-1] if state.index.keys else None
        shares = [
            DispatchTask(n, {}, {}, file, state.index.keys if file.name == begun else 0) for n, file in enumerate(files)
        ]
        batch = {str(q.queue.path) for stage in stages for q in stage.queues if q.kind != "consumequeue"}
        groups = min(2 * parallelism(self.spark), 1 + totals.total() // UNITS_A_TASK)
        for paths in share_out(+totals, groups):  # those with units
            plain = {path: state.queues.get(path) for path in paths if path not in batch}
            batches = {path: state.batches.get(path, 0) for path in paths if path in batch}
            shares.append(DispatchTask(len(shares), plain, batches))
        assert [share.number for share in shares] == list(range(len(shares)))  # answers are taken by their place
        return shares

    def _remake_index(self) -> None:
        """Rebuild the last index file from the log, as it was committed."""
        index = self.state.index
        if not index.keys:
            remade(self.spark, self.plan, self.state, None)
            return
        begin = max(index.begin, self.plan.log.min_offset)
        span = self.state.position - begin
        ranges = equal_ranges(self.plan.log, begin, self.state.position, split_count(span, parallelism(self.spark)))
        work = begin_work(self.plan.into)
        answers = self._stage(work, ranges, self.state.position)
        job = Round(self.plan, work, [Stage.of(answer) for answer in answers])
        remade(self.spark, self.plan, self.state, job)
        end_work(work)

"""Exports the new messages of stores to tables, by topic and store date.

A task scans a range of a log and writes Parquet files with Arrow. Tasks run on threads, or on Spark, where no value
passes through Java (`lake/export/workers.py`). The caller's thread publishes the files of the tasks with one rename
(`lake/table/parquet_target.py`), so an export is visible as a whole or not at all; files of attempts that did not win
are never published. The next export begins, in each store, where the last one ended in its log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Unpack

from flintmq.cluster.member import Member
from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.lake.export.checkpoint import ExportCheckpoint
from flintmq.lake.export.choices import ExportChoices, refuse_inside
from flintmq.lake.export.compact import combined
from flintmq.lake.export.export import (
    Exported,
    ExportOptions,
    RangeTask,
    advanced,
    check_renamed,
    check_same,
    choice_of,
    export_range,
    next_begin,
    note_absent,
    publish,
    target_of,
    task_name,
    with_news,
)
from flintmq.lake.export.workers import Progress, Threads, Workers
from flintmq.lake.read.members import logs_of, plan_members
from flintmq.lake.read.scan import ScanPlan
from flintmq.lake.read.splits import shares, split_count
from flintmq.lake.shape.dead_letters import DeadLetters
from flintmq.lake.table.target import Manifest, StagedFile, StoreProgress, Target, locked
from flintmq.storage.files.store_url import absolute
from flintmq.store.commitlog.anchor import LogAnchor, anchor_at
from flintmq.store.commitlog.report import Report


def export(
    root: Stores,
    out: str,
    config: StoreConfig | None = None,
    *,
    workers: Workers | None = None,
    progress: Progress | None = None,
    **choices: Unpack[ExportChoices],
) -> Exported:
    """Write the store's messages to Parquet below a directory; a later call adds new messages.

    The files have the columns of the one schema (as changed by `properties` and `body`), with times in
    microseconds (null outside the years 1 to 9999), below `export=N/topic_name=T/date=YYYY-MM-DD/`. `topic_name` is
    `parquet.partition_value` of the topic (in a Delta table the topic), `date` the day of the store time in UTC.

    Args:
        root: directory of the store; or several stores (a list, a pattern, a manifest), whose rows have the columns
            broker and store; the progress of each is published with the rows.
        out: target directory; created if it does not exist.
        config: RocketMQ's keys, for settings that the files do not show.
        workers: run the tasks; None for threads of this process. Workers elsewhere must see `root` and `out` under the
            same paths.
        progress: called from time to time with tasks done and in all.
        choices: what is exported, and how: see ExportChoices.

    Raises:
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store or the directory cannot be used.
        TypeError: an unknown keyword; a switch that is neither True nor False.
        UsageError: `out` has exports of another store or with other options, or another export runs there.
        CorruptStoreError: damage in the log.
        StoreError: messages have expired since the last export (and fail_on_data_loss); or Spark gave up.
    """
    options, workers = ExportOptions.of(root, config, choices), workers or Threads()
    files, report = options.files, Report()
    plans = plan_members(options.read, report)
    paths = [plan.options.path for _, plan in plans]
    refuse_inside(paths, out, (options.checkpoint, options.dead_letters), config)
    out = absolute(out)
    with locked(target_of(options, out)) as target:
        last, copy = target.last(), ExportCheckpoint.at(options.checkpoint, target.where)
        letters = DeadLetters.at(options.dead_letters, target.where, target.folder.s3)
        choice = choice_of(options.read, files, stream=False)
        if last is not None:
            check_same(target, last, choice)
            check_renamed(target.where, last, logs_of(plans))
        lots = [_Lot.of(target, last, member, plan, report) for member, plan in plans]
        copy.check(last)
        target.check(last, files.shape.schema(), files.partition_by)
        done = Exported(notes={**report.note_counts, **target.notes}, note_texts=report.texts())
        note_absent(done, target, last)
        tasks = target.stage(last, files.final)
        work = [task for number, lot in enumerate(lots) for task in lot.tasks(number, workers.count)]
        answers = workers.run(partial(export_range, tasks, files), work, progress)
        done.count(answers)
        stores = with_news({lot.member.broker: lot.progress for lot in lots}, work)
        done.set_spans(stores)
        if done.rows or last is None:  # the first export makes a table, also of an empty store
            letters.collect(answers)
            parts = [StagedFile(*part) for answer in answers for part in answer["files"]]
            parts = combined(parts, files, tasks, workers.count, workers.run)
            last = publish(target, last, done, choice, stores, parts, files, letters)
            done.notes |= target.notes
        copy.keep(last)
    return done


@dataclass(frozen=True)
class _Lot:
    """The part of an export that is of one store."""

    member: Member
    plan: ScanPlan
    before: StoreProgress | None  # its progress; None: nothing of it was exported
    begin: int  # begin, end: log offsets of what is new
    end: int
    anchor: LogAnchor | None  # the last record before `end`; None if there is none, or it was deleted meanwhile

    @property
    def progress(self) -> StoreProgress:
        return advanced(self.before, self.begin, self.end, self.anchor)

    @classmethod
    def of(cls, target: Target, last: Manifest | None, member: Member, plan: ScanPlan, report: Report) -> _Lot:
        before = None if last is None else last.stores.get(member.broker)
        begin = next_begin(target.where, before, plan, report, member.broker)
        anchor = None if plan.last is None else anchor_at(plan.log, plan.last, plan.known.end)
        return cls(member, plan, before, begin, max(begin, plan.end), anchor)

    def tasks(self, number: int, workers: int) -> list[RangeTask]:
        ranges = shares(self.plan.log, self.begin, self.plan.end, split_count(self.plan.end - self.begin, workers))
        return [
            RangeTask(task_name(number, self.member, part.begin), self.member, self.plan, part)
            for part in ranges
            if part.begin < part.end
        ]

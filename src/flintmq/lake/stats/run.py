"""Counts a store: rates, sizes, keys, producers, latency, queues, lag; writes a page.

A task counts one range of the log (`accumulate.py`), without bodies, and answers with a summary whose size does not
depend on the number of messages; tasks run on threads, or on Spark. The caller's thread merges the summaries, makes
statistics from them (`statistics.py`), compares them with earlier ones (`compare.py`) and writes the page (`page.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.cluster.member import ONLY, Member
from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.lake.export.workers import Progress, Threads, Workers, packed, unpacked
from flintmq.lake.read.members import plan_members
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import ScanPlan, scan_range
from flintmq.lake.read.splits import LogRange, equal_ranges, walk_count
from flintmq.lake.stats.accumulate import COLUMNS, Tally, queue_key
from flintmq.lake.stats.compare import compared, earlier
from flintmq.lake.stats.lag import Lag, consumer_lag, merged
from flintmq.lake.stats.page import MARKS, page, templates_page
from flintmq.lake.stats.statistics import Statistics, statistics
from flintmq.storage.files.full_disk import naming
from flintmq.storage.files.store_url import absolute, check_out, effects_for
from flintmq.storage.files.whole_file import new_file
from flintmq.store import arguments
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report

TASKS_MOST = 256  # most summaries, of a megabyte at most, that are held at once
BATCH_BYTES = 8 << 20


def stats(
    root: Stores,
    out: str | None = None,
    config: StoreConfig | None = None,
    *,
    topics: Sequence[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    compare: str | None = None,
    fail_on_data_loss: bool = True,
    access: str = "pread",
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> Statistics:
    """Count the messages of a store, and write a page about it.

    Args:
        root: directory or URL of the store, at rest or being written; records written after the count begins are not
            counted. Or several stores (a list, a pattern, a manifest), counted together, with a table of brokers.
        out: the HTML file; an existing report is replaced, any other file is left unchanged. None writes none.
        config: RocketMQ's keys, for settings that the files do not show.
        topics: only these.
        since, until: least store time, and the one to stop before; ms since 1970.
        compare: a file with the JSON of an earlier count; the answer and the page show what changed since then.
        fail_on_data_loss: damage in the log is an error; otherwise it is skipped and counted.
        access: "pread" or "map".
        workers: who runs the tasks; None: threads of this process, one a core. The figures are the same.
        progress: called from time to time with tasks done and in all.

    Raises:
        TypeError: a switch that is neither True nor False.
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store cannot be read.
        UsageError: `out` is a directory, is inside the store, or is a file that is not a report; or `compare` is not
            the JSON of an earlier count.
        UnknownTopicError: no store has one of the topics.
        CorruptStoreError: damage in the log.
        MissingExtraError: a page is wanted, and jinja2 is not installed.
        StoreError: a log file was deleted meanwhile (and fail_on_data_loss).
        OSError: the page cannot be written.
    """
    arguments.flags(fail_on_data_loss=fail_on_data_loss)
    workers = workers or Threads()
    options = ReadOptions.of_stores(
        root,
        config,
        predicate=Predicate(topics=None if topics is None else frozenset(topics), since=since, until=until),
        lenient_times=True,  # no messages since a time is an answer
        fail_on_data_loss=fail_on_data_loss,
        skip_option="--skip-damage",
        access=access,
    )
    before = None if compare is None else earlier(compare)
    report = Report()
    parts = [StoreCount(member, plan) for member, plan in plan_members(options, report)]
    if out is not None:
        for part in parts:
            check_target(out, part.plan.options.path, config)
        templates_page()  # before the work: jinja2 may be missing
    most = max(TASKS_MOST // len(parts), 2 * workers.count)
    tasks = [task for part in parts for task in part.tasks(workers.count, most)]
    answers = workers.run(count_task, tasks, progress)
    tally = Tally()
    for (part, _), answer in zip(tasks, answers, strict=True):
        own: Tally = unpacked(answer["tally"])
        part.count(own)
        tally.merge(own)
    lags = merged(lag for part in parts for lag in part.lags(tally, report))
    found = statistics(tally, [lag for lag in lags if topics is None or lag.topic in topics])
    found.store, found.live = options.path, any(part.is_live for part in parts)
    found.asked = {"topics": None if topics is None else sorted(set(topics)), "since": since, "until": until}
    found.brokers = [part.line() for part in parts if part.member.broker]
    spans = {part.member.broker: (part.plan.begin, part.plan.end) for part in parts}
    found.begin, found.end = spans.get(ONLY, (0, 0))
    found.damages = sum(answer["damages"] for answer in answers)
    found.lost_bytes = sum(answer["lost_bytes"] for answer in answers)
    found.notes, found.note_texts = dict(report.note_counts), report.texts()
    found.compared = None if before is None else compared(before, found.as_dict())
    if out is not None:
        given = [root] if isinstance(root, str | os.PathLike) else root
        _write(out, page(found, [absolute(one) for one in given]))  # a page is read in another directory, too
    return found


@dataclass
class StoreCount:
    member: Member
    plan: ScanPlan
    messages: int = 0
    bytes: int = 0

    @property
    def is_live(self) -> bool:
        """True if a process writes the store; of object storage nobody can say."""
        read = self.plan.options
        return read_facts(read.path, effects_for(read.path, read.config.s3)).live

    def tasks(self, cores: int, most: int) -> list[tuple[StoreCount, LogRange]]:
        plan = self.plan
        count = min(walk_count(plan.end - plan.begin, cores), most)
        ranges = equal_ranges(plan.log, plan.begin, plan.end, count)
        return [(self, part) for part in ranges if part.begin < part.end]

    def count(self, tally: Tally) -> None:
        self.messages, self.bytes = self.messages + tally.messages, self.bytes + tally.bytes

    def lags(self, tally: Tally, report: Report) -> list[Lag]:
        """Return the lag of each group of the store; `report` receives why some may be unknown."""
        ends = tally.queues.rows
        read = self.plan.options
        return consumer_lag(
            read.path,
            read.config,
            lambda topic, queue: _end(ends.get(queue_key(topic, queue, self.member.broker))),
            report,
            self.plan.last,
        )

    def line(self) -> dict[str, Any]:
        return {
            **self.member.words, "live": self.is_live, "begin": self.plan.begin, "end": self.plan.end,
            "messages": self.messages, "bytes": self.bytes,
        }  # fmt: skip


def _end(row: list[int] | None) -> int | None:
    return None if row is None else row[2] + 1


def count_task(task: tuple[StoreCount, LogRange]) -> dict[str, Any]:
    store, part = task
    report, tally = Report(), Tally(store.member.broker)
    for batch in scan_range(store.plan, part, narrow(COLUMNS, SPARK_SCHEMA), report, BATCH_BYTES):
        tally.add(batch)
    return {"tally": packed(tally), "damages": report.damage_count, "lost_bytes": report.lost_bytes}


def check_target(out: str, root: str, config: StoreConfig | None = None) -> None:
    """Check that the page may be written, before the work and not after it."""
    check_out(out, root, config, tuple(mark.encode() for mark in MARKS), "report")


def _write(out: str, text: str) -> None:
    with naming(out), new_file(os.path.realpath(out)) as part, open(part, "w", encoding="utf-8") as file:
        file.write(text)

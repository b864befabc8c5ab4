"""Exports live stores to tables while they are written, each message exactly once.

A micro-batch is planned like one of the stream source (`lake/stream/`), and its tasks read their parts of the log and
write Parquet with Arrow, on threads or on Spark. The caller publishes their files in one step, like every export,
and the manifest that is published with them contains the queue offsets where the batch ends. So the directory is its
own checkpoint: after any crash, a batch is there with its offsets, or neither is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_seconds
from flintmq.lake.export.checkpoint import ExportCheckpoint
from flintmq.lake.export.choices import ExportChoices, refuse_inside
from flintmq.lake.export.compact import FileOptions, combined
from flintmq.lake.export.export import (
    SCAN_BYTES,
    Exported,
    ExportOptions,
    PartTask,
    advanced,
    check_logs,
    check_renamed,
    check_same,
    choice_of,
    note_absent,
    part_tasks,
    publish,
    target_of,
    with_news,
    write_files,
)
from flintmq.lake.export.workers import Threads, Workers
from flintmq.lake.files.task_folders import TaskFolders
from flintmq.lake.read.members import members_of
from flintmq.lake.shape.dead_letters import DeadLetters
from flintmq.lake.stream.anchor import anchor_in
from flintmq.lake.stream.members import BrokerOffsets, Offset, StoresStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.lake.stream.reader import log_line
from flintmq.lake.stream.scan import read_part
from flintmq.lake.table.target import Manifest, StagedFile, StoreProgress, Target, locked
from flintmq.storage.files.store_url import absolute
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store import arguments
from flintmq.store.commitlog.report import LOST, Report

MAX_BYTES = 1 << 30  # of log in one micro-batch
INTERVAL_S = 10.0


def export_stream(
    root: Stores,
    out: str,
    config: StoreConfig | None = None,
    *,
    workers: Workers | None = None,
    max_offsets: int | None = None,
    max_bytes: int = MAX_BYTES,
    interval_s: float = INTERVAL_S,
    once: bool = False,
    stop: threading.Event | None = None,
    on_batch: Callable[[Exported], None] | None = None,
    **choices: Unpack[ExportChoices],
) -> Exported:
    """Write the store's messages to Parquet below a directory, and continue with new ones.

    Args:
        root, out, config, workers, choices: as for `export`. Rows are the messages that are in a queue, as in the
            stream source.
        max_offsets, max_bytes: most messages, and most bytes of log, of a micro-batch.
        interval_s: seconds between the begins of two micro-batches; a full one is followed at once.
        once: end with the messages that exist now.
        stop: end after the running micro-batch when it is set.
        on_batch: called with the result of each micro-batch.

    Returns:
        The sums of all micro-batches; `number` is that of the last.

    Raises:
        TypeError: a switch that is neither True nor False.
        UsageError: an interval that is no time.
        FlintError: as export.
    """
    arguments.flags(once=once)
    check_seconds("interval_s", interval_s)
    options = ExportOptions.of(root, config, choices)
    files = options.files
    stop = stop or StopEvent()
    paths = [member.path for member in members_of(options.read, Report())]
    refuse_inside(paths, out, (options.checkpoint, options.dead_letters), config)
    out = absolute(out)
    with locked(target_of(options, out)) as target:
        total = Exported()

        def lose(text: str) -> None:
            log_line(text)
            total.add_note(LOST, 1, [text])

        stream_options = StreamOptions(options.read, max_offsets=max_offsets, max_bytes=max_bytes)
        stream = StoresStream(stream_options, lose=lose)
        copy = ExportCheckpoint.at(options.checkpoint, target.where)
        letters = DeadLetters.at(options.dead_letters, target.where, target.folder.s3)
        query = _Query(workers or Threads(), stream, target, files, copy, letters)
        if once:
            stream.end_now()
        total.begin = total.end = query.end
        total.notes = {**target.notes, **total.notes, **query.report.note_counts}
        total.note_texts |= query.report.texts()
        note_absent(total, target, query.last)
        _run(query, total, on_batch, interval_s, once, stop)
        for text in stream.left_out:  # at the end: a store that came back has all of its messages in the table
            total.add_note(LOST, 1, [text])
    return total


def _run(
    query: _Query,
    total: Exported,
    on_batch: Callable[[Exported], None] | None,
    interval_s: float,
    once: bool,
    stop: threading.Event,
) -> None:
    """Publish micro-batches as `export_stream` says, and add them up."""
    while not stop.is_set():
        begun, done = time.monotonic(), query.batch()
        if done is not None:
            _add(total, done)
            if on_batch is not None:
                on_batch(done)
        if done is None and once:
            return
        # On a live store there always are more messages: only a full batch says that the export lags.
        lags = done is not None and query.stream.is_full
        if not once and not lags and stop.wait(max(0.0, begun + interval_s - time.monotonic())):
            return


class _Query:
    """One streaming export: the published exports, and the next micro-batch."""

    def __init__(
        self,
        workers: Workers,
        stream: StoresStream,
        target: Target,
        files: FileOptions,
        copy: ExportCheckpoint,
        letters: DeadLetters,
    ) -> None:
        self.workers, self.stream, self.target, self.files, self.copy = workers, stream, target, files, copy
        self.letters = letters
        self.choice = choice_of(stream.options.read, files, stream=True)
        self.report = Report()
        self.last: Manifest | None = target.last()
        self.offsets: Offset = stream.initial()
        if self.last is not None:
            check_same(target, self.last, self.choice)
            check_logs(target.where, self.last, stream.logs(), self.report)
            self.offsets = stream.offset_of(self.last.ends)
        copy.check(self.last)
        target.check(self.last, files.shape.schema(), files.partition_by)
        copy.keep(self.last)

    @property
    def end(self) -> int:
        """Log offset where the last export ended; 0 before the first, and of several stores."""
        return 0 if self.last is None else self.last.end

    def batch(self) -> Exported | None:
        end = self.stream.next_end(self.offsets)
        if end == self.offsets and self.last is not None:
            return None
        ends = self.stream.by_broker(end)
        if self.last is not None and ends.keys() - self.stream.by_broker(self.offsets).keys():  # a broker begins
            check_renamed(self.target.where, self.last, self.stream.logs())
        parts = part_tasks(self.stream, self.offsets, end)
        tasks = self.target.stage(self.last, self.files.final)
        answers = self.workers.run(partial(export_part, tasks, self.files), parts)
        done = Exported()
        done.count(answers)
        stores = self._progress(parts, ends)
        done.set_spans(with_news(stores, parts))
        if done.rows or self.last is None:  # the first export makes a table, also of an empty store
            self.letters.collect(answers)
            made = [StagedFile(*part) for answer in answers for part in answer["files"]]
            made = combined(made, self.files, tasks, self.workers.count, self.workers.run)
            self.last = publish(self.target, self.last, done, self.choice, stores, made, self.files, self.letters)
            done.notes |= self.target.notes
            self.copy.keep(self.last)
        self.offsets = end
        return done

    def _progress(self, parts: Sequence[PartTask], ends: BrokerOffsets) -> dict[str, StoreProgress]:
        found = {}
        for broker, offsets in ends.items():
            before = None if self.last is None else self.last.stores.get(broker)
            own = [task.part for task in parts if task.member.broker == broker]
            begin, stop = (before.end, before.end) if before is not None else (0, 0)
            if own:
                begin, stop = own[0].begin, own[-1].end
            found[broker] = advanced(before, begin, stop, anchor_in(offsets), offsets)
        return found


def export_part(tasks: TaskFolders, files: FileOptions, task: PartTask) -> dict[str, Any]:
    """Run one task: write the messages of one part of a micro-batch as Parquet files.

    The files are in a directory of this attempt.
    """
    report = Report()
    batches = read_part(task.part, SPARK_SCHEMA, report, SCAN_BYTES, apart=True)
    return write_files(files.shape.named(batches, task.member), tasks, files, task.name, report)


def _add(total: Exported, done: Exported) -> None:
    total.begin = total.begin if total.rows else done.begin
    total.number, total.end = done.number or total.number, max(total.end, done.end)
    for broker, (begin, end) in done.brokers.items():
        total.brokers[broker] = (total.brokers.get(broker, (begin, end))[0], end)
    for name in ("rows", "files", "bytes", "damages", "lost_bytes", "bad_bodies"):
        setattr(total, name, getattr(total, name) + getattr(done, name))
    for code, texts in done.note_texts.items():
        total.add_note(code, done.notes[code], texts)
    total.bad_reasons = dict(Counter(total.bad_reasons) + Counter(done.bad_reasons))

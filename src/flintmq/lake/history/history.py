"""Reads a table of exports and what is not exported yet as one frame: history and now.

The rows of the frame are those that the table would have if everything in the logs were exported at this moment: first
those of one version of the table, then, from the progress on that this version names, those of the logs, shaped as the
export shapes them. The version is chosen first. Retention may delete messages meanwhile that a later export has put
into the table; then the files that the table got since are read too, and the logs from there on. So no row comes twice
and none is missing, whatever runs beside it.

Everything is planned as tasks, which run in the caller's thread or on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import StoreError, UsageError
from flintmq.lake.export.export import (
    PartTask,
    RangeTask,
    check_kind,
    check_logs,
    check_renamed,
    next_begin,
    part_tasks,
    task_name,
)
from flintmq.lake.read.members import logs_of, plan_members
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import scan_range
from flintmq.lake.read.splits import files_of, shares
from flintmq.lake.shape.columns import ExportColumns, columns_of
from flintmq.lake.stream.members import StoresStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.lake.stream.scan import read_part
from flintmq.lake.table.row_mask import mask_of
from flintmq.lake.table.table_rows import TableVersion, open_table
from flintmq.lake.table.target import CHOICES, Manifest
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import LOST, NOT_IN_STORES, OF_STREAM, Report


@dataclass(frozen=True)
class FilesTask:
    version: TableVersion
    files: tuple[str, ...]


HistoryTask = FilesTask | RangeTask | PartTask
"""Files of the table; a range of a log; or, if the table is made by a streaming export, a part of a micro-batch."""


def _whole(_: int) -> int:
    """Leave a log in one range."""
    return 1


@dataclass(frozen=True)
class History:
    """A version of a table, and the stores that its rows come from."""

    table: str
    catalog: str | None
    read: ReadOptions
    predicate: Predicate  # selects rows, of the table and of the logs
    shape: ExportColumns
    manifest: Manifest
    version: TableVersion

    @classmethod
    def open(
        cls,
        stores: Stores,
        table: str,
        predicate: Predicate,
        config: StoreConfig | None = None,
        *,
        catalog: str | None = None,
        access: str = "pread",
        fail_on_data_loss: bool = True,
        skip_option: str = "strict=False (--skip-damage)",
    ) -> History:
        """Open the present version of a table.

        Args:
            catalog: of an Iceberg table, NAME:NAMESPACE.TABLE; None: its own.
            fail_on_data_loss: damage in a log, or messages that expired before they were exported, are errors.
            skip_option: how the user's front end says that they are not.
        """
        manifest, version = open_table(table, catalog, (config or StoreConfig()).s3)
        choice = CHOICES | manifest.choice
        read = ReadOptions.of_stores(
            stores,
            config,
            fail_on_data_loss=fail_on_data_loss,
            skip_option=skip_option,
            decompress=choice["decompress"],
            explode=choice["explode"],
            access=access,
        )
        check_kind(table, choice, read)
        shape, form = columns_of(choice, manifest.body_source)
        if form is not None:
            raise UsageError(
                f"{table}: bodies were exported as {form}, whose schema is not in the table, so the log "
                "cannot be read in its form; read the table and the store each by itself"
            )
        exported = None if choice["topics"] is None else frozenset(choice["topics"])
        return cls(table, catalog, read, _within(predicate, exported, table), shape, manifest, version)

    @classmethod
    def of_options(cls, read: ReadOptions) -> History:
        assert read.history is not None
        return cls.open(
            read.named,
            read.history,
            read.predicate,
            read.config,
            catalog=read.catalog,
            access=read.access,
            fail_on_data_loss=read.fail_on_data_loss,
            skip_option=read.skip_option,
        )

    @property
    def schema(self) -> pa.Schema:
        return self.shape.schema()

    def has_topic(self, topic: str) -> bool:
        wanted = Predicate(topics=frozenset([topic]))
        rows = self.version.batches(self.version.files, pa.schema([("topic", pa.string())]), wanted)
        return any(batch.num_rows for batch in rows)

    def tasks(self, report: Report, count: Callable[[int], int] = _whole, files: int = 1) -> Iterator[HistoryTask]:
        """Yield the tasks whose rows, in this order, are the frame.

        Those of the logs are planned when the ones of the table are done. `count` says into how many ranges a log is
        cut whose new part has so many bytes; `files`: about how many tasks the files of the table are divided into.
        """
        at, seen = self, frozenset[str]()
        while True:
            there = at.version.files
            fresh = [file for file in there if file not in seen]
            if not seen <= set(there):
                raise StoreError(f"{self.table}: the table was rewritten while it was read; read it again")
            yield from (FilesTask(at.version, tuple(part)) for part in _parts(fresh, files))
            seen = frozenset(there)
            try:
                planned = at.of_logs(report, count)
            except StoreError:
                newer = at.newest()
                if newer.manifest.number > at.manifest.number:
                    at = newer
                    continue
                if at.read.fail_on_data_loss:
                    raise
                planned = at.of_logs(report, count, lenient=True)
            yield from planned
            return

    def newest(self) -> History:
        """Return the same frame with the present version of the table."""
        manifest, version = open_table(self.table, self.catalog, self.version.s3)
        if CHOICES | manifest.choice != CHOICES | self.manifest.choice:
            raise UsageError(f"{self.table}: the table got other columns while it was read; read it again")
        return replace(self, manifest=manifest, version=version)

    def of_logs(self, report: Report, count: Callable[[int], int], lenient: bool = False) -> list[HistoryTask]:
        """Plan what the logs have that this version of the table has not."""
        read = self.read if lenient else replace(self.read, fail_on_data_loss=True)
        choice = CHOICES | self.manifest.choice
        return [*(self._parts(read, report) if choice["stream"] else self._ranges(read, report, count))]

    def _ranges(self, read: ReadOptions, report: Report, count: Callable[[int], int]) -> Iterator[RangeTask]:
        """Plan the ranges of the logs after the progress of a table of single exports."""
        plans = plan_members(read, report, lambda _: self.predicate)
        check_renamed(self.table, self.manifest, logs_of(plans))
        for number, (member, plan) in enumerate(plans):
            before = self.manifest.stores.get(member.broker)
            begin = next_begin(self.table, before, plan, report, member.broker)
            begin, end = max(begin, plan.begin), plan.end
            for part in shares(plan.log, begin, end, count(end - begin)) if begin < end else ():
                if part.begin < part.end:
                    # Planned strictly, to see what expired; read as the caller wants.
                    options = replace(plan.options, fail_on_data_loss=self.read.fail_on_data_loss)
                    small = replace(plan, log=files_of(plan.log, part), options=options)
                    yield RangeTask(task_name(number, member, part.begin), member, small, part)
        self._note_absent(logs_of(plans), report)

    def _parts(self, read: ReadOptions, report: Report) -> Iterator[PartTask]:
        """Plan what the queues have after the progress of a table of a streaming export."""
        stream = StoresStream(StreamOptions(read), partial(report.note, OF_STREAM), partial(report.note, LOST))
        check_logs(self.table, self.manifest, stream.logs(), report)
        stream.end_now()
        offsets = stream.offset_of(self.manifest.ends)
        while (end := stream.next_end(offsets, limits=False)) != offsets:
            for task in part_tasks(stream, offsets, end):
                options = replace(task.part.options, fail_on_data_loss=self.read.fail_on_data_loss)
                yield replace(task, part=replace(task.part, options=options))
            offsets = end
        for text in stream.left_out:
            report.note(LOST, text)

    def _note_absent(self, seen: Mapping[str, object], report: Report) -> None:
        absent = sorted(self.manifest.stores.keys() - seen.keys())
        if absent:
            more = f" and {len(absent) - 1} more" if absent[1:] else ""
            report.note(
                NOT_IN_STORES, f"{self.table} has rows of broker {short(absent[0])}{more}, whose store is not read"
            )

    def rows(self, schema: pa.Schema, report: Report) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the frame: the table file by file, then each log in its order."""
        run = partial(task_rows, self.shape, self.predicate, schema=schema, report=report)
        planning = Report()  # it meets damage that the tasks report
        for task in self.tasks(planning):
            yield from run(task)
        for note in planning.notes:
            report.note(note.code, note.text, note.path)


def task_rows(
    shape: ExportColumns, predicate: Predicate, task: HistoryTask, schema: pa.Schema, report: Report
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of one task, the same in every call.

    `schema`: the columns wanted, of those of `shape`; they may be declared not nullable.
    """
    if isinstance(task, FilesTask):
        yield from task.version.batches(task.files, schema, predicate)
        return
    if isinstance(task, RangeTask):
        batches: Iterable[pa.RecordBatch] = scan_range(task.plan, task.part, SPARK_SCHEMA, report)
    else:
        batches = _masked(read_part(task.part, SPARK_SCHEMA, report), predicate)
    shape.keep_undecoded(report)
    for batch in shape.named(batches, task.member):
        shaped = shape.shaped(batch, report).rows
        yield pa.RecordBatch.from_arrays([shaped.column(name) for name in schema.names], schema=schema)


def _masked(batches: Iterable[pa.RecordBatch], predicate: Predicate) -> Iterator[pa.RecordBatch]:
    """Select rows of a stream, whose tasks read all queues."""
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        yield from rows.filter(mask_of(predicate, rows)).to_batches()


def _parts(files: Sequence[str], count: int) -> Iterator[Sequence[str]]:
    size = max(1, -(-len(files) // max(1, count)))
    for begin in range(0, len(files), size):
        yield files[begin : begin + size]


def _within(predicate: Predicate, exported: frozenset[str] | None, table: str) -> Predicate:
    if exported is None:
        return predicate
    others = sorted((predicate.named_topics or frozenset()) - exported)
    if others:
        known = ", ".join(map(short, sorted(exported)[:5]))
        raise UsageError(f"{table}: topic {short(others[0])} was not exported into it, only {known}")
    topics = exported if predicate.topics is None else predicate.topics & exported
    return replace(predicate, topics=topics)

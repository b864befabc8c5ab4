"""Offers a store as a dataset, which DuckDB and pyarrow can read repeatedly.

It is a `pyarrow.dataset.Dataset` only by type, because DuckDB pushes columns and filters only into that type; of the
base class only methods that go through `scanner` are used. The scan itself drops rows that the filter excludes by
topic, queue, tags or store time; then Arrow applies the whole filter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from flintmq.arrow.options import ScanOptions
from flintmq.arrow.scan import Progress, Queue, predicate_of, read_members
from flintmq.arrow.schema import SCHEMA, VIEW_SCHEMA, dated, narrow, of_many
from flintmq.cluster.members import Stores, find_members, only_named
from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, UsageError
from flintmq.frames.asked import refuse_unknown_topics
from flintmq.frames.bodies import BodyDecoder, bodies_of, read_rows
from flintmq.frames.expression import comparisons, tree_of
from flintmq.frames.history import HistoryFrame, open_history
from flintmq.store import arguments
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.pushdown import Comparison, narrowed
from flintmq.store.commitlog.report import Report
from flintmq.tabular import Tabular


def dataset(
    path: Stores,
    topics: str | Iterable[str] | None = None,
    queues: Iterable[Queue] | None = None,
    since: int | datetime | None = None,
    until: int | datetime | None = None,
    tags: str | Iterable[str] | None = None,
    *,
    decompress: bool = False,
    access: str = "pread",
    config: StoreConfig | str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    strict: bool = True,
    report: Report | None = None,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
    views: bool = False,
    history: str | os.PathLike[str] | None = None,
    catalog: str | None = None,
    body: str = "bytes",
    body_schema: str | os.PathLike[str] | None = None,
    body_message: str | None = None,
    body_head: bool = False,
    schema_registry: str | None = None,
) -> StoreDataset:
    """Offer a log, or several, as a dataset for DuckDB, pyarrow and others.

    Each read begins anew and sees the log as it is then. Only the requested columns are made; filters on topic,
    queue_id, tags and store_timestamp are applied to the bytes of a record.

    Args:
        path, topics, queues, since, until, tags, decompress, access, config, set, strict, report, threads: as for
            scan_arrow.
        progress: called from time to time with the bytes of log done and in all, by the thread that reads.
        views: as for scan_arrow. DuckDB pushes no filter into a dataset with views: for questions without one.
        history, catalog: as for scan_arrow; each read has the version that the table has then.
        body, body_schema, body_message, body_head, schema_registry: as for scan_arrow.

    Raises:
        TypeError: a switch that is neither True nor False.
        FlintError: as scan_arrow; errors that only reading can find are raised during the read.
    """
    arguments.flags(decompress=decompress, strict=strict, views=views)
    predicate = predicate_of(topics, queues, since, until, tags)
    bodies = bodies_of(body, body_schema, body_message, body_head, schema_registry, views)
    options = ScanOptions(decompress=decompress or bodies is not None, strict=strict, access=access, threads=threads)
    report = report if report is not None else Report()
    checked, frame = StoreConfig.of(config, set), None
    if history is not None:
        left_out = {"views": views or None, "decompress": decompress or None, "body": bodies}
        frame = open_history(path, history, predicate, options, checked, catalog, left_out)
    messages = StoreDataset(
        path, predicate, options, checked, report, progress, views=views, history=frame, bodies=bodies
    )
    messages.read(messages.schema, predicate)  # raises errors early
    if frame is not None:
        frame.refuse_unknown_topics(predicate, report)
    else:
        refuse_unknown_topics([place for place, _ in messages.places()], predicate, checked, strict, report)
    return messages


class StoreDataset(Tabular, ds.Dataset):
    """The log of a store as a dataset; made by `dataset`.

    Attributes:
        path: what names the store, or the stores: a pattern is looked at again for each read.
        many: whether it names several stores; the columns broker and store are there then.
        predicate, options, config, report, progress: as for read_members, for each read.
        history: the stores with their table, if rows come from both; None otherwise.
        bodies: decodes the column body; None where it stays bytes.
        failure: the error that ended the last read, as it was raised: engines in between turn it into text.
    """

    def __init__(
        self,
        path: Stores,
        predicate: Predicate,
        options: ScanOptions,
        config: StoreConfig,
        report: Report,
        progress: Progress | None,
        *,
        views: bool = False,
        history: HistoryFrame | None = None,
        bodies: BodyDecoder | None = None,
    ) -> None:
        self.many = bool(find_members(path, config, strict=options.strict)[0].words)
        self._views, self.history, self.bodies, self._in_years = views, history, bodies, False
        self.path, self.predicate, self.options, self.config = path, predicate, options, config
        self.report, self.progress = report, progress
        self._wanted: Any = None  # an expression that applies to every read
        self.failure: FlintError | None = None

    def __repr__(self) -> str:
        return f"<flintmq.StoreDataset of {self.path!r}, {len(self.schema)} columns>"

    def _table(self, columns: Sequence[str] | None, **options: Any) -> pa.Table:
        return self.scanner(columns, **options).to_table()

    def _shown(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return ("column", "type"), ((field.name, str(field.type)) for field in self.schema)

    def read(self, schema: pa.Schema, predicate: Predicate, limits: Iterable[Comparison] = ()) -> pa.RecordBatchReader:
        """Begin a read of these columns of the records that a predicate selects.

        Args:
            schema: the columns, of `schema` or `copied_schema`.
            predicate: selects records.
            limits: comparisons that the reader applies as well: stores that they exclude are not read.
        """
        if self.history is not None:
            return self.history.read(schema, predicate, self.report)
        members = find_members(self.path, self.config, strict=self.options.strict, report=self.report)
        wanted = only_named(members, limits)

        def read(inner: pa.Schema, report: Report) -> pa.RecordBatchReader:
            return read_members(wanted, inner, predicate, self.options, self.config, report, self.progress)

        return read_rows(self.bodies, schema, self._of(SCHEMA, None), read, self.report)

    @property
    def schema(self) -> pa.Schema:
        """All columns: SCHEMA or VIEW_SCHEMA, of many stores two more.

        With history they are those of the table.
        """
        if self.history is not None:
            return self.history.schema
        return self._of(VIEW_SCHEMA if self._views else SCHEMA, self.bodies)

    @property
    def copied_schema(self) -> pa.Schema:
        """All columns, none of them as views."""
        if self.history is not None:
            return self.history.schema
        return self._of(SCHEMA, self.bodies)

    def _of(self, whole: pa.Schema, bodies: BodyDecoder | None) -> pa.Schema:
        whole = of_many(dated(whole) if self._in_years else whole, self.many)
        return whole if bodies is None else bodies.schema(whole)

    @property
    def partition_expression(self) -> Any:
        """True: there is no condition that all rows meet."""
        return ds.scalar(True)

    def scanner(  # type: ignore[override]  # its options are hints about files and threads, of which there are none here
        self, columns: Any = None, filter: Any = None, **_: Any
    ) -> DatasetScan:
        """Return a scan of the wanted columns and rows, to be read once.

        Args:
            columns: names of columns; None for all.
            filter: an Arrow expression.

        Raises:
            UsageError: a column is unknown, or columns are expressions.
        """
        if isinstance(columns, Mapping):
            raise UsageError("a store's dataset has no computed columns; take columns by name and compute afterwards")
        filter = self._with_filter(filter)
        tree = None if filter is None else tree_of(filter)
        limits = [] if tree is None else comparisons(tree)
        predicate = narrowed(self.predicate, limits)
        names = self.schema.names if columns is None else list(columns)
        read = self.schema if filter is None else self.copied_schema  # Arrow filters no views
        if filter is None or tree is not None:
            needed = [*names, *(() if tree is None else tree.columns())]
            # Without columns, one is read to count rows.
            read = narrow(list(dict.fromkeys(needed)) or ["queue_id"], read)
        reader = self.read(read, predicate, limits)
        given = narrow(names, self.schema) if names else pa.schema([])
        return DatasetScan(pa.RecordBatchReader.from_batches(given, self._rows(reader, filter, given)), self.schema)

    def _rows(self, reader: pa.RecordBatchReader, filter: Any, given: pa.Schema) -> Iterator[pa.RecordBatch]:
        self.failure = None
        try:
            for batch in reader:
                rows = batch if filter is None else batch.filter(filter)
                if rows.num_rows:
                    wanted = rows if rows.schema.names == given.names else rows.select(given.names)
                    yield wanted if wanted.schema == given else as_views(wanted, given)
        except FlintError as error:
            self.failure = error
            raise

    def head(self, num_rows: int, **options: Any) -> pa.Table:  # type: ignore[override]
        """Return the first rows of a scan with these options of `scanner`."""
        return self.scanner(**options).head(num_rows)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # type: ignore[override]
        """Count the rows that pass a filter; only the columns of the filter are read."""
        return self.scanner(columns=[], filter=filter, **options).count_rows()

    def _with_filter(self, filter: Any) -> Any:
        if self._wanted is None or filter is None:
            return self._wanted if filter is None else filter
        return self._wanted & filter

    def filter(self, expression: Any) -> StoreDataset:
        """Return the same dataset with a filter that applies to every read."""
        return self._changed(_wanted=self._with_filter(expression))

    def with_views(self) -> StoreDataset:
        """Return the same dataset with the columns of VIEW_SCHEMA."""
        return self._changed(_views=True)

    def with_years(self) -> StoreDataset:
        """Return the same dataset with null for times outside the years 1 to 9999.

        DuckDB would end at them."""
        return self._changed(_in_years=True)

    def with_options(self, options: ScanOptions) -> StoreDataset:
        """Return the same dataset read in another way; its notes and its progress go nowhere."""
        return self._changed(options=options, report=Report(), progress=None)

    def places(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the path of each store, and its values of the columns broker and store.

        A single store has none of these columns.

        Raises:
            FlintError: as `dataset` raises it.
        """
        for member in find_members(self.path, self.config, strict=self.options.strict):
            yield member.path, member.words

    def _changed(self, **others: Any) -> StoreDataset:
        """Return the same dataset with other values of some attributes."""
        changed = StoreDataset.__new__(StoreDataset)
        vars(changed).update({**vars(self), "failure": None, **others})
        return changed

    def _not_here(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse a method that does not fit a store, which is one stream and not a set of files.

        Raises:
            UsageError: always.
        """
        raise UsageError("a store's dataset is read by scanner, to_batches, to_table, head, count_rows, or by DuckDB")

    get_fragments = replace_schema = join = join_asof = sort_by = _not_here


def as_views(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give the columns of a batch the types of a schema with views, as views of the copies.

    Raises:
        UsageError: this pyarrow cannot do so.
    """
    try:
        columns = [_as_viewed(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowException, AttributeError) as error:
        raise UsageError(f"pyarrow {pa.__version__} makes no views of rows it filtered; leave views out") from error


def _as_viewed(column: Any, kind: pa.DataType) -> pa.Array[Any]:
    """Cast a column; a map's keys and values each by themselves.

    Keys have no nulls, but a filter gives them a bitmap all the same, with which a cast of the whole map ends the
    process (pyarrow 23 to 25).
    """
    if not pa.types.is_map(kind):
        cast: pa.Array[Any] = column.cast(kind)
        return cast
    keys, items = column.keys.cast(kind.key_type), column.items.cast(kind.item_type)
    bare = pa.Array.from_buffers(kind.key_type, len(keys), [None, *keys.buffers()[1:]], offset=keys.offset)
    entries = pa.StructArray.from_arrays([bare, items], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(
        kind, len(column), column.buffers()[:2], column.null_count, column.offset, children=[entries]
    )


class DatasetScan:
    """One read of a dataset, with the methods of Arrow's Scanner that DuckDB and pyarrow use.

    Arrow's own scanner would filter on threads that read ahead, which takes hundreds of MiB if rows are wide.
    """

    def __init__(self, reader: pa.RecordBatchReader, whole: pa.Schema) -> None:
        self.reader, self._whole = reader, whole

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the rows read."""
        return self.reader.schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._whole

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream."""
        return self.reader

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return an iterator of the batches."""
        return iter(self.reader)

    def to_table(self) -> pa.Table:
        """Read all rows into memory."""
        return self.reader.read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows."""
        taken: list[pa.RecordBatch] = []
        while num_rows > 0 and (batch := next(self.reader, None)) is not None:
            taken.append(batch.slice(0, num_rows))
            num_rows -= len(taken[-1])
        return pa.Table.from_batches(taken, self.reader.schema)

    def count_rows(self) -> int:
        """Read and count all rows."""
        return sum(batch.num_rows for batch in self.reader)

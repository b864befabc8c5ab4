"""A store as a dataset: what DuckDB and pyarrow read as often as they like, asking for columns and rows.

It is a `pyarrow.dataset.Dataset` by type alone, because that is how DuckDB knows what it can push into; of the base
class only methods are used that go through `scanner`. Rows that the filter rules out by topic, queue, tags or store
time are left out inside the scan; then Arrow applies the whole filter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from flintmq.arrow.expression import comparisons, tree_of
from flintmq.arrow.scan import Queue, open_reader, predicate_of
from flintmq.arrow.schema import SCHEMA, narrow
from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, UsageError
from flintmq.store.commitlog.pushdown import narrowed
from flintmq.store.commitlog.report import Report


def dataset(
    path: str | os.PathLike[str],
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
) -> StoreDataset:
    """A store's log as a dataset for DuckDB, pyarrow, or whatever takes a pyarrow.dataset.Dataset.

    Each reading begins anew and sees the log as it is then. Only the columns that are asked for are made; filters on
    topic, queue_id, tags and store_timestamp are tried on a record's bytes.

    Args:
        path, topics, queues, since, until, tags, decompress, access, config, set, strict, report, threads: as for
            scan_arrow.
        progress: called now and then with bytes of log done and in all, by the thread that reads.

    Raises:
        As scan_arrow; what only reading can find comes while it is read.
    """
    predicate = predicate_of(topics, queues, since, until, tags)
    options = {
        "decompress": decompress,
        "access": access,
        "config": config,
        "set": set,
        "strict": strict,
        "report": report if report is not None else Report(),
        "threads": threads,
        "progress": progress,
    }
    open_reader(path, SCHEMA, predicate, **options)  # type: ignore[arg-type]  # says now what is wrong
    return StoreDataset(path, predicate, options)


class StoreDataset(ds.Dataset):
    """What `dataset` gives.

    Attributes:
        path, predicate, options: where, which rows at most, and what else open_reader is told.
        failure: the error that ended the last reading, as it was raised: engines in between make a text of it.
    """

    def __init__(self, path: str | os.PathLike[str], predicate: Any, options: dict[str, Any], wanted: Any = None):
        self.path, self.predicate, self.options, self._wanted = path, predicate, options, wanted
        self.failure: FlintError | None = None

    @property
    def schema(self) -> pa.Schema:
        """All columns, as flintmq.arrow.schema.SCHEMA."""
        return SCHEMA

    @property
    def partition_expression(self) -> Any:
        """True: nothing is known of all rows."""
        return ds.scalar(True)

    def scanner(  # type: ignore[override]  # its options are hints about files and threads, of which there are none here
        self, columns: Any = None, filter: Any = None, **_: Any
    ) -> DatasetScan:
        """The wanted columns of the rows that a filter lets pass, to be read once.

        Args:
            columns: names of columns; None for all.
            filter: an Arrow expression.

        Raises:
            UsageError: an unknown column, or columns that are computed.
        """
        if isinstance(columns, Mapping):
            raise UsageError("columns that are computed are not made here; take columns by name and compute behind it")
        filter = self._with_filter(filter)
        tree = None if filter is None else tree_of(filter)
        predicate = self.predicate if tree is None else narrowed(self.predicate, comparisons(tree))
        names = SCHEMA.names if columns is None else list(columns)
        read = SCHEMA
        if filter is None or tree is not None:
            asked = [*names, *(() if tree is None else tree.columns())]
            read = narrow(list(dict.fromkeys(asked)) or ["queue_id"])  # rows have to be counted by something
        reader = open_reader(self.path, read, predicate, **self.options)
        given = narrow(names) if names else pa.schema([])
        return DatasetScan(pa.RecordBatchReader.from_batches(given, self._rows(reader, filter, names)))

    def _rows(self, reader: pa.RecordBatchReader, filter: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
        self.failure = None
        try:
            for batch in reader:
                rows = batch if filter is None else batch.filter(filter)
                if rows.num_rows:
                    yield rows if rows.schema.names == names else rows.select(names)
        except FlintError as error:
            self.failure = error
            raise

    def head(self, num_rows: int, **options: Any) -> pa.Table:  # type: ignore[override]
        """The first rows, of the options of `scanner`."""
        return self.scanner(**options).head(num_rows)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # type: ignore[override]
        """How many rows a filter lets pass; reads nothing but what the filter asks for."""
        return self.scanner(columns=[], filter=filter, **options).count_rows()

    def _with_filter(self, filter: Any) -> Any:
        if self._wanted is None or filter is None:
            return self._wanted if filter is None else filter
        return self._wanted & filter

    def filter(self, expression: Any) -> StoreDataset:
        """The same dataset with a filter that every reading has."""
        return StoreDataset(self.path, self.predicate, self.options, self._with_filter(expression))

    def _not_here(self, *_: Any, **__: Any) -> NoReturn:
        """Not for a store, which is one stream and no set of files.

        Raises:
            UsageError: always.
        """
        raise UsageError("a store's dataset is read by scanner, to_batches, to_table, head, count_rows, or by DuckDB")

    get_fragments = replace_schema = join = join_asof = sort_by = _not_here


class DatasetScan:
    """One reading of a dataset: what DuckDB and pyarrow's Dataset ask of a pyarrow.dataset.Scanner.

    Arrow's own would filter on threads that read ahead: hundreds of MiB where rows are wide.
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of what is read."""
        return self.reader.schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return SCHEMA

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches as a stream."""
        return self.reader

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, one by one."""
        return iter(self.reader)

    def to_table(self) -> pa.Table:
        """All rows in memory."""
        return self.reader.read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        taken: list[pa.RecordBatch] = []
        while num_rows > 0 and (batch := next(self.reader, None)) is not None:
            taken.append(batch.slice(0, num_rows))
            num_rows -= len(taken[-1])
        return pa.Table.from_batches(taken, self.reader.schema)

    def count_rows(self) -> int:
        """How many rows there are."""
        return sum(batch.num_rows for batch in self.reader)

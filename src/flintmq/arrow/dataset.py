"""A store as a dataset: what DuckDB and pyarrow read as often as they like, asking for columns and rows.

It is a `pyarrow.dataset.Dataset` by type alone, because that is how DuckDB knows what it can push into; of the base
class only methods are used that go through `scanner`. Rows that the filter rules out by topic, queue, tags or store
time are left out inside the scan; then Arrow applies the whole filter.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from flintmq.arrow.expression import comparisons, tree_of
from flintmq.arrow.scan import Queue, open_reader, predicate_of
from flintmq.arrow.schema import SCHEMA, narrow
from flintmq.config import StoreConfig
from flintmq.errors import FlintError, UsageError
from flintmq.store.narrow import narrowed
from flintmq.store.report import Report

READ_AHEAD = 2
"""Batches that Arrow may hold while it filters; each is some 8 MiB."""


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
) -> StoreDataset:
    """A store's log as a dataset for DuckDB, pyarrow, or whatever takes a pyarrow.dataset.Dataset.

    Each reading begins anew and sees the log as it is then. Only the columns that are asked for are made; filters on
    topic, queue_id, tags and store_timestamp are tried on a record's bytes.

    Args:
        path, topics, queues, since, until, tags, decompress, access, config, set, strict, report, threads: as for
            scan_arrow.

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

    def scanner(  # type: ignore[override]  # pyarrow names its own options one by one
        self, columns: Any = None, filter: Any = None, **options: Any
    ) -> ds.Scanner:
        """A scanner over the wanted columns of the rows that a filter lets pass.

        Args:
            columns: names; or a dict of new names and expressions, as pyarrow takes it.
            filter: an Arrow expression.
            options: pyarrow's own of Scanner.from_batches, such as use_threads.

        Raises:
            UsageError: an unknown column.
        """
        filter = self._with_filter(filter)
        tree = None if filter is None else tree_of(filter)
        read = SCHEMA
        if columns is not None and not isinstance(columns, Mapping) and (filter is None or tree is not None):
            asked = [str(name) for name in columns] + ([] if tree is None else list(tree.columns()))
            read = narrow(list(dict.fromkeys(asked)) or ["queue_id"])  # rows have to be counted by something
        predicate = self.predicate if tree is None else narrowed(self.predicate, comparisons(tree))
        reader = open_reader(self.path, read, predicate, **self.options)
        options = {"batch_readahead": READ_AHEAD, "cache_metadata": False} | options
        rows = pa.RecordBatchReader.from_batches(read, self._noting(reader))
        return ds.Scanner.from_batches(rows, columns=columns, filter=filter, **options)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # type: ignore[override]
        """How many rows a filter lets pass; reads nothing but what the filter asks for."""
        return int(self.scanner(columns=[], filter=filter, **options).count_rows())

    def _noting(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        self.failure = None
        try:
            yield from reader
        except FlintError as error:
            self.failure = error
            raise

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

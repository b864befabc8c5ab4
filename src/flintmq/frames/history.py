"""Reads stores and the table of their exports as one frame.

It is the argument `history` of scan_arrow, dataset and sql.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from flintmq import hooks
from flintmq.arrow.options import ScanOptions
from flintmq.arrow.schema import MS, US
from flintmq.cluster.members import Stores, find_members
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.frames.asked import refuse_unknown_topics
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report


class HistoryRows(Protocol):
    """Rows of a table and its stores, as the lake gives them."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def rows(self, schema: pa.Schema, report: Report) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with columns of `schema`."""

    def has_topic(self, topic: str) -> bool:
        """Return whether the table has rows of a topic."""


class HistoryFrame:
    """Stores and their table; each read begins anew, with the version that the table has then.

    Args:
        path, table, options, config, catalog: as for open_history.

    Attributes:
        schema: the columns, with times as in SCHEMA.
    """

    def __init__(
        self, path: Stores, table: str, options: ScanOptions, config: StoreConfig, catalog: str | None
    ) -> None:
        self.path, self.table, self.options, self.config, self.catalog = path, table, options, config, catalog
        whole = self._open(Predicate()).schema
        self.schema: pa.Schema = pa.schema([(field.name, MS if field.type == US else field.type) for field in whole])

    def read(self, schema: pa.Schema, predicate: Predicate, report: Report) -> pa.RecordBatchReader:
        """Begin a read of these columns of the rows that a predicate selects.

        Raises:
            FlintError: as `scan_arrow` with a history.
        """
        opened = self._open(predicate)
        return pa.RecordBatchReader.from_batches(schema, _rows(opened, schema, report))

    def refuse_unknown_topics(self, predicate: Predicate, report: Report) -> None:
        """Check the topics that a predicate of arguments names; see frames/asked.py.

        Raises:
            UsageError: (strict) neither a store nor the table has a topic.
            StoreAccessError: a store or the table cannot be read.
        """
        paths = [member.path for member in find_members(self.path, self.config, strict=self.options.strict)]
        refuse_unknown_topics(paths, predicate, self.config, self.options.strict, report, self._has_topic)

    def _has_topic(self, topic: str) -> bool:
        """Return whether the table has rows of a topic."""
        return self._open(Predicate()).has_topic(topic)

    def _open(self, predicate: Predicate) -> HistoryRows:
        opened: HistoryRows = hooks.load("history").open(
            self.path,
            self.table,
            predicate,
            self.config,
            catalog=self.catalog,
            access=self.options.access,
            fail_on_data_loss=self.options.strict,
        )
        return opened


def open_history(
    path: Stores,
    table: str | os.PathLike[str],
    predicate: Predicate,
    options: ScanOptions,
    config: StoreConfig,
    catalog: str | None,
    left_out: Mapping[str, object],
) -> HistoryFrame:
    """Open the frame of stores and their table.

    Args:
        path: the stores.
        table: directory of the table.
        predicate: selects rows.
        options: of the scan; its `access` and `strict` are used.
        config: RocketMQ's keys.
        catalog: of an Iceberg table; None: its own.
        left_out: arguments that do not apply to a frame with history, with their values.

    Raises:
        UsageError: one of these is given, or the table does not fit the stores.
        StoreAccessError, MissingExtraError: the table cannot be read.
    """
    if not isinstance(table, (str, os.PathLike)) or not os.fspath(table):
        raise UsageError(f"history is the directory of a table that exports made, not {table!r:.60}")
    for name, value in left_out.items():
        if value is not None:
            raise UsageError(f"{name} does not apply to a read with history; leave it out")
    return HistoryFrame(path, os.fspath(table), options, config, catalog)


def _rows(history: HistoryRows, schema: pa.Schema, report: Report) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the types of a schema.

    Its times are in ms, of which those of the table are multiples.
    """
    whole = history.schema
    own = pa.schema([whole.field(name) for name in schema.names])
    for batch in history.rows(own, report):
        yield (
            batch
            if own == schema
            else pa.RecordBatch.from_arrays(
                [column.cast(kind, safe=False) for column, kind in zip(batch.columns, schema.types, strict=True)],
                schema=schema,
            )
        )

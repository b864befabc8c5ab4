"""Reads stores as one, store by store; of several with the columns broker and store."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import pyarrow as pa

from flintmq.arrow.schema import CODES, narrow
from flintmq.cluster.member import Member
from flintmq.errors import UsageError
from flintmq.message import MEMBER_COLUMNS
from flintmq.storage.files.store_url import is_utf8


class MemberColumns:
    """Adds the columns that name a member to batches of its rows; an only store has none.

    `inner`: the columns to read of the store: those wanted without broker and store; one if there are no others,
    because rows have to be counted.

    Thread: one.
    """

    def __init__(self, schema: pa.Schema, member: Member) -> None:
        self.schema = schema
        own = [field for field in schema if field.name not in MEMBER_COLUMNS]
        self.inner: pa.Schema = pa.schema(own).with_metadata(schema.metadata) if own else narrow(["queue_id"])
        self._only = not own
        self._values = member.words
        self._added = [(at, field) for at, field in enumerate(schema) if field.name in MEMBER_COLUMNS]
        self._made: dict[str, pa.Array[Any]] = {}

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with all columns of the schema; no column of it is copied."""
        rows = batch.num_rows
        if self._only:
            columns = [self._constant(field, rows) for field in self.schema]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        # Adding a column takes 3 us; a new batch of all columns takes 50, which a scan of small batches would notice.
        for at, field in self._added:
            batch = batch.add_column(at, field, self._constant(field, rows))
        return batch

    def _constant(self, field: pa.Field[Any], rows: int) -> pa.Array[Any]:
        """Return a column with one value; batches share it, as slices."""
        made = self._made.get(field.name)
        if made is None or len(made) < rows:
            value = member_text(field.name, self._values[field.name])
            made = self._made[field.name] = _repeated(value, field.type, max(rows, _LEAST))
        return made.slice(0, rows)


_LEAST = 1024


def member_text(column: str, value: str) -> str:
    """Return the value of a column that names a store."""
    if not is_utf8(value):
        shown = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")  # Arrow carries the text
        raise UsageError(
            f"{shown}: not UTF-8, so the column {column} cannot hold it; rename the directory, or leave the column out"
        )
    return value


def _repeated(value: str, kind: pa.DataType, rows: int) -> pa.Array[Any]:
    if kind == CODES:
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([value]))
    repeated: pa.Array[Any] = pa.repeat(pa.scalar(value, kind), rows)  # type: ignore[call-overload]
    return repeated


def rows_of_members(
    members: Sequence[Member],
    schema: pa.Schema,
    rows_of: Callable[[Member, pa.Schema], Iterable[pa.RecordBatch]],
) -> Generator[pa.RecordBatch, None, None]:
    for member in members:
        columns = MemberColumns(schema, member)
        for batch in rows_of(member, columns.inner):
            yield columns.add_to(batch)

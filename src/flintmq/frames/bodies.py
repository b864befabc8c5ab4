"""Loads the decoder of bodies, which is of the lake.

Its arguments are `body`, and `body_schema` to `schema_registry`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from flintmq import hooks
from flintmq.arrow.schema import narrow
from flintmq.errors import MissingExtraError, UsageError
from flintmq.store import arguments
from flintmq.store.commitlog.report import Report


class BodyDecoder(Protocol):
    """Decodes the bodies of messages, as the lake does it for exports and Spark."""

    def schema(self, whole: pa.Schema) -> pa.Schema:
        """Return all columns: `body` as it is decoded, and after it body_raw and body_error."""

    def rows(
        self,
        wanted: pa.Schema,
        whole: pa.Schema,
        read: Callable[[pa.Schema, Report], Iterable[pa.RecordBatch]],
        report: Report,
    ) -> Iterator[pa.RecordBatch]:
        """Begin a read of these columns of `schema`.

        `read` begins to read columns of `whole`, where bodies are bytes.
        """

    def value(self, body: bytes, packed: bool) -> tuple[Any, str | None]:
        """Return the value of a body, and why it does not decode; `packed`: it does not decompress."""


def bodies_of(
    body: str,
    schema: str | os.PathLike[str] | None,
    message: str | None,
    head: bool,
    registry: str | None,
    views: bool = False,
) -> BodyDecoder | None:
    """Check the arguments about bodies.

    Returns:
        Their decoder; None where they stay bytes.

    Raises:
        UsageError: they do not fit together, or the schema is none.
        StoreAccessError: the schema's file may not be read.
        MissingExtraError: numpy, or the package for Avro or Protobuf, is not installed.
    """
    arguments.flags(body_head=head)
    if body == "bytes" and schema is None and message is None and not head and registry is None:
        return None
    if views:
        raise UsageError("views are of bodies as they are stored; leave out views, or body")
    if not isinstance(schema, (str, os.PathLike, type(None))):
        raise UsageError(f"body_schema is of type {type(schema).__name__}; give a file, or a text such as 'id long'")
    text = None if schema is None else os.fspath(schema)
    try:
        decoder = hooks.load("decoded_columns")
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"decoded bodies need {error.name}: pip install 'flintmq[arrow]'") from error
    found: BodyDecoder = decoder(body, text, message, head, registry)
    return found


def read_rows(
    bodies: BodyDecoder | None,
    wanted: pa.Schema,
    whole: pa.Schema,
    read: Callable[[pa.Schema, Report], pa.RecordBatchReader],
    report: Report,
) -> pa.RecordBatchReader:
    """Begin a read of these columns; see `BodyDecoder.rows`."""
    if bodies is None:
        return read(wanted, report)
    return pa.RecordBatchReader.from_batches(wanted, bodies.rows(wanted, whole, read, report))


def narrow_fields(columns: Sequence[str] | None, schema: pa.Schema) -> pa.Schema:
    """Return the schema of these columns, of which `body.id` is body with the field id alone.

    Raises:
        UsageError: as `narrow` raises it, or a field is unknown.
    """
    if columns is None or isinstance(columns, str) or not any("." in str(name) for name in columns):
        return narrow(columns, schema)
    fields: dict[str, list[list[str]]] = {}
    for name in columns:
        column, *path = str(name).split(".")
        fields.setdefault(column, []).append(path)
    whole = narrow(list(fields), schema)
    return pa.schema([field.with_type(_with_fields(field.type, fields[field.name], field.name)) for field in whole])


def _with_fields(kind: pa.DataType, paths: list[list[str]], place: str) -> pa.DataType:
    """Return a type with the fields that paths lead to; of a list they are those of its values."""
    if [] in paths:
        if paths[1:]:
            raise UsageError(f"column {place!r} is named twice")
        return kind
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_with_fields(kind.value_type, paths, place)))
    fields: dict[str, list[list[str]]] = {}
    for name, *path in paths:
        fields.setdefault(name, []).append(path)
    own = {field.name: field for field in kind} if isinstance(kind, pa.StructType) else {}
    if unknown := fields.keys() - own:
        there = f"there are: {', '.join(own)}" if own else "it has no fields"
        raise UsageError(f"no field {min(unknown)[:60]!r} in {place}; {there}")
    return pa.struct(
        [
            one.with_type(_with_fields(one.type, fields[name], f"{place}.{name}"))
            for name, one in own.items()
            if name in fields
        ]
    )

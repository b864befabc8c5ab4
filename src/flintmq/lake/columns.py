"""Shapes the rows of an export: properties as map or columns; bodies as bytes, text or JSON.

A body that is not the requested text or JSON is never lost: its bytes are in the column `body_raw`, otherwise null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.schema import SPARK_SCHEMA, of_many
from flintmq.config.text import check_choice
from flintmq.errors import UsageError
from flintmq.lake.json_bodies import arrow_type, body_schema, parsed
from flintmq.lake.parquet import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BODIES = ("bytes", "text", "json")
RAW = "body_raw"
OWN_NAMES = ("export", *PARTITIONS, RAW)  # columns that an export has besides those of the schema


@dataclass(frozen=True)
class ExportColumns:
    """The columns of an export.

    Attributes:
        properties: pairs of a property and the column for its values; None: all in the map `properties`.
        body: "bytes", "text" or "json".
        body_schema: schema of "json".
        many: rows are of several stores, and have the columns broker and store.
    """

    properties: tuple[tuple[str, str], ...] | None = None
    body: str = "bytes"
    body_schema: StructType | None = None
    many: bool = False

    @classmethod
    def parse(
        cls,
        properties: Sequence[str] | None = None,
        body: str = "bytes",
        schema: str | None = None,
        many: bool = False,
    ) -> ExportColumns:
        """Check the options, and return the columns that they ask for.

        Args:
            properties: each NAME or NAME:COLUMN.
            body: one of BODIES.
            schema: of "json": DDL, or a file (see `json_bodies.body_schema`).
            many: whether rows are of several stores.

        Raises:
            UsageError: an option is impossible; the text names it.
            StoreAccessError: the file of the schema cannot be read.
        """
        check_choice("body", body, BODIES)
        if (body == "json") != (schema is not None):
            raise UsageError("body json needs a body schema (--body-schema FILE|DDL), and only json takes one")
        pairs = None if properties is None else tuple(_pair(text) for text in properties)
        taken = {name.casefold() for name in (*_rows(many).names, *OWN_NAMES)}
        for name, column in pairs or ():
            if column.casefold() in taken:
                raise UsageError(f"property {name[:60]!r}: column {column!r} exists already; give NAME:COLUMN")
            taken.add(column.casefold())
        return cls(pairs, body, None if schema is None else body_schema(schema), many)

    @property
    def is_plain(self) -> bool:
        """True if rows are left unchanged."""
        return self.properties is None and self.body == "bytes"

    @property
    def decompresses(self) -> bool:
        """True if bodies must be decompressed first."""
        return self.body != "bytes"

    def choice(self) -> dict[str, Any]:
        """Return the options for the manifest of an export."""
        return {
            "properties": None if self.properties is None else [list(pair) for pair in self.properties],
            "body": self.body,
            "body_schema": None if self.body_schema is None else self.body_schema.simpleString(),
        }

    def schema(self) -> pa.Schema:
        """Return the schema of a row."""
        fields: list[pa.Field[Any]] = []
        for field in _rows(self.many):
            if field.name == "properties" and self.properties is not None:
                fields += [pa.field(column, pa.string()) for _, column in self.properties]
            elif field.name == "body" and self.body != "bytes":
                kind = pa.string() if self.body_schema is None else arrow_type(self.body_schema)
                fields += [pa.field("body", kind), pa.field(RAW, pa.binary())]
            else:
                fields.append(field)
        return pa.schema(fields)

    def shaped(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Shape the rows of a batch of the scan's columns, and count the bodies of the wrong kind."""
        if self.is_plain:
            return batch, 0
        columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        bad = 0
        for name, column in self.properties or ():
            columns[column] = pc.map_lookup(columns["properties"], pa.scalar(name), "first")
        if self.body != "bytes":
            bodies = columns["body"]
            columns["body"], wrong = _texts(bodies) if self.body_schema is None else _json(bodies, self.body_schema)
            columns[RAW] = pc.if_else(wrong, bodies, pa.scalar(None, pa.binary()))
            bad = pc.sum(wrong).as_py() or 0
        schema = self.schema()
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema), bad


def _rows(many: bool) -> pa.Schema:
    """Return the columns that a scan gives."""
    return of_many(SPARK_SCHEMA) if many else SPARK_SCHEMA


def _pair(text: str) -> tuple[str, str]:
    """Split NAME or NAME:COLUMN into a property and its column."""
    name, colon, column = text.rpartition(":")
    if not colon:
        name = column
    if not name or not re.fullmatch(r"[^\W\d]\w*", column):
        raise UsageError(
            f"property {text[:60]!r}: {column[:40]!r} is not a valid column name; give NAME:COLUMN with letters, "
            "digits, _"
        )
    return name, column


def _texts(bodies: Any) -> tuple[Any, Any]:
    """Decode bodies as text, with U+FFFD for invalid UTF-8, and mark the invalid ones."""
    try:
        return bodies.cast(pa.string()), pa.array([False] * len(bodies), pa.bool_())
    except pa.ArrowInvalid:
        raw = bodies.to_pylist()
    texts = [body.decode(errors="replace") for body in raw]
    wrong = [text.encode() != body for text, body in zip(texts, raw, strict=True)]
    return pa.array(texts, pa.string()), pa.array(wrong, pa.bool_())


def _json(bodies: Any, schema: StructType) -> tuple[Any, Any]:
    """Parse bodies as structs, null where the body is not valid, and mark the invalid ones."""
    values, bad = parsed(bodies.to_pylist(), schema)
    wrong = [False] * len(bodies)
    for number in bad:
        wrong[number] = True
    return values, pa.array(wrong, pa.bool_())

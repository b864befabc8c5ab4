"""Shapes the rows of an export: properties as map or columns; bodies as bytes, or decoded.

A body that does not decode is never lost: its bytes are in the column `body_raw`, otherwise null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.members import MemberColumns
from flintmq.arrow.schema import SPARK_SCHEMA, of_many
from flintmq.cluster.member import Member
from flintmq.errors import UsageError
from flintmq.lake.bodies.column import RAW, decoded_bodies, undecoded
from flintmq.lake.bodies.form import BodyForm
from flintmq.lake.shape.changes import ChangeForm
from flintmq.lake.shape.parquet import PARTITIONS
from flintmq.store.commitlog.report import Report

BYTES = {"body": "bytes", "body_schema": None, "body_head": False}
OWN_NAMES = ("export", *PARTITIONS, RAW)  # columns that an export has besides those of the schema


@dataclass(frozen=True)
class ExportColumns:
    """The columns of an export.

    `properties`: pairs of a property and the column for its values; None: all in the map `properties`.
    """

    properties: tuple[tuple[str, str], ...] | None = None
    body: BodyForm | None = None
    many: bool = False  # rows are of several stores, and have the columns broker and store
    changes: ChangeForm | None = None  # rows are those of a database's table; None: messages

    @classmethod
    def parse(
        cls, properties: Sequence[str] | None = None, body: BodyForm | None = None, many: bool = False
    ) -> ExportColumns:
        pairs = None if properties is None else tuple(_pair(text) for text in properties)
        taken = {name.casefold() for name in (*of_many(SPARK_SCHEMA, many).names, *OWN_NAMES)}
        for name, column in pairs or ():
            if column.casefold() in taken:
                raise UsageError(f"property {name[:60]!r}: column {column!r} exists already; give NAME:COLUMN")
            taken.add(column.casefold())
        return cls(pairs, body, many)

    @property
    def is_plain(self) -> bool:
        return self.properties is None and self.body is None

    @property
    def decompresses(self) -> bool:
        return self.body is not None

    def choice(self) -> dict[str, Any]:
        return {
            "properties": None if self.properties is None else [list(pair) for pair in self.properties],
            **(BYTES if self.body is None else self.body.choice()),
            **({} if self.changes is None else self.changes.choice()),
        }

    def schema(self) -> pa.Schema:
        if self.changes is not None:
            return self.changes.schema()
        fields: list[pa.Field[Any]] = []
        for field in of_many(SPARK_SCHEMA, self.many):
            if field.name == "properties" and self.properties is not None:
                fields += [pa.field(column, pa.string()) for _, column in self.properties]
            elif field.name == "body" and self.body is not None:
                fields += [pa.field("body", self.body.type), pa.field(RAW, pa.binary())]
            else:
                fields.append(field)
        return pa.schema(fields)

    def named(self, batches: Iterable[pa.RecordBatch], member: Member) -> Iterable[pa.RecordBatch]:
        """Add the columns that name a store among several to batches of the scan's columns."""
        return map(MemberColumns(of_many(SPARK_SCHEMA, self.many), member).add_to, batches)

    def keep_undecoded(self, report: Report) -> None:
        """Have a scan with this report go on at bodies that do not decompress, if there is a place.

        Their place is `body_raw`."""
        report.undecoded = set() if self.decompresses else None

    def shaped(self, batch: pa.RecordBatch, report: Report | None = None) -> Shaped:
        if self.is_plain:
            return Shaped(batch, [])
        if self.changes is not None:
            rows, unread, skipped = self.changes.shaped(batch, undecoded(batch, report))
            if report is not None:
                report.note_counts.update(skipped)
            return Shaped(rows, unread)
        columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        bad: list[tuple[int, str]] = []
        for name, column in self.properties or ():
            columns[column] = pc.map_lookup(columns["properties"], pa.scalar(name), "first")
        if self.body is not None:
            columns["body"], columns[RAW], bad = decoded_bodies(self.body, batch, report)
        schema = self.schema()
        return Shaped(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema), bad)


def columns_of(choice: Mapping[str, Any], source: Mapping[str, str] | None) -> tuple[ExportColumns, str | None]:
    """Return the columns of an export by its manifest, and a form of bodies.

    The form is named if the manifest does not keep its schema; the columns that are returned have bytes then.
    """
    pairs = choice["properties"]
    properties = None if pairs is None else tuple((name, column) for name, column in pairs)
    try:
        form, missing = BodyForm.of_kept(choice, source), None
    except LookupError:
        form, missing = None, choice["body"]
    return ExportColumns(properties, form, choice["many"]), missing


class Shaped(NamedTuple):
    rows: pa.RecordBatch
    bad: list[tuple[int, str]]  # number of each row whose body did not decode, and the reason


def _pair(text: str) -> tuple[str, str]:
    name, colon, column = text.rpartition(":")
    if not colon:
        name = column
    if not name or not re.fullmatch(r"[^\W\d]\w*", column):
        raise UsageError(
            f"property {text[:60]!r}: {column[:40]!r} is not a valid column name; give NAME:COLUMN with letters, "
            "digits, _"
        )
    return name, column

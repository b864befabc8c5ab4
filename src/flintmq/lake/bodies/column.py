"""Makes the columns of decoded bodies, and of the bytes and reasons of the others.

A body that does not decode is never lost, and costs its row nothing else. Of those that do `body_raw` and `body_error`
are null: they are the dead letters of an export, as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.schema import narrow
from flintmq.lake.bodies.failure import NOT_COMPRESSED
from flintmq.lake.bodies.form import BodyForm, decoded, decoded_one
from flintmq.store.commitlog.report import UNDECODED, Report

BODY, RAW, ERROR = "body", "body_raw", "body_error"


class DecodedBodies(NamedTuple):
    values: Any  # of the form's type
    raw: Any  # bytes of those that do not decode, otherwise null
    bad: list[tuple[int, str]]  # number of each row whose body does not decode, and the reason

    @property
    def error(self) -> Any:
        reasons: list[str | None] = [None] * len(self.raw)
        for row, reason in self.bad:
            reasons[row] = reason
        return pa.array(reasons, pa.string()) if self.bad else pa.nulls(len(self.raw), pa.string())


def decoded_bodies(form: BodyForm, batch: pa.RecordBatch, report: Report | None) -> DecodedBodies:
    """Decode the column body of a batch, which has the column physical_offset too.

    `report`: of the scan, whose `undecoded` are the bodies that do not decompress.
    """
    bodies = batch.column(BODY)
    packed = undecoded(batch, report)
    # Nor is it decoded as it is stored: what it was may be something else.
    values, bad = decoded(form, pc.if_else(_mask(packed, len(bodies)), b"", bodies) if packed else bodies)
    if packed:
        values = pc.if_else(_mask(packed, len(bodies)), pa.scalar(None, form.type), values)
        bad = sorted([one for one in bad if one[0] not in packed] + [(row, NOT_COMPRESSED) for row in packed])
    null = pa.scalar(None, pa.binary())
    wrong = _mask({row for row, _ in bad}, len(bodies))
    return DecodedBodies(values, pc.if_else(wrong, bodies, null) if bad else pa.nulls(len(bodies), pa.binary()), bad)


def with_bodies(schema: pa.Schema, form: BodyForm) -> pa.Schema:
    """Return the columns of messages whose bodies are decoded."""
    at = schema.get_field_index(BODY)
    fields = list(schema)
    fields[at : at + 1] = [pa.field(BODY, form.type), pa.field(RAW, pa.binary()), pa.field(ERROR, pa.string())]
    return pa.schema(fields)


def decoded_rows(
    form: BodyForm,
    wanted: pa.Schema,
    whole: pa.Schema,
    read: Callable[[pa.Schema], Iterable[pa.RecordBatch]],
    report: Report,
) -> Iterable[pa.RecordBatch]:
    """Begin a read; return its rows with the wanted columns, and fields of structs.

    `whole`: all columns, bodies as bytes. `read`: begins to read some of them, and tells `report`, which belongs to
    this read alone.
    """
    scanned = undecoded_columns(wanted.names)
    if scanned == wanted.names:
        return read(wanted)
    report.undecoded = set()  # their place is body_raw
    batches = read(narrow(scanned, whole))
    return (with_decoded(batch, wanted, form, report) for batch in batches)


class DecodedColumns:
    """Decodes for the core (`frames/bodies.py` has its side); JSON needs no schema there.

    Args: as for `BodyForm.parse`.
    """

    def __init__(self, name: str, schema: str | None, message: str | None, head: bool, registry: str | None) -> None:
        form = BodyForm.parse(name, schema, message=message, head=head, registry=registry, any_json=True)
        assert form is not None  # only bytes have none, and whoever wants these does not come here
        self.form, self._decode = form, decoded_one(form)

    def schema(self, whole: pa.Schema) -> pa.Schema:
        return with_bodies(whole, self.form)

    def rows(
        self,
        wanted: pa.Schema,
        whole: pa.Schema,
        read: Callable[[pa.Schema, Report], Iterable[pa.RecordBatch]],
        report: Report,
    ) -> Iterator[pa.RecordBatch]:
        own = Report()  # of two reads at a time each finds its own bodies that do not decompress
        silent = BODY in wanted.names and RAW not in wanted.names and ERROR not in wanted.names
        batches = decoded_rows(self.form, wanted, whole, lambda inner: read(inner, own), own)

        def told() -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    if silent:
                        own.note_counts[UNDECODED] += batch.column(BODY).null_count
                    yield batch
            finally:
                report.add(own)

        return told()

    def value(self, body: bytes, packed: bool) -> tuple[Any, str | None]:
        return (None, NOT_COMPRESSED) if packed else self._decode(body)


def undecoded_columns(names: list[str]) -> list[str]:
    """Return the columns of messages that these columns are made of."""
    plain = [name for name in names if name not in (BODY, RAW, ERROR)]
    return plain if len(plain) == len(names) else [*dict.fromkeys([*plain, BODY, "physical_offset"])]


def with_decoded(batch: pa.RecordBatch, wanted: pa.Schema, form: BodyForm, report: Report) -> pa.RecordBatch:
    """Return the wanted columns, and fields of structs, of a batch of `undecoded_columns`."""
    found = decoded_bodies(form, batch, report)
    made = {BODY: found.values, RAW: found.raw, ERROR: found.error}
    columns = [made[field.name] if field.name in made else batch.column(field.name) for field in wanted]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, wanted, strict=True)], schema=wanted
    )


def undecoded(batch: pa.RecordBatch, report: Report | None) -> set[int]:
    """Return the numbers of the rows that the scan could not decompress, and forget them.

    They are forgotten because the next store's offsets may be the same.
    """
    if report is None or not report.undecoded:
        return set()
    offsets = batch.column("physical_offset").to_pylist()
    found = report.undecoded.intersection(offsets)
    report.undecoded -= found
    return {row for row, offset in enumerate(offsets) if offset in found}


def _mask(rows: set[int], count: int) -> Any:
    mask = np.zeros(count, bool)
    mask[list(rows)] = True
    return pa.array(mask)

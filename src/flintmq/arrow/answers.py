"""Makes an Arrow table of rows of a dataclass, such as those of `flintmq trace`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate, chain
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.schema import MS, US, narrow
from flintmq.format.text import END_MS, FIRST_MS

_TYPES: dict[type, pa.DataType] = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}


def schema_of(kind: type[Any], times: pa.DataType = MS) -> pa.Schema:
    """Return the columns of a dataclass.

    `times`: the type of fields that end in `_ms`: MS, or for Spark US.
    """
    hints = get_type_hints(kind)
    return pa.schema([(one.name, _type_of(one.name, hints[one.name], times)) for one in fields(kind)])


def table(
    rows: Sequence[Any], kind: type[Any], columns: Sequence[str] | None = None, times: pa.DataType = MS
) -> pa.Table:
    """Return a row for each row.

    Args:
        columns: names of columns, in the order wanted; None for all.
        times: MS; or US, of which those outside the years 1 to 9999 are null.

    Raises:
        UsageError: an unknown column.
    """
    schema = narrow(columns, schema_of(kind, times))
    return pa.Table.from_arrays(_columns(rows, schema), schema=schema)


def _columns(rows: Sequence[Any], fields: Iterable[Any]) -> list[Any]:
    return [_column([getattr(row, field.name) for row in rows], field.type) for field in fields]


def _column(values: list[Any], kind: Any) -> Any:
    if pa.types.is_list(kind):
        offsets: Any = pa.array(accumulate(map(len, values), initial=0), pa.int32())
        from_arrays: Any = pa.ListArray.from_arrays
        return from_arrays(offsets, _column(list(chain.from_iterable(values)), kind.value_type), kind)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(_columns(values, kind), fields=list(kind))
    if kind == US:
        ms: Any = pa.array(values, pa.int64())
        has_date: Any = pc.and_(pc.greater_equal(ms, pa.scalar(FIRST_MS)), pc.less(ms, pa.scalar(END_MS)))
        dated: Any = pc.if_else(has_date, ms, None)
        return dated.cast(MS).cast(US)
    return pa.array(values, kind)


def _type_of(name: str, hint: Any, times: pa.DataType) -> pa.DataType:
    if get_origin(hint) is UnionType:  # of a type and None
        hint = get_args(hint)[0]
    if get_origin(hint) is list:
        return pa.list_(_type_of("", get_args(hint)[0], times))
    if is_dataclass(hint):
        return pa.struct(schema_of(hint, times))  # type: ignore[arg-type]
    return times if name.endswith("_ms") else _TYPES[hint]

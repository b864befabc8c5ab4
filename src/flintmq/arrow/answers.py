"""Makes an Arrow table of rows of a dataclass, such as those of `flintmq trace`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from flintmq.arrow.schema import MS, US, narrow
from flintmq.format.text import utc

_TYPES: dict[type, pa.DataType] = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}


def schema_of(kind: type[Any], times: pa.DataType = MS) -> pa.Schema:
    """Return the columns of a dataclass; fields that end in `_ms` are times, MS or, for Spark, US."""
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
    return pa.Table.from_pylist([row_of(one, times is US) for one in rows], schema=schema)


def row_of(value: Any, dated: bool, name: str = "") -> Any:
    """Return a dataclass as a dict, with those in it; `dated`: times as `datetime`."""
    if is_dataclass(value):
        return {name: row_of(one, dated, name) for name, one in vars(value).items()}
    if isinstance(value, list):
        return [row_of(one, dated) for one in value]
    return utc(value) if dated and value is not None and name.endswith("_ms") else value


def _type_of(name: str, hint: Any, times: pa.DataType) -> pa.DataType:
    if get_origin(hint) is UnionType:  # of a type and None
        hint = get_args(hint)[0]
    if get_origin(hint) is list:
        return pa.list_(_type_of("", get_args(hint)[0], times))
    if is_dataclass(hint):
        return pa.struct(schema_of(hint, times))  # type: ignore[arg-type]
    return times if name.endswith("_ms") else _TYPES[hint]

"""Makes an Arrow table of rows of a dataclass, such as those of `flintmq trace`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from flintmq.arrow.schema import MS, narrow

_TYPES: dict[type, pa.DataType] = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}


def schema_of(kind: type[Any]) -> pa.Schema:
    """Return the columns of a dataclass; fields that end in `_ms` are times."""
    hints = get_type_hints(kind)
    return pa.schema([(one.name, _type_of(one.name, hints[one.name])) for one in fields(kind)])


def table(rows: Sequence[Any], kind: type[Any], columns: Sequence[str] | None = None) -> pa.Table:
    """Return a row for each row.

    Args:
        columns: names of columns, in the order wanted; None for all.

    Raises:
        UsageError: an unknown column.
    """
    schema = narrow(columns, schema_of(kind))
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=schema)


def _type_of(name: str, hint: Any) -> pa.DataType:
    if get_origin(hint) is UnionType:  # of a type and None
        hint = get_args(hint)[0]
    if get_origin(hint) is list:
        return pa.list_(_type_of("", get_args(hint)[0]))
    if is_dataclass(hint):
        return pa.struct(schema_of(hint))  # type: ignore[arg-type]
    return MS if name.endswith("_ms") else _TYPES[hint]

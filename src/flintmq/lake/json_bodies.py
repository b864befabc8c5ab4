"""Reads a JSON schema, and bodies as values of it.

A body is valid if it is UTF-8 and one JSON object whose values have the types that the schema declares; names
that the schema does not have are ignored, names that the body does not have are null. Nothing is converted: "12" is not
a number, 1.0 not an integer. Python's own parser reads them one by one, so that no body can affect another row.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from flintmq.errors import StoreAccessError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

Converter = Callable[[Any], Any]

FLOAT_MAX = 3.4028234663852886e38
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def body_schema(text: str) -> StructType:
    """Read the schema that an option gives.

    Args:
        text: Spark's DDL, such as "id long, lines array<struct<sku: string, count: int>>" (needs a running session);
            or a file with Spark's own JSON form, as `df.schema.json()` gives it.

    Raises:
        UsageError: the text is neither, or has a type that JSON has no values for.
        StoreAccessError: the file cannot be read.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    found: DataType
    if text.endswith(".json") or os.path.exists(text):
        try:
            with open(text, encoding="utf-8") as file:
                found = StructType.fromJson(json.load(file))
        except OSError as error:
            raise StoreAccessError(f"{text}: {error.strerror}; give a file with a schema, or its DDL") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PySparkException) as error:
            raise UsageError(f"{text}: no schema in Spark's JSON form (`df.schema.json()` writes it)") from error
    else:
        try:
            found = StructType.fromDDL(text)
        except (PySparkException, AssertionError, AttributeError) as error:
            raise UsageError(f"body schema {text[:80]!r}: no DDL such as 'id long, name string'") from error
    if not isinstance(found, StructType) or not found.fields:
        raise UsageError(f"body schema {text[:80]!r}: names no field; give one such as 'id long, name string'")
    _object(found)  # raises for types without values in JSON
    return found


def arrow_type(schema: StructType) -> pa.DataType:
    """Return the type of the column of bodies: a struct whose fields are all nullable."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.struct([field.with_nullable(True) for field in to_arrow_schema(schema, timezone="UTC")])


def reader(schema: StructType) -> Callable[[bytes], dict[str, Any] | None]:
    """Return a function that parses a body into values, or None if the body is not valid."""
    convert = _object(schema)
    decoder = json.JSONDecoder(parse_constant=_refused)

    def read(body: bytes) -> dict[str, Any] | None:
        try:
            value = decoder.decode(body.decode())
            return convert(value) if value is not None else None
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None

    return read


def parsed(bodies: Iterable[bytes], schema: StructType) -> tuple[pa.Array[Any], list[int]]:
    """Parse bodies into a column of structs, null if invalid, and list the invalid rows."""
    import pyarrow as pa

    read = reader(schema)
    values = [read(body) for body in bodies]
    return pa.array(values, arrow_type(schema)), [number for number, value in enumerate(values) if value is None]


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _converter(kind: DataType, place: str) -> Converter:
    """Return a function that converts a JSON value to a type, and raises if it does not fit."""
    from pyspark.sql import types

    name = kind.typeName()
    if name in _INTEGERS:
        return _integer(_INTEGERS[name])
    if isinstance(kind, types.StringType) and type(kind) is types.StringType:
        return _text
    if name in ("double", "float"):
        return _float if name == "float" else _double
    if name in ("boolean", "date", "timestamp"):
        return {"boolean": _boolean, "date": _date, "timestamp": _timestamp}[name]
    if isinstance(kind, types.ArrayType):
        return _list(_maybe(_converter(kind.elementType, f"{place}[]")))
    if isinstance(kind, types.MapType) and type(kind.keyType) is types.StringType:
        return _map(_maybe(_converter(kind.valueType, f"{place}{{}}")))
    if isinstance(kind, types.StructType):
        return _object(kind, place)
    raise UsageError(
        f"body schema: {place} is of type {kind.simpleString()[:60]}; there are string, boolean, byte, short, "
        "int, long, float, double, date, timestamp, array, struct, and map with keys of type string"
    )


def _object(kind: StructType, place: str = "") -> Converter:
    fields: list[tuple[str, Converter]] = []
    for field in kind.fields:
        if any(field.name == name for name, _ in fields):
            raise UsageError(f"body schema: {place}{field.name} occurs twice")
        fields.append((field.name, _maybe(_converter(field.dataType, f"{place}{field.name}"))))

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise ValueError
        return {name: make(value.get(name)) for name, make in fields}

    return convert


def _maybe(make: Converter) -> Converter:
    return lambda value: None if value is None else make(value)


def _list(make: Converter) -> Converter:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise ValueError
        return [make(one) for one in value]

    return convert


def _map(make: Converter) -> Converter:
    def convert(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise ValueError
        return [(_text(key), make(one)) for key, one in value.items()]

    return convert


def _integer(bits: int) -> Converter:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError
        return value

    return convert


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError
    if not value.isascii():
        value.encode()  # raises for half a surrogate pair, which JSON can express
    return value


def _double(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _float(value: Any) -> float:
    if abs(number := _double(value)) > FLOAT_MAX:
        raise ValueError
    return number


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _date(value: Any) -> date:
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    """Parse ISO 8601; without a zone it is UTC."""
    found = datetime.fromisoformat(value)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)

"""Reads bodies as JSON of a schema.

A body is valid if it is UTF-8 and one JSON object whose values have the types that the schema declares; names
that the schema does not have are ignored, names that the body does not have are null. Nothing is converted: "12" is not
a number, 1.0 not an integer. Python's own parser reads them one by one, so that no body can affect another row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from flintmq.lake.bodies.failure import NO_JSON, NO_UTF8, NOT_OF_SCHEMA, TOO_DEEP, BadBody

Converter = Callable[[Any], Any]
Reader = Callable[[bytes], Any]

FLOAT_MAX = 3.4028234663852886e38


def reader(kind: pa.StructType) -> Reader:
    """Return a function that parses a body into a value of this type. It raises BadBody."""
    convert = converter(kind)
    return lambda body: convert(parsed(body))


def parsed(body: bytes) -> Any:
    """Parse a body of any JSON. Raises BadBody: it is none, or deeper than Python parses it."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(NO_UTF8) from error
    try:
        return _DECODER.decode(text)
    except ValueError as error:
        raise BadBody(NO_JSON) from error
    except RecursionError as error:
        raise BadBody(TOO_DEEP) from error


def text(body: bytes) -> str:
    """Return the text of a body of any JSON. Raises BadBody: it is none."""
    parsed(body)
    return body.decode()


def converter(kind: pa.StructType) -> Converter:
    """Return a function that converts a JSON value to this type. It raises BadBody."""
    convert = _object(kind)

    def read(value: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = convert(value)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise BadBody(NOT_OF_SCHEMA) from error
        return found

    return read


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)


def _converter(kind: pa.DataType) -> Converter:
    """Return a function that converts a JSON value to a type, and raises if it does not fit."""
    if pa.types.is_integer(kind):
        return _integer(kind.bit_width)
    for of_kind, convert in _SIMPLE:
        if of_kind(kind):
            return convert
    if isinstance(kind, pa.ListType):
        return _list(_maybe(_converter(kind.value_type)))
    if isinstance(kind, pa.MapType):
        return _map(_maybe(_converter(kind.item_type)))
    assert isinstance(kind, pa.StructType), kind  # ddl reads no others
    return _object(kind)


def _object(kind: pa.StructType) -> Converter:
    fields = [(field.name, _maybe(_converter(field.type))) for field in kind]

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


_SIMPLE: list[tuple[Callable[[pa.DataType], bool], Converter]] = [
    (pa.types.is_string, _text),
    (pa.types.is_float32, _float),
    (pa.types.is_float64, _double),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_date32, _date),
    (pa.types.is_timestamp, _timestamp),
]

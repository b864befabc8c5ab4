"""Reads bodies as Avro of a schema, with fastavro (extra `avro`).

A body is one value, without the header of Avro's files. With a registry each body has its head (`registry`), which
names the schema that it was written by; the columns are those of the schema that was given, as Avro resolves one into
the other.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from flintmq.errors import MissingExtraError, UsageError
from flintmq.lake.bodies.ddl import is_json, list_of, read_file, struct_of
from flintmq.lake.bodies.failure import LEFT_OVER, NO_UTF8, NOT_OF_SCHEMA, UNKNOWN_SCHEMA, UNREAD_SCHEMA, BadBody
from flintmq.lake.bodies.registry import SchemaRegistry, split_head

PRECISION_MAX = 38
_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: dict[tuple[str, str | None], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
}


def fastavro() -> Any:
    try:
        import fastavro.read
        import fastavro.schema
    except ImportError as error:
        raise MissingExtraError("bodies as Avro need fastavro: pip install 'flintmq[avro]'") from error
    return fastavro


def read_avro_schema(text: str) -> tuple[str, pa.StructType]:
    """Read a schema: its text, or a file with it."""
    if is_json(text):
        return checked_schema(text, "body schema")
    return checked_schema(read_file(text).decode(errors="replace"), text)


def checked_schema(text: str, name: str) -> tuple[str, pa.StructType]:
    library = fastavro()
    names: dict[str, Any] = {}
    try:
        plain = _plain(json.loads(text))
        whole = library.schema.parse_schema(plain, named_schemas=names)
    except library.schema.UnknownType as error:
        raise UsageError(f"{name}: names a type that it does not declare, {error!s:.60}") from error
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        library.schema.SchemaParseException,
    ) as error:
        raise UsageError(f"{name}: no Avro schema ({type(error).__name__}); give a file .avsc") from error
    kind = _Types(names, name).column(whole, "the schema", frozenset())
    if not pa.types.is_struct(kind):
        raise UsageError(f"{name}: is a schema of no record; bodies become the fields of a record")
    return json.dumps(plain), kind


def _plain(schema: Any) -> Any:
    """Leave out the logical types that have no column: their values stay as they are."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" not in schema and isinstance(schema.get("type"), (dict, list)):
        return _plain(schema["type"])  # a type in a wrap of its own, as generators write it; fastavro takes none
    kept = {
        key: _plain(value) if key in ("type", "items", "values", "fields") else value for key, value in schema.items()
    }
    kind, logical = schema.get("type"), schema.get("logicalType")
    if logical != "decimal" and (not isinstance(kind, str) or (kind, logical) not in _LOGICAL):
        kept.pop("logicalType", None)
    return kept


class _Types:
    def __init__(self, names: Mapping[str, Any], name: str) -> None:
        self._names, self._name = names, name

    def column(self, schema: Any, place: str, inside: frozenset[str]) -> pa.DataType:
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                raise self._refused(place, "a union of several types")
            return self.column(others[0], place, inside)
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return _SIMPLE[schema]
            if schema not in self._names:
                raise self._refused(place, f"of type {schema[:40]}")
            if schema in inside:
                raise self._refused(place, f"a {schema[:40]} within itself")
            return self.column(self._names[schema], place, inside)
        return self._declared(schema, place, inside)

    def _declared(self, schema: Mapping[str, Any], place: str, inside: frozenset[str]) -> pa.DataType:
        kind, logical = schema["type"], schema.get("logicalType")
        if logical == "decimal":
            precision, scale = schema.get("precision", 0), schema.get("scale", 0)
            if not 0 < precision <= PRECISION_MAX or not 0 <= scale <= precision:
                raise self._refused(place, f"a decimal of {precision} digits, {scale} of them after the point")
            return pa.decimal128(precision, scale)
        if (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        if kind == "fixed" and not schema["size"]:
            raise self._refused(place, "a fixed of no bytes")
        if kind == "array":
            return list_of(self.column(schema["items"], f"{place}[]", inside))
        if kind == "map":
            return pa.map_(pa.string(), self.column(schema["values"], f"{place}{{}}", inside))
        if kind not in ("record", "error"):
            return self.column(kind, place, inside)
        fields = [
            (field["name"], self.column(field["type"], f"{place}.{field['name']}", inside | {schema["name"]}))
            for field in schema["fields"]
        ]
        if not fields:
            raise self._refused(place, "a record without fields")
        return struct_of(fields, f"{place}.")

    def _refused(self, place: str, what: str) -> UsageError:
        return UsageError(f"{self._name}: {place} is {what}, which there is no column for; give a schema without it")


def reader(schema: str, registry: str | None) -> Callable[[bytes], Any]:
    """Return a function that decodes a body; it raises BadBody.

    `registry`: where the schemas are that heads name; None: bodies have no heads.
    """
    library = fastavro()
    own = library.schema.parse_schema(json.loads(schema))
    if registry is None:
        return lambda body: _decoded(library, body, own, None)
    schemas = SchemaRegistry(registry)
    writers: dict[int, Any] = {}

    def read(body: bytes) -> Any:
        number, value = split_head(body)
        if number not in writers:
            writers[number] = _writer(library, schemas.text(number))
        if isinstance(writers[number], str):
            raise BadBody(writers[number])
        return _decoded(library, value, writers[number], own)

    return read


def _writer(library: Any, text: str | None) -> Any:
    """Parse the schema that bodies were written by; return the reason if it cannot be read.

    The checks of checked_schema hold here too: by a schema without them a short body could mean endless values.
    """
    if text is None:
        return UNKNOWN_SCHEMA
    try:
        return library.schema.parse_schema(json.loads(checked_schema(text, "schema")[0]))
    except UsageError:
        return UNREAD_SCHEMA


def _decoded(library: Any, body: bytes, written: Any, wanted: Any) -> Any:
    source = io.BytesIO(body)
    try:
        value = library.read.schemaless_reader(source, written, wanted)
    except UnicodeDecodeError as error:
        raise BadBody(NO_UTF8) from error
    except MemoryError:  # says nothing of the body
        raise
    except Exception as error:  # what fastavro raises for bytes of another kind is of no one class
        raise BadBody(NOT_OF_SCHEMA) from error
    if source.tell() != len(body):
        raise BadBody(LEFT_OVER)
    return value

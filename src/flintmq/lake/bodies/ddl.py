"""Reads schemas of JSON bodies from Spark's DDL or JSON form; writes types as Spark does.

Types are Arrow's, so nothing here needs Spark. Every field may be null: what a body lacks is null, whatever a schema
says of it. Source of both forms: Spark's `StructType.fromDDL` and `StructType.fromJson`, of which these are the parts
that JSON has values for.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pyarrow as pa

from flintmq.errors import StoreAccessError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_BYTES_MAX = 16 << 20
NESTED_MAX = 64
_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_OTHER_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "real": "float"}
_TEXTS = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
}


def read_schema(text: str) -> pa.StructType:
    """Read a schema.

    `text`: Spark's DDL, such as "id long, lines array<struct<sku: string, count: int>>"; or Spark's JSON form, as
    `df.schema.json()` gives it, or a file with that.
    """
    if is_json(text):
        found = _of_json("body schema", text.encode())
    elif text.endswith(".json") or os.path.exists(text):
        found = _of_json(text, read_file(text))
    else:
        found = _Ddl(text).schema()
    if not pa.types.is_struct(found) or not found.num_fields:
        raise UsageError(f"body schema {text[:80]!r}: names no field; give one such as 'id long, name string'")
    return found


def is_json(text: str) -> bool:
    """Return whether this is a schema itself, and not the path of one."""
    return text.lstrip().startswith("{")


def read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise StoreAccessError(f"{path}: {error.strerror}; give a file with a schema, or its DDL") from error
    if len(content) > SCHEMA_BYTES_MAX:
        raise UsageError(f"{path}: has more than {SCHEMA_BYTES_MAX >> 20} MiB; give a file with a schema")
    return content


def spark_text(kind: pa.DataType) -> str:
    """Return a type as Spark's `simpleString` gives it, such as `struct<id:bigint>`."""
    if isinstance(kind, pa.StructType):
        return f"struct<{','.join(f'{field.name}:{spark_text(field.type)}' for field in kind)}>"
    if isinstance(kind, pa.ListType):
        return f"array<{spark_text(kind.value_type)}>"
    if isinstance(kind, pa.MapType):
        return f"map<{spark_text(kind.key_type)},{spark_text(kind.item_type)}>"
    if isinstance(kind, pa.Decimal128Type):
        return f"decimal({kind.precision},{kind.scale})"
    return _TEXTS.get(str(kind), str(kind))


def list_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of lists, whose elements are named as Spark names them."""
    return pa.list_(pa.field("element", kind))


def struct_of(fields: list[tuple[str, pa.DataType]], place: str) -> pa.DataType:
    """Return the type of structs with these fields.

    Raises UsageError: two have one name, which Spark does not tell apart by case.
    """
    seen: set[str] = set()
    for name, _ in fields:
        if name.casefold() in seen:
            raise UsageError(f"body schema: {place}{name} occurs twice")
        seen.add(name.casefold())
    return pa.struct(fields)


def _refused(place: str, what: str) -> NoReturn:
    raise UsageError(
        f"body schema: {place} is of type {what[:60]}; there are string, boolean, byte, short, int, long, float, "
        "double, date, timestamp, array, struct, and map with keys of type string"
    )


def _of_json(path: str, content: bytes) -> pa.DataType:
    try:
        return _json_type(json.loads(content), "")
    except UsageError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path}: no schema in Spark's JSON form (`df.schema.json()` writes it)") from error


def _json_type(value: Any, place: str) -> pa.DataType:
    """Return the type of a part of Spark's JSON form.

    Raises ValueError, KeyError, TypeError: the part is of another form.
    """
    if isinstance(value, str):
        if value not in _TYPES:
            _refused(place, value)
        return _TYPES[value]
    kind = value["type"]
    if kind == "struct":
        fields = [(_name(field["name"]), field["type"]) for field in value["fields"]]
        return struct_of([(name, _json_type(part, f"{place}{name}")) for name, part in fields], place)
    if kind == "array":
        return list_of(_json_type(value["elementType"], f"{place}[]"))
    if kind == "map":
        if value["keyType"] != "string":
            _refused(place, f"map<{value['keyType']},...>")
        return pa.map_(pa.string(), _json_type(value["valueType"], f"{place}{{}}"))
    _refused(place, str(kind))


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


class _Token(NamedTuple):
    """A word, a quoted name, a text, or a sign of DDL; the end is empty."""

    text: str
    quoted: bool = False


_TEXT = r"'(?:[^'\\]|\\.|'')*'" + r'|"(?:[^"\\]|\\.|"")*"'
_TOKEN = re.compile(rf"\s*(?:`((?:[^`]|``)+)`|(\w+)|({_TEXT})|([<>(),:]))")


class _Ddl:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[_Token] = []
        self._next = 0

    def schema(self) -> pa.DataType:
        at = 0
        while at < len(self._text.rstrip()):
            found = _TOKEN.match(self._text, at)
            if found is None:
                self._wrong()
            name, word, _, sign = found.groups()
            self._tokens.append(_Token(name.replace("``", "`"), True) if name else _Token(word or sign or "''"))
            at = found.end()
        self._tokens += [_Token("")] * 2
        whole = self._is("struct") and self._tokens[1].text == "<"
        kind = self._type("", 0) if whole else self._fields("", "", 0)
        if self._tokens[self._next].text:
            self._wrong()
        return kind

    def _wrong(self) -> NoReturn:
        raise UsageError(f"body schema {self._text[:80]!r}: no such file, and no DDL such as 'id long, name string'")

    def _is(self, word: str) -> bool:
        token = self._tokens[self._next]
        return not token.quoted and token.text.lower() == word

    def _take(self, word: str) -> bool:
        found = self._is(word)
        self._next += found
        return found

    def _need(self, word: str) -> None:
        if not self._take(word):
            self._wrong()

    def _word(self) -> str:
        token = self._tokens[self._next]
        if not token.quoted and re.fullmatch(r"\w+", token.text) is None:
            self._wrong()
        self._next += 1
        return token.text

    def _fields(self, end: str, place: str, depth: int) -> pa.DataType:
        """Read `name type, name: type NOT NULL COMMENT 'text'` up to a sign."""
        fields = []
        while True:
            name = self._word()
            self._take(":")
            fields.append((name, self._type(f"{place}{name}", depth)))
            if self._take("not"):
                self._need("null")
            if self._take("comment"):
                self._need("''")
            if not self._take(","):
                break
        if end:
            self._need(end)
        return struct_of(fields, place)

    def _type(self, place: str, depth: int) -> pa.DataType:
        if depth > NESTED_MAX:
            raise UsageError(f"body schema: types are nested in more than {NESTED_MAX} others")
        if self._tokens[self._next].quoted:
            self._wrong()
        word = self._word().lower()
        if word == "struct" and self._take("<"):
            return self._fields(">", f"{place}.", depth + 1)
        if word == "array" and self._take("<"):
            element = self._type(f"{place}[]", depth + 1)
            self._need(">")
            return list_of(element)
        if word == "map" and self._take("<"):
            return self._map(place, depth)
        name = _OTHER_NAMES.get(word, word)
        if name not in _TYPES:
            if word in _SPARKS:
                _refused(place, word)
            self._wrong()
        return _TYPES[name]

    def _map(self, place: str, depth: int) -> pa.DataType:
        key = self._type(f"{place}{{}}", depth + 1)
        self._need(",")
        value = self._type(f"{place}{{}}", depth + 1)
        self._need(">")
        if not pa.types.is_string(key):
            _refused(place, f"map<{spark_text(key)},...>")
        return pa.map_(key, value)


_SPARKS = frozenset(
    (
        *("decimal", "dec", "numeric", "binary", "char", "character", "varchar", "timestamp_ntz", "timestamp_ltz"),
        *("time", "interval", "void", "variant", "array", "map", "struct", "geometry", "geography"),
    )
)
"""Types of Spark that JSON has no values for."""

"""Checks the options of bodies, and decodes columns of bodies.

A body that does not decode costs its row nothing but the value: its bytes are kept by the caller.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from flintmq.config.text import check_choice
from flintmq.errors import UsageError
from flintmq.lake.bodies import avro, ddl, json_body, json_columns, protobuf
from flintmq.lake.bodies.failure import NO_UTF8, NOT_OF_SCHEMA, BadBody
from flintmq.lake.bodies.registry import SchemaRegistry, absolute_place

FORMS = ("bytes", "text", "json", "avro", "protobuf")
SOURCE_BYTES_MAX = 16 << 10
"""Largest schema that a manifest keeps: each export has it again."""
FEW = 128  # bodies that are faster one by one
PARTS = 8  # of bodies that are not all as they should be: experiments/2026-11-29-bodies.md


@dataclass(frozen=True)
class BodyForm:
    """The form of bodies, and of the column that they become."""

    name: str
    type: pa.DataType
    source: str | bytes = ""  # the schema's text (Avro), the descriptor set (Protobuf), or nothing
    message: str = ""  # full name of the message (Protobuf), or nothing
    head: bool = False  # whether a body begins with the head of a schema registry
    registry: str | None = None

    @classmethod
    def parse(
        cls,
        name: str,
        schema: str | None = None,
        *,
        message: str | None = None,
        head: bool = False,
        registry: str | None = None,
        any_json: bool = False,
    ) -> BodyForm | None:
        """Check the options of bodies; None if they stay bytes.

        Args:
            schema: of "json": DDL, or a file (see `ddl.read_schema`); of "avro" a file with a schema; of "protobuf" a
                file with a descriptor set.
            message: of "protobuf": full name of the message; None if there is only one.
            any_json: "json" needs no schema; without one a body is any JSON, and the column its text.
        """
        check_choice("body", name, FORMS)
        free = any_json and name == "json" and schema is None
        if not free and (name in FORMS[2:]) != (schema is not None):
            what = {"json": "FILE|DDL", "avro": "FILE.avsc", "protobuf": "FILE"}.get(name)
            if what is None:
                raise UsageError(f"a body schema is for json, avro and protobuf; body {name} takes none")
            raise UsageError(f"body {name} needs a body schema: give {what}")
        if message is not None and name != "protobuf":
            raise UsageError(f"a body message is for body protobuf; body {name} has none")
        if head and name not in ("avro", "protobuf"):
            raise UsageError(f"a body head is for body avro and protobuf; body {name} has none")
        if (registry is not None) != (head and name == "avro"):
            raise UsageError("a schema registry and a body head belong together for body avro, and to nothing else")
        if registry is not None:
            SchemaRegistry(registry)
        if name == "bytes":
            return None
        if name == "text":
            return TEXT
        if free:
            return ANY_JSON
        assert schema is not None
        if name == "json":
            return cls(name, ddl.read_schema(schema))
        if name == "avro":
            text, kind = avro.read_avro_schema(schema)
            return cls(name, kind, text, head=head, registry=registry)
        content, full_name, kind = protobuf.read_descriptors(schema, message)
        return cls(name, kind, content, full_name, head)

    def choice(self) -> dict[str, Any]:
        """Return the options that all exports of a directory share: form and type of the column."""
        schema = None if self.name == "text" else ddl.spark_text(self.type)
        return {"body": self.name, "body_schema": schema, "body_head": self.head}

    def source_kept(self) -> dict[str, str] | None:
        """Return what, besides the choice, a manifest keeps for `of_kept`.

        None if nothing else is needed, if it is larger than SOURCE_BYTES_MAX, and if a password is in it.
        """
        if self.name not in ("avro", "protobuf") or len(self.source) > SOURCE_BYTES_MAX:
            return None
        if self.registry is not None and SchemaRegistry(self.registry).name != self.registry:
            return None
        is_text = isinstance(self.source, str)
        source = self.source if isinstance(self.source, str) else base64.b64encode(self.source).decode()
        place = {} if self.registry is None else {"registry": absolute_place(self.registry)}
        return {"avro" if is_text else "protobuf": source, "message": self.message, **place}

    @classmethod
    def of_kept(cls, choice: Mapping[str, Any], source: Mapping[str, str] | None) -> BodyForm | None:
        """Return the form of an earlier export; None if bodies stay bytes.

        Raises LookupError: it is Avro or Protobuf, and the manifest does not keep its schema.
        """
        name, head = choice["body"], choice["body_head"]
        if name == "bytes":
            return None
        if name == "text":
            return TEXT
        if name == "json":
            return cls(name, ddl.read_schema(choice["body_schema"]), head=head)
        if source is None:
            raise LookupError(name)
        what = "the schema of the table's bodies"
        if name == "avro":
            text, kind = avro.checked_schema(source["avro"], what)
            return cls(name, kind, text, head=head, registry=source.get("registry"))
        try:
            content = base64.b64decode(source["protobuf"], validate=True)
        except ValueError as error:
            raise UsageError(f"{what} is not base64; export into a new directory") from error
        content, full_name, kind = protobuf.checked_descriptors(content, what, source["message"])
        return cls(name, kind, content, full_name, head)


TEXT = BodyForm("text", pa.string())
ANY_JSON = BodyForm("json", pa.string())
"""JSON without a schema: its text as it is, since values of any type have no column, and numbers all their digits."""


class Decoded(NamedTuple):
    values: Any  # of the form's type; of what did not decode null, of text with U+FFFD for invalid UTF-8
    bad: list[tuple[int, str]]  # number of each row that did not decode, and the reason


def decoded(form: BodyForm, bodies: Any) -> Decoded:
    if form.name == "text":
        return _texts(bodies)
    first = json_columns.readable(form.type) if form.name == "json" and form != ANY_JSON else None
    return _one_by_one(form, bodies) if first is None else _at_once(form, first, bodies)


def decoded_one(form: BodyForm) -> Callable[[bytes], tuple[Any, str | None]]:
    """Return a function that decodes one body as `decoded` does many.

    It returns a value of Python, maps as dicts, and the reason if the body does not decode.
    """
    read = (lambda body: body.decode(errors="replace")) if form.name == "text" else reader(form)

    # Arrow keeps each value of the other types of JSON as it is; a field of such a name costs time alone.
    is_kept = form.name == "json" and not re.search("float|map<", ddl.spark_text(form.type))

    def decode(body: bytes) -> tuple[Any, str | None]:
        try:
            value = read(body)
        except BadBody as error:
            return None, error.reason
        if isinstance(value, str):
            return value, None if form.name != "text" or value.encode() == body else NO_UTF8
        if is_kept:
            return value, None
        values, bad = column([value], form.type, [])
        return values.to_pylist(maps_as_pydicts="strict")[0], bad[0][1] if bad else None

    return decode


def _at_once(form: BodyForm, first: pa.DataType, bodies: Any) -> Decoded:
    """Decode all bodies at once or, if one needs a closer look, each part of them."""
    if len(bodies) <= FEW:
        return _one_by_one(form, bodies)
    values = json_columns.read(bodies, form.type, first)
    if values is not None:
        return Decoded(values, [])
    step = -(-len(bodies) // PARTS)
    begins = range(0, len(bodies), step)
    parts = [_at_once(form, first, bodies.slice(begin, step)) for begin in begins]
    bad = [(begin + row, reason) for begin, part in zip(begins, parts, strict=True) for row, reason in part.bad]
    return Decoded(pa.concat_arrays([part.values for part in parts]), bad)


def _one_by_one(form: BodyForm, bodies: Any) -> Decoded:
    read = reader(form)
    values: list[Any] = []
    bad: list[tuple[int, str]] = []
    for number, body in enumerate(bodies.to_pylist()):
        try:
            values.append(read(body))
        except BadBody as error:
            values.append(None)
            bad.append((number, error.reason))
    return column(values, form.type, bad)


@lru_cache(maxsize=8)
def reader(form: BodyForm) -> Callable[[bytes], Any]:
    if form == ANY_JSON:
        return json_body.text
    if isinstance(form.type, pa.StructType) and form.name == "json":
        return json_body.reader(form.type)
    if isinstance(form.source, str):
        return avro.reader(form.source, form.registry)
    return protobuf.reader(form.source, form.message, form.head)


def column(values: list[Any], kind: pa.DataType, bad: list[tuple[int, str]]) -> Decoded:
    """Make the column; a value without room in its type, such as a long decimal, is a bad one."""
    try:
        return Decoded(pa.array(values, kind), bad)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        pass
    for number, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            values[number] = None
            bad.append((number, NOT_OF_SCHEMA))
    return Decoded(pa.array(values, kind), sorted(bad))


def _texts(bodies: Any) -> Decoded:
    """Decode bodies as text, with U+FFFD for invalid UTF-8."""
    try:
        return Decoded(bodies.cast(pa.string()), [])
    except pa.ArrowInvalid:
        raw: Sequence[bytes] = bodies.to_pylist()
    texts = [body.decode(errors="replace") for body in raw]
    wrong = [number for number, (text, body) in enumerate(zip(texts, raw, strict=True)) if text.encode() != body]
    return Decoded(pa.array(texts, pa.string()), [(number, NO_UTF8) for number in wrong])

"""Formats one message as one line: JSON in the schema's order, or a line for people."""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii as quoted  # the C function if there is one
from typing import TYPE_CHECKING

from flintmq.cli.text import iso, printable, printable_bytes, shorten_text, size
from flintmq.kernels.read import json_line as kernel
from flintmq.kernels.read.column_kinds import NAMED, NUMBERS, TEXTS
from flintmq.kernels.read.gather import PROPERTIES
from flintmq.message import COLUMNS

if TYPE_CHECKING:
    from flintmq.message import StoredMessage

BODY_CHARS = 100
"""Characters of a body in a line for people."""


class DecodedBody(bytes):
    """A body that `--body` decodes: its value as text, or its bytes if it has none.

    Attributes:
        json: the value as JSON; null if there is none.
        error: why it does not decode; None if it does.
    """

    json: str
    error: str | None

    def __new__(cls, shown: bytes, json: str, error: str | None) -> DecodedBody:
        self = super().__new__(cls, shown)
        self.json, self.error = json, error
        return self


_NOT_ASCII = re.compile("[^ -~]")  # of JSON: spaces between values, or letters in texts
_HEADS = [f'{"," if number else "{"}"{name}":'.encode() for number, name in enumerate(COLUMNS)]
_KINDS = TEXTS | NAMED | {"properties": PROPERTIES}
_PLAN = bytes(
    number
    for head, name in zip(_HEADS, COLUMNS, strict=True)
    for number in (len(head), *NUMBERS.get(name, (_KINDS.get(name, kernel.ASK), 0)))
)
_WORDS = b"".join(_HEADS) + b"}"


def json_line(message: StoredMessage, body: bytes) -> str:
    """Return a message as a JSON object with exactly the schema's keys, in its order.

    `body` is the body to show. The line is ASCII only: the body is base64, times are ms since 1970, a missing text is
    null. Written by a kernel, because this is the inner loop of `scan --json`.
    """
    if isinstance(body, DecodedBody):
        return _decoded_line(message, body)
    return kernel.line(message.raw, b2a_base64(body, newline=False), _WORDS, _PLAN, _json, message)


def _decoded_line(message: StoredMessage, body: DecodedBody) -> str:
    """Return the line with the value of the body, and after it body_raw and body_error."""
    begin, empty, end = json_line(message, b"").partition('"body":""')  # where quotes in texts are escaped
    assert empty
    value = _NOT_ASCII.sub(lambda found: " " if found[0] < " " else quoted(found[0])[1:-1], body.json)
    raw, error = "null", "null"
    if body.error is not None:
        raw, error = f'"{b2a_base64(body, newline=False).decode()}"', quoted(body.error)
    return f'{begin}"body":{value},"body_raw":{raw},"body_error":{error}{end}'


def _json(message: StoredMessage, column: int) -> str:
    """Return the JSON of a value that the kernel does not write."""
    value = getattr(message, COLUMNS[column])
    if isinstance(value, dict):
        return properties_json(value)
    return quoted(value) if isinstance(value, str) else "null" if value is None else str(value)


def json_member(broker: str, store: str) -> str:
    """Return the end of a JSON line of one of several stores: the last two keys, and the brace."""
    return f',"broker":{quoted(broker)},"store":{quoted(store)}}}'


def properties_json(properties: Mapping[str, str]) -> str:
    """Return properties as a JSON object in stored order."""
    return "{" + ",".join([quoted(k) + ":" + quoted(v) for k, v in properties.items()]) + "}"


def line(message: StoredMessage, body: bytes) -> str:
    """Return a message as a line for people: time, place, size, tags, keys, start of the body."""
    m = message
    parts = [iso(m.store_timestamp), f"{printable(m.topic) or '(no topic)'}/{m.queue_id}/{m.queue_offset}"]
    parts += [f"@{m.physical_offset}", size(m.size)]
    if m.tags is not None:
        parts.append(f"tags={shorten_text(printable(m.tags), BODY_CHARS)}")
    if m.keys is not None:
        parts.append(f"keys={shorten_text(printable(m.keys), BODY_CHARS)}")
    if body:  # four bytes a character at most: escaping megabytes for the first hundred characters would be slow
        parts.append(shorten_text(printable_bytes(body[: 4 * BODY_CHARS]), BODY_CHARS))
    if isinstance(body, DecodedBody) and body.error is not None:
        parts.append(f"body_error={body.error}")
    return "  ".join(parts)


def details(message: StoredMessage, body: bytes) -> Iterator[str]:
    """Yield all fields of a message for people, one a line in the schema's order, body last."""
    for name in COLUMNS:
        value = getattr(message, name)
        if name == "properties":
            for key, text in value.items():
                yield f"{'property':<28}  {printable(key)} = {printable(text)}"
        elif name.endswith("_timestamp"):
            yield f"{name:<28}  {value} ({iso(value)})"
        elif name != "body" and value is not None:
            yield f"{name:<28}  {printable(str(value))}"
    error = body.error if isinstance(body, DecodedBody) else None
    yield f"{'body' if error is None else 'body_raw':<28}  {len(body)} B: {printable_bytes(body)}"
    if error is not None:
        yield f"{'body_error':<28}  {error}"

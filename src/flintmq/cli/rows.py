"""One message as one line: JSON in the schema's keys and order, or a line for people."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii as quoted  # the C function where there is one
from typing import TYPE_CHECKING

from flintmq.cli.text import cut, iso, printable, printable_bytes, size
from flintmq.message import COLUMNS

if TYPE_CHECKING:
    from flintmq.message import StoredMessage

BODY_CHARS = 100
"""A line for people shows this much of a body."""

_ROW = (
    '{"topic":%s,"queue_id":%d,"queue_offset":%d,"body":"%s","tags":%s,"keys":%s,"properties":%s,"msg_id":%s,'
    '"offset_msg_id":%s,"born_timestamp":%d,"born_host":%s,"store_timestamp":%d,"store_host":%s,"physical_offset":%d,'
    '"size":%d,"magic":%s,"flag":%d,"sys_flag":%d,"reconsume_times":%d,"prepared_transaction_offset":%d,"body_crc":%d}'
)


def json_line(message: StoredMessage, body: bytes) -> str:
    """A message, with the body that is to be shown, as a JSON object with exactly the schema's keys, in its order.

    ASCII only. The body is base64, times are ms since 1970, a missing text is null. Built from one format string: this
    is the inner loop of `scan --json`.
    """
    m, f = message, message.fields
    return _ROW % (
        quoted(m.topic), f.queue_id, f.queue_offset, binascii.b2a_base64(body, newline=False).decode("ascii"),
        _text(m.tags), _text(m.keys), properties_json(m.properties), _text(m.msg_id), quoted(m.offset_msg_id),
        f.born_timestamp, quoted(m.born_host), f.store_timestamp, quoted(m.store_host), f.physical_offset,
        m.size, quoted(m.magic), f.flag, f.sys_flag, f.reconsume_times, f.prepared_transaction_offset, m.body_crc,
    )  # fmt: skip


def properties_json(properties: Mapping[str, str]) -> str:
    """Properties as a JSON object in stored order."""
    return "{" + ",".join([quoted(k) + ":" + quoted(v) for k, v in properties.items()]) + "}"


def _text(text: str | None) -> str:
    return "null" if text is None else quoted(text)


def line(message: StoredMessage, body: bytes) -> str:
    """The message as one line for people: when, where, how large, its tags and keys, the start of its body."""
    m = message
    parts = [iso(m.store_timestamp), f"{printable(m.topic) or '(no topic)'}/{m.queue_id}/{m.queue_offset}"]
    parts += [f"@{m.physical_offset}", size(m.size)]
    if m.tags is not None:
        parts.append(f"tags={cut(printable(m.tags), BODY_CHARS)}")
    if m.keys is not None:
        parts.append(f"keys={cut(printable(m.keys), BODY_CHARS)}")
    if body:  # four bytes a character at most: no need to escape megabytes for the first hundred characters
        parts.append(cut(printable_bytes(body[: 4 * BODY_CHARS]), BODY_CHARS))
    return "  ".join(parts)


def details(message: StoredMessage, body: bytes) -> Iterator[str]:
    """All fields of a message for people, one a line in the schema's order; the whole body comes last."""
    for name in COLUMNS:
        value = getattr(message, name)
        if name == "properties":
            for key, text in value.items():
                yield f"{'property':<28}  {printable(key)} = {printable(text)}"
        elif name.endswith("_timestamp"):
            yield f"{name:<28}  {value} ({iso(value)})"
        elif name != "body" and value is not None:
            yield f"{name:<28}  {printable(str(value))}"
    yield f"{'body':<28}  {len(body)} B: {printable_bytes(body)}"

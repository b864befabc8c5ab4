"""Formats one message as one line: JSON in the schema's order, or a line for people."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii as quoted  # the C function if there is one
from typing import TYPE_CHECKING

from flintmq.cli.text import iso, printable, printable_bytes, shorten_text, size
from flintmq.format.properties import KEYS, TAGS, UNIQ_KEY
from flintmq.message import COLUMNS

if TYPE_CHECKING:
    from flintmq.message import StoredMessage

BODY_CHARS = 100
"""Characters of a body in a line for people."""


def json_line(message: StoredMessage, body: bytes) -> str:
    """Return a message as a JSON object with exactly the schema's keys, in its order.

    `body` is the body to show. The line is ASCII only: the body is base64, times are ms since 1970, a missing text is
    null. Written out by hand, because this is the inner loop of `scan --json`.
    """
    f, pairs = message.fields, message.properties
    get = pairs.get
    # Hosts, ids and the version are made of characters that need no quoting.
    return (
        f'{{"topic":{quoted(message.topic)},"queue_id":{f.queue_id},"queue_offset":{f.queue_offset},'
        f'"body":"{b2a_base64(body, newline=False).decode("ascii")}","tags":{_text(get(TAGS))},'
        f'"keys":{_text(get(KEYS))},"properties":{properties_json(pairs)},"msg_id":{_text(get(UNIQ_KEY))},'
        f'"offset_msg_id":"{message.offset_msg_id}","born_timestamp":{f.born_timestamp},'
        f'"born_host":"{message.born_host}","store_timestamp":{f.store_timestamp},'
        f'"store_host":"{message.store_host}","physical_offset":{f.physical_offset},"size":{message.size},'
        f'"magic":"{message.magic}","flag":{f.flag},"sys_flag":{f.sys_flag},"reconsume_times":{f.reconsume_times},'
        f'"prepared_transaction_offset":{f.prepared_transaction_offset},"body_crc":{message.body_crc}}}'
    )


def json_member(broker: str, store: str) -> str:
    """Return the end of a JSON line of one of several stores: the last two keys, and the brace."""
    return f',"broker":{quoted(broker)},"store":{quoted(store)}}}'


def properties_json(properties: Mapping[str, str]) -> str:
    """Return properties as a JSON object in stored order."""
    return "{" + ",".join([quoted(k) + ":" + quoted(v) for k, v in properties.items()]) + "}"


def _text(text: str | None) -> str:
    return "null" if text is None else quoted(text)


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
    yield f"{'body':<28}  {len(body)} B: {printable_bytes(body)}"

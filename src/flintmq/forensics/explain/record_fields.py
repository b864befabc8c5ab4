"""Explains one record field by field, its flags, hosts, properties and checksums too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from flintmq.errors import FlintError, FormatError
from flintmq.forensics.explain.lines import TEXT_CHARS, Line, Remark, field_line, field_lines, text_of
from flintmq.forensics.explain.source import FileLook
from flintmq.format import consume_queue, inner_batch, message_id, properties, record
from flintmq.format.compression import NAMES
from flintmq.format.layout import FieldPiece
from flintmq.format.record_view import PHYSICAL_OFFSET_END, magic_at, physical_offset_at
from flintmq.format.start_fields import COSTS, wrong_field
from flintmq.format.text import iso, java_hash, java_int, shorten_text
from flintmq.message import StoredMessage


def first_wrong(data: bytes, offset: int, file_left: int, max_size: int) -> tuple[int, str]:
    """Return (position in data, reason) of the first error in a record at data[0], or (0, "")."""
    try:
        record.check(data, 0, offset, len(data), file_left, max_size)
    except record.RecordError as error:
        return error.position, error.reason
    return 0, ""


def lines(look: FileLook, start: int, position: int, data: bytes, before: StoredMessage | None) -> Iterator[Line]:
    message = StoredMessage(data)
    yield from _fields(look, position, data, _remarks(look, start, position, data, before))
    look.found.append(("record", f"log offset {start + position}, offset id {message.offset_msg_id}"))
    unit = look.around.queue_unit(message)
    if unit:
        look.found.append(("unit", unit))
    wrong = wrong_field(message.topic, message.properties, message.sys_flag, message.queue_offset)
    root = look.place.root
    if wrong is not None:
        cost = COSTS[wrong.field.effect]
        look.found.append(("RocketMQ", f"{wrong} ({wrong.field.effect} in verify): {cost}"))
        if root is not None:
            look.step("salvage", root, "--in-place", "--dry-run")
    if root is not None and message.topic and unit:
        look.step("get", root, message.topic, message.queue_id, message.queue_offset)


def loose(look: FileLook, start: int, position: int, data: bytes) -> list[Line]:
    """Return lines for all of `data`, a damaged record, as far as its fields can be parsed."""
    if len(data) >= record.BLANK_SIZE and magic_at(data) not in (record.MAGIC_V1, record.MAGIC_V2):
        after = "without a magic number there are no fields"
        return list(field_lines(record.RECORD, data, position, f"record at {position}", after=after, most=2))
    remarks = {}
    if len(data) >= PHYSICAL_OFFSET_END and physical_offset_at(data) != start + position:
        remarks["physical_offset"] = Remark(f"this place is log offset {start + position}")
    return list(_fields(look, position, data, remarks))


def _fields(look: FileLook, position: int, data: bytes, remarks: dict[str, Remark]) -> Iterator[Line]:
    unit = f"record at {position}"
    inner = {
        "body": lambda piece: _body(piece, data, position, unit),
        "properties": lambda piece: _properties(look, piece, position, unit, data),
    }
    after = "after the record's last field"
    return field_lines(record.RECORD, data, position, unit, remarks, inner, after)


def _remarks(look: FileLook, start: int, position: int, data: bytes, before: StoredMessage | None) -> dict[str, Remark]:
    message = StoredMessage(data)
    crc = "as computed" if message.body else "nothing to compare, the body is empty"
    remarks = {"body_crc": Remark(crc), "physical_offset": Remark(f"as it must be, {start} + {position}")}
    assert not message.body or record.crc(message.body) == message.fields.body_crc, "the record counts"
    if before is not None and message.store_timestamp < before.store_timestamp:
        earlier = f"earlier than the record before ({iso(before.store_timestamp)})"
        remarks["store_timestamp"] = Remark(f"{earlier}: a clock was set back, or a stale tail begins")
    if message.fields.prepared_transaction_offset:
        found = look.around.record(message.fields.prepared_transaction_offset)
        remarks["prepared_transaction_offset"] = Remark(found.text)
    return remarks


def _body(piece: FieldPiece, data: bytes, base: int, unit: str) -> Iterator[Line]:
    assert isinstance(piece.value, bytes)
    flags = next(field.value for field in record.RECORD.pieces(data) if field.name == "sys_flag")
    assert isinstance(flags, int), "it precedes the body"
    if flags & record.INNER_BATCH and not flags & record.COMPRESSED and not piece.error:
        entries = list(_entries(piece.value, base + piece.at, unit))
        if entries:
            yield from entries
            return
    text = f": {text_of(piece.value)}"
    if flags & record.COMPRESSED:
        text = f", compressed with {NAMES.get(flags & record.COMPRESSION_MASK, 'an unknown method')}"
    yield replace(field_line(piece, data, base, unit), text=f"{piece.size} bytes{text}")


def _entries(body: bytes, base: int, unit: str) -> Iterator[Line]:
    """Yield a line for each message of an inner batch; none if the body has another form."""
    try:
        found = list(inner_batch.iterate(body))
    except FormatError:
        return
    at = 0
    for number, entry in enumerate(found):
        end = at + inner_batch.ENTRY.size_of(entry)
        text = f"{len(entry.body)} bytes: {text_of(entry.body[:TEXT_CHARS])}"
        pairs = list(properties.parse_bytes(entry.properties).items())[:8]
        text += f"; {', '.join(f'{name}={value}' for name, value in pairs)}" if pairs else ""
        name, meaning = f"body entry {number}", "message of the inner batch"
        yield Line(base + at, end - at, unit, name, number, text, meaning, None, body[at:end])
        at = end


def _properties(look: FileLook, piece: FieldPiece, base: int, unit: str, data: bytes) -> Iterator[Line]:
    assert isinstance(piece.value, bytes)
    kept, at = properties.parse_bytes(piece.value), base + piece.at
    for raw in re.findall(rb"[^\x02]*\x02|[^\x02]+", piece.value):
        problem = (piece.error or None) if at + len(raw) == base + piece.at + piece.size else None
        pair = next(iter(properties.parse_bytes(raw).items()), None)
        told: tuple[str, str | None, str, str] = ("property", None, "dropped by readers", "no name or no value")
        if pair is not None:
            name, value = pair
            text = _value(look, name, value, data) + (
                "" if kept.get(name) == value else ": a later pair of this name wins"
            )
            meaning = properties.MEANINGS.get(name, "carried as the sender gave it")
            told = f"property {name}", shorten_text(value, TEXT_CHARS), text, meaning
        yield Line(at, len(raw), unit, *told, problem, raw)
        at += len(raw)


def _value(look: FileLook, name: str, value: str, data: bytes) -> str:
    """Return a property's value for people, with its consequences."""
    note = _NOTES.get(name)
    return shorten_text(value, TEXT_CHARS) + (note(look, value, data) if note else "")


def _moment(look: FileLook, value: str, data: bytes) -> str:
    moment = java_int(value, 64)
    return "" if moment is None else f" ({iso(moment)})"


def _crc(look: FileLook, value: str, data: bytes) -> str:
    crc = record.crc(data[: -record.CRC_PROPERTY_SIZE])
    return ": as computed" if data.endswith(record.crc_property(crc)) else f": computed {str(crc).rjust(10, '0')[::-1]}"


def _client(look: FileLook, value: str, data: bytes) -> str:
    try:
        client = message_id.parse_client_id(value)
    except FormatError:
        return ""
    return f": client {message_id.address_text(client.address)}, process {client.pid}, count {client.counter}"


def _delay(look: FileLook, value: str, data: bytes) -> str:
    try:
        message = StoredMessage(data)
        due = look.around.tags_code(message)
        return f": due {iso(due)}" if message.topic == consume_queue.SCHEDULE_TOPIC and java_int(value) else ""
    except (FlintError, FormatError):
        return ""


_NOTES: Final[dict[str, Callable[[FileLook, str, bytes], str]]] = {
    properties.TAGS: lambda _look, value, _data: f": tags code {java_hash(value)}",
    properties.TIMER_OUT_MS: _moment,
    properties.TIMER_ENQUEUE_MS: _moment,
    properties.TIMER_DEQUEUE_MS: _moment,
    properties.DELAY: _delay,
    properties.CRC32: _crc,
    properties.UNIQ_KEY: _client,
}
"""Property -> what follows its value, for people: what it means for this record."""

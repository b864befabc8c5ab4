"""Explains one record field by field, its flags, hosts, properties and checksums too."""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.errors import FlintError, FormatError
from flintmq.forensics.explain.lines import SHOWN_BYTES, TEXT_CHARS, Line, Remark, field_line, text_of
from flintmq.forensics.explain.source import FileLook
from flintmq.format import consume_queue, inner_batch, message_id, properties, record
from flintmq.format.compression import NAMES
from flintmq.format.layout import FieldPiece
from flintmq.format.record_view import PHYSICAL_OFFSET_END, magic_at, physical_offset_at
from flintmq.format.start_fields import COSTS, wrong_field
from flintmq.format.text import iso, java_hash, java_int
from flintmq.message import StoredMessage


def first_wrong(data: bytes, offset: int, file_left: int, max_size: int) -> tuple[int, str]:
    """Return (position in data, reason) of the first error in a record at data[0], or (0, "").

    Args:
        data: bytes from there on, as many as a plausible size field asks for.
        offset: log offset of data[0].
        file_left: bytes of the file from there on.
        max_size: largest plausible size of a record.
    """
    try:
        record.check(data, 0, offset, len(data), file_left, max_size)
    except record.RecordError as error:
        return error.position, error.reason
    return 0, ""


def why_not(data: bytes, offset: int, file_left: int, max_size: int) -> str:
    """Return the reason found by first_wrong."""
    return first_wrong(data, offset, file_left, max_size)[1]


def lines(look: FileLook, start: int, position: int, data: bytes, before: StoredMessage | None) -> Iterator[Line]:
    """Yield the lines of an intact record.

    Args:
        look: takes the findings besides the lines.
        start: log offset of the file's first byte.
        position: of the record in the file.
        data: the record.
        before: the record before it, if it is known.
    """
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
    magic = magic_at(data)
    if len(data) >= record.BLANK_SIZE and magic not in (record.MAGIC_V1, record.MAGIC_V2):
        head = record.BLANK_SIZE
        found = list(_fields(look, position, data[:head], {}, whole=False))
        if head < len(data):
            rest = data[head : head + SHOWN_BYTES]
            text = f"{len(data) - head} bytes"
            found.append(Line(position + head, len(data) - head, f"record at {position}", "rest", None, text,
                              "without a magic number there are no fields", None, rest))  # fmt: skip
        return found
    remarks = {}
    if len(data) >= PHYSICAL_OFFSET_END and physical_offset_at(data) != start + position:
        remarks["physical_offset"] = Remark(f"this place is log offset {start + position}")
    return list(_fields(look, position, data, remarks))


def _fields(
    look: FileLook, position: int, data: bytes, remarks: dict[str, Remark], whole: bool = True
) -> Iterator[Line]:
    unit, at, error = f"record at {position}", 0, ""
    values: dict[str, object] = {}
    for piece in record.RECORD.pieces(data):
        values[piece.name] = piece.value
        at, error = piece.at + piece.size, piece.error
        remark = remarks.get(piece.name, Remark())
        if piece.name == "properties" and piece.size:
            yield from _properties(look, piece, position, unit, data)
        elif piece.name == "body" and piece.size:
            yield from _body(piece, data, position, unit, values.get("sys_flag"), remark)
        elif piece.size or (piece.error and whole):
            yield field_line(piece, data, position, unit, remark)
    if at < len(data) and whole:
        text = f"{len(data) - at} bytes"
        meaning = "not parsed, because an earlier field is wrong" if error else "after the record's last field"
        yield Line(position + at, len(data) - at, unit, "rest", None, text, meaning, None, data[at : at + SHOWN_BYTES])


def _remarks(look: FileLook, start: int, position: int, data: bytes, before: StoredMessage | None) -> dict[str, Remark]:
    message = StoredMessage(data)
    computed = record.crc(message.body)
    remarks = {
        "body_crc": Remark("as computed") if message.body else Remark("nothing to compare, the body is empty"),
        "physical_offset": Remark(f"as it must be, {start} + {position}"),
        "topic": Remark(),
    }
    assert not message.body or computed == message.fields.body_crc, "the record counts"
    if before is not None and message.store_timestamp < before.store_timestamp:
        earlier = f"earlier than the record before ({iso(before.store_timestamp)})"
        remarks["store_timestamp"] = Remark(f"{earlier}: a clock was set back, or a stale tail begins")
    if message.fields.prepared_transaction_offset:
        found = look.around.record(message.fields.prepared_transaction_offset)
        remarks["prepared_transaction_offset"] = Remark(found.text)
    return remarks


def _body(piece: FieldPiece, data: bytes, base: int, unit: str, sys_flag: object, remark: Remark) -> Iterator[Line]:
    assert isinstance(piece.value, bytes)
    flags = sys_flag if isinstance(sys_flag, int) else 0
    if flags & record.INNER_BATCH and not flags & record.COMPRESSED and not piece.error:
        entries = list(_entries(piece.value, base + piece.at, unit, piece.meaning))
        if entries:
            yield from entries
            return
    text = f"{piece.size} bytes"
    if flags & record.COMPRESSED:
        text += f", compressed with {NAMES.get(flags & record.COMPRESSION_MASK, 'an unknown method')}"
    else:
        text += f": {text_of(piece.value)}"
    line = field_line(piece, data, base, unit, remark)
    yield Line(
        line.offset, line.length, unit, "body", text_of(piece.value), text, line.meaning, line.problem, line.data
    )


def _entries(body: bytes, base: int, unit: str, meaning: str) -> Iterator[Line]:
    """Yield a line for each message of an inner batch; none if the body has another form."""
    at = 0
    try:
        found = list(inner_batch.iterate(body))
    except FormatError:
        return
    for number, entry in enumerate(found):
        size = inner_batch.ENTRY.size_of(entry)
        text = f"{len(entry.body)} bytes: {text_of(entry.body[:TEXT_CHARS])}"
        pairs = properties.parse_bytes(entry.properties)
        text += f"; {', '.join(f'{name}={value}' for name, value in list(pairs.items())[:8])}" if pairs else ""
        data = body[at : at + min(size, SHOWN_BYTES)]
        yield Line(
            base + at, size, unit, f"body entry {number}", number, text, "message of the inner batch", None, data
        )
        at += size


def _properties(look: FileLook, piece: FieldPiece, base: int, unit: str, data: bytes) -> Iterator[Line]:
    """Yield a line for each property, with the separator after it."""
    assert isinstance(piece.value, bytes)
    text, kept = piece.value, properties.parse_bytes(piece.value)
    at = 0
    while at < len(text):
        end = text.find(b"\x02", at)
        end = len(text) if end < 0 else end + 1
        raw = text[at:end]
        name, value = _pair(raw)
        shown, meaning, problem = "dropped by readers", "no name or no value", None
        if name is not None and value is not None:
            last = kept.get(name) == value
            shown = _value(look, name, value, data) + ("" if last else ": a later pair of this name wins")
            meaning = properties.MEANINGS.get(name, "carried as the sender gave it")
        if end == len(text):
            problem = piece.error or None
        label = f"property {name}" if name is not None else "property"
        yield Line(base + piece.at + at, len(raw), unit, label, value if value is None else _cut(value), shown, meaning,
                   problem, raw[:SHOWN_BYTES])  # fmt: skip
        at = end


def _pair(raw: bytes) -> tuple[str | None, str | None]:
    pairs = properties.parse_bytes(raw)
    return next(iter(pairs.items())) if pairs else (None, None)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"


def _value(look: FileLook, name: str, value: str, data: bytes) -> str:
    """Return a property's value for people, with its consequences."""
    text = _cut(value)
    if name == properties.TAGS:
        return f"{text}: tags code {java_hash(value)}"
    if name in (properties.TIMER_OUT_MS, properties.TIMER_ENQUEUE_MS, properties.TIMER_DEQUEUE_MS):
        moment = java_int(value, 64)
        return text if moment is None else f"{text} ({iso(moment)})"
    if name == properties.DELAY:
        return _delay(look, text, value, data)
    if name == properties.CRC32:
        crc = record.crc(data[: -record.CRC_PROPERTY_SIZE])
        same = data.endswith(record.crc_property(crc))
        return f"{text}: {'as computed' if same else f'computed {str(crc).rjust(10, chr(48))[::-1]}'}"
    if name == properties.UNIQ_KEY:
        try:
            client = message_id.parse_client_id(value)
        except FormatError:
            return text
        return f"{text}: client {message_id.address_text(client.address)}, process {client.pid}, count {client.counter}"
    return text


def _delay(look: FileLook, text: str, value: str, data: bytes) -> str:
    try:
        message = StoredMessage(data)
        if message.topic != consume_queue.SCHEDULE_TOPIC:
            return text
        due = look.around.tags_code(message)
    except (FlintError, FormatError):
        return text
    return f"{text}: due {iso(due)}" if java_int(value) else text

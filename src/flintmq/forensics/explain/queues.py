"""Explains consume queues, batch queues (also compaction logs'), and extensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import ClassVar, Final

from flintmq.errors import FormatError
from flintmq.forensics.explain.file_kinds import BATCH, COMPACTION_QUEUE, QUEUE
from flintmq.forensics.explain.lines import Line, Remark, field_lines, same
from flintmq.forensics.explain.source import FileLook
from flintmq.forensics.explain.unit_table import ODD, UNITS, UNWRITTEN, ZEROS, PlacedUnit, Pointers, Sort
from flintmq.format import batch_queue, consume_queue, consume_queue_ext
from flintmq.format.consume_queue_ext import EXT_UNIT
from flintmq.format.text import iso
from flintmq.message import StoredMessage
from flintmq.store.dispatch.queue_positions import places

PRE_FILLED: Final = "pre-filled"
END_UNITS: Final = "end"
_FILLS: Final = "fills the queue's first file before its first unit; points to no record"
_ODD_BATCH: Final = "no units: an offset or a base below 0, no size, or no messages"


class QueueUnits(Pointers[consume_queue.Unit]):
    layout = consume_queue.UNIT
    sorts: ClassVar = {
        UNITS: Sort("messages of the queue, in their order"),
        ZEROS: UNWRITTEN,
        PRE_FILLED: Sort(_FILLS, {"size": Remark(_FILLS)}),
        ODD: Sort(
            "no units: an offset below 0, or no size",
            {"physical_offset": Remark("", "no unit: an offset below 0, or no size")},
            "no unit has such values",
        ),
    }

    def sort(self, data: bytes) -> str:
        unit = consume_queue.UNIT.unpack(data)
        return PRE_FILLED if unit.is_pre_blank else UNITS if unit.is_written else ODD

    def told(self, unit: PlacedUnit[consume_queue.Unit], remarks: Mapping[str, Remark]) -> tuple[int, str, str]:
        offset, size, _ = unit.fields
        text = {ODD: f"offset {offset}, size {size}", PRE_FILLED: "points to no record"}.get(unit.sort, "")
        if unit.sort == UNITS:
            text = f"log offset {offset}, {size} bytes -> {remarks['physical_offset'].text}"
        return offset, text, _FILLS if unit.sort == PRE_FILLED else f"queue offset {unit.number}"

    def against(self, fields: consume_queue.Unit, message: StoredMessage) -> dict[str, Remark]:
        tags_code = self._tags(fields.tags_code, message)
        return {"size": same(fields.size, message.size, "the record's size"), "tags_code": tags_code}

    def misplaced(self, unit: PlacedUnit[consume_queue.Unit], message: StoredMessage) -> str | None:
        place = self.look.place
        if place.topic is None or place.queue_id is None:
            return None
        mine = [p for p in places(message) if (p.topic, p.queue_id) == (place.topic, place.queue_id)]
        if not mine:
            return f"the record is none of queue {place.topic}/{place.queue_id}"
        if not any(p.offset <= unit.number < p.offset + p.messages for p in mine):
            return f"the record has queue offset {mine[0].offset}, the unit is at {unit.number}"
        return None

    def report(self, unit: PlacedUnit[consume_queue.Unit]) -> None:
        place = self.look.place
        if unit.sort == UNITS:
            self.look.step_to(unit.fields.physical_offset)
            if place.root is not None and place.topic is not None and place.queue_id is not None:
                self.look.step("get", place.root, place.topic, place.queue_id, unit.number)

    def _tags(self, code: int, message: StoredMessage) -> Remark:
        right = self.look.around.tags_code(message)
        if consume_queue_ext.is_address(code):
            at = consume_queue_ext.position(code)
            unit = self.look.around.ext(at)
            if isinstance(unit, str):
                return Remark(f"address {at} in the extension: {unit}", unit)
            text, problem = same(unit.tags_code, right, _why(message))
            return Remark(f"address {at} in the extension, whose unit has tags code {unit.tags_code}, {text}", problem)
        return same(code, right, _why(message))


def _why(message: StoredMessage) -> str:
    if message.topic == consume_queue.SCHEDULE_TOPIC:
        return "the time of delivery (messageDelayLevel)"
    return f"the hash of tags {message.tags}" if message.tags else "that of a record without tags"


class BatchUnits(Pointers[batch_queue.BatchUnit]):
    """Units of a batch consume queue, or of the queue of a compaction log."""

    layout = batch_queue.BATCH_UNIT
    sorts: ClassVar = {
        UNITS: Sort("records of the queue, in their order"),
        ZEROS: Sort("nothing was written here"),
        END_UNITS: Sort("closes a file of the compaction queue"),
        ODD: Sort(_ODD_BATCH, {"physical_offset": Remark("", _ODD_BATCH)}, "no unit has such values"),
    }

    def sort(self, data: bytes) -> str:
        unit = batch_queue.BATCH_UNIT.unpack(data)
        if unit == batch_queue.COMPACTION_END and self.look.place.kind == COMPACTION_QUEUE:
            return END_UNITS
        return UNITS if unit.is_written else ODD

    def told(self, unit: PlacedUnit[batch_queue.BatchUnit], remarks: Mapping[str, Remark]) -> tuple[int, str, str]:
        fields, meaning = unit.fields, self.sorts[unit.sort].meaning
        text = f"log offset {fields.physical_offset}, {fields.size} bytes"
        if unit.sort == UNITS:
            text += f" -> {remarks['physical_offset'].text}"
            meaning = f"queue offsets {fields.base_offset} to {fields.base_offset + fields.messages - 1}"
        return fields.physical_offset, text, meaning

    def against(self, fields: batch_queue.BatchUnit, message: StoredMessage) -> dict[str, Remark]:
        base, messages = batch_queue.messages_of(message.properties, message.queue_offset)
        return {
            "size": same(fields.size, message.size, "the record's size"),
            "tags_code": same(fields.tags_code, self.look.around.tags_code(message), _why(message)),
            "store_timestamp": same(fields.store_timestamp, message.store_timestamp, "the record's time"),
            "base_offset": same(fields.base_offset, base, "the record's"),
            "messages": same(fields.messages, messages, "the record's"),
        }

    def misplaced(self, unit: PlacedUnit[batch_queue.BatchUnit], message: StoredMessage) -> str | None:
        place = self.look.place
        if place.topic is None or (message.topic, message.queue_id) == (place.topic, place.queue_id):
            return None
        return f"the record is none of queue {place.topic}/{place.queue_id}"


def lines(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a consume queue or batch queue file."""
    # The number of a batch unit is not its queue offset; files of a compaction queue are not even named by numbers.
    kind = QueueUnits if look.place.kind == QUEUE else BatchUnits
    named = look.place.kind in (QUEUE, BATCH)
    table = kind(look, 0, look.source.size, (look.place.start or 0) // kind.layout.size if named else 0)
    yield from table.lines()
    if look.at is None:
        look.found.append(("holds", ", ".join(f"{count} {sort}" for sort, count in table.counts.items()) or "nothing"))


def ext_lines(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a file of a queue's extension."""
    count = end = begin = waiting = after = 0  # units from `begin` on wait for a common line
    for (at, length), (_, following) in pairwise(chain(_ext_units(look), [(0, 0)])):
        end = at + length
        own = count < look.limit if look.at is None else look.at < end + following and after <= look.limit
        if own and waiting:
            yield _ext_run(look, begin, at, waiting)
        begin, waiting = (end, 0) if own else (begin, waiting + 1)
        reached = look.at is not None and look.at < end
        if reached and not after:
            address = consume_queue_ext.address((look.place.start or 0) + at)
            remarks = {"size": Remark(f"units of the queue point here with {address} as tags code")}
            yield from field_lines(EXT_UNIT, look.source.read(length, at), at, f"unit {count}", remarks)
        elif own:
            yield _ext_line(look, count, at, length)
        after, count = after + reached, count + 1
    if waiting:
        yield _ext_run(look, begin, end, waiting)
    look.found.append(("holds", f"{count} units up to position {end}"))
    yield from _ext_end(look, end)


def _ext_units(look: FileLook) -> Iterator[tuple[int, int]]:
    at = 0
    while at < look.source.size and (length := _ext_length(look, at)[0]):
        yield at, length
        at += length


def _ext_length(look: FileLook, at: int) -> tuple[int, str]:
    """Return (bytes of the unit at a position, problem); the bytes are 0 without a unit."""
    try:
        width = consume_queue_ext.SIZE.size
        data = look.source.read(max(consume_queue_ext.size_at(look.source.read(width, at)), width), at)
        unit = consume_queue_ext.decode(data)
    except FormatError as error:
        return 0, error.reason
    return (0, "") if unit is None else (EXT_UNIT.size_of(unit), "")


def _ext_line(look: FileLook, number: int, at: int, length: int) -> Line:
    unit = EXT_UNIT.unpack(look.source.read(length, at))
    text = f"tags code {unit.tags_code}, {iso(unit.store_timestamp)}, {len(unit.bitmap)} bytes of bitmap"
    address = consume_queue_ext.address((look.place.start or 0) + at)
    return look.range(at, at + length, "unit", unit.tags_code, text, f"address {address}", unit=f"unit {number}")


def _ext_run(look: FileLook, begin: int, end: int, count: int) -> Line:
    return look.range(begin, end, "units", count, f"{count} units", "units of the extension")


def _ext_end(look: FileLook, at: int) -> Iterator[Line]:
    """Yield lines for the bytes after the last unit: an end mark, zeros, or no unit."""
    size = look.source.size
    if at < size and look.source.read(2, at) == consume_queue_ext.FILE_END:
        yield look.range(at, at + 2, "file end", -1, "-1", "the next unit begins the next file")
        at += 2
    if at >= size:
        return
    zeros = look.source.zeros_until(at, size)
    if zeros == size:
        yield from look.bytes(at, size, ZEROS, "nothing was written here")
        return
    _, why = _ext_length(look, at)
    problem = f"no unit: {why or 'no size'}" if why or zeros == at else None
    yield from look.bytes(at, size, "bytes", "belong to no unit", problem, counted=False)

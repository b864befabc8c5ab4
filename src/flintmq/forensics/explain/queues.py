"""Explains consume queues, batch queues (also compaction logs'), and extensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flintmq.errors import FormatError
from flintmq.forensics.explain.file_kinds import BATCH, COMPACTION_QUEUE, QUEUE
from flintmq.forensics.explain.lines import Line, Remark, blame, field_lines
from flintmq.forensics.explain.source import FileLook
from flintmq.forensics.explain.unit_table import UNITS, ZEROS, UnitTable
from flintmq.format import batch_queue, consume_queue, consume_queue_ext
from flintmq.format.text import iso
from flintmq.message import StoredMessage
from flintmq.store.dispatch.queue_positions import places

PRE_FILLED: Final = "pre-filled"
ODD: Final = "odd"
END_UNITS: Final = "end"


class QueueUnits:
    """Units of a consume queue."""

    noun, plural, width = "unit", "units", consume_queue.UNIT_SIZE
    plain = False

    def __init__(self, look: FileLook) -> None:
        self.look = look
        self.first = (look.place.start or 0) // self.width

    def sort(self, data: bytes) -> str:
        if not any(data):
            return ZEROS
        unit = consume_queue.UNIT.unpack(data)
        if unit.is_pre_blank:
            return PRE_FILLED
        return UNITS if unit.is_written else ODD

    def meaning(self, sort: str) -> str:
        return {
            ZEROS: "nothing was written here",
            PRE_FILLED: "fills the queue's first file before its first unit; points to no record",
            ODD: "no units: an offset below 0, or no size",
        }.get(sort, "messages of the queue, in their order")

    def line(self, number: int, data: bytes, position: int) -> Line:
        unit = consume_queue.UNIT.unpack(data)
        if self.sort(data) == ODD:
            text, problem = f"offset {unit.physical_offset}, size {unit.size}", "no unit has such values"
        elif unit.is_pre_blank:
            text, problem = "points to no record", None
        else:
            text, problem = f"log offset {unit.physical_offset}, {unit.size} bytes", None
            remarks = self._remarks(number, unit)
            text = f"{text} -> {remarks['physical_offset'].text}"
            problem = next((remark.problem for remark in remarks.values() if remark.problem), None)
        meaning = f"queue offset {number}" if not unit.is_pre_blank else self.meaning(PRE_FILLED)
        return Line(position, self.width, f"unit {number}", "unit", unit.physical_offset, text, meaning, problem, data)

    def fields(self, number: int, data: bytes, position: int) -> Iterator[Line]:
        unit, sort = consume_queue.UNIT.unpack(data), self.sort(data)
        if sort == ZEROS:
            yield Line(position, self.width, f"unit {number}", ZEROS, 0, "zeros", self.meaning(ZEROS), None, data)
            return
        remarks = self._remarks(number, unit) if sort == UNITS else {}
        if sort == PRE_FILLED:
            remarks = {"size": Remark(self.meaning(PRE_FILLED))}
        lines = list(field_lines(consume_queue.UNIT, data, position, f"unit {number}", remarks))
        yield from lines if sort != ODD else blame(lines, position, "no unit: an offset below 0, or no size")
        if sort == UNITS:
            place, target = self.look.place, self.look.around.log and self.look.around.log.find(unit.physical_offset)
            if target:
                self.look.step("explain", target.path, "--at", unit.physical_offset - target.start)
            if place.root is not None and place.topic is not None and place.queue_id is not None:
                self.look.step("get", place.root, place.topic, place.queue_id, number)

    def _remarks(self, number: int, unit: consume_queue.Unit) -> dict[str, Remark]:
        found = self.look.around.record(unit.physical_offset)
        remarks = {"physical_offset": Remark(found.text, found.text if found.problem else None)}
        message = found.message
        if message is None:
            return remarks
        remarks["size"] = _same(unit.size, message.size, "the record's size")
        wrong = self._misplaced(number, message)
        if wrong:
            remarks["physical_offset"] = Remark(found.text, wrong)
        remarks["tags_code"] = self._tags(unit.tags_code, message)
        return remarks

    def _misplaced(self, number: int, message: StoredMessage) -> str | None:
        place = self.look.place
        if place.topic is None or place.queue_id is None:
            return None
        mine = [p for p in places(message) if (p.topic, p.queue_id) == (place.topic, place.queue_id)]
        if not mine:
            return f"the record is none of queue {place.topic}/{place.queue_id}"
        if not any(p.offset <= number < p.offset + p.messages for p in mine):
            return f"the record has queue offset {mine[0].offset}, the unit is at {number}"
        return None

    def _tags(self, code: int, message: StoredMessage) -> Remark:
        right = self.look.around.tags_code(message)
        if consume_queue_ext.is_address(code):
            at = consume_queue_ext.position(code)
            unit = self.look.around.ext(at)
            if isinstance(unit, str):
                return Remark(f"address {at} in the extension: {unit}", unit)
            same = _same(unit.tags_code, right, _why(message))
            return Remark(
                f"address {at} in the extension, whose unit has tags code {unit.tags_code}, {same.text}", same.problem
            )
        return _same(code, right, _why(message))


def _why(message: StoredMessage) -> str:
    """Return the source of a record's tags code."""
    if message.topic == consume_queue.SCHEDULE_TOPIC:
        return "the time of delivery (messageDelayLevel)"
    return f"the hash of tags {message.tags}" if message.tags else "that of a record without tags"


def _same(found: int, right: int, what: str) -> Remark:
    if found == right:
        return Remark(f"is {what}")
    return Remark(f"{what} is {right}", f"{found} where {what} is {right}")


class BatchUnits:
    """Units of a batch consume queue, or of the queue of a compaction log."""

    noun, plural, width = "unit", "units", batch_queue.BATCH_UNIT_SIZE
    plain = False

    def __init__(self, look: FileLook) -> None:
        self.look = look
        # A unit's place does not give its queue offset; files of a compaction queue are not even named by unit numbers.
        self.first = (look.place.start or 0) // self.width if look.place.kind == BATCH else 0

    def sort(self, data: bytes) -> str:
        if not any(data):
            return ZEROS
        unit = batch_queue.BATCH_UNIT.unpack(data)
        if unit == batch_queue.COMPACTION_END and self.look.place.kind == COMPACTION_QUEUE:
            return END_UNITS
        return UNITS if unit.is_written else ODD

    def meaning(self, sort: str) -> str:
        return {
            ZEROS: "nothing was written here",
            END_UNITS: "closes a file of the compaction queue",
            ODD: "no units: an offset or a base below 0, no size, or no messages",
        }.get(sort, "records of the queue, in their order")

    def line(self, number: int, data: bytes, position: int) -> Line:
        unit, sort = batch_queue.BATCH_UNIT.unpack(data), self.sort(data)
        text, problem = f"log offset {unit.physical_offset}, {unit.size} bytes", None
        if sort == UNITS:
            remarks = self._remarks(unit)
            text = f"{text} -> {remarks['physical_offset'].text}"
            problem = next((remark.problem for remark in remarks.values() if remark.problem), None)
        elif sort == ODD:
            problem = "no unit has such values"
        last = unit.base_offset + max(unit.messages, 1) - 1
        meaning = f"queue offsets {unit.base_offset} to {last}" if sort == UNITS else self.meaning(sort)
        return Line(position, self.width, f"unit {number}", "unit", unit.physical_offset, text, meaning, problem, data)

    def fields(self, number: int, data: bytes, position: int) -> Iterator[Line]:
        unit, sort = batch_queue.BATCH_UNIT.unpack(data), self.sort(data)
        remarks = self._remarks(unit) if sort == UNITS else {}
        lines = list(field_lines(batch_queue.BATCH_UNIT, data, position, f"unit {number}", remarks))
        yield from blame(lines, position, self.meaning(ODD)) if sort == ODD else lines

    def _remarks(self, unit: batch_queue.BatchUnit) -> dict[str, Remark]:
        found = self.look.around.record(unit.physical_offset)
        remarks = {"physical_offset": Remark(found.text, found.text if found.problem else None)}
        message = found.message
        if message is None:
            return remarks
        place = self.look.place
        if place.topic is not None and (message.topic, message.queue_id) != (place.topic, place.queue_id):
            wrong = f"the record is none of queue {place.topic}/{place.queue_id}"
            remarks["physical_offset"] = Remark(found.text, wrong)
        base, messages = batch_queue.messages_of(message.properties, message.queue_offset)
        remarks["size"] = _same(unit.size, message.size, "the record's size")
        remarks["tags_code"] = _same(unit.tags_code, self.look.around.tags_code(message), _why(message))
        remarks["store_timestamp"] = _same(unit.store_timestamp, message.store_timestamp, "the record's time")
        remarks["base_offset"] = _same(unit.base_offset, base, "the record's")
        remarks["messages"] = _same(unit.messages, messages, "the record's")
        return remarks


def lines(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a consume queue or batch queue file."""
    units = QueueUnits(look) if look.place.kind == QUEUE else BatchUnits(look)
    table = UnitTable(look, units, 0, look.source.size)
    if look.at is not None:
        yield from table.at(look.at)
        return
    yield from table.overview()
    counts = ", ".join(f"{count} {sort}" for sort, count in table.counts.items()) or "nothing"
    look.found.append(("holds", counts))


def ext_lines(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a file of a queue's extension."""
    at = count = 0
    first_uncounted: tuple[int, int] | None = None  # position and number of a run of units that share a line
    shown_after = 0
    size = look.source.size
    previous: tuple[int, int, int] | None = None
    while at < size:
        length, problem = _ext_length(look, at)
        if not length:
            break
        focus = look.at is not None and at <= look.at < at + length
        after = look.at is not None and at > look.at and shown_after < look.limit
        own = focus or after or (look.at is None and count < look.limit)
        if own and focus and previous is not None:
            # The neighbour before it gets a line of its own, too.
            if first_uncounted is not None and first_uncounted[0] < previous[0]:
                yield _ext_run(look, first_uncounted[0], previous[0], first_uncounted[1] - 1)
            yield _ext_line(look, previous[2], previous[0], previous[1])
            first_uncounted = None
        elif own and first_uncounted is not None:
            yield _ext_run(look, first_uncounted[0], at, first_uncounted[1])
            first_uncounted = None
        if focus:
            data = look.source.read(length, at)
            yield from field_lines(consume_queue_ext.EXT_UNIT, data, at, f"unit {count}", _ext_remarks(look, at))
        elif own:
            shown_after += after
            yield _ext_line(look, count, at, length)
        else:
            first_uncounted = (first_uncounted or (at, 0))[0], (first_uncounted or (at, 0))[1] + 1
        previous, at, count = (at, length, count), at + length, count + 1
    if first_uncounted is not None:
        yield _ext_run(look, first_uncounted[0], at, first_uncounted[1])
    look.found.append(("holds", f"{count} units up to position {at}"))
    yield from _ext_end(look, at)


def _ext_length(look: FileLook, at: int) -> tuple[int, str]:
    """Return (bytes of the unit at a position, problem); the bytes are 0 without a unit."""
    try:
        width = consume_queue_ext.SIZE.size
        data = look.source.read(max(consume_queue_ext.size_at(look.source.read(width, at)), width), at)
        unit = consume_queue_ext.decode(data)
    except FormatError as error:
        return 0, error.reason
    return (0, "") if unit is None else (consume_queue_ext.EXT_UNIT.size_of(unit), "")


def _ext_remarks(look: FileLook, at: int) -> dict[str, Remark]:
    address = consume_queue_ext.address((look.place.start or 0) + at)
    return {"size": Remark(f"units of the queue point here with {address} as tags code")}


def _ext_line(look: FileLook, number: int, at: int, length: int) -> Line:
    unit = consume_queue_ext.EXT_UNIT.unpack(look.source.read(length, at))
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
        yield look.range(at, size, ZEROS, size - at, f"{size - at} bytes", "nothing was written here")
        return
    _, why = _ext_length(look, at)
    problem = f"no unit: {why or 'no size'}" if why or zeros == at else None
    yield look.range(at, size, "bytes", None, f"{size - at} bytes", "belong to no unit", problem)

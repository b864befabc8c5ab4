"""Explains the timer store: log units with their messages, and the wheel's slots."""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.errors import FormatError
from flintmq.forensics.explain.lines import Line, Remark, field_lines
from flintmq.forensics.explain.source import FileLook
from flintmq.forensics.explain.unit_table import UNITS, ZEROS, Plain, UnitTable
from flintmq.format import properties, timer
from flintmq.format.text import iso, java_hash

OTHERS = "no units"


class LogUnits:
    """Units of the timer log."""

    noun, plural, width, first = "unit", "units", timer.LOG_UNIT.size, 0
    plain = False

    def __init__(self, look: FileLook) -> None:
        self.look = look

    def sort(self, data: bytes) -> str:
        if not any(data):
            return ZEROS
        try:
            return UNITS if isinstance(timer.decode_log(data), timer.LogUnit) else OTHERS
        except FormatError:
            return OTHERS

    def meaning(self, sort: str) -> str:
        return {ZEROS: "nothing was written here", UNITS: "timer messages, in the order of their coming"}.get(
            sort, "a size other than 52, or bits that no unit has: the timer log ends here"
        )

    def line(self, number: int, data: bytes, position: int) -> Line:
        unit, name, meaning = timer.LOG_UNIT.unpack(data), f"unit {number}", self._meaning(position)
        if self.sort(data) == OTHERS:
            problem = self.meaning(OTHERS)
            return Line(position, self.width, name, "no unit", None, f"size {unit.size}", meaning, problem, data)
        remarks = self._remarks(unit)
        wrong = next((remark.problem for remark in remarks.values() if remark.problem), None)
        text = f"due {iso(unit.slot_time)}, log offset {unit.physical_offset} -> {remarks['physical_offset'].text}"
        return Line(position, self.width, name, "unit", unit.physical_offset, text, meaning, wrong, data)

    def fields(self, number: int, data: bytes, position: int) -> Iterator[Line]:
        unit, sort = timer.LOG_UNIT.unpack(data), self.sort(data)
        if sort == ZEROS:
            text = self.meaning(ZEROS)
            yield Line(position, self.width, f"unit {number}", ZEROS, 0, "zeros", text, None, data)
            return
        remarks = self._remarks(unit) if sort == UNITS else {"size": Remark("", self.meaning(OTHERS))}
        yield from field_lines(timer.LOG_UNIT, data, position, f"unit {number}", remarks)
        if sort == UNITS:
            target = self.look.around.log and self.look.around.log.find(unit.physical_offset)
            if target:
                self.look.step("explain", target.path, "--at", unit.physical_offset - target.start)

    def _meaning(self, position: int) -> str:
        return f"timer log position {(self.look.place.start or 0) + position}"

    def _remarks(self, unit: timer.LogUnit) -> dict[str, Remark]:
        found = self.look.around.record(unit.physical_offset)
        remarks = {
            "delay": Remark(f"due {iso(unit.slot_time)}"),
            "physical_offset": Remark(found.text, found.text if found.problem else None),
            "previous_position": Remark("none before" if unit.previous_position == timer.NONE else ""),
        }
        if found.message is not None:
            message = found.message
            size, real = message.size, message.properties.get(properties.REAL_TOPIC)
            if message.topic != timer.TIMER_TOPIC:
                remarks["physical_offset"] = Remark(found.text, f"the record is not of topic {timer.TIMER_TOPIC}")
            right = java_hash(real) if real else 0
            remarks["record_size"] = _same(unit.record_size, size, "the record's size")
            remarks["topic_hash"] = _same(
                unit.topic_hash, right, f"that of {real}" if real else "that of no REAL_TOPIC"
            )
        return remarks


def _same(found: int, right: int, what: str) -> Remark:
    return Remark(f"is {what}") if found == right else Remark(f"{what} is {right}", f"{found} where {what} is {right}")


class WheelSlots(Plain):
    """Slots of the timer wheel."""

    noun, plural, width, first = "slot", "slots", timer.WHEEL_SLOT.size, 0

    def __init__(self, look: FileLook) -> None:
        self.look = look

    def meaning(self, sort: str) -> str:
        return "moments for which nothing ever waited" if sort == ZEROS else "moments; delivered ones are not cleared"

    def _moment(self, number: int, slot: timer.WheelSlot) -> Remark:
        when = iso(slot.moment * self.look.config.timer_precision_ms)
        place = slot.moment % timer.WHEEL_SLOTS
        return Remark(when, None if place == number else f"such a moment belongs into slot {place}")

    def line(self, number: int, data: bytes, position: int) -> Line:
        slot = timer.WHEEL_SLOT.unpack(data)
        moment = self._moment(number, slot)
        text = f"{moment.text}, {slot.messages} messages, newest at timer log position {slot.last_position}"
        meaning = "a moment; old ones are not cleared"
        return Line(position, self.width, f"slot {number}", "slot", slot.moment, text, meaning, moment.problem, data)

    def fields(self, number: int, data: bytes, position: int) -> Iterator[Line]:
        remarks = {}
        if any(data):
            remarks = {"moment": self._moment(number, timer.WHEEL_SLOT.unpack(data))}
        yield from field_lines(timer.WHEEL_SLOT, data, position, f"slot {number}", remarks)


def wheel(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a timer wheel."""
    if look.source.size != timer.WHEEL_SIZE:
        look.found.append(("size", f"{look.source.size} bytes where a wheel has {timer.WHEEL_SIZE}: brokers refuse it"))
    table = UnitTable(look, WheelSlots(look), 0, look.source.size)
    yield from table.overview() if look.at is None else table.at(look.at)
    if look.at is None:
        look.found.append(("holds", f"{table.counts.get(UNITS, 0)} slots that were used"))


def log(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a timer log file: units, its end, the bytes after it."""
    size, width = look.source.size, timer.LOG_UNIT.size
    end = _end_of_file(look)
    table = UnitTable(look, LogUnits(look), 0, size if end is None else end)
    units_end = table.end
    if look.at is not None and look.at < table.stop:
        yield from table.at(look.at)
    elif look.at is not None:
        if table.stop:
            yield look.range(
                0, table.stop, "units", table.stop // width, f"{table.stop // width} units", "not looked at"
            )
        yield from table.rest()
    else:
        yield from table.overview()
        look.found.append(("holds", f"{table.counts.get(UNITS, 0)} units"))
    if end is None:
        return
    head = look.source.read(timer.LOG_END.size, units_end)
    left = size - units_end
    named = timer.LOG_END.unpack(head).size
    remark = Remark("", f"{named} where {left} bytes are left") if named != left else Remark("as many as are left")
    yield from field_lines(timer.LOG_END, head, units_end, "file end", {"size": remark})
    if units_end + len(head) < size:
        rest = units_end + len(head)
        yield look.range(rest, size, "filler", None, f"{size - rest} bytes", "after the end; never read")


def _end_of_file(look: FileLook) -> int | None:
    """Return the position where the file is closed; None if it is not."""
    width, size = timer.LOG_UNIT.size, look.source.size
    at = 0
    while at < size:
        head = look.source.read(width, at)
        if len(head) < timer.LOG_END.size or not any(head):
            return None
        try:
            found = timer.decode_log(head)
        except FormatError:
            return None
        if isinstance(found, timer.TimerLogEnd):
            return at
        at += width
    return None

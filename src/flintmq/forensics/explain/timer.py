"""Explains the timer store: log units with their messages, and the wheel's slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from flintmq.errors import FormatError
from flintmq.forensics.explain.lines import Line, Remark, field_lines, same
from flintmq.forensics.explain.source import FileLook
from flintmq.forensics.explain.unit_table import UNITS, UNWRITTEN, ZEROS, PlacedUnit, Pointers, Sort, UnitTable
from flintmq.format import properties, timer
from flintmq.format.text import iso, java_hash
from flintmq.message import StoredMessage

OTHERS: Final = "no units"
_ENDS: Final = "a size other than 52, or bits that no unit has: the timer log ends here"


class LogUnits(Pointers[timer.LogUnit]):
    layout = timer.LOG_UNIT
    sorts: ClassVar = {
        UNITS: Sort("timer messages, in the order of their coming"),
        ZEROS: UNWRITTEN,
        OTHERS: Sort(_ENDS, {"size": Remark("", _ENDS)}, name="no unit"),
    }

    def sort(self, data: bytes) -> str:
        try:
            return UNITS if isinstance(timer.decode_log(data), timer.LogUnit) else OTHERS
        except FormatError:
            return OTHERS

    def told(self, unit: PlacedUnit[timer.LogUnit], remarks: Mapping[str, Remark]) -> tuple[int | None, str, str]:
        meaning, fields = f"timer log position {(self.look.place.start or 0) + unit.position}", unit.fields
        if unit.sort == OTHERS:
            return None, f"size {fields.size}", meaning
        text = f"due {iso(fields.slot_time)}, log offset {fields.physical_offset}"
        return fields.physical_offset, f"{text} -> {remarks['physical_offset'].text}", meaning

    def remarks(self, unit: PlacedUnit[timer.LogUnit]) -> Mapping[str, Remark]:
        if unit.sort != UNITS:
            return super().remarks(unit)
        previous = Remark("none before" if unit.fields.previous_position == timer.NONE else "")
        due = Remark(f"due {iso(unit.fields.slot_time)}")
        return {**super().remarks(unit), "delay": due, "previous_position": previous}

    def against(self, fields: timer.LogUnit, message: StoredMessage) -> dict[str, Remark]:
        real = message.properties.get(properties.REAL_TOPIC)
        topic = f"that of {real}" if real else "that of no REAL_TOPIC"
        return {
            "record_size": same(fields.record_size, message.size, "the record's size"),
            "topic_hash": same(fields.topic_hash, java_hash(real) if real else 0, topic),
        }

    def misplaced(self, unit: PlacedUnit[timer.LogUnit], message: StoredMessage) -> str | None:
        return None if message.topic == timer.TIMER_TOPIC else f"the record is not of topic {timer.TIMER_TOPIC}"

    def report(self, unit: PlacedUnit[timer.LogUnit]) -> None:
        if unit.sort == UNITS:
            self.look.step_to(unit.fields.physical_offset)


class WheelSlots(UnitTable[timer.WheelSlot]):
    layout, noun = timer.WHEEL_SLOT, "slot"
    sorts: ClassVar = {
        UNITS: Sort("moments; delivered ones are not cleared"),
        ZEROS: Sort("moments for which nothing ever waited"),
    }

    def remarks(self, unit: PlacedUnit[timer.WheelSlot]) -> Mapping[str, Remark]:
        if unit.sort == ZEROS:
            return {}
        moment = unit.fields.moment
        place = moment % timer.WHEEL_SLOTS
        wrong = None if place == unit.number else f"such a moment belongs into slot {place}"
        return {"moment": Remark(iso(moment * self.look.config.timer_precision_ms), wrong)}

    def told(self, unit: PlacedUnit[timer.WheelSlot], remarks: Mapping[str, Remark]) -> tuple[int, str, str]:
        slot, when = unit.fields, remarks["moment"].text
        text = f"{when}, {slot.messages} messages, newest at timer log position {slot.last_position}"
        return slot.moment, text, "a moment; old ones are not cleared"


def wheel(look: FileLook) -> Iterator[Line]:
    if look.source.size != timer.WHEEL_SIZE:
        look.found.append(("size", f"{look.source.size} bytes where a wheel has {timer.WHEEL_SIZE}: brokers refuse it"))
    table = WheelSlots(look, 0, look.source.size)
    yield from table.lines()
    if look.at is None:
        look.found.append(("holds", f"{table.counts.get(UNITS, 0)} slots that were used"))


def log(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a timer log file: units, its end, the bytes after it."""
    size, end = look.source.size, _end_of_file(look)
    table = LogUnits(look, 0, size if end is None else end)
    if look.at is not None and look.at >= table.stop:
        if table.stop:
            count = table.stop // table.width
            yield look.range(0, table.stop, "units", count, f"{count} units", "not looked at")
        yield from table.rest()
    else:
        yield from table.lines()
    if look.at is None:
        look.found.append(("holds", f"{table.counts.get(UNITS, 0)} units"))
    if end is None:
        return
    head = look.source.read(timer.LOG_END.size, end)
    named, left = timer.LOG_END.unpack(head).size, size - end
    remark = Remark("", f"{named} where {left} bytes are left") if named != left else Remark("as many as are left")
    yield from field_lines(timer.LOG_END, head, end, "file end", {"size": remark})
    yield from look.bytes(end + len(head), size, "filler", "after the end; never read", counted=False)


def _end_of_file(look: FileLook) -> int | None:
    """Return the position where the file is closed; None if it is not."""
    width = timer.LOG_UNIT.size
    for at in range(0, look.source.size, width):
        head = look.source.read(width, at)
        if len(head) < timer.LOG_END.size or not any(head):
            return None
        try:
            if isinstance(timer.decode_log(head), timer.TimerLogEnd):
                return at
        except FormatError:
            return None
    return None

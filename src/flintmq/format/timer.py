"""Files of the timer store: wheel slots, log units and `config/timercheck`.

Bytes and rules: docs/internals/format/timer.md.

A timer message waits under the topic `rmq_sys_wheel_timer`; the wheel has a slot for each moment of 14 days, a slot
heads a chain of log units, a unit points at the message. Upstream: TimerWheel, Slot, TimerLog, TimerCheckpoint.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import HEX, TIME, Bits, Buffer, Int, Layout
from flintmq.format.record import MAGIC_BLANK

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
WHEEL_SLOTS: Final = 2 * 7 * 86400
NONE: Final = -1  # a log position that points nowhere

# Bits of a log unit's magic.
UNIT_ALWAYS: Final = 1
UNIT_ROLLED: Final = 2
UNIT_DELETES: Final = 4
UNIT_BITS: Final = (
    Bits(UNIT_ALWAYS, "always set", {UNIT_ALWAYS: "unit"}),
    Bits(UNIT_ROLLED, "placed earlier than its time, and stored once more then", {UNIT_ROLLED: "rolled"}),
    Bits(UNIT_DELETES, "deletes another unit of its slot", {UNIT_DELETES: "deletes"}),
)


class WheelSlot(NamedTuple):
    """One moment of the wheel. Old slots are not cleared.

    A slot belongs to time T only if its `moment` is T / precision.
    """

    moment: Annotated[int, Int("i64", "time in units of the precision, not in ms")]
    first_position: Annotated[int, Int("i64", "timer log position of the oldest unit; -1 if none")]
    last_position: Annotated[int, Int("i64", "timer log position of the newest unit, head of the chain; -1 if none")]
    messages: Annotated[int, Int("i32", "messages in the chain; delete markers count -1")]
    magic: Annotated[int, Int("i32", "0")] = 0


class LogUnit(NamedTuple):
    """One timer message, or a marker that deletes one."""

    size: Annotated[int, Int("i32", "52")]
    previous_position: Annotated[int, Int("i64", "position of the unit before in the same slot; -1 if none")]
    magic: Annotated[int, Int("i32", "bits: 1 always, 2 rolled, 4 deletes", HEX, UNIT_BITS)]
    write_time: Annotated[int, Int("i64", "ms, a multiple of the precision", TIME)]
    delay: Annotated[int, Int("i32", "ms from the write time to the slot's time")]
    physical_offset: Annotated[int, Int("i64", "where the timer message begins in the commit log")]
    record_size: Annotated[int, Int("i32", "bytes of its record")]
    topic_hash: Annotated[int, Int("i32", "Java's hash of its REAL_TOPIC, 0 without one")]
    reserved: Annotated[int, Int("i64", "0")] = 0

    @property
    def slot_time(self) -> int:
        """The time in ms of the slot that the unit belongs to."""
        return self.write_time + self.delay


class TimerLogEnd(NamedTuple):
    """Closes a timer log file in which no further unit fits."""

    size: Annotated[int, Int("i32", "bytes up to the end of the file, this field included")]
    zero: Annotated[int, Int("i64", "0")] = 0
    magic: Annotated[int, Int("u32", "`0xCBD43194`", HEX)] = MAGIC_BLANK


class TimerCheck(NamedTuple):
    """The numbers of `config/timercheck`; the rest of its 4,096 bytes is zero."""

    last_read_time: Annotated[int, Int("i64", "ms, up to where messages were delivered", TIME)] = 0
    log_flushed_position: Annotated[int, Int("i64", "timer log position up to which it is on disk")] = 0
    queue_offset: Annotated[int, Int("i64", "next queue offset of the timer topic")] = 0
    master_queue_offset: Annotated[int, Int("i64", "the same of the master")] = 0
    state_version: Annotated[int, Int("i64", "data version: state")] = 0
    timestamp: Annotated[int, Int("i64", "data version: ms", TIME)] = 0
    counter: Annotated[int, Int("i64", "data version: counter")] = 0


WHEEL_SLOT: Final = Layout("Timer wheel slot", WheelSlot)
LOG_UNIT: Final = Layout("Timer log unit", LogUnit)
LOG_END: Final = Layout("Timer log end", TimerLogEnd)
TIMER_CHECK: Final = Layout("Timer check", TimerCheck)
WHEEL_SIZE: Final = WHEEL_SLOTS * WHEEL_SLOT.size
TIMER_CHECK_SIZE: Final = 4096
assert (WHEEL_SLOT.size, LOG_UNIT.size, LOG_END.size, WHEEL_SIZE) == (32, 52, 16, 38_707_200)


def slot_position(time_ms: int, precision_ms: int = 1000) -> int:
    """Return the position of a time's slot in the wheel's file, whatever the slot holds now."""
    return time_ms // precision_ms % WHEEL_SLOTS * WHEEL_SLOT.size


def decode_log(buf: Buffer, at: int = 0, limit: int | None = None) -> LogUnit | TimerLogEnd:
    """Decode the unit or file end at buf[at] of a timer log file.

    Raises FormatError: there is neither, which is how the log ends.
    """
    end = len(buf) if limit is None else min(limit, len(buf))
    if end - at >= LOG_UNIT.size:
        unit = LOG_UNIT.unpack(buf, at)
        if unit.size == LOG_UNIT.size and 0 <= unit.magic <= 15:
            return unit
    file_end = LOG_END.unpack(buf, at, end)
    if file_end.magic == MAGIC_BLANK and file_end.size >= LOG_END.size:
        return file_end
    raise FormatError(f"neither a timer log unit nor a file end: size {file_end.size}", at)


def decode_check(data: Buffer) -> TimerCheck:
    return TIMER_CHECK.unpack(data)


def encode_check(check: TimerCheck) -> bytes:
    """Encode a whole timercheck file of 4,096 bytes."""
    return TIMER_CHECK.pack(check).ljust(TIMER_CHECK_SIZE, b"\0")

"""Properties that a start of RocketMQ parses as numbers; anything else ends the log there.

One table for all: puts refuse such a message, verify, explain and `recover --dry-run` name such a record, salvage takes
the property its effect. Found by reading each parse of a record's field in the store of 5.3.3, 5.4.0 and 5.5.0, and
tried on them: `tests/compat/start_fields.json` holds what each makes of some hundred records.

Upstream: CommitLog.checkMessageAndReturnSize and setBatchSizeIfNeeded (any exception there is "no record", at which
recovery ends the log), ConsumeQueue.multiDispatchLmqQueue (an exception there ends the load),
TimerMessageStore.enqueue (an exception there is tried again for ever).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from flintmq.format import properties as names
from flintmq.format.consume_queue import SCHEDULE_TOPIC, UNIT_SIZE
from flintmq.format.group_topics import RETRY
from flintmq.format.record import (
    CRC_PROPERTY_NAME,
    CRC_PROPERTY_SIZE,
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    Record,
    crc,
    crc_property,
    split,
)
from flintmq.format.record_view import texts_at
from flintmq.format.text import java_decode, java_int, shorten_text

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
CUT, REFUSED, STUCK = "start-cut", "start-refused", "timer-stuck"
COSTS: Final = {
    CUT: "the next start of RocketMQ ends the log at this record: it and all after it, of all topics, is gone",
    REFUSED: "RocketMQ 5.3.3 does not start, nor one with enableMultiDispatch, and a running one stands still there",
    STUCK: "RocketMQ's timer tries this record again for ever: no timed message after it is delivered",
}
"""What comes of such a record, by the code of verify."""
LAST_UNIT: Final = (2**63 - 1) // UNIT_SIZE  # the position of a later unit in its queue is negative in Java


class StartField(NamedTuple):
    """A property that must be a number."""

    name: str
    bits: int  # size of Java's number: 16, 32 or 64
    effect: str  # CUT, REFUSED or STUCK
    topic: str = ""
    beside: str = ""  # it is parsed where this property is there too; "" for always
    needed: bool = False  # it must be there

    @property
    def wanted(self) -> str:
        return f"queue offsets from 0 to {LAST_UNIT}" if self.effect == REFUSED else f"a number of {self.bits} bits"

    @property
    def is_renamed(self) -> bool:
        """True if another name of the property mends the record; else it has to go."""
        return self.effect != STUCK and self is not QUEUE_OFFSET


FIELDS: Final = (
    StartField(names.DELAY, 32, CUT, topic=SCHEDULE_TOPIC),
    StartField(names.INNER_BASE, 64, CUT, beside=names.INNER_NUM),
    StartField(names.INNER_NUM, 16, CUT, beside=names.INNER_BASE),
    # With enableMultiDispatch; without it, a running broker that dispatches the record goes no further.
    StartField(names.INNER_MULTI_QUEUE_OFFSET, 64, REFUSED, beside=names.INNER_MULTI_DISPATCH),
    StartField(names.TIMER_OUT_MS, 64, STUCK, topic=TIMER_TOPIC, needed=True),
)
QUEUE_OFFSET: Final = StartField("its queue offset", 64, REFUSED)  # of the record itself: 5.3.3 makes it a position
MARKS: Final = tuple({field.name[:5].encode() for field in FIELDS})
"""Each of these properties begins with one of these."""
LONGEST_SHOWN = 40


class WrongField(NamedTuple):
    """A field of a record that RocketMQ cannot parse, and its value; None: it is not there."""

    field: StartField
    value: str | None

    def __str__(self) -> str:
        if self.value is None:
            return f"there is no {self.field.name}"
        return f"{self.field.name} is {shorten_text(self.value, LONGEST_SHOWN)!a}, not {self.field.wanted}"


def wrong_field(topic: str, pairs: Mapping[str, str], sys_flag: int = 0, queue_offset: int = 0) -> WrongField | None:
    """Return the first field of a message that a start of RocketMQ cannot bear; None: it can."""
    placed = sys_flag & TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT)
    for field in FIELDS:
        value = pairs.get(field.name)
        if field.topic not in ("", topic) or (field.beside and field.beside not in pairs):
            continue
        if field.effect != CUT and not placed:  # it is in no queue, and only queues lead to these
            continue
        if value is None:
            wrong = field.needed
        elif field.effect == REFUSED:
            wrong = not _are_offsets(topic, pairs[field.beside], value, field.bits)
        else:
            wrong = java_int(value, field.bits) is None
        if wrong:
            return WrongField(field, value)
    if placed and not sys_flag & INNER_BATCH and not _has_position(queue_offset):
        return WrongField(QUEUE_OFFSET, str(queue_offset))
    return None


def _are_offsets(topic: str, listed: str, offsets: str, bits: int) -> bool:
    """Return whether RocketMQ can read the offsets of light queues, or does not look at them."""
    queues, numbers = split_names(listed), split_names(offsets)
    if len(queues) != len(numbers) or not allows_light(topic):
        return True
    found = (java_int(text, bits) for queue, text in zip(queues, numbers, strict=True) if "/" not in queue)
    return all(number is not None and _has_position(number) for number in found)


def _has_position(queue_offset: int) -> bool:
    """Return whether the position of a unit in its queue is not negative, in Java's 64 bits."""
    return queue_offset * UNIT_SIZE % 2**64 < 2**63


def split_names(text: str) -> list[str]:
    """Split a text at commas as Java's split does: without empty parts at its end."""
    parts = text.split(",") if text.strip() else []
    while parts and not parts[-1]:
        parts.pop()
    return parts


def allows_light(topic: str) -> bool:
    """Return whether messages of this topic may go to light queues (upstream topicAllowsLMQ).

    Topics of the system may not.
    """
    return not topic.startswith((RETRY, "rmq_sys_")) and topic != SCHEDULE_TOPIC


def wrong_of(record: Record) -> WrongField | None:
    pairs = names.parse_bytes(record.properties)
    return wrong_field(java_decode(record.topic), pairs, record.sys_flag, record.queue_offset)


def disarmed(data: bytes) -> bytes:
    """Return a record of the same size in which such properties have no effect.

    They have other names: their first letter becomes `_`. The checksum property, if there is one, is that of the new
    bytes. Timers stay as they are.
    """
    made, end = bytearray(data), names.VALUE_END.encode()
    begin = texts_at(data)[2]
    while (wrong := wrong_of(split(bytes(made)))) is not None and wrong.field.is_renamed:
        head = (wrong.field.name + names.NAME_END).encode()
        parts = (b"_" + part[1:] if part.startswith(head) else part for part in made[begin:].split(end))
        made[begin:] = end.join(parts)
    if made.endswith(end) and made[-CRC_PROPERTY_SIZE:].startswith(CRC_PROPERTY_NAME):
        made[-CRC_PROPERTY_SIZE:] = crc_property(crc(memoryview(made)[:-CRC_PROPERTY_SIZE]))
    assert len(made) == len(data)
    return bytes(made)

"""Rewrites one record for another place, with new offsets (docs/operations/salvage.md).

These parts change:

*   physical offset and queue offset; the offset id follows from them;
*   `INNER_BASE` of an inner batch, `INNER_MULTI_QUEUE_OFFSET` of a record that is in light queues;
*   of transactions: the committed record's offset of its half message, the queue offsets of half messages that an
    outcome names in its body, and `TRAN_PREPARED_QUEUE_OFFSET` of a half message that was put again;
*   the checksum of a changed body, and the appended checksum property of the whole record.

Times, hosts, ids and everything else stay: `UNIQ_KEY`, `ORIGIN_MESSAGE_ID` and similar ids identify a message for
people and consumers; no program uses them as a place in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flintmq.errors import FormatError
from flintmq.forensics.salvage.queues import QueueMaps
from flintmq.format import properties as names
from flintmq.format.batch_queue import messages_of
from flintmq.format.properties import NAME_END, VALUE_END
from flintmq.format.record import (
    CRC_PROPERTY_NAME,
    CRC_PROPERTY_SIZE,
    MAX_PROPERTIES,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    Record,
    crc,
    crc_property,
    encode,
    split,
)
from flintmq.format.record_view import OFFSETS, OFFSETS_AT
from flintmq.format.start_fields import STUCK, allows_light, disarmed, split_names, wrong_of
from flintmq.format.text import java_decode, java_encode, java_int
from flintmq.store.dispatch.dispatcher import DispatchRules
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX

HALF_TOPIC = b"RMQ_SYS_TRANS_HALF_TOPIC"
OUTCOME_TOPIC = b"RMQ_SYS_TRANS_OP_HALF_TOPIC"
FINISHED_TAG = "d"  # of an outcome whose body names half messages


@dataclass
class Renumber:
    """Rewrites records in log order."""

    rules: DispatchRules  # which topics have batch queues, and whether there are light queues
    queues: QueueMaps  # old and new queue offsets
    halves: dict[int, int] = field(default_factory=dict)  # old log offset of a half message -> new one

    def record(self, raw: bytes) -> bytearray:
        """Return the record with its new queue offset and texts; `place` sets its physical offset."""
        old = split(raw)
        wrong = wrong_of(old)
        if wrong is not None:
            if wrong.field.effect == STUCK:
                raise FormatError(f"{wrong}, without which RocketMQ's timer stands still")
            if wrong.field.is_renamed:
                raw = disarmed(raw)
                self.queues.emit({"kind": "renamed", "offset": old.physical_offset, "why": str(wrong)})
                old = split(raw)
        new = self._texts(old)
        queue_offset = old.queue_offset
        if old.transaction in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            queue_offset, new = self._queue(old, new)
        if new is old:
            data = bytearray(raw)
        else:
            if len(new.properties) > MAX_PROPERTIES:
                raise FormatError("the properties have no room for its new offsets")
            data = bytearray(encode(new._replace(body_crc=crc(new.body) if new.body else new.body_crc)))
        OFFSETS.pack_into(data, OFFSETS_AT, queue_offset, old.physical_offset)
        return data

    def place(self, data: bytearray, old: int, new: int) -> None:
        """Move a record from log offset `old` to `new`, and update its checksum property."""
        OFFSETS.pack_into(data, OFFSETS_AT, OFFSETS.unpack_from(data, OFFSETS_AT)[0], new)
        if data[-1:] == b"\x02" and data[-CRC_PROPERTY_SIZE:].startswith(CRC_PROPERTY_NAME):
            data[-CRC_PROPERTY_SIZE:] = crc_property(crc(memoryview(data)[:-CRC_PROPERTY_SIZE]))
        if HALF_TOPIC in data and split(bytes(data)).topic == HALF_TOPIC:
            self.halves[old] = new

    # -- its queues ---------------------------------------------------------------------------------------------------

    def _queue(self, old: Record, new: Record) -> tuple[int, Record]:
        topic = java_decode(old.topic)
        queue = self.queues.of(topic, old.queue_id)
        batch = b"INNER_NUM" in old.properties and old.topic in self.rules.batch_topics
        light = self.rules.light_queues and b"INNER_MULTI_DISPATCH" in old.properties and allows_light(topic)
        if not batch and not light:
            return queue.give(old.queue_offset), new
        pairs = names.parse_bytes(old.properties)
        base, messages = messages_of(pairs, old.queue_offset) if batch else (old.queue_offset, 1)
        offset = queue.give(base, max(messages, 1))
        if batch and names.INNER_BASE in pairs:
            new = _with_property(new, names.INNER_BASE, str(offset))
        if light:
            new = self._light(old, new, pairs)
        return offset, new

    def _light(self, old: Record, new: Record, pairs: dict[str, str]) -> Record:
        wanted = split_names(pairs.get(names.INNER_MULTI_DISPATCH, ""))
        offsets = split_names(pairs.get(names.INNER_MULTI_QUEUE_OFFSET, ""))
        if not wanted or len(wanted) != len(offsets):
            return new
        given = []
        for name, text in zip(wanted, offsets, strict=True):
            offset = java_int(text, 64)
            if name and "/" not in name and offset is not None and offset >= 0:
                queue_id = 0 if name.startswith(LMQ_PREFIX) else old.queue_id
                text = str(self.queues.of(name, queue_id).give(offset))
            given.append(text)
        return _with_property(new, names.INNER_MULTI_QUEUE_OFFSET, ",".join(given))

    # -- transactions -------------------------------------------------------------------------------------------------

    def _texts(self, old: Record) -> Record:
        new = old
        if old.transaction == TRANSACTION_COMMIT and old.prepared_transaction_offset:
            half = self.halves.get(old.prepared_transaction_offset, 0)  # 0: none, as of a half message that has expired
            if half != old.prepared_transaction_offset:
                new = new._replace(prepared_transaction_offset=half)
        if old.topic == OUTCOME_TOPIC:
            new = self._outcome(old, new)
        elif old.topic == HALF_TOPIC and names.PREPARED_QUEUE_OFFSET.encode() in old.properties:
            text = names.parse_bytes(old.properties).get(names.PREPARED_QUEUE_OFFSET, "")
            now = self._half_of(old.queue_id, text)
            # Without the property the broker takes the message for the first of its kind, which it now is.
            new = _with_property(new, names.PREPARED_QUEUE_OFFSET, None if now is None else str(now))
        return new

    def _outcome(self, old: Record, new: Record) -> Record:
        """Return the outcome without the half messages that are lost.

        Their old offsets belong to other messages now, and a lost half message needs no outcome.
        """
        if names.parse_bytes(old.properties).get(names.TAGS) != FINISHED_TAG:
            return new
        found = (self._half_of(old.queue_id, text) for text in old.body.decode("latin-1").split(","))
        body = "".join(f"{offset}," for offset in found if offset is not None).encode()
        return new if body == old.body else new._replace(body=body, body_crc=crc(body))

    def _half_of(self, queue_id: int, text: str) -> int | None:
        offset = java_int(text, 64)
        return None if offset is None else self.queues.of(HALF_TOPIC.decode(), queue_id).new_of(offset)


def _with_property(record: Record, name: str, value: str | None) -> Record:
    """Return the record with a property replaced in its place, or removed for None."""
    parts = record.properties.split(VALUE_END.encode())
    head = (name + NAME_END).encode()
    kept = []
    for part in parts:
        if not part.startswith(head):
            kept.append(part)
        elif value is not None:
            kept.append(head + java_encode(value))
    properties = VALUE_END.encode().join(kept)
    return record if properties == record.properties else record._replace(properties=properties)

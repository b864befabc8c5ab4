"""Assigns queue offsets to inner batches and to messages for light queues.

Such a message takes several queue offsets. They are part of the record's properties, so the property string is encoded
again under the put lock, in upstream's order. Upstream: BatchConsumeQueue.assignQueueOffset,
CommitLog.handlePropertiesForLmqMsg, LmqDispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.format import properties as names
from flintmq.format.record import CRC_PROPERTY_SIZE, INNER_BATCH, MAX_PROPERTIES
from flintmq.format.start_fields import allows_light, split_names
from flintmq.format.text import java_encode, java_int
from flintmq.kernels.write.fast_append import Topic
from flintmq.message import Message, PutMessageStatus
from flintmq.store.append.checks import record_size
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout.queue_name import can_be_stored

MARK = b"INNER_"  # prefix of all properties that matter here
ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL


class TakenOffsets(NamedTuple):
    """The queue offsets that one append takes."""

    offset: int
    properties: bytes  # the property string of its record, offsets included
    nexts: tuple[tuple[Topic, int, int], ...]  # (topic, queue id, the queue's next offset once the append counts)


def is_wrong_inner_batch(message: Message, properties: bytes, is_batch_topic: bool) -> bool:
    """Return whether an inner batch is refused.

    INNER_NUM and the flag of an inner batch belong together, and only in a topic of type BatchCQ.

    Upstream accepts an INNER_NUM below 1 and fails on one that is no number; both are refused here.
    """
    flagged = bool(message.sys_flag & INNER_BATCH)
    if not flagged and MARK not in properties:
        return False
    number = names.parse_bytes(properties).get(names.INNER_NUM)
    if not flagged:
        return number is not None
    good = number is None or (java_int(number, 16) or 0) >= 1
    return not (is_batch_topic and good)


def lmq_names(message: Message, properties: bytes, config: StoreConfig) -> list[str]:
    """Return the queues in INNER_MULTI_DISPATCH; none if the property has no effect."""
    if not config.enable_multi_dispatch or MARK not in properties or not allows_light(message.topic):
        return []
    return split_names(names.parse_bytes(properties).get(names.INNER_MULTI_DISPATCH, ""))


def are_wrong_lmqs(listed: list[str], config: StoreConfig) -> bool:
    """Return whether a message for these queues is refused.

    Refused are names that upstream accepts and then cannot dispatch: light queues mixed with others, for which no queue
    gets a unit, and names that no directory can have, which stop its dispatch of all topics (upstream defect D9).
    """
    light = [name for name in listed if name.startswith(LMQ_PREFIX)]
    if not config.enable_lmq or not light:
        return False
    mixed = len(light) < len(listed)
    return mixed or any("/" not in name and not can_be_stored(java_encode(name)) for name in light)


def taken(
    message: Message, properties: bytes, hosts: bytes, topic: Topic, config: StoreConfig, light: Callable[[str], Topic]
) -> TakenOffsets | PutMessageStatus:
    """Assign the offsets of a message with INNER_ properties or of an inner batch.

    Thread: the one that holds the put lock.
    """
    place = topic.places.get(message.queue_id)
    offset, count = place.next if place is not None else 0, 1
    pairs = names.parse_bytes(properties)
    listed = lmq_names(message, properties, config)
    nexts: list[tuple[Topic, int, int]] = []
    if message.sys_flag & INNER_BATCH:
        count = java_int(pairs.get(names.INNER_NUM, ""), 16) or 1
        pairs[names.INNER_BASE] = str(offset)
    if listed:
        offsets = []
        for name in listed:
            if config.enable_lmq and name.startswith(LMQ_PREFIX):
                queue = light(name)
                found = queue.places.get(0)
                nexts.append((queue, 0, (found.next if found is not None else 0) + 1))
            offsets.append(str(nexts[-1][2] - 1) if nexts else "")
        pairs[names.INNER_MULTI_QUEUE_OFFSET] = ",".join(offsets)
    if listed or message.sys_flag & INNER_BATCH:
        properties = names.encode(names.java_order(pairs))
    extra = CRC_PROPERTY_SIZE if config.enabled_append_prop_crc else 0
    if len(properties) + extra > MAX_PROPERTIES:
        return ILLEGAL if listed else PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    if listed and record_size(message.body, topic.raw, properties, hosts, config) > config.max_message_size:
        return ILLEGAL  # for such a message upstream limits the whole record
    return TakenOffsets(offset, properties, ((topic, message.queue_id, offset + count), *nexts))

"""Determines the queue positions of a record: the rule of dispatch, as values.

A record names its own position. RocketMQ appends to its queues instead, which is the same as long as the queues have no
holes. Pages: docs/internals/format/consume-queue.md, batch-queue.md. Upstream: ConsumeQueueStore, MultiDispatchUtils,
CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from flintmq.format import properties
from flintmq.format.batch_queue import messages_of
from flintmq.format.consume_queue import tags_code
from flintmq.format.record import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from flintmq.format.record_view import PLACE, texts_at
from flintmq.format.start_fields import allows_light, split_names
from flintmq.format.text import java_int
from flintmq.message import StoredMessage, stored_message

LMQ_PREFIX = "%LMQ%"
_PLACED = (TRANSACTION_NONE, TRANSACTION_COMMIT)  # prepared and rolled-back records are in no queue
_NOT_ORDINARY = TRANSACTION_MASK | INNER_BATCH
_INNER = b"INNER_"  # prefix of every property that gives a record more positions than its own


class QueuePosition(NamedTuple):
    """Queue offsets [offset, offset + messages) of one queue, filled by a record."""

    topic: str
    queue_id: int
    offset: int
    messages: int = 1


def places(message: StoredMessage) -> list[QueuePosition]:
    """Return a record's positions: in its own queue, then in light queues it was dispatched to.

    Prepared and rolled-back records have none, and a negative offset is none. An inner batch fills as many offsets as
    it has messages.
    """
    own = message.fields
    if own.sys_flag & TRANSACTION_MASK not in _PLACED:
        return []
    if _INNER not in own.properties:  # mostly, and then they need not be parsed
        return [QueuePosition(message.topic, own.queue_id, own.queue_offset)] if own.queue_offset >= 0 else []
    offset, messages = messages_of(message.properties, message.queue_offset)
    first = QueuePosition(message.topic, message.queue_id, offset, max(messages, 1))
    return [*([first] if offset >= 0 else []), *lmq_positions(message)]


def is_at(data: bytes, topic: bytes, queue_id: int, offset: int) -> bool:
    """Return whether a record has this place in the queues.

    `queue_id`, `offset`: queue, and queue offset of the record or of the first message of an inner batch.
    """
    size, _, own_id, own_offset, flags = PLACE.unpack_from(data)
    begin, end, rest = texts_at(data)
    if not flags & _NOT_ORDINARY and topic.isascii() and data.find(_INNER, rest, size) < 0:  # mostly
        return own_id == queue_id and own_offset == offset >= 0 and data[begin:end] == topic
    return any(
        os.fsencode(place.topic) == topic and place.queue_id == queue_id and place.offset == offset
        for place in places(stored_message(data, 0))
    )


def tags_code_of(message: StoredMessage, delay_ms: Sequence[int]) -> int:
    """Return the tags code of a record's units; `delay_ms` as for `consume_queue.tags_code`."""
    delay = message.properties.get(properties.DELAY)
    return tags_code(message.tags, message.topic, message.store_timestamp, delay, delay_ms)


def lmq_positions(message: StoredMessage) -> list[QueuePosition]:
    """Return a record's positions in light queues; none if names and offsets differ in number.

    Topics of the system have no light queues. A queue is skipped if its name is empty or contains a slash, or if its
    offset is no valid number.
    """
    names = split_names(message.properties.get(properties.INNER_MULTI_DISPATCH, ""))
    offsets = split_names(message.properties.get(properties.INNER_MULTI_QUEUE_OFFSET, ""))
    if len(names) != len(offsets) or not allows_light(message.topic):
        return []
    return [
        QueuePosition(name, 0 if name.startswith(LMQ_PREFIX) else message.queue_id, offset)
        for name, text in zip(names, offsets, strict=True)
        if name and "/" not in name and (offset := java_int(text, 64)) is not None and offset >= 0
    ]

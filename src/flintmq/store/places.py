"""At which places of which queues a record stands: the rule of dispatch, as values (store format 6.3, 6.4, 8).

Source: upstream ConsumeQueueStore, MultiDispatchUtils, CommitLog.checkMessageAndReturnSize. The place is the one that
the record itself tells. RocketMQ appends to its queues instead, which is the same as long as they have no holes.
"""

from __future__ import annotations

from typing import NamedTuple

from flintmq.format import properties as names
from flintmq.format.batch_queue import messages_of
from flintmq.format.record import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from flintmq.format.text import java_int
from flintmq.message import StoredMessage

LMQ_PREFIX = "%LMQ%"
_WITHOUT_LIGHT_QUEUES = ("%RETRY%", "rmq_sys_", "SCHEDULE_TOPIC_XXXX")


class Place(NamedTuple):
    """Queue offsets [offset, offset + messages) of one queue that a record fills."""

    topic: str
    queue_id: int
    offset: int
    messages: int = 1


def places(message: StoredMessage) -> list[Place]:
    """Where a record stands: in its own queue, then in the light queues that it was dispatched to.

    Prepared and rolled-back records stand nowhere, and nothing stands at a negative offset. An inner batch fills as
    many offsets as it has messages.
    """
    if message.sys_flag & TRANSACTION_MASK not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
        return []
    topic, pairs = message.topic, message.properties
    offset, messages = messages_of(pairs, message.queue_offset)
    found = [Place(topic, message.queue_id, offset, max(messages, 1))] if offset >= 0 else []
    light = pairs.get(names.INNER_MULTI_DISPATCH), pairs.get(names.INNER_MULTI_QUEUE_OFFSET)
    if light[0] and light[1] and not topic.startswith(_WITHOUT_LIGHT_QUEUES):
        found += _light(light[0].split(","), light[1].split(","), message.queue_id)
    return found


def _light(queues: list[str], offsets: list[str], queue_id: int) -> list[Place]:
    """Places in light queues; none if names and offsets do not pair up."""
    if len(queues) != len(offsets):
        return []
    return [
        Place(name, 0 if name.startswith(LMQ_PREFIX) else queue_id, offset)
        for name, text in zip(queues, offsets, strict=True)
        if name and "/" not in name and (offset := java_int(text, 64)) is not None and offset >= 0
    ]

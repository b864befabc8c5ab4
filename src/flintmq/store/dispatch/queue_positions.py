"""At which places of which queues a record stands: the rule of dispatch, as values (store format 6.3, 6.4, 8).

Source: upstream ConsumeQueueStore, MultiDispatchUtils, CommitLog.checkMessageAndReturnSize. The place is the one that
the record itself tells. RocketMQ appends to its queues instead, which is the same as long as they have no holes.
"""

from __future__ import annotations

from typing import NamedTuple

from flintmq.format import properties
from flintmq.format.batch_queue import messages_of
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.record import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from flintmq.format.text import java_int
from flintmq.message import StoredMessage

LMQ_PREFIX = "%LMQ%"
_PLACED = (TRANSACTION_NONE, TRANSACTION_COMMIT)  # prepared and rolled-back records stand nowhere
_INNER = b"INNER_"  # begins each property that gives a record more places than its own


def split_names(text: str) -> list[str]:
    """The parts of a text between commas, as Java's split gives them: without empty ones at its end."""
    parts = text.split(",") if text.strip() else []
    while parts and not parts[-1]:
        parts.pop()
    return parts


def allows_light(topic: str) -> bool:
    """Whether messages of this topic may go to light queues: it is none of the system's. Upstream: topicAllowsLMQ."""
    return not topic.startswith(("%RETRY%", "rmq_sys_")) and topic != SCHEDULE_TOPIC


class QueuePosition(NamedTuple):
    """Queue offsets [offset, offset + messages) of one queue that a record fills."""

    topic: str
    queue_id: int
    offset: int
    messages: int = 1


def places(message: StoredMessage) -> list[QueuePosition]:
    """Where a record stands: in its own queue, then in the light queues that it was dispatched to.

    Prepared and rolled-back records stand nowhere, and nothing stands at a negative offset. An inner batch fills as
    many offsets as it has messages.
    """
    own = message.fields
    if own.sys_flag & TRANSACTION_MASK not in _PLACED:
        return []
    if _INNER not in own.properties:  # mostly: then they need not be parsed
        return [QueuePosition(message.topic, own.queue_id, own.queue_offset)] if own.queue_offset >= 0 else []
    offset, messages = messages_of(message.properties, message.queue_offset)
    first = QueuePosition(message.topic, message.queue_id, offset, max(messages, 1))
    return [*([first] if offset >= 0 else []), *lmq_positions(message)]


def lmq_positions(message: StoredMessage) -> list[QueuePosition]:
    """Where a record stands in light queues; nowhere if it names another number of queues than of offsets.

    Topics of the system have no light queues. Passed over is a queue whose name is empty or holds a slash, and an
    offset that is no number a queue has.
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

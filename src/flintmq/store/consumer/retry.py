"""Makes a retry, or a dead letter, of a message that was given back or not acknowledged.

A retry of one that was given back waits in the schedule topic like any message with a delay level; one that was popped
has waited. Its properties hold what leads back: the topic and the offset message id of the first copy. Upstream:
AbstractSendMessageProcessor.consumerSendMsgBack, PopReviveService.reviveRetry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flintmq.format import properties
from flintmq.format.group_topics import dead_letter_topic, retry_topic
from flintmq.message import Message, StoredMessage

FIRST_LEVEL: Final = 3  # of the first retry: 10 s of RocketMQ's levels; each further one waits a level longer
MOST_RETRIES: Final = 16  # retryMaxTimes of a group that sets none
_TIMERS: Final = (properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS, properties.TIMER_DELIVER_MS)


def sent_back(
    message: StoredMessage,
    group: str,
    *,
    level: int = 0,
    most: int = MOST_RETRIES,
    queues: int = 1,
    origin_id: str | None = None,
) -> Message:
    """Return the message to put for one that a group gives back.

    All its properties stay, in the order in which Java writes them. Like upstream it writes neither DLQ_ORIGIN_TOPIC
    nor DLQ_ORIGIN_MESSAGE_ID: RETRY_TOPIC and ORIGIN_MESSAGE_ID say the same of a dead letter.

    Args:
        message: a message of a topic of the group, or of its retries.
        group: the group that gives it back.
        level: delay level; 0: by the number of attempts; negative: a dead letter at once.
        most: the number of retries after which it becomes a dead letter.
        queues: number of queues of the group's retry topic. Upstream takes one by chance.
        origin_id: offset message id of the first copy; None: of this one. Not used if the message has one already.

    Returns:
        A retry with its delay level, or a dead letter in queue 0 without one. As upstream's, neither waits for the
        disk; set `wait` to change that.
    """
    assert queues >= 1
    dead = message.reconsume_times >= most or level < 0
    delay = 0 if dead else level or FIRST_LEVEL + message.reconsume_times
    pairs = dict(message.properties)
    pairs.pop(properties.CRC32, None)  # of the other record
    pairs.setdefault(properties.RETRY_TOPIC, message.topic)
    pairs[properties.WAIT] = "false"
    pairs[properties.DELAY] = str(delay)
    if not pairs.get(properties.ORIGIN_MESSAGE_ID, "").strip():
        pairs[properties.ORIGIN_MESSAGE_ID] = origin_id or message.offset_msg_id
    topic, queue_id = (dead_letter_topic(group), 0) if dead else (retry_topic(group), message.queue_offset % queues)
    return _copy(message, topic, queue_id, pairs, wait=False, delay_level=delay)


def not_acknowledged(message: StoredMessage, group: str, topic: str, *, most: int, popped_ms: int) -> Message:
    """Return the message to put for one that a group popped and did not acknowledge in time.

    It waits for the disk where puts do: what it is a copy of counts as acknowledged then. Beside what upstream writes
    it gets RETRY_TOPIC and ORIGIN_MESSAGE_ID, as a retry does.

    Args:
        message: a message of a topic, or of the group's retries of it.
        topic: of these retries.
        most: the number of retries after which it becomes a dead letter.
        popped_ms: when it was given.
    """
    pairs = dict(message.properties)
    pairs.pop(properties.CRC32, None)
    if properties.TIMER_OUT_MS not in pairs:  # it came too late for its timer, and is not to wait for that again
        for name in _TIMERS:
            pairs.pop(name, None)
    pairs.setdefault(properties.RETRY_TOPIC, message.topic)
    pairs.setdefault(properties.ORIGIN_MESSAGE_ID, message.offset_msg_id)
    pairs.setdefault(properties.FIRST_POP_TIME, str(popped_ms))
    return _copy(message, dead_letter_topic(group) if message.reconsume_times >= most else topic, 0, pairs)


def _copy(
    message: StoredMessage,
    topic: str,
    queue_id: int,
    pairs: Mapping[str, str],
    *,
    wait: bool = True,
    delay_level: int = 0,
) -> Message:
    return Message(
        topic,
        message.body,
        queue_id=queue_id,
        flag=message.flag,
        wait=wait,
        born_timestamp=message.born_timestamp,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times + 1,
        properties_bytes=properties.encode(properties.java_order(pairs)),
        delay_level=delay_level,
        born_host=message.born_host,
    )

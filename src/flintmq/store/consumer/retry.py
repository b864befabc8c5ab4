"""Makes a retry, or a dead letter, of a message that a consumer gives back.

A retry waits in the schedule topic like any message with a delay level. Its properties hold what leads back: the topic
and the offset message id of the first copy. Upstream: AbstractSendMessageProcessor.consumerSendMsgBack.
"""

from __future__ import annotations

from typing import Final

from flintmq.format import properties
from flintmq.format.group_topics import dead_letter_topic, retry_topic
from flintmq.message import Message, StoredMessage

FIRST_LEVEL: Final = 3  # of the first retry: 10 s of RocketMQ's levels; each further one waits a level longer
MOST_RETRIES: Final = 16  # retryMaxTimes of a group that sets none


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
    return Message(
        dead_letter_topic(group) if dead else retry_topic(group),
        message.body,
        queue_id=0 if dead else message.queue_offset % queues,
        flag=message.flag,
        wait=False,
        born_timestamp=message.born_timestamp,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times + 1,
        properties_bytes=properties.encode(properties.java_order(pairs)),
        delay_level=delay,
        born_host=message.born_host,
    )

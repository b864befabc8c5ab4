"""Converts a message with a delay level to its waiting form, and back when it is due.

Upstream: HookUtils.transformDelayLevelMessage, ScheduleMessageService.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.config.keys import StoreConfig
from flintmq.format import properties
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import HALF_TOPIC
from flintmq.format.record import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from flintmq.format.text import java_encode, java_int
from flintmq.message import Message, StoredMessage
from flintmq.store.append.checks import TIMERS, encode_properties, message_rule, topic_status

_REST = 512  # upper bound of a record's bytes besides body, topic and the sender's properties


def scheduled(message: Message, config: StoreConfig) -> Message | None:
    """Return the waiting form: in the schedule topic, in its level's queue; None if unchanged.

    Levels above the last one use the last one's queue. A message that would be refused anyway, and a half or
    rolled-back message of a transaction, is not changed.
    """
    raw = encode_properties(message)
    waits = message.delay_level > 0 and config.delay_ms
    kind = message.sys_flag & TRANSACTION_MASK
    if raw is None or not waits or kind not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
        return message
    topic = java_encode(message.topic)
    if topic_status(message.topic, topic) or message_rule(message, raw, config):
        return message
    if not can_be_delivered(message, topic, raw, config):
        return None
    level = min(message.delay_level, len(config.delay_ms))
    pairs = {name: value for name, value in properties.parse_bytes(raw).items() if name not in TIMERS}
    pairs[properties.DELAY] = str(level)
    pairs[properties.REAL_TOPIC] = message.topic
    pairs[properties.REAL_QID] = str(message.queue_id)
    return moved(message, SCHEDULE_TOPIC, level - 1, pairs)


def can_be_delivered(message: Message, topic: bytes, raw: bytes, config: StoreConfig) -> bool:
    """Return whether a message that is accepted while it waits can be delivered."""
    size = _REST + len(message.body) + len(topic) + len(raw)
    return properties.VALUE_END not in message.topic and size <= config.mapped_file_size_commit_log


def moved(message: Message, topic: str, queue_id: int, pairs: dict[str, str]) -> Message:
    """Return the message for another queue, with these properties."""
    return Message(
        topic,
        message.body,
        queue_id=queue_id,
        flag=message.flag,
        wait=message.wait,
        born_timestamp=message.born_timestamp,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        born_host=message.born_host,
        properties_bytes=properties.encode(properties.java_order(pairs)),
    )


def delivered(waiting: StoredMessage, more: Mapping[str, str] | None = None) -> Message | None:
    """Return the message of a waiting record; None if the record has no original topic.

    As upstream's it keeps DELAY, TIMER_*, REAL_TOPIC and REAL_QID, and its sender's time and host; `more`: properties
    that it gets.
    """
    pairs = waiting.properties
    topic, queue_id = pairs.get(properties.REAL_TOPIC), java_int(pairs.get(properties.REAL_QID, ""))
    if not topic or queue_id is None or topic == HALF_TOPIC:
        return None
    return again(waiting, topic, queue_id, more or {})


def again(waiting: StoredMessage, topic: str, queue_id: int, more: Mapping[str, str]) -> Message:
    """Return the message of a waiting record for another queue, with some properties more."""
    kept = {name: value for name, value in waiting.properties.items() if name != properties.CRC32}  # of its record
    return Message(
        topic,
        waiting.body,
        queue_id=queue_id,
        flag=waiting.flag,
        wait=False,
        born_timestamp=waiting.born_timestamp,
        sys_flag=waiting.sys_flag,
        reconsume_times=waiting.reconsume_times,
        born_host=waiting.born_host,
        properties_bytes=properties.encode(properties.java_order({**kept, **more})),
    )

"""Refuses illegal messages before anything is changed.

Upstream: HookUtils.checkBeforePutMessage, MessageExtEncoder.
"""

from __future__ import annotations

from flintmq.config.keys import StoreConfig
from flintmq.format import properties as names
from flintmq.format.group_topics import OF_GROUPS
from flintmq.format.properties import NAME_END, VALUE_END
from flintmq.format.record import CRC_PROPERTY_SIZE, MAX_PROPERTIES, MIN_SIZE, TRANSACTION_PREPARED, V1_TOPIC_LIMIT
from flintmq.format.start_fields import MARKS, TIMER_TOPIC, wrong_field
from flintmq.format.text import has_lone_surrogate, java_encode, java_int
from flintmq.message import Message, PutMessageStatus, PutRule
from flintmq.store.layout.queue_name import can_be_stored

TOPIC_LIMIT, RETRY_TOPIC_LIMIT = 127, 255  # bytes
TIMERS = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)  # properties that request a timer


def topic_status(topic: str, raw: bytes) -> PutMessageStatus | None:
    """Return the refusal of a topic that is no Unicode, too long or no name of a directory.

    None: it is a topic. Upstream puts `?` for a lone surrogate, and so gives two topics one name.
    """
    limit = RETRY_TOPIC_LIMIT if topic.startswith(OF_GROUPS) else TOPIC_LIMIT
    wrong = len(raw) > limit or not can_be_stored(raw) or has_lone_surrogate(topic)
    return PutRule.TOPIC.status if wrong else None


def message_rule(message: Message, properties: bytes, config: StoreConfig) -> PutRule | None:
    if not isinstance(message.body, bytes) or len(message.body) > config.max_message_size:
        return PutRule.BODY_SIZE
    if not 0 <= message.queue_id <= 0x7FFFFFFF:
        return PutRule.QUEUE_ID
    if len(properties) > MAX_PROPERTIES:
        return PutRule.PROPERTIES_SIZE
    return None


def timer_rule(topic: str, properties: bytes) -> PutRule | None:
    """Return PutRule.TIMER if these properties request a timer, else None.

    Batches and rows have none. TIMER_OUT_MS marks a message that a timer has delivered. A delay level overrides a
    timer. Upstream: HookUtils.checkIfTimerMessage, handleScheduleMessage.
    """
    if b"TIMER_D" not in properties or topic == TIMER_TOPIC:
        return None
    pairs = names.parse_bytes(properties)
    if names.TIMER_OUT_MS in pairs or (java_int(pairs.get(names.DELAY, "")) or 0) > 0:
        return None
    return PutRule.TIMER if any(name in pairs for name in TIMERS) else None


def unread_rule(message: Message) -> PutRule | None:
    """Return the rule that refuses a message of a transaction, or None.

    Nobody would read it as its sender means: its transaction is not committed. RocketMQ's broker puts a half message
    without that flag (TransactionalMessageBridge.parseHalfMessageInner), so no topic makes one right.
    """
    return PutRule.TRANSACTION if message.sys_flag & TRANSACTION_PREPARED else None


def start_rule(topic: str, properties: bytes) -> PutRule | None:
    """Return PutRule.START_FIELD for a message that RocketMQ cannot bear, else None.

    Its start or its timer cannot. Whatever the keys of this store are: another start may have others.
    """
    if topic != TIMER_TOPIC and not any(mark in properties for mark in MARKS):
        return None
    return PutRule.START_FIELD if wrong_field(topic, names.parse_bytes(properties)) is not None else None


def record_size(body: bytes, topic: bytes, properties: bytes, hosts: bytes, config: StoreConfig) -> int:
    """Return the size of a record of these parts, with the checksum property if it is added."""
    size = MIN_SIZE - 16 + len(hosts) + len(body) + len(topic) + (len(topic) > V1_TOPIC_LIMIT) + len(properties)
    if config.enabled_append_prop_crc:
        size += CRC_PROPERTY_SIZE + (len(properties) > 0 and not properties.endswith(VALUE_END.encode()))
    return size


def encode_properties(message: Message) -> bytes | None:
    """Encode the property string of a message, or return None if a name or value is illegal.

    The caller's properties come first in their order, then KEYS, TAGS, and WAIT if it is false. A zero byte is refused,
    unlike upstream: recovery recognises by it that the end of a record did not reach the disk. So is a lone surrogate,
    for which upstream puts `?`: a query would not find such a key.
    """
    if message.properties_bytes is not None:
        return None if b"\0" in message.properties_bytes else message.properties_bytes
    pairs = dict(message.properties or {})
    if message.keys:
        pairs[names.KEYS] = message.keys
    if message.tags:
        pairs[names.TAGS] = message.tags
    if not message.wait:
        pairs[names.WAIT] = "false"
    text = "".join(f"{name}{NAME_END}{value}{VALUE_END}" for name, value in pairs.items())
    separators = text.count(NAME_END), text.count(VALUE_END)
    if separators != (len(pairs), len(pairs)) or "\0" in text or has_lone_surrogate(text):
        return None
    return java_encode(text)

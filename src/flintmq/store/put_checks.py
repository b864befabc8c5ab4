"""What a put is refused for before anything is touched. Source: upstream HookUtils.checkBeforePutMessage and
MessageExtEncoder; store behaviour 6."""

from __future__ import annotations

from flintmq.config import StoreConfig
from flintmq.format import properties as names
from flintmq.format.properties import NAME_END, VALUE_END
from flintmq.format.record import CRC_PROPERTY_SIZE, MAX_PROPERTIES, MIN_SIZE, V1_TOPIC_LIMIT
from flintmq.format.text import java_encode
from flintmq.message import Message, PutMessageStatus
from flintmq.store.dispatch import path_name

TOPIC_LIMIT, RETRY_TOPIC_LIMIT = 127, 255  # bytes
_LONG = ("%RETRY%", "%DLQ%")


def topic_status(topic: str, raw: bytes) -> PutMessageStatus | None:
    """Why this topic is refused, or None: too long for its kind, or no directory's name."""
    limit = RETRY_TOPIC_LIMIT if topic.startswith(_LONG) else TOPIC_LIMIT
    return PutMessageStatus.MESSAGE_ILLEGAL if len(raw) > limit or path_name(raw) is None else None


def message_status(message: Message, properties: bytes, config: StoreConfig) -> PutMessageStatus | None:
    """Why this message is refused, or None."""
    if not isinstance(message.body, bytes) or len(message.body) > config.max_message_size:
        return PutMessageStatus.MESSAGE_ILLEGAL
    if not 0 <= message.queue_id <= 0x7FFFFFFF:
        return PutMessageStatus.MESSAGE_ILLEGAL
    if len(properties) > MAX_PROPERTIES:
        return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    return None


def record_size(body: bytes, topic: bytes, properties: bytes, hosts: bytes, config: StoreConfig) -> int:
    """Bytes of the record that these parts make, the checksum property included where the store adds it."""
    size = MIN_SIZE - 16 + len(hosts) + len(body) + len(topic) + (len(topic) > V1_TOPIC_LIMIT) + len(properties)
    if config.enabled_append_prop_crc:
        size += CRC_PROPERTY_SIZE + (len(properties) > 0 and not properties.endswith(VALUE_END.encode()))
    return size


def encode_properties(message: Message) -> bytes | None:
    """The property string of a message, or None where a name or value cannot stand in one.

    The caller's properties in their order, then KEYS, TAGS, and WAIT where it is false. A zero byte is refused, which
    upstream takes: recovery knows by it that a record's end did not arrive.
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
    return java_encode(text) if separators == (len(pairs), len(pairs)) and "\0" not in text else None

"""What a put is refused for, by the reference's limits; the property string on disk."""

from __future__ import annotations

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.message import Message, PutMessageStatus
from flintmq.store.append.checks import encode_properties, message_status, topic_status

ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL
CONFIG = StoreConfig.from_keys({"maxMessageSize": 1000})


@pytest.mark.parametrize(
    ("topic", "status"),
    [
        ("T", None),
        ("t" * 127, None),
        ("t" * 128, ILLEGAL),
        ("主" * 42, None),  # 126 bytes
        ("主" * 43, ILLEGAL),  # 129 bytes, though 43 characters
        ("%RETRY%" + "t" * 248, None),
        ("%RETRY%" + "t" * 249, ILLEGAL),
        ("%DLQ%" + "t" * 250, None),
        ("%DLQ%" + "t" * 251, ILLEGAL),
        ("t%RETRY%" + "t" * 120, ILLEGAL),
        ("", ILLEGAL),
        (".", ILLEGAL),
        ("..", ILLEGAL),
        ("...", None),
        ("a/b", ILLEGAL),
        ("/", ILLEGAL),
        ("a\0b", ILLEGAL),
        ("with space", None),
    ],
)
def test_topics(topic: str, status: PutMessageStatus | None):
    assert topic_status(topic, topic.encode()) is status


@pytest.mark.parametrize(
    ("message", "properties", "status"),
    [
        (Message("T", bytes(1000)), b"", None),
        (Message("T", bytes(1001)), b"", ILLEGAL),
        (Message("T", b""), b"", None),
        (Message("T", b"", queue_id=-1), b"", ILLEGAL),
        (Message("T", b"", queue_id=0x7FFFFFFF), b"", None),
        (Message("T", b""), b"p" * 32767, None),
        (Message("T", b""), b"p" * 32768, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_messages(message: Message, properties: bytes, status: PutMessageStatus | None):
    assert message_status(message, properties, CONFIG) is status


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        (Message("T"), b""),
        (Message("T", tags="a", keys="k1 k2"), b"KEYS\x01k1 k2\x02TAGS\x01a\x02"),
        (Message("T", properties={"b": "2", "a": "1"}, tags="x"), b"b\x012\x02a\x011\x02TAGS\x01x\x02"),
        (Message("T", properties={"TAGS": "old", "b": ""}, tags="new"), b"TAGS\x01new\x02b\x01\x02"),
        (Message("T", wait=False), b"WAIT\x01false\x02"),
        (Message("T", tags="报警😀"), "TAGS\x01报警😀\x02".encode()),
        (Message("T", tags=""), b""),
        (Message("T", tags="a", properties_bytes=b"as it is\x02"), b"as it is\x02"),
        (Message("T", tags="a\x01b"), None),
        (Message("T", tags="a\0b"), None),
        (Message("T", properties_bytes=b"a\x01b\0\x02"), None),
        (Message("T", keys="a\x02b"), None),
        (Message("T", properties={"a\x01": "b"}), None),
        (Message("T", properties={"a": "b\x02c\x01"}), None),
    ],
)
def test_the_property_string(message: Message, encoded: bytes | None):
    assert encode_properties(message) == encoded

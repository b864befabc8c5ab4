"""The handle by which a message that waits for its time is recalled.

It is url-safe base64 of `v1 TOPIC BROKER TIME KEY`: the time is one within the moment of the timer (TIMER_OUT_MS + 1),
the key is the message's unique key. Upstream: RecallMessageHandle, AbstractSendMessageProcessor.attachRecallHandle.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format import properties
from flintmq.format.group_topics import RETRY
from flintmq.format.text import java_decode, java_encode, java_int

VERSION: Final = "v1"


class RecallHandle(NamedTuple):
    """The words of a handle."""

    topic: str
    broker_name: str
    time_ms: int
    unique_key: str


def encode(handle: RecallHandle) -> str:
    return urlsafe_b64encode(java_encode(" ".join((VERSION, *map(str, handle))))).decode()


def decode(text: str) -> RecallHandle:
    """Decode a handle; words after the key are left out, as upstream does.

    Raises FormatError: the text is none.
    """
    try:
        words = java_decode(urlsafe_b64decode(java_encode(text))).split(" ")
    except (binascii.Error, ValueError):
        words = []
    time_ms = java_int(words[3], 64) if len(words) >= 5 and words[0] == VERSION else None
    if time_ms is None:
        raise FormatError("not a recall handle")
    return RecallHandle(words[1], words[2], time_ms, words[4])


def of_waiting(pairs: Mapping[str, str], broker_name: str) -> str | None:
    """Return the handle of a waiting message with these properties; None if it can have none."""
    out, topic = java_int(pairs.get(properties.TIMER_OUT_MS, ""), 64), pairs.get(properties.REAL_TOPIC)
    key = pairs.get(properties.UNIQ_KEY)
    if out is None or not topic or not key or topic.startswith(RETRY):
        return None
    return encode(RecallHandle(topic, broker_name, out + 1, key))

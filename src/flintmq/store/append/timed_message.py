"""Converts a message for a given time to its waiting form; makes the mark that recalls one.

A timer knows moments (`timerPrecisionMs`), and TIMER_OUT_MS is the moment before the time that was asked for. A message
is delivered when its moment is over, so never early and at most one moment late.

Upstream: HookUtils.checkIfTimerMessage, transformTimerMessage; RecallMessageProcessor.buildMessage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.format import properties
from flintmq.format.index import PEER_533
from flintmq.format.recall_handle import RecallHandle
from flintmq.format.record import MAX_PROPERTIES, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from flintmq.format.text import java_encode, java_int
from flintmq.format.timer import TIMER_TOPIC
from flintmq.message import Message, PutRule
from flintmq.store.append.checks import encode_properties, message_rule, timer_rule, topic_status
from flintmq.store.append.delayed_message import can_be_delivered, moved

RECALLS: Final = "_RECALL_TAG_"  # tag of a mark
_DELIVERED_MORE: Final = 128  # bytes for TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS and TIMER_ROLL_TIMES
_ASKS: Final = "TIMER_D"  # all names of properties that ask for a time begin so


def waiting(message: Message, config: StoreConfig, now_ms: int) -> Message | PutRule:
    """Return the waiting form; the message itself if it need not wait, or the rule against it.

    A message that would be refused anyway, and a half or rolled-back message of a transaction, is not changed.
    """
    if not _may_ask(message) or message.sys_flag & TRANSACTION_MASK not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
        return message
    raw, topic = encode_properties(message), java_encode(message.topic)
    if raw is None or topic_status(message.topic, topic) or message_rule(message, raw, config):
        return message
    if timer_rule(message.topic, raw) is None:
        return message
    if not config.timer_wheel_enable:
        return PutRule.TIMER
    pairs = properties.parse_bytes(raw)
    time_ms = _asked_ms(pairs, now_ms)
    if time_ms is None or time_ms - now_ms > 1000 * config.timer_max_delay_sec:
        return PutRule.TIMER_TIME
    if time_ms <= now_ms:
        return PutRule.TIMER_TIME if properties.TIMER_DEL_UNIQKEY in pairs else message
    if not can_be_delivered(message, topic, raw, config):
        return PutRule.DELAY
    pairs[properties.TIMER_OUT_MS] = str((time_ms - 1) // config.timer_precision_ms * config.timer_precision_ms)
    pairs[properties.REAL_TOPIC] = message.topic
    pairs[properties.REAL_QID] = str(message.queue_id)
    made = moved(message, TIMER_TOPIC, 0, pairs)
    # Its delivery has more properties; one with too many would be refused then.
    return made if len(made.properties_bytes or b"") + _DELIVERED_MORE <= MAX_PROPERTIES else PutRule.PROPERTIES_SIZE


def _may_ask(message: Message) -> bool:
    """Return whether a property may ask for a time, which costs little where none does."""
    if message.properties_bytes is not None:
        return _ASKS.encode() in message.properties_bytes
    return any(name.startswith(_ASKS) for name in message.properties or ())


def _asked_ms(pairs: Mapping[str, str], now_ms: int) -> int | None:
    """Return the time that properties ask for, by the first of three names; None: no number."""
    for name, factor, begin in (
        (properties.TIMER_DELAY_SEC, 1000, now_ms),
        (properties.TIMER_DELAY_MS, 1, now_ms),
        (properties.TIMER_DELIVER_MS, 1, 0),
    ):
        if name in pairs:
            number = java_int(pairs[name], 64)
            return None if number is None else begin + factor * number
    return None


def recalling(handle: RecallHandle, config: StoreConfig, peer: str, now_ms: int, group: str) -> Message:
    """Return the mark that recalls a message.

    It waits for the same moment, and is never delivered. 5.4.0 and later compare the unique key alone, unless
    appendTopicForTimerDeleteKey.
    """
    with_topic = peer == PEER_533 or config.append_topic_for_timer_delete_key
    pairs = {
        properties.TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.unique_key}" if with_topic else handle.unique_key,
        properties.UNIQ_KEY: handle.unique_key,
        properties.TIMER_DELIVER_MS: str(handle.time_ms),
        properties.TAGS: RECALLS,
        properties.BORN_TIMESTAMP: str(now_ms),
    }
    if group:
        pairs[properties.PGROUP] = group
    return Message(handle.topic, b"0", properties_bytes=properties.encode(properties.java_order(pairs)))

"""Converts the messages of a transaction: to a half message, and to the records that end it.

A half message waits in a topic of RocketMQ's own, with its real topic and queue as properties, and without transaction
bits: an ordinary record that no consumer asks for. To commit it is to put it again, to its real topic. An outcome names
half messages that have ended, by their queue offsets. Upstream: TransactionalMessageBridge, EndTransactionProcessor,
TransactionalMessageServiceImpl, DefaultTransactionalMessageCheckListener.

One difference: upstream's copies of a half message lose the sender's flag and reconsume times, and so does the message
that is committed from them. Here they keep both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.format import properties
from flintmq.format.group_topics import GIVEN_UP_TOPIC, HALF_TOPIC, OUTCOME_TOPIC
from flintmq.format.index import PEER_533
from flintmq.format.record import TRANSACTION_COMMIT, TRANSACTION_MASK
from flintmq.format.text import java_encode, java_int
from flintmq.message import Message, StoredMessage
from flintmq.store.append.checks import TIMERS, encode_properties, message_rule, topic_status

ENDED_TAG: Final = "d"
_OUTCOME_PROPERTIES: Final = b"WAIT\x01true\x02TAGS\x01d\x02"  # in upstream's order


def prepared(message: Message, config: StoreConfig, group: str = "", key: Callable[[], str] | None = None) -> Message:
    """Return the half message to put for a message; one that a put refuses is not changed.

    Args:
        message: what is to be delivered once its sender says so.
        config: of the store.
        group: of its sender; empty: its properties name it already.
        key: gives it an id if it has none; None: it has one.

    Raises:
        UsageError: it is to wait for a delay or a timer, too.
    """
    raw = encode_properties(message)
    if raw is None or topic_status(message.topic, java_encode(message.topic)) or message_rule(message, raw, config):
        return message
    pairs = properties.parse_bytes(raw)
    late = message.delay_level > 0 or (java_int(pairs.get(properties.DELAY, "")) or 0) > 0
    if late or any(name in pairs for name in TIMERS):
        raise UsageError(f"topic {message.topic[:100]!a}: a message of a transaction takes no delay, and no timer")
    if properties.VALUE_END in message.topic:
        raise UsageError(f"topic {message.topic[:100]!a}: its byte 2 ends a property, and the real topic is one")
    pairs[properties.TRAN_MSG] = "true"
    if group:
        pairs[properties.PGROUP] = group
    if key is not None and not pairs.get(properties.UNIQ_KEY):
        pairs[properties.UNIQ_KEY] = key()
    if properties.UNIQ_KEY in pairs:
        pairs[properties.TRANSACTION_ID] = pairs[properties.UNIQ_KEY]
    pairs[properties.REAL_TOPIC] = message.topic
    pairs[properties.REAL_QID] = str(message.queue_id)
    return Message(
        HALF_TOPIC,
        message.body,
        flag=message.flag,
        wait=message.wait,
        born_timestamp=message.born_timestamp,
        sys_flag=message.sys_flag & ~TRANSACTION_MASK,
        reconsume_times=message.reconsume_times,
        born_host=message.born_host,
        properties_bytes=properties.encode(properties.java_order(pairs)),
    )


def real_place(half: StoredMessage) -> tuple[str, int] | None:
    """Return topic and queue to which a half message belongs; None if it names none."""
    pairs = half.properties
    topic, queue_id = pairs.get(properties.REAL_TOPIC), java_int(pairs.get(properties.REAL_QID, ""))
    return None if not topic or queue_id is None or queue_id < 0 else (topic, queue_id)


def committed(half: StoredMessage, peer: str) -> Message | None:
    """Return the message to put when a half message is committed; None if it names no topic.

    5.3.3 keeps REAL_TOPIC and REAL_QID, later versions do not; all keep TRAN_MSG.
    """
    place = real_place(half)
    if place is None:
        return None
    left_out = () if peer == PEER_533 else (properties.REAL_TOPIC, properties.REAL_QID)
    pairs = {name: value for name, value in half.properties.items() if name not in left_out}
    made = _copy(half, place[0], pairs)
    made.queue_id, made.prepared_transaction_offset = place[1], half.physical_offset
    made.sys_flag |= TRANSACTION_COMMIT
    return made


def asked_again(half: StoredMessage) -> Message:
    """Return the copy to put at the queue's end when the sender of a half message was asked."""
    return _copy(half, HALF_TOPIC, half.properties | {properties.CHECK_TIMES: str(checks_of(half) + 1)})


def moved(half: StoredMessage) -> Message:
    """Return the copy to put at the queue's end only to let the queue go on.

    It names the first of its kind, as upstream's copy of one that may not be asked about yet.
    """
    pairs = half.properties | {properties.WAIT: "false"}
    pairs.setdefault(properties.PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    return _copy(half, HALF_TOPIC, pairs)


def given_up(half: StoredMessage, *, too_old: bool) -> Message:
    """Return the message to put for a half message that nobody ends: for operators to look at.

    `too_old`: else its sender was asked too often. Upstream counts one more check of an old one.
    """
    times = str(checks_of(half) + 1)
    return _copy(half, GIVEN_UP_TOPIC, half.properties | ({properties.CHECK_TIMES: times} if too_old else {}))


def outcome(offsets: Iterable[int]) -> Message:
    """Return the outcome to put for half messages that ended, by their queue offsets."""
    body = "".join(f"{offset}," for offset in offsets).encode()
    return Message(OUTCOME_TOPIC, body, wait=False, properties_bytes=_OUTCOME_PROPERTIES)


def ended_by(record: StoredMessage) -> list[int]:
    """Return the queue offsets of the half messages that an outcome names."""
    if record.tags != ENDED_TAG:
        return []
    texts = record.body.decode("latin-1").split(",")
    return [number for text in texts if (number := java_int(text, 64)) is not None and number >= 0]


def checks_of(half: StoredMessage) -> int:
    """Return how often the sender of a half message was asked."""
    text = half.properties.get(properties.CHECK_TIMES)
    if text is None:
        return 0
    found = java_int(text)
    return -1 if found is None else found


def origin_of(half: StoredMessage) -> int | None:
    """Return the queue offset of the half message that this one was moved from, or None."""
    return java_int(half.properties.get(properties.PREPARED_QUEUE_OFFSET, ""), 64)


def is_copy(half: StoredMessage) -> bool:
    return checks_of(half) != 0 or origin_of(half) is not None


def _copy(half: StoredMessage, topic: str, pairs: dict[str, str]) -> Message:
    kept = {name: value for name, value in pairs.items() if name != properties.CRC32}  # of the other record
    return Message(
        topic,
        half.body,
        flag=half.flag,
        wait=False,
        born_timestamp=half.born_timestamp,
        sys_flag=half.sys_flag,
        reconsume_times=half.reconsume_times,
        born_host=half.born_host,
        properties_bytes=properties.encode(properties.java_order(kept)),
    )

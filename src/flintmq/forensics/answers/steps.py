"""Tells of one record which message it is of, and what happened to that message.

RocketMQ stores a message again at each turn of its life: under SCHEDULE_TOPIC_XXXX or the timer's topic while it waits,
under the topic of half messages until its transaction ends, under %RETRY%group for each retry, under %DLQ%group once
it is given up. All these records have the sender's id (UNIQ_KEY), and a retry names its first copy besides
(ORIGIN_MESSAGE_ID). `step_of` looks at nothing but one record, so any task of a divided scan may call it; who groups
the steps by `company_of` has all of a message.

A message without the sender's id is known by time of birth, sender's host, checksum and keys while it waits.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from flintmq.format import properties
from flintmq.format.batch_queue import messages_of
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import DEAD, GIVEN_UP_TOPIC, HALF_TOPIC, OUTCOME_TOPIC, RETRY
from flintmq.format.record import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from flintmq.format.text import java_int
from flintmq.format.timer import TIMER_TOPIC
from flintmq.message import StoredMessage
from flintmq.store.append.half_message import checks_of, is_copy

DELAY, TIMER, TRANSACTION = "delay", "timer", "transaction"


class StepKind(Enum):
    """Kind of a step. RETRY_WAITS: given back by a group, and waiting for its delay level."""

    STORED = "stored"
    WAITS = "waits"
    RECALL = "recall"
    HALF = "half"
    GIVEN_UP = "given up"
    RETRY_WAITS = "retry waits"
    RETRY = "retry"
    DEAD = "dead"
    __hash__ = object.__hash__  # that of Enum is no built-in one, and takes as long as the look into a dict


AFTER = (StepKind.RETRY_WAITS, StepKind.RETRY, StepKind.DEAD)
"""What came after a delivery."""


class MessageStep(NamedTuple):
    """One record, as a step in the life of a message.

    Attributes:
        message: what all steps of a message have in common.
        topic, queue_id: where consumers get the message; empty and -1 where the record does not say it.
        source: DELAY, TIMER or TRANSACTION: what it waits for, or came from; None: it was stored at once.
        is_again: the record takes the place of the waiting one before it.
        due_ms: of what waits: when it is delivered; None: unknown.
        times: of half messages how often the sender was asked, else how often the message was given back.
        origin: of retries and dead letters: offset message id of the first copy.
        popped: of retries: it was popped and not acknowledged, not given back.
        stored_topic, stored_queue, stored_offset: queue and queue offset of the record itself.
        messages: 1, or those of an inner batch.
    """

    kind: StepKind
    message: str
    topic: str
    queue_id: int
    source: str | None
    is_again: bool
    due_ms: int | None
    times: int
    group: str
    origin: str
    popped: bool
    stored_topic: str
    stored_queue: int
    stored_offset: int
    messages: int
    physical_offset: int
    store_timestamp: int
    born_timestamp: int
    keys: str | None
    msg_id: str | None
    offset_msg_id: str


def step_of(record: StoredMessage, delays_ms: tuple[int, ...] = ()) -> MessageStep | None:
    """Return the step that a record is; None of an outcome, which is of no message itself.

    None also of a prepared or rolled-back record in a topic of its own, as RocketMQ before 4.3 wrote them: it is in no
    queue.

    `delays_ms`: of each delay level, level 1 first.
    """
    topic, pairs = record.topic, record.properties
    if topic == OUTCOME_TOPIC or record.sys_flag & TRANSACTION_MASK not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
        return None
    kind, own, queue_id, source, group = StepKind.STORED, topic, record.queue_id, _source(record, pairs), ""
    is_again, due, times = False, None, record.reconsume_times
    if topic in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, GIVEN_UP_TOPIC):
        own = pairs.get(properties.REAL_TOPIC, "")
        real = java_int(pairs.get(properties.REAL_QID, ""))
        queue_id = -1 if real is None else real
    if topic == SCHEDULE_TOPIC:
        kind, source = StepKind.WAITS, DELAY
        if 0 <= record.queue_id < len(delays_ms):
            due = record.store_timestamp + delays_ms[record.queue_id]
    elif topic == TIMER_TOPIC:
        kind, source, due = StepKind.WAITS, TIMER, java_int(pairs.get(properties.TIMER_OUT_MS, ""), 64)
        is_again = (java_int(pairs.get(properties.TIMER_ROLL_TIMES, "")) or 0) > 0
        kind = StepKind.RECALL if properties.TIMER_DEL_UNIQKEY in pairs else kind
    elif topic in (HALF_TOPIC, GIVEN_UP_TOPIC):
        kind, source, group = StepKind.HALF, TRANSACTION, pairs.get(properties.PGROUP, "")
        is_again, times = is_copy(record), max(checks_of(record), 0)
        kind = StepKind.GIVEN_UP if topic == GIVEN_UP_TOPIC else kind
    place = own if kind is StepKind.WAITS else topic
    popped = properties.FIRST_POP_TIME in pairs
    if place.startswith((RETRY, DEAD)):
        group, own = _group(place, pairs.get(properties.RETRY_TOPIC, ""), popped)
        retry = StepKind.RETRY if kind is StepKind.STORED else StepKind.RETRY_WAITS
        kind, queue_id = StepKind.DEAD if place.startswith(DEAD) else retry, -1
    origin = pairs.get(properties.ORIGIN_MESSAGE_ID, "").strip() if group else ""
    messages = max(messages_of(pairs, 0)[1], 1) if properties.INNER_NUM in pairs else 1
    return MessageStep(
        kind, _message(record, pairs, kind, source, origin), own, queue_id, source, is_again, due, times, group, origin,
        popped, topic, record.queue_id, record.queue_offset, messages, record.physical_offset, record.store_timestamp,
        record.born_timestamp, record.keys, record.msg_id, record.offset_msg_id,
    )  # fmt: skip


def _source(record: StoredMessage, pairs: dict[str, str]) -> str | None:
    """Return what the record of a message's own topic came from."""
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT:
        return TRANSACTION
    if properties.TIMER_DEQUEUE_MS in pairs:
        return TIMER
    return DELAY if properties.DELAY in pairs and properties.REAL_TOPIC in pairs else None


def _group(place: str, origin_topic: str, popped: bool) -> tuple[str, str]:
    """Return group and own topic of a topic of retries or dead letters.

    Retries of popped messages are in a topic of group and topic: `%RETRY%group_topic`, or with a + between.
    """
    name = place.removeprefix(DEAD if place.startswith(DEAD) else RETRY)
    if "+" in name:
        group, _, topic = name.partition("+")
        return group, origin_topic or topic
    end = f"_{origin_topic}"
    is_of_both = popped and origin_topic and name.endswith(end) and place.startswith(RETRY)
    return (name.removesuffix(end) if is_of_both else name), origin_topic


def _message(record: StoredMessage, pairs: dict[str, str], kind: StepKind, source: str | None, origin: str) -> str:
    if kind is StepKind.RECALL:
        return pairs[properties.TIMER_DEL_UNIQKEY].rpartition("+")[2]
    if record.msg_id:
        return record.msg_id
    if origin or (kind is StepKind.STORED and source is None):
        return origin or record.offset_msg_id
    return _birth_of(record)


def _birth_of(record: StoredMessage) -> str:
    return f"{record.born_timestamp}/{record.born_host}/{record.body_crc}/{record.keys or ''}"


def company_of(record: StoredMessage, step: MessageStep) -> str:
    """Return what the records that may be of one message have in common.

    Without the sender's id `message` is another one before and after a delivery; birth stays.
    """
    return step.message if record.msg_id or step.kind is StepKind.RECALL else _birth_of(record)

"""Puts a batch: messages of one queue, stored all or none, contiguous in one file.

In a topic of type BatchCQ the batch becomes one record (an inner batch), as RocketMQ's broker stores it. Upstream:
CommitLog.asyncPutMessages, MessageExtEncoder.encode(MessageExtBatch), SendMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flintmq.errors import UsageError
from flintmq.format import inner_batch, record
from flintmq.format import properties as names
from flintmq.format.index import PEER_533
from flintmq.format.record import CRC_PROPERTY_SIZE, INNER_BATCH, MAX_PROPERTIES, NEED_UNWRAP, TRANSACTION_MASK
from flintmq.kernels.write import encode_one as kernel
from flintmq.kernels.write.fast_append import Topic
from flintmq.message import Message, PutMessageStatus, PutResult, PutRule, refused
from flintmq.store.append import multi_queue
from flintmq.store.append.checks import encode_properties, message_rule, record_size, start_rule, timer_rule
from flintmq.store.append.commit_log import CommitLog, PendingAppend

ENTRY = inner_batch.ENTRY.min_size  # bytes of a message in a client's batch besides body and properties
SHARED = (
    "topic", "queue_id", "sys_flag", "born_timestamp", "born_host", "reconsume_times", "prepared_transaction_offset",
)  # fmt: skip


class Batch(NamedTuple):
    messages: Sequence[Message]
    properties: list[bytes]
    topic: Topic
    hosts: bytes
    size: int  # size of all records in bytes


def put_batch(
    log: CommitLog, messages: Sequence[Message], shared: Mapping[str, str] | None, peer: str
) -> list[PutResult]:
    """Append a batch.

    `shared`: the batch's own properties: 5.3.3 adds them to each message's, later versions do not store them.

    Thread: any. Durability: as for a put.
    """
    messages = [message.copied() for message in messages]
    first = messages[0]
    for name in SHARED:
        if any(getattr(message, name) != getattr(first, name) for message in messages):
            raise UsageError(f"the messages of a batch differ in {name}; put them in separate batches")
    if log.unique is not None:
        for message in messages:
            log.unique.add_to(message)
        if first.topic in log.batch_topics:
            shared = log.unique.shared(shared)  # of the record; each message inside has its own
    own = encode_properties(Message(first.topic, properties=dict(shared or {})))
    if first.topic in log.batch_topics:
        return _put_inner(log, messages, own)
    batch = _checked(log, messages, own if peer == PEER_533 or own is None else b"")
    if isinstance(batch, PutRule):
        return [refused(batch)] * len(messages)
    closed = [PutResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)] * len(messages)
    return log.locked(lambda: _append(log, batch), closed)


def _checked(log: CommitLog, messages: Sequence[Message], own: bytes | None) -> Batch | PutRule:
    """Return the checked batch with the properties `own` added, or the rule that refuses it.

    The size limit applies to all messages together, as the sender's batch would have them.
    """
    first, config = messages[0], log.config
    topic, hosts = log.get_or_create_topic(first.topic), log.hosts_of(first)
    if topic is None:
        return PutRule.TOPIC
    if hosts is None:
        return PutRule.BORN_HOST
    if own is None:
        return PutRule.PROPERTY_TEXT
    if len(own) > MAX_PROPERTIES:
        return PutRule.BATCH_SIZE
    if first.sys_flag & (TRANSACTION_MASK | INNER_BATCH) or first.prepared_transaction_offset:
        return PutRule.BATCH
    if timer_rule(first.topic, own) is not None:
        return PutRule.TIMER
    extra = CRC_PROPERTY_SIZE + 1 if config.enabled_append_prop_crc else 0
    sent = size = 0
    texts = []
    for message in messages:
        text = encode_properties(message)
        if text is None:
            return PutRule.PROPERTY_TEXT
        if message.delay_level > 0:
            return PutRule.BATCH
        rule = message_rule(message, text, config) or timer_rule(message.topic, text)
        if rule is not None:
            return PutRule.BATCH_SIZE if rule is PutRule.PROPERTIES_SIZE else rule  # upstream has one status here
        if multi_queue.MARK in text and any(name.startswith("INNER_") for name in names.parse_bytes(text)):
            return PutRule.BATCH  # upstream stores them unchanged, so a sender could name queue positions
        sent += ENTRY + len(message.body) + len(text)
        text = _joined(text, own)
        if start_rule(message.topic, text) is not None:
            return PutRule.START_FIELD
        if len(text) + extra > MAX_PROPERTIES:
            return PutRule.BATCH_SIZE  # upstream defect D32: it checks only the parts, and the length wraps
        size += record_size(message.body, topic.raw, text, hosts, config)
        texts.append(text)
    if sent > config.max_message_size or size + record.BLANK_SIZE > log.files.file_size:
        return PutRule.BATCH_SIZE
    return Batch(messages, texts, topic, hosts, size)


def _joined(text: bytes, own: bytes) -> bytes:
    end = names.VALUE_END.encode()
    return text + (end if text and own and not text.endswith(end) else b"") + own


def _append(log: CommitLog, batch: Batch) -> list[PutResult]:
    """Write the records, which become visible together. The put lock is held."""
    now, (first, *_), topic = log.settle_and_next_time(), batch.messages, batch.topic
    place = topic.places.get(first.queue_id)
    offset = place.next if place is not None else 0
    file = log.reserve_space(batch.size + record.BLANK_SIZE)
    if file is not None and file.wrote + batch.size + record.BLANK_SIZE > file.size:
        log.roll(file)
        file = log.reserve_space(batch.size + record.BLANK_SIZE)
    if file is None:
        return [PutResult(PutMessageStatus.CREATE_MAPPED_FILE_FAILED)] * len(batch.messages)
    at = file.wrote
    nexts = ((topic, first.queue_id, offset + len(batch.messages)),)
    # One note for all: after a signal amid them all records are whole and count, or none does.
    begun = log.begin(PendingAppend(file, at, at + batch.size, nexts, now, len(batch.messages)))
    results = []
    for number, (message, properties) in enumerate(zip(batch.messages, batch.properties, strict=True)):
        end = log.encode(file, at, message, topic, properties, batch.hosts, offset + number, now)
        if end in (kernel.FULL, kernel.REFUSED):
            raise AssertionError("a batch that was measured did not fit")
        common = file.start + at, end - at, now, log.host, None, properties
        results.append(PutResult(PutMessageStatus.PUT_OK, offset + number, *common))
        at = end
    # All at once: no reader, and no flush, finds a part of the batch. Only a crash may leave one.
    log.count_record(begun, at)
    log.open_fast_way(file)
    return results


def _put_inner(log: CommitLog, messages: Sequence[Message], own: bytes | None) -> list[PutResult]:
    """Append the batch as one record, whose messages have consecutive queue offsets."""
    texts = [encode_properties(message) for message in messages]
    if own is None or None in texts:
        return [refused(PutRule.PROPERTY_TEXT)] * len(messages)
    first = messages[0]
    if first.sys_flag & INNER_BATCH or any(message.delay_level > 0 for message in messages):
        return [refused(PutRule.BATCH)] * len(messages)
    if any(timer_rule(first.topic, text) is not None for text in texts if text is not None):
        return [refused(PutRule.TIMER)] * len(messages)
    entries = [
        inner_batch.Entry(flag=message.flag, body=message.body, properties=text)
        for message, text in zip(messages, texts, strict=True)
        if text is not None
    ]
    if len(messages) > 0x7FFF or any(len(text) > MAX_PROPERTIES for text in texts if text is not None):
        return [refused(PutRule.BATCH_SIZE)] * len(messages)
    pairs = {**names.parse_bytes(own), names.INNER_NUM: str(len(messages))}
    whole = Message(
        first.topic,
        inner_batch.encode(entries),
        queue_id=first.queue_id,
        sys_flag=first.sys_flag | INNER_BATCH | NEED_UNWRAP,
        born_timestamp=first.born_timestamp,
        reconsume_times=first.reconsume_times,
        born_host=first.born_host,
        properties_bytes=names.encode(names.java_order(pairs)),
    )
    stored = log.append(whole)
    return [
        PutResult(
            stored.status,
            stored.queue_offset + number if stored.queue_offset >= 0 else -1,
            stored.physical_offset,
            stored.size,
            stored.store_timestamp,
            stored.store_host,
            stored.reason,
            text if stored.physical_offset >= 0 else None,
        )
        for number, text in enumerate(texts)
    ]

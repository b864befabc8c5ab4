"""Messages and statuses, from and to their wire form.

What becomes what is upstream's: SendMessageActivity, GrpcConverter, ResponseBuilder.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.requests import Refused, Unsigned
from flintmq.errors import FlintError
from flintmq.format import properties
from flintmq.format.compression import original_body
from flintmq.format.config_json import integer
from flintmq.format.record import COMPRESSED
from flintmq.message import PutMessageStatus, StoredMessage
from flintmq.remoting import names

PAIRS_MAX: Final = 128  # of a user's properties
TEXT_MAX: Final = 16 << 10  # bytes of tag, keys and a user's properties
GROUP_MAX: Final = 64  # bytes of a message group
_FIRST_MS: Final = -62_135_596_800_000  # of the year 1, where protobuf's times begin
_LAST_MS: Final = 253_402_300_799_999  # of the year 9999
GZIP_BEGINS: Final = b"\x1f\x8b"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
_DEAD_TOPIC, _DEAD_ID = "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID"
RESERVED: Final = frozenset({
    "TRACE_ON", "MSG_REGION", "KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG",
    "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG",
    "MQ2_FLAG", "RECONSUME_TIME", "UNIQ_KEY", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "POP_CK", "POP_CK_OFFSET",
    "1ST_POP_TIME", "TRAN_PREPARED_QUEUE_OFFSET", "DUP_INFO", "EXTEND_UNIQ_INFO", "INSTANCE_ID", "CORRELATION_ID",
    "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE", "INNER_MULTI_QUEUE_OFFSET",
    "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL", "__BORNHOST", "BORN_TIMESTAMP",
    "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#",
})  # fmt: skip
"""Properties that are no user's: none may be sent as such, and none is given as such. Upstream: MessageConst."""
_HIDDEN: Final = RESERVED | {properties.SHARDING_KEY, TRACE_CONTEXT, properties.TRANSACTION_ID, IMMUNITY}
_TIMED: Final = (properties.DELAY, properties.TIMER_DELIVER_MS, properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS)
_CONTROLS: Final = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)))  # as Java counts them


class Denied(Exception):
    """A refusal: the status that a call gets in place of its answer."""

    def __init__(self, code: wire.Code, text: str) -> None:
        super().__init__(text)
        self.code = code


# -- statuses ----------------------------------------------------------------------------------------------------------

_OF_REMOTING: Final = {
    names.TOPIC_NOT_EXIST: wire.TOPIC_NOT_FOUND,
    names.GROUP_NOT_EXIST: wire.CONSUMER_GROUP_NOT_FOUND,
    names.NO_PERMISSION: wire.FORBIDDEN,
    names.NOT_SUPPORTED: wire.NOT_IMPLEMENTED,
}
"""Code of a refusal -> what it is here; all else is INTERNAL_SERVER_ERROR, as upstream's."""
_OF_PUT: Final = {
    PutMessageStatus.PUT_OK: wire.OK,
    PutMessageStatus.FLUSH_DISK_TIMEOUT: wire.MASTER_PERSISTENCE_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: wire.SLAVE_PERSISTENCE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE: wire.HA_NOT_AVAILABLE,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: wire.MESSAGE_PROPERTIES_TOO_LARGE,
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: wire.ILLEGAL_DELIVERY_TIME,
    PutMessageStatus.WHEEL_TIMER_NOT_ENABLE: wire.ILLEGAL_DELIVERY_TIME,
}


def status(code: wire.Code, text: str = "") -> wire.Status:
    return wire.Status(code=code, message=text or wire.Code.Name(code))


def status_of_put(found: PutMessageStatus) -> wire.Code:
    return _OF_PUT.get(found, wire.INTERNAL_SERVER_ERROR)


def status_of_all(codes: Iterable[wire.Code]) -> wire.Status:
    """Return the status of an answer with several entries: the one that all have."""
    found = set(codes)
    return status(found.pop() if len(found) == 1 else wire.MULTIPLE_RESULTS)


def status_of_refusal(refused: Refused) -> wire.Status:
    if isinstance(refused, Unsigned):
        return status(wire.UNAUTHORIZED, refused.remark)
    return status(_OF_REMOTING.get(refused.code, wire.INTERNAL_SERVER_ERROR), refused.remark)


# -- what clients send -------------------------------------------------------------------------------------------------


def type_of(message: wire.Message) -> str:
    """Return the type of a message, as topics name it: what its properties make it."""
    told = message.system_properties
    if told.message_type == wire.TRANSACTION:
        return "TRANSACTION"
    if told.HasField("delivery_timestamp"):
        return "DELAY"
    return "FIFO" if told.message_group else "NORMAL"


def born_ms(message: wire.Message) -> int:
    """Return when a message was made, by its client's clock; by ours if it does not say."""
    told = message.system_properties
    return ms_of(told.born_timestamp) if told.HasField("born_timestamp") else time.time_ns() // 1_000_000


def ms_of(moment: Timestamp | Duration) -> int:
    """Return a time, or a duration, in ms, brought into the calendar of protobuf."""
    return _within_calendar(moment.seconds * 1000 + moment.nanos // 1_000_000)


def _within_calendar(ms: int) -> int:
    return min(max(ms, _FIRST_MS), _LAST_MS)


def properties_of(message: wire.Message, topic: str, host: str) -> str:
    """Return the property string of a message that a client sends.

    Raises Denied: a property that may not be.
    """
    told = message.system_properties
    pairs = dict(message.user_properties)
    if len(pairs) > PAIRS_MAX:
        raise Denied(wire.MESSAGE_PROPERTIES_TOO_LARGE, f"too many user properties, max is {PAIRS_MAX}")
    size = sum(len(text.encode()) for text in (*pairs.keys(), *pairs.values(), told.tag, *told.keys))
    if size > TEXT_MAX:
        raise Denied(
            wire.MESSAGE_PROPERTIES_TOO_LARGE, f"the total size of user property is too large, max is {TEXT_MAX}"
        )
    for name, value in pairs.items():
        if name in RESERVED:
            raise Denied(wire.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        _check_letters(wire.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key of property", name)
        _check_letters(wire.ILLEGAL_MESSAGE_PROPERTY_KEY, "the value of property", value)
    pairs |= _own_properties(told)
    if not told.message_id.strip():
        raise Denied(wire.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    _check_letters(wire.ILLEGAL_MESSAGE_ID, "message id", told.message_id)
    pairs |= {properties.UNIQ_KEY: told.message_id, properties.PGROUP: topic}
    pairs |= _kind_properties(told)
    born_host = told.born_host if told.born_host.strip() else host
    pairs[BORN_HOST] = born_host.translate(_CONTROLS)
    pairs[BORN_TIMESTAMP] = str(born_ms(message))
    return "".join(
        f"{name}{properties.NAME_END}{value}{properties.VALUE_END}" for name, value in pairs.items() if value
    )


def _own_properties(told: wire.SystemProperties) -> dict[str, str]:
    """Return tag and keys of a message, which count as the user's."""
    if told.tag:
        _check_words(wire.ILLEGAL_MESSAGE_TAG, "tag", told.tag)
        if "|" in told.tag:
            raise Denied(wire.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    for key in filter(None, told.keys):
        _check_words(wire.ILLEGAL_MESSAGE_KEY, "key", key)
    return {properties.TAGS: told.tag, properties.KEYS: " ".join(told.keys)}


def _kind_properties(told: wire.SystemProperties) -> Iterator[tuple[str, str]]:
    """Yield the properties that make a message ordered, timed, or one of a transaction."""
    if told.message_type == wire.TRANSACTION:
        yield properties.TRAN_MSG, "true"
        if told.HasField("orphaned_transaction_recovery_duration"):
            yield IMMUNITY, str(told.orphaned_transaction_recovery_duration.seconds)
    if told.HasField("delivery_timestamp"):
        yield properties.TIMER_DELIVER_MS, str(ms_of(told.delivery_timestamp))
    if told.message_group:
        _check_words(wire.ILLEGAL_MESSAGE_GROUP, "message group", told.message_group)
        if len(told.message_group.encode()) >= GROUP_MAX:
            raise Denied(wire.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {GROUP_MAX}")
        yield properties.SHARDING_KEY, told.message_group
    if told.trace_context:
        yield TRACE_CONTEXT, told.trace_context.translate(_CONTROLS)


def _check_words(code: wire.Code, what: str, text: str) -> None:
    if not text.strip():
        raise Denied(code, f"{what} cannot be the char sequence of whitespace")
    _check_letters(code, what, text)


def _check_letters(code: wire.Code, what: str, text: str) -> None:
    if not text.isprintable() and text.translate(_CONTROLS) != text:
        raise Denied(code, f"{what} cannot contain control character")


# -- what clients get --------------------------------------------------------------------------------------------------


def given_message(message: StoredMessage, topic: str, receipt: str, times: int) -> wire.Message:
    """Return a message as a client gets it.

    A body that a client of remoting compressed is as it was before; one that is gzip goes so, which all clients read.

    Args:
        topic: the one that the client asked for: a retry has another.
        times: how often it was given before.
    """
    body, encoding = message.body, wire.IDENTITY
    if message.sys_flag & COMPRESSED and body.startswith(GZIP_BEGINS):
        encoding = wire.GZIP
    elif message.sys_flag & COMPRESSED:
        try:
            body = original_body(body, message.sys_flag)
        except FlintError:  # the client fails by it, and it ends in the dead letters
            encoding = wire.GZIP
    told = message.properties
    made = wire.Message(
        topic=wire.Resource(name=topic),
        user_properties={name: value for name, value in told.items() if name not in _HIDDEN},
        body=body,
    )
    _fill(made.system_properties, message, told)
    made.system_properties.body_encoding = encoding
    made.system_properties.body_digest.type = wire.MD5
    made.system_properties.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    made.system_properties.receipt_handle = receipt
    made.system_properties.delivery_attempt = times + 1
    return made


def _fill(to: wire.SystemProperties, message: StoredMessage, told: dict[str, str]) -> None:
    """Fill in what a message's record and properties say."""
    if (tag := told.get(properties.TAGS)) is not None:
        to.tag = tag
    to.keys.extend(told.get(properties.KEYS, "").split())
    to.message_id = told.get(properties.UNIQ_KEY) or message.offset_msg_id
    to.message_type = _kind(told)
    to.born_timestamp.FromMilliseconds(_within_calendar(message.born_timestamp))
    to.born_host = told.get(BORN_HOST) or message.born_host.rpartition(":")[0].strip("[]")
    to.store_timestamp.FromMilliseconds(_within_calendar(message.store_timestamp))
    to.store_host = message.store_host
    if (due := integer(told.get(properties.TIMER_DELIVER_MS))) is not None:
        to.delivery_timestamp.FromMilliseconds(_within_calendar(due))
    if (group := told.get(properties.SHARDING_KEY)) is not None:
        to.message_group = group
    to.queue_id, to.queue_offset = message.queue_id, message.queue_offset
    if (trace := told.get(TRACE_CONTEXT)) is not None:
        to.trace_context = trace
    if _DEAD_TOPIC in told and _DEAD_ID in told:
        to.dead_letter_queue.topic, to.dead_letter_queue.message_id = told[_DEAD_TOPIC], told[_DEAD_ID]


def _kind(told: dict[str, str]) -> wire.MessageType:
    if told.get(properties.TRAN_MSG) == "true":
        return wire.TRANSACTION
    if any(name in told for name in _TIMED):
        return wire.DELAY
    return wire.FIFO if properties.SHARDING_KEY in told else wire.NORMAL

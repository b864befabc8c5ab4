"""Declares the vocabulary: a message as it is stored, and the results of puts and gets.

`StoredMessage` keeps the record's bytes and decodes a field when it is read. Its attributes are the columns of
the one schema (the same in scan, Arrow, Spark and JSON), with the same meaning.

Columns describe the record in the log. The options `decompress` and `explode` change the rows that a reader sees:
`decompress` changes only `body`; `explode` makes a row of each message of an inner batch, with that message's own
`body`, `flag`, `queue_offset`, `properties`, `tags`, `keys` and `msg_id`. All others, such as `size`, `sys_flag` and
`body_crc`, stay those of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from flintmq.format import message_id, properties, record
from flintmq.format.record_view import SIZE
from flintmq.format.text import brief, iso, java_decode, utc
from flintmq.kernels.read.fetch import RecordBytes
from flintmq.kernels.write.message import Message as Message
from flintmq.kernels.write.message import PutResult as PutResult
from flintmq.kernels.write.message import raise_for
from flintmq.tabular import Tabular, html

# Caches: a log contains few topics and hosts, again and again.
_topic_text = lru_cache(1024)(java_decode)
_host_text = lru_cache(1024)(message_id.host_text)

# The one schema, in its order; a new column goes last. Types and nullability are declared once for Arrow in
# flintmq.arrow.schema.
COLUMNS = (
    "topic",
    "queue_id",
    "queue_offset",
    "body",
    "tags",
    "keys",
    "properties",
    "msg_id",
    "offset_msg_id",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "physical_offset",
    "size",
    "magic",
    "flag",
    "sys_flag",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_crc",
)
MEMBER_COLUMNS = ("broker", "store")
"""Columns that follow where several stores are read as one: the broker's name, and the store's path or URL."""


_TOLD = ("topic", "queue_id", "queue_offset", "keys", "tags", "physical_offset", "size")


class StoredMessage(RecordBytes):
    """One record of a commit log, read-only.

    The columns of the schema are attributes, decoded on first use. `raw` (all bytes), `size`, `body` (as stored,
    compressed or not), `queue_id`, `queue_offset` and `sys_flag` come from the kernel.

    Text that is not UTF-8 is decoded as in Java (U+FFFD); `raw` has the bytes.

    Thread: may be shared; at worst a field is decoded twice, with equal values.
    """

    __slots__ = ()

    _fields: record.Record | None
    _properties: dict[str, str] | None

    def __init__(self, raw: bytes) -> None:
        """Wrap the bytes of one validated record (structure and checksum checked by the caller)."""
        super().__init__(raw)

    def __reduce__(self) -> tuple[type[StoredMessage], tuple[bytes]]:
        """Pickle and copy the message as its bytes."""
        return type(self), (self.raw,)

    @property
    def fields(self) -> record.Record:
        """The record's raw fields.

        Raises:
            FormatError: the bytes are not a record.
        """
        if self._fields is None:
            self._fields = record.split(self.raw)
        return self._fields

    @property
    def topic(self) -> str:
        """Topic of the record."""
        return _topic_text(self.fields.topic)

    @property
    def properties(self) -> dict[str, str]:
        """All properties, in stored order; of repeated names the last value."""
        if self._properties is None:
            self._properties = properties.parse_bytes(self.fields.properties)
        return self._properties

    @property
    def tags(self) -> str | None:
        """Property `TAGS`, or None."""
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> str | None:
        """Property `KEYS` as stored, keys separated by spaces, or None."""
        return self.properties.get(properties.KEYS)

    @property
    def msg_id(self) -> str | None:
        """Property `UNIQ_KEY`, the client's own id, or None."""
        return self.properties.get(properties.UNIQ_KEY)

    @property
    def offset_msg_id(self) -> str:
        """Store host and physical offset, upper-case hex."""
        return message_id.offset_msg_id(self.fields.store_host, self.fields.physical_offset)

    @property
    def born_timestamp(self) -> int:
        """Sender's clock, ms."""
        return self.fields.born_timestamp

    @property
    def born(self) -> datetime | None:
        """Sender's clock in UTC; None outside the years 1 to 9999."""
        return utc(self.born_timestamp)

    @property
    def born_host(self) -> str:
        """Sender, `ip:port` or `[ipv6]:port`."""
        return _host_text(self.fields.born_host)

    @property
    def store_timestamp(self) -> int:
        """Broker's clock, ms."""
        return self.fields.store_timestamp

    @property
    def stored(self) -> datetime | None:
        """Broker's clock in UTC; None outside the years 1 to 9999."""
        return utc(self.store_timestamp)

    @property
    def store_host(self) -> str:
        """Broker, `ip:port` or `[ipv6]:port`."""
        return _host_text(self.fields.store_host)

    @property
    def physical_offset(self) -> int:
        """Byte offset of the record in the log."""
        return self.fields.physical_offset

    @property
    def magic(self) -> str:
        """Record version, `V1` or `V2`."""
        return "V1" if self.fields.magic == record.MAGIC_V1 else "V2"

    @property
    def flag(self) -> int:
        """The sender's own number."""
        return self.fields.flag

    @property
    def reconsume_times(self) -> int:
        """Number of times that a consumer gave the message back."""
        return self.fields.reconsume_times

    @property
    def prepared_transaction_offset(self) -> int:
        """Physical offset of the half message of a committed one, else 0."""
        return self.fields.prepared_transaction_offset

    @property
    def body_crc(self) -> int:
        """Checksum of the body as stored, not negative."""
        return self.fields.body_crc & 0xFFFFFFFF

    def as_row(self) -> dict[str, Any]:
        """Return all columns of the schema, in its order."""
        return {name: getattr(self, name) for name in COLUMNS}

    def __eq__(self, other: object) -> bool:
        """Return whether both records have the same bytes."""
        return self.raw == other.raw if isinstance(other, StoredMessage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        named = [f"{name}={brief(getattr(self, name))}" for name in _TOLD]
        return f"StoredMessage({', '.join(named)}, stored={iso(self.store_timestamp)}, body={brief(self.body)})"

    def _repr_html_(self) -> str:
        return html(("column", "value"), self.as_row().items())


class Messages(Tabular, list[StoredMessage]):
    """A list of messages that is also a table.

    `query` returns one; `Messages(consumer.poll())` makes one of other messages.
    """

    __slots__ = ()


def stored_message(data: bytes | bytearray | memoryview, at: int) -> StoredMessage:
    """Copy the validated record that begins at data[at]."""
    (size,) = SIZE.unpack_from(data, at)
    return StoredMessage(bytes(data[at : at + size]))


class Outcome(Enum):
    """The certainty about a put (docs/internals/durability.md): stored, not stored, or unknown."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class PutMessageStatus(Enum):
    """RocketMQ's statuses of a put, by their names."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    PUT_TO_REMOTE_BROKER_FAIL = "PUT_TO_REMOTE_BROKER_FAIL"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"

    def outcome(self, stored: bool) -> Outcome:
        """Return the certainty about a put with this status; `stored`: its record was written."""
        if self is PutMessageStatus.PUT_OK:
            return Outcome.OK
        return Outcome.UNKNOWN if stored else Outcome.FAILED

    @property
    def rule(self) -> PutRule | None:
        """The rule for this status if no more specific one is known; None for PUT_OK."""
        return _RULE_OF.get(self)


class PutRule(Enum):
    """The reasons for a status other than PUT_OK: one line each, with a permanent `id`.

    Attributes:
        id: short, for programs.
        status: status of such a put.
        text: the violated rule and the remedy, for people.
    """

    ILLEGAL = "illegal", PutMessageStatus.MESSAGE_ILLEGAL, "the message cannot be stored as it is; mend it"
    TOPIC = (
        "topic",
        PutMessageStatus.MESSAGE_ILLEGAL,
        (
            "a topic is Unicode of 1 to 127 bytes (%RETRY% and %DLQ% 255), no /, no byte 0, and not . or ..; rename "
            "it, or set PYTHONUTF8=1 if the locale is not UTF-8"
        ),
    )
    BODY_SIZE = (
        "body-size",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("the body is larger than maxMessageSize; raise that, or send less"),
    )
    QUEUE_ID = (
        "queue-id",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("a queue id is not negative, and in columns below 65,536; take another queue"),
    )
    PROPERTY_TEXT = (
        "property-text",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("a byte 0, 1 or 2, or text that is no Unicode, is in a tag, a key or a property; remove it"),
    )
    PROPERTIES_SIZE = (
        "properties-size",
        PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
        ("tags, keys and properties together have more than 32,767 bytes; send less of them"),
    )
    RECORD_SIZE = (
        "record-size",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("the record is larger than a log file (mappedFileSizeCommitLog) or than its fields allow; send less"),
    )
    COLUMN_ROW = (
        "column-row",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("a row's body, queue id or record is too large, or a property holds a byte 0, 1 or 2; mend or drop that row"),
    )
    RESERVED_PROPERTY = (
        "reserved-property",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("KEYS and TAGS have columns of their own, WAIT, DELAY and INNER_* are for single puts; rename the property"),
    )
    BORN_HOST = (
        "born-host",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("the born host is not ip:port or [ipv6]:port; change it, or leave it out"),
    )
    TIMER = (
        "timer",
        PutMessageStatus.WHEEL_TIMER_NOT_ENABLE,
        (
            "TIMER_DELAY_SEC, TIMER_DELAY_MS and TIMER_DELIVER_MS are for single puts, with timerWheelEnable=true: it "
            "would be readable at once; put it by itself, or use delay_level"
        ),
    )
    TIMER_TIME = (
        "timer-time",
        PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
        (
            "TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS is no number, or its time is further ahead than "
            "timerMaxDelaySec; a recall needs a time still ahead; give another"
        ),
    )
    INNER_BATCH = (
        "inner-batch",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("INNER_NUM and the flag of an inner batch belong together, and into a topic of type BatchCQ; use put_batch"),
    )
    START_FIELD = (
        "start-field",
        PutMessageStatus.MESSAGE_ILLEGAL,
        (
            "DELAY (of SCHEDULE_TOPIC_XXXX), INNER_NUM, INNER_BASE, INNER_MULTI_QUEUE_OFFSET or TIMER_OUT_MS (of "
            "rmq_sys_wheel_timer) is no number that RocketMQ can read: its next start would end the log there; mend it"
        ),
    )
    TRANSACTION = (
        "transaction",
        PutMessageStatus.MESSAGE_ILLEGAL,
        (
            "its sys_flag says prepared (4) or rolled back (12): such a record is in no queue, and nobody reads or "
            "checks it; begin a transaction with MessageStore.begin, or put it without that flag"
        ),
    )
    LIGHT_QUEUES = (
        "light-queues",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("INNER_MULTI_DISPATCH names LMQs and other queues, or one that cannot be a directory; change the names"),
    )
    LIGHT_SIZE = (
        "light-size",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("with its offsets in LMQs the message is larger than maxMessageSize, or its properties are too long"),
    )
    BATCH = (
        "batch",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("a batch has no delay level, transaction type or properties INNER_*; put such messages one by one"),
    )
    BATCH_SIZE = (
        "batch-size",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("the batch is larger than maxMessageSize or than a log file, or its properties are too long; make it smaller"),
    )
    DELAY = (
        "delay",
        PutMessageStatus.MESSAGE_ILLEGAL,
        ("the message fits no log file while it waits for its delay, or its topic holds a byte 2; send less"),
    )
    NO_SPACE = (
        "no-space",
        PutMessageStatus.CREATE_MAPPED_FILE_FAILED,
        ("no file could be made or filled: free space, then put it again"),
    )
    CLOSED = (
        "closed",
        PutMessageStatus.SERVICE_NOT_AVAILABLE,
        (
            "the store takes no puts: a sync failed, the disk is nearly full, brokerRole is SLAVE, or it was closed; "
            "its log says which"
        ),
    )
    BUSY = (
        "busy",
        PutMessageStatus.OS_PAGE_CACHE_BUSY,
        ("another put waits for the disk longer than osPageCacheBusyTimeOutMills; put it again later"),
    )
    FLUSH_LATE = (
        "flush-late",
        PutMessageStatus.FLUSH_DISK_TIMEOUT,
        ("it was written, but the disk did not confirm it within syncFlushTimeout"),
    )
    REPLICAS_LATE = (
        "replicas-late",
        PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
        ("it was written, but not as many replicas as inSyncReplicas asks for confirmed it within slaveTimeout"),
    )

    def __init__(self, id: str, status: PutMessageStatus, text: str) -> None:
        self.id, self.status, self.text = id, status, text

    def __str__(self) -> str:
        return f"{self.id}: {self.text}"


# Rules for a status without a specific one; RocketMQ uses MESSAGE_ILLEGAL for most rules.
_RULE_OF = {
    PutMessageStatus.FLUSH_DISK_TIMEOUT: PutRule.FLUSH_LATE,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: PutRule.REPLICAS_LATE,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: PutRule.CLOSED,
    PutMessageStatus.CREATE_MAPPED_FILE_FAILED: PutRule.NO_SPACE,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: PutRule.PROPERTIES_SIZE,
    PutMessageStatus.OS_PAGE_CACHE_BUSY: PutRule.BUSY,
    PutMessageStatus.WHEEL_TIMER_NOT_ENABLE: PutRule.TIMER,
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: PutRule.TIMER_TIME,
    PutMessageStatus.MESSAGE_ILLEGAL: PutRule.ILLEGAL,
}


def refused(rule: PutRule) -> PutResult:
    """Return the result for a message that this rule refuses."""
    return PutResult(rule.status, reason=rule)


class GetMessageStatus(Enum):
    """RocketMQ's statuses of a get, by their names."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


@dataclass(frozen=True, slots=True)
class ColumnsResult:
    """The result of a put of columns. True only if the outcome is OK.

    Attributes:
        status: RocketMQ's status.
        count: how many rows, from the first on, are stored: all of them if the status is PUT_OK, none if a row makes no
            message, and fewer than all if the disk is full.
        physical_offset: log offset of the first; -1 if nothing was stored.
        end: log offset after the last; -1 if nothing was stored.
        queue_offsets: queue id -> index in the queue of its first row here; its others follow one by one.
        store_timestamp: store time of all in ms.
        store_host: raw address and port.
        reason: the rule that refused rows; None for PUT_OK.
        row: the first row that was refused; -1 if none was.
    """

    status: PutMessageStatus
    count: int = 0
    physical_offset: int = -1
    end: int = -1
    queue_offsets: dict[int, int] = field(default_factory=dict)
    store_timestamp: int = 0
    store_host: bytes = field(default=b"", repr=False)
    reason: PutRule | None = field(default=None, compare=False)
    row: int = field(default=-1, compare=False)

    def __post_init__(self) -> None:
        """Give every status but PUT_OK a reason."""
        if self.reason is None or self.reason.status is not self.status:
            object.__setattr__(self, "reason", self.status.rule)

    def __bool__(self) -> bool:
        """Return whether the outcome is OK."""
        return self.outcome is Outcome.OK

    def raise_for_status(self) -> None:
        """Raise an error unless the outcome is OK.

        Raises:
            PutFailedError: nothing is stored; follow the text, and put the rows again.
            PutUnknownError: the first `count` rows may be stored or not; look for them before you put them again.
        """
        raise_for(self)

    @property
    def stored(self) -> datetime | None:
        """Store time of all in UTC; None if nothing was stored."""
        return utc(self.store_timestamp) if self.count else None

    @property
    def outcome(self) -> Outcome:
        """The certainty about the rows.

        OK: all are stored; FAILED: none is stored; UNKNOWN: the first `count` may be.
        """
        return self.status.outcome(self.count > 0)


@dataclass(frozen=True, slots=True)
class GetResult(Tabular):
    """The result of a get.

    Attributes:
        status: RocketMQ's status.
        messages: the messages found, in queue order.
        next_begin_offset: offset for the next get.
        min_offset, max_offset: bounds of the queue, the latter after its last message.
    """

    status: GetMessageStatus
    messages: list[StoredMessage]
    next_begin_offset: int
    min_offset: int
    max_offset: int

    def _each_message(self) -> list[StoredMessage]:
        return self.messages


class RawResult(NamedTuple):
    """The result of a get_raw.

    Attributes:
        status: RocketMQ's status, as in `GetResult`.
        data: the records found, end to end, in queue order.
        count: number of records.
        next_begin_offset: offset for the next get.
        min_offset, max_offset: bounds of the queue, the latter after its last message.
    """

    status: GetMessageStatus
    data: bytes
    count: int  # type: ignore[assignment]  # of a tuple it is a method, which nobody needs here
    next_begin_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class GetBatchResult(Tabular):
    """The result of a get_batch.

    Attributes:
        status: RocketMQ's status, as in `GetResult`.
        batch: a pyarrow.RecordBatch with a row for each message, in queue order; without rows if none was found.
        next_begin_offset: offset for the next get.
        min_offset, max_offset: bounds of the queue, the latter after its last message.
    """

    status: GetMessageStatus
    batch: Any
    next_begin_offset: int
    min_offset: int
    max_offset: int

    def _table(self, columns: Sequence[str] | None) -> Any:
        table = import_module("pyarrow").Table.from_batches([self.batch])
        return table if columns is None else table.select(columns)

    def _shown(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return ("column", "type"), ((field.name, str(field.type)) for field in self.batch.schema)

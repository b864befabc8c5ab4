# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""A message to put, and what became of it: objects that cost little to make and that kernels read without Python."""

import cython

from flintmq.format.message_id import offset_msg_id

_MESSAGE = (
    "topic", "body", "tags", "keys", "properties", "queue_id", "flag", "wait", "born_timestamp", "sys_flag",
    "reconsume_times", "prepared_transaction_offset", "properties_bytes", "delay_level", "born_host",
)  # fmt: skip
_RESULT = ("status", "queue_offset", "physical_offset", "size", "store_timestamp", "store_host")
_TOLD = ("status", "queue_offset", "physical_offset", "size", "store_timestamp")


def _values(one, names):
    return tuple([getattr(one, name) for name in names])


def _told(one, names):
    return f"{type(one).__name__}({', '.join([f'{name}={getattr(one, name)!r}' for name in names])})"


# Neither holds what could hold it, so the garbage collector has nothing to do: thousands may be alive at once.
@cython.freelist(256)
@cython.no_gc
@cython.cclass
class Message:
    """A message to put.

    Attributes:
        topic: where to; a name that can be a directory's, at most 127 bytes (255 for `%RETRY%` and `%DLQ%`).
        body: what to store, as it is.
        tags: property TAGS, or None.
        keys: property KEYS: one text with keys separated by spaces, or None.
        properties: further properties; neither names nor values may hold the characters 01 and 02.
        queue_id: queue of the topic.
        flag: the sender's own number, 32 bits signed.
        wait: wait for the disk under SYNC_FLUSH.
        born_timestamp: sender's clock in ms; None for the store's clock.
        sys_flag: system flag bits (compression, transaction type).
        reconsume_times, prepared_transaction_offset: stored as given.
        properties_bytes: the whole property string, encoded; replaces tags, keys and properties.
        delay_level: 0, or the level from 1 (messageDelayLevel) whose time passes before the message can be read.
        born_host: sender, `ip:port` or `[ipv6]:port`; None for the store's own.

    Raises:
        TypeError, OverflowError: (compiled) a number that is none, or has more than 64 bits.

    Thread: may be put by several threads, while nobody changes it.
    """

    def __init__(
        self,
        topic,
        body=b"",
        tags=None,
        keys=None,
        properties=None,
        queue_id: cython.longlong = 0,
        flag: cython.longlong = 0,
        wait: cython.bint = True,
        born_timestamp=None,
        sys_flag: cython.longlong = 0,
        reconsume_times: cython.longlong = 0,
        prepared_transaction_offset: cython.longlong = 0,
        properties_bytes=None,
        delay_level: cython.longlong = 0,
        born_host=None,
    ):
        if not cython.compiled:  # compiled they are None already, and what is left alone costs nothing: 60 ns, not 85
            self.tags = self.keys = self.properties = None
            self.born_timestamp = self.properties_bytes = self.born_host = None
        self.topic = topic
        self.body = body
        if tags is not None:
            self.tags = tags
        if keys is not None:
            self.keys = keys
        if properties is not None:
            self.properties = properties
        self.queue_id = queue_id
        self.flag = flag
        self.wait = wait
        if born_timestamp is not None:
            self.born_timestamp = born_timestamp
        self.sys_flag = sys_flag
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        if properties_bytes is not None:
            self.properties_bytes = properties_bytes
        self.delay_level = delay_level
        if born_host is not None:
            self.born_host = born_host

    def __reduce__(self):
        """Pickled and copied by its fields."""
        return type(self), _values(self, _MESSAGE)

    def __eq__(self, other):
        """Equal when all fields are."""
        return _values(self, _MESSAGE) == _values(other, _MESSAGE) if type(other) is type(self) else NotImplemented

    __hash__ = None  # it can be changed

    def __repr__(self):
        return _told(self, _MESSAGE)


@cython.freelist(256)
@cython.no_gc
@cython.final
@cython.cclass
class PutResult:
    """What became of a put. Not to be changed.

    Attributes:
        status: RocketMQ's status, a flintmq.PutMessageStatus.
        queue_offset: index in the queue; -1 if nothing was stored.
        physical_offset: byte offset in the log; -1 if nothing was stored.
        size: bytes of the record; 0 if nothing was stored.
        store_timestamp: store time in ms.
        store_host: raw address and port, for the offset message id.
    """

    def __init__(
        self,
        status,
        queue_offset: cython.longlong = -1,
        physical_offset: cython.longlong = -1,
        size: cython.longlong = 0,
        store_timestamp: cython.longlong = 0,
        store_host: bytes = b"",
    ):
        self.status = status
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.size = size
        self.store_timestamp = store_timestamp
        self.store_host = store_host

    @property
    def outcome(self):
        """OK, FAILED (certainly not stored) or UNKNOWN (may or may not be there after a restart)."""
        return self.status.outcome(self.physical_offset >= 0)

    @property
    def offset_msg_id(self):
        """Store host and physical offset, upper-case hex; empty if nothing was stored."""
        return offset_msg_id(self.store_host, self.physical_offset) if self.physical_offset >= 0 else ""

    def with_status(self, status):
        """The same with another status."""
        return PutResult(status, *_values(self, _RESULT)[1:])

    def __reduce__(self):
        """Pickled and copied by its fields."""
        return type(self), _values(self, _RESULT)

    def __eq__(self, other):
        """Equal when all fields are."""
        return _values(self, _RESULT) == _values(other, _RESULT) if type(other) is type(self) else NotImplemented

    def __hash__(self):
        return hash(_values(self, _RESULT))

    def __repr__(self):
        return _told(self, _TOLD)

# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Message and PutResult: cheap to make, and readable by kernels without Python calls."""

import operator
from collections.abc import Mapping

import cython

from flintmq.errors import PutFailedError, PutUnknownError
from flintmq.format.message_id import offset_msg_id, unique_key
from flintmq.format.properties import TIMER_DELIVER_MS, TIMER_OUT_MS, UNIQ_KEY, parse_bytes
from flintmq.format.recall_handle import of_waiting
from flintmq.format.text import brief, java_int, utc

if not cython.compiled:
    PyObject_GenericSetAttr = None

_MESSAGE = (
    "topic", "body", "tags", "keys", "properties", "queue_id", "flag", "wait", "born_timestamp", "sys_flag",
    "reconsume_times", "prepared_transaction_offset", "properties_bytes", "delay_level", "born_host",
)  # fmt: skip
_RESULT = ("status", "queue_offset", "physical_offset", "size", "store_timestamp", "store_host")
_INTS = ("queue_id", "flag", "sys_flag", "reconsume_times", "delay_level")  # 32 bits signed in a record
_LONGS = ("born_timestamp", "prepared_transaction_offset")  # 64 bits signed
_ZERO = 0
_ALWAYS = ("topic", "body")
_TIMER = TIMER_OUT_MS.encode()
_TOLD = ("status", "queue_offset", "physical_offset", "size", "store_timestamp")


def _values(one, names):
    return tuple([getattr(one, name) for name in names])


def _told(one, names):
    return f"{type(one).__name__}({', '.join([f'{name}={brief(getattr(one, name))}' for name in names])})"


def raise_for(result):
    """Raise PutFailedError or PutUnknownError if the outcome of `result` is not OK."""
    outcome = result.outcome.value
    if outcome == "failed":
        raise PutFailedError(f"{result.status.name}: {result.reason}; nothing is stored")
    if outcome == "unknown":
        raise PutUnknownError(
            f"{result.status.name}: {result.reason}; it may be stored or not: look for it before you put it again"
        )


def _wrong(field, value, wanted):
    home = "numpy." if type(value).__module__ == "numpy" else ""  # whose bool is called bool too
    return TypeError(f"Message: {field} is of type {home}{type(value).__name__}; give {wanted}")


def _text(field, value, wanted="a str"):
    """Check that a value is a str; of a subclass return the plain str."""
    if not isinstance(value, str):
        raise _wrong(field, value, wanted)
    return str.__str__(value) if type(value) is not str else value


def _bytes(field, value):
    """Check that a value is bytes, which nobody can change while it is stored."""
    if not isinstance(value, bytes):
        if isinstance(value, str):
            raise _wrong(field, value, "bytes, such as text.encode()")
        wanted = "bytes(...) of it" if isinstance(value, (bytearray, memoryview)) else "bytes"
        raise _wrong(field, value, wanted)
    return bytes(value)


def _number(field, value):
    """Check that a value is an int or converts to one (numpy's), but is no bool."""
    if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
        raise _wrong(field, value, "an int")
    return operator.index(value)


def _joined(keys):
    """Join several keys to the property KEYS; a str is returned unchanged."""
    if isinstance(keys, str):
        return _text("keys", keys)
    if not isinstance(keys, (list, tuple)):
        raise _wrong("keys", keys, "a str (keys separated by spaces), or a list of them")
    for key in keys:
        if not isinstance(key, str):
            raise _wrong("a key", key, "a str")
        if not key or " " in key:
            raise ValueError(f"Message: key {key[:100]!a} has no characters or a space, which ends a key; mend it")
    return " ".join(keys)


def _checked(properties):
    """Check that properties are a mapping of str to str; return them as a dict."""
    if not isinstance(properties, Mapping):
        raise _wrong("properties", properties, "a dict of str to str")
    for name, value in properties.items():
        if not isinstance(name, str):
            raise _wrong("a property's name", name, "a str")
        if not isinstance(value, str):
            raise TypeError(f"Message: property {name[:100]!a} is of type {type(value).__name__}; give a str")
    return properties if type(properties) is dict else dict(properties)


def _in_range(field, value):
    """Check that a record's field can hold a number."""
    bits = 32 if field in _INTS else 64
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"Message: {field}={value} does not fit into {bits} bits, signed; give a smaller number")
    return value


def _check_ranges(message):
    """Raise ValueError for a number that its field in a record cannot hold."""
    for name in _INTS + _LONGS:
        if getattr(message, name) is not None:
            _in_range(name, getattr(message, name))


def _assigned(field, value):
    """Check a value that is assigned to a field; return it as the constructor would keep it."""
    if field in _INTS or field == "prepared_transaction_offset":
        return _in_range(field, _number(field, value))
    if field == "topic":
        return _text(field, value)
    if field == "body":
        return _bytes(field, value)
    if field == "wait":
        if value is not True and value is not False:
            raise _wrong(field, value, "True or False")
        return value
    if value is None or field not in _MESSAGE:
        return value
    if field == "tags":
        return _text(field, value, "a str; a message has one tag")
    if field == "keys":
        return _joined(value)
    if field == "properties":
        return _checked(value)
    if field == "born_timestamp":
        return _in_range(field, _number(field, value))
    return _bytes(field, value) if field == "properties_bytes" else _text(field, value)


def _wide(m):
    """Return whether a number has more than 32 bits, so that the ranges must be checked."""
    half: cython.longlong = 0x80000000
    numbers: cython.longlong = m.queue_id + half | m.flag + half | m.sys_flag + half | m.reconsume_times + half
    return (numbers | m.delay_level + half) >> 32 != 0


def _set_numbers(m, queue_id, flag, sys_flag, reconsume_times, prepared_transaction_offset, delay_level):
    """Set the numbers of a new message, and check them."""
    try:
        m.queue_id = queue_id if type(queue_id) is int else _number("queue_id", queue_id)
        m.flag = flag if type(flag) is int else _number("flag", flag)
        m.sys_flag = sys_flag if type(sys_flag) is int else _number("sys_flag", sys_flag)
        m.reconsume_times = (
            reconsume_times if type(reconsume_times) is int else _number("reconsume_times", reconsume_times)
        )
        m.prepared_transaction_offset = (
            prepared_transaction_offset
            if type(prepared_transaction_offset) is int
            else _number("prepared_transaction_offset", prepared_transaction_offset)
        )
        m.delay_level = delay_level if type(delay_level) is int else _number("delay_level", delay_level)
    except OverflowError:  # find out which one
        numbers = (queue_id, flag, sys_flag, reconsume_times, delay_level, prepared_transaction_offset)
        for name, value in zip((*_INTS, "prepared_transaction_offset"), numbers, strict=True):
            _assigned(name, value)
        raise
    if not cython.compiled or m.born_timestamp is not None or _wide(m):
        _check_ranges(m)


# Neither class can be part of a reference cycle, so the garbage collector need not track it: thousands of them may be
# alive at once.
@cython.freelist(256)
@cython.no_gc
@cython.cclass
class Message:
    """Message(topic, body=b"", tags=None, keys=None, properties=None, queue_id=0, flag=0, wait=True, \
born_timestamp=None, sys_flag=0, reconsume_times=0, prepared_transaction_offset=0, properties_bytes=None, \
delay_level=0, born_host=None, deliver_timestamp=None)\n--\n
    A message to put.

    Attributes:
        topic: its topic; a name that can be a directory's, at most 127 bytes (255 for `%RETRY%` and `%DLQ%`).
        body: the bytes to store, unchanged.
        tags: property TAGS, or None.
        keys: property KEYS: one text with keys separated by spaces, a list or tuple of keys, or None.
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
        deliver_timestamp: time in ms from which on it can be read, kept as property TIMER_DELIVER_MS, or None. A delay
            level is stronger. Read-only.

    Raises:
        TypeError: a field of another type; the text names the field, the type it got and the type to give.
        ValueError: a number that its field cannot hold; a key in a list that is empty or holds a space.
            An assignment to a field raises the same.

    Thread: may be put by several threads, as long as none changes it.
    """

    def __init__(
        self,
        topic,
        body=b"",
        tags=None,
        keys=None,
        properties=None,
        queue_id=0,
        flag=0,
        wait=True,
        born_timestamp=None,
        sys_flag=0,
        reconsume_times=0,
        prepared_transaction_offset=0,
        properties_bytes=None,
        delay_level=0,
        born_host=None,
        deliver_timestamp=None,
    ):
        if not cython.compiled:  # compiled, fields begin as None, and leaving them so costs nothing
            self.tags = self.keys = self.properties = None
            self.born_timestamp = self.properties_bytes = self.born_host = None
        self.topic = topic if type(topic) is str else _text("topic", topic)
        self.body = body if type(body) is bytes else _bytes("body", body)
        if tags is not None:
            self.tags = tags if type(tags) is str else _text("tags", tags, "a str; a message has one tag")
        if keys is not None:
            self.keys = keys if type(keys) is str else _joined(keys)
        if properties is not None:
            self.properties = _checked(properties)
        if deliver_timestamp is not None:
            due = _in_range("deliver_timestamp", _number("deliver_timestamp", deliver_timestamp))
            self.properties = {**(self.properties or {}), TIMER_DELIVER_MS: str(due)}
        if wait is not True and wait is not False:
            _assigned("wait", wait)
        if born_timestamp is not None:
            self.born_timestamp = (
                born_timestamp if type(born_timestamp) is int else _number("born_timestamp", born_timestamp)
            )
        if properties_bytes is not None:
            self.properties_bytes = (
                properties_bytes if type(properties_bytes) is bytes else _bytes("properties_bytes", properties_bytes)
            )
        if born_host is not None:
            self.born_host = born_host if type(born_host) is str else _text("born_host", born_host)
        self.wait = wait
        if not cython.compiled:  # compiled, numbers begin as 0
            self.queue_id = self.flag = self.sys_flag = self.reconsume_times = 0
            self.prepared_transaction_offset = self.delay_level = 0
        # Most messages leave the numbers out: to convert and check each would be a fifth of this call's instructions.
        if (
            queue_id is not _ZERO
            or flag is not _ZERO
            or sys_flag is not _ZERO
            or reconsume_times is not _ZERO
            or prepared_transaction_offset is not _ZERO
            or delay_level is not _ZERO
            or born_timestamp is not None
        ):
            _set_numbers(self, queue_id, flag, sys_flag, reconsume_times, prepared_transaction_offset, delay_level)

    def __reduce__(self):
        """Pickled and copied by its fields."""
        return type(self), _values(self, _MESSAGE)

    def __setattr__(self, name, value):
        """Assign to a field, with the checks of the constructor.

        Compiled, what the constructor sets does not come here.
        """
        value = _assigned(name, value)
        if cython.compiled:
            PyObject_GenericSetAttr(self, name, value)
        else:
            object.__setattr__(self, name, value)

    def copied(self):
        """Copy the message and check all fields again: a dict of properties may have changed.

        Raises:
            TypeError, ValueError: as the constructor raises them.
        """
        return Message(*_values(self, _MESSAGE))

    def __eq__(self, other):
        """Equal when all fields are."""
        return _values(self, _MESSAGE) == _values(other, _MESSAGE) if type(other) is type(self) else NotImplemented

    __hash__ = None  # it can be changed

    @property
    def born(self):
        """The sender's clock as a datetime in UTC; None if it is not given.

        None also outside the years 1 to 9999.
        """
        return None if self.born_timestamp is None else utc(self.born_timestamp)

    @property
    def deliver_timestamp(self):
        """The time in ms from which on it can be read (property TIMER_DELIVER_MS), or None."""
        own = self.properties_bytes
        pairs = parse_bytes(own) if own is not None else self.properties or {}
        return java_int(pairs.get(TIMER_DELIVER_MS, ""), 64)

    def __repr__(self):
        """Its topic, the begin of its body, and the fields that differ from their defaults."""
        plain = Message(self.topic, self.body)
        return _told(self, [n for n in _MESSAGE if n in _ALWAYS or getattr(self, n) != getattr(plain, n)])


@cython.freelist(256)
@cython.no_gc
@cython.final
@cython.cclass
class PutResult:
    """The result of a put. Immutable. True if and only if the outcome is OK.

    Attributes:
        status: RocketMQ's status, a flintmq.PutMessageStatus.
        queue_offset: index in the queue; -1 if nothing was stored.
        physical_offset: byte offset in the log; -1 if nothing was stored.
        size: bytes of the record; 0 if nothing was stored.
        store_timestamp: store time in ms.
        store_host: raw address and port, for the offset message id.
        reason: the rule that refused it.
        msg_id: its unique key, or the whole property string that contains it, which is parsed on first use.
    """

    def __init__(
        self,
        status,
        queue_offset: cython.longlong = -1,
        physical_offset: cython.longlong = -1,
        size: cython.longlong = 0,
        store_timestamp: cython.longlong = 0,
        store_host: bytes = b"",
        reason=None,
        msg_id=None,
    ):
        self.status, self._reason = status, reason
        self._prefix, self._number, self._own = None, 0, msg_id
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
    def reason(self):
        """The rule that refused it, a flintmq.PutRule; None for PUT_OK."""
        return self.status.rule if self._reason is None else self._reason

    def __bool__(self):
        """Return whether the outcome is OK."""
        return self.outcome.value == "ok"

    def raise_for_status(self):
        """Raise an error unless the outcome is OK.

        Raises:
            PutFailedError: nothing is stored; correct what the text names, and put it again.
            PutUnknownError: it may be stored or not; look for it before putting it again.
        """
        raise_for(self)

    @property
    def stored(self):
        """The store time as a datetime in UTC; None if nothing was stored."""
        return utc(self.store_timestamp) if self.physical_offset >= 0 else None

    @property
    def offset_msg_id(self):
        """Store host and physical offset, upper-case hex; empty if nothing was stored."""
        return offset_msg_id(self.store_host, self.physical_offset) if self.physical_offset >= 0 else ""

    @property
    def msg_id(self):
        """The unique key that the message is stored with (property UNIQ_KEY).

        It is the message's own or the store's; None if it has none, or nothing was stored.
        """
        if self._prefix is not None:
            return unique_key(self._prefix, self._number)
        found = parse_bytes(self._own).get(UNIQ_KEY) if isinstance(self._own, bytes) else self._own
        return found or None  # an empty key counts as none

    def recall_handle(self, broker_name="broker-a"):
        """Return the handle by which the message is recalled; None if it does not wait for a time.

        `broker_name`: of the broker that clients ask to recall it; a store asks for none.
        """
        own = self._own
        return of_waiting(parse_bytes(own), broker_name) if isinstance(own, bytes) and _TIMER in own else None

    def with_status(self, status):
        """Return a copy with another status."""
        own = self.msg_id if self._prefix is not None else self._own
        return PutResult(status, *_values(self, _RESULT)[1:], None, own)

    def __reduce__(self):
        """Pickled and copied by its fields."""
        return type(self), (*_values(self, _RESULT), self._reason, self.msg_id)

    def __eq__(self, other):
        """Equal when all fields are."""
        if type(other) is not type(self):
            return NotImplemented
        return _values(self, _RESULT) == _values(other, _RESULT) and self.msg_id == other.msg_id

    def __hash__(self):
        return hash(_values(self, _RESULT))

    def __repr__(self):
        return _told(self, _TOLD)

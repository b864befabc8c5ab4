# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The fast way of a put: writes a plain message to the mapped log in one call under the GIL.

The GIL is held throughout and is the lock: no other thread runs, no Python code runs, and nothing is returned before
the record is in the map and its end is published. So neither another put nor a signal can interrupt it halfway. A
message that is not plain is left to store/append/commit_log.py: the call returns None and has changed nothing.
Uncompiled, it always returns None.

Free-threaded Python has no GIL. There the call takes a lock of the appender's own, and `locks` is True; so does whoever
closes the fast way, so no fast put is under way once `held`, `refusing` or `closed` is set. FLINTMQ_PUT_LOCK=1 forces
that lock on under every interpreter, for tests.

The state of the append side (`Appender`, `QueueCounter`, `AppendTarget`) is kept here, once; the slow way works on the
same objects.

Lock order: the slow way takes the put lock first and then sets `held`; the fast way reads `held` under the GIL (or the
own lock) and never waits for the put lock. The own lock comes before that of the unique keys.
"""

# Writer algorithm
#
# There is one writer of a log at a time: `_append` below, or with the put lock held store/append/commit_log.py,
# kernels/write/append_columns.py or store/append/raw_log.py. All publish in the order W5, W6.
#
# W1 Keep others out. With a GIL: this call has it, runs no Python code and allocates nothing that the collector tracks
#    (PutResult has no_gc), so no thread, no signal handler and no finalizer comes between here and W6. Without a GIL,
#    or with `locks`: take `_mutex`, then that of `keys`. Go on if neither `_held`, `_refusing` nor `_closed` is set, no
#    append is `begun`, and this is no forked child. Who sets one of the three takes `_mutex`, too: when that returns,
#    no fast put is under way.
# W2 All that can fail: the checks, the number of the unique key, the room below `reserved`, memory for the result. A
#    None from here on has changed nothing, but that a number of `keys` may stay unused.
# W3 Store the bytes of the record from `_wrote` on. Nobody reads there, and the disk has the blocks, so that no store
#    meets a full disk. Nothing fails from here on.
# W4 Take the queue offset: `place.next`. Writers alone read it.
# W5 Publish `_wrote`: readers of this file may read the record.
# W6 `last_time`, then `end`: only now does the record count. Flush, dispatch and commit go up to `end`.
# W7 Wake who works on it next: a put that waits does so by the flusher (its W1), any other by `after_put`, if that
#    `_needs_wake`. Who sleeps sets the flag, fences, and looks at the log once more; here the order is W6, then the
#    flag. So one of the two sees the other. Without a GIL that holds on x86, where unlocking `_mutex` is a full fence;
#    nothing says so on ARM. A wake-up that is missed costs a sleep (dispatch 50 ms), never a record.
#
# Fences: with a GIL its release after W6, and its being taken before R1, order all of this on x86 and on ARM. Without
# one, a release comes before `_wrote` and one before `end`; on x86 these keep the compiler from moving stores, and the
# processor moves none. On ARM they are barriers.
#
# Reader algorithm
#
# R1 Read the bound first. Of one file: `wrote`, which acquires. Of the log: `end`; dispatch takes what is flushed under
#    SYNC_FLUSH, and what is committed with a pool (store/assembly.py, `_confirmed`). Who needs the time too reads
#    `last_time` before `end`, so that it is not too young; without a GIL it may be that of the next record.
# R2 Then read bytes below the bound, which do not change any more, and none above it.
# R3 The bytes stay mapped while the file is held (MappedFile.hold), or as long as `_p` is set and the reader keeps the
#    GIL; without a GIL it is in a critical section of the file, for which `detach` waits.
# R4 Readers in other processes see none of these fields. They judge the bytes (kernels/read/walk.py), and wait for a
#    last record that has not come whole (store/commitlog/arrivals.py).
#
# `end` is read without an acquire. With a GIL, and on x86, R2 holds all the same. On ARM without a GIL it holds for
# readers of `wrote`, and is not proved for dispatch, which reads `end` alone. It has never been tried there.
#
# What a crash may show
#
# With the transient pool W3 stores into memory of this process: kernels/threads/ring.py says what is left of that.
#
# C1 A kill before W3: nothing.
# C2 A kill amid W3: some bytes of a record, above the end, then zeros. The next start finds a torn tail, ends the log
#    before it, and zeroes it before the first put (store/recovery/find_end.py, truncate.py).
# C3 A kill after W3, before or after anything else: the whole record. The next start keeps it and counts queue offsets
#    from the records, so that W4 need not be on disk. If nobody was answered, the put may have happened or not.
# C4 A power cut: above what is flushed any sector may be missing, whatever was stored first. W3 to W6 order memory, and
#    nothing on the disk. The log then ends before the first record that is not whole or not the next of its queue
#    (store/recovery/torn_record.py); whole records after that go to quarantine/.

import os
import sys

import cython

if not cython.compiled:  # the fast way is the compiled one
    from flintmq.kernels.write.message import Message, PutResult, _wide
    from flintmq.kernels.write.unique_keys import Numbers

    # Compiled, fast_append.pxd cimports these: functions of C, and of other kernels. Uncompiled nobody calls them,
    # because `append` returns first; the names are here for linters, and for functions that are made and never called.
    PyBytes_AS_STRING = PyBytes_CheckExact = PyBytes_GET_SIZE = PyDict_CheckExact = PyDict_Next = None
    PyLong_AsLongLongAndOverflow = PyLong_CheckExact = PyObject = None
    PyUnicode_CheckExact = PyUnicode_GET_LENGTH = any_below = clock_ms = copy_bytes = None
    crc_property_room = find_either = publish = put_record = put_unique_key = record_size = u32be = utf8 = None
    fence_full = fence_release = observe = None

CLOCK_SET_BACK_MS = 3_600_000  # store times never decrease, unless the clock was set back by this much or more
MOST_BODY = 1 << 16  # bytes of the largest body that is copied with the GIL held
MOST_SENDERS = 1 << 14  # hosts of senders that are kept, 4 MiB at most

_HOUR = cython.declare(cython.longlong, 3_600_000)
_MOST_BODY = cython.declare(cython.longlong, 65536)
_MOST_PROPERTIES = cython.declare(cython.longlong, 32767)
_NEAR = cython.declare(cython.longlong, 16)
_KEYS = cython.declare(cython.longlong, 0x4B455953)
_TAGS = cython.declare(cython.longlong, 0x54414753)
_WAIT = cython.declare(cython.longlong, 0x57414954)
_DELA = cython.declare(cython.longlong, 0x44454C41)
_TIME = cython.declare(cython.longlong, 0x54494D45)
_INNE = cython.declare(cython.longlong, 0x494E4E45)
_UNIQ = cython.declare(cython.longlong, 0x554E4951)
_UKEY = cython.declare(cython.longlong, 0x5F4B4559)  # "_KEY"
_UNIQUE_SIZE = cython.declare(cython.longlong, 42)
_DURABLE = cython.declare(cython.int, 1)
_STOPPED = cython.declare(cython.int, 3)

_forks = cython.declare(cython.longlong, 0)


def own_lock() -> bool:
    """Return whether puts need a lock of their own.

    They do without a GIL, or if FLINTMQ_PUT_LOCK asks for it.
    """
    forced = os.environ.get("FLINTMQ_PUT_LOCK", "") not in ("", "0")
    return forced or not getattr(sys, "_is_gil_enabled", lambda: True)()


def forked() -> None:
    """Note that this process is a forked child, in which no earlier appender may put."""
    global _forks
    _forks += 1


@cython.cclass
class AppendTarget:
    """The part of a mapped file that appends use; the base class of storage's MappedFile.

    Attributes:
        start, size: log offset of its first byte, its size in bytes.
        wrote: position after the last byte put. Whoever sees it, without the GIL too, sees the bytes below it.
        reserved: position up to which the writer may store.
        filler: bytes at the end of a full file that no record has; they are zeros.
    """

    def attach(self, buffer: cython.uchar[::1], ring_size: cython.longlong = 0) -> None:
        """Take the address of the file's bytes, which must not move until `detach`.

        Args:
            buffer: the file's bytes; with a ring its memory, where it is mapped twice.
            ring_size: bytes of the ring that takes the file's bytes; 0: none does.
        """
        if len(buffer) < (2 * ring_size if ring_size else self.size):
            raise ValueError("the buffer is smaller than the file")
        with cython.critical_section(self):
            self._shift = self.start if ring_size else 0
            self._mask = ring_size - 1 if ring_size else -1
            if cython.compiled:
                self._p = cython.address(buffer[0])

    def detach(self) -> None:
        """Forget the address: the bytes are unmapped next."""
        # R3: a fast get reads in such a section, and finds no address once this is over.
        with cython.critical_section(self):
            if cython.compiled:
                self._p = cython.NULL

    @property
    def wrote(self) -> int:
        """Position after the last byte put."""
        if cython.compiled:
            # R1: acquires, so that no byte is read before it.
            return observe(cython.address(self._wrote))
        return self._wrote

    @wrote.setter
    def wrote(self, position: cython.longlong) -> None:
        if cython.compiled:
            # W5, of the slow ways: releases, so that the bytes are there before it.
            publish(cython.address(self._wrote), position)
        else:
            self._wrote = position

    @property
    def in_ring(self) -> bool:
        """Return whether new records are stored in a ring."""
        return self._mask > 0

    def place(self, at: cython.longlong) -> int:
        """Return the index of a file position in the buffer."""
        return self._place(at)

    def _place(self, at):
        return (at + self._shift) & self._mask


@cython.final
@cython.cclass
class QueueCounter:
    """The queue offset of the next record of one queue."""

    def __init__(self, next: cython.longlong) -> None:
        self.next = next


@cython.final
@cython.cclass
class Topic:
    """A topic with a legal name: its bytes, and its queues by queue id.

    The QueueCounter of a queue is never replaced.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw, self.places = raw, {}
        self._near = [None] * _NEAR

    def _place(self, queue_id):
        """Return a queue's counter, or None.

        A lookup in a dict costs 30 ns, so the first queues are kept in a list.
        """
        if not 0 <= queue_id < _NEAR:
            return self.places.get(queue_id)
        found: QueueCounter = self._near[queue_id]
        if found is None:
            found = self._near[queue_id] = self.places.get(queue_id)
        return found


@cython.final
@cython.cclass
class Appender:
    """The append side of one log: its end, its topics, and the fast way to append.

    Args:
        stored: status of a put that succeeded.
        hosts: raw born host and store host, both of 8 or both of 20 bytes.
        max_body: bytes of the largest body.
        crc_property: end records with the checksum property.

    Attributes:
        end: log offset after the last whole record.
        last_time: its store time in ms.
        topics: name -> Topic, of the legal names met so far.
        senders: text of a sender's host -> raw born host and store host. The slow way reads the text of each new
            sender, and forgets all once there are MOST_SENDERS. Never wrong, whoever comes or goes: a text has one
            meaning.
        target: the file that the fast way writes to; None: every put goes the slow way.
        held: another thread holds the put lock and may release the GIL; use the slow way.
        refusing: puts are refused for now; the slow way reports why.
        closed: every put is refused.
        locks: the fast way takes the appender's own lock. Set it before the first put, or not at all.
        begun: an append that a signal interrupted and that must be finished first, or None.
        keys: numbers the unique keys of messages without one, a kernels.write.unique_keys.Numbers; None: they get
            no key.
    """

    def __init__(
        self,
        stored: object,
        hosts: bytes,
        max_body: cython.longlong,
        crc_property: cython.bint,
        end: cython.longlong,
        last_time: cython.longlong,
    ) -> None:
        if len(hosts) not in (16, 40):
            raise ValueError("hosts are two of 8 bytes or two of 20")
        self._stored, self._hosts, self._host = stored, hosts, hosts[: len(hosts) // 2]
        self._host_flags, self.senders = 0x30 if len(hosts) == 40 else 0, {}
        self._max_body, self._crc_property = max_body, crc_property
        self.end, self.last_time, self.topics = end, last_time, {}
        self.target = self.begun = self.keys = self._name = self._topic = None
        self._held = self._refusing = self._closed = False
        self._made_after = _forks
        self.locks = own_lock()

    @property
    def held(self) -> bool:
        """True while a thread holds the put lock."""
        return self._held

    @held.setter
    def held(self, value: cython.bint) -> None:
        if cython.compiled:
            if self._has_lock():
                # W1: waits for the fast put under way; the next one finds the flag.
                with self._mutex:
                    self._held = value
                return
        self._held = value

    @property
    def refusing(self) -> bool:
        """True while puts are refused for now."""
        return self._refusing

    @refusing.setter
    def refusing(self, value: cython.bint) -> None:
        if cython.compiled:
            if self._has_lock():
                with self._mutex:
                    self._refusing = value
                return
        self._refusing = value

    @property
    def closed(self) -> bool:
        """True once every put is refused."""
        return self._closed

    @closed.setter
    def closed(self, value: cython.bint) -> None:
        if cython.compiled:
            if self._has_lock():
                with self._mutex:
                    self._closed = value
                return
        self._closed = value

    @property
    def forked(self) -> bool:
        """True in a process forked after this object was made."""
        return self._made_after != _forks

    def append(self, message: Message):
        """Append one message.

        Returns:
            The result; None if nothing was done and the message must go the slow way.

        Thread: any. Durability: the kernel has the record.
        """
        if not cython.compiled:
            return None
        if not self.locks:
            return self._append(message, clock_ms()) if self._is_open() else None
        return self._append_with_lock(message)

    def append_list(self, messages: list, at: cython.Py_ssize_t, results: list):
        """Append messages[at:] in order, up to the first that must go the slow way.

        Their results are appended to `results`.

        Returns:
            The index of the first message that was not appended.

        Raises:
            TypeError: an element of the list is no message; those before it are appended.
        """
        if not cython.compiled:
            return at
        if not self.locks:
            return self._append_each(messages, at, results)
        if not self._has_lock():
            return at
        keys: Numbers = self.keys
        with self._mutex:
            if keys is None:
                return self._append_each(messages, at, results)
            with keys._mutex:
                return self._append_each(messages, at, results)

    def _append_with_lock(self, message):
        """Do the work of `append` under the own lock.

        The lock of the keys is held too, because a number and its prefix belong together.
        """
        if not self._has_lock():
            return None
        keys: Numbers = self.keys
        # W1, without a GIL. Whether the way is open is asked with the lock held: before it, `held` could be set amid
        # the put.
        with self._mutex:
            if not self._is_open():
                return None
            if keys is None:
                return self._append(message, clock_ms())
            with keys._mutex:
                return self._append(message, clock_ms())

    def _append_each(self, messages, at, results):
        """Do the work of `append_list`."""
        if not self._is_open():
            return at
        now: cython.longlong = clock_ms()
        while at < len(messages):
            message: Message = messages[at]
            if message is None:
                raise TypeError("None is no message")
            result = self._append(message, now)
            if result is None:
                break
            results.append(result)
            at += 1
        return at

    def while_locked(self, call):
        """Call a function with the own lock held, and return its result. Only tests call it.

        Thread: any. The function must not put, nor close or open the fast way.
        """
        if not cython.compiled:
            return call()
        with self._mutex:
            return call()

    def _has_lock(self):
        """Return whether the own lock is to be taken.

        A forked child has a copy that a thread of its parent may have locked for good.
        """
        return self.locks and self._made_after == _forks

    def _is_open(self):
        """Return whether the fast way is open."""
        shut: cython.bint = self._held or self._refusing or self._closed or self._made_after != _forks
        return not shut and self.target is not None and self.begun is None

    def _append(self, m, now):
        """Append one message; None if it must go the slow way.

        Everything that can fail comes before the record is written.
        """
        # W2, down to the result's memory.
        file: AppendTarget = self.target
        topic: Topic = self._find(m.topic)
        body: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), m.body)
        if file._p == cython.NULL or topic is None or not PyBytes_CheckExact(body) or m.sys_flag & 0x84:
            return None
        hosts: bytes = self._hosts if m.born_host is None else self._find_sender(m.born_host)
        if m.delay_level != 0 or hosts is None or _wide(m):
            return None
        born_size: cython.longlong = len(hosts) - len(self._host)
        place: QueueCounter = topic._place(m.queue_id)
        if place is None:
            return None
        body_size: cython.longlong = PyBytes_GET_SIZE(body)
        topic_size: cython.longlong = len(topic.raw)
        properties: cython.pointer(cython.const[cython.uchar]) = self._scratch
        self._number, self._own = -1, cython.NULL
        if m.properties_bytes is None:
            properties_size: cython.longlong = self._encode(m, now)
        else:
            properties_size = _ready(m.properties_bytes)
            if properties_size > 0:
                properties = cython.cast(
                    cython.pointer(cython.const[cython.uchar]), cython.cast(bytes, m.properties_bytes)
                )
        if properties_size < 0 or body_size > self._max_body or body_size > _MOST_BODY:
            return None
        extra: cython.longlong = crc_property_room(properties, 0, properties_size) if self._crc_property else 0
        host_flags: cython.longlong = self._host_flags & 0x20 | (0x10 if born_size == 20 else 0)
        bits: cython.int = cython.cast(cython.int, m.sys_flag & ~0x30 | host_flags)
        if properties_size + extra > _MOST_PROPERTIES:
            return None
        at: cython.longlong = file._wrote
        size: cython.longlong = record_size(body_size, topic_size, properties_size + extra, bits)
        if size > file.size - 8 - at or size > file.reserved - at:
            return None
        if now < self.last_time:
            if self.last_time - now >= _HOUR:
                return None
            now = self.last_time
        born: cython.longlong = now
        overflow: cython.int = 0
        if m.born_timestamp is not None:
            if not PyLong_CheckExact(cython.cast(cython.pointer(PyObject), m.born_timestamp)):
                return None
            born = PyLong_AsLongLongAndOverflow(
                cython.cast(cython.pointer(PyObject), m.born_timestamp), cython.address(overflow)
            )
            if overflow != 0:
                return None
        result: PutResult = PutResult.__new__(PutResult)
        # W3
        put_record(
            file._p, file._place(at), file.start + at,
            cython.cast(cython.p_uchar, PyBytes_AS_STRING(body)), 0, body_size,
            cython.cast(cython.p_uchar, topic.raw), 0, topic_size, properties, 0, properties_size,
            cython.cast(cython.p_uchar, hosts), 0, born_size, cython.cast(cython.int, m.queue_id),
            place.next, cython.cast(cython.int, m.flag), bits, born, now, cython.cast(cython.int, m.reconsume_times),
            m.prepared_transaction_offset, self._crc_property,
        )  # fmt: skip
        result.status, result.store_host = self._stored, self._host
        result.queue_offset, result.physical_offset = place.next, file.start + at
        result.size, result.store_timestamp = size, now
        if self._number >= 0:
            result._prefix, result._number = self.keys.prefix, self._number
        elif self._own != cython.NULL:
            result._own = cython.cast(object, self._own)
        else:
            result._own = m.properties_bytes
        # W4. With a GIL no thread sees anything of this before W6, whatever the order of the lines; without one the
        # fences order them.
        place.next += 1
        # W5
        fence_release()
        publish(cython.address(file._wrote), at + size)
        # W6
        self.last_time = now
        fence_release()
        self.end = file.start + at + size
        return result

    def _find(self, name):
        """Return a topic met before by its name, or None."""
        if name is self._name:  # mostly the topic of the message before
            return self._topic
        if not PyUnicode_CheckExact(cython.cast(cython.pointer(PyObject), name)):
            return None
        found: Topic = self.topics.get(name)
        if found is not None:
            self._name, self._topic = name, found
        return found

    def _find_sender(self, text):
        """Return the hosts of a message from a sender met before, or None."""
        if not PyUnicode_CheckExact(cython.cast(cython.pointer(PyObject), text)):
            return None
        return self.senders.get(text)

    def _encode(self, m, now):
        """Encode the property string into the scratch buffer, as checks.encode_properties does.

        Returns its size; -1: use the slow way. A unique key from the store follows the message's own properties if they
        have none; its number is then in `_number`. A key of the message's own is in `_own`.
        """
        n: cython.longlong = 0
        at: cython.Py_ssize_t = 0
        name: cython.pointer(PyObject) = cython.NULL
        value: cython.pointer(PyObject) = cython.NULL
        p: cython.pointer(cython.const[cython.uchar])
        size: cython.longlong = 0
        if m.properties is not None:
            if not PyDict_CheckExact(cython.cast(cython.pointer(PyObject), m.properties)):
                return -1
            while n >= 0 and PyDict_Next(
                cython.cast(cython.pointer(PyObject), m.properties),
                cython.address(at), cython.address(name), cython.address(value),
            ):  # fmt: skip
                p = utf8(name, cython.address(size))
                if p == cython.NULL or (size >= 4 and _special(u32be(p, 0))):
                    return -1
                if size == 8 and _is_unique_key(p, 0):
                    self._own = value
                n = self._pair(n, p, size, value)
        if n >= 0 and self.keys is not None and self._own == cython.NULL:
            self._number = self.keys._reserve(now, 1)
            if self._number < 0 or n > _MOST_PROPERTIES - _UNIQUE_SIZE:
                return -1
            put_unique_key(
                self._scratch, n, cython.cast(cython.pointer(cython.const[cython.uchar]), self.keys.prefix),
                self._number,
            )  # fmt: skip
            n += _UNIQUE_SIZE
        if n >= 0 and _is_given(m.keys):
            n = self._pair(n, b"KEYS", 4, cython.cast(cython.pointer(PyObject), m.keys))
        if n >= 0 and _is_given(m.tags):
            n = self._pair(n, b"TAGS", 4, cython.cast(cython.pointer(PyObject), m.tags))
        if n >= 0 and not m.wait:
            n = self._pair(n, b"WAIT", 4, cython.cast(cython.pointer(PyObject), "false"))
        return n

    def _pair(self, n, name, name_size, value):
        """Add a property after the first n bytes; return the new size, -1: use the slow way."""
        size: cython.longlong = 0
        p: cython.pointer(cython.const[cython.uchar]) = utf8(value, cython.address(size))
        if p == cython.NULL or size > _MOST_PROPERTIES or name_size > _MOST_PROPERTIES - n - size - 2:
            return -1
        if any_below(name, 0, name_size, 3) or any_below(p, 0, size, 3):
            return -1  # a property cannot contain 0, 1 or 2
        copy_bytes(self._scratch, n, name, 0, name_size)
        self._scratch[n + name_size] = 1
        copy_bytes(self._scratch, n + name_size + 1, p, 0, size)
        n += name_size + size + 2
        self._scratch[n - 1] = 2
        return n


@cython.cclass
class PutListener:
    """Takes records after they are put; the base class of DispatchService.

    Attributes:
        needs_wake: whether the putting thread must call `wake`. Who sets it looks for records after that, and a put
            looks at it after its record is published: one of the two sees the other.
    """

    @property
    def needs_wake(self) -> bool:
        """True if the putting thread must call `wake`."""
        return self._needs_wake

    @needs_wake.setter
    def needs_wake(self, value: cython.bint) -> None:
        self._needs_wake = value
        if cython.compiled:
            # W7, and R9 of flusher.py: the flag is seen by all before its owner looks for records.
            fence_full()

    def wake(self) -> None:
        """Take note that a record was put."""


@cython.cclass
class DurableWait:
    """Waits for the disk; the base class of kernels/threads/flusher.py's Flusher."""

    def wait(self, end, appended, time):
        """Wait until the log is durable up to `end`; return 1 if it is. See Flusher.wait."""
        raise NotImplementedError


@cython.cclass
class LoopWaits:
    """Puts that an event loop awaits; the base class of LoopPuts (kernels/threads/loop_puts.py)."""

    def is_running(self):
        """Return whether this thread runs the loop."""
        raise NotImplementedError

    def add(self, result):
        """Return the future of a put that is stored."""
        raise NotImplementedError


@cython.cclass
class Putter:
    """The entry of puts, the base class of MessageStore, so that `put` is one compiled call.

    Attributes:
        quick: the appender while plain messages may go the fast way of `put`; else None. Closing the way leaves it
            there, because without a GIL another thread may be about to use it.
        waits: a message with `wait` waits for the disk after it is stored.
        after_put: woken after messages that do not wait.
        flusher: kernels/threads/flusher.py's, which waits for the disk without the GIL; None: `_settle` waits.
        loop_puts: of the event loop that put last; None: `_put_async_slowly` finds out.
    """

    @property
    def quick(self) -> Appender | None:
        """The appender, or None."""
        return self._quick if self._is_quick else None

    def open_ways(self, appender: Appender, put: bool) -> None:
        """Open the fast way to `put_async`, and to `put` if it may."""
        self._quick = appender
        self._is_quick, self._is_async_quick = put, True

    def close_ways(self) -> None:
        """Close both."""
        self._is_quick = self._is_async_quick = False

    def put(self, message: Message):
        """Store one message.

        Returns:
            A PutResult whose `outcome` says what is certain. PUT_OK: stored, and under SYNC_FLUSH (with wait=True)
            on disk. FLUSH_DISK_TIMEOUT: stored, but not known to be on disk. FLUSH_SLAVE_TIMEOUT (SYNC_MASTER): stored,
            but not known to be on enough replicas, or on disk. Every other status: not stored.

        Raises:
            UsageError: the store is closed, or this is a forked child.

        Thread: any. Durability: as the store's flushDiskType says.
        """
        if self._is_quick:
            # None: the first put of a topic or queue since the store was opened, one a MiB, and what is not plain.
            result = self._quick.append(message)
            if result is not None:
                if self.waits and message.wait:
                    return self._durable(result)
                # W7: after the record is published, never before.
                if self.after_put._needs_wake:
                    self.after_put.wake()
                return result
        return self._put_slowly(message)

    def put_async(self, message: Message):
        """Store one message, and wait for the disk and for replicas without a thread.

        The message is appended before this returns, so messages are stored in the order of the calls. The result comes
        when its group is durable, and under SYNC_MASTER when enough replicas have it; cancelling the wait undoes
        nothing.

        Returns:
            An awaitable of the result of `put`.

        Raises:
            UsageError: the store is closed.
            RuntimeError: no event loop runs in this thread.

        Thread: that of a running event loop. Durability: as for put, once it is awaited.
        """
        with cython.critical_section(self):  # as its setter: another thread's loop may replace it
            loop_puts: LoopWaits = self.loop_puts
        if not self._is_async_quick or loop_puts is None or not message.wait or not loop_puts.is_running():
            return self._put_async_slowly(message, False)
        result = self._quick.append(message)
        if result is None:
            return self._put_async_slowly(message, True)
        return loop_puts.add(result)

    def _durable(self, result):
        """Return the final result of a stored message, after the wait for the disk."""
        flusher: DurableWait = self.flusher
        if flusher is None:
            return self._settle(result)
        end: cython.longlong = result.physical_offset + result.size
        status: cython.int = flusher.wait(end, end, result.store_timestamp)
        if status == _DURABLE:
            return result
        return self._settle(result) if status == _STOPPED else self._unsettled(result)

    def _put_slowly(self, message: Message):
        """Put a message that is not plain."""
        raise NotImplementedError

    def _put_async_slowly(self, message: Message, tried: bool):
        """Put a message that is not plain, or for a loop that did not put last.

        Args:
            message: the message.
            tried: the fast way was tried and left it to the slow one.
        """
        raise NotImplementedError

    def _settle(self, result: PutResult):
        """Return the final result of a stored message, after the wait for the disk."""
        raise NotImplementedError

    def _unsettled(self, result: PutResult):
        """Return the final result of a stored message that is not known to be on disk."""
        raise NotImplementedError


def _is_given(text):
    """Return whether tags or keys are present: neither None nor an empty str."""
    p: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), text)
    return text is not None and not (PyUnicode_CheckExact(p) and PyUnicode_GET_LENGTH(p) == 0)


def _special(word):
    """Return whether a property's name begins like one with an effect.

    These are KEYS, TAGS, WAIT, DELAY, TIMER_* and INNER_*.
    """
    return word == _KEYS or word == _TAGS or word == _WAIT or word == _DELA or word == _TIME or word == _INNE


def _is_unique_key(p, at):
    """Return whether eight bytes are the name UNIQ_KEY."""
    return u32be(p, at) == _UNIQ and u32be(p, at + 4) == _UKEY


def _ready(properties):
    """Return the size of a property string that may be stored unchanged; -1: use the slow way."""
    at: cython.longlong = 0
    raw: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), properties)
    if not PyBytes_CheckExact(raw):
        return -1
    size: cython.longlong = PyBytes_GET_SIZE(raw)
    if size == 0:
        return 0
    p: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(raw))
    if any_below(p, 0, size, 1):
        return -1
    # A name is at the beginning or after a 2. Names that delay a message, or take more queue offsets, begin like these.
    while at + 4 <= size:
        if u32be(p, at) == _DELA or u32be(p, at) == _TIME or u32be(p, at) == _INNE:
            return -1
        at = find_either(p, at, size, 2, 2) + 1
    return size

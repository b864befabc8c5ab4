# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""The fast way of a get: from a queue offset to messages in one call.

It takes units from the blocks that a running queue keeps, copies each record once, and checks it as `fetch.check` does.
An answer is either exactly that of store/read/get.py, or None: then nothing was done, and the caller goes the slow way,
which reports what is wrong. It is left to the slow way whatever the fast one does not know: queues of batches and light
queues, units with an address in the ext queue, units and records that are not right, large records, and every status
but FOUND, NO_MATCHED_MESSAGE and OFFSET_OVERFLOW_ONE. The answer to a raw get has the same records, end to end.

The GIL is held while nothing waits for the disk. A record of the last file is copied from its map, as the slow way
does. A record of an older file is read with `preadv2(RWF_NOWAIT)`; if it is not in memory, the file is held, and
`pread` waits for the disk without the GIL. While the GIL is held and a file has an address (`AppendTarget._p`), nobody
unmaps or closes it: `detach` comes first. Free-threaded Python has no GIL; there a critical section of the file keeps
`detach` away, and those of other objects guard what several gets share. With a GIL a critical section does nothing.

Uncompiled, every call returns None.
"""

import cython

if not cython.compiled:  # the fast way is the compiled one
    from flintmq.kernels.read.fetch import RecordBytes
    from flintmq.kernels.write.fast_append import AppendTarget

    PyBytes_AS_STRING = PyBytes_FromStringAndSize = PyLong_AsLongLongAndOverflow = PyLong_CheckExact = None
    PyObject_GenericSetAttr = PyType_GenericAlloc = PyUnicode_CheckExact = None
    _is_at_queue_offset = _record = copy_bytes = fmq_amid_engine = fmq_read = fmq_read_now = i32be = i64be = None

MOST_RECORD = 1 << 16  # bytes of the largest record that is copied and checked with the GIL held

_UNIT = cython.declare(cython.longlong, 20)
_LEAST_RECORD = cython.declare(cython.longlong, 91)
_MOST_RECORD = cython.declare(cython.longlong, 65536)
_BLANK = cython.declare(cython.longlong, 8)  # bytes of the record that ends a file
_EXT_ADDRESS_LIMIT = cython.declare(cython.longlong, -2147483649)
_MOST = cython.declare(cython.longlong, 0x7FFFFFFF)

_forks = cython.declare(cython.longlong, 0)


def forked() -> None:
    """Note that this process is a forked child, in which no earlier reader may answer."""
    global _forks
    _forks += 1


@cython.cclass
class ReadableQueue:
    """The part of a running queue that fast gets use; the base class of RunningQueue.

    Args:
        topic: raw bytes of its topic.
        units_per_file, units_per_block: queue offsets of a file and, at least, of a block that is read at once.

    Attributes:
        min_offset, max_offset: its bounds; the latter is after its last unit.
        blocks: queue offset -> the units from there on, of one file. A block begins at a multiple of `units_per_block`,
            or where a file does.
    """

    def __init__(self, topic: bytes, units_per_file: cython.longlong, units_per_block: cython.longlong) -> None:
        if units_per_file < 1 or units_per_block < 1:
            raise ValueError("a file and a block hold a unit or more")
        self.topic, self.units_per_file, self.units_per_block = topic, units_per_file, units_per_block
        self.min_offset = self.max_offset = 0
        self.blocks = {}

    def block_of(self, offset: cython.longlong) -> int:
        """Return the queue offset at which the block with this one begins."""
        return self._block_of(offset)

    def _block_of(self, offset):
        within: cython.longlong = min(offset % self.units_per_block, offset % self.units_per_file)
        return offset - within


@cython.final
@cython.cclass
class FastReader:
    """Answers gets of one running store, if they are plain.

    Args:
        files: the MappedFileQueue of the log.
        message, result, raw_result: StoredMessage, GetResult and RawResult.
        statuses: FOUND, NO_MATCHED_MESSAGE and OFFSET_OVERFLOW_ONE.
        limits: messages and bytes of one answer if the record is in memory, and if it is on disk; bytes of the log's
            end that count as in memory; units that a get with tags examines at least.
        hashes: returns the hashes of a tag expression, unsigned 32 bits, or None for all messages.
        main_thread: where Python runs signal handlers.

    Attributes:
        found, missed, messages: gets with messages, gets without, and messages that `get` returned.
        needs_commit: a file may not have all that was put: it has a buffer of the transient pool.
        asks_first: whether the disk can say that bytes are in memory (RWF_NOWAIT); False once it could not.
    """

    def __init__(
        self,
        files: object,
        message: type,
        result: type,
        raw_result: type,
        statuses: tuple,
        limits: tuple,
        hashes: object,
        main_thread: int,
    ) -> None:
        self._files, self._message, self._result, self._hashes_of = files, message, result, hashes
        self._raw_result = raw_result
        self._found_status, self._unmatched_status, self._end_status = statuses
        self._memory_count, self._memory_bytes, self._disk_count, self._disk_bytes, self._young, self._filtered = limits
        self._file_size, self._main_thread = files.file_size, main_thread
        self._topics, self._codes = {}, ("*", None)
        self.found = self.missed = self.messages = 0
        self.needs_commit, self.asks_first = files.pool is not None, True
        self._made_after = _forks

    def know(self, topic: str, queue_id: int, queue: ReadableQueue) -> None:
        """Take gets of this queue from now on. A queue is never replaced."""
        places = self._topics.get(topic)
        if places is None:
            places = self._topics.setdefault(topic, {})
        places[queue_id] = queue

    def get(self, topic, queue_id, offset, max_messages, tags, wait_ms):
        """Answer and count a get that a user calls; None if it must go the slow way.

        The caller is the function that the user called. A signal handler's get amid another call of the engine is not
        answered, for the slow way refuses it.
        """
        if not cython.compiled:
            return None
        if self._made_after != _forks or fmq_amid_engine(self._main_thread):
            return None
        answer = self._get(topic, queue_id, offset, max_messages, tags, wait_ms, -1)
        if answer is not None:
            self._count(len(answer.messages))
        return answer

    def get_raw(self, topic, queue_id, offset, max_messages, tags, max_bytes):
        """Answer and count a raw get, as `get` does."""
        if not cython.compiled:
            return None
        if self._made_after != _forks or fmq_amid_engine(self._main_thread):
            return None
        answer = self.read_raw(topic, queue_id, offset, max_messages, tags, max_bytes)
        if answer is not None:
            self._count(answer[2])
        return answer

    def _count(self, number):
        with cython.critical_section(self):
            self.messages += number
            if number > 0:
                self.found += 1
            else:
                self.missed += 1

    def read(self, topic, queue_id, offset, max_messages, tags, wait_ms):
        """Answer a get of a caller that has checked the store and itself; None as `get`."""
        if not cython.compiled:
            return None
        return self._get(topic, queue_id, offset, max_messages, tags, wait_ms, -1)

    def read_raw(self, topic, queue_id, offset, max_messages, tags, max_bytes):
        """Answer a raw get of such a caller; None as `get`."""
        if not cython.compiled or not PyLong_CheckExact(max_bytes):
            return None
        overflow: cython.int = 0
        limit: cython.longlong = PyLong_AsLongLongAndOverflow(max_bytes, cython.address(overflow))
        if overflow != 0:
            return None
        return self._get(topic, queue_id, offset, max_messages, tags, 0, max(limit, 0))

    def _get(self, topic, queue_id, offset, most, tags, wait_ms, raw_bytes):
        """Answer a get, or return None.

        `raw_bytes`: largest size of a raw answer; -1 for an answer of messages.
        """
        overflow: cython.int = 0
        if not (PyUnicode_CheckExact(topic) and PyLong_CheckExact(queue_id) and PyLong_CheckExact(offset)):
            return None
        if not (PyLong_CheckExact(most) and PyLong_CheckExact(wait_ms)):
            return None
        if tags is not None and not PyUnicode_CheckExact(tags):  # before any answer, also at the queue's end
            return None
        places = self._topics.get(topic)
        if places is None:
            return None
        queue: ReadableQueue = cython.cast(dict, places).get(queue_id)
        if queue is None:
            return None
        at: cython.longlong = PyLong_AsLongLongAndOverflow(offset, cython.address(overflow))
        if overflow != 0:
            return None
        low: cython.longlong = queue.min_offset
        high: cython.longlong = queue.max_offset
        wait: cython.longlong = PyLong_AsLongLongAndOverflow(wait_ms, cython.address(overflow))
        if overflow != 0 or high == 0:
            return None
        if at == high and wait <= 0:
            if raw_bytes >= 0:
                return self._raw_result(self._end_status, b"", 0, at, low, high)
            return self._answer(self._end_status, [], at, low, high)
        if at < low or at >= high:
            return None
        count: cython.longlong = PyLong_AsLongLongAndOverflow(most, cython.address(overflow))
        if overflow != 0 or count > _MOST:
            return None
        number: cython.longlong = PyLong_AsLongLongAndOverflow(queue_id, cython.address(overflow))
        if overflow != 0 or number < 0 or number > _MOST:
            return None
        codes: bytes = None if tags is None else self._hashes(tags)
        return self._walk(queue, number, at, count, codes, low, high, raw_bytes)

    def _hashes(self, tags):
        """Return the hashes of a tag expression, 4 bytes each; None for all messages."""
        with cython.critical_section(self):
            known = self._codes  # one object, so that its parts belong together
        if known[0] != tags:
            found = self._hashes_of(tags)
            known = tags, None if found is None else b"".join([code.to_bytes(4, "big") for code in sorted(found)])
            with cython.critical_section(self):
                self._codes = known
        return known[1]

    def _walk(self, queue, queue_id, at, most, codes, low, high, raw_bytes):
        """Take the units from queue offset `at` on; None at the first that the slow way must judge."""
        looked: cython.longlong = max(most, 1)
        if codes is not None:
            looked = max(looked, self._filtered)
        files: tuple = self._files.files
        if len(files) == 0:
            return None
        last: AppendTarget = files[len(files) - 1]
        log_end: cython.longlong = last.start + last.wrote
        stop: cython.longlong = min(at + looked, high, at - at % queue.units_per_file + queue.units_per_file)
        block: bytes = b""
        first: cython.longlong = at
        end: cython.longlong = at
        most_messages: cython.longlong
        most_bytes: cython.longlong
        count: cython.longlong = 0
        total: cython.longlong = 0
        following: cython.longlong = at
        messages: list = []
        p: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        while following < stop:
            if following >= end:
                first = queue._block_of(following)
                block = self._block(queue, first, following)
                if block is None:
                    return None
                end = first + len(block) // _UNIT
                p = cython.cast(cython.pointer(cython.const[cython.uchar]), PyBytes_AS_STRING(block))
            physical: cython.longlong = i64be(p, _UNIT * (following - first))
            size: cython.longlong = i32be(p, _UNIT * (following - first) + 8)
            if physical < 0 or size < _LEAST_RECORD or size > _MOST_RECORD:
                return None
            if count > 0:
                most_messages, most_bytes = self._disk_count, self._disk_bytes
                if log_end - physical <= self._young:
                    most_messages, most_bytes = self._memory_count, self._memory_bytes
                if raw_bytes >= 0:
                    most_bytes = min(most_bytes, raw_bytes)
                if count + 1 > min(max(most, 1), most_messages) or total + size > most_bytes:
                    break
            if codes is not None:
                tags_code: cython.longlong = i64be(p, _UNIT * (following - first) + 12)
                if tags_code <= _EXT_ADDRESS_LIMIT:
                    return None
                if not _is_wanted(codes, tags_code):
                    following += 1
                    continue
            if raw_bytes < 0:
                message = self._message_at(files, queue, queue_id, following, physical, size)
                if message is None:
                    return None
                messages.append(message)
            following += 1
            count += 1
            total += size
        status = self._found_status if count > 0 else self._unmatched_status
        if raw_bytes < 0:
            return self._answer(status, messages, following, low, high)
        data: bytes = self._records(files, queue, queue_id, at, following, codes, total)
        return None if data is None else self._raw_result(status, data, count, following, low, high)

    def _block(self, queue, first, following):
        """Return the block that begins at `first` if it has the unit of `following`; else None."""
        with cython.critical_section(queue.blocks):  # `get` borrows a reference, and a block may be dropped
            block = queue.blocks.get(first)
        if block is None or first + len(block) // _UNIT <= following:
            block = queue.read_block(following)
            if block is None or first + len(block) // _UNIT <= following:
                return None
        return block

    def _records(self, files, queue, queue_id, at, stop, codes, total):
        """Return the records of these queue offsets, `total` bytes, or None."""
        data: bytes = PyBytes_FromStringAndSize(cython.NULL, total)
        into: cython.pointer(cython.uchar) = cython.cast(cython.p_uchar, PyBytes_AS_STRING(data))
        block: bytes = b""
        first: cython.longlong = at
        end: cython.longlong = at
        done: cython.longlong = 0
        p: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        while at < stop:
            if at >= end:
                first = queue._block_of(at)
                block = self._block(queue, first, at)
                if block is None:
                    return None
                end = first + len(block) // _UNIT
                p = cython.cast(cython.pointer(cython.const[cython.uchar]), PyBytes_AS_STRING(block))
            unit: cython.longlong = _UNIT * (at - first)
            if codes is None or _is_wanted(codes, i64be(p, unit + 12)):
                size: cython.longlong = i32be(p, unit + 8)
                if size < _LEAST_RECORD or size > total - done:  # written again since the units were counted
                    return None
                if not self._copy_record(files, queue, queue_id, at, i64be(p, unit), size, into + done):
                    return None
                done += size
            at += 1
        return data if done == total else None

    def _message_at(self, files, queue, queue_id, offset, physical, size):
        """Return the message of a unit if its record is right and of this place; else None."""
        raw: bytes = PyBytes_FromStringAndSize(cython.NULL, size)
        p: cython.pointer(cython.uchar) = cython.cast(cython.p_uchar, PyBytes_AS_STRING(raw))
        if not self._copy_record(files, queue, queue_id, offset, physical, size, p):
            return None
        one: RecordBytes = self._message.__new__(self._message)
        one._raw, one._p, one._size = raw, p, size
        return one

    def _copy_record(self, files, queue, queue_id, offset, physical, size, p):
        """Copy the record of a unit; return whether it is right and of this place."""
        oldest: AppendTarget = files[0]
        number: cython.longlong = (physical - oldest.start) // self._file_size
        if physical < oldest.start or number >= len(files):
            return False
        file: AppendTarget = files[number]
        at: cython.longlong = physical - file.start
        limit: cython.longlong = file.committed if self.needs_commit else file.wrote
        if at < 0 or at > limit - size:
            return False
        got: cython.longlong = -1
        is_mapped: cython.bint = number == len(files) - 1 and not self.needs_commit
        asks: cython.bint = not is_mapped and self.asks_first
        fd: cython.int = file.fd if asks else -1
        with cython.critical_section(file):  # nothing in it calls Python, which could suspend it
            if file._p == cython.NULL:
                return False
            if is_mapped:
                copy_bytes(p, 0, file._p, at, size)
                got = size
            elif asks:
                got = fmq_read_now(fd, p, size, at)
        if got == -2:
            self.asks_first = False
        if got != size and not self._read(file, p, size, at):
            return False
        if _record(p, 0, size, size + _BLANK, physical, size, 1) != size:
            return False
        topic: cython.pointer(cython.const[cython.uchar]) = cython.cast(
            cython.pointer(cython.const[cython.uchar]), PyBytes_AS_STRING(queue.topic)
        )
        return _is_at_queue_offset(p, 0, size, topic, len(queue.topic), cython.cast(cython.int, queue_id), offset)

    def _read(self, file, p, size, at):
        """Read bytes of a file, and wait for the disk; return whether all came."""
        if not file.hold():
            return False
        try:
            fd: cython.int = file.fd
            with cython.nogil:
                got: cython.longlong = fmq_read(fd, p, size, at)
        finally:
            file.release()
        return got == size

    def _answer(self, status, messages, following, low, high):
        """Make a result. It is frozen, so its fields are set as its own constructor sets them."""
        answer = PyType_GenericAlloc(self._result, 0)
        PyObject_GenericSetAttr(answer, "status", status)
        PyObject_GenericSetAttr(answer, "messages", messages)
        PyObject_GenericSetAttr(answer, "next_begin_offset", following)
        PyObject_GenericSetAttr(answer, "min_offset", low)
        PyObject_GenericSetAttr(answer, "max_offset", high)
        return answer


def _is_wanted(codes, tags_code):
    """Return whether the lower 32 bits of a tags field are one of these hashes."""
    p: cython.pointer(cython.const[cython.uchar]) = cython.cast(
        cython.pointer(cython.const[cython.uchar]), PyBytes_AS_STRING(codes)
    )
    i: cython.Py_ssize_t
    for i in range(0, len(codes), 4):
        if i32be(p, i) == cython.cast(cython.int, tags_code):
            return True
    return False

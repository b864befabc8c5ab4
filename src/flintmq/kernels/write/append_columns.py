# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Appends many messages of one topic given as Arrow columns: no object a row, no GIL.

The buffers belong to the caller, who may write to them during a call (the GIL is released) and must be free to do so
once it has returned. So every number that decides where bytes are is copied before it is checked: where rows begin,
which rows have a value, queue ids, times. Only texts and bodies are read from the caller, and every byte that matters
only once: properties are checked and hashed in a buffer of this module, and a body's checksum is computed from the
bytes in the log.

Only compiled; otherwise store/append/columns.py puts the rows one by one.
"""

from array import array

import cython

if not cython.compiled:  # nothing here runs uncompiled
    from flintmq.kernels.write.fast_append import Appender, AppendTarget, QueueCounter, _is_unique_key, _special

    all_ascii = any_below = bytes_of = copy_bytes = hash_text = put_blank_record = put_record = None
    fence_release = put_unique_key = put_unit = record_size = room_of = u32be = Ints = Longs = None

COMPILED = cython.compiled
QUEUES = 65_536  # queue ids below this can be put as a column

# Faults of a row that `check` finds.
GOOD = 0
ILLEGAL = 1  # a wrong body or queue id, a record that is too large, or a byte that no property string can contain
LONG = 2  # the property string is too long
RESERVED = 3  # a property that has a column of its own, or one that delays the message

_MOST_PROPERTIES = cython.declare(cython.longlong, 32767)
_QUEUES = cython.declare(cython.longlong, 65536)
_UNIQUE_SIZE = cython.declare(cython.longlong, 42)
_NO_CODE = cython.declare(cython.longlong, 0x4000000000000000)


@cython.final
@cython.cclass
class Texts:
    """A column of bytes in Arrow's form. All but the data is copied, and the copy is used.

    Args:
        data: the bytes of all rows.
        offsets: int32, or int64 if `wide`, in the machine's byte order: begin of each row, and end of the last one.
        valid: one bit a row, the lowest first; empty if all rows have a value.
        wide: the offsets are int64.
        first, rows: use the rows [first, first + rows).

    Raises:
        ValueError: the buffers do not hold these rows.
    """

    def __init__(
        self,
        data: cython.const[cython.uchar][::1],
        offsets: cython.const[cython.uchar][::1],
        valid: cython.const[cython.uchar][::1],
        wide: cython.bint,
        first: cython.longlong,
        rows: cython.longlong,
    ) -> None:
        if first < 0 or rows < 0 or first > (1 << 40) or rows > (1 << 40):
            raise ValueError("first and rows must not be negative")
        if len(offsets) < (first + rows + 1) * (8 if wide else 4):
            raise ValueError("the offsets have fewer entries than the column has rows")
        if 0 < len(valid) * 8 < first + rows:
            raise ValueError("the validity has fewer bits than the column has rows")
        width: cython.longlong = 8 if wide else 4
        self._data, self._rows, self._shift = data, rows, first & 7
        self._offsets = bytes(offsets[first * width : (first + rows + 1) * width])
        self._valid = bytes(valid[first >> 3 : (first + rows + 7) >> 3])
        self._p = bytes_of(data)
        self._valid_p = cython.NULL
        self._narrow_p = cython.NULL
        self._wide_p = cython.NULL
        if len(valid) > 0:
            self._valid_p = cython.cast(cython.pointer(cython.const[cython.uchar]), self._valid)
        if wide:
            self._wide_p = cython.cast(Longs, cython.cast(cython.p_uchar, self._offsets))
        else:
            self._narrow_p = cython.cast(Ints, cython.cast(cython.p_uchar, self._offsets))
        i: cython.longlong
        last: cython.longlong = 0
        good: cython.bint = True
        with cython.nogil:
            for i in range(rows + 1):
                if self._offset(i) < last:
                    good = False
                last = self._offset(i)
        if not good or last > len(data):
            raise ValueError("the offsets step back or point beyond the data")

    def _offset(self, i):
        return self._wide_p[i] if self._wide_p != cython.NULL else self._narrow_p[i]

    def _size(self, i):
        """Return the size of row i; 0 if it has no value."""
        bit: cython.longlong = self._shift + i
        if self._valid_p != cython.NULL and not self._valid_p[bit >> 3] >> (bit & 7) & 1:
            return 0
        return self._offset(i + 1) - self._offset(i)


@cython.final
@cython.cclass
class Columns:
    """The messages of one topic as columns.

    Args:
        topic: its bytes.
        bodies: a column.
        tags, keys: columns, or None. A row without a value, or with an empty one, has none.
        maps: a column whose offsets are those of the rows' entries in names and values (its data are not read), or
            None.
        names, values: columns of the properties.
        queue_ids: one a row; empty for queue 0.
        born_times: ms, one a row; empty for the store's clock.
        unique_prefix, unique_first: prefix and number of the first row's unique key; each further row has the next
            number. An empty prefix: the store adds no keys.

    Attributes:
        rows: their number.
        written_end, rows_end: positions in the file after the last byte that `put` wrote, and after its last row.
        changed: fault that `put` found in the row at which it stopped although `check` had found it good: the caller
            changed it meanwhile. GOOD if none.

    Raises:
        ValueError: the columns have different numbers of rows, or the prefix has another size.
    """

    def __init__(
        self,
        topic: bytes,
        bodies: Texts,
        tags,
        keys,
        maps,
        names,
        values,
        queue_ids: cython.const[cython.int][::1],
        born_times: cython.const[cython.longlong][::1],
        unique_prefix: bytes = b"",
        unique_first: cython.longlong = 0,
    ) -> None:
        self._topic, self._bodies, self._tags, self._keys = topic, bodies, tags, keys
        self._maps, self._names, self._values = maps, names, values
        if len(unique_prefix) not in (0, 20):
            raise ValueError("a prefix has 20 digits")
        self._unique, self._unique_first, self._keyed = unique_prefix, unique_first, len(unique_prefix) > 0
        self._unique_p = cython.cast(cython.pointer(cython.const[cython.uchar]), unique_prefix)
        self._plain = tags is None and keys is None and maps is None and not self._keyed
        self.rows, self._topic_size, self.changed = bodies._rows, len(topic), 0
        for column in (tags, keys, maps):
            if column is not None and cython.cast(Texts, column)._rows != self.rows:
                raise ValueError("the columns have different numbers of rows")
        if len(queue_ids) not in (0, self.rows) or len(born_times) not in (0, self.rows):
            raise ValueError("the columns have different numbers of rows")
        self._queue_ids = cython.NULL
        self._born_times = cython.NULL
        if len(queue_ids) > 0:
            self._numbers = bytes(queue_ids)
            self._queue_ids = cython.cast(Ints, cython.cast(cython.p_uchar, self._numbers))
        if len(born_times) > 0:
            self._times = bytes(born_times)
            self._born_times = cython.cast(Longs, cython.cast(cython.p_uchar, self._times))
        self._codes = array("q", bytes(8 * self.rows if tags is not None and keys is None and maps is None else 0))
        if maps is not None and not self._maps._offset(self.rows) <= self._names._rows == self._values._rows:
            raise ValueError("the properties' names and values are fewer than their rows say")

    def check(
        self, max_body: cython.longlong, file_size: cython.longlong, crc_property: cython.bint, seen: cython.uchar[::1]
    ):
        """Check whether every row makes a record.

        Args:
            max_body: bytes of the largest body.
            file_size: of a log file.
            crc_property: records end with the checksum property.
            seen: QUEUES bytes; receives 1 for each queue id that occurs.

        Returns:
            (row, fault): the first bad row and ILLEGAL, LONG or RESERVED; (rows, GOOD) if there is none.
        """
        i: cython.longlong = 0
        what: cython.int = 0
        if len(seen) < _QUEUES:
            raise ValueError("seen is too small")
        self._last_queue = 0
        fixed: cython.longlong = record_size(0, self._topic_size, 20 if self._plain and crc_property else 0, 0x30)
        most: cython.longlong = min(max_body, file_size - 8 - fixed)
        with cython.nogil:
            if self._plain and self._queue_ids == cython.NULL:  # only the bodies can be wrong
                while i < self.rows and self._bodies._size(i) <= most:
                    i += 1
                what = 1 if i < self.rows else 0
                seen[0] = self.rows > 0
            while i < self.rows and what == 0:
                what = self._judge(i, fixed, max_body, file_size, crc_property)
                if what != 0:
                    break
                seen[self._queue_id(i)] = 1
                if self._queue_id(i) > self._last_queue:
                    self._last_queue = self._queue_id(i)
                i += 1
        self._good = what == 0
        return i, what

    def _queue_id(self, i):
        return self._queue_ids[i] if self._queue_ids != cython.NULL else 0

    def _judge(self, i, fixed, max_body, file_size, crc_property):
        """Return the fault of a row, whose record has `fixed` bytes besides body and properties."""
        size: cython.longlong = 0
        k: cython.longlong
        keyed: cython.bint = self._keyed
        if self._bodies._size(i) > max_body or not 0 <= self._queue_id(i) < _QUEUES:
            return 1
        if self._plain:
            return 1 if self._bodies._size(i) + fixed > file_size - 8 else 0
        if self._maps is not None and self._maps._size(i) > 0:
            for k in range(self._maps._offset(i), self._maps._offset(i + 1)):
                n: cython.longlong = self._names._size(k)
                if n >= 4 and _special(u32be(self._names._p, self._names._offset(k))):
                    return 3
                if n == 8 and _is_unique_key(self._names._p, self._names._offset(k)):
                    keyed = False
                size += n + self._values._size(k) + 2
                if size > _MOST_PROPERTIES:
                    return 2
                if _is_odd(self._names, k) or _is_odd(self._values, k):
                    return 1
        if keyed:
            size += _UNIQUE_SIZE
        if self._keys is not None:
            n = self._keys._size(i)
            size += n + 6 if n > 0 else 0
            if _is_odd(self._keys, i):
                return 1
        if self._tags is not None:
            n = self._tags._size(i)
            size += n + 6 if n > 0 else 0
            if _is_odd(self._tags, i):
                return 1
        if size > _MOST_PROPERTIES:
            return 2
        size += 20 if crc_property else 0
        if size > _MOST_PROPERTIES or self._bodies._size(i) + size + fixed > file_size - 8:
            return 1
        return 0

    def _encode(self, i):
        """Encode the property string of a checked row into the scratch buffer; return its size.

        -1 if the row is not good any more; `changed` is then set. The sizes are copies and cannot have changed. Only a
        unique key may have disappeared since the check; the row then gets one of the store's.
        """
        n: cython.longlong = 0
        keyed: cython.bint = self._keyed
        k: cython.longlong
        self.changed = 0
        if self._maps is not None and self._maps._size(i) > 0:
            for k in range(self._maps._offset(i), self._maps._offset(i + 1)):
                size: cython.longlong = self._names._size(k)
                copy_bytes(self._scratch, n, self._names._p, self._names._offset(k), size)
                if size >= 4 and _special(u32be(self._scratch, n)):
                    self.changed = 3
                if size == 8 and _is_unique_key(self._scratch, n):
                    keyed = False
                if any_below(self._scratch, n, size, 3):
                    self.changed = 1
                n += size
                self._scratch[n] = 1
                n = self._value(n + 1, self._values, k)
        if keyed:
            put_unique_key(self._scratch, n, self._unique_p, self._unique_first + i)
            n += _UNIQUE_SIZE
            if n > _MOST_PROPERTIES:
                self.changed = 2
                return -1
        if self._keys is not None and self._keys._size(i) > 0:
            copy_bytes(self._scratch, n, cython.cast(cython.pointer(cython.const[cython.uchar]), b"KEYS\x01"), 0, 5)
            n = self._value(n + 5, self._keys, i)
        if self._tags is not None and self._tags._size(i) > 0:
            copy_bytes(self._scratch, n, cython.cast(cython.pointer(cython.const[cython.uchar]), b"TAGS\x01"), 0, 5)
            size = self._tags._size(i)
            n = self._value(n + 5, self._tags, i)
            if len(self._codes) > 0:  # then dispatch takes the code from here
                self._codes[i] = _tag_code(self._scratch, n - 1 - size, size)
        return n if self.changed == 0 else -1

    def _value(self, n, values, k):
        """Copy a value after the first n bytes, and check the copy; return the new size."""
        size: cython.longlong = values._size(k)
        copy_bytes(self._scratch, n, values._p, values._offset(k), size)
        if any_below(self._scratch, n, size, 3):
            self.changed = 1
        self._scratch[n + size] = 2
        return n + size + 1

    def put(
        self,
        appender: Appender,
        file: AppendTarget,
        row: cython.longlong,
        store_time: cython.longlong,
        most: cython.longlong,
        places: dict,
        next_offsets: cython.longlong[::1],
    ):
        """Write records until `most` bytes are written, or the window or the file is full.

        Before this returns it moves the file's end, the log's end and the queues' next offsets, under the GIL again, so
        that readers find whole records only. A file that is full gets its blank record.

        Args:
            appender: of the log. The caller holds the put lock and has set `held`, so no fast put runs while the GIL is
                released.
            file: its last file; it stays mapped meanwhile.
            row: first row; `check` found all rows good.
            store_time: ms.
            most: about how many bytes to write.
            places: queue id -> QueueCounter of every queue id that occurs.
            next_offsets: scratch array with an entry for each queue id from 0 to the largest that occurs.

        Returns:
            The first row that is not written; `changed` is set if the caller changed that row. If the file is full,
            `file.wrote` is `file.size`.

        Raises:
            ValueError: the rows are not checked, the file is not mapped, or an argument is out of range.
        """
        if (
            not self._good
            or file._p == cython.NULL
            or row < 0
            or len(next_offsets) <= self._last_queue
            or file.size - file._wrote < 8
        ):
            raise ValueError("unchecked rows, a file that takes no records, or an argument out of range")
        at: cython.longlong = file._wrote
        p: cython.p_uchar = file._p + (file._place(at) - at)  # what is reserved is contiguous, in a ring too
        topic: cython.p_uchar = cython.cast(cython.p_uchar, self._topic)
        hosts: cython.p_uchar = cython.cast(cython.p_uchar, appender._hosts)
        topic_size: cython.longlong = self._topic_size
        born_host: cython.longlong = len(appender._host)
        bits: cython.int = cython.cast(cython.int, appender._host_flags)
        crc_property: cython.bint = appender._crc_property
        fixed: cython.longlong = record_size(0, topic_size, 20 if crc_property else 0, bits)
        extra: cython.longlong = 20 if crc_property else 0
        self._fixed = fixed
        begin: cython.longlong = at
        written_end: cython.longlong = at
        rows_end: cython.longlong = at
        place: QueueCounter
        for number, place in places.items():
            next_offsets[number] = place.next
        with cython.nogil:
            while row < self.rows and at - begin < most:
                properties: cython.longlong = 0 if self._plain else self._encode(row)
                if properties < 0:
                    break
                body: cython.longlong = self._bodies._size(row)
                queue_id: cython.int = self._queue_id(row)
                size: cython.longlong = body + properties + fixed
                if self._keyed and (size > file.size - 8 or properties + extra > _MOST_PROPERTIES):
                    self.changed = 1  # it had a unique key when it was checked
                    break
                if size > file.size - 8 - at:
                    put_blank_record(p, at, file.size - at)
                    written_end = at + 8
                    file.filler = file.size - written_end
                    at = file.size
                    break
                if size > file.reserved - at:
                    break
                put_record(
                    p, at, file.start + at, self._bodies._p, self._bodies._offset(row), body, topic, 0, topic_size,
                    self._scratch, 0, properties, hosts, 0, born_host, queue_id, next_offsets[queue_id], 0, bits,
                    self._born_times[row] if self._born_times != cython.NULL else store_time, store_time, 0, 0,
                    crc_property,
                )  # fmt: skip
                next_offsets[queue_id] += 1
                at += size
                written_end = rows_end = at
                row += 1
        for number, place in places.items():
            place.next = next_offsets[number]
        fence_release()  # who sees the end sees the records
        file.wrote = at
        appender.last_time = store_time
        fence_release()
        appender.end = file.start + at
        self.written_end, self.rows_end = written_end, rows_end
        return row

    def let_go(self) -> None:
        """Release the caller's texts and bodies; `put` may not be called any more, `units` may."""
        self._good = False
        for column in (self._bodies, self._tags, self._keys, self._names, self._values):
            if column is not None:
                cython.cast(Texts, column)._data = None
                cython.cast(Texts, column)._p = cython.NULL

    def units(
        self,
        row: cython.longlong,
        end: cython.longlong,
        physical_offset: cython.longlong,
        store_time: cython.longlong,
        numbers: cython.const[cython.int][::1],
        next_offsets: cython.longlong[::1],
        unit_queue: cython.int[::1],
        unit_offset: cython.longlong[::1],
        unit_time: cython.longlong[::1],
        unit_bytes: cython.uchar[::1],
        indexed: cython.bint = True,
    ):
        """Make the consume queue units of rows that `put` wrote, without reading their records.

        Args:
            row, end, physical_offset, store_time: the rows [row, end), contiguous in the log; log offset of the first;
                ms.
            numbers: number of the queue by queue id.
            next_offsets: by queue id, the queue offset of its first row here; updated.
            unit_queue, unit_offset, unit_time, unit_bytes: receive the units, see kernels.read.derive.derive.
            indexed: unique keys must be indexed too, which needs the records.

        Returns:
            Log offset of the last row's record; -1 if the records must be read: a row has a tag that is not ASCII or
            properties besides a tag, or a unique key that must be indexed.

        Raises:
            ValueError: rows that `put` did not write, or arrays that are too small.
        """
        n: cython.longlong = end - row
        if (
            self._fixed == 0
            or row < 0
            or not 0 < n <= self.rows - row
            or min(len(numbers), len(next_offsets)) <= self._last_queue
            or min(len(unit_queue), len(unit_offset), len(unit_time)) < n
            or len(unit_bytes) < 20 * n
        ):
            raise ValueError("rows that were not written, or arrays that are too small")
        if self._keys is not None or self._maps is not None or (self._keyed and indexed):
            return -1
        k: cython.longlong = 0
        last: cython.longlong = physical_offset
        code: cython.longlong = 0
        unique: cython.longlong = _UNIQUE_SIZE if self._keyed else 0
        to = room_of(unit_bytes)
        with cython.nogil:
            while row < end:
                tag: cython.longlong = self._tags._size(row) if self._tags is not None else 0
                properties: cython.longlong = unique + (tag + 6 if tag > 0 else 0)
                if tag > 0:
                    code = self._codes[row]
                    if code == _NO_CODE:
                        last = -1
                        break
                else:
                    code = 0
                queue_id: cython.int = self._queue_id(row)
                last = physical_offset
                unit_queue[k] = numbers[queue_id]
                unit_offset[k] = next_offsets[queue_id]
                unit_time[k] = store_time
                put_unit(to, 20 * k, physical_offset, self._bodies._size(row) + properties + self._fixed, code)
                physical_offset += self._bodies._size(row) + properties + self._fixed
                next_offsets[queue_id] += 1
                row += 1
                k += 1
        return last


def _tag_code(p, at, size):
    """Return the hash of a tag for its queue unit; _NO_CODE if the tag is not ASCII."""
    if not all_ascii(p, at, size):
        return _NO_CODE
    code: cython.longlong = hash_text(0, p, at, size)
    return code - ((code >> 31) << 32)  # Java's int


def _is_odd(column, i):
    """Return whether a value has a byte that no property string can contain."""
    return any_below(column._p, column._offset(i), column._size(i), 3)

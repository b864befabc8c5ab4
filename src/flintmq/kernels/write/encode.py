# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Encodes messages into a commit log: record after record, then a blank record.

Layout and roll-over: docs/internals/format/commit-log.md (a record must leave 8 bytes of its file free). Messages come
as columns. A column of bytes is one buffer and two arrays, the begin and end of each row's bytes, so that rows may
share bytes and an Arrow column fits unchanged: its offsets without the last, and without the first.

V2, with two bytes for the length of the topic, is used from 128 bytes of topic on. Upstream's MessageExtEncoder decides
by characters; where the two differ it writes records that cannot be read.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, copy_bytes, crc32_of, put16be, put32be, put64be, room_of

# Why a call ended.
DONE = 0  # all rows are written
ROOM = 1  # the buffer is full: write it out and continue with the row at its start
ROLL = 2  # the file is full and its blank record is written: continue with the row in the next file
REFUSED = 3  # the row makes no valid record; nothing of it is written

CRC_PROPERTY = 1  # flag: end each record with the checksum property

_DONE = cython.declare(cython.int, 0)
_ROOM = cython.declare(cython.int, 1)
_ROLL = cython.declare(cython.int, 2)
_REFUSED = cython.declare(cython.int, 3)

_V1 = cython.declare(cython.longlong, 0xDAA320A7)
_V2 = cython.declare(cython.longlong, 0xDAA320AB)
_BLANK_MAGIC = cython.declare(cython.longlong, 0xCBD43194)

_CRC_NAME = cython.declare(cython.longlong, 0x5F5F435243333223)  # "__CRC32#"


def record_size(body, topic, properties, sys_flag):
    """Return the size of a record with parts of these sizes."""
    hosts: cython.longlong = 16 + (12 if sys_flag & 16 else 0) + (12 if sys_flag & 32 else 0)
    return 75 + hosts + (1 if topic > 127 else 0) + body + topic + properties


def crc_property_room(properties, at, size):
    """Return the bytes that the checksum property adds: 20, and 1 for a missing separator."""
    return 21 if size > 0 and properties[at + size - 1] != 2 else 20


def put_record(
    out, at, physical_offset, bodies, body_at, body, topics, topic_at, topic, properties, properties_at,
    properties_size, hosts, born_host_at, store_host_at, queue_id, queue_offset, flag, sys_flag, born_time, store_time,
    reconsumed, prepared_offset, crc_property,
):  # fmt: skip
    """Write one record at out[at] and return the position after it.

    The caller has checked all sizes and the room.
    """
    start: cython.longlong = at
    extra: cython.longlong = crc_property_room(properties, properties_at, properties_size) if crc_property else 0
    size: cython.longlong = record_size(body, topic, properties_size + extra, sys_flag)
    put32be(out, at, size)
    put32be(out, at + 4, _V2 if topic > 127 else _V1)
    put32be(out, at + 12, queue_id)
    put32be(out, at + 16, flag)
    put64be(out, at + 20, queue_offset)
    put64be(out, at + 28, physical_offset)
    put32be(out, at + 36, sys_flag)
    put64be(out, at + 40, born_time)
    at += 48
    width: cython.longlong = 20 if sys_flag & 16 else 8
    copy_bytes(out, at, hosts, born_host_at, width)
    put64be(out, at + width, store_time)
    at += width + 8
    width = 20 if sys_flag & 32 else 8
    copy_bytes(out, at, hosts, store_host_at, width)
    at += width
    put32be(out, at, reconsumed)
    put64be(out, at + 4, prepared_offset)
    put32be(out, at + 12, body)
    at += 16
    if body > 0:
        copy_bytes(out, at, bodies, body_at, body)
    put32be(out, start + 8, crc32_of(out, at, body) & 0x7FFFFFFF if body > 0 else 0)  # of the copy: nobody changes it
    at += body
    if topic > 127:
        put16be(out, at, topic)
        at += 2
    else:
        out[at] = topic
        at += 1
    if topic > 0:
        copy_bytes(out, at, topics, topic_at, topic)
        at += topic
    put16be(out, at, properties_size + extra)
    at += 2
    if properties_size > 0:
        copy_bytes(out, at, properties, properties_at, properties_size)
        at += properties_size
    if crc_property:
        if extra == 21:
            out[at] = 2
            at += 1
        at = _put_crc_property(out, start, at)
    return at


def _put_crc_property(out, start, at):
    """Write `__CRC32#`, 0x01, ten decimal digits with the least significant first, 0x02."""
    crc: cython.longlong = crc32_of(out, start, at - start) & 0x7FFFFFFF
    i: cython.int
    put64be(out, at, _CRC_NAME)
    out[at + 8] = 1
    for i in range(10):
        out[at + 9 + i] = 48 + crc % 10
        crc = crc // 10
    out[at + 19] = 2
    return at + 20


def _part(start, end, length):
    """Return the size of the part [start, end) of a buffer, or -1 if it is not inside."""
    return end - start if 0 <= start <= end <= length else -1


@cython.boundscheck(False)  # each column is compared with `last` before the loop
def append(
    out: cython.uchar[::1],
    at: cython.longlong,
    file_end: cython.longlong,
    base: cython.longlong,
    first: cython.longlong,
    last: cython.longlong,
    reserve: cython.longlong,
    max_size: cython.longlong,
    flags: cython.int,
    bodies: cython.const[cython.uchar][::1],
    body_starts: cython.const[cython.longlong][::1],
    body_ends: cython.const[cython.longlong][::1],
    topics: cython.const[cython.uchar][::1],
    topic_starts: cython.const[cython.longlong][::1],
    topic_ends: cython.const[cython.longlong][::1],
    properties: cython.const[cython.uchar][::1],
    properties_starts: cython.const[cython.longlong][::1],
    properties_ends: cython.const[cython.longlong][::1],
    hosts: cython.const[cython.uchar][::1],
    born_host_starts: cython.const[cython.longlong][::1],
    store_host_starts: cython.const[cython.longlong][::1],
    queue_ids: cython.const[cython.int][::1],
    queue_offsets: cython.const[cython.longlong][::1],
    message_flags: cython.const[cython.int][::1],
    sys_flags: cython.const[cython.int][::1],
    born_times: cython.const[cython.longlong][::1],
    store_times: cython.const[cython.longlong][::1],
    reconsumed: cython.const[cython.int][::1],
    prepared_offsets: cython.const[cython.longlong][::1],
    physical_offsets: cython.longlong[::1],
):
    """Write the records of rows [first, last) until the rows, the buffer or the file ends.

    Args:
        out: receives the bytes of one commit log file, from log offset `base` on.
        at: where in `out` the first record begins.
        file_end: position in `out` of the end of the commit log file (may exceed the buffer).
        base: log offset of out[0].
        first, last: rows to write.
        reserve: roll over unless a record of this many bytes would fit too: the sum of a batch that must not be split
            between files, or 0. Counts for the first row only.
        max_size: largest record in bytes that is written.
        flags: 0 or CRC_PROPERTY.
        bodies, body_starts, body_ends: row i has the body bodies[body_starts[i]:body_ends[i]]; topics and properties
            likewise. Properties are encoded property strings.
        hosts, born_host_starts, store_host_starts: raw addresses and ports at these positions of `hosts`, 8 bytes each,
            or 20 if the row's system flag says IPv6.
        queue_ids, queue_offsets, message_flags, sys_flags, born_times, store_times, reconsumed, prepared_offsets: the
            numbers of a record, times in ms.
        physical_offsets: receives the log offset of each row's record, at the row's own index.

    Returns:
        (row, at, status): the first row that is not written, the position after the last byte written, and DONE, ROOM,
        ROLL (after the 8 bytes of the blank record, which holds the rest of the file) or REFUSED (a part is outside its
        buffer or too long for its length field, or the record is larger than max_size).

    Raises:
        ValueError: `at` is outside the buffer, or less than 8 bytes before the end of the file; a column is shorter
            than `last`.
    """
    if at < 0 or at > len(out) or file_end < at + 8 or first < 0 or first > last:
        raise ValueError("at must lie in the buffer and 8 bytes before the end of the file, first not after last")
    shortest: cython.Py_ssize_t = min(
        len(body_starts), len(body_ends), len(topic_starts), len(topic_ends),
        len(properties_starts), len(properties_ends), len(born_host_starts), len(store_host_starts),
        len(queue_ids), len(queue_offsets), len(message_flags), len(sys_flags), len(born_times),
        len(store_times), len(reconsumed), len(prepared_offsets), len(physical_offsets),
    )  # fmt: skip
    if shortest < last:
        raise ValueError("a column has fewer rows than are to be written")
    if len(out) == 0:
        return first, at, (_DONE if first == last else _ROOM)
    row: cython.longlong = first
    status: cython.int = _DONE
    host_end: cython.longlong = len(hosts)
    with_crc: cython.bint = (flags & 1) != 0
    p, body_p, topic_p = room_of(out), bytes_of(bodies), bytes_of(topics)
    props_p, host_p = bytes_of(properties), bytes_of(hosts)
    with cython.nogil:
        while row < last:
            body: cython.longlong = _part(body_starts[row], body_ends[row], len(bodies))
            topic: cython.longlong = _part(topic_starts[row], topic_ends[row], len(topics))
            props: cython.longlong = _part(properties_starts[row], properties_ends[row], len(properties))
            if (
                body < 0
                or body > max_size
                or topic < 0
                or topic > 32767
                or props < 0
                or props + (crc_property_room(props_p, properties_starts[row], props) if with_crc else 0) > 32767
                or not 0 <= born_host_starts[row] <= host_end - (20 if sys_flags[row] & 16 else 8)
                or not 0 <= store_host_starts[row] <= host_end - (20 if sys_flags[row] & 32 else 8)
            ):
                status = _REFUSED
                break
            size: cython.longlong = record_size(body, topic, props, sys_flags[row])
            if with_crc:
                size += crc_property_room(props_p, properties_starts[row], props)
            if size > max_size:
                status = _REFUSED
                break
            if size > file_end - at - 8 or (row == first and reserve > file_end - at - 8):
                status = _ROLL if len(out) - at >= 8 else _ROOM
                break
            if size > len(out) - at:
                status = _ROOM
                break
            physical_offsets[row] = base + at
            at = put_record(
                p, at, base + at, body_p, body_starts[row], body, topic_p, topic_starts[row], topic,
                props_p, properties_starts[row], props, host_p, born_host_starts[row], store_host_starts[row],
                queue_ids[row], queue_offsets[row], message_flags[row], sys_flags[row], born_times[row],
                store_times[row], reconsumed[row], prepared_offsets[row], with_crc,
            )  # fmt: skip
            row += 1
        if status == _ROLL:
            put_blank_record(p, at, file_end - at)
            at += 8
    return row, at, status


def put_blank_record(out, at, left):
    """Write the 8 bytes of the blank record that ends a file with `left` unused bytes."""
    put32be(out, at, left)
    put32be(out, at + 4, _BLANK_MAGIC)


def size_of(body: cython.longlong, topic: cython.longlong, properties: cython.longlong, sys_flag: cython.int):
    """Return the size of a record with parts of these sizes, without a checksum property."""
    return record_size(body, topic, properties, sys_flag)

# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Encodes one message into a mapped log file, or a blank record if the file is full."""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, room_of
    from flintmq.kernels.write.encode import crc_property_room, put_blank_record, put_record, record_size

FULL = -1  # the record does not fit: the blank record is written
REFUSED = -2  # no log file can hold it, or a part is too long for its length field


def encode(
    out: cython.uchar[::1],
    at: cython.longlong,
    physical_offset: cython.longlong,
    body: cython.const[cython.uchar][::1],
    topic: cython.const[cython.uchar][::1],
    properties: cython.const[cython.uchar][::1],
    hosts: cython.const[cython.uchar][::1],
    queue_id: cython.longlong,
    queue_offset: cython.longlong,
    flag: cython.longlong,
    sys_flag: cython.longlong,
    born_time: cython.longlong,
    store_time: cython.longlong,
    reconsumed: cython.longlong,
    prepared_offset: cython.longlong,
    crc_property: cython.bint,
    left: cython.longlong = -1,
    file_size: cython.longlong = -1,
):
    """Write one record at out[at].

    Args:
        out: a whole commit log file, writable; with `left` and `file_size` any memory.
        at: where the record begins.
        physical_offset: its log offset.
        body, topic, properties: the parts, encoded.
        hosts: raw born host, then raw store host, 8 or 20 bytes each according to sys_flag.
        queue_id, queue_offset, flag, sys_flag, born_time, store_time, reconsumed, prepared_offset: stored unchanged.
        crc_property: end the record with the checksum property (store format 3.7).
        left: bytes of the file from the record on; -1: as many as `out` has.
        file_size: bytes of the file; -1: as many as `out` has.

    Returns:
        The position after the record; FULL; or REFUSED, with nothing written.

    Raises:
        ValueError: `at` leaves less than 8 bytes of the file, the record goes over the end of `out`, or the hosts are
            shorter than sys_flag says.
    """
    room: cython.longlong = len(out) - at
    left = room if left < 0 else left
    file_size = len(out) if file_size < 0 else file_size
    born: cython.longlong = 20 if sys_flag & 16 else 8
    if at < 0 or room < 8 or left < 8 or len(hosts) < born + (20 if sys_flag & 32 else 8):
        raise ValueError("a record begins 8 bytes before the file's end at the latest, and has two hosts")
    p, bp, tp = room_of(out), bytes_of(body), bytes_of(topic)
    pp, hp = bytes_of(properties), bytes_of(hosts)
    extra: cython.longlong = crc_property_room(pp, 0, len(properties)) if crc_property else 0
    if len(topic) > 32767 or len(properties) + extra > 32767 or len(body) > 0x7FFFFFF0:
        return REFUSED
    bits: cython.int = cython.cast(cython.int, sys_flag)
    size: cython.longlong = record_size(len(body), len(topic), len(properties) + extra, bits)
    if size + 8 > file_size:
        return REFUSED
    if size + 8 > left:
        put_blank_record(p, at, left)
        return FULL
    if size > room:
        raise ValueError("the record goes over the end of the memory")
    return put_record(
        p, at, physical_offset, bp, 0, len(body), tp, 0, len(topic), pp, 0, len(properties), hp, 0, born,
        cython.cast(cython.int, queue_id), queue_offset, cython.cast(cython.int, flag), bits, born_time, store_time,
        cython.cast(cython.int, reconsumed), prepared_offset, crc_property,
    )  # fmt: skip

# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Reads the frame of a plain pull into its values, and writes the frame of its answer.

remoting/frames.py is the reference: what is not plain is left to it, and what is plain gives the same. Plain is what
stock clients ask all day: PULL_MESSAGE or LITE_PULL_MESSAGE, with a ROCKETMQ header, or a JSON header without spaces,
its code first. Fields come in any order. Those that a pull has no use for are passed over, the others are there once.
Texts are UTF-8, in JSON without escapes; numbers have at most 18 digits.

Every length of a frame is compared with the bytes at hand before it is used. Uncompiled this takes longer than the
reference does, so whoever reads frames asks `flintmq.kernels.compiled` first.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, i16be, i32be, put32be, same_bytes, u32be
    from flintmq.kernels.read.fetch import _copy
    from flintmq.kernels.read.json_line import _put_number
    from flintmq.kernels.read.record_parts import is_utf8
    from flintmq.kernels.write.send_frame import _is_int32, _members, _number, _put_piece, _starts, _text, _text_end

_FRAME_MAX = cython.declare(cython.longlong, 16 << 20)  # of what follows the first four bytes
_HEADER_MAX = cython.declare(cython.longlong, 1 << 16)
_ONE_WAY = cython.declare(cython.longlong, 2)
_PULL = cython.declare(cython.longlong, 11)
_PULL_LITE = cython.declare(cython.longlong, 361)
_HEAD = cython.declare(cython.longlong, 17)  # bytes of a ROCKETMQ header before its remark


def read(data: cython.const[cython.uchar][::1], at: cython.longlong, defaults: tuple):
    """Read the frame that begins at data[at], if it is whole and a plain pull.

    Args:
        defaults: of the fields, in the order of `_field`; None of those that must be there.

    Returns:
        (end, values): the position after the frame; code, number of the request, flag (0, or 2: it wants no answer),
        and the fields. None: read it with remoting/frames.py.
    """
    p = bytes_of(data)
    limit: cython.longlong = len(data)
    if at < 0 or limit - at < 8:
        return None
    total: cython.longlong = u32be(p, at)
    kind: cython.longlong = p[at + 4]
    size: cython.longlong = u32be(p, at + 4) & 0xFFFFFF
    if total > _FRAME_MAX or total > limit - at - 4 or size > _HEADER_MAX or size > total - 4:
        return None
    spans = cython.declare(cython.longlong[24])  # begin and end of each field's value; 0: it is not there
    numbers = cython.declare(cython.longlong[16])  # of the header: flag, opaque, version, members seen; of the fields
    k: cython.int
    for k in range(24):
        spans[k] = 0
    code: cython.longlong = 0
    if kind == 0:
        code = _json(p, at + 8, at + 8 + size, spans, numbers)
    elif kind == 1:
        code = _rocketmq(p, at + 8, at + 8 + size, spans, numbers)
    if code == 0 or (numbers[0] != 0 and numbers[0] != _ONE_WAY) or not _fields_are_plain(p, spans, numbers):
        return None
    for k in range(12):
        if spans[2 * k] == 0:
            told = defaults[k]
            if told is None:
                return None
            if not _is_text(k):
                numbers[4 + k] = told
    subscription = defaults[8] if spans[16] == 0 else _text(p, spans[16], spans[17])
    expression_type = defaults[10] if spans[20] == 0 else _text(p, spans[20], spans[21])
    values = (
        code, numbers[1], numbers[0], _text(p, spans[0], spans[1]), _text(p, spans[2], spans[3]),
        numbers[6], numbers[7], numbers[8], numbers[9], numbers[10], numbers[11],
        subscription, numbers[13], expression_type, numbers[15],
    )  # fmt: skip
    return at + 4 + total, values


def answer(
    pieces: tuple,
    opaque: cython.longlong,
    following: cython.longlong,
    low: cython.longlong,
    high: cython.longlong,
    data: bytes,
    more: cython.longlong,
):
    """Return the frame that answers a pull, as far as `data` goes.

    Args:
        pieces: the header, cut where the three offsets and `opaque` are (remoting/pulls.py).
        opaque: number of the request.
        following, low, high: the next offset, and the bounds of the queue.
        data: the body, or its begin.
        more: bytes of the body that the caller sends after what is returned.

    Returns:
        None: it would be larger than a frame may be.

    Raises:
        ValueError: other than five pieces, or a negative `more`.
    """
    if len(pieces) != 5 or more < 0:
        raise ValueError("a header in five pieces, and a body")
    room: cython.longlong = 8 + 4 * 20
    for piece in pieces:
        room += len(piece)
    size: cython.longlong = len(data)
    if room > _HEADER_MAX or size > _FRAME_MAX or more > _FRAME_MAX:
        return None
    out: bytearray = bytearray(room)
    to: cython.pointer(cython.uchar) = out
    used: cython.longlong = _put_number(to, _put_piece(to, 8, pieces[0]), following)
    used = _put_number(to, _put_piece(to, used, pieces[1]), low)
    used = _put_number(to, _put_piece(to, used, pieces[2]), high)
    used = _put_number(to, _put_piece(to, used, pieces[3]), opaque)
    used = _put_piece(to, used, pieces[4])
    if used - 4 + size + more > _FRAME_MAX:
        return None
    put32be(to, 0, used - 4 + size + more)
    put32be(to, 4, used - 8)
    head: bytes = _copy(to, 0, used)
    return head + data if size else head


def _json(p, at, end, spans, numbers):
    """Locate the fields of a JSON header, read its numbers; return its code, or 0: not plain."""
    code: cython.longlong = 0
    numbers[0] = numbers[1] = numbers[2] = numbers[3] = 0
    if _starts(p, at, end, b'{"code":11,', 11):
        code = _PULL
        at += 10
    elif _starts(p, at, end, b'{"code":361,', 12):
        code = _PULL_LITE
        at += 11
    else:
        return 0
    at = _members(p, at, end, numbers)
    if at > 0:
        at = _fields(p, at, end, spans)
    return code if at > 0 and _members(p, at, end, numbers) == end else 0


def _fields(p, at, end, spans):
    """Locate the fields from p[at] on; return the position after the object, or -1."""
    name: cython.longlong
    value: cython.longlong
    while at < end and p[at] == 34:
        name = at + 1
        at = _text_end(p, name, end, False)
        if at < 0 or not _starts(p, at, end, b'":"', 3):
            return -1
        value = at + 3
        at = _text_end(p, value, end, False)
        if at < 0 or at + 1 >= end or not _note(p, name, value - 3, value, at, spans):
            return -1
        at += 2
        if p[at - 1] == 125:
            return at
        if p[at - 1] != 44:
            return -1
    return -1


def _rocketmq(p, at, end, spans, numbers):
    """Do the same with a ROCKETMQ header."""
    if end - at < _HEAD + 4:
        return 0
    code: cython.longlong = i16be(p, at)
    if code != _PULL and code != _PULL_LITE:
        return 0
    numbers[1], numbers[0] = i32be(p, at + 5), i32be(p, at + 9)
    size: cython.longlong = i32be(p, at + 13)  # of the remark
    if size < 0 or size > end - at - _HEAD - 4:
        return 0
    at += _HEAD + size
    if i32be(p, at) != end - at - 4:
        return 0
    at += 4
    name: cython.longlong
    stop: cython.longlong
    while at < end:
        if end - at < 6:
            return 0
        size = i16be(p, at)
        if size < 0 or size > end - at - 6:
            return 0
        name = at + 2
        stop = name + size
        size = i32be(p, stop)
        if size < 0 or size > end - stop - 4:
            return 0
        at = stop + 4 + size
        if not _note(p, name, stop, stop + 4, at, spans):
            return 0
    return code


def _note(p, name, stop, value, end, spans):
    """Note where the value of a field that counts is; return False: it is there twice."""
    k: cython.int = _field(p, name, stop - name)
    if k < 0:
        return True
    if spans[2 * k] != 0:
        return False
    spans[2 * k], spans[2 * k + 1] = value, end
    return True


def _field(p, at, n):
    """Return the number of the field with this name of n bytes; -1: a pull has no use for it."""
    if n == 5:
        return 1 if same_bytes(p, at, b"topic", 0, 5) else -1
    if n == 7:
        if same_bytes(p, at, b"queueId", 0, 7):
            return 2
        return 5 if same_bytes(p, at, b"sysFlag", 0, 7) else -1
    if n == 10:
        if same_bytes(p, at, b"maxMsgNums", 0, 10):
            return 4
        return 9 if same_bytes(p, at, b"subVersion", 0, 10) else -1
    if n == 11:
        if same_bytes(p, at, b"queueOffset", 0, 11):
            return 3
        return 11 if same_bytes(p, at, b"maxMsgBytes", 0, 11) else -1
    if n == 12:
        if same_bytes(p, at, b"commitOffset", 0, 12):
            return 6
        return 8 if same_bytes(p, at, b"subscription", 0, 12) else -1
    if n == 13:
        return 0 if same_bytes(p, at, b"consumerGroup", 0, 13) else -1
    if n == 14:
        return 10 if same_bytes(p, at, b"expressionType", 0, 14) else -1
    if n == 20:
        return 7 if same_bytes(p, at, b"suspendTimeoutMillis", 0, 20) else -1
    return -1


def _is_text(k):
    """Return whether a field is a text: group, topic, subscription, and the type of that."""
    return k < 2 or k == 8 or k == 10


def _fields_are_plain(p, spans, numbers):
    """Read the fields that are numbers; return whether all that are there are plain."""
    k: cython.int
    for k in range(12):
        if spans[2 * k] == 0:
            continue
        if _is_text(k):
            if not is_utf8(p, spans[2 * k], spans[2 * k + 1]):
                return False
        elif _number(p, spans[2 * k], spans[2 * k + 1], numbers, 4 + k) != spans[2 * k + 1]:
            return False
        elif (k == 2 or k == 4 or k == 5) and not _is_int32(numbers[4 + k]):
            return False
    return True

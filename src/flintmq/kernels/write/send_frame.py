# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Reads the frame of a plain send into a Message, and writes the frame of its answer.

remoting/frames.py is the reference: what is not plain is left to it, and what is plain gives the same. Plain is what
stock clients send all day, and no more than a put: SEND_MESSAGE_V2 with a JSON header without spaces, its code first
and each name once; a topic that does not begin with %; a unique key; no batch, unit, transaction, delay, timer, light
queue, request or reply; and WAIT true if it is there. Text is plain without escapes; in the property string, whose 01
and 02 are escaped, all of them are read but those of surrogates.

Every length of a frame is compared with the bytes at hand before it is used. Uncompiled this takes longer than the
reference does, so whoever reads frames asks `flintmq.kernels.compiled` first.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, copy_bytes, find_either, put32be, put64be, put_hex8, same_bytes, u32be
    from flintmq.kernels.read.fetch import _copy
    from flintmq.kernels.read.json_line import _put_number, _put_text
    from flintmq.kernels.read.record_parts import is_utf8
    from flintmq.kernels.write.message import Message, PutResult

_FRAME_MAX = cython.declare(cython.longlong, 16 << 20)  # of what follows the first four bytes
_HEADER_MAX = cython.declare(cython.longlong, 1 << 16)
_PROPERTIES_MAX = cython.declare(cython.longlong, 32767)  # bytes, as in a record
_INT32 = cython.declare(cython.longlong, 1 << 31)
_SYS_FLAGS = cython.declare(cython.longlong, 0x703)  # compressed, and how; several tags
_ONE_WAY = cython.declare(cython.longlong, 2)
_CLUS = cython.declare(cython.longlong, 0x434C5553)
_DELA = cython.declare(cython.longlong, 0x44454C41)
_TIME = cython.declare(cython.longlong, 0x54494D45)
_INNE = cython.declare(cython.longlong, 0x494E4E45)
_REPL = cython.declare(cython.longlong, 0x5245504C)
_TRAN = cython.declare(cython.longlong, 0x5452414E)
_UNIQ = cython.declare(cython.longlong, 0x554E4951)
_WAIT = cython.declare(cython.longlong, 0x57414954)


def read(data: cython.const[cython.uchar][::1], at: cython.longlong, born_host: str):
    """Read the frame that begins at data[at], if it is whole and a plain send.

    Returns:
        (end, opaque, flag, group, default topic, its queues, message): the position after the frame, the number of the
        request, 0 or 2 (it wants no answer), and the message to put, which keeps no part of `data`. None: read it with
        remoting/frames.py.
    """
    p = bytes_of(data)
    limit: cython.longlong = len(data)
    if at < 0 or limit - at < 8:
        return None
    total: cython.longlong = u32be(p, at)
    size: cython.longlong = u32be(p, at + 4)  # a header of another kind than JSON seems longer than it may be
    if total > _FRAME_MAX or total > limit - at - 4 or size > _HEADER_MAX or size > total - 4:
        return None
    end: cython.longlong = at + 4 + total
    body: cython.longlong = at + 8 + size
    spans = cython.declare(cython.longlong[28])  # begin and end of the fields a to n; 0: it is not there
    numbers = cython.declare(cython.longlong[14])  # of the fields; first of the header: flag, opaque, version
    k: cython.int
    for k in range(28):
        spans[k] = 0
    if not _header(p, at + 8, body, spans, numbers):
        return None
    flag: cython.longlong = numbers[0]
    opaque: cython.longlong = numbers[1]
    if (flag != 0 and flag != _ONE_WAY) or not _fields_are_plain(p, spans, numbers):
        return None
    properties: bytes = _unescaped(p, spans[16], spans[17])
    if properties is None:
        return None
    pairs: cython.pointer(cython.const[cython.uchar]) = properties
    if not _are_plain(pairs, len(properties)):
        return None
    group = _text(p, spans[0], spans[1])
    topic = _text(p, spans[2], spans[3])
    default = _text(p, spans[4], spans[5])
    content: bytes = _copy(p, body, end - body)
    if not cython.compiled:
        message = Message(
            topic, content, queue_id=numbers[4], sys_flag=numbers[5], born_timestamp=numbers[6], flag=numbers[7],
            properties_bytes=properties, reconsume_times=numbers[9], born_host=born_host,
        )  # fmt: skip
        return end, opaque, flag, group, default, numbers[3], message
    made: Message = Message.__new__(Message)
    made.topic, made.body, made.properties_bytes, made.born_host = topic, content, properties, born_host
    made.queue_id, made.sys_flag, made.flag = numbers[4], numbers[5], numbers[7]
    made.born_timestamp, made.reconsume_times, made.wait = numbers[6], numbers[9], True
    return end, opaque, flag, group, default, numbers[3], made


def answer(pieces: tuple, opaque: cython.longlong, queue_id: cython.longlong, result: PutResult):
    """Return the frame that answers a send.

    Args:
        pieces: the header, cut where the offset message id, the queue, its offset, the unique key (in quotes) and
            `opaque` are (remoting/sends.py).
        opaque: number of the request.
        queue_id: queue that the message was put to.
        result: of a message that is stored.

    Returns:
        None: encode it with remoting/frames.py. The message has no unique key, or one that needs an escape; or the
        store's address is IPv6.

    Raises:
        ValueError: other than six pieces.
    """
    if len(pieces) != 6:
        raise ValueError("a header in six pieces")
    raw = result._own
    if result._prefix is not None or not isinstance(raw, bytes):
        told = result.msg_id
        if told is None or not told.isascii():
            return None
        raw = f"UNIQ_KEY\x01{told}\x02".encode()
    if len(result.store_host) != 8 or result.physical_offset < 0:
        return None
    text: bytes = raw
    words: cython.pointer(cython.const[cython.uchar]) = text
    ends: cython.longlong = len(text)
    key: cython.longlong = _unique_key(words, ends)
    if key < 0:
        return None
    stop: cython.longlong = find_either(words, key, ends, 2, 2)
    room: cython.longlong = 8 + 32 + 3 * 20 + 2 + stop - key
    for piece in pieces:
        room += len(piece)
    out: bytearray = bytearray(room)
    to: cython.pointer(cython.uchar) = out
    used: cython.longlong = _put_piece(to, 8, pieces[0])
    put64be(to, used + 16, result.physical_offset)
    put_hex8(to, used, cython.cast(cython.pointer(cython.const[cython.uchar]), result.store_host), 0)
    put_hex8(to, used + 16, to, used + 16)
    used = _put_number(to, _put_piece(to, used + 32, pieces[1]), queue_id)
    used = _put_number(to, _put_piece(to, used, pieces[2]), result.queue_offset)
    used = _put_text(to, _put_piece(to, used, pieces[3]), words, key, stop)
    if used < 0:
        return None
    used = _put_number(to, _put_piece(to, used, pieces[4]), opaque)
    used = _put_piece(to, used, pieces[5])
    put32be(to, 0, used - 4)
    put32be(to, 4, used - 8)
    return _copy(to, 0, used)


def _text(p, at, end):
    """Decode bytes that are UTF-8."""
    if not cython.compiled:
        return bytes(p[at:end]).decode()
    return cython.cast(cython.p_char, p)[at:end].decode("utf-8")


def _put_piece(to, used, piece):
    """Copy a piece of a header; return the position after it."""
    size: cython.longlong = len(piece)
    copy_bytes(to, used, cython.cast(cython.pointer(cython.const[cython.uchar]), piece), 0, size)
    return used + size


def _starts(p, at, end, text, n):
    """Return whether p[at:end] begins with a text of n bytes."""
    return end - at >= n and same_bytes(p, at, text, 0, n)


def _header(p, at, end, spans, numbers):
    """Locate the fields of a header, and read its numbers; return whether all of it is plain."""
    if not _starts(p, at, end, b'{"code":310,', 12):
        return False
    numbers[0] = numbers[1] = numbers[2] = numbers[3] = 0
    at = _members(p, at + 11, end, numbers)
    if at > 0:
        at = _fields(p, at, end, spans)
    return at > 0 and _members(p, at, end, numbers) == end


def _members(p, at, end, numbers):
    """Read the members of a header until its fields begin, or to its end.

    p[at] is the comma before the first one. Flag, opaque and version become numbers[0] to numbers[2]; numbers[3] says
    which members were seen.

    Returns:
        The position where the fields begin, and in a second call, after them, `end`; -1: it is not plain.
    """
    name: cython.int
    while at < end and p[at] == 44:
        at += 1
        name = 0
        if _starts(p, at, end, b'"extFields":{', 13):
            if numbers[3] & 1:
                return -1
            numbers[3] |= 1
            return at + 13
        if _starts(p, at, end, b'"flag":', 7):
            name = 2
            at = _number(p, at + 7, end, numbers, 0)
        elif _starts(p, at, end, b'"opaque":', 9):
            name = 4
            at = _number(p, at + 9, end, numbers, 1)
        elif _starts(p, at, end, b'"version":', 10):
            name = 8
            at = _number(p, at + 10, end, numbers, 2)
        elif _starts(p, at, end, b'"language":"', 12):
            name = 16
            at = _text_end(p, at + 12, end, False) + 1
        elif _starts(p, at, end, b'"serializeTypeCurrentRPC":"', 27):
            name = 32
            at = _text_end(p, at + 27, end, False) + 1
        elif _starts(p, at, end, b'"remark":"', 10):
            name = 64
            at = _text_end(p, at + 10, end, False) + 1
        if name == 0 or at <= 0 or numbers[3] & name:
            return -1
        numbers[3] |= name
    if at != end - 1 or p[at] != 125 or numbers[3] & 5 != 5:
        return -1
    return end if _is_int32(numbers[0]) and _is_int32(numbers[1]) and _is_int32(numbers[2]) else -1


def _fields(p, at, end, spans):
    """Locate the fields a to n from p[at] on; return the position after the object, or -1."""
    k: cython.longlong
    while end - at >= 6 and p[at] == 34 and _starts(p, at + 2, end, b'":"', 3):
        k = p[at + 1] - 97
        if k < 0 or k > 13 or spans[2 * k] != 0:
            return -1
        spans[2 * k] = at + 5
        at = _text_end(p, at + 5, end, k == 8)
        if at < 0 or at + 1 >= end:
            return -1
        spans[2 * k + 1] = at
        at += 2
        if p[at - 1] == 125:
            return at
        if p[at - 1] != 44:
            return -1
    return -1


def _text_end(p, at, end, escapes):
    """Return the position of the quote that ends a text; -1: none, or not plain.

    `escapes`: they may be in the text.
    """
    c: cython.int
    while at < end:
        c = p[at]
        if c == 34:
            return at
        if c < 32 or (c == 92 and not escapes):
            return -1
        at += 2 if c == 92 else 1
    return -1


def _number(p, at, end, to, k):
    """Read the decimal number at p[at] into to[k]; return the position after it, or -1."""
    negative: cython.bint = at < end and p[at] == 45
    first: cython.longlong = at + 1 if negative else at
    value: cython.longlong = 0
    at = first
    while at < end and 48 <= p[at] <= 57:
        if at - first == 18:
            return -1
        value = 10 * value + p[at] - 48
        at += 1
    to[k] = -value if negative else value
    return -1 if at == first else at


def _is_int32(value):
    return -_INT32 <= value < _INT32


def _fields_are_plain(p, spans, numbers):
    """Read the fields that are numbers; return whether all that a put needs is plain."""
    k: cython.int
    for k in range(9):  # a to i
        if spans[2 * k] == 0:
            return False
    numbers[9] = 0
    for k in range(3, 10):
        if k == 8 or (k == 9 and spans[18] == 0):
            continue
        if _number(p, spans[2 * k], spans[2 * k + 1], numbers, k) != spans[2 * k + 1]:
            return False
        if k != 6 and not _is_int32(numbers[k]):
            return False
    if numbers[5] & ~_SYS_FLAGS or spans[22] != 0:  # a negative one, too; a limit of attempts
        return False
    for k in range(0, 5, 2):  # a, b, c: group, topic, default topic
        if not is_utf8(p, spans[k], spans[k + 1]):
            return False
    if spans[3] > spans[2] and p[spans[2]] == 37:
        return False
    return _is_false(p, spans[20], spans[21]) and _is_false(p, spans[24], spans[25])


def _is_false(p, at, end):
    """Return whether a field says false, or is not there."""
    return at == 0 or (end - at == 5 and same_bytes(p, at, b"false", 0, 5))


def _hex4(p, at):
    """Return the number of four hexadecimal digits, or -1."""
    value: cython.int = 0
    k: cython.int
    c: cython.int
    for k in range(4):
        c = p[at + k]
        if 48 <= c <= 57:
            c -= 48
        elif 65 <= c <= 70:
            c -= 55
        elif 97 <= c <= 102:
            c -= 87
        else:
            return -1
        value = 16 * value + c
    return value


def _escaped(c):
    """Return the character that a backslash and this letter mean; -1: none that JSON has."""
    if c == 34 or c == 47 or c == 92:
        return c
    if c == 98:
        return 8
    if c == 102:
        return 12
    if c == 110:
        return 10
    if c == 114:
        return 13
    return 9 if c == 116 else -1


def _unescaped(p, at, end):
    """Return a text in UTF-8 without its escapes; None: too long, or not plain."""
    to = cython.declare(cython.uchar[32768])
    used: cython.longlong = 0
    c: cython.int
    while at < end:
        if used > _PROPERTIES_MAX - 3:
            return None
        c = p[at]
        at += 1
        if c != 92:
            to[used] = c
            used += 1
            continue
        c = p[at]  # a backslash is not the last one: _text_end has seen what it escapes
        at += 1
        if c != 117:
            c = _escaped(c)
        elif end - at < 4:
            return None
        else:
            c = _hex4(p, at)
            at += 4
        if c < 0 or 0xD800 <= c <= 0xDFFF:
            return None
        if c < 0x80:
            to[used] = c
            used += 1
        elif c < 0x800:
            to[used] = 0xC0 | c >> 6
            to[used + 1] = 0x80 | c & 63
            used += 2
        else:
            to[used] = 0xE0 | c >> 12
            to[used + 1] = 0x80 | c >> 6 & 63
            to[used + 2] = 0x80 | c & 63
            used += 3
    return _copy(to, 0, used)


def _are_plain(p, n):
    """Return whether properties are complete, with a unique key, and ask for no more than a put."""
    at: cython.longlong = 0
    has_key: cython.bint = False
    word: cython.longlong
    if n == 0 or p[n - 1] != 2 or not is_utf8(p, 0, n):
        return False
    # A name is at the beginning or after a 2, as fast_append.py has it.
    while at + 4 <= n:
        word = u32be(p, at)
        if word == _DELA or word == _TIME or word == _INNE or word == _TRAN or word == _REPL or word == _CLUS:
            return False
        if word == _UNIQ and _starts(p, at, n, b"UNIQ_KEY\x01", 9):
            has_key = True
        if word == _WAIT and not _starts(p, at, n, b"WAIT\x01true\x02", 10):
            return False
        at = find_either(p, at, n, 2, 2) + 1
    return has_key


def _unique_key(p, n):
    """Return the begin of the value of UNIQ_KEY in a property string; -1: none, or two."""
    at: cython.longlong = 0
    found: cython.longlong = -1
    while at < n:
        if _starts(p, at, n, b"UNIQ_KEY\x01", 9) and find_either(p, at, n, 2, 2) > at + 9:
            if found >= 0:
                return -1
            found = at + 9
        at = find_either(p, at, n, 2, 2) + 1
    return found

# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Numbers of unique keys: the counter and the rule for the next number.

A unique key is a prefix of 20 hexadecimal digits and a number of 12 digits: the time since the month began in ms (8)
and a counter (4). store/append/unique_keys.py explains their meaning and starts a month. The fast put
(kernels/write/fast_append.py) takes numbers directly while it holds the GIL, or without a GIL the lock of the numbers;
all other code goes through store/append/unique_keys.py.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import copy_bytes, put64be, put_hex8

_COUNTER = cython.declare(cython.longlong, 16)  # bits of the counter
_COUNTER_MASK = cython.declare(cython.longlong, 0xFFFF)
_PREFIX = cython.declare(cython.longlong, 20)


@cython.cclass
class Numbers:
    """Assigns numbers, from the start of the first month on.

    Attributes:
        begin, end: begin of the month and of the next one, ms since 1970.
        last: the last number assigned.
        prefix: of the month's keys, upper-case hexadecimal digits.

    Thread: compiled, any; else one at a time.
    """

    def __init__(self) -> None:
        self.begin = self.end = 0
        self.last, self.prefix = -1, b""

    def start(self, begin: cython.longlong, end: cython.longlong, prefix: bytes) -> None:
        """Start a month.

        Raises:
            ValueError: the prefix has another size, or the month more ms than 32 bits count.
        """
        if len(prefix) != _PREFIX or not 0 < end - begin <= 0xFFFFFFFF:
            raise ValueError("a prefix of 20 bytes and a month of fewer than 2**32 ms")
        if cython.compiled:
            with self._mutex:
                self.begin, self.end, self.last, self.prefix = begin, end, -1, prefix
        else:
            self.begin, self.end, self.last, self.prefix = begin, end, -1, prefix

    def reserve(self, now: cython.longlong, count: cython.longlong):
        """Reserve `count` numbers and return the first; -1 if `now` is in another month.

        The upper bits of a number are the time. If more than 65,536 numbers are taken in a ms, the counter overflows
        into the time, which then runs ahead; no number repeats.
        """
        if not cython.compiled:
            return self._reserve(now, count)
        with self._mutex:
            return self._reserve(now, count)

    def _reserve(self, now, count):
        """Do the work of `reserve` without a call through Python, under the lock or the GIL."""
        if now < self.begin or now >= self.end:
            return -1
        following: cython.longlong = self.last + 1
        timed: cython.longlong = (now - self.begin) << _COUNTER | (following & _COUNTER_MASK)
        first: cython.longlong = timed if timed > following else following
        self.last = first + count - 1
        return first


def put_unique_key(to, at, prefix, number):
    """Write the property UNIQ_KEY, 42 bytes; up to 12 bytes after it are overwritten."""
    copy_bytes(to, at, cython.cast(cython.pointer(cython.const[cython.uchar]), b"UNIQ_KEY\x01"), 0, 9)
    copy_bytes(to, at + 9, prefix, 0, _PREFIX)
    put64be(to, at + 46, number << 16)
    put_hex8(to, at + 29, to, at + 46)
    to[at + 41] = 2

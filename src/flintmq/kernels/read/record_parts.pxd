# C types of record_parts.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of, longs_of
from flintmq.kernels.crc cimport u32be, i16be, i32be, lowest_bit, odd_bytes, same_bytes

# Columns of `spans`, where `locate` writes the positions of a record's parts.
cdef enum:
    SPAN_RECORD = 0  # begin of the record; fields before the born host are counted from here
    SPAN_BORN = 1  # the same plus 12 if the born host is IPv6; for fields between the hosts
    SPAN_BOTH = 2  # the same plus 12 for each IPv6 host; for fields after the hosts
    SPAN_BODY = 3
    SPAN_BODY_END = 4
    SPAN_TOPIC = 5
    SPAN_TOPIC_END = 6
    SPAN_END = 7

# Columns of `named`, where `split` writes begin and end of three values.
cdef enum:
    NAMED_TAGS = 0
    NAMED_TAGS_END = 1
    NAMED_KEYS = 2
    NAMED_KEYS_END = 3
    NAMED_UNIQUE = 4
    NAMED_UNIQUE_END = 5

cdef long long locate(const uint8_t *p, long long limit, const long long *positions, long long first, long long n, long long *spans) noexcept nogil
cdef bint is_utf8(const uint8_t *p, long long at, long long end) noexcept nogil
cdef long long close_pair(const uint8_t *p, long long name, long long middle, long long stop, long long *pairs, long long count, long long *named, long long to) noexcept nogil
cdef long long split(const uint8_t *p, long long at, long long end, long long limit, long long *pairs, long long *named, long long to) noexcept nogil
cdef bint doubled(const uint8_t *p, const long long *pairs, long long count) noexcept nogil

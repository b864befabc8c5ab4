# C types of select.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of, longs_of
from flintmq.kernels.crc cimport i32be, i64be, same_bytes, seeded_hash
from flintmq.kernels.read.record_parts cimport NAMED_TAGS, NAMED_TAGS_END, SPAN_BORN, SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, locate, split

# Columns of `query`, as the constants of Python without the underscore.
cdef enum:
    _SINCE = 0
    _UNTIL = 1
    _TOPICS = 2
    _TAGS = 3

cdef bint _table_fits(long long numbers) noexcept nogil
cdef long long _verdict(const uint8_t *p, long long at, long long n, const long long *table, long long mask, const uint8_t *arena, long long arena_size, bint closed) noexcept nogil
cdef bint _queue_wanted(long long queue, long long offset, const long long *rules, long long rule, long long end) noexcept nogil

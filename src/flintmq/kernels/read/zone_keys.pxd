# C types of zone_keys.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of, longs_of, room_of
from flintmq.kernels.crc cimport crc32_of, find_bytes, i64be, put32be, same_bytes, seeded_hash
from flintmq.kernels.read.record_parts cimport NAMED_KEYS, NAMED_KEYS_END, NAMED_UNIQUE, NAMED_UNIQUE_END, SPAN_BORN, SPAN_END, SPAN_TOPIC, SPAN_TOPIC_END, locate, split

# Columns of a zone's state, as the constants of Python without the underscore.
cdef enum:
    _USED = 0
    _FIRST_TIME = 1
    _LAST_TIME = 2
    _ODD = 3
    _RECORDS = 4
    _RECENT = 5

cdef long long bit_of(unsigned long long h, unsigned long long number) noexcept nogil
cdef long long block_of(unsigned long long h, unsigned long long blocks) noexcept nogil

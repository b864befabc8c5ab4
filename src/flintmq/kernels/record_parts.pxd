# C types of record_parts.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.crc cimport u32be, i16be, i32be, lowest_bit, odd_bytes, same_bytes

cdef long long locate(const uint8_t *p, long long limit, const long long *positions, long long first, long long n, long long *spans) noexcept nogil
cdef bint is_utf8(const uint8_t *p, long long at, long long end) noexcept nogil
cdef long long close_pair(const uint8_t *p, long long name, long long middle, long long stop, long long *pairs, long long count, long long *named, long long to) noexcept nogil
cdef long long split(const uint8_t *p, long long at, long long end, long long limit, long long *pairs, long long *named, long long to) noexcept nogil
cdef bint doubled(const uint8_t *p, const long long *pairs, long long count) noexcept nogil

# C types of select.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.crc cimport i32be, i64be, same_bytes, seeded_hash
from flintmq.kernels.record_parts cimport locate, split

cdef bint _table_fits(long long numbers) noexcept nogil
cdef long long _verdict(const uint8_t *p, long long at, long long n, const long long *table, long long mask, const uint8_t *arena, long long arena_size, bint closed) noexcept nogil
cdef bint _queue_wanted(long long queue, long long offset, const long long *rules, long long rule, long long end) noexcept nogil

# C types of walk.py.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, int32_t, int64_t
from flintmq.kernels.addresses cimport bytes_of
from flintmq.kernels.crc cimport u32be, i16be, i32be, i64be, find_magic, prefetch_pass, present_bytes, crc32_of, crc32_at_level, crc_level

cdef int64_t _record(const uint8_t *p, int64_t at, int64_t available, int64_t file_end, int64_t base, int64_t max_size, int flags) noexcept nogil
cdef bint _crc_property_right(const uint8_t *p, int64_t at, int64_t size) noexcept nogil

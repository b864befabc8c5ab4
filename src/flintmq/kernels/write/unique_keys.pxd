# C types of unique_keys.py.
cimport cython
from libc.stdint cimport uint8_t, int64_t
from flintmq.kernels.crc cimport copy_bytes, put64be, put_hex8

cdef class Numbers:
    cdef readonly int64_t begin, end, last
    cdef readonly bytes prefix
    cdef cython.pymutex _mutex
    cdef int64_t _reserve(self, int64_t now, int64_t count) noexcept

cdef void put_unique_key(uint8_t *to, int64_t at, const uint8_t *prefix, int64_t number) noexcept nogil

# C types of units.py.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, int32_t, int64_t
from flintmq.kernels.crc cimport u32be, i16be, i32be, i64be, put32be, put64be, same_bytes, first_non_ascii, find_either, hash_ascii

cdef int64_t hash_text(uint32_t h, const uint8_t *p, int64_t at, int64_t n) noexcept nogil
cdef int64_t find_queue(const uint8_t *p, int64_t at_topic, int64_t topic, int64_t queue_id, const int *slots, int64_t mask, const long long *queues, const uint8_t *names) noexcept nogil
cdef int64_t key_hash(int64_t h) noexcept nogil
cdef void put_unit(uint8_t *to, int64_t at, int64_t physical_offset, int64_t size, int64_t tags_code) noexcept nogil

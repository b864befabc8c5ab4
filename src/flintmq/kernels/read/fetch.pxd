# C types of fetch.py.
cimport cython
from libc.stdint cimport uint8_t, int32_t, int64_t
from flintmq.kernels.addresses cimport bytes_of, longs_of
from flintmq.kernels.crc cimport any_below, i32be, i64be, prefetch_lines, same_bytes, u16be
from flintmq.kernels.read.record_parts cimport SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, locate
from flintmq.kernels.read.walk cimport _record

cdef class Pin:
    cdef const uint8_t[::1] data

cdef class RecordBytes:
    cdef Pin _pin
    cdef bytes _raw
    cdef const uint8_t *_p
    cdef int64_t _size
    cdef public object _fields, _properties
    cdef int64_t _number(self, int64_t at, bint is_long)

cdef bytes _copy(const uint8_t *p, int64_t at, int64_t n)
cdef bint _is_at_queue_offset(const uint8_t *p, int64_t at, int64_t size, const uint8_t *topic, int64_t topic_size, int32_t queue_id, int64_t queue_offset) noexcept nogil

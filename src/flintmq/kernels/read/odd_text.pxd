# C types of odd_text.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of, const_longs_of
from flintmq.kernels.crc cimport find_either, i64be, u32be
from flintmq.kernels.read.record_parts cimport SPAN_BORN, SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, is_utf8, locate

cdef bint _is_plain(const uint8_t *p, long long at, long long end) noexcept nogil
cdef bint _may_fail(const uint8_t *p, long long at, long long end) noexcept nogil

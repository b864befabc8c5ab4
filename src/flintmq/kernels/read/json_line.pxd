# C types of json_line.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of
from flintmq.kernels.crc cimport copy_bytes, i32be, i64be, put32be, put_hex8, put_host4, u32be
from flintmq.kernels.read.gather_fill cimport _shift
from flintmq.kernels.read.record_parts cimport SPAN_BORN, SPAN_BOTH, SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, doubled, locate, split

# Kinds of columns, the constants of gather.py.
cdef enum:
    KIND_INT32 = 0
    KIND_INT64 = 1
    KIND_UINT32 = 2
    KIND_MAGIC = 4
    KIND_TOPIC = 5
    KIND_BODY = 6
    KIND_BORN_HOST = 7
    KIND_STORE_HOST = 8
    KIND_OFFSET_MSG_ID = 9
    KIND_PROPERTIES = 10
    KIND_TAGS = 13
    KIND_UNIQ_KEY = 15

cdef long long _put_number(uint8_t *to, long long used, long long value) noexcept nogil
cdef long long _put_text(uint8_t *to, long long used, const uint8_t *p, long long at, long long end) noexcept nogil
cdef long long _put_pairs(uint8_t *to, long long used, const uint8_t *p, const long long *pairs, long long count) noexcept nogil
cdef long long _put_value(uint8_t *to, long long used, long long kind, long long place, const uint8_t *p, const long long *spans, const long long *pairs, long long count, const long long *named) noexcept nogil

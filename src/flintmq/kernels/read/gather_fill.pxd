# C types of gather_fill.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.crc cimport u32be, i32be, i64be, copy_by_32, copy_bytes, all_ascii, put_hex8, put_host4, same_bytes
from flintmq.kernels.read.record_parts cimport SPAN_BODY, SPAN_BODY_END, SPAN_BORN, SPAN_BOTH, SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, is_utf8
from flintmq.kernels.read.property_shapes cimport split_like

# Columns of a plan row, described in gather.py.
cdef enum:
    PLAN_KIND = 0
    PLAN_FIELD = 1
    PLAN_LONGS = 2
    PLAN_INTS = 3
    PLAN_BYTES = 4
    PLAN_BYTES_END = 5
    PLAN_BITS = 6

cdef long long _shift(long long where) noexcept nogil
cdef void numbers32(const uint8_t *p, const long long *spans, long long n, long long where, int *out, long long to) noexcept nogil
cdef void numbers64(const uint8_t *p, const long long *spans, long long n, long long where, long long *out, long long to) noexcept nogil
cdef void unsigned32(const uint8_t *p, const long long *spans, long long n, long long where, long long *out, long long to) noexcept nogil
cdef void _set_bit(uint8_t *out, long long at, long long row, bint on) noexcept nogil
cdef void microseconds(const uint8_t *p, const long long *spans, long long n, long long where, long long *longs, long long to, uint8_t *out, long long bits, long long row) noexcept nogil
cdef long long magic(const uint8_t *p, const long long *spans, long long n, int *ints, long long to, uint8_t *out, long long start, long long room) noexcept nogil
cdef void _copy(uint8_t *out, long long to, const uint8_t *p, long long at, long long n, long long limit) noexcept nogil
cdef long long bodies(const uint8_t *p, long long limit, const long long *spans, long long n, bint leave, int *ints, long long to, uint8_t *out, long long start, long long room, long long *notes, long long index, long long column) noexcept nogil
cdef void _note(long long *notes, long long index, long long column) noexcept nogil
cdef long long topics(const uint8_t *p, long long limit, const long long *spans, long long n, int *ints, long long to, uint8_t *out, long long start, long long room, long long *notes, long long index, long long column) noexcept nogil
cdef long long hosts(const uint8_t *p, const long long *spans, long long n, long long where, int *ints, long long to, uint8_t *out, long long start, long long room, long long *notes, long long index, long long column) noexcept nogil
cdef long long offset_ids(const uint8_t *p, const long long *spans, long long n, int *ints, long long to, uint8_t *out, long long start, long long room) noexcept nogil
cdef long long properties(const uint8_t *p, long long limit, const long long *spans, long long n, const long long *plan, long long at_plan, long long row, int *ints, uint8_t *out, long long *notes, long long index, long long *pairs, long long *named, long long *known) noexcept nogil
cdef long long named_values(const uint8_t *p, long long limit, long long n, const long long *named, long long key, int *ints, long long to, uint8_t *out, long long start, long long room, long long bits, long long row) noexcept nogil

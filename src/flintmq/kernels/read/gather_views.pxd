# C types of gather_views.py.
cimport cython
from libc.stdint cimport uint8_t, int64_t, uint64_t
from flintmq.kernels.addresses cimport bytes_of, const_ints_of, longs_of, room_of
from flintmq.kernels.crc cimport all_ascii, copy_bytes, i32be, i64be, put_host4
from flintmq.kernels.read.gather_fill cimport PLAN_BITS, PLAN_BYTES, PLAN_BYTES_END, PLAN_FIELD, PLAN_INTS, PLAN_LONGS, _note, _set_bit, _shift
from flintmq.kernels.read.record_parts cimport SPAN_BODY, SPAN_BODY_END, SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, is_utf8
from flintmq.kernels.read.property_shapes cimport split_like

cdef extern from "views.h" nogil:
    void put_view(int *ints, int64_t to, const uint8_t *p, int64_t limit, int64_t at, int64_t n, int64_t base, int64_t buffer)
    int64_t slot_of(int64_t key, int bits)
    int64_t text_key(const uint8_t *p, int64_t limit, int64_t at, int64_t n, uint64_t seed, uint64_t secret)
    bint same_text(const uint8_t *p, int64_t limit, int64_t at, const uint8_t *q, int64_t to, int64_t n)

cdef void body_views(const uint8_t *p, long long limit, const long long *spans, long long n, bint leave, int *ints, long long to, long long base, long long buffer, long long *notes, long long index, long long column) noexcept nogil
cdef void magic_codes(const uint8_t *p, const long long *spans, long long n, int *ints, long long to) noexcept nogil
cdef long long topic_codes(const uint8_t *p, long long limit, const long long *spans, long long n, const long long *plan, long long at_plan, long long row, long long *longs, int *ints, uint8_t *out, long long *notes, long long index) noexcept nogil
cdef long long host_codes(const uint8_t *p, const long long *spans, long long n, long long where, const long long *plan, long long at_plan, long long row, long long *longs, int *ints, uint8_t *out, long long *notes, long long index) noexcept nogil
cdef long long property_views(const uint8_t *p, long long limit, const long long *spans, long long n, const long long *plan, long long at_plan, long long row, int *ints, long long *notes, long long index, long long *pairs, long long *named, long long *known) noexcept nogil
cdef void named_views(const uint8_t *p, long long limit, long long n, const long long *named, long long key, int *ints, long long to, long long base, long long buffer, uint8_t *out, long long bits, long long row) noexcept nogil

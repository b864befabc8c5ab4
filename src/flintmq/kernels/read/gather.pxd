# C types of gather.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of, ints_of, longs_of, room_of
from flintmq.kernels.read.gather_fill cimport PLAN_BITS, PLAN_BYTES, PLAN_BYTES_END, PLAN_FIELD, PLAN_INTS, PLAN_KIND, PLAN_LONGS, bodies, hosts, magic, microseconds, named_values, numbers32, numbers64, offset_ids, properties, topics, unsigned32
from flintmq.kernels.read.gather_views cimport body_views, host_codes, magic_codes, named_views, property_views, topic_codes
from flintmq.kernels.read.record_parts cimport SPAN_RECORD, locate
from flintmq.kernels.read.property_shapes cimport forget

cdef int _group_fault(const long long *plan, long long at, long long columns) noexcept nogil
cdef int _view_fault(const long long *plan, long long at, long long columns, long long row, long long rows, long long n_longs, long long n_ints, long long n_out, const int *ints) noexcept nogil
cdef int _code_fault(const long long *plan, long long at, long long n_longs, long long n_ints, long long n_out) noexcept nogil
cdef int _fault(const long long *plan, long long at, long long columns, long long row, long long rows, long long n_longs, long long n_ints, long long n_out, const int *ints) noexcept nogil
cdef bint _before_base(const long long *spans, long long n, long long base) noexcept nogil
cdef (long long, long long) _block(const uint8_t *p, long long limit, long long *spans, long long *pairs, long long *named, long long *known, long long n, const long long *plan, long long columns, long long row, long long *longs, int *ints, uint8_t *out, long long *notes, long long index) noexcept nogil

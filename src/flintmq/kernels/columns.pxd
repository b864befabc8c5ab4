# C types of columns.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.crc cimport u32be, i32be, i64be, copy_by_32, copy_bytes, first_non_ascii, put_hex8, put_host4, same_bytes
from flintmq.kernels.parts cimport doubled, is_utf8, locate, split

cdef long long _shift(long long where) noexcept nogil
cdef void _numbers32(const uint8_t *p, const long long *spans, long long n, long long where, int *out, long long to) noexcept nogil
cdef void _numbers64(const uint8_t *p, const long long *spans, long long n, long long where, long long *out, long long to) noexcept nogil
cdef void _unsigned32(const uint8_t *p, const long long *spans, long long n, long long where, long long *out, long long to) noexcept nogil
cdef void _set_bit(uint8_t *out, long long at, long long row, bint on) noexcept nogil
cdef void _microseconds(const uint8_t *p, const long long *spans, long long n, long long where, long long *longs, long long to, uint8_t *out, long long bits, long long row) noexcept nogil
cdef long long _magic(const uint8_t *p, const long long *spans, long long n, int *ints, long long to, uint8_t *out, long long start, long long room) noexcept nogil
cdef void _copy(uint8_t *out, long long to, const uint8_t *p, long long at, long long n, long long limit) noexcept nogil
cdef long long _bodies(const uint8_t *p, long long limit, const long long *spans, long long n, bint leave, int *ints, long long to, uint8_t *out, long long start, long long room, long long *notes, long long index, long long column) noexcept nogil
cdef void _note(long long *notes, long long index, long long column) noexcept nogil
cdef long long _topics(const uint8_t *p, long long limit, const long long *spans, long long n, int *ints, long long to, uint8_t *out, long long start, long long room, long long *notes, long long index, long long column) noexcept nogil
cdef long long _hosts(const uint8_t *p, const long long *spans, long long n, long long where, int *ints, long long to, uint8_t *out, long long start, long long room, long long *notes, long long index, long long column) noexcept nogil
cdef long long _offset_ids(const uint8_t *p, const long long *spans, long long n, int *ints, long long to, uint8_t *out, long long start, long long room) noexcept nogil
cdef long long _properties(const uint8_t *p, long long limit, const long long *spans, long long n, const long long *plan, long long at_plan, long long row, int *ints, uint8_t *out, long long *notes, long long index, long long *pairs, long long *named) noexcept nogil
cdef long long _named(const uint8_t *p, long long limit, long long n, const long long *named, long long key, int *ints, long long to, uint8_t *out, long long start, long long room, long long bits, long long row) noexcept nogil
cdef int _group_fault(const long long *plan, long long at, long long columns) noexcept nogil
cdef int _fault(const long long *plan, long long at, long long columns, long long row, long long rows, long long n_longs, long long n_ints, long long n_out, const int *ints) noexcept nogil
cdef (long long, long long) _block(const uint8_t *p, long long limit, long long *spans, long long *pairs, long long *named, long long n, const long long *plan, long long columns, long long row, long long *longs, int *ints, uint8_t *out, long long *notes, long long index) noexcept nogil

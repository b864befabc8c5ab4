# C types of send_frame.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of
from flintmq.kernels.crc cimport copy_bytes, find_either, put32be, put64be, put_hex8, same_bytes, u32be
from flintmq.kernels.read.fetch cimport _copy
from flintmq.kernels.read.json_line cimport _put_number, _put_text
from flintmq.kernels.read.record_parts cimport is_utf8
from flintmq.kernels.write.message cimport Message, PutResult

cdef object _text(const uint8_t *p, long long at, long long end)
cdef long long _put_piece(uint8_t *to, long long used, bytes piece) except -1
cdef bint _starts(const uint8_t *p, long long at, long long end, const uint8_t *text, long long n) noexcept nogil
cdef bint _header(const uint8_t *p, long long at, long long end, long long *spans, long long *numbers) noexcept nogil
cdef long long _members(const uint8_t *p, long long at, long long end, long long *numbers) noexcept nogil
cdef long long _fields(const uint8_t *p, long long at, long long end, long long *spans) noexcept nogil
cdef long long _text_end(const uint8_t *p, long long at, long long end, bint escapes) noexcept nogil
cdef long long _number(const uint8_t *p, long long at, long long end, long long *to, long long k) noexcept nogil
cdef bint _is_int32(long long value) noexcept nogil
cdef bint _fields_are_plain(const uint8_t *p, const long long *spans, long long *numbers) noexcept nogil
cdef bint _is_false(const uint8_t *p, long long at, long long end) noexcept nogil
cdef int _hex4(const uint8_t *p, long long at) noexcept nogil
cdef int _escaped(int c) noexcept nogil
cdef bytes _unescaped(const uint8_t *p, long long at, long long end)
cdef bint _are_plain(const uint8_t *p, long long n) noexcept nogil
cdef long long _unique_key(const uint8_t *p, long long n) noexcept nogil

# C types of pull_frame.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of
from flintmq.kernels.crc cimport i16be, i32be, put32be, same_bytes, u32be
from flintmq.kernels.read.fetch cimport _copy
from flintmq.kernels.read.json_line cimport _put_number
from flintmq.kernels.read.record_parts cimport is_utf8
from flintmq.kernels.write.send_frame cimport _is_int32, _members, _number, _put_piece, _starts, _text, _text_end

cdef long long _json(const uint8_t *p, long long at, long long end, long long *spans, long long *numbers) noexcept nogil
cdef long long _fields(const uint8_t *p, long long at, long long end, long long *spans) noexcept nogil
cdef long long _rocketmq(const uint8_t *p, long long at, long long end, long long *spans, long long *numbers) noexcept nogil
cdef bint _note(const uint8_t *p, long long name, long long stop, long long value, long long end, long long *spans) noexcept nogil
cdef int _field(const uint8_t *p, long long at, long long n) noexcept nogil
cdef bint _is_text(int k) noexcept nogil
cdef bint _fields_are_plain(const uint8_t *p, const long long *spans, long long *numbers) noexcept nogil

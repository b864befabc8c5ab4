# C types of property_shapes.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.crc cimport same_shape
from flintmq.kernels.read.record_parts cimport doubled, split

# Columns of `known`: position of the string of a length, the length, its number of pairs, its shape (4), its values (6).
cdef enum:
    KNOWN_AT = 0
    KNOWN_LENGTH = 1
    KNOWN_PAIRS = 2
    KNOWN_SHAPE = 3
    KNOWN_NAMED = 7

cdef void forget(long long *known) noexcept nogil
cdef void take_shape(long long at, long long end, const long long *pairs, long long count, long long *known, long long to) noexcept nogil
cdef bint has_shape(const uint8_t *p, long long at, long long end, long long other, long long limit, const long long *known, long long to) noexcept nogil
cdef (long long, long long, long long) split_like(const uint8_t *p, long long at, long long end, long long limit, bint single, long long *pairs, long long *named, long long to, long long *known) noexcept nogil

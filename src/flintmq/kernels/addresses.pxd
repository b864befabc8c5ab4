# Address of the first number of a buffer, which may be empty: nothing is read there then. Uncompiled, the buffer itself.
from libc.stdint cimport uint8_t

cdef extern from "crc.h" nogil:
    const uint8_t *bytes_of "FMQ_START"(const uint8_t[::1] buffer)
    uint8_t *room_of "FMQ_START"(uint8_t[::1] buffer)
    long long *longs_of "FMQ_START"(long long[::1] buffer)
    const long long *const_longs_of "FMQ_START"(const long long[::1] buffer)
    int *ints_of "FMQ_START"(int[::1] buffer)
    const int *const_ints_of "FMQ_START"(const int[::1] buffer)

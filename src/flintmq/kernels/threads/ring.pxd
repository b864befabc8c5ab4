# C types of ring.py.
cimport cython
from libc.stdint cimport uint8_t, int64_t
from flintmq.kernels.write.fast_append cimport AppendTarget, observe, publish
from flintmq.kernels.threads.handoff cimport PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock, PyThread_type_lock

cdef extern from "write_behind.h" nogil:
    int write_all(int fd, const uint8_t *data, int64_t count, int64_t position)
    int64_t now_us()
    void rest_us(int64_t micros)

cdef class Ring:
    cdef readonly int64_t size
    cdef int64_t _piece_size, _drained, _committed, _mark
    cdef readonly int error
    cdef uint8_t *_p
    cdef PyThread_type_lock _lock
    cdef bint _is_here(self, AppendTarget file) noexcept nogil
    cdef int64_t _piece(self, AppendTarget file, int64_t until) noexcept nogil
    cdef int64_t _whole_piece(self, AppendTarget file) noexcept nogil
    cdef void _wrote(self, AppendTarget file, int64_t count) noexcept nogil
    cdef void _note(self, int64_t end) noexcept nogil
    cdef int _write(self, AppendTarget file, int fd, int64_t count) noexcept nogil

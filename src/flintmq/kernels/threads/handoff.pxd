# C types of handoff.py.
cimport cython
from libc.stdlib cimport free, malloc
from flintmq.kernels.crc cimport exchange_flag

cdef extern from "Python.h" nogil:
    ctypedef void *PyThread_type_lock
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait)
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int interruptible)  # 0 late, 1 got, 2 interrupted
    void PyThread_release_lock(PyThread_type_lock lock)

cdef class _Held:
    cdef PyThread_type_lock _lock

cdef class Latch(_Held):
    cdef readonly bint is_open

cdef class Signal(_Held):
    cdef bint _is_set

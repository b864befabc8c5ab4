# C types of fast_append.py.
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, int32_t, int64_t, uint32_t
from flintmq.kernels.write.encode cimport crc_property_room, put_record, record_size
from flintmq.kernels.crc cimport any_below, clock_ms, copy_bytes, fence_full, fence_release, find_either, u32be
from flintmq.kernels.write.message cimport Message, PutResult, _wide
from flintmq.kernels.write.unique_keys cimport Numbers, put_unique_key

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text)
    const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *size)  # NULL with an error set
    bint PyUnicode_CheckExact(PyObject *value)
    bint PyBytes_CheckExact(PyObject *value)
    bint PyDict_CheckExact(PyObject *value)
    bint PyLong_CheckExact(PyObject *value)
    char *PyBytes_AS_STRING(PyObject *value)
    Py_ssize_t PyBytes_GET_SIZE(PyObject *value)
    bint PyDict_Next(PyObject *table, Py_ssize_t *at, PyObject **name, PyObject **value)
    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow)
    void PyErr_Clear()

cdef extern from "write_behind.h" nogil:
    void publish(int64_t *position, int64_t value)
    int64_t observe(const int64_t *position)

cdef inline const uint8_t *utf8(PyObject *text, long long *size):
    """The UTF-8 bytes of a str, which live as long as it does; NULL for all else, and for text that has none."""
    cdef Py_ssize_t count = 0
    if not PyUnicode_CheckExact(text):
        return NULL
    cdef const char *p = PyUnicode_AsUTF8AndSize(text, &count)
    if p == NULL:
        PyErr_Clear()
    size[0] = count
    return <const uint8_t *>p

cdef class AppendTarget:
    cdef public int64_t start, size, reserved, flushed, filler
    cdef int64_t _wrote, _shift, _mask
    cdef uint8_t *_p
    cdef int64_t _place(self, int64_t at) noexcept nogil

cdef class QueueCounter:
    cdef public int64_t next

cdef class Topic:
    cdef readonly bytes raw
    cdef readonly dict places
    cdef list _near
    cdef QueueCounter _place(self, int64_t queue_id)

cdef class Appender:
    cdef public int64_t end, last_time
    cdef readonly dict topics, senders
    cdef public AppendTarget target
    cdef public bint locks
    cdef bint _held, _refusing, _closed
    cdef cython.pymutex _mutex
    cdef public object begun
    cdef public Numbers keys
    cdef object _stored, _name
    cdef bytes _hosts, _host
    cdef int64_t _host_flags, _max_body, _made_after
    cdef bint _crc_property
    cdef Topic _topic
    cdef uint8_t _scratch[33000]
    cdef int64_t _number  # of the unique key that the message gets; -1: none
    cdef PyObject *_own  # the unique key that the message has; NULL: none
    cpdef object append(self, Message message)
    cdef bint _has_lock(self) noexcept
    cdef bint _is_open(self) noexcept
    cdef object _append_with_lock(self, Message message)
    cdef object _append_each(self, list messages, Py_ssize_t at, list results)
    cdef object _append(self, Message m, int64_t now)
    cdef Topic _find(self, object name)
    cdef bytes _find_sender(self, object text)
    cdef int64_t _encode(self, Message m, int64_t now) noexcept
    cdef int64_t _pair(self, int64_t n, const uint8_t *name, int64_t name_size, PyObject *value) noexcept

cdef class PutListener:
    cdef bint _needs_wake

cdef class DurableWait:
    cpdef int wait(self, int64_t end, int64_t appended, int64_t time) except? -2

cdef class LoopWaits:
    cpdef bint is_running(self) except -1
    cpdef object add(self, PutResult result)

cdef class Putter:
    cdef Appender _quick
    cdef bint _is_quick, _is_async_quick
    cdef public bint waits
    cdef public PutListener after_put
    cdef public DurableWait flusher
    cdef public LoopWaits loop_puts
    cdef object _durable(self, PutResult result)

cdef bint _special(uint32_t word) noexcept nogil
cdef bint _is_unique_key(const uint8_t *p, int64_t at) noexcept nogil
cdef bint _is_given(object text) noexcept
cdef int64_t _ready(object properties) noexcept

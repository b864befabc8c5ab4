# C types of appender.py.
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, int32_t, int64_t
from flintmq.kernels.append cimport crc_property_room, put_record, record_size
from flintmq.kernels.crc cimport any_below, clock_ms, copy_bytes, find_either, u32be
from flintmq.kernels.message cimport Message, PutResult

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

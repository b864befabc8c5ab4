# C types of only_file.py.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

cdef extern from "only_file.h" nogil:
    int read_only_file(int parent, const char *folder_name, char *name, size_t room, char *data, int64_t count, long long *size, long long *got)

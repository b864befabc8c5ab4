# C types of fast_get.py.
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, int32_t, int64_t, uint32_t
from flintmq.kernels.call_stack cimport fmq_amid_engine
from flintmq.kernels.crc cimport copy_bytes, i32be, i64be
from flintmq.kernels.write.fast_append cimport AppendTarget
from flintmq.kernels.read.fetch cimport RecordBytes, _is_at_queue_offset
from flintmq.kernels.read.walk cimport _record

cdef extern from "Python.h":
    bint PyUnicode_CheckExact(object value)
    bint PyLong_CheckExact(object value)
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    bytes PyBytes_FromStringAndSize(const char *bytes, Py_ssize_t size)
    char *PyBytes_AS_STRING(bytes value)
    object PyType_GenericAlloc(type kind, Py_ssize_t items)
    int PyObject_GenericSetAttr(object one, object name, object value) except -1

cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/types.h>
    #include <sys/uio.h>
    #include <unistd.h>

    /* Read n bytes of a file at a position, if that needs no wait for the disk: return their number, which is less at the
     * end of the file, or if the rest is not in memory; -1: none of them is in memory; -2: this system or disk cannot say. */
    static inline int64_t fmq_read_now(int fd, uint8_t *p, int64_t n, int64_t at) {
    #if defined(__linux__) && defined(RWF_NOWAIT)
        struct iovec part = {p, (size_t)n};
        ssize_t got = preadv2(fd, &part, 1, (off_t)at, RWF_NOWAIT);
        if (got >= 0) return got;
        return errno == EAGAIN || errno == EINTR ? -1 : -2;
    #else
        (void)fd, (void)p, (void)n, (void)at;
        return -2;
    #endif
    }

    /* Read n bytes of a file at a position: return their number, which is less at the end of the file or after an error. */
    static inline int64_t fmq_read(int fd, uint8_t *p, int64_t n, int64_t at) {
        int64_t done = 0;
        while (done < n) {
            ssize_t got = pread(fd, p + done, (size_t)(n - done), (off_t)(at + done));
            if (got <= 0) break;
            done += got;
        }
        return done;
    }
    """
    int64_t fmq_read_now(int fd, uint8_t *p, int64_t n, int64_t at) nogil
    int64_t fmq_read(int fd, uint8_t *p, int64_t n, int64_t at) nogil

cdef class ReadableQueue:
    cdef public int64_t min_offset, max_offset
    cdef readonly int64_t units_per_file, units_per_block
    cdef readonly bytes topic
    cdef readonly dict blocks
    cdef int64_t _block_of(self, int64_t offset) noexcept

cdef class FastReader:
    cdef public int64_t found, missed, messages
    cdef public bint needs_commit
    cdef dict _topics
    cdef object _files, _hashes_of
    cdef type _message, _result, _raw_result
    cdef object _found_status, _unmatched_status, _end_status
    cdef int64_t _file_size, _memory_count, _memory_bytes, _disk_count, _disk_bytes, _young, _filtered
    cdef int64_t _made_after
    cdef unsigned long _main_thread
    cdef public bint asks_first
    cdef tuple _codes  # (tag expression, its hashes as bytes) of the last filter
    cdef object _get(self, object topic, object queue_id, object offset, object most, object tags, object wait_ms, int64_t raw_bytes)
    cdef object _walk(self, ReadableQueue queue, int64_t queue_id, int64_t at, int64_t most, bytes codes, int64_t low, int64_t high, int64_t raw_bytes)
    cdef bytes _block(self, ReadableQueue queue, int64_t first, int64_t following)
    cdef bytes _records(self, tuple files, ReadableQueue queue, int64_t queue_id, int64_t at, int64_t stop, bytes codes, int64_t total)
    cdef object _message_at(self, tuple files, ReadableQueue queue, int64_t queue_id, int64_t offset, int64_t physical, int64_t size)
    cdef bint _copy_record(self, tuple files, ReadableQueue queue, int64_t queue_id, int64_t offset, int64_t physical, int64_t size, uint8_t *p) except? 0
    cdef void _count(self, int64_t number)
    cdef bint _read(self, AppendTarget file, uint8_t *p, int64_t size, int64_t at) except? 0
    cdef bytes _hashes(self, object tags)
    cdef object _answer(self, object status, list messages, int64_t following, int64_t low, int64_t high)

cdef bint _is_wanted(bytes codes, int64_t tags_code) noexcept

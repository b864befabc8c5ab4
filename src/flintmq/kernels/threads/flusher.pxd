# C types of flusher.py.
cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport strdup
from flintmq.kernels.write.fast_append cimport AppendTarget, DurableWait, PutListener

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from "unistd.h" nogil:
    int getpid()

cdef extern from "flusher.h" nogil:
    int ETIMEDOUT, EINTR
    int32_t load32(int32_t *p)
    int64_t load64(int64_t *p)
    void store32(int32_t *p, int32_t value)
    void store64(int64_t *p, int64_t value)
    int32_t add32(int32_t *p, int32_t value)
    int64_t add64(int64_t *p, int64_t value)
    int32_t swap32(int32_t *p, int32_t value)
    bint raise64(int64_t *p, int64_t value)
    int64_t fmq_now()
    int fmq_native()
    int fmq_sleep(int32_t *word, int32_t known, int64_t deadline)
    void fmq_wake(int32_t *word)
    int fmq_sync(int fd)
    void fmq_pass(int fd)
    int fmq_identity(int fd, int64_t *dev, int64_t *ino)
    bint fmq_names(const char *path, int64_t dev, int64_t ino)
    void fmq_touch(uint8_t *map, int64_t begin, int64_t end)
    int fmq_event()
    void fmq_ring_event(int fd)
    void fmq_take_event(int fd)
    ctypedef struct fmq_loop:
        fmq_loop *next
        int event
        int32_t want[4]
    ctypedef struct fmq_thread:
        void *owner
    int fmq_start(fmq_thread *thread, void (*run)(void *) noexcept nogil, void *owner)
    void fmq_join(fmq_thread *thread)
    void fmq_lock(fmq_thread *thread)
    void fmq_unlock(fmq_thread *thread)

cdef struct SyncedFile:
    int64_t start, end, dev, ino
    int64_t *flushed  # position in the file up to which it is on disk
    int64_t *reserved  # position up to which it may be stored into
    uint8_t **map
    char *path
    int fd

cdef class LogWatermark:
    cdef public int64_t flushed_where
    cdef public int sync_error

cdef class Flusher(DurableWait):
    cdef int64_t _appended, _appended_time, _time, _begun, _done, _timeout, _interval, _covered, _syncs, _grown
    cdef int64_t *_flushed  # the log's
    cdef int32_t _words[4]
    cdef int32_t _sleepers[4]
    cdef int32_t _bell, _idle, _stopping, _ended, _failed, _turn, _queued
    cdef int64_t _limits[16]
    cdef int64_t _waits[17]
    cdef int _limit_count, _file_count, _refused
    cdef SyncedFile *_files
    cdef SyncedFile _lock_file
    cdef bint *_needs_wake
    cdef bint _has_thread
    cdef int _pid
    cdef LogWatermark _log
    cdef object _owner
    cdef list _kept
    cdef PutListener _after_flush
    cdef fmq_thread _thread
    cdef fmq_loop *_loops
    cdef public int gate
    cdef public bint in_caller
    cpdef int wait(self, int64_t end, int64_t appended, int64_t time) except? -2
    cdef void _publish(self, int64_t appended, int64_t time) noexcept
    cdef int _handle_signals(self) except -1
    cdef int _wait(self, int64_t end, int64_t deadline) noexcept nogil
    cdef void _count(self, int64_t began, int64_t waits) noexcept nogil
    cdef void _ring(self) noexcept nogil
    cdef void _run(self) noexcept nogil
    cdef int64_t _lead(self) noexcept nogil
    cdef void _take_turn(self) noexcept nogil
    cdef void _give_turn(self) noexcept nogil
    cdef bint _group(self, bint leads) noexcept nogil
    cdef int _sync(self, int64_t target, bint leads) noexcept nogil
    cdef int _sync_files(self, int64_t target) noexcept nogil
    cdef void _touch_ahead(self) noexcept nogil
    cdef bint _has_names(self) noexcept nogil
    cdef void _notify(self, int64_t n) noexcept nogil
    cdef void _end(self) noexcept nogil
    cdef bint _asked(self, int what, int64_t number) except -1
    cdef void _link(self, fmq_loop *node) noexcept
    cdef void _unlink(self, fmq_loop *node) noexcept
    cdef void _want(self, fmq_loop *node) noexcept
    cdef void _forget_files(self) noexcept

cdef bint _ask(void *owner, int what, int64_t number) noexcept with gil
cdef void _main(void *owner) noexcept with gil

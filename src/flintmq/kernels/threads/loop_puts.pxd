# C types of loop_puts.py.
cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from flintmq.kernels.write.fast_append cimport LoopWaits
from flintmq.kernels.threads.flusher cimport Flusher, fmq_event, fmq_loop, fmq_now, fmq_ring_event, fmq_take_event, load32, load64
from flintmq.kernels.write.message cimport PutResult

cdef extern from "Python.h":
    void PyErr_SetObject(object type, object value)
    unsigned long PyThread_get_thread_ident()
    object PyContext_CopyCurrent()
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

cdef extern from "loop_puts.h":
    bint fmq_is_task_step(object callback)

cdef extern from "unistd.h" nogil:
    int close(int fd)
    int getpid()

cdef class PutFuture:
    cdef public bint _asyncio_future_blocking
    cdef int _state
    cdef int64_t _end
    cdef object _loop, _callback, _context, _message
    cdef PutResult _result
    cdef list _more
    cdef object _schedule(self)
    cdef object _step(self, object answered)

cdef class Turn:
    cdef list futures
    cdef int64_t since, end
    cdef Py_ssize_t settled  # so many of its futures are done

cdef class LoopTurns(LoopWaits):
    cdef readonly object loop
    cdef list _futures  # of this turn
    cdef object _answered, _turns, _late, _running, _soon, _timer
    cdef bint _is_armed, _is_over
    cdef int64_t _timeout
    cdef unsigned long _stepper  # the thread that steps tasks; 0: none does
    cpdef object add(self, PutResult result)
    cdef object _begin(self, object loop, object running, object late, double timeout_s)
    cdef object _request(self, Turn turn)
    cdef object _give_up(self, Turn turn)
    cdef object _settle(self, list futures, Py_ssize_t at, int64_t reached)
    cdef object _step_all(self, list futures)
    cdef bint _is_stepping(self) noexcept
    cdef object _watch(self, int64_t since)

cdef class LoopPuts(LoopTurns):
    cdef Flusher _flusher
    cdef fmq_loop *_node
    cdef int _pid
    cpdef bint is_running(self) except -1
    cdef object _answer(self, Turn turn, int64_t durable)

cdef class ReplicaPuts(LoopTurns):
    cdef object _send
    cdef int64_t _reached
    cpdef bint is_running(self) except -1
    cdef list _answer(self, int64_t reached)

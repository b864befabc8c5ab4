# C types of replica_lane.py.
cimport cython
from libc.stdint cimport int32_t, int64_t
from flintmq.kernels.flusher cimport fmq_native, fmq_now, load32, load64, store32, store64

cdef extern from "replica_lane.h" nogil:
    ctypedef struct fmq_lane:
        int32_t lock
        int32_t wanted
        int32_t lent
        int sock, epoll, file, bell, error, head_left, raw_size
        int64_t start, limit, batch, next, sent, report, acked, wrote, received, exchanges
        unsigned char raw[256]
    bint fmq_lane_lock(fmq_lane *lane, int64_t deadline)
    void fmq_lane_unlock(fmq_lane *lane)
    bint fmq_exchange(fmq_lane *lane, int64_t end, int64_t nanoseconds)

cdef class ReplicaLane:
    cdef fmq_lane _lane

# C types of replica_lane.py.
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from flintmq.kernels.threads.flusher cimport fmq_native, fmq_now, load32, load64, store32, store64

cdef extern from "replica_lane.h" nogil:
    int FMQ_HEAD, FMQ_MOST
    ctypedef struct fmq_lane:
        int32_t lock, wanted, given, lent
        int sock, epoll, file, bell, error, head_left, raw_size
        int64_t start, limit, batch, begun, next, sent, report, acked, asked, wrote, received, exchanges
        unsigned char raw[256]
        unsigned char *frame
    bint fmq_lane_take(fmq_lane *lane, int64_t deadline)
    void fmq_lane_unlock(fmq_lane *lane)
    bint fmq_exchange(fmq_lane *lane, int64_t end, int64_t nanoseconds)
    bint fmq_lane_rests(fmq_lane *lane, int64_t end)

cdef class ReplicaLane:
    cdef fmq_lane _lane

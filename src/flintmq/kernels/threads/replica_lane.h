/* What replica_lane.py does without the GIL: a thread sends one frame to a follower and waits for its report. Linux only:
 * elsewhere fmq_native() is 0 and no lane is made. */
#pragma once
#include "flusher.h"

#define FMQ_HEAD 12         /* bytes of a frame's header (ha/frames.py) */
#define FMQ_MOST (64 << 10) /* bytes of the largest frame */
#define FMQ_RAW 256         /* bytes received at once, at most */

/* Whoever holds `lock` may read and write everything; the listener's thread alone lends. `lent`, `acked`, `asked`,
 * `wanted`, `given` and `exchanges` are read by all threads. */
typedef struct {
    int32_t lock;    /* 0 free, 1 held, 2 held and waited for */
    int32_t wanted;  /* the listener found it held: whoever has it gives it to the listener, and rings the bell */
    int32_t given;   /* it is held for the listener, which was given it and has not taken it yet */
    int32_t lent;    /* the facts below are those of a line that may be used */
    int sock, epoll, file, bell;
    int error;               /* of the line's socket; 0: none */
    int64_t start, limit;    /* log offsets of the file's begin and end */
    int64_t batch;           /* bytes of the largest frame */
    int64_t begun;           /* log offset of the last frame */
    int64_t next;            /* log offset after the last frame, all of which may not be sent */
    int64_t sent;            /* log offset after the last byte sent */
    int64_t report;          /* the last report */
    int64_t acked;           /* the same for all threads; -1: there is no line */
    int64_t asked;           /* the highest end for which a put asked */
    int64_t wrote, received; /* nanoseconds of fmq_now; 0: nothing was */
    int64_t exchanges;       /* number of frames that were sent and acknowledged */
    int head_left;           /* bytes of the last frame's header to send */
    int raw_size;            /* bytes received that are no whole acknowledgement, in `raw` */
    unsigned char raw[FMQ_RAW];
    unsigned char *frame;    /* of FMQ_HEAD + FMQ_MOST bytes */
} fmq_lane;

#if defined(__linux__)
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Take the lock; return 0 if it is not free by `deadline` (fmq_now; 0: now), or a signal came. */
static inline int fmq_lane_lock(fmq_lane *lane, int64_t deadline) {
    int32_t known = 0;
    if (__atomic_compare_exchange_n(&lane->lock, &known, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 1;
    while (deadline > 0) {
        if (swap32(&lane->lock, 2) == 0) return 1;
        int error = fmq_sleep(&lane->lock, 2, deadline);
        if (error == ETIMEDOUT || error == EINTR) return 0;
    }
    return 0;
}
static inline void fmq_lane_unlock(fmq_lane *lane) {
    if (swap32(&lane->lock, 0) == 2) syscall(SYS_futex, &lane->lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Release the lock after an exchange, or give it to the listener: puts that wait must not keep it from its turn. */
static inline void fmq_lane_release(fmq_lane *lane) {
    do {
        if (swap32(&lane->wanted, 0)) {
            store32(&lane->given, 1);
            (void)!send(lane->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
            return;
        }
        fmq_lane_unlock(lane);
    } while (load32(&lane->wanted) && fmq_lane_lock(lane, 0)); /* the listener may have looked just before */
}

/* Take the lock for the listener, by `deadline` as for fmq_lane_lock; at 0 it is given to the listener later if it is not
 * free. */
static inline int fmq_lane_take(fmq_lane *lane, int64_t deadline) {
    if (!swap32(&lane->given, 0)) {
        store32(&lane->wanted, deadline == 0);
        if (!fmq_lane_lock(lane, deadline)) return 0;
    }
    store32(&lane->wanted, 0);
    return 1;
}

static inline void fmq_put_be(unsigned char *to, uint64_t number, int size) {
    while (size-- > 0) to[size] = (unsigned char)number, number >>= 8;
}

/* Have the listener's selector look for these events of the line. */
static inline int fmq_watch(fmq_lane *lane, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = lane->sock}; /* as Python's select.epoll does */
    return epoll_ctl(lane->epoll, EPOLL_CTL_MOD, lane->sock, &event);
}

/* Send the log from `next` to `end` in one frame; return 0 if it did not go out whole. */
static inline int fmq_send_frame(fmq_lane *lane, int64_t end) {
    int64_t size = end - lane->next;
    fmq_put_be(lane->frame, (uint64_t)lane->next, 8);
    fmq_put_be(lane->frame + 8, (uint64_t)size, 4);
    if (pread(lane->file, lane->frame + FMQ_HEAD, (size_t)size, lane->next - lane->start) != size) return 0;
    ssize_t done = send(lane->sock, lane->frame, (size_t)(FMQ_HEAD + size), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lane->error = errno;
        return 0;
    }
    lane->wrote = fmq_now();
    lane->begun = lane->next;
    lane->next = end;
    lane->head_left = done < FMQ_HEAD ? (int)(FMQ_HEAD - done) : 0;
    lane->sent += done > FMQ_HEAD ? done - FMQ_HEAD : 0;
    return done == FMQ_HEAD + size;
}

/* Take the bytes that came; return 0 if they are more than acknowledgements, or there are none any more. What is no whole
 * acknowledgement stays in `raw`. */
static inline int fmq_take_reports(fmq_lane *lane) {
    ssize_t got = recv(lane->sock, lane->raw + lane->raw_size, (size_t)(FMQ_RAW - lane->raw_size), MSG_DONTWAIT);
    if (got < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 1;
        lane->error = errno;
        return 0;
    }
    if (got == 0) return 0; /* the listener's thread finds the end, too */
    lane->received = fmq_now();
    int size = lane->raw_size + (int)got, at = 0;
    for (; size - at >= 8; at += 8) {
        uint64_t report = 0;
        for (int i = 0; i < 8; i++) report = report << 8 | lane->raw[at + i];
        if ((int64_t)report < lane->report || (int64_t)report > lane->sent) break; /* the listener judges it */
        lane->report = (int64_t)report;
    }
    lane->raw_size = size - at;
    memmove(lane->raw, lane->raw + at, (size_t)lane->raw_size);
    store64(&lane->acked, lane->report);
    return lane->raw_size < 8;
}

/* Wait until the follower reports `end`, until `deadline`; return 0 if it did not. */
static inline int fmq_await_report(fmq_lane *lane, int64_t end, int64_t deadline) {
    while (lane->report < end) {
        int64_t left = deadline - fmq_now();
        if (left <= 0) return 0;
        struct pollfd one = {lane->sock, POLLIN, 0};
        struct timespec t = {left / 1000000000, left % 1000000000};
        if (ppoll(&one, 1, &t, NULL) <= 0) return 0; /* the time is up, or a signal came */
        if (!fmq_take_reports(lane)) return 0;
    }
    return 1;
}

/* Return whether nothing is half sent, and nothing came that the listener must judge. */
static inline int fmq_is_whole(fmq_lane *lane) {
    return load32(&lane->lent) && !lane->error && !lane->raw_size && !lane->head_left && lane->sent == lane->next;
}

/* Send what is missing below `end`, and what other puts asked for, and wait for its report. The lock is held. */
static inline int fmq_send_and_wait(fmq_lane *lane, int64_t end, int64_t deadline) {
    if (end > lane->next) { /* else an earlier frame has it */
        int64_t most = lane->next + (lane->batch < FMQ_MOST ? lane->batch : FMQ_MOST), upto = load64(&lane->asked);
        if (most > lane->limit) most = lane->limit;
        if (end > most) return 0;
        if (!fmq_send_frame(lane, upto > end && upto <= most ? upto : end)) return 0;
    }
    return fmq_await_report(lane, end, deadline);
}

/* Have the follower acknowledge the log below `end`; return 1 once it did, 0 if that is left to the listener. */
static inline int fmq_exchange(fmq_lane *lane, int64_t end, int64_t nanoseconds) {
    if (load64(&lane->acked) >= end) return 1;
    if (!load32(&lane->lent)) return 0;
    int64_t deadline = fmq_now() + nanoseconds;
    raise64(&lane->asked, end);
    if (!fmq_lane_lock(lane, deadline)) return 0;
    int done = load64(&lane->acked) >= end;
    /* The listener must not wake for the report. It looks again before the lock is free, so that it misses none. */
    if (!done && fmq_is_whole(lane) && fmq_watch(lane, 0) == 0) {
        done = fmq_send_and_wait(lane, end, deadline);
        lane->exchanges += done;
        fmq_watch(lane, EPOLLIN);
    }
    fmq_lane_release(lane);
    return done;
}

/* Return whether a put has the line now, or everything below `end` at least was sent, all that was sent is acknowledged,
 * and nothing else came. */
static inline int fmq_lane_rests(fmq_lane *lane, int64_t end) {
    if (!load32(&lane->lent)) return 0;
    if (!fmq_lane_lock(lane, 0)) return 1;
    int rests = fmq_is_whole(lane) && lane->next >= end && lane->report == lane->next;
    fmq_lane_unlock(lane);
    return rests;
}
#else
static inline int fmq_lane_take(fmq_lane *lane, int64_t deadline) { return 1; }
static inline void fmq_lane_unlock(fmq_lane *lane) {}
static inline int fmq_exchange(fmq_lane *lane, int64_t end, int64_t nanoseconds) { return 0; }
static inline int fmq_lane_rests(fmq_lane *lane, int64_t end) { return 0; }
#endif

/* Calls of the system that flusher.py makes without the GIL: a thread, futex words, event descriptors, syncs. Linux only:
 * elsewhere fmq_native() is 0 and no flusher is made. */
#pragma once
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define load32(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define load64(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define store32(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define store64(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define add32(p, v) __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST)
#define add64(p, v) __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST)
#define swap32(p, v) __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)

static inline int64_t fmq_now(void) { /* nanoseconds of the clock that never steps */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Raise *p to `value`; return 0 if it is not lower. */
static inline int raise64(int64_t *p, int64_t value) {
    int64_t known = load64(p);
    while (known < value)
        if (__atomic_compare_exchange_n(p, &known, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 1;
    return 0;
}

typedef struct fmq_loop {
    struct fmq_loop *next;
    int event;       /* event descriptor of one event loop */
    int32_t want[4]; /* whether it waits for group n, at n & 3 */
} fmq_loop;

#if defined(__linux__)
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static inline int fmq_native(void) { return 1; }

/* Sleep while *word is `known`, until `deadline` (fmq_now; negative: none). Return 0, ETIMEDOUT, EINTR or EAGAIN. */
static inline int fmq_sleep(int32_t *word, int32_t known, int64_t deadline) {
    struct timespec t = {deadline / 1000000000, deadline % 1000000000};
    long done = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, known, deadline < 0 ? NULL : &t, NULL,
                        FUTEX_BITSET_MATCH_ANY);
    return done == 0 ? 0 : errno;
}
static inline void fmq_wake(int32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0); }

/* fdatasync; 0 or its error. EINTR means that nothing was tried: it is asked again, as Python does. */
static inline int fmq_sync(int fd) {
    int done;
    do done = fdatasync(fd); while (done != 0 && errno == EINTR);
    return done == 0 ? 0 : errno;
}

/* Write a byte, then wait until one comes: tests hold syncs back so. */
static inline void fmq_pass(int fd) {
    char byte = '?';
    (void)!write(fd, &byte, 1);
    while (read(fd, &byte, 1) < 0 && errno == EINTR) {}
}

static inline int fmq_identity(int fd, int64_t *dev, int64_t *ino) {
    struct stat s;
    if (fstat(fd, &s) != 0) return errno;
    *dev = (int64_t)s.st_dev, *ino = (int64_t)s.st_ino;
    return 0;
}
/* Return whether a path names this file, links not followed. Its times are not asked for: Linux 6.13 and later note that
 * somebody saw them, so that the next store into the file changes its inode, and ext4 without a journal writes the
 * inode with the next sync (experiments/2026-11-20-group-commit.md). */
static inline int fmq_names(const char *path, int64_t dev, int64_t ino) {
#if defined(SYS_statx) && defined(STATX_INO)
    struct statx x;
    if (syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO, &x) == 0)
        return (int64_t)makedev(x.stx_dev_major, x.stx_dev_minor) == dev && (int64_t)x.stx_ino == ino;
#endif
    struct stat s; /* where there is no statx, or something refuses it */
    return fstatat(AT_FDCWD, path, &s, AT_SYMLINK_NOFOLLOW) == 0 && (int64_t)s.st_dev == dev && (int64_t)s.st_ino == ino;
}

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
/* Make the pages of bytes [from, to) of a map present and writable; where that fails, the first store into each does. */
static inline void fmq_touch(uint8_t *map, int64_t from, int64_t to) {
    from -= from % sysconf(_SC_PAGESIZE);
    if (from < to) (void)madvise(map + from, (size_t)(to - from), MADV_POPULATE_WRITE);
}

static inline int fmq_event(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); } /* -1: errno says why */
static inline void fmq_ring_event(int fd) { uint64_t one = 1; (void)!write(fd, &one, 8); }
static inline void fmq_take_event(int fd) { uint64_t count; (void)!read(fd, &count, 8); }

typedef struct { pthread_t thread; pthread_mutex_t mutex; void (*run)(void *); void *owner; } fmq_thread;
static void *fmq_main(void *x) {
    fmq_thread *t = (fmq_thread *)x;
    prctl(PR_SET_NAME, "flintmq-flush", 0, 0, 0);
    t->run(t->owner);
    return NULL;
}
/* Start the thread, with all signals blocked: they belong to Python's threads. Return 0 or an error. */
static inline int fmq_start(fmq_thread *t, void (*run)(void *), void *owner) {
    sigset_t all, before;
    t->run = run, t->owner = owner;
    pthread_mutex_init(&t->mutex, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&t->thread, NULL, fmq_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
static inline void fmq_join(fmq_thread *t) { pthread_join(t->thread, NULL); }
static inline void fmq_lock(fmq_thread *t) { pthread_mutex_lock(&t->mutex); }
static inline void fmq_unlock(fmq_thread *t) { pthread_mutex_unlock(&t->mutex); }
#else
static inline int fmq_native(void) { return 0; }
static inline int fmq_sleep(int32_t *word, int32_t known, int64_t deadline) { return ENOSYS; }
static inline void fmq_wake(int32_t *word) {}
static inline int fmq_sync(int fd) { return fsync(fd) == 0 ? 0 : errno; }
static inline void fmq_pass(int fd) {}
static inline int fmq_identity(int fd, int64_t *dev, int64_t *ino) { return ENOSYS; }
static inline int fmq_names(const char *path, int64_t dev, int64_t ino) { return 0; }
static inline void fmq_touch(uint8_t *map, int64_t from, int64_t to) {}
static inline int fmq_event(void) { return -1; }
static inline void fmq_ring_event(int fd) {}
static inline void fmq_take_event(int fd) {}
typedef struct { void *owner; } fmq_thread;
static inline int fmq_start(fmq_thread *t, void (*run)(void *), void *owner) { return ENOSYS; }
static inline void fmq_join(fmq_thread *t) {}
static inline void fmq_lock(fmq_thread *t) {}
static inline void fmq_unlock(fmq_thread *t) {}
#endif

/* What kernels/threads/ring.py needs of C: positions that another thread reads without the GIL, writes, and a short wait. */
#pragma once
#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

/* Whoever observes a position sees all that was stored before it was published. */
static inline void publish(int64_t *position, int64_t value) { __atomic_store_n(position, value, __ATOMIC_RELEASE); }
static inline int64_t observe(const int64_t *position) { return __atomic_load_n(position, __ATOMIC_ACQUIRE); }

/* Write all of it; the errno of a write that failed, else 0. */
static inline int write_all(int fd, const uint8_t *bytes, int64_t count, int64_t position) {
  while (count > 0) {
    ssize_t done = pwrite(fd, bytes, (size_t)count, (off_t)position);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return ENOSPC;
    bytes += done;
    position += done;
    count -= done;
  }
  return 0;
}

static inline int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * (int64_t)1000000 + now.tv_nsec / 1000;
}

static inline void rest_us(int64_t micros) {
  struct timespec time = {micros / 1000000, micros % 1000000 * 1000};
  nanosleep(&time, 0);
}

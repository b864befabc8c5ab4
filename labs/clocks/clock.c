/* A wall clock that a test sets, for a process that preloads this: gcc -O2 -shared -fPIC -o clock.so clock.c

   FLINTMQ_CLOCK names a file of eight bytes: the milliseconds that the wall clock is ahead, in the machine's byte order.
   Only the wall clock is another: waits and the monotonic clock go on as they were. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t ahead_ms(void)
{
    static volatile int64_t *told;
    static int64_t none;
    if (!told) {
        const char *name = getenv("FLINTMQ_CLOCK");
        int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
        void *map = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0)
            close(file);
        told = map == MAP_FAILED ? &none : map;
    }
    return *told;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = time->tv_nsec + ahead_ms() % 1000 * 1000000;
        time->tv_sec += ahead_ms() / 1000 + (ns >= 1000000000) - (ns < 0);
        time->tv_nsec = ns + (ns < 0 ? 1000000000 : ns >= 1000000000 ? -1000000000 : 0);
    }
    return failed;
}

int gettimeofday(struct timeval *time, void *zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}

/* What one durable put at a time can reach with no Python at all:
 *
 *     gcc -O2 -o /tmp/sync_bound experiments/sync_bound.c -lpthread && /tmp/sync_bound FILE
 *
 * The bare loop writes 220 bytes and syncs them in one thread. In the other ways one thread stores them into a map and
 * wakes another, which syncs and wakes it: what a put costs that waits for a flusher. They are woken by futex words,
 * pipes or event descriptors. Each way begins 30 rounds of 300 puts in turn; medians of microseconds a put. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FUTEX, PIPE, EVENT };
enum { PUTS = 300, ROUNDS = 30, RECORD = 220, WAYS = 6 };
static const struct { const char *name; int ask, answer; } ways[WAYS] = {
    {"bare loop", -1, -1},       {"futex, futex", FUTEX, FUTEX}, {"pipe, pipe", PIPE, PIPE},
    {"pipe, futex", PIPE, FUTEX}, {"futex, pipe", FUTEX, PIPE},   {"event, event", EVENT, EVENT}};

static int fd, way, stopping, words[2], ends[2][2];
static char *map, record[RECORD];
static int64_t at, took[PUTS];

static void must(int good) { if (!good) { perror("sync_bound"); exit(1); } }
static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}
static double median(int64_t *of, int count) { qsort(of, count, 8, ascending); return of[count / 2] / 1e3; }

static void wake(int how, int who) {
    uint64_t one = 1;
    __atomic_add_fetch(&words[who], 1, __ATOMIC_SEQ_CST);
    if (how == FUTEX) syscall(SYS_futex, &words[who], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    else must(write(ends[who][1], &one, how == PIPE ? 1 : 8) > 0);
}
static void wait_for(int how, int who, int known) {
    uint64_t one;
    if (how != FUTEX) must(read(ends[who][0], &one, how == PIPE ? 1 : 8) > 0);
    else while (__atomic_load_n(&words[who], __ATOMIC_SEQ_CST) == known)
        syscall(SYS_futex, &words[who], FUTEX_WAIT_PRIVATE, known, NULL, NULL, 0);
}
static void *flusher(void *unused) {
    for (int known = 0;; known++) {
        wait_for(ways[way].ask, 0, known);
        if (stopping) return unused;
        must(fdatasync(fd) == 0);
        wake(ways[way].answer, 1);
    }
}
static double bare(void) {
    for (int i = 0; i < PUTS; i++, at += RECORD) {
        int64_t began = now();
        must(pwrite(fd, record, RECORD, at) == RECORD && fdatasync(fd) == 0);
        took[i] = now() - began;
    }
    return median(took, PUTS);
}
static double handed_over(void) {
    pthread_t thread;
    words[0] = words[1] = stopping = 0;
    for (int who = 0; who < 2; who++) {
        must(pipe(ends[who]) == 0);
        int how = who ? ways[way].answer : ways[way].ask;
        if (how == EVENT) { close(ends[who][0]); close(ends[who][1]); ends[who][0] = ends[who][1] = eventfd(0, 0); }
    }
    must(pthread_create(&thread, NULL, flusher, NULL) == 0);
    for (int i = 0; i < PUTS; i++, at += RECORD) {
        int64_t began = now();
        memcpy(map + at, record, RECORD);
        wake(ways[way].ask, 0);
        wait_for(ways[way].answer, 1, i);
        took[i] = now() - began;
    }
    stopping = 1;
    wake(ways[way].ask, 0);
    pthread_join(thread, NULL);
    for (int who = 0; who < 2; who++) { close(ends[who][0]); if (ends[who][0] != ends[who][1]) close(ends[who][1]); }
    return median(took, PUTS);
}
int main(int count, char **words_given) {
    static int64_t found[WAYS][ROUNDS];
    must(count == 2);
    fd = open(words_given[1], O_RDWR | O_CREAT | O_EXCL, 0600);
    must(fd >= 0 && ftruncate(fd, 256 << 20) == 0 && posix_fallocate(fd, 0, 256 << 20) == 0);
    map = mmap(NULL, 256 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(map != MAP_FAILED && madvise(map, 256 << 20, MADV_RANDOM) == 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int turn = 0; turn < WAYS; turn++) {
            way = (turn + round) % WAYS;
            found[way][round] = (way ? handed_over() : bare()) * 1e3;
        }
    double first = median(found[0], ROUNDS);
    for (way = 0; way < WAYS; way++) printf("%-14s %4.0f us, %.2f\n", ways[way].name, median(found[way], ROUNDS), median(found[way], ROUNDS) / first);
    return unlink(words_given[1]);
}

/* The only C header: CRC-32 of short and long byte runs, big-endian loads and stores, Java's string hash.
 *
 * CRC-32 is that of zlib (reflected 0xEDB88320). A library call costs more than the checksum of a small message body,
 * so it is inlined here in three forms. When the module loads it chooses the widest form that the processor has:
 *   x86-64   carry-less multiply, 64 or (AVX-512) 256 bytes a step (Gopal et al., "Fast CRC computation using PCLMULQDQ",
 *            Intel 2009)
 *   aarch64  the CRC32 instructions
 *   else     slice-by-8 tables
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define FMQ_X86 1
#include <immintrin.h>
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define FMQ_ARM 1
#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

/* ---- big-endian loads and stores; the caller has checked the bounds ---- */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FMQ_BE16(v) __builtin_bswap16(v)
#define FMQ_BE32(v) __builtin_bswap32(v)
#define FMQ_BE64(v) __builtin_bswap64(v)
#else
#define FMQ_BE16(v) (v)
#define FMQ_BE32(v) (v)
#define FMQ_BE64(v) (v)
#endif

/* The first byte of a buffer, as Cython holds it. */
#define FMQ_START(view) ((void *)(view).data)

static inline uint16_t u16be(const uint8_t *p, int64_t at) { uint16_t v; memcpy(&v, p + at, 2); return FMQ_BE16(v); }
static inline uint32_t u32be(const uint8_t *p, int64_t at) { uint32_t v; memcpy(&v, p + at, 4); return FMQ_BE32(v); }
static inline int16_t i16be(const uint8_t *p, int64_t at) { return (int16_t)u16be(p, at); }
static inline int32_t i32be(const uint8_t *p, int64_t at) { return (int32_t)u32be(p, at); }
static inline int64_t i64be(const uint8_t *p, int64_t at) { uint64_t v; memcpy(&v, p + at, 8); return (int64_t)FMQ_BE64(v); }
static inline void put16be(uint8_t *p, int64_t at, int64_t x) { uint16_t v = FMQ_BE16((uint16_t)x); memcpy(p + at, &v, 2); }
static inline void put32be(uint8_t *p, int64_t at, int64_t x) { uint32_t v = FMQ_BE32((uint32_t)x); memcpy(p + at, &v, 4); }
static inline void put64be(uint8_t *p, int64_t at, int64_t x) { uint64_t v = FMQ_BE64((uint64_t)x); memcpy(p + at, &v, 8); }
static int fmq_level; /* 0 plain, 1 carry-less multiply or CRC instructions, 2 AVX-512 */

#if FMQ_X86
__attribute__((target("avx512f,avx512bw"))) static int fmq_same_512(const uint8_t *p, const uint8_t *q, int64_t n) { /* 1 to 64 */
    __mmask64 m = ~0ull >> (64 - n);
    return _mm512_mask_cmpneq_epi8_mask(m, _mm512_maskz_loadu_epi8(m, p), _mm512_maskz_loadu_epi8(m, q)) == 0;
}
#endif

/* Return whether two runs of n bytes are equal. Names are short and of changing lengths: a call of memcmp, or a branch
 * on each length, takes longer than the comparison. */
static inline int same_bytes(const uint8_t *p, int64_t at, const uint8_t *q, int64_t from, int64_t n) {
    uint64_t a, b, other = 0;
    p += at; q += from;
#if FMQ_X86
    if (fmq_level == 2 && n > 0 && n <= 64) return fmq_same_512(p, q, n);
#endif
    if (n < 8 || n > 64) return memcmp(p, q, n) == 0;
    for (int64_t i = 0; i < n - 8; i += 8) { memcpy(&a, p + i, 8); memcpy(&b, q + i, 8); other |= a ^ b; }
    memcpy(&a, p + n - 8, 8); memcpy(&b, q + n - 8, 8); /* overlaps the one before */
    return (other | (a ^ b)) == 0;
}
static inline void copy_bytes(uint8_t *to, int64_t at, const uint8_t *p, int64_t from, int64_t n) {
#ifdef __GNUC__
    /* GCC must not see that n is short: it would write `rep movs`, whose start costs more than a call of memcpy. */
    if (!__builtin_constant_p(n)) __asm__("" : "+r"(n));
#endif
    memcpy(to + at, p + from, n);
}
/* Prefetch the cache lines of n bytes (4096 at most) from p + at on, which may be beyond the end of the buffer. */
static inline void prefetch_lines(const uint8_t *p, int64_t at, int64_t n) {
    for (int64_t i = 0; i < n && i < 4096; i += 64) __builtin_prefetch(p + at + i, 0, 3);
}
/* Prefetch for a pass that advances by n bytes each time: 4 KiB ahead into the L1 cache, 16 KiB ahead into the L2. */
static inline void prefetch_pass(const uint8_t *p, int64_t at, int64_t n) {
    for (int64_t i = 0; i < n && i < 4096; i += 64) {
        __builtin_prefetch(p + at + 4096 + i, 0, 3);
        __builtin_prefetch(p + at + 16384 + i, 0, 2);
    }
}
static inline void prefetch_write(const uint8_t *p, int64_t at) { __builtin_prefetch(p + at, 1, 1); }

/* Return the first position in [at, end) of a byte that is not ASCII, or end. */
static inline int64_t first_non_ascii(const uint8_t *p, int64_t at, int64_t end) {
    for (uint64_t v; at + 8 <= end; at += 8) { memcpy(&v, p + at, 8); if (v & 0x8080808080808080ull) break; }
    while (at < end && p[at] < 0x80) at++;
    return at;
}

/* Return whether n bytes are all below 0x80. */
static inline int all_ascii(const uint8_t *p, int64_t at, int64_t n) {
    const uint64_t tops = 0x8080808080808080ull;
    uint64_t v, seen = 0;
    uint32_t a, b;
    p += at;
    if (n >= 8) {
        for (int64_t i = 0; i < n - 8; i += 8) { memcpy(&v, p + i, 8); seen |= v; }
        memcpy(&v, p + n - 8, 8); /* overlaps the one before */
        return ((seen | v) & tops) == 0;
    }
    if (n >= 4) {
        memcpy(&a, p, 4); memcpy(&b, p + n - 4, 4);
        return ((a | b) & (uint32_t)tops) == 0;
    }
    while (n-- > 0) seen |= *p++;
    return (seen & 0x80) == 0;
}

/* Return bits: bit i is set if p[at + i], i < 64, is 01 or 02 (they separate properties) or not ASCII. Reads 64 bytes. */
static inline uint64_t odd_bytes(const uint8_t *p, int64_t at) {
    uint64_t found = 0;
#if FMQ_X86
    const __m128i one = _mm_set1_epi8(1), two = _mm_set1_epi8(2);
    for (int i = 0; i < 64; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(p + at + i));
        __m128i m = _mm_or_si128(v, _mm_or_si128(_mm_cmpeq_epi8(v, one), _mm_cmpeq_epi8(v, two)));
        found |= (uint64_t)(uint32_t)_mm_movemask_epi8(m) << i;
    }
#else
    for (int i = 0; i < 64; i++) found |= (uint64_t)(p[at + i] >= 0x80 || p[at + i] == 1 || p[at + i] == 2) << i;
#endif
    return found;
}

/* Return bits: bit i is set if p[at + i] equals p[other + i], i < 64. */
static inline uint64_t equal_bytes(const uint8_t *p, int64_t at, int64_t other) {
    uint64_t found = 0;
#if FMQ_X86
    for (int i = 0; i < 64; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(p + at + i)), b = _mm_loadu_si128((const __m128i *)(p + other + i));
        found |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) << i;
    }
#else
    for (int i = 0; i < 64; i++) found |= (uint64_t)(p[at + i] == p[other + i]) << i;
#endif
    return found;
}

#if FMQ_X86
__attribute__((target("avx512f,avx512bw"))) static int fmq_same_shape_512(const uint8_t *p, const uint8_t *q, int64_t n, const long long *keep) {
    const __m512i one = _mm512_set1_epi8(1);
    for (; n > 0; p += 64, q += 64, n -= 64, keep++) {
        uint64_t within = n < 64 ? ~(~0ull << n) : ~0ull, fixed = (uint64_t)*keep & within;
        __m512i v = _mm512_loadu_si512((const void *)p);
        if (_mm512_mask_cmpneq_epi8_mask(fixed, v, _mm512_loadu_si512((const void *)q))) return 0;
        uint64_t odd = _mm512_movepi8_mask(v) | _mm512_cmple_epu8_mask(_mm512_sub_epi8(v, one), one);
        if (odd & within & ~fixed) return 0;
    }
    return 1;
}
#endif

/* Return whether p[at:at + n], n <= 256, equals p[other:other + n] where the bits of known[to:to + 4] are set, and has
 * no odd bytes (see odd_bytes) where they are not. Reads whole blocks of 64 bytes at both positions. */
static inline int same_shape(const uint8_t *p, int64_t at, int64_t other, int64_t n, const long long *known, int64_t to) {
#if FMQ_X86
    if (fmq_level == 2) return fmq_same_shape_512(p + at, p + other, n, known + to);
#endif
    for (int64_t i = 0; i < n; i += 64) {
        uint64_t within = n - i < 64 ? ~(~0ull << (n - i)) : ~0ull, fixed = (uint64_t)known[to + (i >> 6)] & within;
        if ((equal_bytes(p, at + i, other + i) & fixed) != fixed || (odd_bytes(p, at + i) & within & ~fixed)) return 0;
    }
    return 1;
}

static inline int lowest_bit(uint64_t bits) { return __builtin_ctzll(bits); }

/* Copy n bytes in steps of 32, at least one: reads and writes up to 32 bytes more; the caller has checked the bounds. */
static inline void copy_by_32(uint8_t *to, int64_t at, const uint8_t *p, int64_t from, int64_t n) {
    int64_t i = 0;
    do {
        uint8_t step[32]; /* read as a whole before it is written, so that neighbours in one buffer may overlap */
        memcpy(step, p + from + i, 32);
        memcpy(to + at + i, step, 32);
        i += 32;
    } while (i < n);
}

/* Write the 16 upper-case hexadecimal digits of the eight bytes p[from:from + 8]. */
static inline void put_hex8(uint8_t *to, int64_t at, const uint8_t *p, int64_t from) {
#if FMQ_X86
    const __m128i low = _mm_set1_epi8(15);
    __m128i v = _mm_loadl_epi64((const __m128i *)(p + from));
    v = _mm_unpacklo_epi8(_mm_and_si128(_mm_srli_epi16(v, 4), low), _mm_and_si128(v, low));
    __m128i letters = _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8(9)), _mm_set1_epi8('A' - '0' - 10));
    _mm_storeu_si128((__m128i *)(to + at), _mm_add_epi8(_mm_add_epi8(v, _mm_set1_epi8('0')), letters));
#else
    for (int i = 0; i < 8; i++) {
        to[at + 2 * i] = "0123456789ABCDEF"[p[from + i] >> 4];
        to[at + 2 * i + 1] = "0123456789ABCDEF"[p[from + i] & 15];
    }
#endif
}

/* Write `a.b.c.d:port` for a raw IPv4 host (4 bytes, then the port as 4 bytes, of which the low two count); return the
 * position after it. Writes up to 24 bytes. */
static uint8_t fmq_octet[256][5]; /* digits, a full stop, and how many bytes that is */
static inline int64_t put_host4(uint8_t *to, int64_t at, const uint8_t *p, int64_t from) {
    for (int i = 0; i < 4; i++) {
        const uint8_t *octet = fmq_octet[p[from + i]];
        memcpy(to + at, octet, 4);
        at += octet[4];
    }
    to[at - 1] = ':';
    uint32_t port = u16be(p, from + 6);
    int digits = 1 + (port > 9) + (port > 99) + (port > 999) + (port > 9999);
    for (int i = digits; i-- > 0; port /= 10) to[at + i] = '0' + port % 10;
    return at + digits;
}

/* Return the first position in [at, end) where n bytes are, or -1. */
static inline int64_t find_bytes(const uint8_t *p, int64_t at, int64_t end, const uint8_t *bytes, int64_t n) {
    const uint8_t *found = memmem(p + at, end - at, bytes, n);
    return found ? found - p : -1;
}

/* Return the first position in [at, end) of byte a or b, or end. Eight bytes a step: a byte equal to c is 0 in v ^ cc... */
static inline int64_t find_either(const uint8_t *p, int64_t at, int64_t end, uint8_t a, uint8_t b) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t ones = 0x0101010101010101ull, tops = 0x8080808080808080ull;
    for (uint64_t v; at + 8 <= end; at += 8) {
        memcpy(&v, p + at, 8);
        uint64_t x = v ^ (ones * a), y = v ^ (ones * b);
        uint64_t hit = (((x - ones) & ~x) | ((y - ones) & ~y)) & tops;  /* its lowest set bit is exact */
        if (hit) return at + (__builtin_ctzll(hit) >> 3);
    }
#endif
    while (at < end && p[at] != a && p[at] != b) at++;
    return at;
}

/* Return the first position in [at, end - 2) of the bytes DA A3 20, with which both record magics begin, or -1. */
static inline int64_t find_magic(const uint8_t *p, int64_t at, int64_t end) {
    while (end - at >= 3) {
        const uint8_t *q = (const uint8_t *)memchr(p + at, 0xDA, end - at - 2);
        if (!q) return -1;
        if (q[1] == 0xA3 && q[2] == 0x20) return q - p;
        at = q - p + 1;
    }
    return -1;
}

/* Continue Java's String.hashCode from h over ASCII bytes. Eight bytes a step, combined twice within a word: bytes to 16
 * bits by 31, these to 32 bits by 31^2; nothing carries over, because 255 * 32 and 255 * 32 * 962 fit. */
static inline uint32_t hash_ascii(uint32_t h, const uint8_t *p, int64_t at, int64_t n) {
    const uint8_t *s = p + at;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t bytes = 0x00FF00FF00FF00FFull, pairs = 0x0000FFFF0000FFFFull;
    for (uint64_t v; n >= 8; s += 8, n -= 8) {
        memcpy(&v, s, 8);
        v = (v & bytes) * 31 + ((v >> 8) & bytes);
        v = (v & pairs) * 961 + ((v >> 16) & pairs);
        h = h * 2487512833u + (uint32_t)v * 923521u + (uint32_t)(v >> 32);
    }
    if (n >= 4) {
        uint32_t v;
        memcpy(&v, s, 4);
        v = (v & (uint32_t)bytes) * 31 + ((v >> 8) & (uint32_t)bytes);
        h = h * 923521u + (v & 0xFFFF) * 961 + (v >> 16);
        s += 4; n -= 4;
    }
#endif
    while (n-- > 0) h = h * 31u + *s++;
    return h;
}

#if FMQ_X86
static uint32_t fmq_pow31[65], fmq_quads[16]; /* powers of 31; what four bytes count by, sixteen times */
/* The same for 1 to 64 bytes. Zeros before the text change nothing, so all lengths take the same path: bytes are combined
 * to 16 bits by 31, to 32 bits by 31^2, then each four of them are multiplied by the power of their position. */
__attribute__((target("avx512f,avx512bw"))) static int64_t fmq_hash_512(uint32_t h, const uint8_t *p, int64_t n) {
    __m512i v = _mm512_maskz_loadu_epi8(~0ull << (64 - n), p + n - 64);
    if (_mm512_movepi8_mask(v)) return -1;
    v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(1 << 8 | 31));
    v = _mm512_madd_epi16(v, _mm512_set1_epi32(1 << 16 | 961));
    v = _mm512_mullo_epi32(v, _mm512_loadu_si512((const void *)fmq_quads));
    return h * fmq_pow31[n] + (uint32_t)_mm512_reduce_add_epi32(v);
}
#endif

/* Return hash_ascii if the n bytes are ASCII, else -1. */
static inline int64_t hash_if_ascii(uint32_t h, const uint8_t *p, int64_t at, int64_t n) {
#if FMQ_X86
    if (fmq_level == 2 && n > 0 && n <= 64) return fmq_hash_512(h, p + at, n);
#endif
    return all_ascii(p, at, n) ? (int64_t)hash_ascii(h, p, at, n) : -1; /* without the cast -1 is 2^32-1 */
}

/* Compute a hash that cannot be predicted without seed and secret (an odd number): names in a file that are made to
 * collide, under Java's hash or any other fixed one, must not turn a table into a list. `more` is hashed last. */
static inline uint64_t fmq_fold(uint64_t a, uint64_t b) {
    unsigned __int128 r = (unsigned __int128)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}
static inline int64_t seeded_hash(const uint8_t *p, int64_t at, int64_t n, int64_t more, uint64_t seed, uint64_t secret) {
    uint64_t h = seed + (uint64_t)n, v;
    for (; n >= 8; at += 8, n -= 8) { memcpy(&v, p + at, 8); h = fmq_fold(h ^ FMQ_BE64(v), secret) + seed; }
    if (n > 0) { v = 0; memcpy(&v, p + at, n); h = fmq_fold(h ^ FMQ_BE64(v), secret) + seed; }
    return (int64_t)(fmq_fold(h ^ (uint64_t)more, secret) >> 1);
}

/* Return whether one of n bytes is less than `limit`, at most 128. Eight bytes a step: only such a byte borrows. */
static inline int any_below(const uint8_t *p, int64_t at, int64_t n, uint8_t limit) {
    const uint64_t ones = 0x0101010101010101ull, tops = 0x8080808080808080ull;
    uint64_t v;
    for (; n >= 8; at += 8, n -= 8) {
        memcpy(&v, p + at, 8);
        if ((v - ones * limit) & ~v & tops) return 1;
    }
    for (; n > 0; at++, n--)
        if (p[at] < limit) return 1;
    return 0;
}

/* Return the wall clock in Unix ms, if possible as of the kernel's last tick, which is exact enough for a store time. */
static inline int64_t clock_ms(void) {
    struct timespec t;
#ifdef CLOCK_REALTIME_COARSE
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
#else
    clock_gettime(CLOCK_REALTIME, &t);
#endif
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What was stored before the first is seen by whoever sees what is stored after it; across the second no load passes a
   store. The third sets a flag and returns what it was. */
static inline void fence_release(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }
static inline void fence_full(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline int exchange_flag(int *flag, int value) { return __atomic_exchange_n(flag, value, __ATOMIC_SEQ_CST); }

/* ---- CRC-32 ---- */
static uint32_t fmq_table[8][256];

__attribute__((constructor)) static void fmq_init(void) {
    for (int i = 0; i < 256; i++) {
        uint8_t *o = fmq_octet[i];
        if (i > 99) *o++ = '0' + i / 100;
        if (i > 9) *o++ = '0' + i / 10 % 10;
        *o++ = '0' + i % 10;
        *o++ = '.';
        fmq_octet[i][4] = o - fmq_octet[i];
    }
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        fmq_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++) fmq_table[t][i] = fmq_table[0][fmq_table[t - 1][i] & 255] ^ (fmq_table[t - 1][i] >> 8);
#if FMQ_X86
    fmq_pow31[0] = 1;
    for (int i = 1; i <= 64; i++) fmq_pow31[i] = fmq_pow31[i - 1] * 31u;
    for (int i = 0; i < 16; i++) fmq_quads[i] = fmq_pow31[4 * (15 - i)];
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) fmq_level = 1;
    if (fmq_level && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq")) fmq_level = 2;
#elif FMQ_ARM && defined(__APPLE__)
    fmq_level = 1;
#elif FMQ_ARM && defined(HWCAP_CRC32)
    fmq_level = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
    const char *most = getenv("FLINTMQ_CPU_LEVEL"); /* a lower level, so that a test takes the path of other CPUs */
    if (most && *most >= '0' && *most - '0' < fmq_level) fmq_level = *most - '0';
}

static inline uint32_t fmq_crc_tables(uint32_t c, const uint8_t *p, int64_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t a = (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24) ^ c;
        c = fmq_table[7][a & 255] ^ fmq_table[6][(a >> 8) & 255] ^ fmq_table[5][(a >> 16) & 255] ^ fmq_table[4][a >> 24]
            ^ fmq_table[3][p[4]] ^ fmq_table[2][p[5]] ^ fmq_table[1][p[6]] ^ fmq_table[0][p[7]];
    }
    if (n >= 4) {
        uint32_t a = (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24) ^ c;
        c = fmq_table[3][a & 255] ^ fmq_table[2][(a >> 8) & 255] ^ fmq_table[1][(a >> 16) & 255] ^ fmq_table[0][a >> 24];
        p += 4; n -= 4;
    }
    while (n-- > 0) c = fmq_table[0][(c ^ *p++) & 255] ^ (c >> 8);
    return c;
}

#if FMQ_X86
/* Fold a by 128 bits: a.low * k.low ^ a.high * k.high ^ next. */
#define FMQ_FOLD(a, k, next) _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11)), next)
#define FMQ_LOAD(p) _mm_loadu_si128((const __m128i *)(p))

/* The last step: n bytes (n % 16 == 0) more, then 128 bits down to 32 by Barrett reduction. */
__attribute__((target("pclmul,sse4.1"))) static inline uint32_t fmq_crc_reduce(__m128i a, const uint8_t *p, int64_t n) {
    const __m128i k128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0), k64 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641), low32 = _mm_setr_epi32(-1, 0, -1, 0);
    for (; n >= 16; p += 16, n -= 16) a = FMQ_FOLD(a, k128, FMQ_LOAD(p));
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, k128, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low32), k64, 0x00));
    __m128i t = _mm_clmulepi64_si128(_mm_and_si128(a, low32), barrett, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, low32), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t fmq_crc_128(uint32_t c, const uint8_t *p, int64_t n) { /* n >= 16, n % 16 == 0 */
    __m128i a = _mm_xor_si128(FMQ_LOAD(p), _mm_cvtsi32_si128((int)c));
    p += 16; n -= 16;
    if (n >= 48) {
        const __m128i k512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), k128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
        __m128i b = FMQ_LOAD(p), d = FMQ_LOAD(p + 16), e = FMQ_LOAD(p + 32);
        for (p += 48, n -= 48; n >= 64; p += 64, n -= 64) {
            a = FMQ_FOLD(a, k512, FMQ_LOAD(p));
            b = FMQ_FOLD(b, k512, FMQ_LOAD(p + 16));
            d = FMQ_FOLD(d, k512, FMQ_LOAD(p + 32));
            e = FMQ_FOLD(e, k512, FMQ_LOAD(p + 48));
        }
        a = FMQ_FOLD(a, k128, b);
        a = FMQ_FOLD(a, k128, d);
        a = FMQ_FOLD(a, k128, e);
    }
    return fmq_crc_reduce(a, p, n);
}

#define FMQ_FOLD4(a, k, next) _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, k, 0x00), _mm512_clmulepi64_epi128(a, k, 0x11), next, 0x96)
#define FMQ_LOAD4(p) _mm512_loadu_si512((const void *)(p))

/* Any n >= 4: zeros are assumed before the bytes up to a multiple of 64 (they change nothing; masked, they are not read),
 * so that no remainder is left for single bytes. Four lanes of 64 bytes if there are many. */
__attribute__((target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul,sse4.1")))
static uint32_t fmq_crc_512(const uint8_t *p, int64_t n) {
    const __m512i k512 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1c6e41596, 0x154442bd4));
    /* by 384, 256 and 128 bits: the bytes before the last 16 of 64 */
    const __m512i kends = _mm512_set_epi64(0, 0, 0x0ccaa009e, 0x1751997d0, 0x15a546366, 0x0f1da05aa, 0x174359406, 0x03db1ecdc);
    int64_t left = (n - 1) >> 6, pad = ((left + 1) << 6) - n; /* blocks of 64 after the first, zeros before it */
    __m512i a = _mm512_maskz_loadu_epi8(~0ull << pad, p - pad);
    a = _mm512_xor_si512(a, _mm512_maskz_set1_epi8(0xFull << pad, -1)); /* the CRC begins with ones */
    p += 64 - pad;
    if (left && pad > 60) { /* with one to three of the four bytes of ones in the second block */
        __m512i next = _mm512_xor_si512(FMQ_LOAD4(p), _mm512_maskz_set1_epi8(0xFull >> (64 - pad), -1));
        a = FMQ_FOLD4(a, k512, next);
        p += 64; left--;
    }
    if (left >= 7) {
        const __m512i k2048 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1322d1430, 0x11542778a));
        __m512i b = FMQ_LOAD4(p), d = FMQ_LOAD4(p + 64), e = FMQ_LOAD4(p + 128);
        for (p += 192, left -= 3; left >= 4; p += 256, left -= 4) {
            a = FMQ_FOLD4(a, k2048, FMQ_LOAD4(p));
            b = FMQ_FOLD4(b, k2048, FMQ_LOAD4(p + 64));
            d = FMQ_FOLD4(d, k2048, FMQ_LOAD4(p + 128));
            e = FMQ_FOLD4(e, k2048, FMQ_LOAD4(p + 192));
        }
        a = FMQ_FOLD4(a, k512, b);
        a = FMQ_FOLD4(a, k512, d);
        a = FMQ_FOLD4(a, k512, e);
    }
    for (; left > 0; p += 64, left--) a = FMQ_FOLD4(a, k512, FMQ_LOAD4(p));
    a = FMQ_FOLD4(a, kends, _mm512_maskz_mov_epi64(0xC0, a));
    __m256i y = _mm256_xor_si256(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    return fmq_crc_reduce(_mm_xor_si128(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)), p, 0);
}
#elif FMQ_ARM
__attribute__((target("+crc"))) static uint32_t fmq_crc_arm(uint32_t c, const uint8_t *p, int64_t n) {
    for (uint64_t v; n >= 8; p += 8, n -= 8) { memcpy(&v, p, 8); c = __crc32d(c, v); }
    while (n-- > 0) c = __crc32b(c, *p++);
    return c;
}
#endif

/* CRC-32 of p[at:at+n], with level capped at `most` (tests compare the forms with each other). */
static inline uint32_t crc32_at_level(const uint8_t *p, int64_t at, int64_t n, int most) {
    uint32_t c = ~0u;
    p += at;
#if FMQ_X86
    int64_t bulk = n & ~(int64_t)15;
    int level = fmq_level < most ? fmq_level : most;
    if (level == 2 && n >= 16) return ~fmq_crc_512(p, n);
    if (level && bulk) {
        c = fmq_crc_128(c, p, bulk);
        p += bulk; n -= bulk;
    }
#elif FMQ_ARM
    if (fmq_level && most) return ~fmq_crc_arm(c, p, n);
#endif
    return ~fmq_crc_tables(c, p, n);
}

static inline uint32_t crc32_of(const uint8_t *p, int64_t at, int64_t n) { return crc32_at_level(p, at, n, 2); }
static inline int crc_level(void) { return fmq_level; }

/* Read p[begin:end] of a map from the disk if necessary: return 0, or the error if touching it would raise SIGBUS. p is
   the map's first byte, so rounding down to the largest possible page stays within it. */
static inline int present_bytes(const uint8_t *p, int64_t begin, int64_t end) {
#ifdef __linux__
    begin &= ~(int64_t)0xffff;
    return madvise((void *)(p + begin), (size_t)(end - begin), 22 /* MADV_POPULATE_READ, Linux 5.14 */) ? errno : 0;
#else
    (void)p, (void)begin, (void)end;
    return EINVAL;
#endif
}

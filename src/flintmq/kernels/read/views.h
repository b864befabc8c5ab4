/* Arrow's views of text and bytes: 16 bytes each, inline up to 12 bytes, otherwise a place in a buffer. */
#include <stdint.h>
#include <string.h>
#include "crc.h"

/* From fmq_ones + 12 - n on: n bytes of ones and then zeros, 12 in all. */
static const uint8_t fmq_ones[24] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

/* Write the view of p[at:at + n] into ints[to:to + 4]. `limit` is the end of p; position `base` of p is the begin of
 * buffer number `buffer`. */
static inline void put_view(int *ints, int64_t to, const uint8_t *p, int64_t limit, int64_t at, int64_t n, int64_t base, int64_t buffer) {
    /* No branch on the length of short values, which is not predictable, and no store that a wider one reads back. */
    uint64_t low, high;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (n > 12) {
        uint32_t prefix;
        memcpy(&prefix, p + at, 4);
        low = (uint64_t)n | (uint64_t)prefix << 32;
        high = (uint64_t)(uint32_t)buffer | (uint64_t)(at - base) << 32;
    } else if (limit - at >= 12) {
        uint32_t first;
        uint64_t middle;
        const uint8_t *ones = fmq_ones + 12 - n;
        uint32_t keep_first;
        uint64_t keep_middle;
        memcpy(&first, p + at, 4);
        memcpy(&middle, p + at + 4, 8);
        memcpy(&keep_first, ones, 4);
        memcpy(&keep_middle, ones + 4, 8);
        low = (uint64_t)n | (uint64_t)(first & keep_first) << 32;
        high = middle & keep_middle;
    } else
#endif
    {
        int32_t size = (int32_t)n, number = (int32_t)buffer, place = (int32_t)(at - base);
        uint8_t view[16] = {0};
        memcpy(view, &size, 4);
        memcpy(view + 4, p + at, n > 12 ? 4 : n);
        if (n > 12) {
            memcpy(view + 8, &number, 4);
            memcpy(view + 12, &place, 4);
        }
        memcpy(&low, view, 8);
        memcpy(&high, view + 8, 8);
    }
    memcpy(ints + to, &low, 8);
    memcpy(ints + to + 2, &high, 8);
}

/* Return where the search for a key begins in a table of 2^bits slots. */
static inline int64_t slot_of(int64_t key, int bits) { return (int64_t)((uint64_t)key * 0x9E3779B97F4A7C15ull >> (64 - bits)); }

/* Return a key of the text p[at:at + n]: of up to 12 bytes without a loop; `limit` is the end of p. */
static inline int64_t text_key(const uint8_t *p, int64_t limit, int64_t at, int64_t n, uint64_t seed, uint64_t secret) {
    if (n > 12 || limit - at < 12) return seeded_hash(p, at, n, 0, seed, secret);
    uint32_t last, keep_last;
    uint64_t first, keep_first;
    memcpy(&first, p + at, 8);
    memcpy(&last, p + at + 8, 4);
    memcpy(&keep_first, fmq_ones + 12 - n, 8);
    memcpy(&keep_last, fmq_ones + 20 - n, 4);
    return (int64_t)(((first & keep_first) * secret ^ ((uint64_t)(last & keep_last) << 8 | (uint64_t)n) * seed) >> 1);
}

/* Return whether p[at:at + n] equals q[to:to + n]: up to 12 bytes without a loop; q has 12 bytes more. */
static inline int same_text(const uint8_t *p, int64_t limit, int64_t at, const uint8_t *q, int64_t to, int64_t n) {
    if (n > 12 || limit - at < 12) return same_bytes(p, at, q, to, n);
    uint32_t last, other_last, keep_last;
    uint64_t first, other_first, keep_first;
    memcpy(&first, p + at, 8);
    memcpy(&last, p + at + 8, 4);
    memcpy(&other_first, q + to, 8);
    memcpy(&other_last, q + to + 8, 4);
    memcpy(&keep_first, fmq_ones + 12 - n, 8);
    memcpy(&keep_last, fmq_ones + 20 - n, 4);
    return (((first ^ other_first) & keep_first) | ((last ^ other_last) & keep_last)) == 0;
}

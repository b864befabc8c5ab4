# C types of crc.h. Every other kernel's .pxd cimports from here.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int16_t, int32_t, int64_t

cdef extern from "crc.h" nogil:
    uint16_t u16be(const uint8_t *p, int64_t at)
    uint32_t u32be(const uint8_t *p, int64_t at)
    int16_t i16be(const uint8_t *p, int64_t at)
    int32_t i32be(const uint8_t *p, int64_t at)
    int64_t i64be(const uint8_t *p, int64_t at)
    void put16be(uint8_t *p, int64_t at, int64_t x)
    void put32be(uint8_t *p, int64_t at, int64_t x)
    void put64be(uint8_t *p, int64_t at, int64_t x)
    bint same_bytes(const uint8_t *p, int64_t at, const uint8_t *q, int64_t start, int64_t n)
    void copy_bytes(uint8_t *to, int64_t at, const uint8_t *p, int64_t start, int64_t n)
    void prefetch_write(const uint8_t *p, int64_t at)
    int64_t first_non_ascii(const uint8_t *p, int64_t at, int64_t end)
    int64_t find_magic(const uint8_t *p, int64_t at, int64_t end)
    uint32_t hash_ascii(uint32_t h, const uint8_t *p, int64_t at, int64_t n)
    uint32_t crc32_of(const uint8_t *p, int64_t at, int64_t n)
    uint32_t crc32_at_level(const uint8_t *p, int64_t at, int64_t n, int most)
    int crc_level()

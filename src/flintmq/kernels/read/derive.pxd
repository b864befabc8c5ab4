# C types of derive.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of, const_ints_of, const_longs_of, ints_of, longs_of, room_of
from flintmq.kernels.crc cimport u32be, i32be, i64be, prefetch_lines, put32be, put64be, same_bytes, first_non_ascii, find_either, hash_ascii, hash_if_ascii, seeded_hash
from flintmq.kernels.read.record_parts cimport NAMED_KEYS, NAMED_KEYS_END, NAMED_TAGS, NAMED_TAGS_END, NAMED_UNIQUE, NAMED_UNIQUE_END, SPAN_BORN, SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, locate
from flintmq.kernels.read.property_shapes cimport forget, split_like

# Columns of the table of queues.
cdef enum:
    QUEUE_NAME = 0  # begin of the topic in `names`
    QUEUE_NAME_SIZE = 1
    QUEUE_ID = 2
    QUEUE_HASH = 3  # chooses the slot
    QUEUE_KEY_PREFIX = 4  # Java hash of `topic#`, with which the hashes of its index keys begin
    QUEUE_KIND = 5

cdef long long hash_text(long long h, const uint8_t *p, long long at, long long n) noexcept nogil
cdef long long delay_of(const uint8_t *p, const long long *pairs, long long first, long long count, long long move, long long levels) noexcept nogil
cdef bint names_lmq(const uint8_t *p, const long long *pairs, long long first, long long count, long long move) noexcept nogil
cdef long long put_keys(const uint8_t *p, long long prefix, const long long *named, bint tag_keys, int *hashes, long long keys) noexcept nogil
cdef long long find_queue(const uint8_t *p, long long at_topic, long long topic, long long queue_id, const int *slots, long long mask, const long long *queues, const uint8_t *names) noexcept nogil
cdef long long key_hash(long long h) noexcept nogil
cdef void put_unit(uint8_t *to, long long at, long long physical_offset, long long size, long long tags_code) noexcept nogil

# C types of encode.py. `put_record` is for other kernels too: it encodes one record whose parts were measured before.
cimport cython
from libc.stdint cimport uint8_t, int32_t, int64_t
from flintmq.kernels.addresses cimport bytes_of, room_of
from flintmq.kernels.crc cimport put16be, put32be, put64be, copy_bytes, crc32_of

cdef int64_t record_size(int64_t body, int64_t topic, int64_t properties, int32_t sys_flag) noexcept nogil
cdef int64_t put_record(
    uint8_t *out, int64_t at, int64_t physical_offset, const uint8_t *bodies, int64_t body_at, int64_t body,
    const uint8_t *topics, int64_t topic_at, int64_t topic, const uint8_t *properties, int64_t properties_at,
    int64_t properties_size, const uint8_t *hosts, int64_t born_host_at, int64_t store_host_at, int32_t queue_id,
    int64_t queue_offset, int32_t flag, int32_t sys_flag, int64_t born_time, int64_t store_time, int32_t reconsumed,
    int64_t prepared_offset, bint crc_property,
) noexcept nogil
cdef int64_t crc_property_room(const uint8_t *properties, int64_t at, int64_t size) noexcept nogil
cdef void put_blank_record(uint8_t *out, int64_t at, int64_t left) noexcept nogil
cdef int64_t _put_crc_property(uint8_t *out, int64_t start, int64_t at) noexcept nogil
cdef int64_t _part(int64_t start, int64_t end, int64_t length) noexcept nogil

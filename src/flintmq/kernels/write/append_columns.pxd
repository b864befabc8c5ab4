# C types of append_columns.py.
cimport cython
from libc.stdint cimport uint8_t, int32_t, int64_t
from flintmq.kernels.addresses cimport bytes_of, room_of
from flintmq.kernels.write.encode cimport put_blank_record, put_record, record_size
from flintmq.kernels.write.fast_append cimport Appender, QueueCounter, AppendTarget, _is_unique_key, _special
from flintmq.kernels.crc cimport all_ascii, any_below, copy_bytes, fence_release, u32be
from flintmq.kernels.write.unique_keys cimport put_unique_key
from flintmq.kernels.read.derive cimport hash_text, put_unit

ctypedef const int *Ints
ctypedef const long long *Longs

cdef class Texts:
    cdef const uint8_t[::1] _data
    cdef bytes _offsets, _valid
    cdef int64_t _shift  # of the first row's bit in the copy
    cdef const uint8_t *_valid_p
    cdef Ints _narrow_p
    cdef Longs _wide_p
    cdef int64_t _rows
    cdef const uint8_t *_p
    cdef int64_t _offset(self, int64_t i) noexcept nogil
    cdef int64_t _size(self, int64_t i) noexcept nogil

cdef class Columns:
    cdef readonly int64_t rows, written_end, rows_end
    cdef readonly int changed
    cdef bytes _topic
    cdef int64_t _topic_size
    cdef Texts _bodies, _tags, _keys, _maps, _names, _values
    cdef bytes _numbers, _times
    cdef Ints _queue_ids  # NULL: all rows go to queue 0
    cdef Longs _born_times  # NULL: all have the store's time
    cdef long long[::1] _codes  # of the tags as they were written; empty where there are none
    cdef bytes _unique
    cdef const uint8_t *_unique_p
    cdef int64_t _unique_first
    cdef bint _keyed  # rows without a unique key get one
    cdef bint _plain  # no row has properties
    cdef bint _good  # `check` has found all rows good
    cdef int64_t _last_queue
    cdef int64_t _fixed  # bytes of a record beside its body and its properties
    cdef uint8_t _scratch[33000]
    cdef int _queue_id(self, int64_t i) noexcept nogil
    cdef int _judge(self, int64_t i, int64_t fixed, int64_t max_body, int64_t file_size, bint crc_property) noexcept nogil
    cdef int64_t _encode(self, int64_t i) noexcept nogil
    cdef int64_t _value(self, int64_t n, Texts values, int64_t k) noexcept nogil

cdef int64_t _tag_code(uint8_t *p, int64_t at, int64_t size) noexcept nogil
cdef bint _is_odd(Texts column, int64_t i) noexcept nogil

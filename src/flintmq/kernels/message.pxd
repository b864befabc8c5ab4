# C types of message.py.
cimport cython

cdef class Message:
    cdef public object topic, body, tags, keys, properties, born_timestamp, properties_bytes, born_host
    cdef public long long queue_id, flag, sys_flag, reconsume_times, prepared_transaction_offset, delay_level
    cdef public bint wait

cdef class PutResult:
    cdef readonly object status
    cdef object _reason
    cdef object _prefix, _own  # of the unique key; see msg_id
    cdef long long _number
    cdef readonly bytes store_host
    cdef readonly long long queue_offset, physical_offset, size, store_timestamp

cdef bint _wide(Message m) noexcept

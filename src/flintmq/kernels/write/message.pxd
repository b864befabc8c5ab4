# C types of message.py.
cimport cython
from cpython.object cimport PyObject_GenericSetAttr

cdef object _ZERO

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
cdef int _set_numbers(Message m, object queue_id, object flag, object sys_flag, object reconsume_times,
                      object prepared_transaction_offset, object delay_level) except -1

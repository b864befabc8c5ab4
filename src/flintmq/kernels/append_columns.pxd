# C types of append_columns.py.
cimport cython
from libc.stdint cimport uint8_t, int32_t, int64_t
from flintmq.kernels.encode cimport put_blank_record, put_record, record_size
from flintmq.kernels.fast_append cimport Appender, QueueCounter, AppendTarget, _is_unique_key, _special
from flintmq.kernels.crc cimport all_ascii, any_below, copy_bytes, fence_release, u32be
from flintmq.kernels.unique_keys cimport put_unique_key
from flintmq.kernels.derive cimport hash_text, put_unit

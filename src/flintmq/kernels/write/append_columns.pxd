# C types of append_columns.py.
cimport cython
from libc.stdint cimport uint8_t, int32_t, int64_t
from flintmq.kernels.write.encode cimport put_blank_record, put_record, record_size
from flintmq.kernels.write.fast_append cimport Appender, QueueCounter, AppendTarget, _is_unique_key, _special
from flintmq.kernels.crc cimport all_ascii, any_below, copy_bytes, fence_release, u32be
from flintmq.kernels.write.unique_keys cimport put_unique_key
from flintmq.kernels.read.derive cimport hash_text, put_unit

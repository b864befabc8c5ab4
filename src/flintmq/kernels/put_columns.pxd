# C types of put_columns.py.
cimport cython
from libc.stdint cimport uint8_t, int32_t, int64_t
from flintmq.kernels.append cimport put_blank_record, put_record, record_size
from flintmq.kernels.appender cimport Appender, Place, Target, _is_unique_key, _special
from flintmq.kernels.crc cimport all_ascii, any_below, copy_bytes, u32be
from flintmq.kernels.unique_keys cimport put_unique_key
from flintmq.kernels.units cimport hash_text, put_unit

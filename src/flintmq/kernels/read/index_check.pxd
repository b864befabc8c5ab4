# C types of index_check.py.
cimport cython
from flintmq.kernels.addresses cimport bytes_of
from flintmq.kernels.crc cimport i32be, i64be, prefetch_write

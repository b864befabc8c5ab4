# C types of index_insert.py.
cimport cython
from flintmq.kernels.addresses cimport room_of
from flintmq.kernels.crc cimport i32be, i64be, put32be, put64be, prefetch_write

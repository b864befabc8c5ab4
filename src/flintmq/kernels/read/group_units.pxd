# C types of group_units.py.
cimport cython
from flintmq.kernels.addresses cimport bytes_of, room_of
from flintmq.kernels.crc cimport copy_bytes

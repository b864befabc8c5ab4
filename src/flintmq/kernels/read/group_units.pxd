# C types of group_units.py.
cimport cython
from flintmq.kernels.crc cimport copy_bytes

# C types of runs.py.
cimport cython
from flintmq.kernels.crc cimport copy_bytes

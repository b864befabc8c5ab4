# C types of put.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.append cimport crc_property_room, put_blank_record, put_record, record_size

# C types of encode_one.py.
cimport cython
from libc.stdint cimport uint8_t
from flintmq.kernels.addresses cimport bytes_of, room_of
from flintmq.kernels.write.encode cimport crc_property_room, put_blank_record, put_record, record_size

from array import array
from mmap import mmap

Ints = array[int] | memoryview

def insert(
    buf: bytearray | memoryview | mmap,
    slots: int,
    items: int,
    key_hashes: Ints,
    key_offsets: Ints,
    key_times: Ints,
    start: int,
    end: int,
    window: int = -1,
) -> int: ...

from typing import Final

from flintmq.kernels.read.walk import Bytes, Int64s

Int32s = memoryview

MOST_BITS: Final = 13

def copy_records(data: Bytes, positions: Int64s, count: int, out: bytearray | memoryview, moved: Int64s) -> int: ...
def goes_beyond(ints: Int32s, count: int) -> bool: ...

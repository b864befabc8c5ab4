from typing import Final

from flintmq.kernels.read.walk import Bytes, Int64s

MOST_PAIRS: Final = 32

def split_properties(data: Bytes, at: int, end: int, pairs: Int64s) -> tuple[int, bool]: ...

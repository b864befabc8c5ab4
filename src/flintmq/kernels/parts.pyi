from flintmq.kernels.walk import Bytes, Int64s
from typing import Final

MOST_PAIRS: Final = 32

def split_properties(data: Bytes, at: int, end: int, pairs: Int64s) -> tuple[int, bool]: ...

from typing import Final

from flintmq.kernels.read.walk import Bytes, Int64s

USED: Final = 0
FIRST_TIME: Final = 1
LAST_TIME: Final = 2
ODD: Final = 3
RECORDS: Final = 4
STATE: Final[int]
BLOCK: Final = 64
BITS: Final = 480
SET: Final = 6

def take(data: Bytes, positions: Int64s, first: int, end: int, state: Int64s, hashes: Int64s) -> int: ...
def fill(hashes: Int64s, count: int, blocks: bytearray | memoryview) -> None: ...
def may_have(block: Bytes, h: int) -> bool: ...
def key_hash(text: bytes, topic: bool = False) -> int: ...
def block_number(h: int, blocks: int) -> int: ...
def keyed(data: Bytes, positions: Int64s, count: int, key: Bytes) -> int: ...

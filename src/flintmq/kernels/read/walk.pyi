from array import array
from mmap import mmap
from typing import Final

FULL: Final = 0
MORE: Final = 1
END: Final = 2
BLANK: Final = 3
ZERO: Final = 4
MAGIC: Final = 5
SIZE: Final = 6
LENGTHS: Final = 7
OFFSET: Final = 8
CRC: Final = 9
CRC_PROPERTY: Final = 10
TIME: Final = 11
NOTHING: Final = 12
REASONS: Final[tuple[str, ...]]
CHECK_CRC: Final = 1
CHECK_TIME: Final = 2

Bytes = bytes | bytearray | memoryview
Int64s = array[int] | memoryview

def walk(
    buf: Bytes,
    at: int,
    available: int,
    file_end: int,
    until: int,
    base: int,
    last_time: int,
    max_size: int,
    flags: int,
    positions: Int64s,
) -> tuple[int, int, int, int]: ...
def resync(buf: Bytes, at: int, available: int, file_end: int, base: int, max_size: int) -> tuple[int, int]: ...
def present(buf: Bytes | mmap, begin: int, end: int) -> int: ...
def touch(buf: Bytes | mmap, begin: int, end: int, step: int) -> int: ...
def crc32(buf: Bytes, most: int = 2) -> int: ...
def crc_kind() -> str: ...

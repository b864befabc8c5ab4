from array import array

ODD: int
PARSED: int

def scan(
    buf: bytes | bytearray | memoryview,
    positions: array[int] | memoryview,
    start: int,
    count: int,
    latest: int,
) -> tuple[int, int, int]: ...

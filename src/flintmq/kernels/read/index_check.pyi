from array import array

Ints = array[int] | memoryview

def match(
    buf: bytes | bytearray | memoryview,
    count: int,
    number: int,
    begin: int,
    heads: Ints,
    key_hashes: Ints,
    key_offsets: Ints,
    key_times: Ints,
    start: int,
    end: int,
) -> int: ...
def skip(buf: bytes | bytearray | memoryview, count: int, number: int, heads: Ints, least: int, until: int) -> int: ...

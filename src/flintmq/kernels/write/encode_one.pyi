from mmap import mmap

FULL: int
REFUSED: int

def encode(
    out: bytearray | memoryview | mmap,
    at: int,
    physical_offset: int,
    body: bytes | memoryview,
    topic: bytes,
    properties: bytes,
    hosts: bytes,
    queue_id: int,
    queue_offset: int,
    flag: int,
    sys_flag: int,
    born_time: int,
    store_time: int,
    reconsumed: int,
    prepared_offset: int,
    crc_property: bool,
    left: int = -1,
    file_size: int = -1,
) -> int: ...

from array import array
from typing import Final

DONE: Final = 0
ROOM: Final = 1
ROLL: Final = 2
REFUSED: Final = 3
CRC_PROPERTY: Final = 1

Bytes = bytes | bytearray | memoryview
Int32s = array[int] | memoryview
Int64s = array[int] | memoryview

def append(
    out: bytearray | memoryview,
    at: int,
    file_end: int,
    base: int,
    first: int,
    last: int,
    reserve: int,
    max_size: int,
    flags: int,
    bodies: Bytes,
    body_starts: Int64s,
    body_ends: Int64s,
    topics: Bytes,
    topic_starts: Int64s,
    topic_ends: Int64s,
    properties: Bytes,
    properties_starts: Int64s,
    properties_ends: Int64s,
    hosts: Bytes,
    born_host_starts: Int64s,
    store_host_starts: Int64s,
    queue_ids: Int32s,
    queue_offsets: Int64s,
    message_flags: Int32s,
    sys_flags: Int32s,
    born_times: Int64s,
    store_times: Int64s,
    reconsumed: Int32s,
    prepared_offsets: Int64s,
    physical_offsets: Int64s,
) -> tuple[int, int, int]: ...
def size_of(body: int, topic: int, properties: int, sys_flag: int) -> int: ...

from array import array
from typing import Final

DONE: Final = 0
NEW_QUEUE: Final = 1
SPECIAL: Final = 2
KEYS_FULL: Final = 3
PLAIN: Final = 0
SCHEDULE: Final = 1
BATCH: Final = 2
INDEX: Final = 1
TAG_KEYS: Final = 2
LMQ: Final = 4
COLUMNS: Final = 8

Bytes = bytes | bytearray | memoryview
Ints = array[int] | memoryview

def derive(
    buf: Bytes,
    base: int,
    positions: Ints,
    start: int,
    count: int,
    slots: Ints,
    queues: Ints,
    names: Bytes,
    delays: Ints,
    flags: int,
    unit_queue: Ints,
    unit_offset: Ints,
    unit_time: Ints,
    unit_bytes: bytearray | memoryview,
    units: int,
    key_hashes: Ints,
    key_offsets: Ints,
    key_times: Ints,
    keys: int,
) -> tuple[int, int, int, int]: ...
def unit(physical_offset: int, size: int, tags_code: int) -> bytes: ...
def queue_hash(name: Bytes, queue_id: int) -> int: ...

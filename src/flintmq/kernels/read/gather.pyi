from array import array
from typing import Final

from flintmq.kernels.read.walk import Bytes, Int64s

INT32: Final = 0
INT64: Final = 1
UINT32: Final = 2
MICROSECONDS: Final = 3
MAGIC: Final = 4
TOPIC: Final = 5
BODY: Final = 6
BORN_HOST: Final = 7
STORE_HOST: Final = 8
OFFSET_MSG_ID: Final = 9
PROPERTIES: Final = 10
NAMES: Final = 11
VALUES: Final = 12
TAGS: Final = 13
KEYS: Final = 14
UNIQ_KEY: Final = 15
BODY_VIEW: Final = 16
TOPIC_CODE: Final = 17
BORN_HOST_CODE: Final = 18
STORE_HOST_CODE: Final = 19
MAGIC_CODE: Final = 20
PROPERTY_VIEWS: Final = 21
NAME_VIEWS: Final = 22
VALUE_VIEWS: Final = 23
TAGS_VIEW: Final = 24
KEYS_VIEW: Final = 25
UNIQ_KEY_VIEW: Final = 26
PLAN_ROW: Final = 7
SLACK: Final = 64
BLOCK: Final = 128
NOTES: Final = 2048
ROWS_FULL: Final = -1
NOTES_FULL: Final = -2
DONE: Final = -3

Int32s = array[int] | memoryview

def gather(
    data: Bytes,
    positions: Int64s,
    first: int,
    last: int,
    plan: Int64s,
    row: int,
    rows: int,
    longs: Int64s,
    ints: Int32s,
    out: bytearray | memoryview,
    notes: Int64s,
) -> tuple[int, int]: ...

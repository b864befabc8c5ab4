from typing import Final

from flintmq.kernels.read.walk import Bytes, Int64s

DONE: Final = 0
TOPIC: Final = 1
TAG: Final = 2
SINCE: Final = 0
UNTIL: Final = 1
TOPICS: Final = 2
TAGS: Final = 3
QUERY: Final = 4
ENTRY: Final = 3
FREE: Final = -1
UNWANTED: Final = -1
RULE: Final = 3
ANY_QUEUE: Final[int]
END: Final[int]

def slot_of(text: Bytes, slots: int) -> int: ...
def select(
    data: Bytes,
    positions: Int64s,
    read: int,
    kept: int,
    count: int,
    query: Int64s,
    topics: Int64s,
    topic_arena: Bytes,
    rules: Int64s,
    tags: Int64s,
    tag_arena: Bytes,
) -> tuple[int, int, int]: ...

from array import array
from typing import Final

from flintmq.kernels.write.fast_append import Appender, AppendTarget, QueueCounter

COMPILED: Final[bool]
QUEUES: Final = 65_536
GOOD: Final = 0
ILLEGAL: Final = 1
LONG: Final = 2
RESERVED: Final = 3

Bytes = bytes | bytearray | memoryview
Numbers = array[int] | memoryview

class Texts:
    def __init__(self, data: Bytes, offsets: Bytes, valid: Bytes, wide: bool, first: int, rows: int) -> None: ...

class Columns:
    @property
    def rows(self) -> int: ...
    @property
    def written_end(self) -> int: ...
    @property
    def rows_end(self) -> int: ...
    @property
    def changed(self) -> int: ...
    def __init__(
        self,
        topic: bytes,
        bodies: Texts,
        tags: Texts | None,
        keys: Texts | None,
        maps: Texts | None,
        names: Texts | None,
        values: Texts | None,
        queue_ids: array[int] | memoryview,
        born_times: array[int] | memoryview,
        unique_prefix: bytes = b"",
        unique_first: int = 0,
    ) -> None: ...
    def check(self, max_body: int, file_size: int, crc_property: bool, seen: bytearray) -> tuple[int, int]: ...
    def put(
        self,
        appender: Appender,
        file: AppendTarget,
        row: int,
        store_time: int,
        most: int,
        places: dict[int, QueueCounter],
        next_offsets: array[int],
    ) -> int: ...
    def let_go(self) -> None: ...
    def units(
        self,
        row: int,
        end: int,
        physical_offset: int,
        store_time: int,
        numbers: array[int],
        next_offsets: array[int],
        unit_queue: Numbers,
        unit_offset: Numbers,
        unit_time: Numbers,
        unit_bytes: bytearray | memoryview,
        indexed: bool = True,
    ) -> int: ...

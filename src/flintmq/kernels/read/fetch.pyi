from array import array
from typing import Any, Final, TypeVar

UNIT: Final = 20

Bytes = bytes | bytearray | memoryview
Int64s = array[int] | memoryview
R = TypeVar("R", bound=RecordBytes)

class RecordBytes:
    _fields: Any
    _properties: Any
    def __init__(self, raw: bytes) -> None: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def size(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...

def run(units: Bytes, first: int, count: int, low: int, high: int) -> tuple[int, int]: ...
def check(
    units: Bytes,
    first: int,
    count: int,
    data: Bytes,
    base: int,
    file_end: int,
    max_size: int,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    positions: Int64s,
) -> tuple[int, bool]: ...
def whole(data: Bytes, positions: Int64s, count: int) -> int: ...
def take(cls: type[R], data: Bytes, positions: Int64s, count: int) -> list[R]: ...

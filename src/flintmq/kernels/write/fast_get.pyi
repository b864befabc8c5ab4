from collections.abc import Callable
from typing import Any, Final

from flintmq.message import GetResult, RawResult

MOST_RECORD: Final = 65536

class ReadableQueue:
    min_offset: int
    max_offset: int
    @property
    def topic(self) -> bytes: ...
    @property
    def units_per_file(self) -> int: ...
    @property
    def units_per_block(self) -> int: ...
    @property
    def blocks(self) -> dict[int, bytes]: ...
    def __init__(self, topic: bytes, units_per_file: int, units_per_block: int) -> None: ...
    def block_of(self, offset: int) -> int: ...

class FastReader:
    found: int
    missed: int
    messages: int
    needs_commit: bool
    asks_first: bool
    def __init__(
        self,
        files: Any,
        message: type,
        result: type,
        raw_result: type,
        statuses: tuple[Any, Any, Any],
        limits: tuple[int, int, int, int, int, int],
        hashes: Callable[[str], set[int] | None],
        main_thread: int,
    ) -> None: ...
    def know(self, topic: str, queue_id: int, queue: ReadableQueue) -> None: ...
    def get(
        self, topic: object, queue_id: object, offset: object, max_messages: object, tags: object, wait_ms: object
    ) -> GetResult | None: ...
    def read(
        self, topic: object, queue_id: object, offset: object, max_messages: object, tags: object, wait_ms: object
    ) -> GetResult | None: ...
    def get_raw(
        self, topic: object, queue_id: object, offset: object, max_messages: object, tags: object, max_bytes: object
    ) -> RawResult | None: ...
    def read_raw(
        self, topic: object, queue_id: object, offset: object, max_messages: object, tags: object, max_bytes: object
    ) -> RawResult | None: ...

def forked() -> None: ...

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from flintmq.kernels.message import Message, PutResult
from flintmq.kernels.unique_keys import Numbers

T = TypeVar("T")

CLOCK_SET_BACK_MS: Final = 3_600_000
MOST_BODY: Final = 65_536

def own_lock() -> bool: ...
def forked() -> None: ...

class AppendTarget:
    start: int
    size: int
    wrote: int
    reserved: int
    flushed: int
    filler: int
    def attach(self, buffer: memoryview, ring_size: int = 0) -> None: ...
    def detach(self) -> None: ...
    @property
    def in_ring(self) -> bool: ...
    def place(self, at: int) -> int: ...

class QueueCounter:
    next: int
    def __init__(self, next: int) -> None: ...

class Topic:
    @property
    def raw(self) -> bytes: ...
    @property
    def places(self) -> dict[int, QueueCounter]: ...
    def __init__(self, raw: bytes) -> None: ...

class Appender:
    end: int
    last_time: int
    target: AppendTarget | None
    held: bool
    refusing: bool
    closed: bool
    locks: bool
    begun: Any
    keys: Numbers | None
    @property
    def topics(self) -> dict[str, Topic]: ...
    @property
    def forked(self) -> bool: ...
    def __init__(
        self,
        stored: Any,
        hosts: bytes,
        max_body: int,
        crc_property: bool,
        end: int,
        last_time: int,
    ) -> None: ...
    def append(self, message: Message) -> PutResult | None: ...
    def append_list(self, messages: list[Message], at: int, results: list[PutResult]) -> int: ...
    def while_locked(self, call: Callable[[], T]) -> T: ...

class PutListener:
    needs_wake: bool
    def wake(self) -> None: ...

class DurableWait:
    def wait(self, end: int, appended: int, time: int) -> int: ...

class LoopWaits:
    def is_running(self) -> bool: ...
    def add(self, result: PutResult) -> Awaitable[PutResult]: ...

class Putter:
    quick: Appender | None
    waits: bool
    after_put: PutListener
    flusher: DurableWait | None
    loop_puts: LoopWaits | None
    def put(self, message: Message) -> PutResult: ...
    def put_async(self, message: Message) -> Awaitable[PutResult]: ...
    def _put_slowly(self, message: Message) -> PutResult: ...
    def _put_async_slowly(self, message: Message, tried: bool) -> Awaitable[PutResult]: ...
    def _settle(self, result: PutResult) -> PutResult: ...
    def _unsettled(self, result: PutResult) -> PutResult: ...

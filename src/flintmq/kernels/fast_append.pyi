from typing import Any, Final

from flintmq.kernels.message import Message, PutResult
from flintmq.kernels.unique_keys import Numbers

CLOCK_SET_BACK_MS: Final = 3_600_000
MOST_BODY: Final = 65_536

def forked() -> None: ...

class AppendTarget:
    start: int
    size: int
    wrote: int
    reserved: int
    def attach(self, buffer: memoryview) -> None: ...
    def detach(self) -> None: ...

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

class PutListener:
    needs_wake: bool
    def wake(self) -> None: ...

class Putter:
    quick: Appender | None
    waits: bool
    follower: PutListener
    def put(self, message: Message) -> PutResult: ...
    def _put_slowly(self, message: Message) -> PutResult: ...
    def _settle(self, result: PutResult) -> PutResult: ...

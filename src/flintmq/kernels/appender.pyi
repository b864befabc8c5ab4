from typing import Any, Final

CLOCK_SET_BACK_MS: Final = 3_600_000
MOST_BODY: Final = 65_536

def forked() -> None: ...

class MessageFields:
    topic: str
    body: bytes
    tags: str | None
    keys: str | None
    properties: dict[str, str] | None
    queue_id: int
    flag: int
    wait: bool
    born_timestamp: int | None
    sys_flag: int
    reconsume_times: int
    prepared_transaction_offset: int
    properties_bytes: bytes | None
    def __init__(
        self,
        topic: str,
        body: bytes = b"",
        tags: str | None = None,
        keys: str | None = None,
        properties: dict[str, str] | None = None,
        queue_id: int = 0,
        flag: int = 0,
        wait: bool = True,
        born_timestamp: int | None = None,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        properties_bytes: bytes | None = None,
    ) -> None: ...

class PutFields:
    status: Any
    queue_offset: int
    physical_offset: int
    size: int
    store_timestamp: int
    store_host: bytes
    def __init__(
        self,
        status: Any,
        queue_offset: int = -1,
        physical_offset: int = -1,
        size: int = 0,
        store_timestamp: int = 0,
        store_host: bytes = b"",
    ) -> None: ...

class Target:
    start: int
    size: int
    wrote: int
    reserved: int
    def attach(self, buffer: memoryview) -> None: ...
    def detach(self) -> None: ...

class Place:
    next: int
    def __init__(self, next: int) -> None: ...

class Topic:
    @property
    def raw(self) -> bytes: ...
    @property
    def places(self) -> dict[int, Place]: ...
    def __init__(self, raw: bytes) -> None: ...

class Appender:
    end: int
    last_time: int
    target: Target | None
    held: bool
    closed: bool
    begun: Any
    @property
    def topics(self) -> dict[str, Topic]: ...
    @property
    def forked(self) -> bool: ...
    def __init__(
        self,
        kind: type[PutFields],
        stored: Any,
        hosts: bytes,
        max_body: int,
        crc_property: bool,
        end: int,
        last_time: int,
    ) -> None: ...
    def put(self, message: MessageFields) -> Any: ...
    def put_list(self, messages: list[Any], at: int, results: list[Any]) -> int: ...

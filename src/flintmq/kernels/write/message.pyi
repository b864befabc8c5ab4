from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

class Message:
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
    delay_level: int
    born_host: str | None
    def __init__(
        self,
        topic: str,
        body: bytes = b"",
        tags: str | None = None,
        keys: str | Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int = 0,
        flag: int = 0,
        wait: bool = True,
        born_timestamp: int | None = None,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        properties_bytes: bytes | None = None,
        delay_level: int = 0,
        born_host: str | None = None,
        deliver_timestamp: int | None = None,
    ) -> None: ...
    @property
    def deliver_timestamp(self) -> int | None: ...
    @property
    def born(self) -> datetime | None: ...
    def copied(self) -> Message: ...

class PutResult:
    @property
    def status(self) -> Any: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def store_timestamp(self) -> int: ...
    @property
    def stored(self) -> datetime | None: ...
    @property
    def store_host(self) -> bytes: ...
    @property
    def outcome(self) -> Any: ...
    @property
    def offset_msg_id(self) -> str: ...
    @property
    def msg_id(self) -> str | None: ...
    def __init__(
        self,
        status: Any,
        queue_offset: int = -1,
        physical_offset: int = -1,
        size: int = 0,
        store_timestamp: int = 0,
        store_host: bytes = b"",
        reason: Any = None,
        msg_id: str | bytes | None = None,
    ) -> None: ...
    @property
    def reason(self) -> Any: ...
    def __bool__(self) -> bool: ...
    def raise_for_status(self) -> None: ...
    def recall_handle(self, broker_name: str = "broker-a") -> str | None: ...
    def with_status(self, status: Any) -> PutResult: ...

def raise_for(result: Any) -> None: ...

from typing import TypeAlias

from flintmq.kernels.read.walk import Bytes
from flintmq.kernels.write.message import Message, PutResult

_Send: TypeAlias = tuple[int, int, int, str, str, int, Message]
"""Position after the frame, opaque, flag, group, default topic, its queues, message."""

def read(data: Bytes, at: int, born_host: str) -> _Send | None: ...
def answer(pieces: tuple[bytes, ...], opaque: int, queue_id: int, result: PutResult) -> bytes | None: ...

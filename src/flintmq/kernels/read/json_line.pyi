from collections.abc import Callable
from typing import Final, TypeVar

from flintmq.kernels.read.walk import Bytes

ASK: Final = 255

M = TypeVar("M")

def line(record: Bytes, body: bytes, heads: bytes, plan: bytes, ask: Callable[[M, int], str], message: M) -> str: ...

from typing import TypeAlias

from flintmq.kernels.read.walk import Bytes

_Pull: TypeAlias = tuple[int, int, int, str, str, int, int, int, int, int, int, str, int, str, int]
"""Code, opaque, flag; group, topic, queue, offset, messages, sysFlag, commitOffset, ms, tags, version, kind, bytes."""

def read(data: Bytes, at: int, defaults: tuple[str | int | None, ...]) -> tuple[int, _Pull] | None: ...
def answer(
    pieces: tuple[bytes, ...], opaque: int, following: int, low: int, high: int, data: bytes, more: int
) -> bytes | None: ...

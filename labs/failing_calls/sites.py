"""Where in the sources a child's thread is while its parent answers a call of it: classes of equal calls.

Two calls are of one class if the same thread makes them on the same kind of file by way of the same lines: one of them
stands for all where there is no time for each.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import sys
import threading
from types import FrameType

_SLOTS, _SIZE, _DEPTH = 32, 4096, 40
_HEAD = struct.Struct("=QI")


class Sites:
    """Memory that a child and its parent share: thread -> lines of the engine that it is in."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SLOTS * _SIZE)
        self._mine: dict[int, int] = {}

    def close(self) -> None:
        self._memory.close()

    def tell(self) -> None:
        """In the child: from now on each call of a C function, in any thread, tells where it comes from."""
        threading.setprofile(self._look)
        sys.setprofile(self._look)

    def _look(self, frame: FrameType, event: str, what: object) -> None:
        if event != "c_call":
            return
        lines: list[str] = []
        at: FrameType | None = frame
        thread = threading.get_native_id()
        while at is not None and len(lines) < _DEPTH:
            if "flintmq" in at.f_code.co_filename:
                lines.append(f"{os.path.basename(at.f_code.co_filename)}:{at.f_lineno}")
            at = at.f_back
        text = " ".join(lines).encode()[: _SIZE - _HEAD.size]
        slot = self._mine.setdefault(thread, len(self._mine) % _SLOTS) * _SIZE
        self._memory[slot : slot + _HEAD.size + len(text)] = _HEAD.pack(thread, len(text)) + text

    def of(self, thread: int) -> str:
        """In the parent: where this thread was when it last called a C function; empty if it has not yet."""
        for slot in range(0, _SLOTS * _SIZE, _SIZE):
            known, size = _HEAD.unpack_from(self._memory, slot)
            if known == thread:
                return self._memory[slot + _HEAD.size : slot + _HEAD.size + size].decode(errors="replace")
        return ""


def kind_of(path: str, root: str) -> str:
    """The kind of a file: its place below the store without what differs from file to file."""
    if not path.startswith(root):
        return path
    first, _, rest = path[len(root) :].strip("/").partition("/")
    return f"{first}/{re.sub(r'[0-9]+', 'N', os.path.basename(rest))}/{rest.count('/')}"

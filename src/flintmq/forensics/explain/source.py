"""The open file that is explained, and the parameters of one look at it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.forensics.explain.file_kinds import FilePlace
from flintmq.forensics.explain.lines import SHOWN_BYTES, Line
from flintmq.forensics.explain.store_context import Around
from flintmq.storage.files.filesystem import Effects

BLOCK: Final = 1 << 18  # bytes read at once for a small request
SMALL: Final = 1 << 16


class FileSource:
    """An open file, read with pread; its size is the one it had when it was opened.

    If it shrinks meanwhile, bytes after its new end read as zeros.
    """

    def __init__(self, path: str, fd: int, effects: Effects) -> None:
        self.path, self.fd, self.effects = path, fd, effects
        self.size = effects.size_of(fd)
        self._cache, self._cache_at = b"", 0

    def read(self, count: int, position: int) -> bytes:
        """Return bytes of the file; fewer only at its end."""
        count = max(min(count, self.size - position), 0)
        if count > SMALL:
            return self.effects.pread(self.fd, count, position).ljust(count, b"\0")
        at = position - self._cache_at
        if at < 0 or at + count > len(self._cache):
            wanted = min(BLOCK, self.size - position)
            self._cache, self._cache_at, at = self.effects.pread(self.fd, wanted, position), position, 0
        return self._cache[at : at + count].ljust(count, b"\0")

    def forget(self) -> None:
        """Drop the cache, because the file may have been written meanwhile."""
        self._cache = b""

    def zeros_until(self, position: int, stop: int) -> int:
        """Return the position of the first nonzero byte in [position, stop), else `stop`."""
        while position < stop:
            data = self.effects.next_data(self.fd, position)
            if data is None or data >= stop:
                return stop
            position = max(position, data)
            block = self.read(min(BLOCK, stop - position), position)
            rest = block.lstrip(b"\0")
            if rest:
                return position + len(block) - len(rest)
            position += len(block)
        return stop

    def used_until(self, position: int, stop: int) -> int:
        """Return the position after the last nonzero byte in [position, stop), else `position`."""
        used = position
        while (begin := self.zeros_until(position, stop)) < stop:
            block = self.read(min(BLOCK, stop - begin), begin)
            used, position = begin + len(block.rstrip(b"\0")), begin + len(block)
        return used


@dataclass
class FileLook:
    source: FileSource
    place: FilePlace  # its kind, and the facts that its path gives
    at: int | None  # position asked for; None for an overview
    limit: int  # most units that get a line of their own (with `at`: after the one asked for)
    around: Around
    config: StoreConfig
    found: list[tuple[str, str]] = field(default_factory=list)  # (name, text) to print after the lines
    steps: list[str] = field(default_factory=list)

    def step(self, *words: object) -> None:
        self.steps.append(shlex.join(["flintmq", *map(str, words)]))

    def step_to(self, offset: int) -> None:
        """Add the command that explains the record at a log offset, if the log has that place."""
        target = self.around.log and self.around.log.find(offset)
        if target:
            self.step("explain", target.path, "--at", offset - target.start)

    def range(self, begin: int, end: int, name: str, value: int | str | None, text: str, meaning: str,
              problem: str | None = None, unit: str = "") -> Line:  # fmt: skip
        """Return a line about a range of the file, with its first bytes."""
        data = self.source.read(min(SHOWN_BYTES, end - begin), begin)
        return Line(begin, end - begin, unit, name, value, text, meaning, problem, data)

    def several(self, begin: int, end: int, name: str, count: int, what: str, meaning: str) -> Iterator[Line]:
        """Yield a line about `count` of something; none for an empty range."""
        if begin < end:
            yield self.range(begin, end, name, count, f"{count} {what}{'' if count == 1 else 's'}", meaning)

    def bytes(self, begin: int, end: int, name: str, meaning: str, problem: str | None = None, *,
              counted: bool = True, what: str = "bytes") -> Iterator[Line]:  # fmt: skip
        """Yield a line about bytes, none for an empty range; their number is its value if `counted`."""
        if begin < end:
            size = end - begin
            yield self.range(begin, end, name, size if counted else None, f"{size} {what}", meaning, problem)

"""The open file that is explained, and what one look at it needs to know."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.forensics.explain.file_kinds import FilePlace
from flintmq.forensics.explain.lines import SHOWN_BYTES, Line
from flintmq.forensics.explain.store_context import Around
from flintmq.storage.filesystem import Effects

BLOCK: Final = 1 << 18  # bytes that are read at once where little is asked for
SMALL: Final = 1 << 16


class FileSource:
    """An open file. It is read with pread; its size is the one it had when it was opened.

    A file that shrinks meanwhile reads as zeros behind its new end.
    """

    def __init__(self, path: str, fd: int, effects: Effects) -> None:
        self.path, self.fd, self.effects = path, fd, effects
        self.size = effects.size_of(fd)
        self._cache, self._cache_at = b"", 0

    def read(self, count: int, position: int) -> bytes:
        """Bytes of the file; fewer only behind its size."""
        count = max(min(count, self.size - position), 0)
        if count > SMALL:
            return self.effects.pread(self.fd, count, position).ljust(count, b"\0")
        at = position - self._cache_at
        if at < 0 or at + count > len(self._cache):
            wanted = min(BLOCK, self.size - position)
            self._cache, self._cache_at, at = self.effects.pread(self.fd, wanted, position), position, 0
        return self._cache[at : at + count].ljust(count, b"\0")

    def forget(self) -> None:
        """Read anew what was read before: somebody may have written meanwhile."""
        self._cache = b""

    def zeros_until(self, position: int, stop: int) -> int:
        """Where the first byte that is not zero stands in [position, stop), else `stop`. Holes cost nothing."""
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
        """Behind the last byte that is not zero in [position, stop); `position` if there is none."""
        used = position
        while (begin := self.zeros_until(position, stop)) < stop:
            block = self.read(min(BLOCK, stop - begin), begin)
            used, position = begin + len(block.rstrip(b"\0")), begin + len(block)
        return used


@dataclass
class FileLook:
    """One look at one file.

    Attributes:
        source: the file.
        place: its kind, and what its path tells.
        at: position that is asked for; None for an overview.
        limit: most units that get a line of their own (behind the one asked for).
        around: the store that it lies in.
        config: RocketMQ's keys.
        found: (name, text) that is told behind the lines.
        steps: commands that lead on.
    """

    source: FileSource
    place: FilePlace
    at: int | None
    limit: int
    around: Around
    config: StoreConfig
    found: list[tuple[str, str]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def step(self, *words: object) -> None:
        """Take a command of flintmq that leads on."""
        self.steps.append(shlex.join(["flintmq", *map(str, words)]))

    def range(self, begin: int, end: int, name: str, value: int | str | None, text: str, meaning: str,
              problem: str | None = None, unit: str = "") -> Line:  # fmt: skip
        """A line about a range of the file, with its first bytes."""
        data = self.source.read(min(SHOWN_BYTES, end - begin), begin)
        return Line(begin, end - begin, unit, name, value, text, meaning, problem, data)

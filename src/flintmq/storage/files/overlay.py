"""The disk with planned changes applied: reads see changes that are not made yet.

`salvage --in-place` plans against it: verify and rebuild see the repaired store while the real one is untouched.
"""

from __future__ import annotations

import os
from bisect import insort

from flintmq.overriding import override
from flintmq.storage.files.filesystem import OtherDisk


class Overlay(OtherDisk):
    """The real disk with planned patches, sizes and files.

    Attributes:
        patches: path -> (position, bytes) to be written, sorted, without overlaps.
        places: path of a file or directory -> path of its planned content; None if it is to be removed.

    Thread: changed by one thread before others read.
    """

    holds_lock = True  # a caller that plans changes holds the store's lock

    def __init__(self) -> None:
        self.patches: dict[str, list[tuple[int, bytes]]] = {}
        self.sizes: dict[str, int] = {}  # path -> planned size of the file in bytes; added bytes read as zeros
        self.places: dict[str, str | None] = {}
        self._open: dict[int, str] = {}

    def patch(self, path: str, position: int, data: bytes) -> None:
        assert position >= 0 and data
        insort(self.patches.setdefault(path, []), (position, data))

    def _real(self, path: str) -> tuple[str | None, bool]:
        """Return the path of the content now (None if removed), and whether that is another path."""
        at = path
        while at and at not in self.places:
            parent = os.path.dirname(at)
            at = parent if parent != at else ""
        if not at:
            return path, False
        place = self.places[at]
        return (None if place is None else place + path[len(at) :]), True

    @override
    def open_read(self, path: str, below: str | None = None) -> int:
        real, moved = self._real(path)
        if real is None:
            raise FileNotFoundError(path)
        fd = super().open_read(real, None if moved else below)
        self._open[fd] = path
        return fd

    @override
    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        super().close(fd)

    def listdir(self, path: str, below: str | None = None) -> list[str]:
        real, moved = self._real(path)
        names = set() if real is None else set(super().listdir(real, None if moved else below))
        for place, content in self.places.items():
            if os.path.dirname(place) == path:
                (names.discard if content is None else names.add)(os.path.basename(place))
        return sorted(names)

    def size(self, path: str) -> int | None:
        real, _ = self._real(path)
        found = None if real is None else super().size(real)
        return found if found is None else self.sizes.get(path, found)

    def is_dir(self, path: str) -> bool:
        real, _ = self._real(path)
        return real is not None and super().is_dir(real)

    def modified_ms(self, path: str) -> int | None:
        real, _ = self._real(path)
        return None if real is None else super().modified_ms(real)

    def size_of(self, fd: int) -> int:
        path = self._open.get(fd, "")
        return self.sizes.get(path, super().size_of(fd))

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Fill a buffer with the bytes after the planned changes."""
        path = self._open.get(fd, "")
        if path not in self.sizes and path not in self.patches:
            return super().pread_into(fd, buffer, position)
        count = max(min(len(buffer), self.size_of(fd) - position), 0)
        got = super().pread_into(fd, buffer[:count], position) if count else 0
        buffer[got:count] = bytes(count - got)
        for at, data in self.patches.get(path, ()):
            begin, end = max(at, position), min(at + len(data), position + count)
            if begin < end:
                buffer[begin - position : end - position] = data[begin - at : end - at]
        return count

    def next_data(self, fd: int, position: int) -> int | None:
        """Return the next position with data; a hole ends at a planned patch."""
        found = super().next_data(fd, position)
        for at, data in self.patches.get(self._open.get(fd, ""), ()):
            if at + len(data) > position:
                return max(at, position) if found is None else min(found, max(at, position))
        return found

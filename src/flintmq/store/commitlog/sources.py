"""How a walk over a log comes to its bytes: by pread, mapped, or mapped by who holds the store's lock."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING

from flintmq.storage.touch_ahead import TouchAhead
from flintmq.store.commitlog.files import LogFile

if TYPE_CHECKING:
    from flintmq.store.commitlog.walk import LogWalk

OWN = "own"  # mapped; for files that nobody shortens meanwhile. What the disk refuses is an error all the same
FIRST_PIECE = 1 << 14  # bytes read behind a stop: the next one may be near


class Pieces:
    """Brings bytes by pread into one buffer that is used again.

    Attributes:
        size: bytes of the file when it was opened; less once it turns out to be shorter.
    """

    def __init__(self, walk: LogWalk, file: LogFile, fd: int, size: int) -> None:
        self.effects, self.fd, self.size = walk.log.effects, fd, size
        self.most = min(size, walk.piece_bytes) or 1
        self.buffer = bytearray(self.most)
        self.span = self.most
        self.until = size if walk.end is None else min(size, walk.end - file.start)  # what is needed for sure
        self.effects.will_read(fd, walk.position - file.start, self.until, sure=walk.end is not None)

    def bytes_at(self, at: int, need: int) -> tuple[memoryview, int, int]:
        """(buffer, file position of its first byte, bytes filled) from file position `at` on."""
        span = max(min(self.span, self.until - at), need)
        if span > len(self.buffer):
            self.buffer = bytearray(span)  # one large record; released with the walk
        view = memoryview(self.buffer)
        filled = self.effects.pread_into(self.fd, view[:span], at)
        if filled < span:
            self.size = min(self.size, at + filled)
        self.span = min(2 * self.span, self.most)
        return view, at, filled

    def near_stop(self) -> None:
        """Read little next: where a walk stopped once it may stop again soon."""
        self.span = min(FIRST_PIECE, self.most)

    def close(self) -> None:
        """Nothing to give back."""


class Mapped:
    """Brings bytes by mapping the file."""

    def __init__(self, walk: LogWalk, file: LogFile, fd: int, size: int) -> None:
        self.map: mmap.mmap = walk.log.effects.map_read(fd, size)
        self.view, self.size = memoryview(self.map), size
        end = size if walk.end is None else min(size, walk.end - file.start)
        self.ahead = TouchAhead(self.map, walk.position - file.start, end, careful=walk.access == OWN)

    def bytes_at(self, at: int, need: int) -> tuple[memoryview, int, int]:
        """The whole file, whatever is asked."""
        return self.view, 0, self.size

    def near_stop(self) -> None:
        """Nothing is read ahead."""

    def close(self) -> None:
        """Unmap, unless somebody still holds a view of a piece (then the view's end unmaps it)."""
        self.ahead.stop()
        with suppress(BufferError):
            self.view.release()
            self.map.close()


class Own(Mapped):
    """Brings bytes by mapping the file, piece by piece, so that a sector that cannot be read is an error, not SIGBUS.

    Attributes:
        can: whether this system can.
    """

    def __init__(self, walk: LogWalk, file: LogFile, fd: int, size: int) -> None:
        super().__init__(walk, file, fd, size)
        self.effects, self.most, self.path = walk.log.effects, walk.piece_bytes, file.path
        self.can = self.effects.present(self.map, 0, min(size, 1))

    def bytes_at(self, at: int, need: int) -> tuple[memoryview, int, int]:
        """The file as far as a piece goes.

        Raises:
            OSError: it cannot be read.
        """
        end = min(at + max(self.most, need), self.size)
        try:
            self.effects.present(self.map, at, end)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} between position {at} and {end}", self.path) from None
        return self.view, 0, end


SOURCES: dict[str, type[Mapped | Pieces]] = {"pread": Pieces, "map": Mapped, OWN: Own}

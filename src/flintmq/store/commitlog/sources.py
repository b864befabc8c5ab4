"""Supplies a walk over a log with bytes: by pread, or mapped."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING

from flintmq.storage.touch_ahead import TouchAhead
from flintmq.store.commitlog.files import LogFile

if TYPE_CHECKING:
    from flintmq.store.commitlog.walk import LogWalk

OWN = "own"  # mapped, by the holder of the store's lock: no other process shortens the files; an I/O error is raised
FIRST_PIECE = 1 << 14  # bytes read after a stop: the next one may be near


class Pieces:
    """Reads bytes by pread into one buffer that is reused, or (LogWalk.keep_pieces) new ones.

    Attributes:
        size: size of the file when it was opened; less once it turns out to be shorter.
    """

    def __init__(self, walk: LogWalk, file: LogFile, fd: int, size: int) -> None:
        self.effects, self.fd, self.size = walk.log.effects, fd, size
        self.most = min(size, walk.piece_bytes) or 1
        self.allocate = walk.allocate
        self.buffer = bytearray(self.most if self.allocate is None else 0)
        self.span = self.most
        self.until = size if walk.end is None else min(size, walk.end - file.start)  # certainly needed
        self.effects.will_read(fd, walk.position - file.start, self.until, sure=walk.end is not None)

    def bytes_at(self, at: int, need: int) -> tuple[memoryview, int, int]:
        """Return (buffer, file position of its first byte, bytes filled) from position `at` on."""
        span = max(min(self.span, self.until - at), need)
        if self.allocate is not None:
            view = self.allocate(span)
        else:
            if span > len(self.buffer):
                self.buffer = bytearray(span)  # one large record; released with the walk
            view = memoryview(self.buffer)
        filled = self.effects.pread_into(self.fd, view[:span], at)
        if filled < span:
            self.size = min(self.size, at + filled)
        assert 0 < span <= len(view) and filled <= span
        self.span = min(2 * self.span, self.most)
        return view, at, filled

    def near_stop(self) -> None:
        """Read little next: a walk that stopped may stop again soon."""
        self.span = min(FIRST_PIECE, self.most)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class Mapped:
    """Reads bytes by mapping the file."""

    def __init__(self, walk: LogWalk, file: LogFile, fd: int, size: int) -> None:
        self.map: mmap.mmap = walk.log.effects.map_read(fd, size)
        self.view, self.size = memoryview(self.map), size
        end = size if walk.end is None else min(size, walk.end - file.start)
        self.ahead = TouchAhead(self.map, walk.position - file.start, end, careful=walk.access == OWN)

    def bytes_at(self, at: int, need: int) -> tuple[memoryview, int, int]:
        """Return the whole file, whatever is asked."""
        self.ahead.follow(at)
        return self.view, 0, self.size

    def near_stop(self) -> None:
        """Do nothing: nothing is read ahead."""

    def close(self) -> None:
        """Unmap; if a view of a piece is still in use, the file is unmapped when that view goes."""
        self.ahead.stop()
        with suppress(BufferError):
            self.view.release()
            self.map.close()


class Own(Mapped):
    """Maps the file and makes each piece present: an unreadable sector raises, no SIGBUS.

    Attributes:
        can: whether this system supports it.
    """

    def __init__(self, walk: LogWalk, file: LogFile, fd: int, size: int) -> None:
        super().__init__(walk, file, fd, size)
        self.effects, self.most, self.path = walk.log.effects, walk.piece_bytes, file.path
        self.can = self.effects.present(self.map, 0, min(size, 1))

    def bytes_at(self, at: int, need: int) -> tuple[memoryview, int, int]:
        """Return the file up to the end of a piece.

        Raises:
            OSError: it cannot be read.
        """
        self.ahead.follow(at)
        end = min(at + max(self.most, need), self.size)
        try:
            self.effects.present(self.map, at, end)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} between position {at} and {end}", self.path) from None
        return self.view, 0, end


SOURCES: dict[str, type[Mapped | Pieces]] = {"pread": Pieces, "map": Mapped, OWN: Own}

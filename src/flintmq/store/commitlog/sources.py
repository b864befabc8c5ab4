"""Supplies a walk over a log with bytes: by pread, or mapped."""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from flintmq.kernels import _select
from flintmq.kernels.read.walk import present, touch
from flintmq.kernels.threads.handoff import Signal
from flintmq.store.commitlog.files import LogFile

if TYPE_CHECKING:
    from flintmq.store.commitlog.walk import LogWalk

OWN = "own"  # mapped, by the holder of the store's lock: no other process shortens the files; an I/O error is raised
FIRST_PIECE = 1 << 14  # bytes read after a stop: the next one may be near


class Pieces:
    """Reads bytes by pread into one buffer that is reused, or (LogWalk.keep_pieces) new ones.

    `size`: size of the file when it was opened; less once it turns out to be shorter.
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


class TouchAhead:
    """Touches the pages of map[begin:end] in order, until it is stopped.

    Entering its pages into the process's page tables, sixteen at each page fault, takes a fifth of a pass over a file
    in the page cache, and the reader waits meanwhile. Another thread takes these faults in parallel. For pages that are
    not in the page cache it also reads ahead.

    It stays near the reader: the last file of a log is mostly a hole, and each page of a hole that is touched takes
    memory of the page cache, and time to make it zero.

    For small ranges, and if the kernels are not compiled and would keep the GIL, it does nothing.

    `careful`: stop at pages that cannot be read; the reader checks them the same way. Without it such a page kills the
    process.

    Thread: `follow` and `stop` belong to the thread that made it.
    """

    LEAST = 32 << 20  # bytes: a smaller range is not worth a thread
    STEP = 4 << 20  # bytes between checks whether to stop
    AHEAD, LEFT = 32 << 20, 8 << 20  # bytes: how far it goes before the reader; it is woken where this much is left
    IDLE_S = 60.0  # seconds that it sleeps at most; its reader wakes it
    AROUND = 1 << 16  # bytes that Linux maps at one page fault; if it maps fewer, the reader takes the remaining faults

    def __init__(self, map_: mmap.mmap, begin: int, end: int, *, careful: bool = False) -> None:
        self._stopped, self._careful = False, careful
        self._until = begin + self.AHEAD
        self._further = Signal()  # an Event's lock stays taken if a signal handler raises amid `set`
        self._thread: threading.Thread | None = None
        if end - begin >= self.LEAST and _select.compiled():
            self._thread = threading.Thread(
                target=self._touch, args=(map_, begin, end), name="flintmq-touch", daemon=True
            )
            self._thread.start()

    def _touch(self, map_: mmap.mmap, begin: int, end: int) -> None:
        for at in range(begin, end, self.STEP):
            while at >= self._until and not self._stopped:
                self._further.wait(self.IDLE_S)
            if self._stopped:
                return
            if not self._careful:
                touch(map_, at, min(at + self.STEP, end), self.AROUND)
            elif present(map_, at, min(at + self.STEP, end)):  # the reader will meet the same error and report it
                return

    def follow(self, position: int) -> None:
        """Go on, up to AHEAD bytes after this position of the reader."""
        if position + self.LEFT >= self._until:
            self._until = position + self.AHEAD
            self._further.set()

    def stop(self) -> None:
        """Stop; afterwards the map may be closed."""
        self._stopped = True
        self._further.set()
        if self._thread is not None:
            self._thread.join()


class Mapped:
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
    """Maps the file and makes each piece present: an unreadable sector raises, no SIGBUS."""

    def __init__(self, walk: LogWalk, file: LogFile, fd: int, size: int) -> None:
        super().__init__(walk, file, fd, size)
        self.effects, self.most, self.path = walk.log.effects, walk.piece_bytes, file.path
        self.can = self.effects.present(self.map, 0, min(size, 1))  # whether this system supports it

    def bytes_at(self, at: int, need: int) -> tuple[memoryview, int, int]:
        """Return the file up to the end of a piece."""
        self.ahead.follow(at)
        end = min(at + max(self.most, need), self.size)
        try:
            self.effects.present(self.map, at, end)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} between position {at} and {end}", self.path) from None
        return self.view, 0, end


SOURCES: dict[str, type[Mapped | Pieces]] = {"pread": Pieces, "map": Mapped, OWN: Own}

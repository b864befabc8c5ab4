"""Finds where the bytes of two logs differ, at the same log offsets.

Equal bytes are not parsed: a slave, or a copy, costs two reads and a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.records import RecordReader

PIECE = 1 << 20
RANGE_MOST = 8 << 20  # a range is cut there: its records are held in memory

Progress = Callable[[int, int], None]


class LogBytes(RecordReader):
    """Reads the bytes of a log at any offset, in a `with` block; the last file stays open.

    Thread: one.
    """

    def room(self, offset: int) -> int:
        """Return how many bytes the file of this offset has from there on; 0 if there is no file."""
        file = self._find(offset)
        return 0 if file is None else file.start + file.size - offset

    def next_start(self, offset: int) -> int:
        """Return where the next file after this offset begins; the log's limit if none does."""
        return next((file.start for file in self.log.files if file.start > offset), self.log.limit)

    def read(self, offset: int, count: int) -> memoryview:
        """Read bytes of one file.

        They are fewer where it is shorter by now, or gone, and valid until the next call.
        """
        file = self._find(offset)
        if file is None:
            return memoryview(b"")
        try:
            return self.file_bytes(file, offset - file.start, count)
        except FileNotFoundError:
            return memoryview(b"")

    def _find(self, offset: int) -> LogFile | None:
        file = self._file
        if file is not None and file.start <= offset < file.start + file.size:
            return file
        return self.log.find(offset)


def ranges_that_differ(
    a: LogFiles, b: LogFiles, begin: int, end: int, progress: Progress | None = None
) -> Iterator[tuple[int, int]]:
    return joined(pieces_that_differ(a, b, begin, end, progress))


def pieces_that_differ(
    a: LogFiles, b: LogFiles, begin: int, end: int, progress: Progress | None = None
) -> Iterator[tuple[int, int]]:
    """Yield [begin, end) of each piece in which two logs have not the same bytes.

    Pieces end at multiples of PIECE, wherever the first one begins, and at the ends of files.
    """
    with LogBytes(a) as one, LogBytes(b) as other:
        offset = begin
        while offset < end:
            count = min(PIECE - offset % PIECE, end - offset, one.room(offset), other.room(offset))
            same = count > 0 and bytes_equal(one.read(offset, count), other.read(offset, count), count)
            if not count:  # a side has no file there
                starts = [side.next_start(offset) for side in (one, other) if not side.room(offset)]
                count = min([end, *(start for start in starts if start > offset)]) - offset
            if not same:
                yield offset, offset + count
            offset += count
            if progress is not None:
                progress(offset - begin, end - begin)


def joined(pieces: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join pieces that touch into ranges, each until it has RANGE_MOST bytes."""
    first = last = 0
    for begin, end in pieces:
        if first < last and (begin != last or last - first >= RANGE_MOST):
            yield first, last
            first = begin
        elif first == last:
            first = begin
        last = end
    if first < last:
        yield first, last


def bytes_equal(a: memoryview, b: memoryview, count: int) -> bool:
    """Return whether both sides have so many bytes, and the same ones."""
    if not len(a) == len(b) == count:
        return False
    # Buffers of whole bytearrays are compared by memcmp, memoryviews byte by byte.
    if isinstance(a.obj, bytearray) and isinstance(b.obj, bytearray) and len(a.obj) == len(b.obj) == count:
        return bool(a.obj == b.obj)
    return bytes(a) == bytes(b)

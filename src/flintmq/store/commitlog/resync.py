"""Finds the next valid record after a position that holds none.

Holes of sparse files are skipped, so that searching the unwritten gigabyte after the end costs nothing. Windows are
searched, small ones first (the next record is mostly near), then up to one MiB; a record whose header is at the end of
a window is read whole. The cost on hostile bytes (many headers, each with a huge record that then fails its checksum)
is bounded by a ResyncBudget; once it is used up, a record may not be found.
"""

from __future__ import annotations

from bisect import bisect_right

from flintmq.format.record_view import HEAD_SIZE, HEADER_SIZE_MAX, SIZE, size_at
from flintmq.kernels.read import walk as kernel
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.records import check_record

WINDOW = 1 << 20
FIRST_WINDOW = 1 << 13
OVERLAP = HEADER_SIZE_MAX
MODEST_RECORD = 1 << 16
SPARE_EFFORT = 64 << 20  # bytes that may be read for failed large candidates in any case


class ResyncBudget:
    """Limits reads of large invalid records, so that hostile bytes never cost quadratic time.

    A walk and its searches share one. Once more bytes were read for failed records than were walked and searched (plus
    a spare 64 MiB), records larger than 64 KiB are not tried until that many bytes have been passed again.
    """

    def __init__(self) -> None:
        self.owed = -SPARE_EFFORT

    def passed(self, count: int) -> None:
        assert count >= 0
        self.owed -= count

    def failed(self, count: int) -> None:
        self.owed += count

    def largest(self, max_record: int) -> int:
        return max_record if self.owed <= 0 else min(max_record, MODEST_RECORD)


def next_record(log: LogFiles, offset: int, until: int | None = None, effort: ResyncBudget | None = None) -> int | None:
    """Return the offset of the first valid record from `offset` on (before `until`), or None.

    Files that disappear meanwhile are skipped.

    `effort`: budget shared by searches that belong together; None for a single one.
    """
    effort = effort or ResyncBudget()
    first = max(bisect_right(log.files, offset, key=lambda file: file.start) - 1, 0)
    for number in range(first, len(log.files)):
        file = log.files[number]
        if file.start + file.size <= offset:
            continue
        if until is not None and file.start >= until:
            return None
        found = _in_file(log, file, max(offset, file.start), until, effort)
        if found is not None:
            return found if until is None or found < until else None
    return None


def first_record(log: LogFiles, offset: int) -> int:
    """Return the first record of a split at `offset`, a boundary on which neighbours agree.

    The first byte of a file always begins a record. Elsewhere it is the first valid record at `offset` or
    later in the same file, else the end of that file.
    """
    file = log.find(offset)
    if file is None or offset == file.start:
        return offset
    found = _in_file(log, file, offset, None, ResyncBudget())
    return file.start + file.size if found is None else found


def _in_file(log: LogFiles, file: LogFile, offset: int, until: int | None, effort: ResyncBudget) -> int | None:
    try:
        fd = log.effects.open_read(file.path)
    except FileNotFoundError:
        return None
    try:
        size = log.effects.size_of(fd)
        stop = size if until is None else min(size, until - file.start)
        return _Search(log, fd, file.start, size, effort).run(offset - file.start, stop)
    finally:
        log.effects.close(fd)


class _Search:
    """One search in one open file; positions are file positions."""

    def __init__(self, log: LogFiles, fd: int, start: int, size: int, effort: ResyncBudget) -> None:
        self.log, self.fd, self.start, self.size, self.effort = log, fd, start, size, effort
        self.window = bytearray(FIRST_WINDOW)

    def run(self, position: int, stop: int) -> int | None:
        """Return the first record at `position` or later, or None; one at `stop` may be missed."""
        effects = self.log.effects
        while self.size - position >= HEAD_SIZE and position < stop:
            data = effects.next_data(self.fd, position)
            if data is None:
                return None
            position = max(position, data - HEAD_SIZE)  # a header may begin just before the data does
            got = effects.pread_into(self.fd, memoryview(self.window), position)
            self.effort.passed(got)
            if got < HEAD_SIZE:
                return None
            at, grow = 0, 4 * len(self.window)
            while True:
                largest = self.effort.largest(self.log.max_record)
                at, reason = kernel.resync(self.window, at, got, self.size - position, self.start + position, largest)
                if reason == kernel.END:
                    return self.start + position + at
                if reason == kernel.NOTHING:
                    break
                if got - at < min(OVERLAP, self.size - position - at) and at > 0:
                    break  # the header itself is incomplete: the next window begins with it
                if self._whole(position + at):
                    return self.start + position + at
                at += 1
                if len(self.window) < WINDOW:
                    grow = WINDOW  # hold such records in the window from now on
                    break
            assert 0 <= at <= got
            position += max(at, 1)
            if len(self.window) < WINDOW:
                self.window = bytearray(grow)
        return None

    def _whole(self, position: int) -> bool:
        """Return whether the record at `position`, larger than any window, is valid."""
        size = size_at(self.log.effects.pread(self.fd, SIZE.size, position))
        if size > self.effort.largest(self.log.max_record):
            return False
        data = bytearray(size)
        got = self.log.effects.pread_into(self.fd, memoryview(data), position)
        positions = memoryview(bytearray(8)).cast("q")
        place = self.size - position, self.start + position
        count, _ = check_record(memoryview(data)[:got], *place, self.log.max_record, positions)
        if not count:
            self.effort.failed(size)
        return bool(count)

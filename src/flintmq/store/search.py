"""Find the next record that counts, anywhere behind a place that does not hold one.

Holes of sparse files are stepped over, so that looking through the unwritten gigabyte behind the end costs nothing.
Windows of one MiB are searched; a header at a window's end whose record goes on behind it is read whole. What that may
cost on hostile bytes (many headers, each naming a huge record that then fails its checksum) is bounded: once more has
been read for failed candidates than for the search itself, records larger than a window are no longer looked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from flintmq.kernels import walk as kernel
from flintmq.store.log_files import LogFile, LogFiles

WINDOW = 1 << 20
OVERLAP = 112  # a header up to the body length
SPARE_EFFORT = 64 << 20  # bytes read for failed large candidates that are forgiven
_STORE_TIME = struct.Struct(">q")


def next_record(log: LogFiles, offset: int, until: int | None = None) -> int | None:
    """Log offset of the first record that counts and starts at `offset` or later (and before `until`), or None.

    Files that vanish meanwhile are passed over.

    Raises:
        StoreAccessError: a file may not be read.
    """
    for file in log.files:
        if file.start + file.size <= offset:
            continue
        if until is not None and file.start >= until:
            return None
        found = _in_file(log, file, max(offset, file.start))
        if found is not None:
            return found if until is None or found < until else None
    return None


def first_record(log: LogFiles, offset: int) -> int:
    """Where a split that begins at `offset` has its first record: the boundary on which neighbouring splits agree.

    The first byte of a file always begins a record. Elsewhere it is the first record that counts at `offset` or
    later in the same file, else the end of that file.
    """
    file = log.find(offset)
    if file is None or offset == file.start:
        return offset
    found = _in_file(log, file, offset)
    return file.start + file.size if found is None else found


def _in_file(log: LogFiles, file: LogFile, offset: int) -> int | None:
    try:
        fd = log.effects.open_read(file.path)
    except FileNotFoundError:
        return None
    try:
        size = log.effects.size_of(fd)
        return _Search(log, fd, file.start, size).run(offset - file.start)
    finally:
        log.effects.close(fd)


class _Search:
    """One search in one open file. Positions are file positions."""

    def __init__(self, log: LogFiles, fd: int, start: int, size: int) -> None:
        self.log, self.fd, self.start, self.size = log, fd, start, size
        self.max_record = log.max_record
        self.effort = -SPARE_EFFORT
        self.window = bytearray(WINDOW)

    def run(self, position: int) -> int | None:
        """Log offset of the first record at `position` or later, or None."""
        effects = self.log.effects
        while self.size - position >= 8:
            data = effects.next_data(self.fd, position)
            if data is None:
                return None
            position = max(position, data - 8)  # a header may begin just before the data does
            got = effects.pread_into(self.fd, memoryview(self.window), position)
            self.effort -= got
            if got < 8:
                return None
            at = 0
            while True:
                at, reason = kernel.resync(
                    self.window, at, got, self.size - position, self.start + position, self.max_record
                )
                if reason == kernel.END:
                    return self.start + position + at
                if reason == kernel.NOTHING:
                    break
                if got - at < min(OVERLAP, self.size - position - at) and at > 0:
                    break  # the header itself is cut: the next window begins with it
                if self._whole(position + at):
                    return self.start + position + at
                at += 1
            position += max(at, 1)
        return None

    def _whole(self, position: int) -> bool:
        """Whether the record counts whose header stands at `position` and which no window holds."""
        head = self.log.effects.pread(self.fd, 4, position)
        size = int.from_bytes(head, "big")
        if size > self.max_record:
            return False
        data = self.log.effects.pread(self.fd, size, position)
        positions = memoryview(bytearray(8)).cast("q")
        count, _, _, _ = kernel.walk(
            data,
            0,
            len(data),
            self.size - position,
            1,
            self.start + position,
            0,
            self.max_record,
            kernel.CHECK_CRC,
            positions,
        )
        if not count:
            self.effort += size
            if self.effort > 0:
                self.max_record = min(self.max_record, WINDOW // 2)
        return bool(count)


def store_times(data: memoryview, positions: memoryview, count: int) -> Iterator[int]:
    """Store time in ms of each of these validated records."""
    for at in positions[:count]:
        yield _STORE_TIME.unpack_from(data, at + (68 if data[at + 39] & 16 else 56))[0]

"""Reads the raw units of one queue: every place there is, zeros where nothing is.

`store/consumequeue/reader.py` serves readers and skips odd files; here they are reported: files of another size, gaps,
strange names. Descriptors stay open for a while, because verify returns to a queue with every piece of the log.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flintmq.errors import StoreAccessError
from flintmq.forensics.verify.findings import Findings
from flintmq.format.consume_queue import record_offset_at
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.files import file_start

OPEN_FILES = 128
BLOCK_BYTES = 64 * 1024
CACHED_UNITS = 64  # units read at once for a single one


class Disk:
    """Reads files through a limited number of descriptors that stay open. Thread: one."""

    def __init__(self, effects: Effects, limit: int = OPEN_FILES) -> None:
        self.effects, self.limit = effects, limit
        self._open: OrderedDict[str, int] = OrderedDict()

    def descriptor(self, path: str, below: str) -> int | None:
        """Return an open descriptor; None if the file is gone."""
        fd = self._open.get(path)
        if fd is not None:
            self._open.move_to_end(path)
            return fd
        try:
            fd = self.effects.open_read(path, below)
        except FileNotFoundError:
            return None
        self._open[path] = fd
        if len(self._open) > self.limit:
            self.effects.close(self._open.popitem(last=False)[1])
        return fd

    def pread(self, path: str, below: str, count: int, position: int) -> bytes:
        """Read bytes of a file; fewer, or none, if it ends or is gone."""
        fd = self.descriptor(path, below)
        if fd is None:
            return b""
        try:
            return self.effects.pread(fd, count, position)
        except OSError as error:
            raise StoreAccessError(f"{path}: {error.strerror}; check the disk") from error

    def next_data(self, path: str, below: str, position: int) -> int | None:
        """Return the next position that may hold data, None after the last; see Effects.next_data."""
        fd = self.descriptor(path, below)
        return None if fd is None else self.effects.next_data(fd, position)

    def close(self) -> None:
        while self._open:
            self.effects.close(self._open.popitem()[1])


class UnitSpan(NamedTuple):
    """The units of one file: numbers [first, stop)."""

    first: int
    stop: int
    path: str


def report_stray(path: str, names: list[str], kind: str, findings: Findings, effects: Effects) -> None:
    """Report a name among log or queue files that no such file has.

    RocketMQ passes over directories, deletes an empty file that is the last one by name, and refuses to start with any
    other (MappedFileQueue.doLoad).
    """
    size = effects.size(path)
    if size is None or (not size and os.path.basename(path) == max(names)):
        findings.note("unknown-file", f"{path} is not {kind}", path)
    else:
        findings.defect("stray-file", path, None, "files named by an offset", f"{size} bytes")


def check_sequence(
    files: Iterable[tuple[int, int, str]], size: int, findings: Findings, size_code: str, gap_code: str
) -> None:
    """Check that files have one size and no gap; each is (start, size, path), in their order."""
    due = None
    for start, found, path in files:
        if found != size:
            findings.defect(size_code, path, None, f"{size} bytes", f"{found} bytes")
        if due is not None and start != due:
            findings.defect(gap_code, path, None, f"name {due:020}", f"name {start:020}")
        due = start + size


class UnitFiles:
    """The units of one queue as one sequence.

    In a plain queue the number of a unit is its queue offset; in a batch queue (`counted`) units are counted from the
    first one of the first file.

    `file_size`: bytes that a file should have; 0 if unknown.
    """

    __slots__ = ("blocked", "_cache", "_cache_at", "below", "disk", "findings", "folder", "spans", "width")

    def __init__(
        self, folder: str, below: str, width: int, file_size: int, counted: bool, disk: Disk, findings: Findings
    ) -> None:
        self.folder, self.below, self.width = folder, below, width
        self.disk, self.findings = disk, findings
        self.blocked: set[str] = set()  # unreadable files, reported once
        self._cache, self._cache_at = b"", 0
        spans = list(self._spans(file_size, counted))
        ends = [span.first for span in spans[1:]] + [1 << 63]
        self.spans = tuple(
            span._replace(stop=min(span.stop, end)) for span, end in zip(spans, ends, strict=False) if span.first < end
        )

    def _spans(self, file_size: int, counted: bool) -> Iterator[UnitSpan]:
        found = []
        for name in self._names():
            path = os.path.join(self.folder, name)
            start, size = file_start(name), self.disk.effects.size(path)
            if start is None:
                report_stray(path, self._names(), "a queue file", self.findings, self.disk.effects)
            elif size is None:
                if name in self._names():  # else it was deleted meanwhile
                    self.findings.defect("queue-file-unreadable", path, None, "a regular file", "something else")
            elif start % self.width and not counted:
                self.findings.defect("queue-gap", path, None, f"a name that is a multiple of {self.width}", name)
            else:
                found.append((start, size, path))
        expected = None
        number = 0
        for start, size, path in found:
            self._judge(path, start, size, expected, file_size, last=path == found[-1][2])
            if size < self.width:
                continue
            expected = start + (file_size or size)
            first = number if counted else start // self.width
            number = first + size // self.width
            yield UnitSpan(first, number, path)

    def _names(self) -> list[str]:
        try:
            return self.disk.effects.listdir(self.folder, self.below)
        except StoreAccessError as error:
            self.findings.defect(
                "queue-file-unreadable", self.folder, None, "a directory that can be listed", str(error)
            )
            return []

    def _judge(self, path: str, start: int, size: int, expected: int | None, file_size: int, last: bool) -> None:
        if size == 0 and last:
            self.findings.note("empty-file", f"{path} is empty", path)
            return
        if file_size and size != file_size:
            self.findings.defect("queue-file-size", path, None, f"{file_size} bytes", f"{size} bytes")
        if expected is not None and start != expected:
            self.findings.defect("queue-gap", path, None, f"name {expected:020}", f"name {start:020}")

    def leave_out(self, offset: int) -> None:
        """Leave out leading files whose units all point before a log offset, as if expired."""
        while len(self.spans) > 1:
            head = record_offset_at(self.one(self.spans[1].first))
            if not 0 < head <= offset:
                return
            self.spans = self.spans[1:]

    @property
    def first(self) -> int:
        """Number of the first unit that has a place; 0 without files."""
        return self.spans[0].first if self.spans else 0

    @property
    def end(self) -> int:
        """Number after the last place; 0 without files."""
        return self.spans[-1].stop if self.spans else 0

    def one(self, number: int) -> bytes:
        """Return the bytes of one unit; zeros outside all files."""
        at = (number - self._cache_at) * self.width
        if not 0 <= at < len(self._cache):
            self._cache, self._cache_at, at = self.read(number, CACHED_UNITS), number, 0
        return self._cache[at : at + self.width]

    def read(self, number: int, count: int) -> bytes:
        """Return the bytes of `count` units from `number` on; zeros outside all files."""
        out = bytearray()
        end = number + count
        for at in range(self._span_of(number), len(self.spans)):
            span = self.spans[at]
            if span.first >= end:
                break
            if span.first > number:
                out += bytes((span.first - number) * self.width)
                number = span.first
            stop = min(end, span.stop)
            if stop > number:
                want = (stop - number) * self.width
                out += self._bytes(span.path, want, (number - span.first) * self.width).ljust(want, b"\0")
                number = stop
        return bytes(out) + bytes((end - number) * self.width)

    def _bytes(self, path: str, count: int, position: int) -> bytes:
        try:
            return self.disk.pread(path, self.below, count, position)
        except StoreAccessError as error:
            if path not in self.blocked:
                self.blocked.add(path)
                self.findings.defect("queue-file-unreadable", path, None, "a file that can be read", str(error))
            return b""

    def blocks(self, number: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield (number, bytes) of the parts of [number, stop) in files, without sparse holes."""
        for place in range(self._span_of(number), len(self.spans)):
            span = self.spans[place]
            if span.first >= stop:
                return
            at, end = max(number, span.first), min(stop, span.stop)
            while at < end:
                position = (at - span.first) * self.width
                data_at = position if span.path in self.blocked else self._data(span.path, position)
                if data_at is None:
                    break
                at = max(at, span.first + data_at // self.width)
                if at >= end:
                    break
                count = min(end - at, BLOCK_BYTES // self.width)
                data = self._bytes(span.path, count * self.width, (at - span.first) * self.width)
                yield at, data[: len(data) // self.width * self.width]
                at += count

    def _data(self, path: str, position: int) -> int | None:
        try:
            return self.disk.next_data(path, self.below, position)
        except StoreAccessError:
            return position  # the following read reports it

    def place(self, number: int) -> tuple[str, int | None]:
        """Return file and position of a unit, or the directory if no file has a place for it."""
        span = self.spans[self._span_of(number)] if self.spans else None
        if span is not None and span.first <= number < span.stop:
            return span.path, (number - span.first) * self.width
        return self.folder, None

    def _span_of(self, number: int) -> int:
        """Return the index of the last file that begins at or before this unit, else 0."""
        return max(0, bisect_right(self.spans, number, key=lambda span: span.first) - 1)

"""Reads many messages of one queue at once.

A batch is made from queue units alone, in a few nanoseconds a message: its number of messages and of bytes is known
before the log is touched. Reading the messages checks each of them as `get` does: a valid record with the queue and
queue offset asked for. If a unit does not point to one, the message is searched for as `get` does, and left out if
there is none.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from flintmq.format.consume_queue import POINTER, UNIT_SIZE, record_offset_at
from flintmq.format.text import java_encode
from flintmq.kernels.read import fetch
from flintmq.message import StoredMessage
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.records import RecordReader
from flintmq.store.commitlog.report import Report
from flintmq.store.dispatch.queue_positions import places
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.tabular import Tabular

CHUNK = 256  # messages checked and made at a time: they fit the processor's cache
DENSE = 4  # with pread: one read for a whole chunk if the log between its records is at most this many times as large
SPARE = 16 * 1024  # more, for each record: to read so many bytes takes as long as another read
WINDOW = 256 * 1024  # bytes read at once, if there is more than one record among them
LOOSE_BYTES = 512 * 1024  # of messages that are looked up one by one, about: all of them are in memory


class LogMaps:
    """Log files mapped on first use, for `access="map"`.

    A map lives as long as a view of it is in use. Thread: any.
    """

    def __init__(self) -> None:
        self._maps: dict[str, mmap.mmap | bytes] = {}

    def of(self, lookup: QueueLookup, file: LogFile) -> memoryview:
        """Return the bytes of a file, in a view of the caller's own; none if it disappeared."""
        found = self._maps.get(file.path)
        if found is None:
            effects = lookup.snapshot.effects
            found = b""
            with suppress(FileNotFoundError), effects.reading(file.path) as fd:
                size = min(effects.size_of(fd), file.size)
                found = effects.map_read(fd, size) if size else found
            self._maps[file.path] = found
        return memoryview(found)


class QueueBatch(Tabular):
    """Messages of one queue in order; iterate over it for StoredMessage objects, repeatedly.

    Attributes:
        topic, queue_id, offset: where the batch begins.
        next_offset: where the next batch begins; equal to `offset` at the end of the queue.
        bytes: size of all its records in the log.

    Iterating may raise StoreAccessError: a file of the log may not be read.

    Thread: any; an iterator belongs to one thread.
    """

    def __init__(
        self,
        lookup: QueueLookup,
        name: QueueName,
        offset: int,
        units: memoryview,
        count: int,
        size: int,
        maps: LogMaps | None,
        report: Report | None = None,
    ) -> None:
        """Use StoreView.read. `units` holds `count` units from queue offset `offset` on."""
        self.topic, self.queue_id, self.offset = name.topic, name.queue_id, offset
        self.next_offset, self.bytes = offset + count, size
        self._lookup, self._name, self._units, self._maps = lookup, name, units, maps
        self._report = report

    def __len__(self) -> int:
        """Return the number of queue offsets; of as many messages, unless some cannot be read."""
        return self.next_offset - self.offset

    def __repr__(self) -> str:
        return f"QueueBatch({self.topic!r}, {self.queue_id}, {self.offset} to {self.next_offset}, {self.bytes} bytes)"

    def __iter__(self) -> Iterator[StoredMessage]:
        return chain.from_iterable(self._chunks())  # no Python code runs between two messages of a chunk

    def _chunks(self) -> Iterator[list[StoredMessage]]:
        topic, positions, count = java_encode(self.topic), array("q", bytes(8 * CHUNK)), len(self)
        at = 0
        with RecordReader(self._lookup.snapshot.log) as records:
            while at < count:
                stop = min(at + CHUNK, count)
                data, base, end = self._window(at, stop, records)
                good, _ = fetch.check(
                    self._units,
                    at,
                    stop - at,
                    data,
                    base,
                    end,
                    self._lookup.snapshot.log.max_record,
                    topic,
                    self.queue_id,
                    self.offset + at,
                    positions,
                )
                assert 0 <= good <= stop - at
                messages = fetch.take(StoredMessage, data, positions, good)
                for message in messages if self._maps is None else ():
                    _ = message.raw  # copied: the next window is read over this one
                yield messages
                at += good
                if not good:
                    found = self._lookup.next_message(self._name, self.offset + at, self.next_offset)
                    if self._report is not None:
                        stop_at = self.next_offset if found is None else found[0]
                        self._lookup.report_lost(self._name, self.offset + at, stop_at, self._report)
                    if found is None:
                        return
                    yield [found[1]]
                    at = found[0] + 1 - self.offset

    def _window(self, at: int, stop: int, records: RecordReader) -> tuple[bytes | memoryview, int, int]:
        """Return bytes of one log file with the record of unit `at` and perhaps the next ones.

        The result is (bytes, log offset of the first byte, position in them of the end of the file).
        """
        low = record_offset_at(self._units, at)
        file = self._lookup.snapshot.log.find(low)
        if file is None:
            return b"", 0, 0
        if self._maps is not None:
            return self._maps.of(self._lookup, file), file.start, file.size
        size, end = 0, file.start + file.size
        count, _ = fetch.run(self._units, at, stop - at, low, end)
        while count and not size:
            size = self._span(at, count, low, end)
            count //= 2
        with suppress(FileNotFoundError):
            return records.file_bytes(file, low - file.start, size), low, end - low
        return b"", 0, 0

    def _span(self, at: int, count: int, low: int, end: int) -> int:
        """Return the bytes from the first record of `count` units to the last, all in [low, end).

        0 if they are too many to be read at once, and more than one record.
        """
        _, wanted = fetch.run(self._units, at, count, low, end)
        last, size = POINTER.unpack_from(self._units, UNIT_SIZE * (at + count - 1))
        span: int = last + size - low
        return span if count == 1 or span <= min(DENSE * wanted + SPARE * count, WINDOW) else 0


class LooseBatch(QueueBatch):
    """Messages without a run of units: of a batch queue, not dispatched yet, or in a hole."""

    def __init__(
        self, lookup: QueueLookup, name: QueueName, offset: int, stop: int, report: Report | None = None
    ) -> None:
        """Look up every message in [offset, stop), or the first of them."""
        self._messages: list[StoredMessage] = []
        at, size = offset, 0
        while size < LOOSE_BYTES:
            found = lookup.next_message(name, at, stop)
            if report is not None:
                lookup.report_lost(name, at, stop if found is None else found[0], report)
            if found is None:
                at = max(at, stop)
                break
            at, message = found
            self._messages.append(message)
            size += message.size
            own = (place for place in places(message) if (place.topic, place.queue_id) == name and place.offset <= at)
            at = max((place.offset + place.messages for place in own), default=at + 1)
        super().__init__(lookup, name, offset, memoryview(b""), at - offset, size, None)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._messages)


def read_batch(
    lookup: QueueLookup, name: QueueName, offset: int, count: int, maps: LogMaps | None, report: Report | None = None
) -> QueueBatch:
    """Read up to `count` messages of a queue from an offset on; see StoreView.read."""
    bounds = lookup.bounds(name)
    offset, most = max(offset, bounds.min), offset + count
    stop = min(offset + count, bounds.max)
    if offset >= stop:
        if report is not None:  # the last messages of the queue may be the lost ones
            lookup.report_lost(name, offset, most, report)
        return QueueBatch(lookup, name, offset, memoryview(b""), 0, 0, maps)
    log, end = lookup.snapshot.log, lookup.snapshot.end
    units = lookup.kept_units(name, offset, stop - offset)
    found, size = fetch.run(units, 0, len(units) // UNIT_SIZE, log.min_offset, end)
    if found < stop - offset:  # of two blocks, or not written when the block was read
        units = lookup.plain_units(name, offset, stop - offset)
        found, size = fetch.run(units, 0, len(units) // UNIT_SIZE, log.min_offset, end)
    if found:
        return QueueBatch(lookup, name, offset, units, found, size, maps, report)
    return LooseBatch(lookup, name, offset, stop, report)

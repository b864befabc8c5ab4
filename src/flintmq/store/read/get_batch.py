"""Returns the records of one queue in place, for callers that copy them, as Arrow columns.

Runs of plain units are checked by the kernel of a view's batches, without an object for each record. Units that do not
pass (light and batch queues, whose records name another position; holes; expired ones) are read one by one as `get`
does.
"""

from __future__ import annotations

from array import array

from flintmq.format.consume_queue import UNIT, UNIT_SIZE, Unit, record_offset_at
from flintmq.format.record_view import size_at
from flintmq.kernels.read import fetch
from flintmq.message import GetMessageStatus
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.walk import Piece
from flintmq.store.consumequeue.live_queue import AnyQueue, RunningQueue
from flintmq.store.read.answer import Answer
from flintmq.store.read.get import LiveReader

AT_ONCE = 1024  # units whose records are counted at a time: the granularity of `max_bytes`


class PieceReader:
    """Collects the records of one answer. Use `take` once, then `pieces`, then `release`.

    `max_messages`, `max_bytes`: where to stop; the first record is always taken. Thread: one.

    `pieces`: the records, in queue order, each piece of one log file, which stays mapped until `release`.
    """

    def __init__(
        self, reader: LiveReader, topic: bytes, queue_id: int, offset: int, max_messages: int, max_bytes: int
    ) -> None:
        self.files, self.record = reader.files, reader.record
        self.topic, self.queue_id, self.offset = topic, queue_id, offset
        self.left, self.bytes_left = max(max_messages, 1), max_bytes
        self.pieces: list[Piece] = []
        self.rows = 0
        self._held: list[MappedFile] = []

    def take(self, queue: AnyQueue) -> Answer:
        """Collect records; the callback of LiveReader.answer."""
        following = self._plain(queue) if isinstance(queue, RunningQueue) else self._each(queue)
        if following == self.offset:
            return GetMessageStatus.OFFSET_FOUND_NULL, [], queue.next_file(self.offset)
        return GetMessageStatus.FOUND if self.rows else GetMessageStatus.MESSAGE_WAS_REMOVING, [], following

    def release(self) -> None:
        self.pieces.clear()
        while self._held:
            self._held.pop().release()

    def _plain(self, queue: RunningQueue) -> int:
        """Take units of one queue file; return the offset after the last one examined."""
        units = memoryview(queue.unit_bytes(self.offset, self.left))
        count, at = len(units) // UNIT_SIZE, 0
        log_end = self.files.last.end if self.files.last is not None else 0
        while at < count:
            found, size = fetch.run(units, at, min(AT_ONCE, count - at), self.files.min_offset, log_end)
            while size > self.bytes_left and (found > 1 or self.rows):
                found //= 2
                _, size = fetch.run(units, at, found, self.files.min_offset, log_end)
                if not found:
                    return self.offset + at
            good = self._checked(units, at, found) if found else 0
            if not good:
                unit = UNIT.unpack(units, UNIT_SIZE * at)
                if not self._one(unit, self.offset + at):
                    return self.offset + at
                good = 1
            at += good
        return self.offset + at

    def _checked(self, units: memoryview, at: int, count: int) -> int:
        """Take the leading units with records of this queue in one log file; return their number."""
        start = record_offset_at(units, at)
        file = self._hold(start)
        if file is None:
            return 0
        positions = memoryview(array("q", bytes(8 * count)))
        own = self.topic, self.queue_id, self.offset + at
        good, _ = fetch.check(
            units, at, count, file.view[: file.committed], file.start, file.size, file.size, *own, positions
        )
        if good:
            _, size = fetch.run(units, at, good, 0, 1 << 62)
            self._add(file, positions, good, size)
        return good

    def _each(self, queue: AnyQueue) -> int:
        following = self.offset
        for unit, offset, messages in queue.entries(self.offset, self.left):
            if not self._one(unit, offset):
                break
            following = offset + messages
        return following

    def _one(self, unit: Unit, offset: int) -> bool:
        """Take the record of one unit if it is valid; return False if it exceeds this answer."""
        if self.rows and unit.size > self.bytes_left:
            return False
        message = self.record(unit, self.topic, self.queue_id, offset)
        file = self._hold(message.physical_offset) if message is not None else None
        if message is not None and file is not None:
            self._add(file, memoryview(array("q", [message.physical_offset - file.start])), 1, message.size)
        return True

    def _hold(self, offset: int) -> MappedFile | None:
        """Return the log file of an offset, kept mapped; None if it is gone."""
        if self._held and self._held[-1].start <= offset < self._held[-1].start + self._held[-1].size:
            return self._held[-1]
        file = self.files.find(offset)
        if file is None or not file.hold():
            return None
        self._held.append(file)
        return file

    def _add(self, file: MappedFile, positions: memoryview, count: int, size: int) -> None:
        assert self._held and file is self._held[-1]  # it stays mapped for as long as the piece is used
        own, last = LogFile(file.path, file.start, file.size), positions[count - 1]
        end = last + size_at(file.view, last)
        self.pieces.append(Piece(file.view, file.start, positions, count, end, own))
        self.rows += count
        self.bytes_left -= size

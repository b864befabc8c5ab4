"""Compares what the master sends with what is here, before anything is stored.

Nothing on the line says whether two logs have the same past. But a report may be lower than the end of our log: the
master then sends our last record once more. A record holds its offset, its queue offset and its store time, so that the
records at one place of two pasts differ in it. A master that sends heartbeats instead has nothing there, and its last
file says which of the reasons of `judge_silence` it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from flintmq.errors import DivergedError, OffsetGoneError, ReplicationError, UsageError
from flintmq.format.record import MAGIC_V1, MAGIC_V2
from flintmq.format.record_view import QUEUE, STORE_TIME_END_MAX, magic_at, store_time_at, texts_at
from flintmq.kernels.read import walk as kernel
from flintmq.storage.files.libc_memory import zeros

NEW_PLACE: Final = "follow it into a new directory"
MAX_ROWS: Final = 4096


class Overlap:
    """The part of the log that the master sends although it is here.

    `read`: (log offset, size) -> our bytes.

    `at`: log offset up to which both logs agree.
    """

    def __init__(self, begin: int, end: int, read: Callable[[int, int], bytes]) -> None:
        self.at, self.end, self._begin, self._read = begin, end, begin, read
        self._theirs = b""  # the first bytes of their record, for its store time

    @property
    def agreed(self) -> bool:
        """True if all of it came, and was equal."""
        return self.at >= self.end

    def compare(self, offset: int, data: memoryview) -> int:
        """Compare bytes of the master's log; return how many of them are of the overlap."""
        assert offset == self.at
        size = min(len(data), self.end - offset)
        theirs, ours = bytes(data[:size]), self._read(offset, size)
        if len(self._theirs) < STORE_TIME_END_MAX:
            self._theirs = (self._theirs + theirs)[:STORE_TIME_END_MAX]
        if theirs != ours:
            differing = next(at for at in range(size) if theirs[at] != ours[at])
            raise DivergedError("diverged", self._difference(offset + differing))
        self.at += size
        return size

    def _difference(self, at: int) -> str:
        record = 0 if self._begin == 1 else self._begin  # a report cannot ask for 0
        lead = self._begin - record
        try:
            own = self._read(record, min(STORE_TIME_END_MAX, self.end - record))
        except UsageError:  # retention deleted it since it was compared
            own = b""
        theirs = own[:lead] + self._theirs
        times = f"store time here {_time(own)}, there {_time(theirs)}"
        return f"the master's log differs from ours at offset {at}, compared from {record} on ({times}); {NEW_PLACE}"


def _time(record: bytes) -> str:
    whole = len(record) >= STORE_TIME_END_MAX and magic_at(record) in (MAGIC_V1, MAGIC_V2)
    return str(store_time_at(record)) if whole else "unknown"


def judge_silence(last_file: int, end: int) -> None:
    """Refuse a master that has nothing where our last record is."""
    if last_file > end:
        raise OffsetGoneError(
            "gone",
            f"the master has deleted what follows our log, which ends at offset {end}: its last file begins at "
            f"{last_file}; {NEW_PLACE}",
        )
    if last_file < end:
        raise DivergedError(
            "behind",
            f"the master's log does not reach our last record, which ends at offset {end}; its last file begins at "
            f"{last_file}. It may have lost what was not on its disk; {NEW_PLACE}",
        )


class QueueGapCheck:
    """Checks the first records after a gap, where no byte is on both sides.

    So it is if our log ends with a file, and the master's log begins with the next.

        first record of a queue       queue known here            queue not known here
        the offset that is next       right                       -
        0                             its topic may have been     a new queue
                                      deleted and made again
        another                       another past                another past, if our log begins at 0 and so has all
                                                                  queues; else the begin of the queue may have expired

    What may be so is another past all the same if the record was stored before our last one: a clock that was set back
    alone proves nothing, and neither does the queue's offset.

    Args:
        last_time: store time in ms of our last record.
    """

    def __init__(
        self,
        expected: Mapping[tuple[bytes, int], int],
        base: int,
        file_size: int,
        *,
        whole: bool = False,
        last_time: int = 0,
    ) -> None:
        self._expected, self._base, self._file_size = expected, base, file_size
        self._whole, self._last_time = whole, last_time

    def check(self, data: memoryview) -> bool:
        """Check whether the first record of each queue can be the next one of its queue.

        Returns:
            False if they hold no whole record.
        """
        positions = zeros("q", MAX_ROWS)
        size = min(len(data), self._file_size)
        count, stop, reason, _ = kernel.walk(
            data, 0, size, self._file_size, size, self._base, 0, self._file_size, kernel.CHECK_CRC, positions
        )
        if not count and reason not in (kernel.MORE, kernel.END, kernel.BLANK):
            text = f"the master's bytes at log offset {self._base + stop} are no record ({kernel.REASONS[reason]})"
            raise ReplicationError("damaged", text)
        seen = set()
        for at in positions[:count]:
            topic_at, topic_end, _ = texts_at(data, at)
            queue_id, queue_offset = QUEUE.unpack_from(data, at)
            queue = (bytes(data[topic_at:topic_end]), queue_id)
            due = self._expected.get(queue, 0)
            if queue in seen or queue_offset == due:
                seen.add(queue)
                continue
            seen.add(queue)
            time = store_time_at(data, at)
            may_be = queue_offset == 0 if queue in self._expected else not self._whole
            if not may_be or time < self._last_time:
                raise DivergedError(
                    "diverged",
                    f"the master's first record of a queue after ours, at log offset {self._base + at}, has queue "
                    f"offset {queue_offset} where {due} is next (store time there {time}, of our last record "
                    f"{self._last_time}); {NEW_PLACE}",
                )
        return count > 0

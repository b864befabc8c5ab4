"""Hands rows that were put as columns to dispatch, so that it need not read their records.

The put side adds a note for the rows it wrote, dispatch takes the notes in log order. A note that does not begin at
dispatch's position is dropped, and new notes are dropped if dispatch is late by many: it then reads the records like
all others. RocketMQ has no counterpart.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass

from flintmq.kernels.write.append_columns import Columns

MOST = 16  # notes; each takes a few bytes for each row of its record batch, and replaces a few MiB of log


@dataclass(frozen=True, slots=True)
class HandedRows:
    """Rows of one record batch that are contiguous in one log file."""

    begin: int  # begin, end: log offsets of the first record, and after the last one
    end: int
    topic: bytes
    columns: Columns
    first: int
    last: int
    store_time: int  # ms
    queue_ids: list[int]
    next_offsets: array[int]  # by queue id, the queue offset of its first row here


class HandedOver:
    """The notes about rows that dispatch has not taken yet.

    Thread: `add` under the put lock; the rest dispatch only. Appending to and popping from a deque is atomic.
    """

    def __init__(self) -> None:
        self._notes: deque[HandedRows] = deque()

    def add(self, rows: HandedRows) -> None:
        assert rows.begin < rows.end and rows.first < rows.last
        assert not self._notes or self._notes[-1].end <= rows.begin  # `take` looks at the oldest note only
        if len(self._notes) < MOST:
            self._notes.append(rows)

    def take(self, position: int, end: int) -> HandedRows | None:
        """Take the rows whose records begin at log offset `position` and end at `end` at most.

        None if there is no such note.
        """
        while self._notes and self._notes[0].begin <= position:
            rows = self._notes.popleft()
            if rows.begin == position and rows.end <= end:
                return rows
        return None

    def before(self, end: int) -> int:
        """Return the log offset up to which records must be read; at most `end`."""
        return min(end, self._notes[0].begin) if self._notes else end

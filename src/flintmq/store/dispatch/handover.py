"""Rows that were put as columns, handed to dispatch, so that it need not read their records again.

The put side notes what it wrote, dispatch takes the notes in log order. A note that does not fit where dispatch stands
is dropped, and so are notes when dispatch is far behind: it then reads the records as it reads all others.
Source: none; RocketMQ has nothing like it.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass

from flintmq.kernels.append_columns import Columns

MOST = 16  # notes; each has a few bytes for each row of its record batch, and stands for a few MiB of log


@dataclass(frozen=True, slots=True)
class HandedRows:
    """Rows of one record batch that stand one behind the other in one log file.

    Attributes:
        begin, end: log offsets of the first record, and behind the last one.
        topic: raw.
        columns, first, last: the rows [first, last).
        store_time: ms.
        queue_ids: those that come in the batch.
        next_offsets: by queue id, the queue offset that its first row here got.
    """

    begin: int
    end: int
    topic: bytes
    columns: Columns
    first: int
    last: int
    store_time: int
    queue_ids: list[int]
    next_offsets: array[int]


class HandedOver:
    """The notes.

    Thread: `add` under the put lock; the rest dispatch only.
    """

    def __init__(self) -> None:
        self._notes: deque[HandedRows] = deque()

    def add(self, rows: HandedRows) -> None:
        """These rows stand in the log."""
        if len(self._notes) < MOST:
            self._notes.append(rows)

    def take(self, position: int, end: int) -> HandedRows | None:
        """The rows whose records begin at log offset `position` and end at `end` at most, if there are any."""
        while self._notes and self._notes[0].begin <= position:
            rows = self._notes.popleft()
            if rows.begin == position and rows.end <= end:
                return rows
        return None

    def before(self, end: int) -> int:
        """Log offset up to which records have to be read; at most `end`."""
        return min(end, self._notes[0].begin) if self._notes else end

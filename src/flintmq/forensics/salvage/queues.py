"""Maps old queue offsets to new ones: each new queue begins at 0 and has no holes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Emit = Callable[[dict[str, Any]], None]
"""Writes one line of salvage.jsonl."""


@dataclass
class QueueMap:
    """The old and new offsets of one queue, as runs."""

    topic: str
    queue_id: int
    emit: Emit  # takes a line for every run and for every range of old offsets without a message
    next: int = 0
    _old: list[int] = field(default_factory=list)  # first old offset of each run since the queue was begun, ascending
    _new: list[int] = field(default_factory=list)
    _begin: tuple[int, int] | None = None  # (old, new) at the beginning of the current run
    _end: int = -1  # old offset after the current run
    _highest: int = -1  # old offset after all runs since the queue was begun

    def give(self, old: int, messages: int = 1) -> int:
        """Return the new offset for an old one, and reserve as many offsets as there are messages."""
        new = self.next
        self.next += messages
        if self._begin is None or old != self._end:
            self.finish()
            self._start(old, new)
        self._end = old + messages
        self._highest = max(self._highest, self._end)
        return new

    def _start(self, old: int, new: int) -> None:
        self._begin = old, new
        if old == 0 and self._old:  # the queue was deleted and begun again: from here on offsets are of the new queue
            self._old, self._new, self._highest = [], [], -1
        if old > self._highest >= 0:
            self._emit_change("missing", old=self._highest, count=old - self._highest)
        if old >= self._highest:  # else a repeat: the first message with an offset counts
            self._old.append(old)
            self._new.append(new)

    def finish(self) -> None:
        if self._begin is not None:
            old, new = self._begin
            assert self._end > old  # a run has a message
            self._emit_change("queue", old=old, new=new, count=self._end - old)
            self._begin = None

    def _emit_change(self, kind: str, **numbers: int) -> None:
        self.emit({"kind": kind, "topic": self.topic, "queue_id": self.queue_id, **numbers})

    def new_of(self, old: int) -> int | None:
        """Return the new offset of an old one; None if its message was lost or never existed."""
        number = bisect_right(self._old, old) - 1
        if number < 0:
            return None
        new = self._new[number] + old - self._old[number]
        return new if new < self._run_end(number) else None

    def next_of(self, old: int) -> int:
        """Return where a consumer continues from an old offset: at the first message it lacks."""
        number = bisect_right(self._old, old) - 1
        if number < 0:
            return self._new[0] if self._new else 0
        return min(self._new[number] + old - self._old[number], self._run_end(number))

    def _run_end(self, number: int) -> int:
        """Return the new offset after a run. Repeats are between runs and belong to none."""
        return self._new[number + 1] if number + 1 < len(self._new) else self.next


class QueueMaps:
    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.maps: dict[tuple[str, int], QueueMap] = {}

    def of(self, topic: str, queue_id: int) -> QueueMap:
        found = self.maps.get((topic, queue_id))
        if found is None:
            found = self.maps[topic, queue_id] = QueueMap(topic, queue_id, self.emit)
        return found

    def next_of(self, topic: str, queue_id: int, old: int) -> int:
        """Return QueueMap.next_of of a queue; 0 in a queue that kept no message."""
        found = self.maps.get((topic, queue_id))
        return found.next_of(old) if found is not None and old >= 0 else min(old, 0)

    def finish(self) -> None:
        for found in self.maps.values():
            found.finish()

"""The context for checking queues, index and timer: log bounds, damage, last stop."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from flintmq.forensics.verify.findings import Findings

MOST_RANGES = 100_000


class Ranges:
    """Ranges of log offsets in ascending order; past 100,000 the last one is extended."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        if self._ends and (start <= self._ends[-1] or len(self._ends) >= MOST_RANGES):
            self._ends[-1] = max(self._ends[-1], end)
        else:
            self._starts.append(start)
            self._ends.append(end)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]


@dataclass
class Ground:
    """The log's bounds, damage and last stop, by which units and items are judged.

    `lost`: ranges of the log without an intact record, added as the walk meets them.
    """

    findings: Findings
    log_begin: int = 0  # log offset of the first byte; units that point before it have expired
    replay_from: int | None = None  # log offset from which the next start dispatches again, None after a clean stop
    live: bool = False  # whether a process is writing the store now
    lost: Ranges = field(default_factory=Ranges)

    def is_pending(self, offset: int) -> bool:
        """Return whether a record at this log offset may still wait for its dispatch."""
        return self.live or (self.replay_from is not None and offset >= self.replay_from)

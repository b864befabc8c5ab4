"""The value of `flintmq.mark`: how far log, queues and index are on disk.

Two places hold it: what a start read (`StopFacts.mark`), and what the file says by now (`StoreFiles.mark`).
"""

from __future__ import annotations

from typing import NamedTuple

from flintmq.format.flintmq_mark import Indexed


class DurableMark(NamedTuple):
    """Log offsets up to which everything is on disk."""

    flushed: int | None = None  # log offset below which the log is; None if no mark says it
    dispatched: int = -1  # log offset below which all queue units are; -1 if that is not known
    indexed: Indexed | None = None  # the same of the key index; None if that is not known

    def with_units_below(self, position: int) -> DurableMark:
        """Return the mark that covers queue units below this log offset at most."""
        return self._replace(dispatched=min(position, self.dispatched))

    def without_index(self) -> DurableMark:
        return self._replace(indexed=None)

    def of_log_alone(self) -> DurableMark:
        return DurableMark(self.flushed)


UNKNOWN = DurableMark()
"""Nothing is said."""

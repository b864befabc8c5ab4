"""How far log, queues and index are on disk: the value that `flintmq.mark` keeps between two starts.

Two places hold it: what a start read (`StopFacts.mark`), and what the file says by now (`StoreFiles.mark`).
"""

from __future__ import annotations

from typing import NamedTuple

from flintmq.format.flintmq_mark import Indexed


class Mark(NamedTuple):
    """What is on disk.

    Attributes:
        flushed: log offset below which the log is; None if no mark says it.
        dispatched: log offset below which all queue units are; -1 if that is not known.
        indexed: the same of the key index; None if that is not known.
    """

    flushed: int | None = None
    dispatched: int = -1
    indexed: Indexed | None = None

    def with_units_below(self, position: int) -> Mark:
        """Return the mark that says no more than this of queue units: they are on disk below a log offset."""
        return self._replace(dispatched=min(position, self.dispatched))

    def without_index(self) -> Mark:
        """Return the mark that says nothing of the index."""
        return self._replace(indexed=None)

    def of_log_alone(self) -> Mark:
        """Return the mark that says nothing of queues and index."""
        return Mark(self.flushed)


UNKNOWN = Mark()
"""Nothing is said."""

"""The queues that a stream reads, as the store has them now. Lives in the planner, as long as the query."""

from __future__ import annotations

import os

from flintmq.kernels.select import ANY_QUEUE
from flintmq.message import StoredMessage
from flintmq.spark.options import ReadOptions
from flintmq.spark.stream.places import Places, Segments
from flintmq.store import geometry
from flintmq.store.log_files import LogFiles
from flintmq.store.lookup import QueueLookup
from flintmq.store.places import LMQ_PREFIX
from flintmq.store.queues import QueueName
from flintmq.store.snapshot import Snapshot


class StreamQueues:
    """What a stream may read of a store.

    Args:
        options: which store, and which of its topics and queues.

    Attributes:
        bounds: of every wanted queue that has or had messages: its least queue offset and the one behind the largest.

    Raises:
        NotAStoreError, UnsupportedFormatError: there is no store that can be read.
        StoreAccessError: (also of every method) a file may not be read.

    Thread: one at a time.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.root = geometry.open_root(os.path.abspath(options.path), options.config)
        self.options = options
        self._lookup = QueueLookup(Snapshot(self.root, options.config))
        self._light: dict[QueueName, bool] = {}
        self._look()

    def refresh(self) -> None:
        """Look at the store anew. Costs little where neither the log's end nor its first file has changed."""
        before = self._lookup.snapshot
        now = Snapshot(self.root, self.options.config, before)
        if (now.end, now.log.min_offset) != (before.end, before.log.min_offset):
            self._lookup = QueueLookup(now, self._lookup)
            self._look()

    def _look(self) -> None:
        lookup = self._lookup
        self._segments = Segments(lookup)
        self._places: dict[QueueName, Places] = {}
        found = ((name, lookup.bounds(name)) for name in sorted(lookup.names()) if self.wants(name))
        self.bounds = {name: (low, high) for name, (low, high, _) in found if high and not self.is_light(name)}

    @property
    def log(self) -> LogFiles:
        """The files of the log."""
        return self._lookup.snapshot.log

    @property
    def end(self) -> int:
        """Log offset behind the last record."""
        return self._lookup.snapshot.end

    def wants(self, name: QueueName) -> bool:
        """Whether the options ask for this queue."""
        rules = self.options.predicate.rules(name.topic)
        return rules is not None and any(queue in (name.queue_id, ANY_QUEUE) for queue, _, _ in rules)

    def is_light(self, name: QueueName) -> bool:
        """Whether it is a light queue, whose records are of another topic."""
        if name.topic.startswith(LMQ_PREFIX):
            return True
        if name not in self._light:
            low, high, _ = self._lookup.bounds(name)
            found = self._lookup.next_message(name, low, high)
            if found is None:
                return False
            self._light[name] = found[1].topic != name.topic
        return self._light[name]

    def of_directories(self) -> bool:
        """Whether the store has queue files at all, so that a queue without any must have been removed."""
        return any(os.path.isdir(os.path.join(self.root, kind)) for kind in (geometry.QUEUES, geometry.BATCH_QUEUES))

    def places(self, name: QueueName) -> Places:
        """Where the queue's messages stand."""
        if name not in self._places:
            self._places[name] = Places(self._lookup, name, self._segments)
        return self._places[name]

    def message(self, name: QueueName, offset: int) -> StoredMessage | None:
        """The record at an offset, checked in full; None if there is none."""
        return self._lookup.message(name, offset)

    def first_message(self, name: QueueName, low: int, high: int) -> tuple[int, StoredMessage] | None:
        """The first offset in [low, high) at which a record can be read, and the record."""
        return self._lookup.next_message(name, low, high)

    def at_time(self, name: QueueName, ms: int) -> int:
        """The first offset whose message was stored at this time or later; the queue's end if none was."""
        return self._lookup.offset_at_time(name, ms)

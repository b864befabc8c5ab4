"""The queues that a stream reads, as the store has them now. Lives in the planner, as long as the query.

While somebody writes the store, a message is there when its queue has its unit, as for RocketMQ's consumers: what is
not dispatched may not be on disk yet. Of a store at rest the end of the log belongs to it, dispatched or not.
"""

from __future__ import annotations

import os
import time

from flintmq.kernels.select import ANY_QUEUE
from flintmq.message import StoredMessage
from flintmq.spark.options import ReadOptions
from flintmq.spark.stream.places import Places, Segments
from flintmq.storage.where import absolute, effects_for
from flintmq.store import geometry
from flintmq.store.log_files import LogFiles
from flintmq.store.lookup import Bounds, QueueLookup
from flintmq.store.places import LMQ_PREFIX
from flintmq.store.queues import QueueName
from flintmq.store.snapshot import Snapshot

QUIET_SECONDS = 1.0  # between looks at the queues while nothing happens
STILL_SECONDS = 0.2  # between two looks that see the same, for the queues to count as still
PART = 10  # a look at the queues may take one part in so many of the time


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
        self._effects = effects_for(options.path, options.config.s3)
        self.root = geometry.open_root(absolute(options.path), options.config, self._effects)
        self.options = options
        self._light: dict[QueueName, bool] = {}
        self._still = False
        self._look(QueueLookup(Snapshot(self.root, options.config, None, self._effects)))

    def refresh(self, force: bool = False) -> None:
        """Look at the store anew: at the log, and where that may have brought something, at the queues.

        Units come a moment after their records. So queues are looked at for a while after the log has grown, now and
        then in any case, and never so often that it takes more than a part of the time.
        """
        before, now = (
            self._lookup.snapshot,
            Snapshot(self.root, self.options.config, self._lookup.snapshot, self._effects),
        )
        grown = (now.end, now.log.min_offset) != (before.end, before.log.min_offset)
        idle = time.monotonic() - self._looked_at
        quiet = QUIET_SECONDS if self._still else 0.0
        if force or grown or idle > max(quiet, PART * self._cost):
            bounds = self.bounds
            self._look(QueueLookup(now, self._lookup))
            self._still = not grown and bounds == self.bounds and idle > STILL_SECONDS

    def settle(self, seconds: float) -> None:
        """Wait until all of the log that is there now is dispatched, but not longer than so many seconds."""
        end, until = self.end, time.monotonic() + seconds
        while self._dispatched < end and self._live and time.monotonic() < until:
            time.sleep(0.01)
            self.refresh(force=True)
        if self._live:  # the last unit of the log may stand there before others
            time.sleep(0.02)
            self.refresh(force=True)

    def _look(self, lookup: QueueLookup) -> None:
        began = time.monotonic()
        self._lookup = lookup
        self._live = lookup.snapshot.facts.live and bool(lookup.file_names())  # without files the log has to do
        self._segments = Segments(lookup)
        self._places: dict[QueueName, Places] = {}
        names = lookup.file_names() if self._live else lookup.names()
        found = {name: self._bounds(name) for name in sorted(names) if self.wants(name)}
        self.bounds = {name: (low, high) for name, (low, high, _) in found.items() if high and self._reads(name)}
        self._dispatched = max((end for _, _, end in found.values()), default=0)
        self._looked_at = time.monotonic()
        self._cost = self._looked_at - began
        self._still = False

    def _bounds(self, name: QueueName) -> Bounds:
        return self._lookup.file_bounds(name) if self._live else self._lookup.bounds(name)

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

    def _reads(self, name: QueueName) -> bool:
        """Whether the stream has this queue: a light one, whose records are rows already, only if it is named."""
        return name.topic in (self.options.predicate.named_topics or ()) or not self.is_light(name)

    def is_light(self, name: QueueName) -> bool:
        """Whether it is a light queue, whose records are of another topic."""
        if name.topic.startswith(LMQ_PREFIX):
            return True
        if name not in self._light:
            low, high, _ = self._bounds(name)
            found = self._lookup.next_message(name, low, high)
            if found is None:
                return False
            self._light[name] = found[1].topic != name.topic
        return self._light[name]

    def of_directories(self) -> bool:
        """Whether the store has queue files at all, so that a queue without any must have been removed."""
        return any(
            self._effects.is_dir(os.path.join(self.root, kind)) for kind in (geometry.QUEUES, geometry.BATCH_QUEUES)
        )

    def places(self, name: QueueName) -> Places:
        """Where the queue's messages stand."""
        if name not in self._places:
            self._places[name] = Places(self._lookup, name, None if self._live else self._segments)
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

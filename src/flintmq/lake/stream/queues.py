"""Follows the queues that a stream reads. Lives in the planner, as long as the query.

While a writer runs, a message exists once its queue has its unit, as for RocketMQ's consumers: a record that is not
dispatched may not be on disk yet. In a store at rest every record of the log counts, dispatched or not.

A store may have 10,000 queues of which ten have something new. Every unit comes from a record of the log, so the log
shows which: the records added since the last refresh are walked, and the queues of these records are checked until
they have their units. Times of files are of no use, since the system changes those of mapped files when it likes.
Besides, a few other queues are checked in each refresh, in turn, so that a deleted queue is noticed. A store that was
replaced, or that has grown by more than a walk is worth, is checked as a whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from flintmq.kernels.read.select import ANY_QUEUE
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.offset_index import Places, Segments
from flintmq.message import StoredMessage
from flintmq.storage.files.store_url import absolute
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.dispatch.dispatcher import DispatchRules
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName, queue_names
from flintmq.store.read.log_map import LogMap
from flintmq.store.read.queue_lookup import Bounds, QueueLookup

QUIET_SECONDS = 1.0  # between checks of queues while nothing happens
IN_TURN = 32  # queues that each refresh checks although nothing new is known of them
WALK_LEAST = 8 << 20  # bytes of log up to which a walk is always preferred to checking all queues
WALK_BYTES_A_QUEUE = 128 << 10  # approximate bytes that a walk reads in the time of checking one queue


class StreamQueues:
    """The queues that a stream may read, with their bounds.

    Thread: one at a time.

    Attributes:
        bounds: of every wanted queue that has or had messages: its least queue offset and the one after the largest.
            The least is that of the last check: `look_at` updates it.
        highs: only the offset after the largest, of the same queues.
        ends: of each of them, a log offset at or after which none of its records begins.
    """

    def __init__(self, options: ReadOptions) -> None:
        now = Snapshot.open(absolute(options.path), options.config)
        self.root, self._effects = now.root, now.effects
        self.options = options
        self._light: dict[QueueName, bool] = {}
        self._topics: dict[str, list[tuple[int, int, int]] | None] = {}  # rules of the options for a topic
        self._places: dict[QueueName, Places] = {}
        self._look_at_all(now, None)

    def refresh(self, force: bool = False, also: Iterable[QueueName] = ()) -> None:
        """Read the growth of the log, and check the queues that it may concern.

        `force`: check some queues although the log has not grown and no unit is awaited.
        """
        before = self._lookup.snapshot
        now = before.again()
        idle = time.monotonic() - self._looked_at
        changed = (now.end, now.log.min_offset) != (before.end, before.log.min_offset)
        if not (force or self._awaited or changed or idle > QUIET_SECONDS):
            return
        far = max(WALK_LEAST, len(self._plain) * WALK_BYTES_A_QUEUE)
        if not self._plain or not self._goes_on(before, now) or now.end - self._walked > far:
            self._look_at_all(now, self._lookup)
            return
        tail = set() if self._live else {name for name in self._lookup.tail_names() if self.wants(name)}
        self._take(QueueLookup(now, self._lookup, frozenset(self._plain)))
        if self._live and tail:  # a writer started: wait for the units of records that were not dispatched
            self._awaited |= tail
            self._heights |= {name: self.bounds[name][1] for name in tail if name in self.bounds}
        news = self._news()
        self._look_at({*news, *self._awaited, *self._in_turn(), *also})
        self._awaited |= news
        self._drop_arrived()

    def look_at(self, names: Iterable[QueueName]) -> None:
        """Update the bounds of these queues, unless that was done since the log's begin changed."""
        self._look_at({name for name in names if self._begins.get(name) != self.log.min_offset})

    @staticmethod
    def _goes_on(before: Snapshot, now: Snapshot) -> bool:
        """Return whether the log is the same one as before, and at least as long."""
        last = before.log_end.last
        if last is None or last < now.log.min_offset:
            return now.end >= before.end
        one, other = before.record(last), now.record(last)
        return one is not None and other is not None and one.store_timestamp == other.store_timestamp

    def _take(self, lookup: QueueLookup) -> None:
        self._lookup = lookup
        self._live = lookup.snapshot.facts.live and lookup.has_files  # without queue files the log is read
        self._segments = Segments(lookup)
        self._places = {}
        self._looked_at = time.monotonic()

    def _look_at_all(self, now: Snapshot, before: QueueLookup | None) -> None:
        listed = queue_names(self.root, directories.QUEUES, self._effects, self.options.predicate.named_topics)
        self._plain = set(listed)
        self._take(QueueLookup(now, before, frozenset(self._plain)))
        self.bounds: dict[QueueName, tuple[int, int]] = {}
        self.highs: dict[QueueName, int] = {}
        self.ends: dict[QueueName, int] = {}
        self._begins: dict[QueueName, int] = {}
        self._turn: list[QueueName] = []
        self._turned_at = time.monotonic()
        self._awaited: set[QueueName] = set()
        self._heights: dict[QueueName, int] = {}
        names = self._lookup.file_names() if self._live else self._lookup.names()
        self._look_at({name for name in names if self.wants(name)})
        self._walked = now.end
        if self._live:
            self._walked = min(self._lookup.dispatched_end(), now.end)
            self._awaited = self._news()
            self._look_at(self._awaited)
            self._drop_arrived()

    def _news(self) -> set[QueueName]:
        """Return the wanted queues of the records added to the log since it was walked."""
        snapshot = self._lookup.snapshot
        added = LogMap(self._walked, DispatchRules.of(self.options.config, deletions=snapshot.deletions))
        added.extend(snapshot.log, snapshot.end)
        self._walked = max(self._walked, snapshot.end)
        names = {name for name in added.names() if self.wants(name)}
        for name in names:
            high = (added.bounds(name) or (0, 0))[1]
            self._heights[name] = max(high, self._heights.get(name, 0))
        return names

    def _in_turn(self) -> list[QueueName]:
        """Return the next few of all queues; none if the last ones were checked just now."""
        if time.monotonic() - self._turned_at < QUIET_SECONDS:
            return []
        self._turned_at = time.monotonic()
        if not self._turn:
            self._turn = sorted(self.bounds, reverse=True)
        found, self._turn = self._turn[-IN_TURN:], self._turn[:-IN_TURN]
        return found

    def _drop_arrived(self) -> None:
        """Stop waiting for queues that have arrived at their expected height."""
        there = {name for name in self._awaited if self._bounds(name).max >= self._heights.get(name, 0)}
        self._awaited -= there
        for name in there:
            self._heights.pop(name, None)

    def _look_at(self, names: set[QueueName]) -> None:
        with self._lookup.snapshot.held():
            self._look_at_each(names)

    def in_order(self, names: Iterable[QueueName]) -> Iterator[QueueName]:
        """Yield names in order, for reads of their units: the directory of a topic is entered once.

        For a `for` statement, which leaves the directory with every error; a comprehension would hold it.
        """
        below = os.path.join(self.root, directories.QUEUES)
        for topic, queues in groupby(sorted(names), key=attrgetter("topic")):
            with self._effects.entered(os.path.join(below, topic), below):
                yield from queues

    def _look_at_each(self, names: set[QueueName]) -> None:
        begin = self.log.min_offset
        for name in self.in_order(names):
            low, high, end = self._bounds(name)
            if self._lookup.units(name).files:
                self._plain.add(name)
            else:
                self._plain.discard(name)
            self._begins[name] = begin
            has_tail = not self._live and bool(self._lookup.tail_runs(name))
            self.ends[name] = self.end if has_tail else end
            if high and self._reads(name):
                self.bounds[name], self.highs[name] = (low, high), high
            else:
                self.bounds.pop(name, None)
                self.highs.pop(name, None)

    def release(self) -> None:
        """Forget what was read of the queues for one planning; their bounds stay."""
        self._lookup.release()
        self._places = {}

    def settle(self, seconds: float) -> None:
        """Wait until all wanted messages now in the log are dispatched, for at most `seconds`."""
        until = time.monotonic() + seconds
        while self._awaited and self._live and time.monotonic() < until:
            time.sleep(0.01)
            self.refresh(force=True)

    @property
    def settled(self) -> bool:
        """True if all wanted messages that were in the log at the last look are dispatched."""
        return not (self._awaited and self._live)

    def _bounds(self, name: QueueName) -> Bounds:
        return self._lookup.file_bounds(name) if self._live else self._lookup.bounds(name)

    @property
    def lookup(self) -> QueueLookup:
        return self._lookup

    @property
    def log(self) -> LogFiles:
        return self._lookup.snapshot.log

    @property
    def at_rest(self) -> bool:
        """True if no writer runs or there are no queue files; all records of the log count then."""
        return not self._live

    @property
    def last(self) -> int | None:
        return self._lookup.snapshot.log_end.last

    @property
    def end(self) -> int:
        """Log offset after the last record."""
        return self._lookup.snapshot.end

    def wants(self, name: QueueName) -> bool:
        if name.topic not in self._topics:
            self._topics[name.topic] = self.options.predicate.rules(name.topic)
        rules = self._topics[name.topic]
        return rules is not None and any(queue in (name.queue_id, ANY_QUEUE) for queue, _, _ in rules)

    def place(self, name: QueueName, offset: int) -> int | None:
        """Return the log offset of a queue's record, according to its unit; None if there is none."""
        kept = self._lookup.kept_unit(name, offset)
        if kept is not None:
            return kept.physical_offset
        units = self._lookup.units(name)
        number = units.number_of(offset)
        unit = units.unit(number)
        if unit is not None and units.points_to_record(unit) and units.span(number, unit)[0] <= offset:
            return unit.physical_offset
        message = self.message(name, offset)
        return None if message is None else message.physical_offset

    def record(self, log_offset: int) -> StoredMessage | None:
        """Return the record at a log offset, checked in full; None if there is none."""
        return self._lookup.snapshot.record(log_offset)

    def _reads(self, name: QueueName) -> bool:
        """Return whether the stream reads this queue.

        The records of an LMQ are rows of their own topic already, so an LMQ is read only if it is named.
        """
        return name.topic in (self.options.predicate.named_topics or ()) or not self.is_lmq(name)

    def may_be_lmq(self, name: QueueName) -> bool:
        """Return whether some of the queue's records may be of another topic."""
        return name.topic.startswith(LMQ_PREFIX) or self.is_lmq(name)

    def is_lmq(self, name: QueueName) -> bool:
        """Return whether this is an LMQ, whose first record is of another topic.

        The name does not tell: messages may be put to a topic whose own name begins with `%LMQ%`.
        """
        if name not in self._light:
            low, high, _ = self._bounds(name)
            topic = self._lookup.first_topic(name)
            if topic is None:
                found = self._lookup.next_message(name, low, high)
                if found is None:
                    return name.topic.startswith(LMQ_PREFIX)
                topic = found[1].topic
            self._light[name] = topic != name.topic
        return self._light[name]

    def of_directories(self) -> bool:
        """Return whether the store has any queue files, so that a queue without files was removed."""
        return any(
            self._effects.is_dir(os.path.join(self.root, kind))
            for kind in (directories.QUEUES, directories.BATCH_QUEUES)
        )

    def places(self, name: QueueName) -> Places:
        if name not in self._places:
            self._places[name] = Places(self._lookup, name, None if self._live else self._segments)
        return self._places[name]

    def message(self, name: QueueName, offset: int) -> StoredMessage | None:
        """Return the record at an offset, checked in full; None if there is none."""
        return self._lookup.message(name, offset)

    def first_message(self, name: QueueName, low: int, high: int) -> tuple[int, StoredMessage] | None:
        """Return the first offset in [low, high) whose record can be read, and the record."""
        return self._lookup.next_message(name, low, high)

    def at_time(self, name: QueueName, ms: int) -> int:
        """Return the first offset stored at this time or later; the queue's end if there is none."""
        return self._lookup.offset_at_time(name, ms)

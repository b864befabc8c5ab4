"""Plans the micro-batches of a stream of one store: their offsets and their tasks.

An offset contains the next queue offset of every queue from which messages were seen, `{"Orders/0": 185, "Orders/1":
190}`, and the log offset of the last record that was read (`anchor.py`). Nothing else is remembered, so
a stream goes on from an offset alone. A queue that an offset does not name begins at 0, so a new queue is read from its
first message on, and so is a queue that was deleted and created again.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flintmq.config.text import short
from flintmq.errors import CorruptStoreError, StoreError, UsageError
from flintmq.kernels.read.select import ANY_QUEUE
from flintmq.lake.read.offsets import EARLIEST, MARKS, WORDS, flat, parse_flat
from flintmq.lake.stream.admission import Span, limited
from flintmq.lake.stream.anchor import (
    anchor_in,
    begin_anchor,
    made_again,
    marks,
    next_anchor,
    refuse_other_log,
    walked_to,
)
from flintmq.lake.stream.options import StreamOptions
from flintmq.store.commitlog.anchor import KnownLog
from flintmq.store.layout.queue_name import QueueName

if TYPE_CHECKING:
    from flintmq.lake.stream.plan import StreamTask
    from flintmq.lake.stream.queues import StreamQueues
    from flintmq.store.commitlog.anchor import LogAnchor

log = logging.getLogger("flintmq.lake")

Offsets = dict[QueueName, int]
SETTLE_SECONDS = 0.5  # how long Trigger.AvailableNow waits for messages that were put but are not in the queues yet
GRACE_SECONDS = 5.0  # how long a queue may be shorter than before until that counts as a loss


def _name_of(key: str) -> QueueName:
    topic, _, number = key.rpartition("/")
    return QueueName(topic, int(number))


def log_line(text: str) -> None:
    """Log a line for people.

    Without a handler it lands on stderr, which is the log of Spark's driver or worker.
    """
    log.warning("%s", text)


@dataclass(frozen=True)
class Available:
    """The messages that a store has from an offset on."""

    queues: StreamQueues
    begin: Offsets  # begin, anchor: the offset, without queues that are gone
    anchor: LogAnchor | None
    spans: dict[QueueName, Span]

    @property
    def messages(self) -> int:
        return sum(high - low for low, high in self.spans.values())

    @property
    def log_bytes(self) -> int:
        return sum(self.queues.places(name).size(*span) for name, span in self.spans.items())

    def limited(self, max_offsets: int | None, max_bytes: int | None) -> Available:
        """Return a part of them that is one micro-batch: at least one record."""
        queues, spans = self.queues, self.spans
        for limit, weigh in (
            (max_offsets, lambda name, low, high: high - low),
            (max_bytes, lambda name, low, high: queues.places(name).size(low, high)),
        ):
            firsts = [queues.first_message(name, *span) for name, span in spans.items()] if limit else []
            begin = min((first[1].physical_offset for first in firsts if first), default=queues.log.min_offset)
            if limit is not None and spans:
                places = {name: queues.places(name) for name in spans}
                ends = limited(places, spans, begin, queues.end, weigh, limit)
                assert any(low < ends[name] for name, (low, _) in spans.items())  # else the query would never get on
                spans = {name: (low, ends[name]) for name, (low, _) in spans.items() if low < ends[name]}
        return replace(self, spans=spans)


class StoreStream:
    """Plans the micro-batches of one store.

    `lose`: receives those about messages that are lost, and the reader goes on without; None: `tell`.

    Thread: one at a time.
    """

    def __init__(
        self, options: StreamOptions, tell: Callable[[str], None] = log_line, lose: Callable[[str], None] | None = None
    ) -> None:
        self.options, self.tell, self.lose = options, tell, lose or tell
        self._queues: StreamQueues | None = None
        self._named = False  # whether `tell_unknown` has looked
        self._target: Offsets | None = None  # of Trigger.AvailableNow
        self._planned: Offsets = {}  # the end of the last batch
        self._last_batch = 0.0  # when it was planned, by the monotonic clock
        self._reported: set[tuple[QueueName | None, str]] = set()
        self._losses: list[str] = []  # of this planning, to be reported
        self._removed: set[QueueName] = set()  # queues that did not come back within GRACE_SECONDS
        self._checked: dict[QueueName, tuple[int, int, int]] = {}  # queues not created again: offset, anchor, end
        self._names: dict[str, QueueName] = {}  # keys of offsets seen so far
        self._met: deque[tuple[Mapping[str, Any], Offsets]] = deque(maxlen=3)  # ends of the last batches
        self._last_flat: tuple[Offsets, dict[str, int]] = {}, {}  # offsets, and their flat form

    # -- micro-batches -------------------------------------------------------------------------------------------------

    def initial(self) -> dict[str, int]:
        """Return the offset at which a new stream begins.

        Raises StoreError: nothing was stored at the time to begin at, or later (and no strategy allows it); or files of
        a queue are missing (failOnDataLoss).
        """
        queues = self._look()
        self.tell_unknown()
        if self.options.start != "latest":
            self._find_lost_queues(queues)
        starts = self._starts(queues)
        return self._flat(starts, begin_anchor(queues, starts))

    def tell_unknown(self) -> None:
        """Name, once, the topics of the options that are not there: a misspelled one gives no rows."""
        from flintmq.store.read.known_topics import unknown_topics

        if self._named:
            return
        self._named = True
        unknown = list(unknown_topics(self._look().lookup, self.options.read.predicate).values())
        if unknown:
            more = f" (and {len(unknown) - 1} other topics)" if unknown[1:] else ""
            self.tell(f"{unknown[0]}{more}; it is read once it exists")

    def _find_lost_queues(self, queues: StreamQueues) -> None:
        """Fail, or report it, if a queue lacks its files: no task need walk past its messages."""
        from flintmq.lake.stream.unreached import NO_FILES, REBUILD

        topics = queues.lookup.snapshot.broker.topics
        for name in sorted(queues.lookup.without_files()):
            if queues.wants(name) and (not topics or name.topic in topics):
                self._lost(queues, name, 0, f"{NO_FILES}: {REBUILD}")
        self._report_losses()

    def initial_at(self, position: int) -> dict[str, int]:
        """Return the offset from which on messages begin at a log offset or later.

        Raises StoreError: (failOnDataLoss) messages from there on have expired; or messages before it are not in their
        queues yet, so that the offset would contain them.
        """
        queues = self._look()
        if position < queues.log.min_offset and self.options.read.fail_on_data_loss:
            raise StoreError(
                f"{queues.root}: the log begins at offset {queues.log.min_offset}: messages from {position} on have "
                f"expired; {self.options.read.skip_option} goes on without them"
            )
        # Messages before the position that are not in their queues yet would come again as new ones.
        queues.settle(GRACE_SECONDS)
        if not queues.settled:
            raise StoreError(f"{queues.root}: messages are in the log and not in their queues yet; try again")
        starts = {name: queues.places(name).first_at(position, *span) for name, span in queues.bounds.items()}
        return self._flat(starts, begin_anchor(queues, starts))

    def selected(self, offset: Mapping[str, Any]) -> dict[str, Any]:
        queues = self._look()
        return {key: one for key, one in offset.items() if key in MARKS or queues.wants(_name_of(key))}

    def end_now(self) -> None:
        queues = self._look()
        queues.settle(SETTLE_SECONDS)
        self._target = dict(queues.highs)

    def available(self, start: Mapping[str, Any]) -> Available:
        """Look at the store, and return what it has from an offset on."""
        begin, anchor = self._parse(start)
        queues, differing = self._settled(begin)
        # First: where the end of the log is damaged, queues look as if nothing had come.
        self._check_end(queues)
        removed = self._removed if queues.of_directories() else set()
        ends = self._ends(queues)
        spans = self._spans(
            queues, begin, anchor, ends, removed, differing if self._target is None else _differing(begin, ends)
        )
        begin = {name: number for name, number in begin.items() if name not in removed} if removed else begin
        if beyond := _beyond(queues, begin, differing):  # go on with what comes next
            begin = begin | {name: queues.highs[name] for name in beyond}
        return Available(queues, begin, anchor, spans)

    def end_after(self, there: Available) -> dict[str, int]:
        self._planned, anchor = there.begin, there.anchor
        if there.spans:
            self._last_batch = time.monotonic()
            self._planned = {**there.begin, **{name: high for name, (_, high) in there.spans.items()}}
            anchor = next_anchor(there.queues, there.spans, anchor)
        end = self._flat(self._planned, anchor)
        self._met.append((end, self._planned))
        return end

    def progress(self) -> dict[str, int]:
        """Return the end of the store, and the lag of the stream.

        `lagMessages` is exact, `lagBytes` (of the commit log) is estimated if it is more than a few megabytes.
        """
        queues = self._look()
        planned = self._planned
        differing = [name for name in _differing(planned, queues.highs) if name in queues.highs]
        spans = {name: (planned.get(name, 0), queues.bounds[name]) for name in differing}
        behind = {name: (max(low, read), high) for name, (read, (low, high)) in spans.items() if high > read}
        size = sum(queues.places(name).size(*span) for name, span in behind.items())
        lags = [high - low for low, high in behind.values()]
        count = max(1, len(queues.bounds))
        lag = {
            "lagMessages": sum(lags),
            "lagBytes": size,
            "minOffsetsBehindLatest": min(lags) if len(lags) == len(queues.bounds) and lags else 0,
            "maxOffsetsBehindLatest": max(lags, default=0),
            "avgOffsetsBehindLatest": sum(lags) // count,
        }
        return {**lag, **self._flat(planned | queues.highs, None)}

    def tasks(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[StreamTask]:
        from flintmq.lake.stream.plan import share_out

        self._planned, _ = self._parse(end)
        queues, differing = self._settled(self._planned)
        begin, anchor = self._parse(start)
        wanted = _differing(begin, self._planned)
        removed = _missing(queues, begin, {*differing, *wanted}) if queues.of_directories() else set()
        spans = self._spans(queues, begin, anchor, self._planned, removed, wanted, known=True)
        to_end = queues.at_rest and not any(name in queues.highs for name in differing)
        tasks = share_out(queues, spans, walked_to(queues, anchor), to_end)
        queues.release()
        return tasks

    # -- offsets -------------------------------------------------------------------------------------------------------

    @property
    def log(self) -> KnownLog:
        queues = self._look()
        return KnownLog(queues.log, queues.end)

    def _look(self) -> StreamQueues:
        from flintmq.lake.stream.queues import StreamQueues

        if self._queues is None:
            self._queues = StreamQueues(self.options.read)
        else:
            self._queues.refresh()
        return self._queues

    def _settled(self, known: Offsets) -> tuple[StreamQueues, list[QueueName]]:
        """Wait until the queues have all that was seen before, or for GRACE_SECONDS.

        Return also the queues that do not end at the known offsets. A writer that starts truncates its queues and
        writes their ends again, which takes a moment. And a queue that was read from the log, while the store had no
        queue file at all, gets its files after other queues.
        """
        queues = self._look()
        until = time.monotonic() + GRACE_SECONDS
        while True:
            differing = _differing(known, queues.highs)
            removed = _missing(queues, known, differing)
            late = {*_beyond(queues, known, differing), *(removed - self._removed)}
            if not late or time.monotonic() > until:
                self._removed = removed
                return queues, differing
            time.sleep(0.1)
            queues.refresh(force=True, also=late)

    def _parse(self, offset: Mapping[str, Any]) -> tuple[Offsets, LogAnchor | None]:
        """Return queue offsets, which must not be changed, and the anchor.

        Offsets seen before are not parsed again: there may be 10,000 queues.
        """
        for met, offsets in self._met:
            if met == offset:
                return offsets, anchor_in(offset)
        known = self._names
        try:
            found = {known[key]: number for key, number in offset.items() if key not in MARKS}
            if all(type(number) is int and number >= 0 for number in found.values()):
                return found, anchor_in(offset)
        except KeyError:
            pass
        found = {QueueName(*queue): number for queue, number in parse_flat("the query's checkpoint", offset).items()}
        self._names |= {f"{name.topic}/{name.queue_id}": name for name in found}
        return found, anchor_in(offset)

    def _flat(self, offsets: Offsets, anchor: LogAnchor | None) -> dict[str, int]:
        """Return offsets in flat form, based on the last ones: mostly a few numbers differ."""
        last, text = self._last_flat
        differing = _differing(offsets, last)
        if len(offsets) == len(last) and all(name in last and name in offsets for name in differing):
            text = text | flat({name: offsets[name] for name in differing})
        else:
            text = flat(offsets)
        self._last_flat = offsets, text
        return {**(marks(anchor) if anchor is not None else {}), **text}

    def _starts(self, queues: StreamQueues) -> Offsets:
        """Return where a new query begins: at a time, at times of queues, or at offsets.

        The first of these options that is given decides.
        """
        start, bounds, times = self.options.start, queues.bounds, self.options.read.since_of
        if isinstance(start, int):
            found = {name: queues.at_time(name, start) for name in bounds}
            if all(offset == bounds[name][1] for name, offset in found.items()):
                self._nothing_at("", "startingTimestamp", start)
            return found
        if times:
            self._check_there("startingOffsetsByTimestamp", times, queues)
            found = {name: queues.at_time(name, times[name]) if name in times else bounds[name][0] for name in bounds}
            for name in (name for name, offset in found.items() if name in times and offset == bounds[name][1]):
                where = f"topic {short(name.topic)}, queue {name.queue_id}: "
                self._nothing_at(where, "startingOffsetsByTimestamp", times[name])
            return found
        if isinstance(start, str):
            return {name: self._at_word(span, WORDS[start]) for name, span in bounds.items()}
        self._check_there("startingOffsets", [queue for queue, number in start.items() if number > 0], queues)
        offsets = {name: start.get(name, start.get((name.topic, ANY_QUEUE), EARLIEST)) for name in bounds}
        return {
            name: number if number >= 0 else self._at_word(bounds[name], number) for name, number in offsets.items()
        }

    @staticmethod
    def _at_word(span: Span, number: int) -> int:
        return span[0] if number == EARLIEST else span[1]

    @staticmethod
    def _check_there(option: str, wanted: Iterable[tuple[str, int]], queues: StreamQueues) -> None:
        for topic, queue in wanted:
            if (topic, queue) not in queues.bounds:
                raise UsageError(f"option {option}: the store has no queue {queue} of topic {short(topic)}")

    def _nothing_at(self, where: str, option: str, ms: int) -> None:
        """Fail because nothing was stored at a time or later, unless the strategy allows it."""
        from flintmq.lake.read.asked import nothing_at

        if self.options.read.lenient_times:
            return
        if self.options.read.fail_on_data_loss:
            raise StoreError(where + nothing_at(option, ms))
        self.tell(where + nothing_at(option, ms))

    def _ends(self, queues: StreamQueues) -> Offsets:
        """Return the offsets up to which may be read now, limited by Trigger.AvailableNow's target."""
        ends = dict(queues.highs)
        if self._target is None:
            return ends
        return {name: min(high, ends[name]) for name, high in self._target.items() if name in ends}

    def _spans(
        self,
        queues: StreamQueues,
        begin: Offsets,
        anchor: LogAnchor | None,
        ends: Offsets,
        removed: set[QueueName],
        differing: Iterable[QueueName],
        known: bool = False,
    ) -> dict[QueueName, Span]:
        """Return the offsets to read between `begin` and `ends`, as far as their messages exist.

        A queue that was created again is read from its first message (with failOnDataLoss=false), always the same for
        the same offsets. A removed queue is forgotten, so that it is read from its first message if it comes again.

        `known`: the store once had all messages up to `ends`.

        Raises StoreError: the log is another one; or (failOnDataLoss) messages are lost.
        """
        bounds, spans, lost = queues.bounds, {}, self._lost
        refuse_other_log(queues, anchor)
        read_to = sys.maxsize if anchor is None else anchor.physical_offset
        for name in sorted(removed):
            lost(queues, name, begin[name], "the queue was removed, with its topic or its last messages")
        names = {name for name in differing if name in ends}
        queues.look_at(names)
        names |= {name for name, end in queues.ends.items() if end > read_to and name in ends}
        for name in sorted(names):
            low, high, end = begin.get(name, 0), ends[name], queues.ends.get(name, 0)
            if low == high and (end <= read_to or self._checked.get(name) == (high, read_to, end)):
                continue
            least, most = bounds.get(name, (0, 0))
            if name in begin and name in bounds and made_again(queues, name, low, anchor):
                lost(
                    queues,
                    name,
                    least,
                    f"the queue was deleted and made again; the earlier one was read up to offset {low} only",
                    "with the new queue",
                )
                low = least
            elif name in begin and low > most and name in bounds:
                lost(queues, name, low, f"the queue ends at {most}: the log was truncated, or this is another store")
            elif low < least and low < high:
                lost(queues, name, low, f"messages before offset {least} have expired and were not read")
            elif known and high > most and low < high:
                lost(queues, name, most, f"the queue ends there, before {high}: it was truncated, or has expired")
            elif low == high:
                self._checked[name] = (high, read_to, end)
            if max(low, least) < min(high, most):
                spans[name] = (max(low, least), min(high, most))
        self._report_losses()
        return spans

    def _lost(self, queues: StreamQueues, name: QueueName, offset: int, why: str, goes_on: str = "without it") -> None:
        """Fail because messages are lost; or report the loss once, and continue."""
        from flintmq.lake.stream.plan import lost

        if self.options.read.fail_on_data_loss:
            raise lost(queues, name, offset, why, goes_on)
        if (name, why) not in self._reported:
            self._reported.add((name, why))
            self._losses.append("" if self._losses else str(lost(queues, name, offset, why, goes_on)))

    def _check_end(self, queues: StreamQueues) -> None:
        """Fail where the log's end is damaged or missing, as a read of the log does.

        Without failOnDataLoss it is reported once. The queues show only what the log still has: without this its last
        messages would be left out in silence. A store that was not stopped may be a copy of one that somebody writes:
        the next copying brings the rest. So it is reported as a loss, and the stream goes on.
        """
        from flintmq.store.commitlog.log_end import refuse_damaged_ends

        now = queues.lookup.snapshot
        if now.facts.live:  # it opened the store, so it knows the end
            return
        try:
            refuse_damaged_ends(now.log, now.facts, now.log_end)
        except CorruptStoreError as error:
            if now.facts.clean and self.options.read.fail_on_data_loss:
                raise
            if (None, str(error)) in self._reported:
                return
            self._reported.add((None, str(error)))
            if now.facts.clean:
                self._losses.append("" if self._losses else str(error))
            else:
                self.lose(f"{error} (going on: the store was not stopped, so a copy of it may still grow)")

    def _report_losses(self) -> None:
        """Print one line, however many queues lost messages."""
        if self._losses:
            rest = f"; and {len(self._losses) - 1} more losses" if self._losses[1:] else ""
            self.lose(f"{self._losses[0]} (now going on){rest}")
            self._losses = []

    def too_few(self, messages: int) -> bool:
        """Return whether to wait for more messages than these."""
        if self._target is not None or not self.options.min_offsets:
            return False
        waited = 1000 * (time.monotonic() - self._last_batch) if self._last_batch else self.options.max_delay_ms
        return messages < self.options.min_offsets and waited < self.options.max_delay_ms


def _differing(offsets: Offsets, others: Offsets) -> list[QueueName]:
    """Return the queues whose offsets differ, or which only one of the two has."""
    found = [name for name, offset in offsets.items() if others.get(name) != offset]
    if len(others) + sum(name not in others for name in found) > len(offsets):
        found += others.keys() - offsets.keys()
    return found


def _beyond(queues: StreamQueues, offsets: Offsets, differing: Iterable[QueueName]) -> list[QueueName]:
    """Return the queues that end before these offsets, among those given."""
    highs = queues.highs
    return [name for name in differing if name in highs and offsets.get(name, 0) > highs[name]]


def _missing(queues: StreamQueues, offsets: Offsets, differing: Iterable[QueueName]) -> set[QueueName]:
    """Return the queues that had messages and no longer exist, among those given."""
    highs = queues.highs
    return {name for name in differing if name not in highs and offsets.get(name) and queues.wants(name)}

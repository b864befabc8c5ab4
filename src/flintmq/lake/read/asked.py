"""Compares the topics, offsets and times that a batch read names with the store.

A misspelled topic, an offset that has expired or does not exist yet, a time after which nothing was stored: each would
silently give fewer rows or none. So they fail the read before it begins, as in Spark's Kafka source. With
failOnDataLoss=false the existing messages are read, and one note names what is missing. Only the queues that the
options name are examined, however many others the store has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from flintmq.config.text import short
from flintmq.errors import FlintError, StoreError, UnknownTopicError, UsageError
from flintmq.lake.read.offsets import Queue
from flintmq.lake.read.options import ReadOptions
from flintmq.store.commitlog.predicate import LEAST, MOST
from flintmq.store.commitlog.report import LOST, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.config_reader import LMQ_OFFSETS, OFFSETS, BrokerConfig
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.known_topics import NOT_THERE, unknown_topics
from flintmq.store.read.queue_lookup import QueueLookup


def go_on(options: ReadOptions) -> str:
    """Return the end of an error: how the rest is read."""
    return f"{options.skip_option} reads the rest"


def note_unread_offsets(broker: BrokerConfig, report: Report) -> None:
    """Note as lost what files of config/ that cannot be used say of committed offsets."""
    for problem in broker.problems:
        if os.path.basename(problem.file).startswith((OFFSETS, LMQ_OFFSETS)):
            report.note(LOST, f"{problem.file} cannot be used ({problem.reason}): its offsets are not known")


def as_the_store_has(
    options: ReadOptions, snapshot: Snapshot, report: Report, missing: dict[str, FlintError] | None = None
) -> ReadOptions:
    """Check the options of a batch read against the store; turn times of queues into offsets.

    Args:
        options: options of the read; filters that Spark pushes are not yet part of them.
        missing: receives topics, queues and times that this one of several stores does not have, each with its error,
            which is neither raised nor noted then.
    """
    asked = _Asked(options, QueueLookup(snapshot))
    ranges = asked.ranges()
    names, times = dict(asked.missing_names()), dict(asked.missing_times())
    if missing is not None:
        missing |= {**names, **times}
        names, times = {}, {}
    found = [*names.values(), *asked.losses, *times.values()]
    if found and options.fail_on_data_loss:
        raise found[0]
    if found:
        rest = f"; and {len(found) - 1} more like it" if found[1:] else ""
        report.note(NOT_THERE, f"{found[0].without_advice}{rest}")
    return replace(options, predicate=replace(options.predicate, offsets=ranges))


class _Asked:
    """The offsets and times of one read, and those of them that the store does not have."""

    def __init__(self, options: ReadOptions, lookup: QueueLookup) -> None:
        self.options, self.lookup = options, lookup
        self.losses: list[FlintError] = []

    def ranges(self) -> tuple[tuple[str, int, int, int], ...]:
        options = self.options
        given = {QueueName(topic, queue): (least, stop) for topic, queue, least, stop in options.predicate.offsets}
        names = {*given, *(QueueName(*queue) for queue in (*options.since_of, *options.until_of))}
        return tuple((*name, *self._range(name, *given.get(name, (LEAST, MOST)))) for name in sorted(names))

    def _range(self, name: QueueName, first: int, stop: int) -> tuple[int, int]:
        # A time overrides an offset; parsing has then dropped the offset.
        first = self._at_time(name, self.options.since_of, first, start=True)
        stop = self._at_time(name, self.options.until_of, stop, start=False)
        low, high, _ = self.lookup.file_bounds(name)
        if low == high or max(first, stop if stop < MOST else LEAST) > high or LEAST < first < low:
            low, high, _ = self.lookup.bounds(name)  # includes messages that no queue file has yet
        there = f"the queue has offsets {low} to {high - 1}" if low < high else f"the queue ends at {high} and is empty"
        if low == high == 0 and name not in self.lookup.names(name.topic):
            self._lose(name, UsageError, "the store has no such queue")
        elif LEAST < first < low:
            self._lose(name, StoreError, f"startingOffsets asks for {first}, {there}: earlier messages have expired")
        elif first > high:
            self._lose(name, StoreError, f"startingOffsets asks for {first}, {there}")
        elif high < stop < MOST:
            self._lose(name, StoreError, f"endingOffsets asks for {stop}, {there}")
        elif stop < low:
            self._lose(name, StoreError, f"endingOffsets asks for {stop}, {there}: earlier messages have expired")
        elif first > stop:
            self.losses.append(
                UsageError(
                    f"topic {short(name.topic)}, queue {name.queue_id}: it begins at {first}, after its end {stop}"
                )
            )
        return first, stop

    def _lose(self, name: QueueName, kind: type[FlintError], why: str) -> None:
        self.losses.append(kind(f"topic {short(name.topic)}, queue {name.queue_id}: {why}", advice=go_on(self.options)))

    def _at_time(self, name: QueueName, times: Mapping[Queue, int], offset: int, start: bool) -> int:
        """Return the offset at the time that is set for a queue; if none is set, return `offset`."""
        if name not in times:
            return offset
        found, (_, high, _) = self.lookup.offset_at_time(name, times[name]), self.lookup.bounds(name)
        if found < high:
            return found
        if start and not self.options.lenient_times:
            self._lose(name, StoreError, nothing_at("startingOffsetsByTimestamp", times[name]))
        return high if start else MOST  # no end is set, so messages that arrive during planning count

    def missing_names(self) -> Iterator[tuple[str, FlintError]]:
        predicate, snapshot = self.options.predicate, self.lookup.snapshot
        unknown = unknown_topics(self.lookup, predicate, go_on(self.options))
        for topic, error in unknown.items():
            yield f"topic {topic}", UnknownTopicError(error.cause, advice=error.advice)
        for topic, queue in sorted(predicate.queues or ()) if not unknown else ():
            name = QueueName(topic, queue)
            if not self.lookup.units(name).files:
                config = snapshot.broker.topics.get(topic)
                queues = max(config.read_queues, config.write_queues) if config is not None else 0
                if queue >= queues and name not in self.lookup.names(topic):
                    text = f"topic {short(topic)}: the store has no queue {queue} of it"
                    yield f"queue {topic}/{queue}", UsageError(text, advice=go_on(self.options))

    def missing_times(self) -> Iterator[tuple[str, FlintError]]:
        """Yield an error, by option, if no wanted message was stored from startingTimestamp on."""
        since, predicate = self.options.predicate.since, self.options.predicate
        if since is None or self.options.lenient_times:
            return
        last = self.lookup.snapshot.log_end.last
        newest = None if last is None else self.lookup.snapshot.record(last)
        if newest is not None and newest.store_timestamp >= since and predicate.rules(newest.topic) is not None:
            return
        for name in sorted(self._wanted()):
            low, high, _ = self.lookup.bounds(name)
            message = self.lookup.message(name, high - 1) if low < high else None
            if message is not None and message.store_timestamp >= since:
                return
            if low < high and message is None and self.lookup.offset_at_time(name, since) < high:
                return
        yield "startingTimestamp", StoreError(nothing_at("startingTimestamp", since), advice=go_on(self.options))

    def _wanted(self) -> Iterator[QueueName]:
        predicate = self.options.predicate
        for topic in predicate.named_topics or (None,):
            names = self.lookup.names(topic)
            wanted = {topic for topic in {name.topic for name in names} if predicate.rules(topic) is not None}
            yield from (name for name in names if name.topic in wanted)


def nothing_at(option: str, ms: int) -> str:
    return f"{option}: nothing was stored at {ms} or later; startingOffsetsByTimestampStrategy=latest begins at the end"

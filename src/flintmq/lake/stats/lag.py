"""Computes the lag of consumer groups: config/consumerOffset.json against the queues' ends.

The end of a queue comes from its files, checked against the log: consumers can get messages up to there. Only for a
queue without files it comes from the messages of the log. The log is not walked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flintmq.config.keys import StoreConfig
from flintmq.lake.read.asked import note_unread_offsets
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import Bounds, QueueLookup


@dataclass
class Lag:
    """The lag of a group on a topic.

    `waiting_since`: store time (ms) of the oldest waiting message; None if there is none, or it cannot be read.
    """

    topic: str
    group: str
    queues: int = 0  # number of the topic's queues that have an offset
    behind: int = 0
    largest: int = 0
    waiting_since: int | None = None
    expired: int = 0  # messages that left the log before they were consumed
    beyond: int = 0  # number of queues with an offset after the queue's end


def merged(lags: Iterable[Lag]) -> list[Lag]:
    """Add up the lags of a group on a topic in several stores; the largest first."""
    sums: dict[tuple[str, str], Lag] = {}
    for one in lags:
        lag = sums.setdefault((one.topic, one.group), Lag(one.topic, one.group))
        for name in ("queues", "behind", "expired", "beyond"):
            setattr(lag, name, getattr(lag, name) + getattr(one, name))
        lag.largest = max(lag.largest, one.largest)
        times = [time for time in (lag.waiting_since, one.waiting_since) if time is not None]
        lag.waiting_since = min(times, default=None)
    return _ordered(sums.values())


def _ordered(lags: Iterable[Lag]) -> list[Lag]:
    return sorted(lags, key=lambda lag: (-lag.behind, lag.group, lag.topic))


def consumer_lag(
    root: str,
    config: StoreConfig,
    end_in_log: Callable[[str, int], int | None],
    report: Report | None = None,
    last: int | None = None,
) -> list[Lag]:
    """Return the lag of each group on each topic for which it has offsets, the largest first.

    `end_in_log`: returns the queue offset after the last message of a queue in the log, if there is one. `last`: log
    offset of the log's last record, as an earlier search found it.
    """
    lookup = QueueLookup(Snapshot.open(root, config, last=last))
    broker = lookup.snapshot.broker
    note_unread_offsets(broker, report or Report())
    found = [(key, offsets) for key, offsets in broker.consumer_offsets.items()]
    found += [(key, {0: offset}) for key, offset in broker.lmq_offsets.items()]
    lags = []
    for (topic, group), offsets in found:
        lag = Lag(topic, group)
        for queue_id, offset in offsets.items():
            _add(lag, lookup, QueueName(topic, queue_id), offset, end_in_log)
        lags.append(lag)
    return _ordered(lags)


def _add(
    lag: Lag, lookup: QueueLookup, name: QueueName, offset: int, end_in_log: Callable[[str, int], int | None]
) -> None:
    bounds, end = lookup.file_bounds(name), end_in_log(*name)
    if bounds.max == 0 and end is not None and not lookup.units(name).files:
        bounds = Bounds(0, end)
    behind = max(0, bounds.max - max(offset, bounds.min))
    lag.queues += 1
    lag.behind += behind
    lag.largest = max(lag.largest, behind)
    lag.expired += max(0, min(bounds.min, bounds.max) - offset)
    lag.beyond += offset > bounds.max
    if behind and lookup.units(name).files:
        message = lookup.message(name, max(offset, bounds.min))
        if message is not None:
            times = [time for time in (lag.waiting_since, message.store_timestamp) if time is not None]
            lag.waiting_since = min(times)

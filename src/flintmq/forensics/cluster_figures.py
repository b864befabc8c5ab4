"""Sums the figures of several stores: topics and groups over all brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from flintmq.forensics.retention_plan import RetentionPlan
from flintmq.forensics.store_figures import StoreFigures


@dataclass(slots=True)
class ClusterTopic:
    name: str
    brokers: int = 0
    queues: int = 0
    messages: int = 0
    largest: int = 0  # messages of its largest queue on any broker


@dataclass(slots=True)
class ClusterGroup:
    name: str | None  # of the group; None for topics for which no group has an offset
    brokers: int = 0
    lag: int = 0
    oldest_ms: int | None = None  # store time of the oldest of them; None if there are none, or if it cannot be read
    goes: int = 0  # of them, those that the next deletion of each broker removes


def cluster_topics(stores: Iterable[StoreFigures]) -> list[ClusterTopic]:
    """Return the topics with queues, those with most messages first."""
    found: dict[str, ClusterTopic] = {}
    for store in stores:
        for topic in store.content.topics:
            if topic.queues:
                one = found.setdefault(topic.name, ClusterTopic(topic.name))
                one.brokers += 1
                one.queues += len(topic.queues)
                one.messages += topic.messages
                one.largest = max(one.largest, *(queue.messages for queue in topic.queues))
    return sorted(found.values(), key=lambda topic: (-topic.messages, topic.name))


def cluster_groups(stores: Iterable[StoreFigures]) -> list[ClusterGroup]:
    """Return the groups that have an offset or lose messages, by their lag.

    The most lag comes first, the nameless group last.
    """
    found: dict[str | None, ClusterGroup] = {}
    for store in stores:
        for group in {lag.group for lag in store.lags}:
            found.setdefault(group, ClusterGroup(group)).brokers += 1
        for lag in store.lags:
            one = found[lag.group]
            one.lag += lag.messages
            times = [ms for ms in (one.oldest_ms, lag.oldest_ms) if ms is not None]
            one.oldest_ms = min(times, default=None)
        if store.retention is not None:
            for (name, _), messages in unread_by_group(store.retention).items():
                found.setdefault(name, ClusterGroup(name)).goes += messages
    return sorted(found.values(), key=lambda group: (group.name is None, -group.lag, group.name or ""))


def unread_by_group(plan: RetentionPlan) -> Counter[tuple[str | None, str]]:
    """Return (group, topic) -> messages that go next and are unread.

    The group is None for topics without one.
    """
    found: Counter[tuple[str | None, str]] = Counter()
    for row in plan.unread:
        found[row.group, row.topic] += row.unread
    return found

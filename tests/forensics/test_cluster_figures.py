"""Sums over brokers, against Java's."""

from collections import Counter
from collections.abc import Callable

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.cluster_figures import cluster_groups, cluster_topics
from flintmq.forensics.store_figures import StoreWatch
from tests.compat.stores import Golden
from tests.metrics.conftest import BROKERS
from tests.support.java_figures import bounds, lags


def test_groups_and_topics_over_all_brokers(golden: Callable[[str], Golden]) -> None:
    figures = [
        StoreWatch(Member(str(golden(name).path), broker), StoreConfig()).look() for broker, name in BROKERS.items()
    ]
    lag, brokers, oldest = Counter[str](), Counter[str](), {}
    messages, largest = Counter[str](), Counter[str]()
    for name in BROKERS.values():
        mine = lags(golden(name))
        brokers.update({group for group, _ in mine})
        for (group, _), one in mine.items():
            lag[group] += one.messages
            if one.oldest_ms is not None:
                oldest[group] = min(oldest.get(group, one.oldest_ms), one.oldest_ms)
        for (topic, _), (low, high) in bounds(golden(name)).items():
            messages[topic] += high - low
            largest[topic] = max(largest[topic], high - low)
    groups = [group for group in cluster_groups(figures) if group.brokers]
    assert {group.name: (group.lag, group.brokers, group.oldest_ms) for group in groups} == {
        group: (lag[group], brokers[group], oldest.get(group)) for group in brokers
    }
    assert [group.lag for group in groups] == sorted((group.lag for group in groups), reverse=True)
    topics = {topic.name: (topic.messages, topic.largest) for topic in cluster_topics(figures)}
    assert {name: both for name, both in topics.items() if both[0]} == {
        name: (count, largest[name]) for name, count in messages.items() if count
    }

"""Writes the statistics of a running engine as Prometheus text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.metrics.families import labels_of, storage_labels
from flintmq.metrics.page import ENGINE_METRICS, Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flintmq.store.append.stats import StoreStats
    from flintmq.store.listening import FollowerInfo


def engine_metrics(
    stats: StoreStats, *, broker: str = "", cluster: str = "", followers: Sequence[FollowerInfo] | None = None
) -> str:
    """Return the statistics of an open store as Prometheus text.

    Args:
        stats: from MessageStore.stats(); numbers of puts and gets begin with 0 when the store is opened.
        broker: value of the label node_id.
        cluster: value of the label cluster.
        followers: from `store.ha.followers()`, of a store that listens; ask before `stats`.

    Returns:
        The text, version 0.0.4.
    """
    page, labels = Page(ENGINE_METRICS), labels_of(broker, cluster)
    for topic, puts in sorted(stats.puts_by_topic.items()):
        page.add("rocketmq_messages_in_total", puts, {**labels, "topic": topic})
    page.add("rocketmq_messages_out_total", stats.messages_got, labels)
    add_engine(page, stats, labels)
    if followers is not None:
        page.add("flintmq_listener_followers", len(followers), labels)
    for one in followers or ():
        if one.sent >= 0:  # it has reported
            of = {**labels, "follower": "{}:{}".format(*one.address)}
            page.add("flintmq_listener_unsent_bytes", max(0, stats.log_end - one.sent), of)
            page.add("flintmq_listener_unacknowledged_bytes", max(0, stats.log_end - one.acknowledged), of)
    return page.text()


def add_engine(page: Page, stats: StoreStats, labels: dict[str, str]) -> None:
    """Add the statistics of an open store, but for the messages that came and went."""
    storage = storage_labels(labels)
    page.add("rocketmq_storage_flush_behind_bytes", stats.flush_behind_bytes, storage)
    page.add("rocketmq_storage_dispatch_behind_bytes", stats.dispatch_behind_bytes, storage)
    page.add("rocketmq_throughput_in_total", stats.put_bytes, labels)
    for duration, puts in stats.put_times.items():
        page.add("flintmq_puts_total", puts, {**labels, "duration": duration})
    for status, puts in sorted(stats.puts_refused.items()):
        page.add("flintmq_puts_refused_total", puts, {**labels, "status": status})
    page.add("flintmq_gets_total", stats.gets_found, {**labels, "found": "true"})
    page.add("flintmq_gets_total", stats.gets_missed, {**labels, "found": "false"})
    page.add("flintmq_put_longest_in_lock_seconds", stats.longest_in_lock_ms / 1000, labels)
    page.add("flintmq_commit_behind_bytes", stats.commit_behind_bytes, labels)
    page.add("flintmq_log_bytes", stats.log_bytes, labels)
    if stats.pool_buffers_free >= 0:
        page.add("flintmq_pool_buffers_free", stats.pool_buffers_free, labels)
    page.add("flintmq_process_memory_bytes", stats.memory_bytes, labels)
    page.add("flintmq_mapped_bytes", stats.mapped_bytes, labels)
    page.add("flintmq_open_seconds", stats.seconds, labels)

"""Turns the figures of a store into samples, with RocketMQ's names and labels where it has them."""

from __future__ import annotations

from collections import Counter

from flintmq.cluster.member import Member
from flintmq.forensics.cluster_figures import unread_by_group
from flintmq.forensics.inspect import TopicSummary
from flintmq.forensics.retention_plan import RetentionPlan
from flintmq.forensics.store_figures import StoreFigures
from flintmq.format.group_topics import RETRY, is_system_topic
from flintmq.metrics.page import Page
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.read.undelivered import HALVES, TIMERS


def labels_of(broker: str, cluster: str) -> dict[str, str]:
    return {"cluster": cluster, "node_type": "broker", "node_id": broker}


def storage_labels(labels: dict[str, str]) -> dict[str, str]:
    return {**labels, "storage_type": "local", "storage_medium": "disk"}


def is_system(topic: str, group: str) -> bool:
    """Return whether a topic or a group is the broker's own. Upstream: BrokerMetricsManager.isSystem."""
    return is_system_topic(topic) or group.lower().startswith("cid_rmq_sys_")


def group_labels(labels: dict[str, str], group: str, topic: str) -> dict[str, str]:
    return {
        **labels,
        "consumer_group": group,
        "topic": topic,
        "is_retry": str(topic.startswith(RETRY)).lower(),
        "is_system": str(is_system(topic, group)).lower(),
    }


def add_presence(page: Page, member: Member, up: bool) -> None:
    page.add("flintmq_store_up", int(up), {**labels_of(member.broker, member.cluster), "store": member.path})


def add_copy(page: Page, member: Member, figures: StoreFigures) -> None:
    """Add how far a copy of a master's log is; of each copy, also if another store of its broker is further."""
    copy, labels = figures.copy, {**labels_of(member.broker, member.cluster), "store": member.path}
    if copy is None:
        return
    page.add("flintmq_follower_connected", int(copy.connected), labels)
    if copy.lag_ms is not None:
        page.add("flintmq_follower_lag_seconds", copy.lag_ms / 1000, labels)
    if copy.lacks is not None:
        page.add("flintmq_follower_behind_bytes", copy.lacks, labels)
    if copy.heard_ms is not None:
        page.add("flintmq_follower_last_contact_timestamp_seconds", copy.heard_ms / 1000, labels)


def add_queue_lags(page: Page, member: Member, figures: StoreFigures, most: int) -> None:
    """Add the lag of groups by queue: of those with lag at most so many, the largest."""
    labels = labels_of(member.broker, member.cluster)
    unknown = {(lag.group, lag.topic) for lag in figures.lags if not lag.is_known}
    offsets = ((group.name, one) for group in figures.content.groups for one in group.offsets if one.lag)
    found = [row for row in offsets if (row[0], row[1].topic) not in unknown]
    found.sort(key=lambda row: (-row[1].lag, row[0], row[1].topic, row[1].queue_id))
    for group, one in found[:most]:
        of = {**group_labels(labels, group, one.topic), "queue_id": str(one.queue_id)}
        page.add("flintmq_group_queue_lag_messages", one.lag, of)
    page.add("flintmq_group_queues_left_out", max(0, len(found) - most), labels)


def add_figures(page: Page, member: Member, figures: StoreFigures) -> None:
    labels = labels_of(member.broker, member.cluster)
    _add_storage(page, labels, figures)
    content = figures.content
    page.add("flintmq_store_clean", int(content.clean), labels)
    page.add("flintmq_store_live", int(content.live), labels)
    page.add("flintmq_store_look_seconds", round(figures.seconds, 6), labels)
    for code, count in sorted(Counter(note.code for note in content.notes).items()):
        page.add("flintmq_store_notes", count, {**labels, "code": code})
    waiting = {one.kind: one.messages for one in content.undelivered}
    for name, kind in (("flintmq_timer_waiting", TIMERS), ("flintmq_transaction_unsettled", HALVES)):
        if (messages := waiting.get(kind, 0)) is not None:
            page.add(name, messages, labels)
    page.add("flintmq_log_damaged", int(content.damaged), labels)
    page.add("flintmq_log_begin_offset", content.log.begin, labels)
    page.add("flintmq_log_end_offset", content.log.end, labels)
    for topic in content.topics:
        if topic.queues and not topic.name.startswith(LMQ_PREFIX):  # of those there may be millions, of a queue each
            _add_topic(page, {**labels, "topic": topic.name}, topic)
    for lag in figures.lags:
        of = group_labels(labels, lag.group, lag.topic)
        if lag.is_known:
            late = 0 if lag.oldest_ms is None else max(0, figures.at_ms - lag.oldest_ms)
            page.add("rocketmq_consumer_lag_messages", lag.messages, of)
            page.add("rocketmq_consumer_lag_latency", late, of)
        page.add("flintmq_group_offsets_outside", lag.outside, of)
    if figures.retention is not None:
        _add_retention(page, labels, figures.retention)


def _add_storage(page: Page, labels: dict[str, str], figures: StoreFigures) -> None:
    storage, broker = storage_labels(labels), figures.snapshot.broker
    if figures.disk_bytes is not None:
        page.add("rocketmq_storage_size", figures.disk_bytes, storage)
    if figures.flush_behind is not None:
        page.add("rocketmq_storage_flush_behind_bytes", figures.flush_behind, storage)
    page.add("rocketmq_storage_dispatch_behind_bytes", figures.dispatch_behind, storage)
    first = figures.content.log.first_time
    if first is not None:
        page.add("rocketmq_storage_message_reserve_time", max(0, figures.at_ms - first), storage)
    if broker.topics:
        page.add("rocketmq_topic_number", len(broker.topics), labels)
    if broker.groups:
        page.add("rocketmq_consumer_group_number", len(broker.groups), labels)


def _add_topic(page: Page, labels: dict[str, str], topic: TopicSummary) -> None:
    page.add("flintmq_topic_messages", topic.messages, labels)
    page.add("flintmq_topic_queues", len(topic.queues), labels)
    largest = max(queue.messages for queue in topic.queues)
    page.add("flintmq_topic_largest_queue_messages", largest, labels)
    if topic.messages:
        page.add("flintmq_topic_largest_queue_share", largest / topic.messages, labels)


def _add_retention(page: Page, labels: dict[str, str], plan: RetentionPlan) -> None:
    page.add("flintmq_disk_used_ratio", plan.used / 100, labels)
    if plan.next_when is not None:
        page.add("flintmq_retention_next_deletion_timestamp_seconds", plan.next_when / 1000, labels)
    page.add("flintmq_retention_next_deletion_bytes", plan.next_bytes, labels)
    page.add("flintmq_retention_unread_unknown", int(bool(plan.unknown)), labels)
    for (group, topic), messages in unread_by_group(plan).items():
        if group is None:
            page.add("flintmq_retention_ungrouped_messages", messages, {**labels, "topic": topic})
        else:
            of = {**labels, "consumer_group": group, "topic": topic}
            page.add("flintmq_retention_unread_messages", messages, of)

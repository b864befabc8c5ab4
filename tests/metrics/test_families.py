"""The metrics of stores that Java wrote, against Java's own answers."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import flintmq
from flintmq.errors import UsageError
from flintmq.metrics.families import is_system
from tests.compat.stores import Golden
from tests.metrics.conftest import BROKERS
from tests.support.java_figures import bounds, lags, offsets, unread_below
from tests.support.object_server import Server
from tests.support.prometheus import only, samples


def milliseconds(begin_s: float) -> tuple[int, int]:
    """The time since a moment until now, as bounds for an age in ms."""
    return int(begin_s * 1000), time.time_ns() // 1_000_000


@pytest.mark.parametrize("name", ["config", "config540", "config550", "delay", "delay550"])
def test_lag_is_what_java_wrote(golden: Callable[[str], Golden], name: str) -> None:
    store, begin = golden(name), time.time()
    found = samples(flintmq.store_metrics(store.path))
    expected = lags(store)
    assert len(expected) >= 1
    shown = only(found, "rocketmq_consumer_lag_messages", "consumer_group", "topic")
    assert shown == {key: lag.messages for key, lag in expected.items()}
    ages = only(found, "rocketmq_consumer_lag_latency", "consumer_group", "topic")
    first, last = milliseconds(begin)
    for key, lag in expected.items():
        assert ages[key] == 0 if lag.oldest_ms is None else first <= ages[key] + lag.oldest_ms <= last


def test_lag_by_queue_is_there_if_it_is_asked_for(golden: Callable[[str], Golden]) -> None:
    store, name = golden("config"), "flintmq_group_queue_lag_messages"
    queues, labels = bounds(store), ("consumer_group", "topic", "queue_id")
    lagging = {
        (group, topic, str(queue)): queues[topic, queue][1] - at
        for (group, topic), places in offsets(store).items()
        for queue, at in places.items()
        if at < queues[topic, queue][1]
    }
    assert name not in samples(flintmq.store_metrics(store.path)) and len(lagging) > 5
    found = samples(flintmq.store_metrics(store.path, queue_lag=100))
    assert only(found, name, *labels) == lagging and only(found, "flintmq_group_queues_left_out") == {(): 0}
    found = samples(flintmq.store_metrics(store.path, queue_lag=3))
    shown = only(found, name, *labels)
    assert sorted(shown.values()) == sorted(lagging.values())[-3:] and shown.items() <= lagging.items()
    assert only(found, "flintmq_group_queues_left_out") == {(): len(lagging) - 3}
    with pytest.raises(UsageError, match="queue_lag -1 is negative"):
        flintmq.store_metrics(store.path, queue_lag=-1)


def test_lag_of_each_group_over_all_brokers(golden: Callable[[str], Golden], cluster: Path) -> None:
    found = samples(flintmq.store_metrics(f"{cluster}/{{broker}}/store"))
    summed: Counter[str] = Counter()
    for (_, group, _), value in only(
        found, "rocketmq_consumer_lag_messages", "node_id", "consumer_group", "topic"
    ).items():
        summed[group] += int(value)
    expected: Counter[str] = Counter()
    for name in BROKERS.values():
        for (group, _), lag in lags(golden(name)).items():
            expected[group] += lag.messages
    assert summed == expected and expected["TagGroup"] > 0
    assert {key for (key,) in only(found, "flintmq_store_up", "node_id")} == BROKERS.keys()


@pytest.mark.parametrize("name", ["basic", "config", "rolled", "batch", "v550", "flags"])
def test_topics_and_skew_are_javas(golden: Callable[[str], Golden], name: str) -> None:
    store = golden(name)
    found = samples(flintmq.store_metrics(store.path, set=store.config))
    queues: dict[str, list[int]] = {}
    for (topic, _), (low, high) in bounds(store).items():
        queues.setdefault(topic, []).append(high - low)
    some = {topic: sizes for topic, sizes in queues.items() if sum(sizes)}
    assert some
    messages = only(found, "flintmq_topic_messages", "topic")
    largest = only(found, "flintmq_topic_largest_queue_messages", "topic")
    share = only(found, "flintmq_topic_largest_queue_share", "topic")
    assert {topic for (topic,) in share} == some.keys()
    for topic, sizes in some.items():
        assert (messages[topic,], largest[topic,]) == (sum(sizes), max(sizes))
        assert share[topic,] == pytest.approx(max(sizes) / sum(sizes))


@pytest.mark.parametrize("name", ["basic", "config", "rolled", "v540"])
def test_log_and_state_are_javas(golden: Callable[[str], Golden], name: str) -> None:
    store, begin = golden(name), time.time()
    found = samples(flintmq.store_metrics(store.path, set=store.config))
    [java] = [row for row in store.queue_rows if row["kind"] == "store"]
    broker = (store.path.name,)
    assert only(found, "flintmq_log_begin_offset", "node_id") == {broker: java["min_physical_offset"]}
    assert only(found, "flintmq_log_end_offset", "node_id") == {broker: java["max_physical_offset"]}
    assert only(found, "flintmq_store_clean", "node_id") == {broker: 1} and not (store.path / "abort").exists()
    assert only(found, "flintmq_store_live", "node_id") == {broker: 0}
    assert only(found, "flintmq_log_damaged", "node_id") == {broker: 0}
    assert only(found, "rocketmq_storage_flush_behind_bytes", "node_id") == {broker: 0}
    assert only(found, "rocketmq_storage_dispatch_behind_bytes", "node_id") == {broker: 0}
    [age] = only(found, "rocketmq_storage_message_reserve_time", "node_id").values()
    first, last = milliseconds(begin)
    assert first <= age + store.rows[0]["store_timestamp"] <= last


def test_what_is_unread_and_goes_next(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """The first of two files of the log: 64 KiB."""
    store = golden("config")
    root = store.copy(tmp_path)
    written = int(time.time()) - 3600
    for file in (root / "commitlog").iterdir():
        os.utime(file, (written, written))
    found = samples(flintmq.store_metrics(root, set={"fileReservedTime": 100, "cleanFileForciblyEnable": False}))
    if only(found, "flintmq_disk_used_ratio", "node_id")["config",] < 0.75:  # else it goes as soon as it is old
        [when] = only(found, "flintmq_retention_next_deletion_timestamp_seconds", "node_id").values()
        assert written + 100 * 3600 <= when <= written + 125 * 3600 and time.localtime(when).tm_hour == 4
    assert only(found, "flintmq_retention_next_deletion_bytes", "node_id") == {("config",): 65536}
    expected = unread_below(store, 65536)
    batches = {"Bulk"}  # a row of it stands for several messages
    unread = only(found, "flintmq_retention_unread_messages", "consumer_group", "topic")
    assert unread["(delayed delivery)", "SCHEDULE_TOPIC_XXXX"] == 1  # as docs/operations/retention.md shows
    assert {key: value for key, value in unread.items() if value and key[0][0] != "("} == {
        key: value for key, value in expected.items() if key[0] is not None
    }
    ungrouped = only(found, "flintmq_retention_ungrouped_messages", "topic")
    assert {topic: value for (topic,), value in ungrouped.items() if topic not in batches} == {
        topic: value
        for (group, topic), value in expected.items()
        if group is None and topic not in batches and topic != "SCHEDULE_TOPIC_XXXX"
    }


def test_labels_are_rocketmqs(cluster: Path) -> None:
    manifest = cluster / "cluster.toml"
    manifest.write_text('cluster = "Flint\\"Cluster"\n[[stores]]\nstore = "broker-a/store"\nbroker = "a\\nb"\n')
    found = samples(flintmq.store_metrics(manifest))
    common = {"cluster": 'Flint"Cluster', "node_type": "broker", "node_id": "a\nb"}
    [size] = map(dict, found["rocketmq_storage_size"])
    assert size == {**common, "storage_type": "local", "storage_medium": "disk"}
    by_group = {dict(labels)["consumer_group"]: dict(labels) for labels in found["rocketmq_consumer_lag_messages"]}
    assert by_group["TxGroup"] == {
        **common, "consumer_group": "TxGroup", "topic": "Tx", "is_retry": "false", "is_system": "false",
    }  # fmt: skip
    assert by_group["CID_RMQ_SYS_TRANS"]["is_system"] == "true"


@pytest.mark.parametrize(
    ("topic", "group", "system"),
    [
        ("Trade", "g", False), ("SCHEDULE_TOPIC_XXXX", "g", True), ("TBW102", "g", True), ("rmq_sys_x", "g", True),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "g", True), ("Trade", "CID_RMQ_SYS_TRANS", True), ("Trade", "cid_rmq_sys_x", True),
        ("%RETRY%g", "g", False), ("RMQ_SYS_other", "g", False),
    ],
)  # fmt: skip
def test_system_topics_and_groups(topic: str, group: str, system: bool) -> None:
    """Upstream: TopicValidator.isSystemTopic, BrokerMetricsManager.isSystemGroup."""
    assert is_system(topic, group) == system


def test_odd_names_and_retries(tmp_path: Path) -> None:
    with flintmq.MessageStore(tmp_path) as store:
        for topic in ("库存", "%RETRY%g", "%LMQ%x"):
            assert store.put(flintmq.Message(topic, b"x")).status.name == "PUT_OK"
        store.commit_offset("g", "%RETRY%g", 0, 0)
        store.commit_offset("g", "库存", 0, 1)
        store.wait_dispatched(60)
    odd = 'a"b\\c\nd'
    os.makedirs(tmp_path / "consumequeue" / odd / "0")
    os.makedirs(os.fsencode(tmp_path) + b"/consumequeue/\xff\x1b/0")
    found = samples(flintmq.store_metrics(tmp_path))
    retry = {dict(labels)["topic"]: dict(labels)["is_retry"] for labels in found["rocketmq_consumer_lag_messages"]}
    assert retry == {"%RETRY%g": "true", "库存": "false"}
    topics = {topic for (topic,) in only(found, "flintmq_topic_messages", "topic")}
    assert {"库存", odd.replace("\\", r"\\"), "\\udcff\\x1b"} <= topics and "%LMQ%x" not in topics


def test_damage_at_the_end_is_a_metric(tmp_path: Path) -> None:
    """In the last record, which was on disk. Damage amid the log is found by verify, which reads all of it."""
    with flintmq.MessageStore(tmp_path) as store:
        for _ in range(20):
            store.put(flintmq.Message("T", b"x" * 100))
        end = store.stats().log_bytes
    [log] = (tmp_path / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(end - 140)  # in the body
        file.write(b"damage")
    found = samples(flintmq.store_metrics(tmp_path))
    assert only(found, "flintmq_log_damaged", "node_id") == {(tmp_path.name,): 1}
    assert only(found, "flintmq_store_notes", "code")["log-end",] == 1
    [stopped] = only(found, "flintmq_log_end_offset", "node_id").values()
    assert 0 < stopped <= end - 100


def test_a_store_on_object_storage(objects: Server, golden: Callable[[str], Golden]) -> None:
    """Its disk and what retention deletes are unknown; the rest is as on a disk."""
    store = golden("config")
    url = objects.put(store.path, "metrics-config")
    found = samples(flintmq.store_metrics([url], set=objects.keys))
    shown = only(found, "rocketmq_consumer_lag_messages", "consumer_group", "topic")
    assert shown == {key: lag.messages for key, lag in lags(store).items()}
    assert only(found, "flintmq_store_up", "node_id", "store") == {("metrics-config", url): 1}
    unknown = {"rocketmq_storage_size", "flintmq_disk_used_ratio", "flintmq_retention_unread_messages"}
    assert not unknown & found.keys()

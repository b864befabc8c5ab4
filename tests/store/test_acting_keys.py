"""Keys that change what the store does: another value of the key, another result (all:
tests/config/test_key_effects.py)."""

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flintmq.format.message_id import parse_offset_msg_id
from flintmq.store.message_store import MessageStore
from tests.store.services.test_retention import Disk, filled, log_files
from tests.support.engine import KEYS, message, open_small, put_all
from tests.support.threads import within

POOL = {"transientStorePoolEnable": "true"}
FAR = {"commitIntervalCommitLog": 100_000, "commitCommitLogThoroughInterval": 100_000}


@pytest.mark.parametrize(("pause_ms", "soon"), [(20, True), (100_000, False)])
def test_how_often_queues_are_flushed(tmp_path: Path, pause_ms: int, soon: bool):
    """flushIntervalConsumeQueue: the mark says how far queues are on disk."""
    with open_small(tmp_path, flushIntervalConsumeQueue=pause_ms, flushIntervalCommitLog=10) as store:
        put_all(store, 5)
        store.flush()
        # The default is 1 s.
        assert within(lambda: store._parts.small.mark.dispatched >= store._parts.log.end, 5 if soon else 1.6) is soon


@pytest.mark.parametrize(("timed", "soon"), [("false", True), ("true", False)])
def test_a_commit_from_the_pool_wakes_the_flush(tmp_path: Path, timed: str, soon: bool):
    """flushCommitLogTimed: else the flush waits for its own time."""
    keys: dict[str, Any] = {"flushIntervalCommitLog": 100_000, "flushCommitLogLeastPages": 0}
    with open_small(tmp_path, **POOL, **FAR, **keys, flushCommitLogTimed=timed) as store:
        time.sleep(0.1)  # its first look is past
        put_all(store, 5)
        assert store._parts.commits is not None and store._parts.commits.commit_once()
        assert within(lambda: store._parts.files.flushed_where == store._parts.log.end, 5 if soon else 0.4) is soon


@pytest.mark.parametrize(
    ("keys", "soon"),
    [
        ({"wakeCommitWhenPutMessage": "false"}, False),
        ({"wakeCommitWhenPutMessage": "true", "commitCommitLogLeastPages": 1}, True),
        ({"wakeCommitWhenPutMessage": "true", "commitCommitLogLeastPages": 100}, False),
        ({"wakeCommitWhenPutMessage": "false", "commitIntervalCommitLog": 10, "commitCommitLogLeastPages": 1}, True),
        ({"wakeCommitWhenPutMessage": "false", "commitIntervalCommitLog": 10, "commitCommitLogLeastPages": 100}, False),
        (
            {
                "wakeCommitWhenPutMessage": "false",
                "commitIntervalCommitLog": 10,
                "commitCommitLogLeastPages": 100,
                "commitCommitLogThoroughInterval": 10,
            },
            True,
        ),
    ],
)
def test_when_the_pool_is_committed(tmp_path: Path, keys: dict[str, Any], soon: bool):
    sizes = KEYS | {"mappedFileSizeCommitLog": 1 << 20}
    with MessageStore(tmp_path, config=sizes | POOL | FAR | keys, dispatch="external") as store:
        time.sleep(0.1)  # its first look is past
        for number in range(30):
            store.put(message(number, size=1000))  # seven pages
        assert store._parts.commits is not None
        assert within(lambda: store._parts.commits.done[1] > 0, 5 if soon else 0.4) is soon  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("keys", "host"),
    [
        ({}, "127.0.0.1:10911"),
        ({"brokerIP1": "10.1.2.255", "listenPort": 9876}, "10.1.2.255:9876"),
        ({"listenPort": "0"}, "127.0.0.1:0"),
    ],
)
def test_the_address_in_offset_message_ids(tmp_path: Path, keys: dict[str, Any], host: str):
    """brokerIP1, listenPort: single messages, batches and columns alike."""
    with open_small(tmp_path, **keys) as store:
        put_all(store, 1)
        store.put_batch([message(1), message(2)])
        assert store.put_columns("T", pa.record_batch({"body": [b"x"]}))
        assert store.wait_dispatched(60)
        found = store.get("T", 0, 0).messages
        assert [one.store_host for one in found] == [host] * 4
        for one in found:
            address, port, at = parse_offset_msg_id(one.offset_msg_id)
            assert (f"{address}:{port}", at) == (host, one.physical_offset)
            assert store.get_by_offset_msg_id(one.offset_msg_id) == one


@pytest.mark.parametrize("most", [2, 5])
def test_the_most_that_a_query_answers(tmp_path: Path, most: int):
    """maxMsgsNumBatch: the newest of them."""
    with open_small(tmp_path, maxMsgsNumBatch=most) as store:
        for number in range(8):
            store.put(message(1, queue_id=number % 2))
        assert store.wait_dispatched(60)
        assert len(store.query("T", "k1")) == most


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({}, 8),
        ({"maxTransferCountOnMessageInDisk": 3}, 3),
        ({"maxTransferBytesOnMessageInDisk": 500}, 4),
        ({"maxTransferCountOnMessageInDisk": 3, "accessMessageInMemoryMaxRatio": 40}, 10),  # a file of units
    ],
)
def test_what_a_get_answers_of_messages_far_behind(tmp_path: Path, keys: dict[str, int], count: int):
    """With accessMessageInMemoryMaxRatio=0 every message is far behind."""
    with open_small(tmp_path, **{"accessMessageInMemoryMaxRatio": 0, **keys}) as store:
        sizes = {result.size for result in put_all(store, 20)}
        assert store.wait_dispatched(60)
        got = store.get("T", 0, 0, 20).messages
        assert len(got) == (500 // max(sizes) if "maxTransferBytesOnMessageInDisk" in keys else count)


@pytest.mark.parametrize(("units", "found"), [(8, False), (9, True)])
def test_how_far_a_get_with_a_filter_looks(tmp_path: Path, units: int, found: bool):
    """maxFilterMessageSize: bytes of queue units."""
    with open_small(tmp_path, maxFilterMessageSize=20 * units) as store:
        for number in range(8):
            store.put(message(3 * number))
        store.put(message(1))  # the ninth has another tag
        assert store.wait_dispatched(60)
        assert bool(store.get("T", 0, 0, 1, tags="t1").messages) is found


@pytest.mark.parametrize(
    ("key", "value", "folder", "size"),
    [
        ("mappedFileSizeCommitLog", 8192, "commitlog", 8192),
        ("mappedFileSizeCommitLog", 12288, "commitlog", 12288),
        ("mappedFileSizeConsumeQueue", 100, "consumequeue/T/0", 100),
        ("mappedFileSizeConsumeQueue", 301, "consumequeue/T/0", 320),  # whole units of 20 bytes
        ("mapperFileSizeBatchConsumeQueue", 92, "batchconsumequeue/B/0", 92),
        ("mapperFileSizeBatchConsumeQueue", 184, "batchconsumequeue/B/0", 184),
        ("maxHashSlotNum", 16, "index", 40 + 4 * 16 + 20 * 32),
        ("maxHashSlotNum", 24, "index", 40 + 4 * 24 + 20 * 32),
        ("maxIndexNum", 12, "index", 40 + 4 * 8 + 20 * 12),
        ("maxIndexNum", 20, "index", 40 + 4 * 8 + 20 * 20),
    ],
)
def test_the_size_of_files(tmp_path: Path, key: str, value: int, folder: str, size: int):
    """By RocketMQ's layouts; files go on into the next where one is full, and a restart reads all of them."""
    with open_small(tmp_path, **{key: value}) as store:
        store.create_topic("B", 1, "BatchCQ")
        for number in range(40):
            store.put(message(number, size=600))
        for _ in range(5):
            assert store.put_batch([message(1, "B"), message(2, "B")])[0].outcome.name == "OK"
        assert store.wait_dispatched(60)
    sizes = {os.path.getsize(file) for file in (tmp_path / folder).iterdir()}
    assert sizes == {size} and len(list((tmp_path / folder).iterdir())) >= 2
    with open_small(tmp_path, **{key: value}) as store:
        assert (store.get("T", 0, 0).max_offset, store.get("B", 0, 0).max_offset) == (40, 10)
        assert store.query("T", "k39")[0].queue_offset == 39


@pytest.mark.parametrize("most", [1, 3, 10])
def test_how_many_files_go_at_once(tmp_path: Path, most: int):
    """deleteFileBatchMax, and never the last file; the rest goes the next time."""
    with filled(tmp_path, Disk(used=86), files=6, deleteFileBatchMax=most) as store:
        store._parts.retention.clean_once()
        assert log_files(store) == list(range(min(most, 5), 6))
        store._parts.retention.clean_once()
        assert log_files(store) == list(range(min(2 * most, 5), 6))


@pytest.mark.parametrize("pause_ms", [0, 250])
def test_the_pause_between_two_files_that_go(tmp_path: Path, pause_ms: int):
    """deleteCommitLogFilesInterval: none before the first."""
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=4, deleteCommitLogFilesInterval=pause_ms) as store:
        disk.slept.clear()
        store._parts.retention.clean_once()
        assert log_files(store) == [3] and disk.slept == [pause_ms / 1000] * 2


@pytest.mark.parametrize("limit_ms", [1000, 9000])
def test_how_long_a_reader_keeps_a_name(tmp_path: Path, limit_ms: int):
    """destroyMapedFileIntervalForcibly."""
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=3, destroyMapedFileIntervalForcibly=limit_ms) as store:
        first = store._parts.files.files[0]
        assert first.hold()
        disk.ticks = 1000.0
        store._parts.retention.clean_once()
        disk.ticks += limit_ms / 1000 - 0.1
        store._parts.retention.clean_once()
        assert log_files(store) == [0, 1, 2]
        disk.ticks += 0.2
        store._parts.retention.clean_once()
        assert log_files(store) == [2]
        first.release()


@pytest.mark.parametrize(
    ("keys", "soon"),
    [
        ({"flushIntervalCommitLog": 10, "flushCommitLogLeastPages": 1}, True),
        ({"flushIntervalCommitLog": 10, "flushCommitLogLeastPages": 100}, False),
        ({"flushIntervalCommitLog": 100_000, "flushCommitLogLeastPages": 1}, False),
        ({"flushIntervalCommitLog": 10, "flushCommitLogLeastPages": 100, "flushCommitLogThoroughInterval": 10}, True),
    ],
)
def test_when_the_log_is_flushed(tmp_path: Path, keys: dict[str, Any], soon: bool):
    far: dict[str, Any] = {"flushCommitLogThoroughInterval": 100_000, "mappedFileSizeCommitLog": 1 << 20}
    with MessageStore(tmp_path, config=KEYS | far | keys, dispatch="external") as store:
        time.sleep(0.1)  # its first look is past
        for number in range(30):
            store.put(message(number, size=1000))  # seven pages
        assert within(lambda: store._parts.files.flushed_where > 0, 5 if soon else 0.4) is soon


@pytest.mark.parametrize(("pause_ms", "soon"), [(20, True), (100_000, False)])
def test_how_often_consumer_offsets_are_saved(tmp_path: Path, pause_ms: int, soon: bool):
    """flushConsumerOffsetInterval."""
    keys: dict[str, Any] = {"flushConsumerOffsetInterval": pause_ms, "flushDelayOffsetInterval": 100_000}
    with open_small(tmp_path, **keys) as store:
        put_all(store, 3)
        store.commit_offset("g", "T", 0, 2)
        saved = tmp_path / "config" / "consumerOffset.json"
        assert within(lambda: saved.exists() and b"T@g" in saved.read_bytes(), 5 if soon else 0.5) is soon

"""Topics and offsets of a whole store: made by puts and calls, there after closing, and but for 5 s after a kill."""

import os
import time
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.store.config_files import read_config
from tests.storage.faults import Faulty
from tests.store.engine import FIRST_LOG, open_small


def test_a_put_makes_its_topic(tmp_path):
    with open_small(tmp_path / "s", defaultTopicQueueNums=4) as store:
        store.put(Message("T", b"x"))
        store.put(Message("U", b"x", queue_id=6))
    found = read_config(str(tmp_path / "s"))
    assert {name: topic.write_queues for name, topic in found.topics.items()} == {"T": 4, "U": 7}
    with open_small(tmp_path / "s") as store:
        assert store._keeping.topics.queue_count("T") == 4


def test_created_topics_are_on_disk_at_once(tmp_path):
    store = open_small(tmp_path / "s")
    store.create_topic("orders")
    assert read_config(str(tmp_path / "s")).topics["orders"].read_queues == 8
    store.close()


def test_offsets_are_kept(tmp_path):
    with open_small(tmp_path / "s") as store:
        assert store.consumer_offset("g", "T", 0) is None
        store.commit_offset("g", "T", 0, 12)
        assert store.consumer_offset("g", "T", 0) == 12
    with open_small(tmp_path / "s") as store:
        assert store.consumer_offset("g", "T", 0) == 12
    found = read_config(str(tmp_path / "s"))
    assert found.consumer_offsets == {("T", "g"): {0: 12}} and list(found.groups) == ["g"]


def test_a_kill_costs_at_most_the_last_interval(tmp_path):
    child = os.fork()
    if child == 0:
        store = open_small(tmp_path / "s", flushConsumerOffsetInterval=50)
        store.commit_offset("g", "T", 0, 1)
        limit = time.monotonic() + 10
        while not (tmp_path / "s/config/consumerOffset.json").exists() and time.monotonic() < limit:
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    with open_small(tmp_path / "s") as store:
        assert store.consumer_offset("g", "T", 0) == 1


def test_an_offset_waits_for_its_message_to_be_on_disk(tmp_path):
    """Else a power cut could give the same queue offset to another message, which the group would never see."""
    disk = Faulty()
    with open_small(tmp_path / "s", disk) as store:
        store.put(Message("T", b"x"))
        store.commit_offset("g", "T", 0, 1)
        store._keeping.save_once()
        synced = [n for n, call in enumerate(disk.calls) if call[0] == "sync" and FIRST_LOG in call[1]]
        named = [n for n, call in enumerate(disk.calls) if call[0] == "rename" and "consumerOffset" in call[1]]
        assert synced[-1] < named[0] and store._flush.files.flushed_where == store._log.end


def test_a_poisoned_store_writes_no_offsets(tmp_path):
    disk = Faulty()
    store = open_small(tmp_path / "s", disk)
    store.put(Message("T", b"x"))
    store.commit_offset("g", "T", 0, 1)
    disk.refuse("sync", "commitlog")
    store._keeping.save_once()
    store.close()
    assert not (tmp_path / "s/config").exists()


def test_a_topic_has_one_type_of_queues_for_good(tmp_path: Path):
    with open_small(tmp_path) as store:
        store.put(Message("put", b"x"))
        store.create_topic("simple", 2)
        store.create_topic("batch", 2, "BatchCQ")
        store.create_topic("batch", 4, "BatchCQ")
        for name, kind in (("put", "BatchCQ"), ("simple", "BatchCQ"), ("batch", "SimpleCQ")):
            with pytest.raises(UsageError, match="other type"):
                store.create_topic(name, 2, kind)
        with pytest.raises(UsageError, match="SimpleCQ or BatchCQ"):
            store.create_topic("new", 2, "RocksDBCQ")
    with open_small(tmp_path) as store:
        assert store._keeping.batch == {"batch"}
    assert read_config(str(tmp_path)).is_batch("batch")

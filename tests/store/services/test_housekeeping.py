"""Topics and offsets of a whole store: made by puts and calls, there after closing, and but for 5 s after a kill."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.format import config_json
from flintmq.message import Message
from flintmq.store.layout.config_reader import read_config
from flintmq.store.services.housekeeping import ConfigTables, Housekeeping, KnownTopics
from tests.support.engine import FIRST_LOG, open_small
from tests.support.faults import Faulty, close_unclean
from tests.support.threads import within


def test_a_put_makes_its_topic(tmp_path):
    with open_small(tmp_path / "s", defaultTopicQueueNums=4) as store:
        store.put(Message("T", b"x"))
        store.put(Message("U", b"x", queue_id=6))
    found = read_config(str(tmp_path / "s"))
    assert {name: topic.write_queues for name, topic in found.topics.items()} == {"T": 4, "U": 7}
    with open_small(tmp_path / "s") as store:
        assert store._parts.housekeeping.topics.queue_count("T") == 4


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
        assert within((tmp_path / "s/config/consumerOffset.json").exists)
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
        store._parts.housekeeping.save_once()
        synced = [n for n, call in enumerate(disk.calls) if call[0] == "sync" and FIRST_LOG in call[1]]
        named = [n for n, call in enumerate(disk.calls) if call[0] == "rename" and "consumerOffset" in call[1]]
        assert synced[-1] < named[0] and store._parts.flush.files.flushed_where == store._parts.log.end


def test_a_poisoned_store_writes_no_offsets(tmp_path):
    disk = Faulty()
    store = open_small(tmp_path / "s", disk)
    store.put(Message("T", b"x"))
    store.commit_offset("g", "T", 0, 1)
    disk.refuse("sync", "commitlog")
    store._parts.housekeeping.save_once()
    close_unclean(store)
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
        assert store._parts.housekeeping.known.batch == {"batch"}
    assert read_config(str(tmp_path)).is_batch("batch")


class Still(Faulty):
    """A disk whose clock stands."""

    def monotonic(self) -> float:
        return 500.0


class Around:
    """A keeping, and the parts of a store that it is given, which do nothing."""

    def __init__(self, root: Path, peer: str = "5.3.3", **keys: str) -> None:
        self.places: list[tuple[bytes, int]] = []
        self.flushes, self.new, self.disk = True, [], Still()
        self.delay: Any = SimpleNamespace(deliver_once=lambda: False)
        self.retention: Any = SimpleNamespace(clean_once=lambda: False, root=str(root))
        config = StoreConfig().with_keys(keys)
        self.keeping = Housekeeping(
            config,
            self.disk,
            tables=ConfigTables.of(str(root), config, self.disk, peer),
            known=KnownTopics(lambda: self.places, set(), self.new.append),
            flush=lambda: self.flushes,
            delay=self.delay,
            retention=self.retention,
        )


@pytest.mark.parametrize(("lmq", "offsets"), [("false", "consumerOffset.json"), ("true", "lmqConsumerOffset.json")])
def test_the_files_have_the_tables_of_rocketmq_s(tmp_path: Path, lmq: str, offsets: str):
    keeping = Around(tmp_path, enableLmq=lmq).keeping
    for file in keeping.files:
        file.changed = True
    keeping.save_now()
    found = {path.name: set(config_json.parse(path.read_bytes())) for path in (tmp_path / "config").iterdir()}
    assert found == {
        "topics.json": {"dataVersion", "topicConfigTable"},
        "subscriptionGroup.json": {"dataVersion", "forbiddenTable", "subscriptionGroupTable"},
        offsets: {"dataVersion", "offsetTable"},
        "delayOffset.json": {"dataVersion", "offsetTable"},
    }


@pytest.mark.parametrize("peer", ["5.3.3", "5.4.0", "5.5.0"])
def test_the_files_are_written_as_the_store_s_version_does(tmp_path: Path, peer: str):
    assert [file.peer for file in Around(tmp_path, peer).keeping.files] == [peer] * 4


SAVE, CLEAN, DELIVER = "save", "clean", "deliver"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {SAVE: (5, 5), CLEAN: (10, 60), DELIVER: (0.1, 1)}),
        ({"flushConsumerOffsetInterval": "20000"}, {SAVE: (10, 10), CLEAN: (10, 60), DELIVER: (0.1, 1)}),
        ({"flushDelayOffsetInterval": "1"}, {SAVE: (0.1, 0.1), CLEAN: (10, 60), DELIVER: (0.1, 1)}),
        ({"cleanResourceInterval": "0"}, {SAVE: (5, 5), CLEAN: (0.001, 60), DELIVER: (0.1, 1)}),
        ({"brokerRole": "SYNC_MASTER"}, {SAVE: (5, 5), CLEAN: (10, 60), DELIVER: (0.1, 1)}),
        ({"brokerRole": "SLAVE"}, {SAVE: (5, 5), CLEAN: (10, 60)}),  # gets what its master delivered
    ],
)
def test_when_its_services_run(tmp_path: Path, keys: dict[str, str], expected: dict[str, tuple[float, float]]):
    """Seconds between two runs, and before the first one; what is slow has a thread of its own."""
    around = Around(tmp_path, **keys)
    keeping = around.keeping
    names = {keeping.save_once: SAVE, around.retention.clean_once: CLEAN, around.delay.deliver_once: DELIVER}
    threads = {upkeep._service.name: upkeep._jobs for upkeep in (keeping._upkeep, keeping._cleaning)}
    jobs = [job for each in threads.values() for job in each]
    got = {names[job.step]: (job.interval, pytest.approx(job.due - 500.0)) for job in jobs}
    assert got == expected and len(jobs) == len(expected)
    assert [names[job.step] for job in threads["flintmq-retention"]] == [CLEAN] and "flintmq-upkeep" in threads


def test_its_services_work_on_the_parts_of_the_store(tmp_path: Path):
    with open_small(tmp_path / "store") as store:
        parts = store._parts
        delay = parts.housekeeping.delay
        assert (delay.queues, delay.lookup, delay.put) == (parts.queues, parts.reader.record, parts.puts.put)
        assert delay.file.name == "delayOffset.json" and delay.file in parts.housekeeping.files
        assert delay.effects is parts.small.effects and parts.housekeeping.retention is parts.retention
    around = Around(tmp_path, messageDelayLevel="1s 5s 10s")
    around.places = [(b"SCHEDULE_TOPIC_XXXX", 0)]
    assert around.keeping.save_once() is False, "nothing is left to do: else it would be called again at once"
    assert around.keeping.topics.queue_count("SCHEDULE_TOPIC_XXXX") == 3


def test_topics_are_looked_for_when_there_are_new_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    around, seen = Around(tmp_path), []
    learn = around.keeping.topics.learn
    monkeypatch.setattr(around.keeping.topics, "learn", lambda places, b: (seen.append(list(places)), learn(places, b)))
    first, second = [(b"T", 0)], [(b"T", 0), (b"U", 9)]
    for around.places in ([], first, first, second, second):
        around.keeping.save_once()
    assert seen == [[], first, second]
    found = read_config(str(tmp_path))
    assert {name: topic.write_queues for name, topic in found.topics.items()} == {"T": 8, "U": 10}


@pytest.mark.parametrize(("changed", "flushes"), [(False, False), (False, True), (True, True), (True, False)])
def test_what_is_saved_now_is_durable_or_refused(tmp_path: Path, changed: bool, flushes: bool):
    around = Around(tmp_path)
    around.flushes = flushes
    if changed:
        around.keeping.offsets.commit("g", "T", 0, 12)
    if changed and not flushes:
        said = "^offsets are not written: the log could not be flushed; restart the store$"
        with pytest.raises(StoreError, match=said):
            around.keeping.save_now()
    else:
        around.keeping.save_now()
    assert read_config(str(tmp_path)).consumer_offsets == ({("T", "g"): {0: 12}} if changed and flushes else {})


def test_a_topic_that_was_put_a_moment_ago_has_a_type_already(tmp_path: Path):
    around = Around(tmp_path)
    around.places = [(b"put", 0)]
    with pytest.raises(UsageError, match="topic 'put' exists with queues of the other type"):
        around.keeping.create("put", 2, "BatchCQ")
    around.keeping.create("other", 2, "BatchCQ")
    assert around.new == ["other"]


def test_offsets_are_saved_by_the_close_where_dispatch_has_stopped(tmp_path):
    """They are promised by `close`, and need no queues."""
    store = open_small(tmp_path)
    (tmp_path / "consumequeue").write_bytes(b"a file in the place of a directory")
    store.put(Message("T", b"x"))
    assert not store.wait_dispatched(60)
    store.commit_offset("g", "T", 0, 1)
    store.close()
    assert '"T@g":{0:1}' in (tmp_path / "config/consumerOffset.json").read_text().replace("\n", "").replace("\t", "")
    assert (tmp_path / "abort").exists(), "not everything was dispatched"

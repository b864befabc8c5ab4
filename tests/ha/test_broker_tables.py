"""The tables of a broker in the store of its follower, before it is opened and while it runs."""

import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import ReplicationError, UsageError
from flintmq.ha.broker_tables import BrokerTables
from flintmq.ha.metadata import BrokerFacts
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore

SIZES = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}


def facts(topics: dict[str, Any], offsets: dict[str, Any] | None = None, **config: str) -> BrokerFacts:
    """What a broker with these topics says."""
    tables = {
        "topics.json": {"dataVersion": {"counter": 1}, "topicConfigTable": topics},
        "consumerOffset.json": {"dataVersion": {"counter": 1}, "offsetTable": offsets or {}},
    }
    return BrokerFacts({key: str(value) for key, value in SIZES.items()} | config, 0, 0, tables, 493)


class Asked:
    """A broker that answers with what the test sets; an error is raised."""

    def __init__(self, first: BrokerFacts | Exception) -> None:
        self.next, self.count = first, 0

    def __call__(self, address: str) -> BrokerFacts:
        self.count += 1
        if isinstance(self.next, Exception):
            raise self.next
        return self.next


def tables_of(asked: Asked, every_s: float = 60.0) -> BrokerTables:
    """The tables of a broker at an address that nobody calls."""
    return BrokerTables("127.0.0.1:10911", REAL, every_s=every_s, fetch=asked)


def opened(root: Path, tables: BrokerTables) -> MessageStore:
    """A store in role SLAVE with the broker's tables."""
    config = tables.begin(str(root), StoreConfig.from_keys({"brokerRole": "SLAVE"}))
    tables.save(str(root))
    assert tables.facts is not None
    return MessageStore(root, config, peer=tables.facts.peer)


def test_the_brokers_sizes_count_unless_they_are_given(tmp_path: Path):
    asked = Asked(facts({}, messageDelayLevel="1s 9s"))
    tables = tables_of(asked)
    config = tables.begin(str(tmp_path / "a"), StoreConfig.from_keys({"maxIndexNum": 77}))
    assert not (tmp_path / "a").exists()
    files = tables.save(str(tmp_path / "a"))
    assert (config.mapped_file_size_commit_log, config.max_index_num, config.max_hash_slot_num) == (65536, 77, 500)
    assert config.message_delay_level == "1s 9s" and files == ["topics.json", "consumerOffset.json"]
    (tmp_path / "b/commitlog").mkdir(parents=True)
    config = tables_of(asked).begin(str(tmp_path / "b"), StoreConfig.from_keys({}))
    assert "mappedFileSizeCommitLog" not in config.given, "a store that is there has sizes of its own"
    assert config.message_delay_level == "1s 9s"


def test_a_store_that_is_there_gets_the_tables_once_the_logs_agree(tmp_path: Path):
    MessageStore(tmp_path, SIZES).close()
    tables = tables_of(Asked(facts({"A": {"topicName": "A"}})))
    config = tables.begin(str(tmp_path), StoreConfig.from_keys({"brokerRole": "SLAVE"}))
    assert tables.save(str(tmp_path)) == [] and not (tmp_path / "config").exists()
    with MessageStore(tmp_path, config) as store:
        tables.start(store)
        assert tables.take(store, agreed=False) is None and read_config(str(tmp_path)).topics == {}
        event = tables.take(store, agreed=True)
        assert event == {"event": "metadata", "files": ["topics.json", "consumerOffset.json"]}
        assert set(read_config(str(tmp_path)).topics) == {"A"}
        assert tables.take(store) is None
        tables.stop()


def test_another_size_than_the_brokers_is_refused_and_nothing_written(tmp_path: Path):
    given = StoreConfig.from_keys({"mappedFileSizeCommitLog": 1 << 20})
    with pytest.raises(ReplicationError, match="65536 bytes") as caught:
        tables_of(Asked(facts({}))).begin(str(tmp_path / "a"), given)
    assert caught.value.reason == "geometry" and not (tmp_path / "a").exists()


@pytest.mark.parametrize("error", [ReplicationError("config", "no"), ConnectionError("gone")])
def test_a_broker_that_refuses_first_leaves_nothing(tmp_path: Path, error: Exception):
    with pytest.raises(type(error)):
        tables_of(Asked(error)).begin(str(tmp_path / "a"), StoreConfig.from_keys({}))
    assert not (tmp_path / "a").exists()


def test_batch_topics_are_known_before_the_first_record(tmp_path: Path):
    bulk = {"Bulk": {"topicName": "Bulk", "attributes": {"queue.type": "BatchCQ"}}}
    tables = tables_of(Asked(facts(bulk)))
    with opened(tmp_path, tables) as store:
        assert store._parts.housekeeping.known.batch == {"Bulk"}
        tables.start(store)
        more = bulk | {"More": {"topicName": "More", "attributes": {"queue.type": "BatchCQ"}}}
        written = store._parts.housekeeping.follow(facts(more).tables)
        assert written == ["topics.json"] and store._parts.housekeeping.known.batch == {"Bulk", "More"}
        assert b"More" in store._parts.dispatch.dispatcher.rules.batch_topics
        tables.stop()


def test_an_open_store_keeps_what_the_broker_says(tmp_path: Path):
    asked = Asked(facts({"A": {"topicName": "A"}, "B": {"topicName": "B"}}, {"A@G": {0: 4}, "B@G": {0: 1}}))
    tables = tables_of(asked, every_s=0.02)
    with opened(tmp_path, tables) as store:
        keeping = store._parts.housekeeping
        tables.start(store)
        with pytest.raises(UsageError, match="follows a broker"):
            store.create_topic("Own")
        with pytest.raises(UsageError, match="follows a broker"):
            store.commit_offset("G", "A", 0, 9)
        keeping.topics.learn([(b"A", 3)], ())  # as if the log had a queue that the broker does not name
        asked.next = facts({"A": {"topicName": "A"}}, {"A@G": {0: 7}})
        assert wait_event(tables, store) == {"event": "metadata", "files": ["topics.json", "consumerOffset.json"]}
        assert store.consumer_offset("G", "A", 0) == 7 and store.consumer_offset("G", "B", 0) is None
        asked.next = ConnectionError("gone\nfor now")
        assert wait_event(tables, store) == {"event": "lost", "what": "tables", "reason": "gone\nfor now"}
        asked.next = ReplicationError("config", "refused")
        time.sleep(0.1)
        assert tables.take(store) is None, "reported once, and not the end"
        tables.stop()
    config = read_config(str(tmp_path))
    assert set(config.topics) == {"A"} and config.consumer_offsets == {("A", "G"): {0: 7}}


def test_the_log_adds_no_topic_to_a_brokers_table(tmp_path: Path):
    """A slave learns topics from its log; not while it follows a broker's tables."""
    with MessageStore(tmp_path, SIZES | {"brokerRole": "SLAVE"}) as store:
        keeping = store._parts.housekeeping
        keeping.known = type(keeping.known)(lambda: [(b"Seen", 0)], set(), lambda topic: None)
        keeping.follow({"topics.json": {"topicConfigTable": {"A": {"topicName": "A"}}}})
        keeping.save_once()
        assert set(read_config(str(tmp_path)).topics) == {"A"}
        keeping.followed = False
        keeping.save_once()
        assert set(read_config(str(tmp_path)).topics) == {"A", "Seen"}


def wait_event(tables: BrokerTables, store: MessageStore) -> dict[str, Any]:
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        if (event := tables.take(store)) is not None:
            return event
        time.sleep(0.005)
    raise AssertionError("no event came")

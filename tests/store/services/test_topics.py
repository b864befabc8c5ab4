from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.config_writer import ConfigFile
from flintmq.store.services.topics import Topics, TopicSettings
from tests.support.engine import open_small


@pytest.fixture
def topics(tmp_path):
    return Topics(ConfigFile(str(tmp_path), "topics.json", ("topicConfigTable",), REAL, "5.3.3"), 8, 18)


def test_a_topic_as_a_broker_makes_it(topics):
    topics.create("orders", 3)
    assert topics.file.value["topicConfigTable"]["orders"] == {  # the fields of a broker's own file (golden config)
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": 3, "topicFilterType": "SINGLE_TAG",
        "topicName": "orders", "topicSysFlag": 0, "writeQueueNums": 3,
    }  # fmt: skip
    assert topics.file.changed and topics.queue_count("orders") == 3 and topics.queue_count("x") is None


def test_another_number_keeps_the_rest(topics):
    with topics.file.lock:
        topics.file.table("topicConfigTable")["t"] = {"perm": 4, "extra": 1, "readQueueNums": 1, "writeQueueNums": 1}
    topics.create("t", 5)
    assert topics.file.value["topicConfigTable"]["t"] == {
        "perm": 4, "extra": 1, "readQueueNums": 5, "writeQueueNums": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "queues"), [("", 1), ("a/b", 1), ("t" * 128, 1), ("%LMQ%x", 1), ("t", 0), ("t", 1025), ("..", 4)]
)
def test_what_is_refused(topics, name, queues):
    with pytest.raises(UsageError, match="use|give"):
        topics.create(name, queues)
    assert not topics.file.changed


def test_what_a_put_creates(topics):
    places = [(b"a", 0), (b"b", 2), (b"b", 11), (b"SCHEDULE_TOPIC_XXXX", 2), (b"%RETRY%g", 0), (b"%LMQ%q", 0),
              ("主题".encode(), 1), (b"wide", 2_000_000_000), (b"bulk", 1)]  # fmt: skip
    topics.learn(places, {"bulk"})
    table = topics.file.value["topicConfigTable"]
    assert {name: topic["writeQueueNums"] for name, topic in table.items()} == {
        "a": 8, "b": 12, "SCHEDULE_TOPIC_XXXX": 18, "%RETRY%g": 1, "主题": 8, "wide": 8, "bulk": 8,
    }  # fmt: skip
    assert [name for name, topic in table.items() if topic["attributes"] == {"queue.type": "BatchCQ"}] == ["bulk"]
    topics.file.changed = False
    topics.learn(places, {"bulk"})
    assert not topics.file.changed
    topics.learn([(b"a", 9)], ())
    assert topics.queue_count("a") == 10, "consumers must see every queue that holds messages"


def test_all_settings_of_a_topic_replace_what_it_had_and_keep_unknown_fields(topics):
    topics.create("orders", 3)
    with topics.file.lock:
        topics.file.table("topicConfigTable")["orders"]["extra"] = 1
    settings = TopicSettings(4, 2, 4, order=True, attributes={"message.type": "FIFO"})
    topics.create("orders", settings)
    assert topics.file.value["topicConfigTable"]["orders"] == {
        "attributes": {"message.type": "FIFO"}, "order": True, "perm": 4, "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG", "topicName": "orders", "topicSysFlag": 0, "writeQueueNums": 2, "extra": 1,
    }  # fmt: skip
    assert topics.settings("orders") == settings and topics.settings("x") is None
    topics.create("orders", 5)
    assert topics.all_settings() == {"orders": replace(settings, read_queues=5, write_queues=5)}, "a number only"
    topics.remove("orders")
    assert topics.all_settings() == {}


def test_settings_of_a_file_that_lacks_some_have_rocketmqs_defaults(topics):
    with topics.file.lock:
        topics.file.table("topicConfigTable").update(bare={}, odd={"order": "yes", "attributes": {"a": 1, "b": "c"}})
    assert topics.settings("bare") == TopicSettings(16, 16)
    assert topics.settings("odd") == TopicSettings(16, 16, attributes={"b": "c"})


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (TopicSettings(0), "0 queues"),
        (TopicSettings(1, 1025), "1025 queues"),
        (TopicSettings(perm=8), "perm 8"),
        (TopicSettings(perm=-1), "perm -1"),
        (TopicSettings(attributes={"": "x"}), "attribute ''"),
        (TopicSettings(attributes={"a": "\ud800"}), "no Unicode"),
        (TopicSettings(attributes={"queue.type": "Other"}), "SimpleCQ or BatchCQ"),
    ],
)
def test_settings_that_are_refused(topics, settings, error):
    with pytest.raises(UsageError, match=error):
        topics.create("t", settings)
    assert not topics.file.changed


@pytest.mark.parametrize(
    "wrong", [{"read_queues": "1"}, {"order": "no"}, {"perm": None}, {"attributes": {"a": 1}}, {"write_queues": True}]
)
def test_settings_of_another_type_are_refused(topics, wrong):
    with pytest.raises(TypeError, match="is of type"):
        topics.create("t", TopicSettings(**wrong))
    assert not topics.file.changed


def test_settings_that_are_asked_for_again_and_again(tmp_path: Path):
    """They are kept as objects, and are those of the file after each change of it."""
    with open_small(tmp_path / "s") as store:
        for queues in (4, 8, 2):
            store.create_topic("T", queues)
            for _ in range(2):
                found = store.topic("T")
                assert found is not None and found.write_queues == queues
        store.put(Message("T", queue_id=5))
        store.put(Message("New", queue_id=1))
        assert {name: one.write_queues for name, one in store.topics().items()} == {"T": 6, "New": 8}
        for name, queues in (("T", 6), ("New", 8)):
            found = store.topic(name)
            assert found is not None and found.write_queues == queues
        assert store.topic("None") is None
        store.create_topic("None", 1)
        assert store.topic("None") is not None

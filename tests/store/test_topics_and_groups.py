"""Topics, groups and offsets as a user of MessageStore asks for them."""

import json

import pytest

from flintmq import GroupSettings, Message, MessageStore, TopicSettings
from flintmq.errors import UsageError
from flintmq.store.layout.config_reader import read_config
from tests.support.engine import open_small


def test_settings_of_a_topic_are_on_disk_and_come_back(tmp_path):
    settings = TopicSettings(4, 2, 4, order=True, attributes={"message.type": "FIFO"})
    with open_small(tmp_path) as store:
        store.create_topic("orders", settings)
        assert read_config(str(tmp_path)).topics["orders"].write_queues == 2
        assert store.topic("orders") == settings and store.topic("x") is None
    with open_small(tmp_path) as store:
        assert store.topics() == {"orders": settings}


def test_a_topic_is_there_as_soon_as_it_has_a_message(tmp_path):
    with MessageStore(tmp_path, dev=True, services=False) as store:
        store.put(Message("a", b"1")).raise_for_status()
        assert store.topic("a") == TopicSettings(8, 8)
        store.put(Message("b", b"1", queue_id=11)).raise_for_status()
        assert store.topics() == {"a": TopicSettings(8, 8), "b": TopicSettings(12, 12)}


def test_a_put_beyond_the_write_queues_widens_the_topic(tmp_path):
    with open_small(tmp_path) as store:
        store.create_topic("a", TopicSettings(4, 2, attributes={"message.type": "FIFO"}))
        store.put(Message("a", b"1", queue_id=5)).raise_for_status()
        store._parts.housekeeping.save_once()
        assert store.topic("a") == TopicSettings(6, 6, attributes={"message.type": "FIFO"})


def test_the_attribute_says_the_type_of_the_queues(tmp_path):
    with open_small(tmp_path) as store:
        store.create_topic("batches", TopicSettings(1, 1, attributes={"queue.type": "BatchCQ"}))
        store.create_topic("others", TopicSettings(1, 1), "BatchCQ")
        for topic in ("batches", "others"):
            assert store.topics()[topic].attributes == {"queue.type": "BatchCQ"}
            store.put_batch([Message(topic, b"1"), Message(topic, b"2")])
        store.wait_dispatched(60)
        assert (tmp_path / "batchconsumequeue" / "batches").is_dir()
        with pytest.raises(UsageError, match="of the other type"):
            store.create_topic("batches", TopicSettings(2, 2))
        with pytest.raises(UsageError, match="queue_type='BatchCQ'"):
            store.create_topic("new", TopicSettings(attributes={"queue.type": "SimpleCQ"}), "BatchCQ")


def test_groups_and_their_offsets(tmp_path):
    settings = GroupSettings(retry_max_times=3, attributes={"k": "v"})
    with open_small(tmp_path) as store:
        store.create_group("made", settings)
        on_disk = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_bytes())
        assert on_disk["subscriptionGroupTable"]["made"]["retryMaxTimes"] == 3
        store.commit_offset("first", "t", 2, 7)
        store.commit_offset("first", "u", 0, 1)
        store.commit_offset("%LMQ%l", "%LMQ%l", 0, 4)
        assert store.groups() == {"made": settings, "first": GroupSettings(), "%LMQ%l": GroupSettings()}
        assert store.group("made") == settings and store.group("x") is None
        assert store.group_offsets("first") == {("t", 2): 7, ("u", 0): 1} and store.group_offsets("made") == {}
        assert store.group_offsets("%LMQ%l") == {("%LMQ%l", 0): 4}
        assert store.all_offsets() == {("t", "first"): {2: 7}, ("u", "first"): {0: 1}, ("%LMQ%l", "%LMQ%l"): {0: 4}}
    with open_small(tmp_path) as store:
        store.delete_group("first")
        assert "first" not in store.groups() and store.consumer_offset("first", "t", 2) == 7
        store.delete_group("first", clean_offsets=True)
        store.delete_group("nobody", clean_offsets=True)
        assert store.group_offsets("first") == {}
    with open_small(tmp_path) as store:
        assert store.groups().keys() == {"made", "%LMQ%l"} and store.group_offsets("first") == {}
        assert "first" not in json.loads((tmp_path / "config" / "consumerOffset.json").read_bytes())["groupTopicMap"]


def test_a_broker_that_is_followed_keeps_its_tables(tmp_path):
    with MessageStore(tmp_path, dev=True, broker_role="SLAVE") as store:
        store.follow_tables({})
        for change in (
            lambda: store.create_topic("t"),
            lambda: store.create_group("g"),
            lambda: store.delete_group("g"),
        ):
            with pytest.raises(UsageError, match="follows a broker"):
                change()


@pytest.mark.parametrize("name", ["", "a@b", "\ud800"])
def test_names_of_groups_that_are_refused(tmp_path, name):
    with open_small(tmp_path) as store:
        for change in (store.create_group, store.delete_group):
            with pytest.raises(UsageError, match="cannot be a group's name"):
                change(name)


def test_arguments_of_another_type_are_refused(tmp_path):
    with open_small(tmp_path) as store:
        for change in (
            lambda: store.create_group("g", {"retryMaxTimes": 3}),  # type: ignore[arg-type]
            lambda: store.create_topic("t", "8"),  # type: ignore[arg-type]
            lambda: store.delete_group("g", clean_offsets="no"),  # type: ignore[arg-type]
            lambda: store.group_offsets(b"g"),  # type: ignore[arg-type]
        ):
            with pytest.raises(TypeError, match="is of type"):
                change()

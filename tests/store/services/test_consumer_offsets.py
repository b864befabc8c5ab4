import pytest

from flintmq.errors import UsageError
from flintmq.format import config_json
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.config_writer import ConfigFile
from flintmq.store.services.consumer_offsets import ConsumerOffsets
from flintmq.store.services.groups import Groups


def groups_of(root):
    return Groups(ConfigFile(str(root), "subscriptionGroup.json", ("subscriptionGroupTable",), REAL, "5.3.3"))


def offsets(root, groups=None):
    file = ConfigFile(str(root), "consumerOffset.json", ("offsetTable",), REAL, "5.3.3")
    return ConsumerOffsets(file, (groups or groups_of(root)).know)


def test_both_dialects_are_read_and_kept(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_bytes(
        b'{"dataVersion":{"counter":1},"groupTopicMap":{"g":["t"]},"more":true,'
        b'"offsetTable":{"t@g":{0:14,"1":"7"},"odd":5,"u@g":3}}'
    )
    found = offsets(tmp_path)
    assert [found.get("g", "t", q) for q in (0, 1, 2)] == [14, 7, None]
    assert found.get("g", "u", 0) is None and found.get("h", "t", 0) is None
    found.commit("g", "t", 1, 9)
    found.commit("g", "v", 0, 1)
    data = found.file.encode()
    assert data is not None and b'"t@g":{0:14,1:9\n\t\t}' in data, "as Java lays it out"
    value = config_json.parse(data)
    assert value["offsetTable"] == {"t@g": {0: 14, 1: 9}, "odd": 5, "u@g": 3, "v@g": {0: 1}}
    assert value["groupTopicMap"] == {"g": ["t", "v"]} and value["more"] is True


def test_a_group_is_made_by_its_first_offset(tmp_path):
    groups = groups_of(tmp_path)
    found = offsets(tmp_path, groups)
    found.commit("g", "t", 0, 5)
    assert groups.file.value["subscriptionGroupTable"]["g"] == {  # a broker's own defaults (golden config)
        "attributes": {}, "brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True,
        "consumeFromMinEnable": True, "consumeMessageOrderly": False, "consumeTimeoutMinute": 15, "groupName": "g",
        "groupRetryPolicy": {"type": "CUSTOMIZED"}, "groupSysFlag": 0, "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16, "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
    }  # fmt: skip
    groups.file.changed = False
    found.commit("g", "t", 0, 6)
    assert not groups.file.changed and found.get("g", "t", 0) == 6


def test_a_place_that_is_known_is_found_again_after_each_change(tmp_path):
    """A commit remembers where an offset is kept, and must not write where it was kept before."""
    groups = groups_of(tmp_path)
    found = offsets(tmp_path, groups)

    def table():
        data = found.file.encode()
        return config_json.parse(data) if data is not None else {}

    for offset in (1, 2, 3):
        found.commit("g", "t", 0, offset)
        assert table()["offsetTable"] == {"t@g": {0: offset}}
    found.remove(topic="t")
    assert found.get("g", "t", 0) is None
    found.commit("g", "t", 0, 4)
    assert table()["offsetTable"] == {"t@g": {0: 4}} and table()["groupTopicMap"] == {"g": ["t"]}
    groups.remove("g")
    found.commit("g", "t", 0, 5)
    assert groups.settings("g") is not None, "a group that was removed is made again"
    found.remove(group="g")
    found.commit("g", "t", 0, 6)
    assert table()["offsetTable"] == {"t@g": {0: 6}} and table()["groupTopicMap"] == {"g": ["t"]}
    found.file.replace({"offsetTable": {"t@g": {0: 9}}})
    assert found.get("g", "t", 0) == 9
    found.commit("g", "t", 0, 10)
    assert found.get("g", "t", 0) == 10 and table()["offsetTable"] == {"t@g": {0: 10}}
    with pytest.raises(UsageError):
        found.commit("g", "t", 0, -1)


def test_light_groups_have_their_own_table(tmp_path):
    found = offsets(tmp_path)
    found.commit("%LMQ%g", "%LMQ%g", 0, 3)
    assert found.file.value["lmqOffsetTable"] == {"%LMQ%g@%LMQ%g": 3} and found.get("%LMQ%g", "%LMQ%g", 0) == 3


@pytest.mark.parametrize(
    ("group", "topic", "queue_id", "offset"),
    [("", "t", 0, 0), ("g", "", 0, 0), ("a@b", "t", 0, 0), ("g", "t@u", 0, 0), ("g", "t", -1, 0), ("g", "t", 0, -1),
     ("g", "t", 0, 1 << 63), ("g", "t", 1 << 31, 0)],
)  # fmt: skip
def test_what_is_refused(tmp_path, group, topic, queue_id, offset):
    groups = groups_of(tmp_path)
    found = offsets(tmp_path, groups)
    with pytest.raises(UsageError):
        found.commit(group, topic, queue_id, offset)
    assert not found.file.changed and not groups.file.changed

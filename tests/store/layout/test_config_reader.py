import os

import pytest

from flintmq.store.layout.config_reader import BrokerConfig, TopicConfig, read_config

TOPICS = b"""{
\t"dataVersion":{
\t\t"counter":3,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"topicConfigTable":{
\t\t"orders":{
\t\t\t"attributes":{
\t\t\t\t"queue.type":"BatchCQ"
\t\t\t},
\t\t\t"order":false,
\t\t\t"perm":4,
\t\t\t"readQueueNums":8,
\t\t\t"topicFilterType":"MULTI_TAG",
\t\t\t"topicName":"orders",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":9
\t\t},
\t\t"plain":{},"odd":{"readQueueNums":"3","perm":null,"attributes":7,"topicFilterType":1},"bad":5
\t}
}"""


def config(tmp_path, **files):
    folder = tmp_path / "config"
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    return read_config(str(tmp_path))


def test_a_bare_store_has_none(tmp_path):
    assert read_config(str(tmp_path)) == BrokerConfig()


def test_topics_with_javas_defaults_for_what_is_missing(tmp_path):
    found = config(tmp_path, topics__json=TOPICS)
    assert found.topics == {
        "orders": TopicConfig("orders", 8, 9, 4, "MULTI_TAG", {"queue.type": "BatchCQ"}),
        "plain": TopicConfig("plain", 16, 16, 6, "SINGLE_TAG", {}),
        "odd": TopicConfig("odd", 3, 16, 6, "SINGLE_TAG", {}),
    }
    assert [found.is_batch(name) for name in ("orders", "plain", "unknown")] == [True, False, False]
    assert (found.files, found.problems) == (("topics.json",), ())


def test_offsets(tmp_path):
    found = config(
        tmp_path,
        consumerOffset__json=b'{"offsetTable":{"t@g":{0:15,"1":"9"},"odd":{0:1},"a@b@c":{0:1},"t@h":{"x":1,2:null}}}',
        delayOffset__json=b'{"dataVersion":{},"offsetTable":{1:42,3:7}}',
    )
    assert found.consumer_offsets == {("t", "g"): {0: 15, 1: 9}, ("t", "h"): {}}
    assert found.delay_offsets == {1: 42, 3: 7}


def test_light_queues_have_a_file_of_their_own_that_replaces_the_other(tmp_path):
    found = config(
        tmp_path,
        consumerOffset__json=b'{"offsetTable":{"old@g":{0:1}}}',
        lmqConsumerOffset__json=b'{"offsetTable":{"t@g":{0:2}},"lmqOffsetTable":{"%LMQ%a@%LMQ%g":3,"x":4}}',
    )
    assert found.consumer_offsets == {("t", "g"): {0: 2}}
    assert found.lmq_offsets == {("%LMQ%a", "%LMQ%g"): 3}
    assert found.files == ("lmqConsumerOffset.json",)


@pytest.mark.parametrize(
    ("main", "position", "reason"),
    [
        (b"", 0, "the file is empty"),
        (b'{"offsetTable":{1:', 18, "the text ends early"),
        (b"{} x", 3, "text after the object"),
    ],
)
def test_a_bad_file_falls_back_to_its_backup(tmp_path, main, position, reason):
    found = config(tmp_path, delayOffset__json=main, delayOffset__json__bak=b'{"offsetTable":{1:5}}')
    assert found.delay_offsets == {1: 5}
    (problem,) = found.problems
    assert (os.path.basename(problem.file), problem.position) == ("delayOffset.json", position)
    assert reason in problem.reason
    assert found.files == ("delayOffset.json.bak",)


def test_a_missing_file_falls_back_to_its_backup_and_says_so(tmp_path):
    found = config(tmp_path, delayOffset__json__bak=b'{"offsetTable":{1:5}}')
    assert found.delay_offsets == {1: 5}
    [problem] = found.problems_of("delayOffset.json")
    assert problem.text == (
        f"{tmp_path}/config/delayOffset.json, position 0: the file is missing; delayOffset.json.bak is used, which may "
        "be older"
    )
    assert found.problems_of("consumerOffset.json") == []


def test_when_both_are_bad_the_configuration_is_empty_and_says_so(tmp_path):
    found = config(tmp_path, topics__json=b"nonsense", topics__json__bak=b"\xff")
    assert found.topics == {}
    assert [os.path.basename(p.file) for p in found.problems] == ["topics.json", "topics.json.bak"]


def test_names_that_no_directory_can_have_are_left_out(tmp_path):
    found = config(
        tmp_path,
        topics__json=b'{"topicConfigTable":{"a\\u0000":{"perm":6},"b":{"perm":6}}}',
        consumerOffset__json=b'{"offsetTable":{"a\\u0000@G":{"0":1},"b@G":{"0":1}}}',
    )
    assert list(found.topics) == ["b"] and list(found.consumer_offsets) == [("b", "G")]


def test_tables_that_are_no_objects(tmp_path):
    found = config(
        tmp_path,
        topics__json=b'{"topicConfigTable":[1]}',
        consumerOffset__json=b'{"offsetTable":"x"}',
        delayOffset__json=b'{"offsetTable":null}',
        subscriptionGroup__json=b'{"subscriptionGroupTable":3}',
    )
    assert (found.topics, found.groups, found.consumer_offsets, found.delay_offsets) == ({}, {}, {}, {})
    assert {os.path.basename(p.file): (p.reason, p.instead) for p in found.problems} == {
        "topics.json": ("topicConfigTable is no object", "it counts as empty"),
        "consumerOffset.json": ("offsetTable is no object", "it counts as empty"),
        "delayOffset.json": ("offsetTable is no object", "it counts as empty"),
        "subscriptionGroup.json": ("subscriptionGroupTable is no object", "it counts as empty"),
    }


@pytest.mark.parametrize(
    ("file", "text", "whose"),
    [
        ("delayOffset", '{"offsetTable":{1:5,2:"six",3:7}}', "1 of its offsets are no numbers, the first of delay"),
        ("delayOffset", '{"offsetTable":{"one":5}}', "the first of delay level one"),
        ("consumerOffset", '{"offsetTable":{"T@a":{0:1},"T@b":{0:1,1:null}}}', "the first of group b in topic T"),
        ("consumerOffset", '{"offsetTable":{"T@a":5,"T@b":{0:true}}}', "2 of its offsets are no numbers"),
        ("consumerOffset", '{"offsetTable":{"T@a":{"x":1}}}', "the first of group a in topic T"),
        ("lmqConsumerOffset", '{"offsetTable":{},"lmqOffsetTable":{"%LMQ%x@a":1.5}}', "of group a in topic %LMQ%x"),
    ],
)  # fmt: skip
def test_offsets_that_are_no_numbers_are_told(tmp_path, file, text, whose):
    [problem] = config(tmp_path, **{f"{file}__json": text.encode()}).problems
    assert os.path.basename(problem.file) == f"{file}.json"
    assert whose in problem.reason and problem.instead == "they are left out"


def test_what_is_no_regular_file_is_not_opened(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    os.mkfifo(folder / "topics.json")
    (folder / "delayOffset.json").symlink_to("/etc/passwd")
    (folder / "subscriptionGroup.json").mkdir()
    found = read_config(str(tmp_path))
    assert found.topics == {} and len(found.problems) == 3
    assert "regular file" in found.problems[1].reason


@pytest.mark.parametrize("name", ["config", "config540", "config550"])
def test_a_brokers_own_files(golden, name):
    found = read_config(str(golden(name).path))
    assert found.problems == ()
    assert found.topics["Bulk"].queue_type == "BatchCQ" and found.is_batch("Bulk")
    assert found.topics["Trade"] == TopicConfig("Trade", 4, 4, 6, "SINGLE_TAG", {})
    assert found.topics["Tx"].attributes == {"message.type": "TRANSACTION"}
    assert {"TradeGroup", "AuditGroup"} <= found.groups.keys()
    if name == "config":
        assert found.consumer_offsets["Audit", "AuditGroup"] == {0: 14, 1: 14}
        assert found.consumer_offsets["Trade", "TradeGroup"] == {0: 17, 1: 22, 2: 18, 3: 18}


def test_delay_offsets_of_a_broker(golden):
    assert read_config(str(golden("delay").path)).delay_offsets == {1: 12, 2: 6, 3: 9, 5: 0, 14: 0, 17: 0, 18: 0}


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        (["config/subscriptionGroup.json"], ["consumerOffset.json"]),
        (["consumequeue/RMQ_SYS_TRANS_OP_HALF_TOPIC/0"], ["consumerOffset.json"]),
        (["consumequeue/SCHEDULE_TOPIC_XXXX/2"], ["delayOffset.json"]),
        (["consumequeue/SCHEDULE_TOPIC_XXXX/2", "config/delayOffset.json"], []),
        (["consumequeue/T/0", "config/topics.json"], []),
        (["config/subscriptionGroup.json", "config/lmqConsumerOffset.json"], []),
        (["config/subscriptionGroup.json", "config/consumerOffsets/000009.sst"], []),
        (["consumequeue/SCHEDULE_TOPIC_XXXX/2", "flintmq.mark", "abort"], []),
        (["consumequeue/SCHEDULE_TOPIC_XXXX/2", "flintmq.mark", "config/topics.json"], []),
        (["consumequeue/SCHEDULE_TOPIC_XXXX/2", "flintmq.mark"], ["delayOffset.json"]),
    ],
)
def test_missing_offsets_are_told_where_the_store_had_some(tmp_path, there, missing):
    for name in there:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if "." in path.name:
            path.write_text('{"offsetTable":{},"topicConfigTable":{},"subscriptionGroupTable":{},"lmqOffsetTable":{}}')
        else:
            path.mkdir()
    found = read_config(str(tmp_path)).problems
    assert [os.path.basename(one.file) for one in found if one.reason == "the file is missing"] == missing


def test_a_config_that_is_a_link_to_nowhere_is_told_of_any_store(tmp_path):
    (tmp_path / "flintmq.mark").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "config").symlink_to(tmp_path / "elsewhere")
    assert not read_config(str(tmp_path)).problems
    (tmp_path / "elsewhere").rmdir()  # such as a disk that is not mounted
    assert [os.path.basename(one.file) for one in read_config(str(tmp_path)).problems] == ["consumerOffset.json"]

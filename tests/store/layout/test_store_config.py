import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError
from flintmq.forensics.rebuild import plan_of
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.store_config import batch_topics, given_config, with_queue_size


def test_three_ways_to_give_a_key():
    config = given_config({"maxIndexNum": 7}, True, {"flush_disk_type": "SYNC_FLUSH"})
    assert (config.max_index_num, config.flush_disk_type) == (7, "SYNC_FLUSH")
    assert config.mapped_file_size_commit_log == 1 << 20, "dev: small files"
    assert given_config(StoreConfig(), True, {}).mapped_file_size_commit_log == 1 << 30, "a whole configuration wins"
    with pytest.raises(ConfigError):
        given_config(None, False, {"no_such_key": 1})


def test_batch_topics_by_their_settings_or_their_queues(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text(
        '{"topicConfigTable":{"a":{"attributes":{"queue.type":"BatchCQ"}},"b":{}}}'
    )
    (tmp_path / "batchconsumequeue" / "c" / "0").mkdir(parents=True)
    assert batch_topics(str(tmp_path), REAL) == {"a", "c"}


def test_topics_json_decides_for_the_topics_that_it_names(tmp_path):
    """As RocketMQ does, which does not start beside queues of the other type."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text(
        '{"topicConfigTable":{"plain":{"attributes":{}},"batch":{"attributes":{"queue.type":"BatchCQ"}}}}'
    )
    for topic in ("plain", "batch", "unknown"):
        (tmp_path / "batchconsumequeue" / topic / "0").mkdir(parents=True)
    assert batch_topics(str(tmp_path), REAL) == {"batch", "unknown"}


def test_one_odd_queue_file_is_no_size(tmp_path):
    """The first one by name is: engine, rebuild and verify go by what most files have."""
    for topic, sizes in {"a": [260], "b": [400, 400], "c": [400, 0, 19]}.items():
        folder = tmp_path / "consumequeue" / topic / "0"
        folder.mkdir(parents=True)
        for number, size in enumerate(sizes):
            (folder / f"{number * 400:020d}").write_bytes(bytes(size))
    (tmp_path / "commitlog").mkdir()
    assert with_queue_size(str(tmp_path), StoreConfig(), REAL).mapped_file_size_consume_queue == 400
    assert plan_of(str(tmp_path), str(tmp_path / "into"), None, "5.3.3").sizes.queue_file == 400


def test_queue_files_on_disk_win_over_the_default(tmp_path):
    folder = tmp_path / "consumequeue" / "t" / "0"
    folder.mkdir(parents=True)
    (folder / ("0" * 20)).write_bytes(bytes(400))
    assert with_queue_size(str(tmp_path), StoreConfig(), REAL).mapped_file_size_consume_queue == 400
    given = StoreConfig.from_keys({"mappedFileSizeConsumeQueue": 200})
    assert with_queue_size(str(tmp_path), given, REAL) is given

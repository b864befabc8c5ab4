import json
import pickle
from pathlib import Path

import pytest

from flintmq.config.keys import KEYS, StoreConfig, from_settings
from flintmq.errors import ConfigError

GOLDEN = Path(__file__).parents[1] / "compat" / "golden"

# RocketMQ's defaults, from its configuration objects (5.3.3 and 5.4.0 agree).
DEFAULTS = {
    "mappedFileSizeCommitLog": 1024**3,
    "mappedFileSizeConsumeQueue": 300_000 * 20,
    "mapperFileSizeBatchConsumeQueue": 300_000 * 46,
    "mappedFileSizeConsumeQueueExt": 48 * 1024**2,
    "mappedFileSizeTimerLog": 100 * 1024**2,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
    "flushDiskType": "ASYNC_FLUSH",
    "maxMessageSize": 4 * 1024**2,
    "messageIndexEnable": True,
    "messageIndexSafe": False,
    "enabledAppendPropCRC": False,
    "forceVerifyPropCRC": False,
    "checkCRCOnRecover": True,
    "autoMessageVersionOnTopicLen": True,
    "fileReservedTime": 72,
    "deleteWhen": "04",
    "diskMaxUsedSpaceRatio": 75,
    "timerWheelEnable": True,
    "timerPrecisionMs": 1000,
    "timerMaxDelaySec": 259_200,
    "transientStorePoolEnable": False,
    "putConsumeQueueDataByFileChannel": True,
    "commitLogRecoverMaxNum": 10,
    "useABSLock": False,
    "rocksdbCQDoubleWriteEnable": False,
}


def test_defaults_under_rocketmqs_names():
    config = StoreConfig()
    assert {key: config.key(key) for key in DEFAULTS} == DEFAULTS
    assert config.given == frozenset()
    assert config.index_file_size == 420_000_040
    assert config.max_record_size == 4 * 1024**2 + 65_536
    assert (len(config.delay_ms), config.delay_ms[0], config.delay_ms[-1]) == (18, 1_000, 7_200_000)


def test_names_are_rocketmqs():
    assert KEYS["mapperFileSizeBatchConsumeQueue"] == "mapper_file_size_batch_consume_queue"
    assert KEYS["recheckReputOffsetFromCq"] == "recheck_reput_offset_from_cq"
    assert KEYS["timerRocksDBEnable"] == "timer_rocks_db_enable"
    assert len(KEYS) == len(set(KEYS.values()))


def test_values_in_their_types_or_as_text():
    config = StoreConfig.from_keys(
        {"mappedFileSizeCommitLog": "65536", "maxIndexNum": 400, "enableLmq": "TRUE", "enableCompaction": False}
    )
    assert (config.mapped_file_size_commit_log, config.max_index_num) == (65_536, 400)
    assert (config.enable_lmq, config.enable_compaction) == (True, False)
    assert config.given == {"mappedFileSizeCommitLog", "maxIndexNum", "enableLmq", "enableCompaction"}
    assert StoreConfig.from_keys({"mappedFileSizeConsumeQueue": 2001}).consume_queue_file_size == 2020


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("mapedFileSizeCommitLog", "1", "did you mean mappedFileSizeCommitLog?"),
        ("MAXINDEXNUM", "1", "did you mean maxIndexNum?"),
        ("zzz\x1b", "1", "'zzz\\\\x1b' is not a key of RocketMQ's store; use the names"),
        ("mappedFileSizeCommitLog", "64k", "'64k' is not a whole number from 100"),
        ("mappedFileSizeCommitLog", "0", "is not a whole number from 100"),
        ("mappedFileSizeCommitLog", 2**31, "is not a whole number from 100"),
        ("mappedFileSizeCommitLog", "9" * 5000, "is not a whole number from 100"),
        ("maxIndexNum", True, "is not a whole number"),
        ("enableLmq", "yes", "neither true nor false"),
        ("flushDiskType", "SOMETIMES", "is not one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("messageDelayLevel", "1s never", "messageDelayLevel: 'never' is not a delay"),
    ],
)
def test_wrong_use_says_what_to_do(key, value, says):
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")) as caught:
        StoreConfig.from_keys({key: value})
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_layers_file_then_keys(tmp_path, caplog):
    conf = tmp_path / "broker.conf"
    conf.write_text("namesrvAddr=localhost:9876\nmaxIndexNum=60\nmaxHashSlotNum=20\n")
    with caplog.at_level("INFO", "flintmq.config"):
        config = StoreConfig.of(conf, {"maxIndexNum": "70"})
    assert (config.max_index_num, config.max_hash_slot_num) == (70, 20)
    assert config.given == {"maxIndexNum", "maxHashSlotNum"}
    assert "namesrvAddr" in caplog.text
    assert StoreConfig.of(None) == StoreConfig()
    assert StoreConfig.of(config) is config


def test_set_words():
    config = from_settings(["maxIndexNum=60", "enableLmq=true"], StoreConfig.from_keys({"maxHashSlotNum": 20}))
    assert (config.max_index_num, config.enable_lmq, config.max_hash_slot_num) == (60, True, 20)


def test_travels_to_other_processes():
    config = StoreConfig.from_keys({"maxIndexNum": "60"})
    assert config.delay_ms
    again = pickle.loads(pickle.dumps(config))
    assert again == config and again.given == config.given


def test_every_key_of_the_golden_stores_is_known():
    files = sorted(GOLDEN.glob("*.config.json"))
    assert len(files) == 26
    for file in files:
        written = json.loads(file.read_text())
        keys = written.get("store", {}) | written.get("broker", {})
        config = StoreConfig.from_keys(keys)
        assert {key: config.key(key) for key in keys} == keys
        assert StoreConfig.from_keys({key: str(value) for key, value in keys.items()}) == config


def test_equal_where_every_key_is():
    for name in ("message_delay_level", "max_index_num", "timer_stop_enqueue"):  # first, middle and last of a kind
        value = getattr(StoreConfig(), name)
        other = StoreConfig(**{name: not value if value is False else value + type(value)(1)})
        assert other != StoreConfig() and len({other, StoreConfig(), StoreConfig()}) == 2
        assert repr(other) == f"StoreConfig({name}={getattr(other, name)!r})"
    assert StoreConfig(given=frozenset({"a"})) != StoreConfig()
    assert StoreConfig() != "StoreConfig()" and repr(StoreConfig()) == "StoreConfig()"

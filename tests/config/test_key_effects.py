"""The table of keys: each key of RocketMQ has a line, each key that acts a test, and a refused value opens nothing."""

import ast
import inspect
import json
import logging
import re
import runpy
from functools import cache
from pathlib import Path
from typing import get_type_hints

import pytest

from flintmq.config.key_effects import LINES, Effect, not_kept, refuse_to_write, text_of, without_effect
from flintmq.config.keys import KEYS, StoreConfig
from flintmq.errors import ConfigError
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tools.docs.config import PAGE, TYPES, main, page, types

TESTS = Path(__file__).resolve().parents[1]
# What the oracle's command `keys` printed of MessageStoreConfig of 5.3.3, 5.4.0 and 5.5.0: the version that has it
# first (none was dropped since), and its default (null where Java has none), equal in all.
ROCKETMQ: dict[str, tuple[str, str | None]] = json.loads((TESTS / "compat" / "keys.json").read_text(encoding="utf-8"))
# Keys of BrokerConfig (listenPort: of NettyServerConfig) that StoreConfig knows, too.
BROKER = {
    "recoverConcurrently", "recoverThreadPoolNums", "longPollingEnable", "shortPollingTimeMills",
    "transactionOpMsgMaxSize", "transactionOpBatchInterval", "transactionCheckInterval", "transactionTimeOut",
    "transactionCheckMax",
    "enableControllerMode", "enableSlaveActingMaster", "brokerClusterName", "brokerName", "brokerId",
    "defaultTopicQueueNums", "flushConsumerOffsetInterval", "brokerIP1", "listenPort",
}  # fmt: skip
# Key -> a test that shows that it acts: another value of it, another result.
ACTS = {
    "storePathCommitLog": "store/commitlog/test_snapshot.py::test_a_log_over_several_directories",
    "readOnlyCommitLogStorePaths": "store/commitlog/test_snapshot.py::test_a_log_over_several_directories",
    "mappedFileSizeCommitLog": "store/test_acting_keys.py::test_the_size_of_files",
    "mappedFileSizeConsumeQueue": "store/test_acting_keys.py::test_the_size_of_files",
    "mapperFileSizeBatchConsumeQueue": "store/test_acting_keys.py::test_the_size_of_files",
    "mappedFileSizeConsumeQueueExt": "store/services/test_expire_derived.py::test_ext_files_follow",
    "maxHashSlotNum": "store/test_acting_keys.py::test_the_size_of_files",
    "maxIndexNum": "store/test_acting_keys.py::test_the_size_of_files",
    "maxMessageSize": "store/append/test_columns.py::test_a_row_that_makes_no_message_refuses_the_batch",
    "enabledAppendPropCRC": "store/append/test_commit_log.py::test_the_crc_property_covers_the_record",
    "enableConsumeQueueExt": "store/services/test_expire_derived.py::test_ext_files_follow",
    "enableLmq": "store/consumer/test_source.py::test_a_light_queue_in_a_view",
    "enableMultiDispatch": "store/consumer/test_source.py::test_a_light_queue_in_a_view",
    "messageIndexEnable":
        "store/index/test_durable_point.py::test_a_store_that_ran_without_an_index_makes_no_mark_of_it",
    "transactionTimeOut": "store/services/test_transactions.py::test_senders_are_asked_until_they_say",
    "transactionCheckInterval": "store/services/test_transactions.py::test_a_thread_asks_by_itself",
    "transactionCheckMax": "store/services/test_transactions.py::test_what_is_asked_too_often_is_given_up",
    "messageDelayLevel": "store/services/test_external.py::test_delayed_messages_wait_for_a_store_that_dispatches",
    "brokerRole": "store/test_message_store.py::test_a_slave_takes_no_puts",
    "inSyncReplicas": "ha/test_sync_puts.py::test_three_that_must_have_it",
    "slaveTimeout": "ha/test_sync_puts.py::test_without_a_replica_the_time_is_up",
    "haSendHeartbeatInterval": "ha/test_listener.py::test_heartbeats_come_while_nothing_else_does",
    "haHousekeepingInterval": "ha/test_listener.py::test_a_silent_follower_is_hung_up_on",
    "haTransferBatchSize": "ha/test_listener.py::test_frames_are_no_larger_than_the_batch",
    "haMaxGapNotInSync": "ha/test_listener.py::test_followers",
    "haFlowControlEnable": "ha/test_listener.py::test_the_most_in_a_second",
    "maxHaTransferByteInSecond": "ha/test_listener.py::test_the_most_in_a_second",
    "flushDiskType": "robustness/failing_calls/test_syscalls.py::test_line_1_a_sync_ends_well_before_each_answer",
    "flushIntervalCommitLog": "store/test_acting_keys.py::test_when_the_log_is_flushed",
    "flushCommitLogLeastPages": "store/test_acting_keys.py::test_when_the_log_is_flushed",
    "flushCommitLogThoroughInterval": "store/test_acting_keys.py::test_when_the_log_is_flushed",
    "flushIntervalConsumeQueue": "store/test_acting_keys.py::test_how_often_queues_are_flushed",
    "flushCommitLogTimed": "store/test_acting_keys.py::test_a_commit_from_the_pool_wakes_the_flush",
    "wakeFlushWhenPutMessage": "store/append/test_service.py::test_a_put_wakes_the_flusher_if_it_is_told_to",
    "wakeCommitWhenPutMessage": "store/test_acting_keys.py::test_when_the_pool_is_committed",
    "commitIntervalCommitLog": "store/test_acting_keys.py::test_when_the_pool_is_committed",
    "commitCommitLogLeastPages": "store/test_acting_keys.py::test_when_the_pool_is_committed",
    "commitCommitLogThoroughInterval": "store/test_acting_keys.py::test_when_the_pool_is_committed",
    "syncFlushTimeout":
        "store/append/test_durability.py::test_a_sync_put_that_times_out_is_unknown_and_the_store_goes_on",
    "transientStorePoolEnable": "storage/memory/test_allocation.py::test_a_slave_has_no_pool",
    "transientStorePoolSize": "storage/memory/test_mapped_file_queue.py::test_a_pool_is_a_master_s",
    "fastFailIfNoBufferInStorePool":
        "storage/memory/test_allocation.py::test_fast_fail_refuses_a_put_that_finds_the_ring_full",
    "warmMapedFileEnable":
        "storage/memory/test_mapped_file_queue.py::test_new_files_are_warmed_where_the_configuration_says_so",
    "flushLeastPagesWhenWarmMapedFile":
        "storage/memory/test_mapped_file_queue.py::test_new_files_are_warmed_where_the_configuration_says_so",
    "dataReadAheadEnable":
        "storage/memory/test_mapped_file_queue.py::test_pages_are_not_read_ahead_where_the_configuration_says_so",
    "osPageCacheBusyTimeOutMills":
        "store/append/test_slow_section.py::test_a_put_that_waits_for_a_file_makes_others_fail_fast",
    "deleteWhen": "store/services/test_retention_rules.py::test_hours",
    "fileReservedTime": "store/services/test_retention_rules.py::test_age",
    "diskMaxUsedSpaceRatio": "store/services/test_retention_rules.py::test_ratios_are_kept_within_upstreams_limits",
    "diskSpaceWarningLevelRatio":
        "store/services/test_retention_rules.py::test_ratios_are_kept_within_upstreams_limits",
    "diskSpaceCleanForciblyRatio":
        "store/services/test_retention_rules.py::test_ratios_are_kept_within_upstreams_limits",
    "cleanFileForciblyEnable": "store/services/test_retention.py::test_no_forced_cleaning_where_it_is_off",
    "cleanResourceInterval": "store/services/test_housekeeping.py::test_when_its_services_run",
    "deleteFileBatchMax": "store/test_acting_keys.py::test_how_many_files_go_at_once",
    "deleteCommitLogFilesInterval": "store/test_acting_keys.py::test_the_pause_between_two_files_that_go",
    "destroyMapedFileIntervalForcibly": "store/test_acting_keys.py::test_how_long_a_reader_keeps_a_name",
    "maxMsgsNumBatch": "store/test_acting_keys.py::test_the_most_that_a_query_answers",
    "maxTransferBytesOnMessageInMemory": "store/read/test_get.py::test_at_most_256_kib_in_one_answer",
    "maxTransferCountOnMessageInMemory": "store/read/test_get.py::test_by_default_at_most_32_messages",
    "maxTransferBytesOnMessageInDisk": "store/test_acting_keys.py::test_what_a_get_answers_of_messages_far_behind",
    "maxTransferCountOnMessageInDisk": "store/test_acting_keys.py::test_what_a_get_answers_of_messages_far_behind",
    "accessMessageInMemoryMaxRatio": "store/test_acting_keys.py::test_what_a_get_answers_of_messages_far_behind",
    "maxFilterMessageSize": "store/test_acting_keys.py::test_how_far_a_get_with_a_filter_looks",
    "flushDelayOffsetInterval": "store/services/test_housekeeping.py::test_when_its_services_run",
    "timerWheelEnable": "store/services/test_timers.py::test_switched_off_it_refuses_and_delivers_nothing",
    "timerPrecisionMs": "store/services/test_timers.py::test_another_precision",
    "timerMaxDelaySec": "store/services/test_timers.py::test_a_time_that_is_none_or_too_far",
    "timerRollWindowSlot": "store/services/test_timers.py::test_a_wait_longer_than_the_window_is_stored_once_more",
    "timerFlushIntervalMs": "store/services/test_timers.py::test_how_often_the_progress_is_saved",
    "mappedFileSizeTimerLog": "store/services/test_timers.py::test_the_bytes_are_rocketmqs",
    "appendTopicForTimerDeleteKey": "store/services/test_timers.py::test_what_is_recalled_never_comes",
    "brokerIP1": "store/test_acting_keys.py::test_the_address_in_offset_message_ids",
    "listenPort": "store/test_acting_keys.py::test_the_address_in_offset_message_ids",
    "defaultTopicQueueNums": "store/services/test_housekeeping.py::test_a_put_makes_its_topic",
    "flushConsumerOffsetInterval": "store/test_acting_keys.py::test_how_often_consumer_offsets_are_saved",
}  # fmt: skip
# What asks for more than FlintMQ has, or for something else than it does.
BREAKS = [
    {"storeType": "defaultRocksDB"},
    {"storeType": "combine"},
    {"rocksdbCQDoubleWriteEnable": "true"},
    {"indexRocksDBEnable": "true"},
    {"indexFileWriteEnable": "false"},
    {"enableDLegerCommitLog": "true"},
    {"enableControllerMode": "true"},
    {"duplicationEnable": "true"},
    {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"},
    {"autoMessageVersionOnTopicLen": "false"},
    {"checkCRCOnRecover": "false"},
    {"forceVerifyPropCRC": "true"},
    {"readUnCommitted": "true"},
    {"timerInterceptDelayLevel": "true"},
]


def test_every_key_of_rocketmq_has_a_line_and_no_other():
    assert len(ROCKETMQ) == 214
    assert set(ROCKETMQ) | {"storePathRootDir"} | BROKER == set(KEYS) == set(LINES)
    assert [key for key, line in LINES.items() if not line.says or "\n" in line.says] == []


def test_defaults_are_rocketmq_s():
    plain = StoreConfig()
    paths = {"haMasterAddress"} | {key for key, (_, default) in ROCKETMQ.items() if default is None}
    assert {key for key in paths if text_of(plain, key)} == set(), "what has no default in Java is empty"
    assert {key: text_of(plain, key) for key in ROCKETMQ if key not in paths} == {
        key: default for key, (_, default) in ROCKETMQ.items() if key not in paths
    }
    assert list(not_kept(plain)) == [], "RocketMQ's defaults open"


@cache
def _tests(path: str) -> dict[str, str]:
    """The source of each test function of a file, and of what it names in its own module."""
    text = (TESTS / path).read_text(encoding="utf-8")
    lines, found, module = text.splitlines(), {}, {}
    for node in ast.parse(text).body:
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
        source = "\n".join(lines[first - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef):
            found[node.name] = source
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            module[node.targets[0].id] = source
    for name, source in found.items():
        found[name] += "".join(text for word, text in module.items() if re.search(rf"\b{word}\b", source))
    return found


def test_every_key_that_acts_has_a_test_that_names_it():
    assert {key for key, line in LINES.items() if line.effect is Effect.ACTS} == set(ACTS)
    wrong = []
    for key, where in ACTS.items():
        path, _, name = where.partition("::")
        source = _tests(path).get(name, "")
        if "assert" not in source or not re.search(rf"\b({key}|{KEYS[key]})\b", source):
            wrong.append((key, where))
    assert wrong == []


@pytest.mark.parametrize("keys", BREAKS, ids=lambda keys: " ".join(keys))
def test_a_store_is_not_opened_with_what_it_would_not_keep(keys: dict[str, str], tmp_path: Path):
    with pytest.raises(ConfigError, match="; set .*") as caught:
        MessageStore(tmp_path / "store", config=keys)
    text = str(caught.value)
    assert text.startswith(list(keys)[-1] + "=") and "\n" not in text
    assert not (tmp_path / "store").exists(), "and nothing was made"


@pytest.mark.parametrize(
    "value", ["", "fe80::1", "localhost", "1.2.3", "1.2.3.256", "01.2.3.4", "1.2.3.4:10911", "١.2.3.4"]
)
def test_the_store_s_address_is_one_of_ipv4(value: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="^brokerIP1=.*; set brokerIP1 to such an address, or leave it out$"):
        MessageStore(tmp_path / "store", config={"brokerIP1": value})
    assert not (tmp_path / "store").exists()
    with pytest.raises(ConfigError, match="listenPort: '65536' is not a whole number from 0 to 65535"):
        StoreConfig.from_keys({"listenPort": "65536"})


def test_each_value_that_is_not_taken_is_tried():
    asked = {key for keys in BREAKS for key in keys} - {"brokerRole", "inSyncReplicas"}
    assert asked == {key for key, line in LINES.items() if line.effect in (Effect.FIXED, Effect.REFUSED)}


def test_readers_read_whatever_the_keys_say(golden):
    for keys in BREAKS:
        with open_store(golden("v550").path, config=StoreConfig.from_keys(golden("v550").config | keys)) as view:
            assert view.messages().__next__().topic


def test_a_sync_master_alone_opens_as_in_rocketmq(tmp_path: Path):
    with MessageStore(tmp_path, config={"brokerRole": "SYNC_MASTER", "inSyncReplicas": 1}, dev=True) as store:
        assert store.config.broker_role == "SYNC_MASTER"
    refuse_to_write(StoreConfig.from_keys({"inSyncReplicas": 2}))  # an ASYNC_MASTER never waits for slaves


def test_the_engine_says_once_what_has_no_effect(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    keys = {"haListenPort": 10912, "timerStopEnqueue": "false", "maxIndexNum": 40}
    assert without_effect(StoreConfig.from_keys(keys)) == ["haListenPort", "timerStopEnqueue"]
    with caplog.at_level(logging.WARNING, "flintmq.store"), MessageStore(tmp_path / "a", config=keys):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'a'}: keys that have no effect in FlintMQ: haListenPort, timerStopEnqueue"
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "flintmq.store"), MessageStore(tmp_path / "b", dev=True):
        pass
    assert caplog.records == [], "nothing is said of keys that nobody set"


def test_keys_in_snake_case_have_rocketmqs_own_capitals(tmp_path: Path):
    with MessageStore(tmp_path, enabled_append_prop_crc=True, dev=True) as store:
        assert store.config.enabled_append_prop_crc


def test_check_and_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for made in (PAGE, TYPES):
        (tmp_path / made).parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main(["--check"]) == 1 and "--write" in capsys.readouterr().err
    assert main(["--write"]) == 0 and main(["--check"]) == 0
    (tmp_path / TYPES).write_text("edited by hand")
    assert main(["--check"]) == 1
    assert main([]) == 2


def test_the_page_is_current():
    assert (TESTS.parent / PAGE).read_text(encoding="utf-8") == page()


def test_editors_know_each_setting_and_its_type():
    """`MessageStore(path, flush_disk...)` is completed, and checked, by what the file of types says."""
    assert (TESTS.parent / TYPES).read_text(encoding="utf-8") == types()
    known = get_type_hints(StoreConfig)
    settings = runpy.run_path(str(TESTS.parent / TYPES))["Settings"]
    assert get_type_hints(settings) == {name: known[name] for name in KEYS.values()}
    keys = inspect.signature(MessageStore.__init__).parameters["keys"]
    assert (keys.kind, keys.annotation) == (inspect.Parameter.VAR_KEYWORD, "Unpack[typed.Settings]")

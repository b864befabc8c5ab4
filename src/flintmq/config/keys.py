"""Declares RocketMQ's configuration keys, their defaults and meanings.

`StoreConfig` holds every key of the store (and the broker keys that concern it) under its own name in snake case:
`mappedFileSizeCommitLog` is `mapped_file_size_commit_log`. Defaults are those of RocketMQ 5.3.3, 5.4.0 and 5.5.0, which
agree; `key_effects` says what each key does here. `given` names the keys that somebody set: sizes found on disk win
over a default, and a given key wins over both.

All keys are RocketMQ's, because a broker reads the same broker.conf: a choice that only FlintMQ has is an argument
(of `MessageStore`, a command, a job), not a key. The one exception are the keys of object storage (`s3.py`).

RocketMQ misspells some keys (`mapperFileSizeBatchConsumeQueue`, `warmMapedFileEnable`); FlintMQ keeps its spelling.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, TypeVar, dataclass_transform

from flintmq.config.s3 import KINDS, S3_KEYS, S3Options
from flintmq.config.text import closest, parse_delay_levels, read_broker_conf, short, split_setting
from flintmq.errors import ConfigError

log = logging.getLogger("flintmq.config")

I32_MAX = 2**31 - 1
I64_MAX = 2**63 - 1
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _settings(cls: type[T]) -> type[T]:
    """Have type checkers take a class for a dataclass.

    What `dataclass` compiles for 230 fields takes every command 12 ms.
    """
    return cls


@_settings
class StoreConfig:
    """The settings of one store. Immutable; `with_keys` makes a changed copy.

    All arguments are by keyword. Sizes are in bytes, intervals and timeouts in milliseconds unless a comment says
    otherwise.
    """

    # Where the files are. Empty: below the root of the store.
    store_path_root_dir: str = ""
    store_path_commit_log: str = ""  # several directories with commas
    read_only_commit_log_store_paths: str = ""

    # Geometry: how large the files are.
    mapped_file_size_commit_log: int = 1_073_741_824
    mapped_file_size_consume_queue: int = 6_000_000  # rounded up to whole units, see consume_queue_file_size
    mapper_file_size_batch_consume_queue: int = 13_800_000
    mapped_file_size_consume_queue_ext: int = 50_331_648
    mapped_file_size_timer_log: int = 104_857_600
    compaction_mapped_file_size: int = 104_857_600
    compaction_cq_mapped_file_size: int = 10_485_760
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    bit_map_length_consume_queue_ext: int = 64

    # What is written.
    max_message_size: int = 4_194_304  # of the body
    auto_message_version_on_topic_len: bool = True
    enabled_append_prop_crc: bool = False
    force_verify_prop_crc: bool = False
    check_crc_on_recover: bool = True
    enable_consume_queue_ext: bool = False
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    max_lmq_consume_queue_num: int = 20_000
    enable_compaction: bool = True
    message_index_enable: bool = True
    message_index_safe: bool = False
    message_delay_level: str = DELAY_LEVELS
    store_type: str = "default"
    duplication_enable: bool = False

    # Flushing.
    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_commit_log_timed: bool = True
    wake_flush_when_put_message: bool = False
    wake_commit_when_put_message: bool = True
    commit_interval_commit_log: int = 200
    commit_commit_log_least_pages: int = 4
    commit_commit_log_thorough_interval: int = 200
    sync_flush_timeout: int = 5_000
    put_message_timeout: int = 8_000
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    put_consume_queue_data_by_file_channel: bool = True

    # Allocation, memory and locks.
    transient_store_pool_enable: bool = False
    transient_store_pool_size: int = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    warm_maped_file_enable: bool = False
    flush_least_pages_when_warm_maped_file: int = 4_096
    data_read_ahead_enable: bool = True
    use_reentrant_lock_when_put_message: bool = True
    use_abs_lock: bool = False
    topic_queue_lock_num: int = 32
    os_page_cache_busy_time_out_mills: int = 1_000
    debug_lock_enable: bool = False

    # Dispatch and recovery.
    enable_build_consume_queue_concurrently: bool = False
    batch_dispatch_request_thread_pool_nums: int = 16
    read_un_committed: bool = False
    recheck_reput_offset_from_cq: bool = False
    recover_concurrently: bool = False
    recover_thread_pool_nums: int = 32
    commit_log_recover_max_num: int = 10  # 5.4.0
    enable_accelerated_recovery: bool = False  # 5.4.0
    write_without_mmap: bool = False  # 5.4.0
    shared_byte_buffer_num: int = 16  # 5.4.0
    enable_running_flags_in_flush: bool = False  # 5.4.0
    index_rocks_db_enable: bool = False  # 5.4.0
    index_file_read_enable: bool = True  # 5.4.0
    index_file_write_enable: bool = True  # 5.4.0
    trans_rocks_db_enable: bool = False  # 5.4.0
    timer_rocks_db_enable: bool = False  # 5.4.0
    rocksdb_cq_double_write_enable: bool = False
    max_recovery_commitlog_files: int = 30  # without effect in 5.3.3
    max_batch_delete_files_num: int = 50  # without effect in 5.3.3
    dispatch_from_sender_thread: bool = False  # without effect in 5.3.3
    enable_async_reput: bool = True  # without effect in 5.3.3

    # Retention.
    delete_when: str = "04"  # hours of the day, with semicolons
    file_reserved_time: int = 72  # hours
    disk_max_used_space_ratio: int = 75  # percent, as the next two
    disk_space_warning_level_ratio: int = 90
    disk_space_clean_forcibly_ratio: int = 85
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_file_batch_max: int = 10
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    destroy_maped_file_interval_forcibly: int = 120_000
    redelete_hanged_file_interval: int = 120_000
    disk_fall_recorded: bool = True

    # Reading.
    max_msgs_num_batch: int = 64
    default_query_max_num: int = 32
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40  # percent
    max_filter_message_size: int = 16_000
    travel_cq_file_num_when_get_message: int = 1
    pull_batch_max_message_count: int = 160
    offset_check_in_slave: bool = False
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000

    # Delay, timer, transactions.
    flush_delay_offset_interval: int = 10_000
    enable_schedule_async_deliver: bool = False
    timer_wheel_enable: bool = True
    timer_precision_ms: int = 1_000
    timer_roll_window_slot: int = 172_800
    timer_max_delay_sec: int = 259_200
    timer_flush_interval_ms: int = 1_000
    timer_congest_num_each_slot: int = I32_MAX
    timer_enable_retry_until_success: bool = False
    timer_skip_unknown_error: bool = False
    timer_wheel_snapshot_flush: bool = False  # 5.4.0
    append_topic_for_timer_delete_key: bool = False  # 5.4.0
    transaction_op_msg_max_size: int = 4_096
    transaction_op_batch_interval: int = 3_000
    transaction_check_interval: int = 30_000
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15

    # Replication.
    broker_role: str = "ASYNC_MASTER"
    ha_listen_port: int = 10_912
    ha_master_address: str = ""
    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32_768
    ha_max_gap_not_in_sync: int = 268_435_456
    ha_max_time_slave_not_catchup: int = 15_000
    ha_flow_control_enable: bool = False
    max_ha_transfer_byte_in_second: int = 104_857_600
    slave_timeout: int = 3_000
    total_replicas: int = 1
    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    all_ack_in_sync_state_set: bool = False
    enable_auto_in_sync_replicas: bool = False
    sync_from_last_file: bool = False
    async_learner: bool = False
    enable_controller_mode: bool = False
    enable_slave_acting_master: bool = False

    # The broker around the store.
    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = ""
    broker_id: int = 0
    broker_ip1: str = "127.0.0.1"  # RocketMQ's default is the machine's own address
    listen_port: int = 10_911
    default_topic_queue_nums: int = 8
    flush_consumer_offset_interval: int = 5_000

    # Keys that StoreConfig knows so that it accepts every configuration of RocketMQ; key_effects says which of them
    # have an effect.
    access_message_in_memory_hot_ratio: int = 26
    bottom_most_compression_type_for_consume_queue_store: str = "zstd"
    check_commit_log_offset_on_recover: bool = False  # 5.5.0
    clean_rocks_db_dirty_cq_interval_min: int = 60
    clean_swaped_map_interval: int = 300_000
    cold_data_flow_control_enable: bool = False
    cold_data_scan_enable: bool = False
    combine_assign_offset_cq_type: str = "default"  # 5.4.0
    combine_cq_enable_check_self: bool = False  # 5.4.0
    combine_cq_loading_cq_types: str = "default;defaultRocksDB"  # 5.4.0
    combine_cq_max_extra_search_commit_log_files: int = 3  # 5.4.0
    combine_cq_prefer_cq_type: str = "default"  # 5.4.0
    combine_cq_use_rocksdb_for_lmq: bool = False  # 5.5.0
    commit_log_force_swap_map_interval: int = 43_200_000
    commit_log_swap_map_interval: int = 3_600_000
    commit_log_swap_map_reserve_file_num: int = 100
    compaction_schedule_internal: int = 900_000
    compaction_thread_num: int = 6
    correct_logic_min_offset_force_interval: int = 300_000
    correct_logic_min_offset_sleep_interval: int = 1
    d_leger_group: str = ""
    d_leger_peers: str = ""
    d_leger_self_id: str = ""
    disappear_time_after_start: int = -1
    dispatch_cq_cache_num: int = 4_096
    dispatch_cq_threads: int = 10
    enable_batch_push: bool = False
    enable_clean_expired_offset: bool = False
    enable_d_leger_commit_log: bool = False
    enable_lmq_quota: bool = False  # 5.5.0
    enable_log_consume_queue_repeatedly_build_when_recover: bool = False  # 5.4.0
    enable_rocks_db_log: bool = False
    enable_schedule_message_stats: bool = True
    iterator_when_use_rocksdb_consume_queue: bool = True  # 5.5.0
    logic_queue_force_swap_map_interval: int = 43_200_000
    logic_queue_swap_map_interval: int = 3_600_000
    logic_queue_swap_map_reserve_file_num: int = 20
    logical_disk_space_clean_forcibly_threshold: float = 0.8
    mapped_file_swap_enable: bool = True
    max_async_put_message_requests: int = 5_000
    max_checksum_range: int = 1_073_741_824
    max_consume_queue_scan: int = 20_000
    max_offset_map_size: int = 104_857_600
    max_rocks_db_index_query_days: int = 7  # 5.4.0
    max_slave_resend_length: int = 268_435_456
    max_topic_length: int = 127
    mem_table_flush_interval_ms: int = 3_600_000
    preferred_leader_id: str = ""
    put_msg_index_hight_water: int = 600_000
    real_time_persist_rocks_db_config: bool = True
    replicas_per_disk_partition: int = 1
    rocksdb_compression_type: str = "lz4"
    rocksdb_flush_wal_frequency: int = 1_024
    rocksdb_wal_file_rolling_threshold: int = 1_073_741_824
    sample_count_threshold: int = 5_000
    sample_steps: int = 32
    schedule_async_deliver_max_pending_limit: int = 2_000
    schedule_async_deliver_max_resend_num2_blocked: int = 3
    search_bcq_by_cache_enable: bool = True
    spin_lock_collision_retreat_optimal_degree: int = 1_000
    stat_rocks_db_cq_interval_sec: int = 10
    store_path_broker_identity: str = ""
    store_path_d_ledger_commit_log: str = ""
    store_path_epoch_file: str = ""
    sync_master_flush_offset_when_startup: bool = False
    timer_cold_data_check_interval_ms: int = 60_000
    timer_enable_check_metrics: bool = True
    timer_get_message_thread_num: int = 3
    timer_intercept_delay_level: bool = False
    timer_metric_small_threshold: int = 1_000_000
    timer_progress_log_interval_ms: int = 10_000
    timer_put_message_thread_num: int = 3
    timer_recall_to_time_wheel_enable: bool = True  # 5.4.0
    timer_recall_to_timeline_enable: bool = True  # 5.4.0
    timer_reput_service_core_pool_size: int = 6  # 5.5.0
    timer_reput_service_max_pool_size: int = 6  # 5.5.0
    timer_reput_service_queue_capacity: int = 10_000  # 5.5.0
    timer_rocks_db_precision_ms: int = 1_000  # 5.4.0
    timer_rocks_db_roll_interval_hours: int = 1  # 5.4.0
    timer_rocks_db_roll_max_tps: float = 8_000.0  # 5.4.0
    timer_rocks_db_roll_range_hours: int = 2  # 5.4.0
    timer_rocks_db_stop_scan: bool = False  # 5.4.0
    timer_rocks_db_time_expired_max_tps: float = 200_000.0  # 5.4.0
    timer_stop_enqueue: bool = False
    timer_wheel_snapshot_interval_ms: int = 10_000  # 5.4.0
    trans_write_origin_trans_half_enable: bool = True  # 5.4.0
    use_separate_store_path_for_rocksdb_cq: bool = False  # 5.5.0

    given: frozenset[str] = frozenset()
    s3: S3Options = S3Options()  # the keys of object storage

    if not TYPE_CHECKING:

        def __init__(self, **values: object) -> None:
            if unknown := values.keys() - type(self).__annotations__:
                raise TypeError(f"StoreConfig() got an unexpected keyword argument {min(unknown)!r}")
            for name, value in values.items():  # the text "no" would be a yes; of a file, `_value` says the same
                if isinstance(getattr(StoreConfig, name), bool) and not isinstance(value, bool):
                    raise TypeError(f"{name} is {value!r:.60}, of type {type(value).__name__}; give True or False")
            self.__dict__.update(values)

        def __setattr__(self, name: str, value: object) -> NoReturn:
            raise FrozenInstanceError(f"cannot assign to field {name!r}; with_keys() makes a changed copy")

        def __delattr__(self, name: str) -> NoReturn:
            raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoreConfig):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().values()))

    def __repr__(self) -> str:
        """Return the fields that differ from RocketMQ's defaults."""
        usual = type(self)
        changed = (f"{name}={value!r}" for name, value in self._values().items() if value != getattr(usual, name))
        return f"StoreConfig({', '.join(changed)})"

    def _values(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in type(self).__annotations__}

    @classmethod
    def from_keys(cls, keys: Mapping[str, object]) -> StoreConfig:
        """Make a configuration from RocketMQ's key names.

        Args:
            keys: RocketMQ's own names, and `s3.*`; values have the key's type or are text as in a broker.conf.

        Raises:
            ConfigError: RocketMQ has no such key (the text names the closest), or the key cannot have this value.
        """
        return cls().with_keys(keys)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> StoreConfig:
        """Make a configuration from a broker.conf file.

        Keys that are not the store's (such as `namesrvAddr`) are ignored, as RocketMQ's store ignores them. They are
        logged, because a misspelled key looks the same.

        Raises:
            ConfigError: a key cannot have its value, or the file is not text.
            StoreAccessError: the file cannot be read.
        """
        keys = read_broker_conf(path)
        foreign = sorted(keys.keys() - KEYS.keys())
        if foreign:
            log.info("%s: ignored keys that are not the store's: %s", path, ascii(foreign)[:200])
        return cls.from_keys({key: value for key, value in keys.items() if key in KEYS})

    @classmethod
    def of(
        cls, config: StoreConfig | str | os.PathLike[str] | None, keys: Mapping[str, object] | None = None
    ) -> StoreConfig:
        """Make a configuration from the arguments `config=` and `set=`: a file or object, then keys.

        Raises:
            ConfigError: an unknown key or an impossible value.
            StoreAccessError: the file cannot be read.
        """
        base = config if isinstance(config, StoreConfig) else cls.from_file(config) if config else cls()
        return base.with_keys(keys) if keys else base

    def with_keys(self, keys: Mapping[str, object]) -> StoreConfig:
        """Return a copy with these RocketMQ keys set.

        Raises:
            ConfigError: as for `from_keys`.
        """
        changes: dict[str, object] = {}
        given, s3 = set(self.given), self.s3
        for key, value in keys.items():
            if key in S3_KEYS:
                s3 = s3.with_key(key, value)
                continue
            if key not in KEYS:
                raise _unknown(key)
            changes[KEYS[key]] = _value(key, value)
            given.add(key)
        return type(self)(**self._values() | changes | {"given": frozenset(given), "s3": s3})  # type: ignore[arg-type]

    def key(self, name: str) -> object:
        """Return the value of a RocketMQ key.

        Raises:
            ConfigError: there is no such key.
        """
        if name not in KEYS:
            raise _unknown(name)
        return getattr(self, KEYS[name])

    @property
    def consume_queue_file_size(self) -> int:
        """Bytes of a consume queue file: the setting rounded up to whole 20-byte units."""
        return -(-self.mapped_file_size_consume_queue // 20) * 20

    @property
    def index_file_size(self) -> int:
        """Bytes of an index file: header, slots, items."""
        return 40 + 4 * self.max_hash_slot_num + 20 * self.max_index_num

    @property
    def max_record_size(self) -> int:
        """Bytes that a whole record may have: the largest body and 64 KiB for everything else."""
        return self.max_message_size + 65_536

    @cached_property
    def delay_ms(self) -> tuple[int, ...]:
        """Milliseconds of each delay level; level 1 is at 0."""
        return parse_delay_levels(self.message_delay_level)


def from_settings(settings: Iterable[str], config: StoreConfig | str | os.PathLike[str] | None = None) -> StoreConfig:
    """Apply the command line's `--set KEY=VALUE` words to `config`, an object or a file."""
    return StoreConfig.of(config, dict(map(split_setting, settings)))


def _value(key: str, value: object) -> object:
    """Convert a value to the type of its key, or raise ConfigError."""
    name = KEYS[key]
    kind = type(getattr(_DEFAULTS, name))
    if kind is str:
        return _text(key, name, value)
    if kind is bool:
        text = str(value).strip().lower()
        if text not in ("true", "false"):
            raise ConfigError(f"{key}: {short(value)} is neither true nor false")
        return text == "true"
    text = str(value).strip()
    if kind is float:
        if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,19}(\.[0-9]{1,19})?", text):
            raise ConfigError(f"{key}: {short(value)} is not a number such as 0.8")
        return float(text)
    low, high = _LIMITS.get(name, (0, I32_MAX))
    number = int(text) if not isinstance(value, bool) and re.fullmatch(r"[+-]?[0-9]{1,19}", text) else None
    if number is None or not low <= number <= high:
        raise ConfigError(f"{key}: {short(value)} is not a whole number from {low} to {high}")
    return number


def _text(key: str, name: str, value: object) -> str:
    text = str(value).strip()
    allowed = _CHOICES.get(name)
    if allowed and text not in allowed:
        raise ConfigError(f"{key}: {short(value)} is not one of {', '.join(allowed)}")
    if name == "message_delay_level":
        parse_delay_levels(text)
    return text


def _unknown(key: object) -> ConfigError:
    if not isinstance(key, str):
        return ConfigError(f"{short(key)} is of type {type(key).__name__}; a key is a text")
    if key.lower().partition(".")[0] in KINDS and "." in key:
        return ConfigError(f"{short(key)} is not a key of object storage; these are: {', '.join(S3_KEYS)}")
    close = closest(key, _LOWERED)
    hint = f"; did you mean {close}?" if close else "; use the names of RocketMQ's broker.conf"
    return ConfigError(f"{short(key)} is not a key of RocketMQ's store{hint}")


# Keys whose capitals do not follow from the name in snake case.
_ODD = {
    "broker_ip1": "brokerIP1",
    "enabled_append_prop_crc": "enabledAppendPropCRC",
    "force_verify_prop_crc": "forceVerifyPropCRC",
    "check_crc_on_recover": "checkCRCOnRecover",
    "use_abs_lock": "useABSLock",
    "index_rocks_db_enable": "indexRocksDBEnable",
    "trans_rocks_db_enable": "transRocksDBEnable",
    "timer_rocks_db_enable": "timerRocksDBEnable",
    "rocksdb_cq_double_write_enable": "rocksdbCQDoubleWriteEnable",
    "clean_rocks_db_dirty_cq_interval_min": "cleanRocksDBDirtyCQIntervalMin",
    "combine_assign_offset_cq_type": "combineAssignOffsetCQType",
    "combine_cq_enable_check_self": "combineCQEnableCheckSelf",
    "combine_cq_loading_cq_types": "combineCQLoadingCQTypes",
    "combine_cq_max_extra_search_commit_log_files": "combineCQMaxExtraSearchCommitLogFiles",
    "combine_cq_prefer_cq_type": "combineCQPreferCQType",
    "combine_cq_use_rocksdb_for_lmq": "combineCQUseRocksdbForLmq",
    "enable_rocks_db_log": "enableRocksDBLog",
    "max_rocks_db_index_query_days": "maxRocksDBIndexQueryDays",
    "real_time_persist_rocks_db_config": "realTimePersistRocksDBConfig",
    "stat_rocks_db_cq_interval_sec": "statRocksDBCQIntervalSec",
    "timer_rocks_db_precision_ms": "timerRocksDBPrecisionMs",
    "timer_rocks_db_roll_interval_hours": "timerRocksDBRollIntervalHours",
    "timer_rocks_db_roll_max_tps": "timerRocksDBRollMaxTps",
    "timer_rocks_db_roll_range_hours": "timerRocksDBRollRangeHours",
    "timer_rocks_db_stop_scan": "timerRocksDBStopScan",
    "timer_rocks_db_time_expired_max_tps": "timerRocksDBTimeExpiredMaxTps",
    "use_separate_store_path_for_rocksdb_cq": "useSeparateStorePathForRocksdbCQ",
}


def key_name(name: str) -> str:
    """Return RocketMQ's name of a key given in snake case; RocketMQ's own names are unchanged."""
    first, *rest = name.split("_")
    return _ODD.get(name) or first + "".join(part.capitalize() for part in rest)


_DEFAULTS = StoreConfig()
KEYS: dict[str, str] = {key_name(name): name for name in StoreConfig.__annotations__ if name not in ("given", "s3")}
_LOWERED = {key.lower(): key for key in KEYS}
_CHOICES = {
    "flush_disk_type": ("ASYNC_FLUSH", "SYNC_FLUSH"),
    "broker_role": ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
}
# Smallest and largest value where it is not 0 to 2^31-1. A file must hold one unit of its kind at least.
_LIMITS = {
    "mapped_file_size_commit_log": (100, I32_MAX),
    "mapped_file_size_consume_queue": (1, I32_MAX - 20),
    "mapper_file_size_batch_consume_queue": (46, I32_MAX),
    "mapped_file_size_consume_queue_ext": (24, I32_MAX),
    "mapped_file_size_timer_log": (68, I32_MAX),
    "compaction_mapped_file_size": (100, I32_MAX),
    "compaction_cq_mapped_file_size": (46, I32_MAX),
    "max_hash_slot_num": (1, I32_MAX),
    "max_index_num": (2, I32_MAX),
    "timer_precision_ms": (1, I32_MAX),
    "broker_id": (-1, I64_MAX),
    "listen_port": (0, 65_535),
    "os_page_cache_busy_time_out_mills": (0, I64_MAX),
    "flush_delay_offset_interval": (0, I64_MAX),
    "max_ha_transfer_byte_in_second": (0, I64_MAX),
    "transaction_check_interval": (0, I64_MAX),
    "transaction_time_out": (0, I64_MAX),
    "transaction_check_max": (0, I32_MAX),
    "short_polling_time_mills": (0, I64_MAX),
    "clean_rocks_db_dirty_cq_interval_min": (0, I64_MAX),
    "clean_swaped_map_interval": (0, I64_MAX),
    "disappear_time_after_start": (-1, I32_MAX),
    "max_checksum_range": (0, I64_MAX),
    "max_slave_resend_length": (0, I64_MAX),
    "mem_table_flush_interval_ms": (0, I64_MAX),
    "rocksdb_wal_file_rolling_threshold": (0, I64_MAX),
    "stat_rocks_db_cq_interval_sec": (0, I64_MAX),
    "timer_rocks_db_precision_ms": (0, I64_MAX),
}

"""Completes a store's configuration: given keys, else the files on disk, else defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice

from flintmq.config.keys import StoreConfig, key_name
from flintmq.format.batch_queue import BATCH_UNIT_SIZE
from flintmq.format.consume_queue import UNIT_SIZE
from flintmq.format.consume_queue_ext import EXT_UNIT, FILE_END_ROOM
from flintmq.storage.filesystem import Effects
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import read_config
from flintmq.store.layout.queue_name import each_queue_name, queue_names

SMALL = {  # dev=True: files small enough for tests on a laptop
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
}


def given_config(
    config: StoreConfig | Mapping[str, object] | None, dev: bool, keys: Mapping[str, object]
) -> StoreConfig:
    """Merge the three ways to give a configuration.

    Raises:
        ConfigError: an unknown key or an impossible value.
    """
    base = (
        config
        if isinstance(config, StoreConfig)
        else StoreConfig.from_keys({**(SMALL if dev else {}), **(config or {})})
    )
    return base.with_keys({key_name(name): value for name, value in keys.items()}) if keys else base


def batch_topics(root: str, effects: Effects) -> set[str]:
    """Return the topics of type BatchCQ, by config/topics.json or by a batch queue on disk."""
    table = read_config(root, effects)
    return {topic for topic in table.topics if table.is_batch(topic)} | {
        name.topic for name in queue_names(root, directories.BATCH_QUEUES, effects)
    }


QUEUES = 100  # number of queues whose file sizes are counted
_LEAST = {  # bytes of the smallest file that can hold a unit
    directories.QUEUES: UNIT_SIZE,
    directories.BATCH_QUEUES: BATCH_UNIT_SIZE,
    directories.EXT_QUEUES: EXT_UNIT.min_size + FILE_END_ROOM,
}
_SIZES = {
    directories.QUEUES: "mappedFileSizeConsumeQueue",
    directories.BATCH_QUEUES: "mapperFileSizeBatchConsumeQueue",
    directories.EXT_QUEUES: "mappedFileSizeConsumeQueueExt",
}


def with_queue_size(root: str, config: StoreConfig, effects: Effects) -> StoreConfig:
    """Take the sizes of queue files of each kind from the store, unless they were given."""
    for kind, key in _SIZES.items():
        size = 0 if key in config.given else queue_file_size(root, kind, 0, effects)
        config = config.with_keys({key: size}) if size else config
    return config


def queue_file_size(root: str, kind: str, default: int, effects: Effects) -> int:
    """Return the most frequent file size of this kind among the first hundred queues.

    Engine, rebuild and verify use this rule. Files that are too short for a unit do not count.

    Args:
        root: of the store.
        kind: directory of the queues.
        default: the result if there are no files.
        effects: the disk.

    Raises:
        StoreAccessError: a directory may not be listed.
    """
    folder = os.path.join(root, kind)
    names = islice(each_queue_name(root, kind, effects), QUEUES)
    paths = [os.path.join(folder, name.topic, str(name.queue_id)) for name in names]
    files = (os.path.join(path, file) for path in paths for file in effects.listdir(path, folder))
    return directories.common_size(
        (size for file in files if (size := effects.size(file) or 0) >= _LEAST[kind]), default
    )

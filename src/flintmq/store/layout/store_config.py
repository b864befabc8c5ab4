"""Completes a store's configuration: given keys, else the files on disk, else defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from flintmq.config.keys import StoreConfig, key_name
from flintmq.format.text import java_decode
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import BrokerConfig, read_config
from flintmq.store.layout.file_geometry import SIZE_KEYS, queue_file_size
from flintmq.store.layout.queue_name import QueueName, queue_names

SMALL: Final = StoreConfig(  # dev=True: files small enough for tests on a laptop
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_timer_log=104_000,  # 1,999 units
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=1_000,
    max_index_num=4_000,
)


def given_config(
    config: StoreConfig | Mapping[str, object] | None, dev: bool, keys: Mapping[str, object]
) -> StoreConfig:
    if config is not None and not isinstance(config, (StoreConfig, Mapping)):
        wanted = "a StoreConfig (StoreConfig.from_file(path) reads a broker.conf) or a dict of RocketMQ's keys"
        raise TypeError(f"config is of type {type(config).__name__}; give {wanted}")
    if isinstance(config, StoreConfig):
        base = config
    else:  # nobody gave the small sizes: the files of a store that is there have others
        base = (SMALL if dev else StoreConfig()).with_keys(config or {})
    return base.with_keys({key_name(name): value for name, value in keys.items()}) if keys else base


def batch_topics(
    root: str, effects: Effects, broker: BrokerConfig | None = None, queues: Iterable[QueueName] | None = None
) -> set[str]:
    """Return the topics of type BatchCQ, by config/topics.json or a batch queue on disk.

    A queue decides for topics that topics.json does not name. RocketMQ goes by topics.json alone, and does not start
    if a queue of another type lies beside it.
    """
    # Whoever asks the disk makes queues by the answer: a topic must not get queues of the wrong type.
    broker = broker if broker is not None else read_config(root, effects, strict=True)
    if queues is None:
        there = effects.listdir(os.path.join(root, directories.BATCH_QUEUES))
        unknown = [topic for topic in there if java_decode(os.fsencode(topic)) not in broker.topics]
        queues = queue_names(root, directories.BATCH_QUEUES, effects, unknown)
    return {topic for topic in broker.topics if broker.is_batch(topic)} | {
        name.topic for name in queues if java_decode(os.fsencode(name.topic)) not in broker.topics
    }


def with_queue_size(root: str, config: StoreConfig, effects: Effects) -> StoreConfig:
    """Take the sizes of queue files of each kind from the store, unless they were given."""
    for kind, key in SIZE_KEYS.items():
        size = None if key in config.given else queue_file_size(root, kind, config, effects)
        config = config.with_keys({key: size}) if size else config
    return config

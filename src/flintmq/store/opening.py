"""A store's configuration once its directory was looked at: given keys, then what is on disk, then defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping

from flintmq.config import StoreConfig
from flintmq.storage.effects import Effects
from flintmq.store import geometry
from flintmq.store.config_files import read_config
from flintmq.store.queues import queue_names

SMALL = {  # dev=True: files that fit a laptop's test
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
}


def given_config(
    config: StoreConfig | Mapping[str, object] | None, dev: bool, keys: Mapping[str, object]
) -> StoreConfig:
    """The configuration from all three ways to give it.

    Raises:
        ConfigError: an unknown key or an impossible value.
    """
    base = (
        config
        if isinstance(config, StoreConfig)
        else StoreConfig.from_keys({**(SMALL if dev else {}), **(config or {})})
    )
    return base.with_keys({_camel(name): value for name, value in keys.items()}) if keys else base


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def batch_topics(root: str, effects: Effects) -> set[str]:
    """Topics of type BatchCQ: config/topics.json says so, or they have a batch queue."""
    table = read_config(root, effects)
    return {topic for topic in table.topics if table.is_batch(topic)} | {
        name.topic for name in queue_names(root, geometry.BATCH_QUEUES, effects)
    }


def with_queue_size(root: str, config: StoreConfig, effects: Effects) -> StoreConfig:
    """The size of queue files as the store has them, unless it was given."""
    if "mappedFileSizeConsumeQueue" in config.given:
        return config
    folder = os.path.join(root, geometry.QUEUES)
    for name in queue_names(root, geometry.QUEUES, effects):
        place = os.path.join(folder, name.topic, str(name.queue_id))
        for file in effects.listdir(place, folder):
            size = effects.size(os.path.join(place, file))
            if size:
                return config.with_keys({"mappedFileSizeConsumeQueue": size})
    return config

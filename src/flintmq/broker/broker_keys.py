"""The keys of RocketMQ's broker that a broker here takes beside those of its store."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flintmq.config.keys import KEYS, StoreConfig
from flintmq.config.text import read_broker_conf, short, split_setting
from flintmq.errors import ConfigError

log = logging.getLogger("flintmq.broker")

_DEV: Final = StoreConfig(  # small files, into which the largest message of a client fits all the same
    mapped_file_size_commit_log=16 << 20,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=1_000,
    max_index_num=4_000,
)
_WITHOUT_EFFECT: Final = frozenset({
    "brokerClusterName", "brokerName", "enablePropertyFilter", "enableTopicMessageTypeCheck", "longPollingEnable",
    "minInvisibleTimeMillsForRecv", "namesrvAddr", "recallMessageEnable", "traceTopicEnable", "transactionCheckMax",
    "waitTimeMillsInSendQueue",
})  # fmt: skip
"""Keys of brokers that change nothing here yet; brokers' names are arguments."""


@dataclass(frozen=True, slots=True)
class BrokerKeys:
    """Settings of a broker beyond those of its store.

    Attributes:
        auto_create_topic: the first message to a topic that nobody made makes it.
        auto_create_group: so does the first heartbeat of a consumer group.
    """

    auto_create_topic: bool = True
    auto_create_group: bool = True


_FIELDS: Final = {"autoCreateTopicEnable": "auto_create_topic", "autoCreateSubscriptionGroup": "auto_create_group"}


def settings_of(
    config: StoreConfig | Mapping[str, object] | str | os.PathLike[str] | None,
    words: Iterable[str] = (),
    *,
    dev: bool = False,
) -> tuple[StoreConfig, BrokerKeys]:
    """Return the settings of a store and of a broker.

    Args:
        config: the store's configuration, RocketMQ's keys, or the path of a broker.conf.
        words: KEY=VALUE, which win.
        dev: small files, for experiments.

    Raises:
        ConfigError: an unknown key or an impossible value.
        StoreAccessError: the file cannot be read.
    """
    given = dict(map(split_setting, words))
    if isinstance(config, StoreConfig):
        base, found = config, dict[str, object]()
    elif config is None or isinstance(config, Mapping):
        base, found = _DEV if dev else StoreConfig(), dict(config or {})
    else:
        base = StoreConfig.from_file(config)
        if dev:  # what the file says wins
            base = _DEV.with_keys({key: base.key(key) for key in base.given})
        found = {key: value for key, value in read_broker_conf(config).items() if key in _FIELDS}
    found |= given
    idle = sorted(key for key in found if key in _WITHOUT_EFFECT and key not in KEYS)
    if idle:
        log.info("keys that have no effect in a broker of FlintMQ: %s", ", ".join(idle))
    flags = {_FIELDS[key]: _flag(key, value) for key, value in found.items() if key in _FIELDS}
    of_store = {key: value for key, value in found.items() if key not in _FIELDS and key not in idle}
    return base.with_keys(of_store) if of_store else base, BrokerKeys(**flags)


def _flag(key: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key}: {short(value)} is neither true nor false")
    return text == "true"

"""The keys of RocketMQ's broker that a broker here takes beside those of its store."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from flintmq.broker import tls
from flintmq.config.keys import KEYS, StoreConfig
from flintmq.config.text import read_broker_conf, short, split_setting
from flintmq.errors import ConfigError
from flintmq.format.config_json import integer

log = logging.getLogger("flintmq.broker")

_DEV: Final = StoreConfig(  # small files, into which the largest message of a client fits all the same
    mapped_file_size_commit_log=16 << 20,
    mapped_file_size_consume_queue=20_000,
    mapped_file_size_timer_log=104_000,
    max_hash_slot_num=1_000,
    max_index_num=4_000,
)
_WITHOUT_EFFECT: Final = frozenset({
    "brokerClusterName", "brokerName", "longPollingEnable", "namesrvAddr",
    "waitTimeMillsInSendQueue",
})  # fmt: skip
"""Keys of brokers that change nothing here yet; brokers' names are arguments."""


@dataclass(frozen=True, slots=True)
class BrokerKeys:
    """Settings of a broker beyond those of its store.

    Attributes:
        auto_create_topic: the first message to a topic that nobody made makes it.
        auto_create_group: so does the first heartbeat of a consumer group.
        check_types: a topic takes from clients by gRPC only messages of the type that it says.
        min_invisible_ms: for which messages that a client by gRPC receives are invisible at least.
        tls_mode: whether connections come with TLS, without, or as they like (`tls.MODES`).
        recall: messages that wait for their time may be recalled; RocketMQ's own default is false.
        by_properties: consumers may subscribe by SQL92; RocketMQ's own default is false.
        store_replies: what answers a request is put, too.
        trace: the topic of message trace is there, with one queue; RocketMQ's own default is false.
        trace_topic: its name.
        samples_max: of one metric for Prometheus.
    """

    auto_create_topic: bool = True
    auto_create_group: bool = True
    check_types: bool = True
    min_invisible_ms: int = 10_000
    tls_mode: str = tls.PERMISSIVE
    recall: bool = True
    by_properties: bool = True
    store_replies: bool = True
    trace: bool = True
    trace_topic: str = "RMQ_SYS_TRACE_TOPIC"
    samples_max: int = 50_000


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
    own = {_FIELDS[key][0]: _FIELDS[key][1](key, value) for key, value in found.items() if key in _FIELDS}
    of_store = {key: value for key, value in found.items() if key not in _FIELDS and key not in idle}
    return base.with_keys(of_store) if of_store else base, BrokerKeys(**own)


def _flag(key: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key}: {short(value)} is neither true nor false")
    return text == "true"


def _count(key: str, value: object) -> int:
    found = integer(value)
    if found is None or found < 0:
        raise ConfigError(f"{key}: {short(value)} is no number from 0 on")
    return found


def _tls_mode(key: str, value: object) -> str:
    text = str(value).strip().lower()
    if text not in tls.MODES:
        raise ConfigError(f"{key}: {short(value)} is none of {', '.join(tls.MODES)}")
    return text


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str, object], Any]]]] = {
    "autoCreateTopicEnable": ("auto_create_topic", _flag),
    "autoCreateSubscriptionGroup": ("auto_create_group", _flag),
    "enablePropertyFilter": ("by_properties", _flag),
    "enableTopicMessageTypeCheck": ("check_types", _flag),
    "minInvisibleTimeMillsForRecv": ("min_invisible_ms", _count),
    "recallMessageEnable": ("recall", _flag),
    "metricsOtelCardinalityLimit": ("samples_max", _count),
    "msgTraceTopicName": ("trace_topic", lambda key, value: str(value).strip()),
    "storeReplyMessageEnable": ("store_replies", _flag),
    "traceTopicEnable": ("trace", _flag),
    "tls.server.mode": ("tls_mode", _tls_mode),
}
"""Key -> its field in BrokerKeys, and what reads its value."""

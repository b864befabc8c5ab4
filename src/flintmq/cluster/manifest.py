"""Reads a manifest of stores, such as cluster.toml.

cluster = "orders"            # of all stores below that do not name another
[[stores]]
store = "broker-a/store"      # a directory, from the manifest's directory on, or a URL
broker = "broker-a"
broker_id = 0                 # 0, the default, is the master
"""

from __future__ import annotations

import os
import tomllib
from typing import Any

from flintmq.cluster.member import MASTER, Member
from flintmq.config.text import closest, short
from flintmq.errors import StoreAccessError, UsageError
from flintmq.storage.files.store_url import absolute, is_remote, store_path

SUFFIX = ".toml"
MOST_BYTES = 4 << 20
KEYS = {
    "store": "the store's directory or URL",
    "broker": "the broker's name",
    "broker_id": "0 for a master",
    "cluster": "the cluster's name",
}
"""The keys of a store -> their meaning."""


def is_manifest(text: str) -> bool:
    """Return whether a path names a manifest: it ends in .toml and is no directory."""
    return text.endswith(SUFFIX) and not is_remote(text) and not os.path.isdir(store_path(text))


def read_manifest(path: str) -> list[Member]:
    path = store_path(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such manifest of stores") from None
    except OSError as error:
        raise StoreAccessError(f"{path}: {error.strerror}; a manifest of stores must be readable") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path}: over {MOST_BYTES >> 20} MiB; that is no manifest of stores")
    try:
        given = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML ({short(error)})") from None
    return _members(path, given)


def _members(path: str, given: dict[str, Any]) -> list[Member]:
    known = {"cluster": "cluster", "stores": "stores"}
    for name in given:
        if name not in known:
            near = closest(name, known)
            raise UsageError(f"{path}: unknown key {short(name)}; " + (f"did you mean {near}?" if near else _FORM))
    stores = given.get("stores")
    if not isinstance(stores, list) or not stores or not all(isinstance(one, dict) for one in stores):
        raise UsageError(f"{path}: it names no stores; {_FORM}")
    cluster = _text(path, given, "cluster", "")
    return [
        _member(f"{path}: store {number}", os.path.dirname(path), cluster, one) for number, one in enumerate(stores, 1)
    ]


def _member(where: str, folder: str, cluster: str, given: dict[str, Any]) -> Member:
    for name in given:
        if name not in KEYS:
            near = closest(name, {key: key for key in KEYS})
            raise UsageError(f"{where}: unknown key {short(name)}; " + (f"did you mean {near}?" if near else _FORM))
    place = _text(where, given, "store")
    place = absolute(place) if is_remote(store_path(place)) else absolute(os.path.join(folder, store_path(place)))
    number = given.get("broker_id", MASTER)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**63:
        raise UsageError(f"{where}: broker_id is {_shown(number)}; it is 0 for a master and more for a slave")
    return Member(place, _text(where, given, "broker"), number, _text(where, given, "cluster", cluster))


def _text(where: str, given: dict[str, Any], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if value is None:
        raise UsageError(f"{where}: {name} is missing ({KEYS[name]})")
    if not isinstance(value, str) or (not value and default is None):
        raise UsageError(f"{where}: {name} is {_shown(value)}, not a text" if value else f"{where}: {name} is empty")
    return value


def _shown(value: object) -> str:
    """Format a value as Python writes it: 7 is no text, and '7' is one."""
    return short(value) if isinstance(value, str) else f"{value!r:.60}"


_FORM = 'write [[stores]] with store = "DIR", broker = "NAME", and broker_id, cluster where they matter'

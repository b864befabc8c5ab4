"""Reads text forms of settings: broker.conf, KEY=VALUE, delay levels, names, choices."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from numbers import Real
from operator import index
from pathlib import Path
from threading import TIMEOUT_MAX

from flintmq.errors import ConfigError, StoreAccessError, UsageError, without_secrets

CONF_BYTES_MAX = 1 << 20
_SQL = re.compile(r"[<>=]|\sIN\s*\(|\sIS\s+(?:NOT\s+)?NULL\b|\sBETWEEN\s", re.IGNORECASE)

log = logging.getLogger("flintmq.config")

DAY_MS = 86_400_000
UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
"""Milliseconds of each unit of time; a place that takes durations says which units it takes."""


@lru_cache(64)
def tag_names(text: str) -> tuple[str, ...]:
    """Return the parts of a tag expression (`A || B`), also empty ones.

    One that looks like an SQL92 expression is logged, once. It is not refused, because RocketMQ stores `a > 5` as a tag
    too and its clients find it; but who takes it for a condition sees an empty queue.
    """
    if _SQL.search(text):
        log.warning(
            "tags=%s looks like an SQL92 expression, and is read as the name of a tag; tags are A || B, and conditions "
            "are for flintmq sql",
            short(text),
        )
    return tuple(part.strip() for part in text.split("||"))


def read_broker_conf(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read all keys of a broker.conf.

    Lines are `key=value` or `key:value`; comments begin with # or !, as in Java's properties files. A backslash at
    the end of a line continues it; every other backslash is kept, since Windows paths contain them.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(CONF_BYTES_MAX + 1)
    except OSError as error:
        reason = error.strerror or "I/O error"
        raise StoreAccessError(f"{path}: cannot be read ({reason}); give the broker's configuration file") from error
    if len(raw) > CONF_BYTES_MAX:
        raise ConfigError(f"{path}: is larger than 1 MiB, which no broker.conf is")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}, position {error.start}: not UTF-8; give the broker's configuration file") from error
    keys = {}
    for line in map(str.strip, text.replace("\\\r\n", "\\\n").replace("\\\n", "").splitlines()):
        key, _, value = line.partition(min("=:", key=lambda mark: (line + mark).index(mark)))
        if key and line[0] not in "#!":
            keys[key.rstrip()] = value.lstrip()
    return keys


@lru_cache(maxsize=16)
def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the milliseconds of each level of a `messageDelayLevel`, such as "1s 5s 1m".

    Level 1 is at index 0.
    """
    levels = []
    for part in text.split(" "):
        match = re.fullmatch(r"([0-9]{1,18})([smhd])", part.strip())
        level = int(match[1]) * UNIT_MS[match[2]] if match else 2**63
        if level >= 2**63:
            raise ConfigError(f"messageDelayLevel: {short(part)} is not a delay; levels look like 10s, 5m, 2h or 1d")
        levels.append(level)
    return tuple(levels)


def split_setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{short(text)} is not KEY=VALUE, such as mappedFileSizeCommitLog=65536")
    return key.strip(), value.strip()


def closest(name: str, known: Mapping[str, str]) -> str | None:
    """Return the known name that resembles a misspelled one most; None if none does."""
    import difflib

    found = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return known[found[0]] if found else None


def check_choice(what: str, value: str, allowed: Iterable[str]) -> None:
    allowed = tuple(allowed)
    if value not in allowed:
        raise UsageError(f"{what} {str(value)[:40]!r} is not one of: {', '.join(allowed)}")


def check_seconds(what: str, seconds: float) -> None:
    if not isinstance(seconds, Real) or not 0 <= seconds <= TIMEOUT_MAX:  # NaN is not, either; a Decimal is no Real
        raise UsageError(f"{what}={seconds}; give 0 or more seconds, and a finite number of them")


def check_integer(what: str, value: object, advice: str = "give a whole number") -> int:
    """Return an argument as an int: any that Python takes as an index, but no bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UsageError(f"{what} is {value!r:.60}, of type {type(value).__name__}; {advice}")
    return index(value)


def short(value: object) -> str:
    """Quote a value for an error message: control characters escaped, at most 120 bytes."""
    text = repr(without_secrets(str(value)))  # before it is cut, which might leave a password without its host
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= 120 else raw[:117].decode("utf-8", "ignore") + "..."

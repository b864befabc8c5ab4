"""Parses the values of options: times, sizes, places, tags, settings.

An error begins with the name of the option.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flintmq.cli.text import iso, shorten_text
from flintmq.config.text import UNIT_MS, tag_names
from flintmq.errors import UsageError
from flintmq.format.text import ms_of, typed_ms

if TYPE_CHECKING:
    from flintmq.cli.output import Output
    from flintmq.cluster.member import Member
    from flintmq.cluster.members import Stores
    from flintmq.config.keys import StoreConfig
    from flintmq.store.commitlog.report import Report

_AGE = re.compile(r"-(?:[0-9]{1,12}(?:ms|[smhdw]))+")
_AGE_PART = re.compile(r"([0-9]+)(ms|[smhdw])")
_INT64_MAX = (1 << 63) - 1
LOOPBACK, METRICS_PORT, HA_PORT = "127.0.0.1", 5557, 10912
_ADDRESS = re.compile(
    r"(?P<alone>[0-9]{1,5})|(?:\[(?P<inner>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[A-Za-z0-9._-]*))(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_SHIFT = {"": 0, "KiB": 10, "MiB": 20, "GiB": 30}


def stores_given(words: Sequence[str]) -> str | list[str]:
    """Return the one word, which may be a path, a pattern or a manifest, or all of them."""
    return words[0] if len(words) == 1 else list(words)


def members_of(
    words: Sequence[str], config: StoreConfig, out: Output, report: Report | None = None, **how: bool
) -> tuple[Member, ...]:
    """Return the stores that a user named, and print notes on those that were left out.

    `report`: gets them, too. `how`: as for `find_members`, which says what is raised.
    """
    from flintmq.cluster.members import find_members
    from flintmq.store.commitlog.report import Report

    report = Report() if report is None else report
    found = find_members(stores_given(words), config, report=report, **how)
    for note in report.notes:
        out.note(note.text)
    return found


def paths_of(stores: Stores, config: StoreConfig) -> list[str]:
    """Return the directory of one store, or those of several, as far as they are there."""
    from flintmq.cluster.members import find_members

    return [member.path for member in find_members(stores, config, strict=False)]


def store_config(settings: Sequence[str] | None, broker_conf: str | None = None) -> StoreConfig:
    """Apply the words of `--set KEY=VALUE` to a broker.conf, or to the defaults."""
    from flintmq.config.keys import from_settings

    return from_settings(settings or (), broker_conf)


def parse_address(option: str, text: str, usual: int = METRICS_PORT) -> tuple[str, int]:
    """Parse an address to listen at into host and port.

    Forms: `HOST:PORT`, `[IPV6]:PORT`, `HOST`, `PORT`. The host is 127.0.0.1 where it is missing.
    """
    found = _ADDRESS.fullmatch(text)
    host = next((part for part in (found["inner"], found["host"]) if part), LOOPBACK) if found else ""
    port = int(found["port"] or found["alone"] or usual) if found else 0
    if found is None or not text or port > 0xFFFF:
        raise UsageError(f"{option} {shorten_text(text, 100)!a}: not HOST:PORT, such as {LOOPBACK}:{usual}")
    return host, port


def parse_time(option: str, text: str, now_ms: int | None = None) -> int:
    """Parse a time into ms since 1970.

    Args:
        text: ISO 8601 (`2024-11-20`, `2024-11-20T11:24:33.5+08:00`; UTC if no zone is written), digits (ms since 1970,
            as typed_ms), `now`, or an age: `-15m`, `-1h30m` (units ms, s, m, h, d, w).
        now_ms: the moment that an age counts from; None for the present.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _INT64_MAX:
        return typed_ms(option, int(text))
    if _AGE.fullmatch(text):
        return now_ms - sum(int(n) * UNIT_MS[unit] for n, unit in _AGE_PART.findall(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        forms = "ISO 8601 (2024-11-20T11:24:33Z), ms since 1970, or an age such as -15m"
        raise UsageError(f"{option}: {shorten_text(text, 60)!r} is not a time; write {forms}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return ms_of(moment)


def time_range(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Return [since, until) in ms; None where unbounded."""
    now_ms = time.time_ns() // 1_000_000  # both ends count from the same moment
    first = None if since is None else parse_time("--since", since, now_ms)
    end = None if until is None else parse_time("--until", until, now_ms)
    if first is not None and end is not None and first >= end:
        raise UsageError(f"--since ({iso(first)}) is not before --until ({iso(end)}); no time is between them")
    return first, end


def parse_size(option: str, text: str) -> int:
    """Parse a number of bytes: `131072`, `128KiB`, `128 MiB`, `1GiB`."""
    found = re.fullmatch(r"([0-9]{1,15}) ?(|KiB|MiB|GiB)", text.strip(), re.ASCII)
    if found is None or not int(found[1]):
        raise UsageError(f"{option}: {shorten_text(text, 60)!r} is not a size; write bytes, or 64KiB, 128MiB, 1GiB")
    return int(found[1]) << _SHIFT[found[2]]


def parse_position(option: str, text: str) -> int:
    """Parse a position in a file: a number of bytes, decimal or with 0x."""
    found = re.fullmatch(r"0[xX]([0-9A-Fa-f]{1,16})|[0-9]{1,19}", text)
    value = -1 if found is None else int(found[1], 16) if found[1] else int(text)
    if not 0 <= value <= _INT64_MAX:
        raise UsageError(
            f"{option}: {shorten_text(text, 60)!r} is not a position; write a number of bytes, such as 12345 or 0x3039"
        )
    return value


def parse_log_place(option: str, text: str) -> int:
    """Parse a log offset: the number itself, or a log file's name, which is its first offset."""
    name = os.path.basename(text)
    if not re.fullmatch(r"[0-9]{1,20}", name, re.ASCII):
        raise UsageError(f"{option}: {shorten_text(name, 60)!r} is neither a log offset nor the name of a log file")
    return int(name)


def parse_property(option: str, text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`; the value may be empty, and hold `=`."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise UsageError(f"{option}: {shorten_text(text, 60)!r} is not NAME=VALUE")
    return name, value


def parse_tags(words: Sequence[str] | None) -> frozenset[str] | None:
    """Return the tags that `--tag` names, also in the form `A || B`; None for all, as for `*`."""
    tags = frozenset(tag for word in words or () for tag in tag_names(word)) - {""}
    return None if not words or "*" in tags else tags


def parse_partitions(text: str) -> tuple[str, ...]:
    """Return the partition columns of a text, in order.

    `topic` is short for topic_name; `none` means no column.
    """
    if text == "none":
        return ()
    names = {"topic_name" if name == "topic" else name for name in text.split(",")}
    return tuple(sorted(names, key=lambda name: (name != "topic_name", name)))

"""Says how two counts of a store differ: an earlier one, by its JSON, and the present one.

The file is whatever a user names, so each value is checked before it is used. A file that is no count is refused; facts
that make two counts unlike each other (another store, other topics, another log) are noted, and the figures compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from flintmq.errors import UsageError
from flintmq.format.text import iso, shorten_text

MOST_BYTES = 64 << 20
MOST_NUMBER = 2**63
ROWS_MOST = 200  # a list of topics or groups with so many rows may lack some
CHANGES_SHOWN = 20

FIGURES = {
    "messages": ("messages",),
    "bytes": ("bytes",),
    "messages_per_s": ("rate", "messages_per_s"),
    "peak_messages_per_s": ("rate", "peak_messages_per_s"),
    "topics": ("topic_count",),
    "queues": ("queue_count",),
    "producers": ("producer_count",),
    "behind": ("behind",),
    "size_p50": ("sizes", "p50"),
    "size_p99": ("sizes", "p99"),
    "latency_p50": ("latency", "p50"),
    "latency_p99": ("latency", "p99"),
    "distinct_keys": ("keys", "distinct"),
    "repeated_ids": ("ids", "surplus"),
    "damages": ("damages",),
}
"""Name of a figure that is compared -> its place in the JSON."""
NEW = {"version": "", "asked": None, "behind": None}
"""What the JSON of FlintMQ 0.1.0 lacks, and what counts for it."""


def earlier(path: str) -> dict[str, Any]:
    """Read the JSON of an earlier count; its `path` is added.

    Raises UsageError: the file cannot be read, or is not such JSON.
    """
    try:
        if not os.path.isfile(path):
            what = "is no regular file" if os.path.exists(path) else "there is no such file"
            raise UsageError(f"--compare {path}: {what}; flintmq stats STORE --json > FILE makes one")
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"--compare {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        found = json.loads(data) if len(data) <= MOST_BYTES else None
        if not isinstance(found, dict):
            raise ValueError
        found = {**NEW, **found}
        _check(found)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        text = f"--compare {path}: is not what flintmq stats --json prints ({_reason(error)})"
        raise UsageError(f"{text}; flintmq stats STORE --json > FILE makes one") from error
    return {**found, "path": path}


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    if isinstance(error, TypeError):
        return shorten_text(str(error), 80)
    return "no JSON object of one line"


def _check(found: dict[str, Any]) -> None:
    """Check the type of each value that is used.

    Raises KeyError, TypeError, ValueError: one is missing, or of another type.
    """
    for place in (*FIGURES.values(), ("made",), ("end",)):
        _number(found, place)
    for name in ("messages", "made", "end"):
        if found[name] is None:
            raise TypeError(f"{name} is null")
    _text(found, "store")
    _text(found, "version")
    for name, texts, number in (("topics", ("topic",), "messages"), ("lags", ("topic", "group"), "behind")):
        if not isinstance(found[name], list):
            raise TypeError(f"{name} is no list")
        for row in found[name]:
            for text in texts:
                _text(row, text)
            if _number(row, (number,)) is None:
                raise TypeError(f"{number} is null")


def _number(found: Any, place: Sequence[str]) -> float | None:
    if place[1:] and not isinstance(found[place[0]], dict):
        raise TypeError(f"{place[0]} is no object")
    value: float | None = reduce(getitem, place, found)
    wrong = isinstance(value, bool) or not isinstance(value, int | float | None)
    if wrong or (value is not None and not abs(value) < MOST_NUMBER):  # nor NaN
        raise TypeError(f"{'.'.join(place)} is no number")
    return value


def _text(found: Any, name: str) -> str:
    if not isinstance(found[name], str):
        raise TypeError(f"{name} is no text")
    return str(found[name])


def compared(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two counts, both as JSON.

    Returns:
        `path`, `made`, `store`, `version` ("" if it does not say) of the earlier one; `notes`: why the two may be
        unlike each other; `figures`, `topics`, `groups`: lists of names with `before` and `now`, None where there is
        none. Of topics and groups, those whose messages (of groups: their lag) changed, the largest changes first, at
        most 20, and `topics_changed`, `groups_changed`: their numbers.
    """
    topics = _changes(before["topics"], now["topics"], ("topic",), "messages")
    groups = _changes(before["lags"], now["lags"], ("group", "topic"), "behind")
    return {
        "path": before["path"],
        "made": before["made"],
        "store": before["store"],
        "version": before["version"],
        "notes": list(_notes(before, now)),
        "figures": [
            {"figure": name, "before": _number(before, place), "now": _number(now, place)}
            for name, place in FIGURES.items()
        ],
        "topics": topics[:CHANGES_SHOWN],
        "topics_changed": len(topics),
        "groups": groups[:CHANGES_SHOWN],
        "groups_changed": len(groups),
    }


def _changes(before: Any, now: Any, names: tuple[str, ...], number: str) -> list[dict[str, Any]]:
    old, new = ({tuple(row[name] for name in names): row[number] for row in rows} for rows in (before, now))
    if len(before) >= ROWS_MOST:  # what is not in a full list may be there all the same
        new = {key: value for key, value in new.items() if key in old}
    if len(now) >= ROWS_MOST:
        old = {key: value for key, value in old.items() if key in new}
    changed = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
    changed.sort(key=lambda key: (-abs((new.get(key) or 0) - (old.get(key) or 0)), key))
    return [{**dict(zip(names, key, strict=True)), "before": old.get(key), "now": new.get(key)} for key in changed]


def _notes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before["store"] != now["store"]:
        yield f"the earlier count is of another store, {before['store']}"
    elif before["end"] > now["end"]:
        yield f"the log ended at {before['end']:,} and now ends at {now['end']:,}: it was cut, or is another log"
    if before["made"] > now["made"]:
        yield f"the earlier count was made later than this one, {iso(int(before['made']))}"
    version = before["version"]
    if version != now["version"]:
        whose = f"FlintMQ {version}" if version else "a FlintMQ that did not give its version"
        yield f"the earlier count is by {whose}, this one by {now['version']}: figures may mean something else"
    if before["asked"] is not None and before["asked"] != now["asked"]:
        yield "the earlier count was asked for other topics or times"
    for what, kind in (("topics", "topics"), ("lags", "groups")):
        if max(len(before[what]), len(now[what])) >= ROWS_MOST:
            yield f"of {kind} only the {ROWS_MOST} largest of each count are compared"
    if any(not one[kind].get("exact", True) for one in (before, now) for kind in ("keys", "ids")):
        yield "different keys and repeated ids are estimates; a change within their errors may be none"

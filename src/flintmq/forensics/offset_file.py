"""Reads and writes a file of committed offsets, to keep or to move them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from flintmq.config.text import short
from flintmq.errors import FlintError, UsageError
from flintmq.forensics.offset_changes import Move
from flintmq.format.group_topics import RETRY
from flintmq.storage.files.versioned_json import VersionedJson, only, why

_BYTES_MAX: Final = 1 << 28
_FIELDS: Final = {"group": str, "topic": str, "queue": int, "offset": int}
BEGIN: Final = b'{\n "offsets": '  # of each such file
_OF: Final = "broker"  # beside the fields: where the offsets are of several stores


def state_of(rows: Iterable[tuple[str, tuple[str, str, int, int]]]) -> dict[str, Any]:
    """Return the content of a file of (broker or "", (group, topic, queue id, offset)).

    Left out: what is of no group or topic, the places of a group that has consumed nothing (-1), and the begin of retry
    topics, where a group begins that has no place there: a store that has no retry knows no such topic.
    """
    return {
        "places": [
            ({_OF: broker} if broker else {}) | dict(zip(_FIELDS, place, strict=True))
            for broker, place in rows
            if all(place[:2]) and (place[-1] > 0 or (place[-1] == 0 and not place[1].startswith(RETRY)))
        ]
    }


def file_at(path: str) -> VersionedJson:
    return VersionedJson(path, ("offsets", 1), lambda error: _refused(path, error), _BYTES_MAX, {"indent": 1})


def read_moves(path: str, broker: str | None = None) -> list[Move]:
    """Read the places of one broker, or of a file that names one at most.

    Raises:
        UsageError: no such file, or no offsets as `flintmq offsets export` writes them; a place that is there twice;
            several brokers, or another one.
        UnsupportedFormatError: a key that is not known, or a newer format.
    """
    rows = file_at(path).load(_built)
    if rows is None:
        raise UsageError(f"{path}: no such file; `flintmq offsets export STORE --out FILE` writes one")
    names = sorted({name for name, _ in rows})
    if (broker is not None and broker not in names) or (broker is None and names[1:]):
        raise UsageError(
            f"{path}: has offsets of {', '.join(short(name) if name else 'no named broker' for name in names)}; give "
            "one of its brokers: --broker NAME"
        )
    moves = [move for name, move in rows if name == (names[0] if broker is None else broker)]
    if len({move[:3] for move in moves}) < len(moves):
        raise UsageError(f"{path}: a group has two offsets in one queue there")
    return moves


def _built(state: dict[str, Any]) -> list[tuple[str, Move]]:
    rows = only(state, ["places"])["places"]
    if not isinstance(rows, list) or not rows:
        raise ValueError("it has no places")
    return [_row(row) for row in rows]


def _row(row: Any) -> tuple[str, Move]:
    if not isinstance(row, dict):
        raise ValueError("a place is no object")
    only(row, [*_FIELDS, _OF])
    values: Mapping[str, Any] = {_OF: "", **row}
    for name, kind in {**_FIELDS, _OF: str}.items():
        if type(values.get(name)) is not kind or (kind is int and not 0 <= values[name] < 1 << 63):
            raise ValueError(f"a place has {name} {values.get(name)!a:.60}")
    return values[_OF], Move(*(values[name] for name in _FIELDS))


def _refused(path: str, error: Exception) -> FlintError:
    return UsageError(f"{path}: no offsets as `flintmq offsets export` writes them ({why(error)})")

"""The command that mends each defect of verify; `codes.py` describes the defects."""

from __future__ import annotations

import shlex
from typing import Final

NOTHING: Final = "nothing needs mending"

_RECOVER: Final = "flintmq recover STORE"
_INTO: Final = "flintmq salvage STORE --out DIR"
_REBUILD: Final = "flintmq rebuild STORE --out DIR"
_IN_PLACE: Final = "flintmq salvage STORE --in-place"
_MOVE: Final = "mv FILE DIR"  # a directory outside of the store

MENDS: Final[dict[str, str]] = {
    "record-damaged": _IN_PLACE,
    "log-unordered": _RECOVER,
    "log-gap": _IN_PLACE,
    "log-file-size": _IN_PLACE,
    "stray-file": _MOVE,
    "log-file-unreadable": _INTO,
    "blank-size": NOTHING,
    "start-cut": _IN_PLACE,
    "start-refused": _IN_PLACE,
    "timer-stuck": _IN_PLACE,
    "queue-missing": _IN_PLACE,
    "queue-kind": _IN_PLACE,
    "queue-gap": _IN_PLACE,
    "queue-file-size": _IN_PLACE,
    "queue-file-unreadable": _REBUILD,
    "unit-missing": _IN_PLACE,
    "unit-extra": _IN_PLACE,
    "unit-wrong": _IN_PLACE,
    "unit-displaced": _IN_PLACE,
    "ext-wrong": _IN_PLACE,
    "index-file": _IN_PLACE,
    "index-header": _IN_PLACE,
    "index-order": _IN_PLACE,
    "index-missing": _IN_PLACE,
    "index-extra": _IN_PLACE,
    "index-wrong": _IN_PLACE,
    "index-chain": _IN_PLACE,
    "index-slot": _IN_PLACE,
    "checkpoint-bad": _IN_PLACE,
    "checkpoint-ahead": _IN_PLACE,
    "mark-bad": _RECOVER,
    "config-bad": _IN_PLACE,
    "offset-ahead": _IN_PLACE,
    "timer-log": _IN_PLACE,
    "timer-wheel": _IN_PLACE,
}
"""Code of the defect -> the command, with STORE for the store and DIR for a new directory.

Before the command, stop the broker, and bring back files that a backup or a replica has.
"""


def mend(code: str, root: str) -> str:
    """Return the command for a defect of the store at `root`, quoted; DIR is left to choose."""
    return MENDS[code].replace("STORE", shlex.quote(root))


def in_place(code: str) -> bool:
    """Return whether `flintmq salvage --in-place` mends this defect."""
    return MENDS[code] == _IN_PLACE

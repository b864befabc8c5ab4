"""What the long forms of these tests share: an engine that is quick on tiny stores, and their sections of a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from flintmq.storage.effects import Effects
from flintmq.store import dispatch


def small_and_quick(put: Callable[[object, str, object], None]) -> None:
    """No syncs, as nobody pulls a plug, and small arrays for dispatch, as the stores have few records.

    `put` sets an attribute: `setattr`, or a monkeypatch's.
    """
    put(Effects, "sync", lambda self, fd: None)
    put(Effects, "sync_dir", lambda self, path: None)
    put(dispatch, "MOST_UNITS", 2048)
    put(dispatch, "MOST_KEYS", 2048)


def today() -> str:
    """The day, as the reports write it."""
    return time.strftime("%-d %B %Y")


def write_section(report: Path, name: str, lines: Sequence[str]) -> None:
    """Put the lines between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a report.

    Raises:
        ValueError: it has no such section.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = report.read_text(encoding="utf-8")
    before, after = text.index(begin) + len(begin), text.index(end)
    report.write_text("\n".join([text[:before], *lines, text[after:]]), encoding="utf-8")

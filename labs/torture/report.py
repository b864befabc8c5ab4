"""What long runs write into a page, between two marks of their own, and what they remember of themselves."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import date
from pathlib import Path
from typing import Any


def marks(name: str) -> tuple[str, str]:
    """What stands before and behind the lines of a run."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def write(report: Path, name: str, lines: list[str]) -> None:
    """Put lines between the marks of this name; the page must have them."""
    begin, end = marks(name)
    before, there, rest = report.read_text().partition(begin)
    _, also, after = rest.partition(end)
    assert there and also, f"{report} has no {begin} and {end}"
    report.write_text(before + "\n".join([begin, *lines, end]) + after)


def table(head: list[str], rows: list[list[Any]]) -> list[str]:
    """A table in Markdown; whole numbers with thousands. A line after it names the columns that are 0 in every row."""
    zero = (
        [type(cells[0]) is int and not any(cells) for cells in zip(*rows, strict=True)] if rows else [False] * len(head)
    )
    kept = [at for at, is_zero in enumerate(zero) if not is_zero]
    cells = [[f"{row[at]:,}" if isinstance(row[at], int) else str(row[at]) for at in kept] for row in rows]
    lines = [f"| {' | '.join(head[at] for at in kept)} |", "|---" * len(kept) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in cells]
    if any(zero):
        lines += [
            "",
            f"0 in every row: {', '.join(name for name, is_zero in zip(head, zero, strict=True) if is_zero)}.",
        ]
    return lines


def today() -> str:
    """The day, for what a run has counted."""
    return f"{date.today():%d %B %Y}"


def commit() -> str:
    """The commit and the day, for what a run has counted."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return f"commit {done.stdout.strip() or '-'}, {today()}"


def memory() -> str | None:
    """A directory in memory for many small stores, where there is one: their files are what costs most elsewhere."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class State:
    """What a run remembers of itself, in one file that is replaced whole: `place`, or state.json in that folder."""

    def __init__(self, place: Path, **first: Any) -> None:
        self.file = place if place.suffix == ".json" else place / "state.json"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.all: dict[str, Any] = first | (json.loads(self.file.read_text()) if self.file.exists() else {})

    def __getitem__(self, name: str) -> Any:
        return self.all[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.all[name] = value

    def add(self, row: str, **figures: int) -> None:
        """Add to the sums of a row."""
        sums = self.all.setdefault("sums", {}).setdefault(row, {})
        for name, number in figures.items():
            sums[name] = sums.get(name, 0) + number

    def save(self) -> None:
        """On disk, whole."""
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.all, indent=1) + "\n")
        new.replace(self.file)


def note(state: State, done_with: str) -> None:
    """When something is done: the commit that the run began with, among those before, in `commits`."""
    if done_with not in state["commits"]:
        state["commits"].append(done_with)

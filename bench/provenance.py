"""Which code a figure measured, and whether that code is still the same: nothing older is called held."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# The layers of the package from the bottom up, as pyproject.toml orders them. A line names the highest layer that it
# measures; its code is this layer and all below it.
LAYERS = ("version.py", "errors.py", "config", "format", "kernels", "message.py", "hooks.py", "overriding.py",
          "tabular.py", "storage", "objects", "store", "cluster", "forensics", "arrow", "metrics", "lake", "frames",
          "spark", "remoting", "ha", "broker", "cli", "ui")  # fmt: skip
HELD, MISSED, NO_BAR, STALE, NO_FIGURE = "held", "missed", "no bar", "stale", "no figure yet"


def code(layer: str) -> tuple[str, ...]:
    """Return the paths of the code below and in a layer."""
    return tuple(f"src/flintmq/{name}" for name in LAYERS[: LAYERS.index(layer) + 1])


@dataclass(frozen=True)
class Measured:
    """The commit that a line was measured on.

    Attributes:
        commit: its name; "" if there is no repository.
        changed: the code had changes that were not committed, or was changed while it was measured.
    """

    commit: str
    changed: bool


class Repository:
    """Answers questions about the history of some paths."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    def git(self, *words: str) -> str | None:
        """Return the output of a git command; None if it fails or there is no git."""
        try:
            done = subprocess.run(["git", "-C", str(self.root), *words], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def head(self) -> str:
        """Return the name of the commit that is checked out; "" if there is none."""
        return self.git("rev-parse", "HEAD") or ""

    def changed(self, commit: str, paths: Sequence[str]) -> list[str] | None:
        """Return the files below these paths that differ from a commit; None if the commit is unknown."""
        if not commit or self.git("cat-file", "-e", f"{commit}^{{commit}}") is None:
            return None
        differing = self.git("diff", "--name-only", commit, "--", *paths)
        added = self.git("ls-files", "--others", "--exclude-standard", "--", *paths)
        if differing is None or added is None:
            return None
        return differing.splitlines() + added.splitlines()

    def commits(self, commit: str, paths: Sequence[str]) -> int:
        """Return how many commits since that one touched these paths."""
        return int(self.git("rev-list", "--count", f"{commit}..HEAD", "--", *paths) or 0)

    def state(self, paths: Sequence[str]) -> Measured:
        """Return what is measured now."""
        head = self.head()
        return Measured(head, self.changed(head, paths) != [])


def mark(line: Mapping[str, Any], repository: Repository) -> str:
    """Return `held`, `missed`, `no bar`, or `stale (...)` with the reason."""
    commit, paths = line.get("commit", ""), line.get("code", [])
    if not commit or not paths:
        return f"{STALE} (its commit was not recorded)"
    short = commit[:8]
    if line.get("changed", True):
        return f"{STALE} (measured on {short} with changes that were not committed)"
    changed = repository.changed(commit, paths)
    if changed is None:
        return f"{STALE} (measured on {short}, which is not in this repository)"
    if changed:
        where = ", ".join(sorted({_place(path, paths) for path in changed}))
        count = repository.commits(commit, paths)
        return f"{STALE} (measured on {short}, code changed in {where}: {count} commit{'' if count == 1 else 's'})"
    if line["bar"] is None:
        return NO_BAR
    return HELD if line["holds"] is True else MISSED


def _place(path: str, paths: Sequence[str]) -> str:
    """Return which of the declared paths has a file."""
    found = next((place for place in paths if path == place or path.startswith(f"{place}/")), path)
    return found.removeprefix("src/flintmq/")

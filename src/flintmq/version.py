"""Names the version of FlintMQ, which everything that it keeps on disk has beside it."""

from __future__ import annotations

OURS = "0.2.0"
"""Also in `pyproject.toml` and `CITATION.cff`."""


def is_newer(release: str, than: str = OURS) -> bool:
    """Return whether a version of FlintMQ (`0.2.0`, `0.3.0.dev1`) is newer than another one; what is none is not."""
    return _numbers(release) > _numbers(than)


def _numbers(release: str) -> list[int]:
    parts = release.split(".")[:3]
    return [int(part) for part in parts] if all(part.isdecimal() and len(part) < 10 for part in parts) else []

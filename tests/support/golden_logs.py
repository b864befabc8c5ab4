"""The records of a golden store's log, each with the row that Java made of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.compat.stores import Golden


def queue_files(folder: Path) -> dict[int, bytes]:
    """First offset -> content of the files of one queue of files (commit log, consume queue, timer log ...)."""
    return {int(file.name): file.read_bytes() for file in sorted(folder.iterdir())}


def records(store: Golden) -> Iterator[tuple[dict[str, Any], bytes, int]]:
    """(Java's row, the bytes of its file, position in the file) of each record, in log order."""
    files = queue_files(store.path / "commitlog")
    for row in store.rows:
        start = max(first for first in files if first <= row["physical_offset"])
        yield row, files[start], row["physical_offset"] - start

"""Walks a local directory tree completely, or raises."""

from __future__ import annotations

import os
from collections.abc import Iterator

from flintmq.errors import StoreAccessError


def walk_tree(root: str | os.PathLike[str], bottom_up: bool = False) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (directory, names of directories in it, names of other files) for the whole tree.

    The tuples are those of os.walk. But os.walk silently leaves out a directory that it cannot list: its files would
    not be synced before they are published, or not be read at all, and nobody would notice.

    Raises StoreAccessError: a directory, or `root`, cannot be listed. One that disappeared meanwhile counts as empty.
    """

    def refused(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise StoreAccessError(
                f"{error.filename}: {error.strerror}; check its permissions and its disk, then try again"
            ) from error

    return os.walk(os.fspath(root), topdown=not bottom_up, onerror=refused)

"""Walk a local directory tree completely, or stop."""

from __future__ import annotations

import os
from collections.abc import Iterator

from flintmq.errors import StoreAccessError


def walk_tree(root: str | os.PathLike[str], bottom_up: bool = False) -> Iterator[tuple[str, list[str], list[str]]]:
    """Give (directory, names of directories in it, names of other files), as os.walk does, for the whole tree.

    os.walk leaves out what it may not or cannot list. Files that were left out so would not be synced before they are
    published, or not be read at all, and nobody would notice.

    Raises:
        StoreAccessError: a directory, or `root`, cannot be listed; not for one that is gone meanwhile, which is empty.
    """

    def refused(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise StoreAccessError(
                f"{error.filename}: {error.strerror}; check its permissions and its disk, then try again"
            ) from error

    return os.walk(os.fspath(root), topdown=not bottom_up, onerror=refused)

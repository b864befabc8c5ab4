"""Makes a directory beside its target, then moves it there by one rename.

A run that dies leaves nothing at the target itself; the next run sweeps what it left beside it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from flintmq.errors import StoreAccessError, UsageError
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.full_disk import naming
from flintmq.storage.files.tree import walk_tree


@contextmanager
def staging_for(into: str, what: str) -> Iterator[str]:
    """Make an empty directory beside `into` for this process alone, removed after the block."""
    folder = _staging(into, what)
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreAccessError(f"{folder}: {error.strerror}; give a directory that can be written") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{into}: another {what} into it is running; wait until it ends") from error
        # Who waited for the lock may have it of a directory that its owner has removed: it protects nothing.
        if os.fstat(handle).st_nlink == 0:
            raise UsageError(f"{into}: another {what} into it has just ended; look at its result")
        _empty(folder)
        try:
            with naming(into):
                yield folder
        finally:
            _empty(folder)
            os.rmdir(folder)
    finally:
        os.close(handle)


def sweep(into: str, what: str) -> None:
    """Remove what a run that died right after its rename left beside `into`."""
    if os.path.isdir(_staging(into, what)):
        with staging_for(into, what):
            pass


def _staging(into: str, what: str) -> str:
    parent, name = os.path.split(into)
    return os.path.join(parent, f".{name}.flintmq-{what}")


def bring_in(staging: str, into: str) -> None:
    """Rename `staging`/store to its target; the files in it are durable already.

    Durability: on return.
    """
    root = os.path.join(staging, "store")
    for folder, _, _ in walk_tree(root):
        REAL.sync_dir(folder)
    try:
        # One rename after all names below are durable: the target is there whole, or not at all.
        os.rename(root, into)
    except OSError as error:
        if os.path.isdir(into) and os.listdir(into):
            raise UsageError(f"{into}: something was put there meanwhile; give another directory") from error
        raise
    REAL.sync_dir(os.path.dirname(into) or os.curdir)


def _empty(folder: str) -> None:
    for name in os.listdir(folder):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)

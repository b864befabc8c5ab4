"""Writes a file as a whole, durably: whoever reads it finds the old file or the new one, never a part of it.

`replace_file` has the bytes at hand; `new_file` is for a program that wants a path to write to. Both take the same
steps: a file under another name in the same directory, its bytes, fsync, rename, fsync of the directory. Without the
first fsync the name could lead to an empty file after a power cut; without the second the old file could come back.

Files that come in together, by a rename of their directory, need the two fsyncs only: `sync_file` and `sync_folder`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from flintmq.storage.filesystem import REAL, Effects

NEW = ".flintmq-new"
"""Ends the name of a file that `replace_file` has not renamed yet."""


def replace_file(path: str, data: bytes, effects: Effects) -> None:
    """Write a file as a whole: temporary file, sync, rename, sync of the directory.

    Raises:
        OSError: the old file is untouched then.

    Durability: on return.
    """
    temporary = path + NEW
    if effects.size(temporary) is not None:
        effects.unlink(temporary)
    fd = effects.create(temporary, 0)
    try:
        effects.pwrite(fd, data, 0)
        effects.sync(fd)
    finally:
        effects.close(fd)
    effects.rename(temporary, path)
    effects.sync_dir(os.path.dirname(path))


@contextmanager
def new_file(path: str) -> Iterator[str]:
    """Give the path of a new file to write to; after the `with` block the file gets its name.

    Nobody else has that path, and it is no link: a file of somebody else in the directory is never written over. Where
    the block raises, the new file is removed.

    Args:
        path: the file's name in the end; a file of this name is replaced.

    Raises:
        OSError: the directory takes no file, or the disk fails.

    Durability: the whole file, under its name, on return.
    """
    part = f"{path}.{os.urandom(8).hex()}.part"
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        yield part
        sync_file(part)
        os.rename(part, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    sync_folder(os.path.dirname(path) or os.curdir)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Fsync a file that another writer filled; its directory entry is not synced.

    Raises:
        OSError: it cannot be opened, or the disk fails.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        REAL.sync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Fsync a directory, so that the names in it are durable.

    Raises:
        OSError: the disk fails.
    """
    REAL.sync_dir(os.fspath(path))

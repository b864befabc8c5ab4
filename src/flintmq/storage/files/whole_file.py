"""Writes a file as a whole, durably: a reader finds the old file or the new one.

`replace_file` has the bytes at hand; `new_file` is for a program that wants a path to write to. Both take the same
steps: a file under another name in the same directory, its bytes, fsync, rename, fsync of the directory. Without the
first fsync the name could lead to an empty file after a power cut; without the second the old file could come back.

Files that are published together by a rename of their directory need only the two fsyncs: `sync_file`, `sync_folder`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from flintmq.storage.files.filesystem import REAL, Effects

NEW = ".flintmq-new"
"""Suffix of a file that `replace_file` has not renamed yet."""


def replace_file(path: str, data: bytes, effects: Effects, *, durable: bool = True) -> None:
    """Write a file as a whole: temporary file, sync, rename, sync of the directory.

    `durable`: whether both syncs are made; without them a power cut may take the file.

    Durability: on return, if `durable`. Raises OSError: the old file is untouched then.
    """
    temporary = path + NEW
    # Left by a process that died before its rename.
    if effects.size(temporary) is not None:
        effects.unlink(temporary)
    try:
        fd = effects.create(temporary, 0)
        try:
            effects.pwrite(fd, data, 0)
            # Before the rename: a name that is durable before its bytes would lead to an empty file after a power cut.
            if durable:
                effects.sync(fd)
        finally:
            effects.close(fd)
        effects.rename(temporary, path)
    except OSError as error:
        error.filename = path  # a refused write names none
        with suppress(OSError):
            effects.unlink(temporary)
        raise
    if durable:
        effects.sync_dir(os.path.dirname(path))


@contextmanager
def new_file(path: str, mode: int = 0o666, *, durable: bool = True) -> Iterator[str]:
    """Yield the path of a new file to write; after the `with` block rename it to `path`.

    That path is new and is no link, so no existing file is overwritten. If the block raises, the new file is removed.

    Durability: the whole file, under its name, on return, if `durable`.
    """
    part = f"{path}.{os.urandom(8).hex()}.part"
    try:
        made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        error.filename = path
        raise
    try:
        os.close(made)
        yield part
        if durable:
            sync_file(part, REAL)
        os.rename(part, path)
    except BaseException as error:
        if isinstance(error, OSError) and (error.filename == part or error.errno == errno.ENOSPC):
            error.filename = path
        with suppress(OSError):
            os.unlink(part)
        raise
    # The file is whole under its name by now: an error here must not remove it.
    if durable:
        sync_folder(os.path.dirname(path) or os.curdir)


def sync_file(path: str, effects: Effects) -> None:
    """Fsync a file that another writer filled; its directory entry is not synced."""
    with effects.writing(path) as fd:
        effects.sync(fd)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Fsync a directory, so that the names in it are durable."""
    REAL.sync_dir(os.fspath(path))

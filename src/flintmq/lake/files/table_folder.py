"""Reads and writes the directory of a table: on a disk, or below a URL of object storage.

A disk has renames and locks, object storage has neither. In their place:

- **A rename** is a copy within the bucket, and an object appears whole. Files are first put below `_staging/`, and are
  copied to their names when it is decided that they get them.
- **The lock** is the manifest of the next export: `_flintmq/000004.json` is put only if nobody has put it. Of two
  exports into one table one gets the number, and the other ends with one line.
- **The remains** of runs that died are in `_staging/NUMBER-...`, with the number that the run would have made. Once the
  table has an export of that number, such a run can only lose, so the next one removes them. No clock is asked.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreError, UsageError
from flintmq.lake.files.failed_file import naming
from flintmq.lake.files.task_folders import TaskFolders
from flintmq.objects.opening import bucket_of
from flintmq.overriding import override
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.store_url import is_remote, is_utf8
from flintmq.storage.files.tree import walk_tree
from flintmq.storage.files.whole_file import replace_file, sync_folder

STAGING = "_staging"
MANIFESTS = "_flintmq"
_STAGED = re.compile(r"(\d+)-[0-9a-f]{32}")
_MANIFEST = re.compile(r"(\d+)\.json")
REQUESTS = 8  # at the same time


class TableFolder(ABC):
    """The directory of a table.

    Raises:
        StoreAccessError: (any method) object storage refuses, or does not answer.
        OSError: (any method) the disk fails.
    """

    where: str  # path or URL
    remote: bool  # whether it is a URL
    s3: S3Options  # how to reach the URL

    @abstractmethod
    def names(self) -> list[str]:
        """List the names in the directory; empty if it does not exist."""

    @abstractmethod
    def files(self, place: str) -> list[str]:
        """Return the places of all files below a place, at any depth, relative to it."""

    @abstractmethod
    def read(self, place: str) -> bytes:
        """Read a file. Raises FileNotFoundError: it does not exist."""

    @abstractmethod
    def holds(self, place: str) -> bool:
        """Return whether there is such a file or directory."""

    @abstractmethod
    def claimed(self) -> int:
        """Return the greatest number that an export has claimed, even if it died since; 0 on a disk."""

    @abstractmethod
    def claim(self, number: int, manifest: bytes) -> None:
        """Write the manifest of an export, before its files.

        Durability: on return. Raises StoreError: another export has the number.
        """

    @abstractmethod
    def put_new(self, place: str, content: bytes) -> bool:
        """Write a file whole if there is none of this name; return whether there was none.

        Durability: on return.
        """

    @abstractmethod
    def stage(self, number: int) -> TaskFolders:
        """Return where the tasks of an export make their directories; it is empty."""

    @abstractmethod
    def bring(self, files: Sequence[tuple[str, str]]) -> None:
        """Give staged files their names: pairs of the staged file and its place below the directory.

        Durability: on return, of the names too.
        """

    @abstractmethod
    def sweep(self) -> None:
        """Remove what `stage` returned, and what is in it."""

    def at(self, place: str) -> str:
        return f"{self.where}/{place}"

    def final_place(self, path: str) -> str | None:
        """Return the place of a file that has its final name already; None if it is staged."""
        place = path.removeprefix(f"{self.where}/")
        return None if place == path or place.startswith(f"{STAGING}/") else place


def manifest_place(number: int) -> str:
    """Return the place of the manifest of an export, where it lies beside the table's files."""
    return f"{MANIFESTS}/{number:06d}.json"


class DiskFolder(TableFolder):
    """A directory of this machine; see TableFolder. A writer has it locked (`target.locked`)."""

    remote = False

    def __init__(self, root: Path) -> None:
        self.root, self.where, self.s3 = root, nameable(str(root)), S3Options()
        self.staging = root / STAGING

    @override
    def names(self) -> list[str]:
        return os.listdir(self.root) if self.root.is_dir() else []

    @override
    def files(self, place: str) -> list[str]:
        top = str(self.root / place)
        return [os.path.relpath(os.path.join(at, name), top) for at, _, names in walk_tree(top) for name in names]

    @override
    def read(self, place: str) -> bytes:
        return (self.root / place).read_bytes()

    @override
    def holds(self, place: str) -> bool:
        return (self.root / place).exists()

    @override
    def claimed(self) -> int:
        # A run that died has lost its lock, so its number is free.
        return 0

    @override
    def claim(self, number: int, manifest: bytes) -> None:
        path = self.root / manifest_place(number)
        path.parent.mkdir(exist_ok=True)
        with naming(str(path)):
            replace_file(str(path), manifest, REAL)

    @override
    def put_new(self, place: str, content: bytes) -> bool:
        path, made = self.root / place, self.root / STAGING / uuid.uuid4().hex
        with naming(str(path)):
            replace_file(str(made), content, REAL)
            try:
                os.link(made, path)  # unlike a rename it replaces nothing
            except FileExistsError:
                return False
            sync_folder(path.parent)
        return True

    @override
    def stage(self, number: int) -> TaskFolders:
        # What a run that died has staged is of no use: this run has the lock, and begins at the table's end.
        self.sweep()
        tasks = self.staging / "tasks"
        tasks.mkdir(parents=True)
        return TaskFolders(str(tasks))

    @override
    def bring(self, files: Sequence[tuple[str, str]]) -> None:
        # After all renames, and before the caller commits: names in a manifest or a table's log must outlive a power
        # cut.
        for folder in brought(self.root, files):
            sync_folder(folder)

    @override
    def sweep(self) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)


def brought(root: Path, files: Iterable[tuple[str, str]]) -> set[Path]:
    """Move staged files below a directory; return the directories that must be synced."""
    folders = {root}
    for staged, place in files:
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        os.rename(staged, path)
        folders.update(above for above in path.parents if above.is_relative_to(root))
    return folders


class BucketFolder(TableFolder):
    """A directory below a URL; see TableFolder.

    `s3`: how to reach it; the environment supplies what is missing.
    """

    remote = True

    def __init__(self, url: str, s3: S3Options) -> None:
        self.where, self.s3 = nameable(url.rstrip("/")), s3.with_environment()
        self.bucket, self._key = bucket_of(self.where, self.s3)
        self._staged: str | None = None  # key of the staging directory of this run

    def key(self, place: str) -> str:
        return f"{self._key}/{place}" if self._key else place

    def _names(self, folder: str) -> list[str]:
        key = self.key(folder) if folder else self._key
        return [found.key.removeprefix(f"{key}/" if key else "") for found in self.bucket.listed(key, False)]

    @override
    def names(self) -> list[str]:
        return self._names("")

    @override
    def files(self, place: str) -> list[str]:
        key = self.key(place)
        return [found.key.removeprefix(f"{key}/") for found in self.bucket.listed(key, True)]

    @override
    def read(self, place: str) -> bytes:
        return self.bucket.read(self.key(place))

    @override
    def holds(self, place: str) -> bool:
        return self.bucket.find(self.key(place)) is not None or bool(self._names(place))

    @override
    def claimed(self) -> int:
        return max(self.numbers(), default=0)

    def numbers(self) -> list[int]:
        """Return the numbers that exports have claimed, rising."""
        return sorted(int(match[1]) for name in self._names(MANIFESTS) if (match := _MANIFEST.fullmatch(name)))

    @override
    def claim(self, number: int, manifest: bytes) -> None:
        # The number is the lock: the server lets one of two writers put it.
        if not self.put_new(manifest_place(number), manifest):
            raise StoreError(f"{self.where}: another export into it was faster (export {number}); run this one again")

    @override
    def put_new(self, place: str, content: bytes) -> bool:
        return self.bucket.put_new(self.key(place), content)

    @override
    def stage(self, number: int) -> TaskFolders:
        self.sweep()
        name = f"{number:06d}-{uuid.uuid4().hex}"
        self._staged = self.key(f"{STAGING}/{name}")
        return TaskFolders(self.at(f"{STAGING}/{name}"), self.s3)

    @property
    def staged(self) -> str:
        assert self._staged is not None  # `stage` was called
        return self._staged.removeprefix(self.key(""))

    @override
    def bring(self, files: Sequence[tuple[str, str]]) -> None:
        # A file that is gone has been brought already, by a run that completes the same export.
        moved = [(staged, place) for staged, place in files if staged != self.at(place)]
        self.bring_keys([(staged.removeprefix(f"{self.bucket.url}/"), place) for staged, place in moved])

    def bring_keys(self, files: Iterable[tuple[str, str]]) -> None:
        def bring(pair: tuple[str, str]) -> None:
            key, place = pair
            try:
                self.bucket.copy(key, self.key(place))
            except FileNotFoundError:
                # Gone and in its place: another run has completed this very export. Gone and not there: it was swept.
                if self.bucket.find(self.key(place)) is None:
                    raise StoreError(
                        f"{self.where}: another export into it was faster, and removed staged files of this one; run "
                        "this one again"
                    ) from None

        with ThreadPoolExecutor(REQUESTS, "flintmq-bring") as pool:
            list(pool.map(bring, files))

    def remove(self, folder: str) -> None:
        self.bucket.delete([found.key for found in self.bucket.listed(self.key(folder), True)])

    @override
    def sweep(self) -> None:
        if self._staged is not None:
            self.remove(self.staged)
            self._staged = None

    def sweep_lost(self, number: int) -> None:
        """Remove staged files of runs that would have made exports which the table has."""
        for name in self._names(STAGING):
            match = _STAGED.fullmatch(name)
            # Files of a greater number may be of a run that works now.
            if match is not None and int(match[1]) <= number:
                self.remove(f"{STAGING}/{name}")


def nameable(path: str) -> str:
    """Return the path of a table, if its manifests and logs, and Arrow, can name it."""
    if not is_utf8(path):
        raise UsageError(f"{path}: the path is not UTF-8, and the files of a table cannot name it; give another one")
    return path


def folder_at(path: str, s3: S3Options) -> TableFolder:
    return BucketFolder(path, s3) if is_remote(path) else DiskFolder(Path(path))

"""Gives each attempt at a task a directory of its own, on a disk or below a URL.

Below a URL an attempt writes into a temporary directory of its machine, and each file that it keeps is then put there
whole. So workers share nothing but the bucket, and need room for the files of the tasks that they run.

Of a table whose format says which files count (Delta, Iceberg), a file is put under its final name at once, which has
the attempt in it: no copy is needed, and a file of an attempt that did not win counts for nobody.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from flintmq.config.s3 import S3Options
from flintmq.objects.opening import bucket_of
from flintmq.storage.files.store_url import is_remote

ATTEMPT_DIGITS = 8  # of an attempt, in the final name of a file


@dataclass(frozen=True)
class FinalNames:
    """Names the files of an export in a table on object storage.

    `place`: returns the place of a file in the table, of number, partition folder and name.
    """

    where: str
    number: int
    place: Callable[[int, str, str], str]

    def url(self, folder: str, name: str) -> str:
        return f"{self.where}/{self.place(self.number, folder, name)}"


@dataclass(frozen=True)
class Attempt:
    """The directory of one attempt."""

    folder: str
    place: str  # where files are kept: `folder`, or a URL
    s3: S3Options
    final: FinalNames | None = None  # names files of the table; None: they are staged

    @property
    def remote(self) -> bool:
        """True if files are kept elsewhere than they are written."""
        return self.place != self.folder

    def keep(self, path: str, folder: str = "", name: str | None = None) -> str:
        """Put a finished file where it is kept, and return that place.

        `folder`, `name`: of the file in a table; None of another file.
        """
        if not self.remote:
            return path
        url = f"{self.place}/{os.path.basename(path)}"
        if self.final is not None and name is not None:
            # Digits of the attempt are in the name: one that lost must not replace a file that counts.
            url = self.final.url(folder, f"{os.path.basename(self.place)[-ATTEMPT_DIGITS:]}-{name}")
        bucket, key = bucket_of(url, self.s3)
        bucket.put_file(key, path)
        return url


@dataclass(frozen=True)
class TaskFolders:
    """Where the tasks of an export make their directories."""

    place: str  # a directory that all workers see under this path, or a URL
    s3: S3Options = field(default_factory=S3Options)
    final: FinalNames | None = None  # names files of the table; None: they are staged

    @contextmanager
    def attempt(self, name: str) -> Iterator[Attempt]:
        """Yield a new directory for an attempt at the task of this name; one that fails is removed."""
        # Another attempt at the same task may still run, on another machine: neither must see the other's files.
        own = f"{name}-{uuid.uuid4().hex}"
        if not is_remote(self.place):
            folder = os.path.join(self.place, own)
            os.mkdir(folder)
            try:
                yield Attempt(folder, folder, self.s3)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            return
        with tempfile.TemporaryDirectory(prefix="flintmq-export-") as folder:
            yield Attempt(folder, f"{self.place}/{own}", self.s3, self.final)

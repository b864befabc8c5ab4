"""Makes a new store on object storage, which readers refuse until it is whole.

Object storage has no rename of a directory, and any object below `commitlog/` makes a store of a URL. So the first
object is a claim, `flintmq.copying`, put only where there is none: of two copies into one URL one wins. While it is
there and `flintmq.copied` is not, `open_root` refuses the URL. The last object is `flintmq.copied`, put only where
there is none, after one listing has shown each object with its size: that put is the publication. Then the claim goes;
where objects may not be deleted it stays, and does no harm.

A marker that is put, and no claim that is deleted, publishes: a put is tried again without doubt about who put, for
the object tells, and a writer may lack the right to delete.

A run that fails deletes what it put, the claim last. It leaves the claim where the server did not answer, for a put
that was given up may still arrive; so does a run that is killed. The next run names it. It does not clean by itself:
nothing tells a dead run on another machine from a slow one.

A log file is put whole, with the zeros after the log's end: RocketMQ opens no log file of another size, so a file that
is cut there would be no store any more once it is brought back to a disk. An object has no holes; zeros cost time.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flintmq.config.text import short
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.objects.bucket import Bucket
from flintmq.storage.tree import walk_tree
from flintmq.store.layout.directories import COPIED, COPYING, LOG

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig

ONE_PUT = 1 << 20  # a file up to here goes from memory in one request
DELETED_AT_ONCE = 1000
LARGEST_CLAIM = 4096


@contextmanager
def new_store(url: str, config: StoreConfig, source: str, folder: str) -> Iterator[BucketTarget]:
    """Claim a URL for a new store, and clear it if the block fails.

    Args:
        url: in the form of store_url.store_path; nothing may be there.
        config: how to reach object storage.
        source: the store that is copied, for people.
        folder: a directory of this machine that a killed run leaves, for people.

    Raises:
        UsageError: objects are there, or another copy into the URL is being made.
        StoreAccessError: the server refuses or does not answer.
        MissingExtraError: obstore is not installed.
    """
    # By name, as in store_url: this room must not depend on obstore.
    bucket, key = importlib.import_module("flintmq.objects.opening").bucket_of(url, config.s3)
    target = BucketTarget(url, bucket, key, source, folder)
    try:
        target.refuse_taken()
    except FileNotFoundError as error:
        raise UsageError(f"{url}: there is no such bucket; make it first, or correct the URL") from error
    try:
        target.claim()
        yield target
        assert target.published
    except BaseException as error:
        target.withdraw(arrives_late=isinstance(error, StoreAccessError))
        raise


class BucketTarget:
    """A store on object storage that is being made; `new_store` makes one.

    Args:
        url, source, folder: as for new_store.
        bucket, key: of the URL.

    Attributes:
        published: whether the store can be read.
        put_bytes: size of all objects put.
    """

    def __init__(self, url: str, bucket: Bucket, key: str, source: str, folder: str) -> None:
        self.url, self.published, self.put_bytes = url, False, 0
        self._bucket, self._key = bucket, key
        self._sizes: dict[str, int] = {}
        self._facts = {"id": uuid.uuid4().hex, "began": _now(), "from": source}
        process = {"host": socket.gethostname(), "process": os.getpid(), "folder": folder}
        self._claim = _as_bytes(self._facts | process)

    def refuse_taken(self, but: str = "") -> None:
        """Check that nothing is at the URL, except for the object `but`.

        Raises:
            UsageError: something is there.
        """
        prefix = len(self._key) + 1 if self._key else 0
        names = {found.key[prefix:] for found in self._bucket.listed(self._key, False)} - {but}
        if COPYING in names and COPIED not in names:
            raise UsageError(self._unfinished())
        if names or (self._key and self._bucket.find(self._key) is not None):
            raise UsageError(f"{self.url}: something is there already; give a URL below which there are no objects")

    def claim(self) -> None:
        """Put the claim.

        Raises:
            UsageError: another copy has it, or objects came meanwhile.
        """
        # A put that was tried again finds its own object.
        if not self._bucket.put_new(self._at(COPYING), self._claim) and not self._ours():
            raise UsageError(self._unfinished())
        self.refuse_taken(but=COPYING)

    def put_file(self, name: str, path: str) -> None:
        """Put a file of this machine, which must not change meanwhile.

        Raises:
            FileNotFoundError: it is gone.
            OSError: it cannot be read.
        """
        size, key = os.stat(path).st_size, self._at(name)
        self._sizes[key] = size  # before: an interrupt may come when it is put
        try:
            if size > ONE_PUT:
                self._bucket.put_file(key, path)
            else:
                with open(path, "rb") as file:
                    self._bucket.put(key, file.read(size))
        except FileNotFoundError as error:
            if not os.path.exists(path):
                raise
            raise StoreAccessError(f"{self.url}: its bucket was removed during the copy") from error
        self.put_bytes += size

    def put_tree(self, folder: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Put all files below a directory; progress gets bytes put and in all."""
        names = sorted(os.path.join(at, name) for at, _, files in walk_tree(folder) for name in files)
        total = sum(os.stat(path).st_size for path in names)
        for path in names:
            if progress is not None:
                progress(self.put_bytes, total)
            self.put_file(os.path.relpath(path, folder), path)
        if progress is not None:
            progress(total, total)

    def publish(self) -> None:
        """Let readers see the store.

        Raises:
            StoreError: it has no log file, or objects came or went meanwhile.
            UsageError: another copy was published there.

        Durability: on return, as the server promises it.
        """
        if not any(key.startswith(self._at(LOG + "/")) for key in self._sizes):
            raise StoreError(
                f"{self._facts['from']}: no log file with a message is to be copied, and object storage has no empty "
                "directories; copy it into a directory"
            )
        listed = {found.key: found.size for found in self._bucket.listed(self._key, True)}
        listed.pop(self._at(COPYING), None)
        if listed != self._sizes or not self._ours():
            raise StoreError(f"{self.url}: other objects were put or removed there during the copy; copy again")
        told = self._facts | {"finished": _now(), "objects": len(self._sizes), "bytes": self.put_bytes}
        data = _as_bytes(told)
        if not self._bucket.put_new(self._at(COPIED), data) and self._bucket.read(self._at(COPIED)) != data:
            raise UsageError(f"{self.url}: another copy was published there meanwhile; look at it")
        self.published = True
        with suppress(StoreAccessError):  # it does no harm
            self._bucket.delete([self._at(COPYING)])

    def forget(self) -> None:
        """Delete what was put; the claim stays."""
        keys = list(self._sizes)
        for begin in range(0, len(keys), DELETED_AT_ONCE):
            self._bucket.delete(keys[begin : begin + DELETED_AT_ONCE])
        self._sizes.clear()
        self.put_bytes = 0

    def withdraw(self, *, arrives_late: bool) -> None:
        """Delete what was put after a failure, as far as the server answers.

        Args:
            arrives_late: leave the claim, because a put that was given up may still arrive.
        """
        with suppress(StoreAccessError, FileNotFoundError):
            if self._ours() and self._bucket.find(self._at(COPIED)) is None:
                self.forget()
                if not arrives_late:
                    self._bucket.delete([self._at(COPYING)])

    def _at(self, name: str) -> str:
        return f"{self._key}/{name}" if self._key else name

    def _ours(self) -> bool:
        try:
            return self._bucket.read(self._at(COPYING), 0, LARGEST_CLAIM) == self._claim
        except FileNotFoundError:
            return False

    def _unfinished(self) -> str:
        """Describe the copy that holds the claim. Its object may come from anywhere."""
        try:
            known = json.loads(self._bucket.read(self._at(COPYING), 0, LARGEST_CLAIM))
        except FileNotFoundError:
            return f"{self.url}: another copy into it has just ended; look at its result"
        except (ValueError, RecursionError):
            known = None
        if not isinstance(known, dict):
            known = {}
        began, host, process, folder = (short(str(known.get(name))) for name in ("began", "host", "process", "folder"))
        return (
            f"{self.url}: a copy into it that began at {began} (process {process} of {host}) is not finished; wait for "
            f"it, or if it is dead remove the objects below the URL, and {folder} there"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _as_bytes(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts).encode("ascii")

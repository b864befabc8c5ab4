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
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from flintmq.config.text import short
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.objects.bucket import Bucket, ObjectEntry
from flintmq.storage.files.tree import walk_tree
from flintmq.store.layout.directories import COPIED, COPYING, LOG

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig

ONE_PUT = 8 << 20  # a file up to here, such as one of a queue, goes from memory in one request
AT_ONCE = 8  # of these; queues are many, and a request takes its time
DELETED_AT_ONCE = 1000
LARGEST_CLAIM = 4096


@contextmanager
def new_store(url: str, config: StoreConfig, source: str, folder: str) -> Iterator[StoreUpload]:
    """Claim a URL for a new store, and clear it if the block fails."""
    # By name, as in store_url: this room must not depend on obstore.
    bucket, key = importlib.import_module("flintmq.objects.opening").bucket_of(url, config.s3)
    target = StoreUpload(url, bucket, key, source, folder)
    target.refuse_taken()
    try:
        target.claim()
        yield target
        assert target.published
    except BaseException as error:
        target.withdraw(arrives_late=isinstance(error, StoreAccessError))
        raise
    finally:
        target.close()


class StoreUpload:
    """A store on object storage that is being made; `new_store` makes one.

    `put_bytes`: size of all objects put.
    """

    def __init__(self, url: str, bucket: Bucket, key: str, source: str, folder: str) -> None:
        self.url, self.published, self.put_bytes = url, False, 0
        self._bucket, self._key = bucket, key
        self._sizes: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, "flintmq-put")
        self._running: set[Future[None]] = set()
        self._facts = {"id": uuid.uuid4().hex, "began": _now(), "from": source}
        process = {"host": socket.gethostname(), "process": os.getpid(), "folder": folder}
        self._claim = _as_bytes(self._facts | process)

    def refuse_taken(self, but: str = "") -> None:
        """Check that nothing is at the URL, except for the object `but`."""
        prefix = len(self._key) + 1 if self._key else 0
        found = {one.key[prefix:]: one for one in self._bucket.listed(self._key, False)}
        found.pop(but, None)
        if COPYING in found and COPIED not in found:
            raise UsageError(self._unfinished())
        if any(self._holds(one) for one in found.values()) or (self._key and self._bucket.find(self._key) is not None):
            raise UsageError(f"{self.url}: something is there already; give a URL below which there are no objects")

    def _holds(self, one: ObjectEntry) -> bool:
        """Return whether this is an object, or a folder with one: HDFS has empty ones."""
        return one.size is not None or any(self._holds(inner) for inner in self._bucket.listed(one.key, False))

    def claim(self) -> None:
        # A put that was tried again finds its own object.
        if not self._bucket.put_new(self._at(COPYING), self._claim) and not self._ours():
            raise UsageError(self._unfinished())
        # Once more with the claim in place: objects may have come between the first look and this.
        self.refuse_taken(but=COPYING)

    def put_file(self, name: str, path: str) -> None:
        """Put a file of this machine, which must not change meanwhile.

        Afterwards it is not needed any more. An error of the server may come from a later call.
        """
        size, key = os.stat(path).st_size, self._at(name)
        # Read now, for the caller may remove the file as soon as this returns.
        if size <= ONE_PUT:
            with open(path, "rb") as file:
                data = file.read(size)
        self._wait(AT_ONCE - 1)
        self._sizes[key] = size  # before it is put: an interrupt may come at once
        if size <= ONE_PUT:
            self._running.add(self._pool.submit(self._put, self._bucket.put, key, data))
        else:
            self._put(self._bucket.put_file, key, path)
        self.put_bytes += size

    def _put(self, put: Callable[[str, Any], None], key: str, what: Any) -> None:
        try:
            put(key, what)
        except FileNotFoundError as error:
            raise StoreAccessError(f"{self.url}/{key}: its file or its bucket was removed during the copy") from error

    def _wait(self, count: int) -> None:
        """Wait until at most so many puts are under way, and raise their errors."""
        while len(self._running) > count:
            done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
            for put in done:
                put.result()

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
        """Let readers see the store. Durability: on return, as the server promises it."""
        self._wait(0)
        if not any(key.startswith(self._at(LOG + "/")) for key in self._sizes):
            raise StoreError(
                f"{self._facts['from']}: no log file with a message is to be copied, and object storage has no empty "
                "directories; copy it into a directory"
            )
        # Compared last: readers take all that is there for the store, so it must be exactly what was put.
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
        wait(self._running)
        self._running.clear()
        keys = list(self._sizes)
        for begin in range(0, len(keys), DELETED_AT_ONCE):
            self._bucket.delete(keys[begin : begin + DELETED_AT_ONCE])
        if any(one.size is None for one in self._bucket.listed(self._key, False)):
            # HDFS keeps empty directories, and commitlog/ alone makes a store.
            own = {str(above) for key in keys for above in PurePosixPath(key).parents} - {"."}
            inside = [folder for folder in own if not self._key or folder.startswith(f"{self._key}/")]
            with suppress(StoreAccessError):  # one that holds something of others
                self._bucket.delete(sorted(inside, key=len, reverse=True))
        self._sizes.clear()
        self.put_bytes = 0

    def withdraw(self, *, arrives_late: bool) -> None:
        """Delete what was put after a failure, as far as the server answers.

        `arrives_late`: leave the claim, because a put that was given up may still arrive.
        """
        with suppress(StoreAccessError, FileNotFoundError):
            # Neither what another copy puts there is deleted, nor a store that readers may see.
            if self._ours() and self._bucket.find(self._at(COPIED)) is None:
                wait(self._running)
                arrives_late |= any(put.exception() is not None for put in self._running)
                self.forget()
                if not arrives_late:
                    self._bucket.delete([self._at(COPYING)])

    def close(self) -> None:
        self._pool.shutdown()

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

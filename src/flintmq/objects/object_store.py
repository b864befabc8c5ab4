"""Implements `Effects` for object storage: `ObjectStore` reads stores in buckets.

The layout of a store is the same as on disk: `s3://BUCKET/STORE/commitlog/00000000000000000000` and so on. Listings and
sizes come from LIST requests, for a whole tree at once where a tree is walked. They are cached for a moment, so that
planning costs a request per thousand files and not one per file. Nothing is ever written.
"""

from __future__ import annotations

import itertools
import mmap
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError, UsageError
from flintmq.objects.bucket import Bucket
from flintmq.objects.opening import bucket_of
from flintmq.objects.remote_file import AHEAD, ReadAhead, RemoteFile
from flintmq.storage.files.filesystem import OtherDisk
from flintmq.storage.files.store_url import is_remote

FRESH_SECONDS = 2.0  # how long a listing or a size is valid
FRESH_PART = 10  # or this many times as long as its request took
FILES_KEPT = 256
LISTINGS_KEPT = 64
_handles = itertools.count(2)

Answer = TypeVar("Answer")


@lru_cache(maxsize=1)
def fetchers() -> ThreadPoolExecutor:
    """Return the pool of threads that fetch ahead in this process."""
    return ThreadPoolExecutor(2 * AHEAD, "flintmq-fetch")


os.register_at_fork(after_in_child=fetchers.cache_clear)  # threads do not come along


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of a LIST request for a directory, or for the tree below it.

    `folders`: directory -> name -> bytes of the object, or None for a directory.
    """

    root: str
    whole: bool
    until: float  # monotonic time up to which it is valid
    folders: dict[str, dict[str, int | None]] = field(default_factory=dict)

    def covers(self, folder: str) -> bool:
        return folder == self.root or (self.whole and folder.startswith(self.root + "/"))

    def note(self, name: str, size: int | None) -> None:
        """Add an object or a folder (size None) by its path below the root, and the folders above it."""
        while name:
            above, _, last = name.rpartition("/")
            names = self.folders.setdefault(f"{self.root}/{above}" if above else self.root, {})
            if names.get(last, 0) is None:
                return  # a folder already, and so are those above it; an empty object may stand for it
            names[last] = size
            name, size = above, None


@dataclass(slots=True)
class _Handle:
    file: RemoteFile
    ahead: ReadAhead | None = None


class ObjectStore(OtherDisk):
    """Reads stores in buckets. Operations of a writer or a lock are refused.

    Thread: any; a handle for sequential reads belongs to one. It can be sent to other processes, without secrets.
    Raises StoreAccessError: (any method) the server refuses or does not answer; the text names URL and offset.
    """

    def __init__(self, options: S3Options) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._listings: OrderedDict[str, Listing] = OrderedDict()
        self._files: OrderedDict[str, RemoteFile] = OrderedDict()
        self._open: dict[int, _Handle] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStore, (self.options,)

    @property
    def remote(self) -> bool:
        return True

    # -- names --------------------------------------------------------------------------------------------------------

    def listdir(self, path: str, below: str | None = None) -> list[str]:
        """List the names in a directory, sorted; empty if it does not exist.

        With `below` the whole tree under that path is listed at once.
        """
        listing = self._known(path) or self._list(below or path, whole=below is not None)
        return sorted(listing.folders.get(path, ()))

    def size(self, path: str) -> int | None:
        listing = self._known(os.path.dirname(path))
        if listing is not None:
            return listing.folders.get(os.path.dirname(path), {}).get(os.path.basename(path))
        try:
            return self._file(path).size
        except FileNotFoundError:
            return None

    def is_dir(self, path: str) -> bool:
        listing = self._known(os.path.dirname(path))
        if listing is not None:
            names = listing.folders.get(os.path.dirname(path), {})
            return names.get(os.path.basename(path), 0) is None
        return bool((self._known(path) or self._list(path, whole=False)).folders.get(path))

    def modified_ms(self, path: str) -> int | None:
        found = self._ask(path, lambda bucket, key: bucket.find(key) if key else None)
        return None if found is None else found.modified_ms

    def _known(self, folder: str) -> Listing | None:
        now = time.monotonic()
        with self._lock:
            return next((one for one in self._listings.values() if one.until > now and one.covers(folder)), None)

    def _list(self, root: str, whole: bool) -> Listing:
        began = time.monotonic()
        found, begin = self._ask(root, lambda bucket, key: (bucket.listed(key, whole), len(key)))
        now = time.monotonic()
        listing = Listing(root, whole, now + max(FRESH_SECONDS, FRESH_PART * (now - began)))
        for entry in found:
            listing.note(entry.key[begin:].lstrip("/"), entry.size)
        with self._lock:
            self._listings[root] = listing
            if len(self._listings) > LISTINGS_KEPT:
                self._listings.popitem(last=False)
        return listing

    # -- bytes --------------------------------------------------------------------------------------------------------

    def open_read(self, path: str, below: str | None = None) -> int:
        """Open an object for reading, and return a handle: a negative number, so no descriptor."""
        file = self._file(path)
        number = -next(_handles)
        self._open[number] = _Handle(file)
        return number

    def close(self, fd: int) -> None:
        handle = self._open.pop(fd)
        if handle.ahead is not None:
            handle.ahead.stop()

    def size_of(self, fd: int) -> int:
        return self._open[fd].file.size

    def will_read(self, fd: int, begin: int, end: int, *, sure: bool) -> None:
        """Fetch a range ahead, in large chunks."""
        handle = self._open[fd]
        if handle.ahead is not None:
            handle.ahead.stop()
        handle.ahead = ReadAhead(handle.file, fetchers(), begin, end, sure=sure)

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Fill a buffer; return the bytes read, fewer only where the object ends."""
        handle = self._open[fd]
        done = handle.ahead.read_into(buffer, position) if handle.ahead is not None else 0
        if done < len(buffer):
            data = handle.file.read(position + done, len(buffer) - done)
            buffer[done : done + len(data)] = data
            done += len(data)
        return done

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """Read up to count bytes; fewer only where the object ends."""
        return self._open[fd].file.read(position, count)

    def next_data(self, fd: int, position: int) -> int | None:
        """Return the position itself: a server does not report holes."""
        return position

    def map_read(self, fd: int, size: int) -> mmap.mmap:
        raise UsageError(f"{self._open[fd].file.url}: access map is for local files; use pread")

    def _file(self, path: str) -> RemoteFile:
        """Return the object as it is now, or as it was less than FRESH_SECONDS ago."""
        listing, now = self._known(os.path.dirname(path)), time.monotonic()
        if listing is not None and listing.folders.get(os.path.dirname(path), {}).get(os.path.basename(path)) is None:
            raise FileNotFoundError(2, os.strerror(2), path)
        with self._lock:
            known = self._files.get(path)
            if known is not None and now - known.seen < FRESH_SECONDS:
                return known
        found: RemoteFile = self._ask(path, lambda bucket, key: RemoteFile(bucket, path, key))
        with self._lock:
            self._files[path] = found
            self._files.move_to_end(path)
            if len(self._files) > FILES_KEPT:
                self._files.popitem(last=False)
        return found

    def _ask(self, path: str, question: Callable[[Bucket, str], Answer]) -> Answer:
        if not is_remote(path):
            raise UsageError(
                f"{path}: a store on object storage has its log there too; give URLs in storePathCommitLog"
            )
        return question(*bucket_of(path, self.options))


def _refused(name: str) -> Callable[..., Any]:
    def call(self: ObjectStore, *_: Any, **__: Any) -> Any:
        raise StoreAccessError(f"object storage is only read; {name} needs a directory on this machine")

    return call


_WRITES = """
    mkdirs create open_write allocate truncate pwrite map_write populate is_named rename unlink sync start_sync
    start_sync_all open_disk is_on_disk sync_disk sync_dir disk_used disk_used_bytes
"""
for _name in _WRITES.split():
    setattr(ObjectStore, _name, _refused(_name))

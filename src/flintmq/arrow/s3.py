"""Object storage behind the door to files: `ObjectStore` reads what `Effects` reads from a disk.

A store is there as its directory is on disk: `s3://BUCKET/STORE/commitlog/00000000000000000000` and so on. Listings
and sizes come from LIST requests, a whole tree at once where a tree is walked; what they told holds for a moment, so
that planning costs requests by the thousand of files and not by the file. Nothing is ever written.
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
from typing import Any

import pyarrow.fs

from flintmq.arrow.remote_file import AHEAD, ReadAhead, RemoteFile, failed
from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError, UsageError
from flintmq.storage.filesystem import Effects
from flintmq.storage.store_url import PREFIX

FRESH_SECONDS = 2.0  # how long a listing or a size holds
FRESH_PART = 10  # or so many times what it took to get it
FILES_KEPT = 256
LISTINGS_KEPT = 64
CONNECT_SECONDS = 5
_handles = itertools.count(2)


@lru_cache(maxsize=8)
def filesystem(options: S3Options, bucket: str) -> pyarrow.fs.FileSystem:
    """The client for one bucket; one in a process.

    Raises:
        StoreAccessError: it cannot be set up; without a region, that the bucket's cannot be found out.
    """
    known: dict[str, Any] = {}
    try:
        if options.endpoint:
            scheme, _, host = options.endpoint.partition("://")
            known = {"endpoint_override": host, "scheme": scheme, "region": options.region or "us-east-1"}
        else:
            known = {"region": options.region or pyarrow.fs.resolve_s3_region(bucket)}
        return pyarrow.fs.S3FileSystem(
            **known,
            anonymous=options.anonymous,
            request_timeout=options.timeout_s,
            connect_timeout=min(options.timeout_s, CONNECT_SECONDS),
            retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=options.attempts),
        )
    except OSError as error:
        raise failed(PREFIX + bucket, error) from error


@lru_cache(maxsize=1)
def fetchers() -> ThreadPoolExecutor:
    """What fetches ahead in this process."""
    return ThreadPoolExecutor(2 * AHEAD, "flintmq-fetch")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a LIST request told of a directory, or of the tree below it.

    Attributes:
        root: the directory.
        whole: of the tree.
        until: monotonic time up to which it holds.
        folders: directory -> name -> bytes of the object, None of a directory.
    """

    root: str
    whole: bool
    until: float
    folders: dict[str, dict[str, int | None]] = field(default_factory=dict)

    def covers(self, folder: str) -> bool:
        """Whether it says what a directory holds."""
        return folder == self.root or (self.whole and folder.startswith(self.root + "/"))


@dataclass(slots=True)
class _Handle:
    file: RemoteFile
    ahead: ReadAhead | None = None


class ObjectStore(Effects):
    """Reads stores in buckets. What a writer or a lock needs is refused.

    Args:
        options: how to reach the server.

    Raises:
        StoreAccessError: (any method) the server refuses or does not answer; the text names URL and offset.

    Thread: any; a handle that is read in order belongs to one. It can be sent to other processes, without secrets.
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
        """Yes."""
        return True

    # -- names --------------------------------------------------------------------------------------------------------

    def listdir(self, path: str, below: str | None = None) -> list[str]:
        """Names in a directory, sorted; empty when there is none. With `below` the tree there is listed at once."""
        listing = self._known(path) or self._list(below or path, whole=below is not None)
        return sorted(listing.folders.get(path, ()))

    def size(self, path: str) -> int | None:
        """Bytes of an object; None when there is none."""
        listing = self._known(os.path.dirname(path))
        if listing is not None:
            return listing.folders.get(os.path.dirname(path), {}).get(os.path.basename(path))
        try:
            return self._file(path).size
        except FileNotFoundError:
            return None

    def is_dir(self, path: str) -> bool:
        """Whether there are objects below a path."""
        listing = self._known(os.path.dirname(path))
        if listing is not None:
            names = listing.folders.get(os.path.dirname(path), {})
            return names.get(os.path.basename(path), 0) is None
        return bool((self._known(path) or self._list(path, whole=False)).folders.get(path))

    def modified_ms(self, path: str) -> int | None:
        """When an object was last written, Unix milliseconds; None when there is none."""
        with_time = self._ask(path, lambda fs, key: fs.get_file_info(key))
        return None if with_time.mtime_ns is None else int(with_time.mtime_ns) // 1_000_000

    def _known(self, folder: str) -> Listing | None:
        """A listing that still holds and covers a directory."""
        now = time.monotonic()
        with self._lock:
            return next((one for one in self._listings.values() if one.until > now and one.covers(folder)), None)

    def _list(self, root: str, whole: bool) -> Listing:
        began = time.monotonic()

        def ask(fs: pyarrow.fs.FileSystem, key: str) -> list[pyarrow.fs.FileInfo]:
            return list(fs.get_file_info(pyarrow.fs.FileSelector(key, recursive=whole, allow_not_found=True)))

        found = self._ask(root, ask)
        now = time.monotonic()
        listing = Listing(root, whole, now + max(FRESH_SECONDS, FRESH_PART * (now - began)))
        for entry in found:
            folder, _, name = (PREFIX + entry.path.rstrip("/")).rpartition("/")
            is_file = entry.type == pyarrow.fs.FileType.File
            listing.folders.setdefault(folder, {})[name] = entry.size if is_file else None
        with self._lock:
            self._listings[root] = listing
            if len(self._listings) > LISTINGS_KEPT:
                self._listings.popitem(last=False)
        return listing

    # -- bytes --------------------------------------------------------------------------------------------------------

    def open_read(self, path: str, below: str | None = None) -> int:
        """A handle for reading: a negative number, which means nothing to the system.

        Raises:
            FileNotFoundError: there is no such object.
        """
        file = self._file(path)
        number = -next(_handles)
        self._open[number] = _Handle(file)
        return number

    def close(self, fd: int) -> None:
        """Give a handle back."""
        handle = self._open.pop(fd)
        if handle.ahead is not None:
            handle.ahead.stop()

    def size_of(self, fd: int) -> int:
        """Bytes of an open object."""
        return self._open[fd].file.size

    def will_read(self, fd: int, begin: int, end: int, *, sure: bool) -> None:
        """Fetch ahead in large ranges."""
        handle = self._open[fd]
        if handle.ahead is not None:
            handle.ahead.stop()
        handle.ahead = ReadAhead(handle.file, fetchers(), begin, end, sure=sure)

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Fill a buffer; gives the bytes read, fewer only where the object ends.

        Raises:
            FileNotFoundError: the object is gone.
        """
        handle = self._open[fd]
        done = handle.ahead.read_into(buffer, position) if handle.ahead is not None else 0
        if done < len(buffer):
            data = handle.file.read(position + done, len(buffer) - done)
            buffer[done : done + len(data)] = data
            done += len(data)
        return done

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """Up to count bytes; fewer only where the object ends.

        Raises:
            FileNotFoundError: the object is gone.
        """
        return self._open[fd].file.read(position, count)

    def next_data(self, fd: int, position: int) -> int | None:
        """The position itself: a server tells no holes."""
        return position

    def map_read(self, fd: int, size: int) -> mmap.mmap:
        """Refused."""
        raise UsageError(f"{self._open[fd].file.url}: access map is for local files; use pread")

    def _file(self, path: str) -> RemoteFile:
        """The object, as it was a moment ago or is now."""
        listing, now = self._known(os.path.dirname(path)), time.monotonic()
        if listing is not None and listing.folders.get(os.path.dirname(path), {}).get(os.path.basename(path)) is None:
            raise FileNotFoundError(2, os.strerror(2), path)
        with self._lock:
            known = self._files.get(path)
            if known is not None and now - known.seen < FRESH_SECONDS:
                return known
        found: RemoteFile = self._ask(path, lambda fs, key: RemoteFile(fs, path, key))
        with self._lock:
            self._files[path] = found
            self._files.move_to_end(path)
            if len(self._files) > FILES_KEPT:
                self._files.popitem(last=False)
        return found

    def _ask(self, path: str, question: Callable[[pyarrow.fs.FileSystem, str], Any]) -> Any:
        """What the client answers for a URL."""
        if not path.startswith(PREFIX):
            raise UsageError(
                f"{path}: a store on object storage has its log there too; give URLs in storePathCommitLog"
            )
        key = path[len(PREFIX) :]
        try:
            return question(filesystem(self.options, key.partition("/")[0]), key)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failed(path, error) from error


def _refused(name: str) -> Callable[..., Any]:
    def call(self: ObjectStore, *_: Any, **__: Any) -> Any:
        raise StoreAccessError(f"object storage is only read; {name} needs a directory on this machine")

    return call


_WRITES = """
    mkdirs create open_write allocate truncate pwrite map_write populate is_named rename unlink sync start_sync sync_dir
    disk_used
"""
for _name in _WRITES.split():
    setattr(ObjectStore, _name, _refused(_name))

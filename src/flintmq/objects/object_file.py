"""Opens an object as a file that Arrow and others can read."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flintmq.config.s3 import S3Options
from flintmq.objects.bucket import Bucket
from flintmq.objects.opening import bucket_of
from flintmq.storage.files.store_url import is_remote

COPY_BYTES = 8 << 20


class ObjectFile(io.RawIOBase):
    """Reads one object, as it was when it was opened, a request a read. Thread: one."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        found = bucket.find(key)
        if found is None or found.size is None:
            raise FileNotFoundError(2, "No such object", f"{bucket.url}/{key}")
        self._bucket, self._key, self._size, self._at = bucket, key, found.size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return the bytes read, fewer only where the object ends."""
        view = memoryview(buffer).cast("B")
        data = self._bucket.read(self._key, self._at, min(self._size, self._at + len(view)))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


@contextmanager
def readable(path: str, options: S3Options) -> Iterator[Any]:
    """Yield what Arrow can read: the path of a file, or a file over an object."""
    if not is_remote(path):
        yield path
        return
    with ObjectFile(*bucket_of(path, options)) as file:
        yield file


def fetch(path: str, to: str, options: S3Options) -> None:
    """Copy a file, or an object by its URL, to a file of this machine."""
    with readable(path, options) as source:
        if isinstance(source, str):
            shutil.copyfile(source, to)
            return
        with open(to, "wb") as file:
            shutil.copyfileobj(source, file, COPY_BYTES)

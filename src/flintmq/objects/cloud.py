"""Reads and writes buckets of clouds through obstore.

obstore, and not fsspec or pyarrow.fs, because it alone has put-if-absent for all of them, and it is one wheel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import obstore.store
from obstore.exceptions import AlreadyExistsError, BaseError

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.objects.bucket import Bucket, Found

CONNECT_SECONDS = 5
PART_BYTES = 16 << 20  # of a large upload
_BEYOND_END = ("InvalidRange", "416")

Answer = TypeVar("Answer")


def s3_client(bucket: str, options: S3Options) -> Any:
    """Return obstore's client of an S3 bucket."""
    known: dict[str, Any] = {"endpoint": options.endpoint} if options.endpoint else {}
    if options.region or options.endpoint:
        known["region"] = options.region or "us-east-1"
    return obstore.store.S3Store(
        bucket,
        **known,
        skip_signature=options.anonymous,
        client_options={
            "allow_http": True,
            "timeout": timedelta(seconds=options.timeout_s),
            "connect_timeout": timedelta(seconds=min(options.timeout_s, CONNECT_SECONDS)),
        },
        retry_config={
            "max_retries": options.attempts - 1,
            "retry_timeout": timedelta(seconds=options.timeout_s * options.attempts),
        },
    )


class CloudBucket(Bucket):
    """A bucket behind a client of obstore; see Bucket.

    Args:
        url: of the bucket.
        client: obstore's.
    """

    def __init__(self, url: str, client: Any) -> None:
        self.url, self._client = url, client

    def listed(self, folder: str, whole: bool) -> list[Found]:
        """See the base."""
        if whole:
            chunks = self._ask(folder, lambda: list(self._client.list(folder or None)))
            return [_found(meta) for chunk in chunks for meta in chunk]
        answer = self._ask(folder, lambda: self._client.list_with_delimiter(folder or None))
        folders = [Found(name, None) for name in answer["common_prefixes"]]
        return [*folders, *map(_found, answer["objects"])]

    def find(self, key: str) -> Found | None:
        """See the base."""
        try:
            return _found(self._ask(key, lambda: self._client.head(key)))
        except FileNotFoundError:
            return None

    def read(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        """See the base."""
        if end is not None and end <= begin:
            return b""
        try:
            if end is None and not begin:
                return bytes(self._ask(key, lambda: self._client.get(key).bytes()))
            span = {"end": end} if end is not None else {"length": 1 << 62}
            return bytes(self._ask(key, lambda: self._client.get_range(key, start=begin, **span)))
        except StoreAccessError as error:
            if any(sign in str(error) for sign in _BEYOND_END):
                return b""
            raise

    def put(self, key: str, data: bytes) -> None:
        """See the base."""
        self._ask(key, lambda: self._client.put(key, data, mode="overwrite", chunk_size=PART_BYTES))

    def put_file(self, key: str, path: str) -> None:
        """See the base."""
        os.stat(path)  # obstore's error would be taken for the server's
        self._ask(key, lambda: self._client.put(key, Path(path), mode="overwrite", chunk_size=PART_BYTES))

    def put_new(self, key: str, data: bytes) -> bool:
        """See the base."""
        try:
            self._ask(key, lambda: self._client.put(key, data, mode="create", use_multipart=False))
        except AlreadyExistsError:
            return False
        return True

    def copy(self, key: str, to: str) -> None:
        """See the base."""
        self._ask(key, lambda: self._client.copy(key, to, overwrite=True))

    def delete(self, keys: Iterable[str]) -> None:
        """See the base."""
        some = list(keys)
        if some:
            self._ask(some[0], lambda: self._client.delete(some))

    def _ask(self, key: str, question: Callable[[], Answer]) -> Answer:
        """Ask the server, and turn its refusals into errors of one line."""
        try:
            return question()
        except FileNotFoundError as error:
            raise FileNotFoundError(2, os.strerror(2), f"{self.url}/{key}") from error
        except AlreadyExistsError:
            raise
        except (BaseError, OSError, ValueError) as error:
            text = " ".join(str(error).partition("\n\nDebug source")[0].split())
            raise StoreAccessError(
                f"{self.url}/{key}: {text[:300]}; check s3.endpoint, s3.region, the keys in the environment, and that "
                "the server answers"
            ) from error


def _found(meta: Any) -> Found:
    written: datetime = meta["last_modified"]
    return Found(meta["path"], meta["size"], int(written.timestamp() * 1000))

"""Declares what is asked of object storage: `Bucket`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple


class ObjectEntry(NamedTuple):
    """An object, or a folder (a common beginning of keys)."""

    key: str
    size: int | None  # bytes; None: a folder
    modified_ms: int | None = None  # when it was written, in Unix milliseconds; None of a folder


class Bucket(ABC):
    """One bucket: keys and their bytes.

    Raises:
        FileNotFoundError: (as each method says) there is no such object.
        StoreAccessError: (any method) the server refuses, or does not answer; the text names the URL.

    Thread: any.
    """

    url: str  # of the bucket, without a trailing slash; `url + "/" + key` is the URL of an object

    @abstractmethod
    def listed(self, folder: str, whole: bool) -> list[ObjectEntry]:
        """List what is in a folder; empty if there is none.

        Args:
            folder: without a trailing slash; "" for the bucket itself.
            whole: all objects below it, at any depth, and no folders; otherwise what is directly in it.
        """

    @abstractmethod
    def find(self, key: str) -> ObjectEntry | None:
        """Return an object as it is now; None if it does not exist."""

    @abstractmethod
    def read(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        """Return the bytes in [begin, end) of an object; fewer where it ends.

        Raises FileNotFoundError: it does not exist.
        """

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write an object, in place of one that may be there.

        Durability: on return, as the server promises it.
        """

    @abstractmethod
    def put_file(self, key: str, path: str) -> None:
        """Write an object with the content of a file of this machine; see put.

        Raises OSError: the file cannot be read.
        """

    @abstractmethod
    def put_new(self, key: str, data: bytes) -> bool:
        """Write an object unless there is one; return whether it was written. Of two that try, one wins."""

    @abstractmethod
    def copy(self, key: str, to: str) -> None:
        """Copy an object within the bucket, in place of one that may be there.

        Raises FileNotFoundError: it does not exist.
        """

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that do not exist are passed over."""

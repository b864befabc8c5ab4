"""Keeps the state of a job in a small JSON file with a version, replaced as a whole.

The file is a JSON object whose first key is the version. Another version is refused: a state that is half understood
would be worse than none. The modules that use the class say what the state is, and what a user can do about a file that
cannot be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flintmq.errors import FlintError
from flintmq.storage.filesystem import REAL, Effects
from flintmq.storage.whole_file import replace_file

_UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of a file, or its contents
T = TypeVar("T")


@dataclass(frozen=True)
class VersionedJson:
    """One such file.

    Attributes:
        path: path of the file.
        version: the first key and its value; a file with another value is refused.
        refused: turns the error of a read into the error that users see.
        bytes_max: size of the largest file that is read.
        style: arguments of json.dumps for the text.
        end: last characters of the text.
    """

    path: str
    version: tuple[str, object]
    refused: Callable[[Exception], FlintError]
    bytes_max: int = 1 << 30
    style: Mapping[str, Any] = field(default_factory=dict)
    end: str = "\n"

    def load(self, build: Callable[[dict[str, Any]], T], effects: Effects | None = None) -> T | None:
        """Read the file; return None if there is no such file.

        Args:
            build: makes the state from the object, whose version has been checked and removed. Errors that a wrong
                object causes are refused like errors of the file.
            effects: the disk of the store that contains the file; None if it is in no store, and may be a link.

        Raises:
            FlintError: as `refused` makes it.
            StoreAccessError: in a store: the file is a link, or access is denied.
        """
        try:
            data = self._read() if effects is None else effects.read_file(self.path, self.bytes_max + 1)
        except _UNREADABLE as error:
            raise self.refused(error) from error
        return None if data is None else self.parse(data, build)

    def parse(self, data: bytes, build: Callable[[dict[str, Any]], T]) -> T:
        """Return what `load` does of the content of the file.

        Raises:
            FlintError: as `refused` makes it.
        """
        try:
            return build(self._decode(data))
        except _UNREADABLE as error:
            raise self.refused(error) from error

    def save(self, state: Mapping[str, Any], effects: Effects = REAL) -> None:
        """Replace the file.

        Raises:
            OSError: the old file is untouched then.

        Durability: on return.
        """
        replace_file(self.path, self.encode(state), effects)

    def encode(self, state: Mapping[str, Any]) -> bytes:
        """Return the content of the file."""
        key, version = self.version
        return (json.dumps({key: version, **state}, **self.style) + self.end).encode("utf-8", "surrogatepass")

    def _read(self) -> bytes | None:
        try:
            with open(self.path, "rb") as file:
                self._check_size(os.fstat(file.fileno()).st_size)
                return file.read()
        except FileNotFoundError:
            return None

    def _check_size(self, size: int) -> None:
        if size > self.bytes_max:
            raise ValueError("too large")

    def _decode(self, data: bytes) -> dict[str, Any]:
        self._check_size(len(data))
        found: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        key, version = self.version
        if found.pop(key) != version:
            raise ValueError("written by another version of FlintMQ")
        return found

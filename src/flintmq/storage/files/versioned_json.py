"""Keeps the state of a job in a small JSON file with a format number, replaced as a whole.

The file is a JSON object whose first key is the number of its format, and whose second one, `flintmq`, the version of
FlintMQ that wrote it (0.1 wrote none). A newer format is refused, and so is a key that the module which uses the class
does not know (`only`): a state that is half understood would be worse than none. A file that is cut off, one that is no
JSON, and one that is newer each have words of their own. The modules that use the class say what the state is, and what
a user can do about a file that cannot be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flintmq.errors import FlintError, StoreAccessError, UnsupportedFormatError
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.whole_file import replace_file
from flintmq.version import OURS, is_newer

_UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of a file, or its contents
T = TypeVar("T")
WRITER = "flintmq"
"""Key of the version that wrote a file."""


class _UnknownKeyError(ValueError):
    """A key that is not known here; its text is the name."""


def only(value: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return an object of such a file, all of whose keys must be known.

    Raises ValueError: one is not. A `build` lets it pass: `VersionedJson` words it for the user.
    """
    unknown = sorted(value.keys() - frozenset(known))
    if unknown:
        raise _UnknownKeyError(unknown[0])
    return value


def why(error: Exception) -> str:
    """Return why a file cannot be read, in a few words, for `refused`."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    # The text of a ValueError is one of this module; those of others say something to programmers.
    return str(error)[:80] if isinstance(error, ValueError) and str(error) else type(error).__name__


def unreadable(path: object, words: str) -> Callable[[Exception], StoreAccessError]:
    """Return the `refused` of a file: `words` say in braces where `why` belongs."""
    return lambda error: StoreAccessError(f"{path}: {words.format(why(error))}")


def made_by(writer: object, newer: bool) -> str:
    """Return the words for what another FlintMQ made, and this one does not understand."""
    if isinstance(writer, str) and is_newer(writer):
        return f"made by FlintMQ {writer[:20]}, newer than this one ({OURS}): upgrade this one"
    if newer:
        return f"made by a FlintMQ newer than this one ({OURS}): upgrade this one"
    return f"made by another FlintMQ than this one ({OURS}), or changed by hand"


@dataclass(frozen=True)
class VersionedJson:
    """One such file.

    `version`: the first key and its value, which ends with the number of the format. A file with a higher number is
    refused as newer.
    """

    path: str
    version: tuple[str, object]
    refused: Callable[[Exception], FlintError]  # turns the error of a read into the error that users see
    bytes_max: int = 1 << 30
    style: Mapping[str, Any] = field(default_factory=dict)
    end: str = "\n"
    older: tuple[object, ...] = ()  # earlier values of the first key, which are read as well

    def load(self, build: Callable[[dict[str, Any]], T], effects: Effects | None = None) -> T | None:
        """Read the file; return None if there is no such file.

        Args:
            build: makes the state from the object, whose format has been checked. That and the version that wrote it
                are removed. Errors that a wrong object causes are refused like errors of the file.
            effects: the disk of the store that contains the file; None if it is in no store, and may be a link.
        """
        try:
            data = self._read() if effects is None else effects.read_file(self.path, self.bytes_max + 1)
        except _UNREADABLE as error:
            raise self.refused(error) from error
        return None if data is None else self.parse(data, build)

    def parse(self, data: bytes, build: Callable[[dict[str, Any]], T]) -> T:
        writer: object = None
        try:
            found = self._decode(data)
            writer = found.pop(WRITER, None)
            return build(found)
        except _UnknownKeyError as error:
            why = f"the key {str(error)!a:.60} is not known here: {made_by(writer, False)}"
            raise UnsupportedFormatError(f"{self.path}: {why}") from error
        except _UNREADABLE as error:
            raise self.refused(error) from error

    def save(self, state: Mapping[str, Any], effects: Effects = REAL) -> None:
        """Replace the file. Durability: on return. Raises OSError: the old file is untouched then."""
        replace_file(self.path, self.encode(state), effects)

    def encode(self, state: Mapping[str, Any]) -> bytes:
        key, version = self.version
        text = json.dumps({key: version, WRITER: OURS, **state}, **self.style) + self.end
        return text.encode("utf-8", "surrogatepass")

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
        text = data.decode("utf-8", "surrogatepass").rstrip()
        try:
            found: Any = json.loads(text)
        except json.JSONDecodeError as error:
            # A text that was cut off is wrong where it ends; or in its last string, whose begin the decoder names.
            cut = error.pos >= len(text) or error.msg.startswith("Unterminated string")
            raise ValueError("cut off" if cut else f"no JSON: {error}") from error
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        key, version = self.version
        there = found.pop(key, None)
        if _is_higher(there, version):
            why = f"{key} {there!a:.40} is not known here: {made_by(found.get(WRITER), True)}"
            raise UnsupportedFormatError(f"{self.path}: {why}")
        if there not in (version, *self.older) or isinstance(there, bool):
            raise ValueError(f"no {key} of FlintMQ")
        return found


def _is_higher(there: object, ours: object) -> bool:
    """Return whether one format is a later one of the same name: `2`, or `name 2`."""
    if isinstance(there, str) and isinstance(ours, str):
        (name, _, number), (own, _, known) = there.rpartition(" "), ours.rpartition(" ")
        return name == own and number.isdecimal() and int(number) > int(known)
    return type(there) is int and isinstance(ours, int) and there > ours

"""Keeps members of a table of config/ as objects, so that each is read from its JSON once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from flintmq.format.config_json import JsonObject
from flintmq.store.layout.config_writer import ConfigFile

T = TypeVar("T")

KEPT_MAX: Final = 10_000  # members


class KeptMembers(Generic[T]):
    """The members of one table, as of the file's last change. Thread: any.

    `of`: reads a member by its name.
    """

    def __init__(self, file: ConfigFile, table: str, of: Callable[[str, JsonObject], T]) -> None:
        self._file, self._table, self._of = file, table, of
        self._kept: tuple[int, dict[str, T | None]] = -1, {}  # changes of the file, members as of then

    def get(self, name: str) -> T | None:
        """Return a member; None: there is none."""
        at, kept = self._kept
        if at == self._file.changes and name in kept:
            return kept[name]
        with self._file.lock:
            if at != self._file.changes or len(kept) >= KEPT_MAX:
                kept = {}
                self._kept = self._file.changes, kept
            found = self._file.table(self._table).get(name)
            kept[name] = self._of(name, found) if isinstance(found, dict) else None
            return kept[name]

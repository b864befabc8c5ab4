"""The file that keeps a verification's state between its parts, outside the store.

It is JSON and replaced as a whole. It holds no message, but names topics, queues and files. A file of another store, of
other settings or of another format version is refused, and never overwritten.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from flintmq.config.keys import KEYS, StoreConfig
from flintmq.errors import StoreAccessError, UsageError
from flintmq.forensics.verify.codes import DEFECTS, NOTES
from flintmq.storage.store_url import absolute, outside_store
from flintmq.storage.versioned_json import VersionedJson, only
from flintmq.storage.whole_file import NEW

FORM = "flintmq verify 1"
"""Format name and version in the file."""


class StateFile:
    """The state of one store's verification.

    Args:
        path: the file; it may be missing.
        root: the store.
        config: the settings that were given: findings with other settings do not belong to the same verification.

    Raises:
        UsageError: the path is in the store, which is never written.
        StoreAccessError: the directory cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], root: str, config: StoreConfig) -> None:
        self.path = os.path.abspath(os.fspath(path))
        outside_store(self.path, root, config)
        if not os.access(os.path.dirname(self.path), os.W_OK):
            raise StoreAccessError(f"{self.path}: no directory there that can be written; name a file elsewhere")
        settings = {key: str(getattr(config, KEYS[key])) for key in sorted(config.given & KEYS.keys())}
        self._head = {"root": absolute(root), "settings": settings}
        self._file = VersionedJson(self.path, ("form", FORM), self._refused, style={"separators": (",", ":")}, end="")

    def load(self) -> dict[str, Any] | None:
        """Load the state; return None if there is no such file.

        Raises:
            UsageError: the file holds something else, or belongs to another store or other settings.
            StoreAccessError: it cannot be read.
        """
        saved = self._file.load(_checked)
        if saved is None:
            return None
        for what in ("root", "settings"):
            if saved.get(what) != self._head[what]:
                raise UsageError(
                    f"{self.path} belongs to a verification with {what} {saved.get(what)}, not {self._head[what]}; "
                    "name another file, or remove it to start again"
                )
        state: dict[str, Any] = saved["state"]
        return state

    def refuse(self, error: Exception) -> UsageError:
        """Return the error to raise when a loaded state does not fit the store."""
        why = str(error) if isinstance(error, UsageError) else f"its contents do not fit the store ({error!r:.100})"
        return UsageError(f"{self.path}: {why}; remove it to start again")

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file; after a crash it has the old state or the new one.

        Raises:
            StoreAccessError: it cannot be written.
        """
        try:
            self._file.save({**self._head, "state": state})
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(self.path + NEW)
            raise StoreAccessError(f"{self.path}: {error.strerror}; name a file that can be written") from error

    def remove(self) -> None:
        """Remove the file, when there is nothing left to continue."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _refused(self, error: Exception) -> StoreAccessError | UsageError:
        if isinstance(error, OSError):
            return StoreAccessError(f"{self.path}: {error.strerror}; check permissions and the disk")
        return UsageError(f"{self.path} holds no state of this version's verify; remove it to start again")


def _checked(saved: dict[str, Any]) -> dict[str, Any]:
    state = only(saved, ("root", "settings", "state"))["state"]
    only(state, ("position", "last_time", "begin", "last", "lost", "findings", "log", "queues", "index"))
    findings = only(state.get("findings", {}), ("defects", "notes", "defect_counts", "note_counts"))
    for counts, codes in ("defect_counts", DEFECTS), ("note_counts", NOTES):
        only(findings.get(counts, {}), codes)
    return saved

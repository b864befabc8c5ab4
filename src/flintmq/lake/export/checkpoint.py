"""Keeps a copy of the progress of an export in a directory of its own (`--checkpoint DIR`).

The manifests decide: they are published together with the data in one step, while a second record of progress could
belong to another table or be ahead of this one. So the copy is written after each export, for others to read: a
monitor, or a stream that continues from there (its `offsets` are a value for `startingOffsets`). It decides nothing,
with one exception: if it is ahead of the table, the table was restored or replaced, and an export into it would
deliver messages twice to anyone who reads along. Such an export is refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.table.target import Manifest
from flintmq.storage.files import full_disk
from flintmq.storage.files.store_url import local_only
from flintmq.storage.files.versioned_json import VersionedJson, only, unreadable
from flintmq.storage.files.whole_file import NEW

COPY = "export.json"
FORMAT = 1


@dataclass(frozen=True)
class ExportCheckpoint:
    """The directory of a copy; without a directory nothing is written or checked."""

    folder: Path | None
    table: str

    @classmethod
    def at(cls, path: str | None, table: str) -> ExportCheckpoint:
        """Return the copy in this directory, which is created if it does not exist."""
        if path is None:
            return cls(None, table)
        folder = Path(os.path.abspath(local_only(path)))
        if folder.is_relative_to(table):
            raise UsageError(f"--checkpoint {folder} is within {table}; give a directory beside it")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            strangers = [name for name in os.listdir(folder) if name not in (COPY, COPY + NEW)]
        except OSError as error:
            raise StoreAccessError(f"{folder}: {error.strerror}; give a directory that can be written") from error
        if strangers:
            raise UsageError(f"--checkpoint {folder} holds other things ({strangers[0]!a}); give an empty directory")
        return cls(folder, table)

    def check(self, last: Manifest | None) -> None:
        """Refuse an export into another or an older table than that of the copy."""
        there = _copy_file(self.folder / COPY).load(_checked) if self.folder is not None else None
        if there is None:
            return
        if there["table"] != self.table:
            raise UsageError(f"--checkpoint {self.folder} belongs to {there['table']}; give a directory of its own")
        if there["number"] > (last.number if last else 0):
            raise UsageError(
                f"--checkpoint {self.folder} is at export {there['number']}, {self.table} at "
                f"{last.number if last else 0}: the table was restored; remove the checkpoint to continue from there"
            )

    def keep(self, last: Manifest | None) -> None:
        if self.folder is None or last is None:
            return
        with full_disk.naming(str(self.folder)):
            _copy_file(self.folder / COPY).save({
                "table": self.table, "number": last.number, "end": last.end, "made": last.made,
                "offsets": last.offsets,
            })  # fmt: skip


def _copy_file(path: Path) -> VersionedJson:
    refused = unreadable(path, "not readable ({}); remove it")
    return VersionedJson(str(path), ("format", FORMAT), refused, style={"ensure_ascii": False})


def _checked(copy: dict[str, Any]) -> dict[str, Any]:
    only(copy, ("table", "number", "end", "made", "offsets"))
    if not isinstance(copy["number"], int) or "table" not in copy:
        raise ValueError("not a copy of progress")
    return copy

"""Publishes exports as Parquet into a directory: one rename commits what was staged.

DIR/export=1/_flintmq.json                          what this export holds: the manifest
DIR/export=1/topic_name=T/date=2026-01-31/00000-000001.parquet
DIR/export=2/...                                    a later export: only what was new

Below a URL of object storage `lake/table/bucket_target.py` publishes.

One rename of a directory publishes files and manifest together.
Readers infer the type of `topic_name` from the names of directories. If all topics of an export could be numbers or
dates (`007` and `7` would both be 7), a file without rows in `topic_name=~text` makes readers choose text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.files.table_folder import STAGING, brought
from flintmq.lake.files.table_format import EXPORT_FOLDER, absent_exports, exports_in
from flintmq.lake.shape.parquet import folder_of
from flintmq.lake.table.target import MOST_LOST, NAMES, Manifest, StagedFile, Target, manifest_file
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.whole_file import sync_file, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "_flintmq.json"
_OLD_NAMES = re.compile("topic_name=.*%[89A-F]", re.DOTALL)
_NO_TEXT = frozenset({"nan", "inf", "infinity", "true", "false", "null", "none", "nat", "now", "today", "epoch"})
_UNREAD = re.compile("(^|/)[._]")  # places that every reader passes over
MOST_LOOKED_AT = 1000  # of the newest exports, for files that no export made


class ParquetTarget(Target):
    """A directory that exports are published into; see Target."""

    @staticmethod
    def is_own(name: str) -> bool:
        """Return whether this can be the name of an export's directory."""
        return EXPORT_FOLDER.fullmatch(name) is not None

    def last(self) -> Manifest | None:
        numbers = self._numbers()
        return self._manifest_in(numbers[-1]) if numbers else None

    def committed(self) -> tuple[Manifest | None, int]:
        last = self.last()
        return last, 0 if last is None else last.number

    def files_at(self, version: int) -> tuple[str, ...]:
        return tuple(
            self.folder.at(f"export={made.number}/{place}") for made in self.made_at(version) for place in made.files
        )

    def made_at(self, version: int, after: int = 0) -> Iterator[Manifest]:
        """Yield the manifests of the exports of a version, rising."""
        return (self._manifest_in(number) for number in self._numbers() if after < number <= version)

    def first(self) -> Manifest:
        """Return the manifest of the first export: all later ones have its columns."""
        return self._manifest_in(self._numbers()[0])

    def number_after(self, last: Manifest | None) -> int:
        return 1 if last is None else last.number + 1

    def check(self, last: Manifest | None, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Check that the directory has nothing but such exports; see the base."""
        if self.folder.holds("_delta_log"):
            raise UsageError(f"{self.where} holds a Delta table; give --to delta, or an empty directory")
        if self.folder.holds("metadata"):
            raise UsageError(f"{self.where} holds an Iceberg table; give --to iceberg, or an empty directory")
        for entry in () if last is None or last.names >= NAMES else self.folder.names():
            places = os.listdir(self.root / entry) if self.is_own(entry) else []
            old = next((place for place in places if _OLD_NAMES.match(place)), None)
            if old is not None:
                raise UsageError(
                    f"{self.root}/{entry}/{old}: an earlier FlintMQ named this directory so that Spark reads another "
                    "topic_name; the same topic would get two; export into a new directory"
                )
        # Below a URL, and of a long history, this would take longer than many an export; a comparison looks at all.
        strays = [] if last is None or self.folder.remote else self.strays_at(last.number, last.number - MOST_LOOKED_AT)
        if strays:
            raise UsageError(stray_text(strays, self.where))

    def hints(self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str]) -> list[StagedFile]:
        """Return a file without rows that makes readers take `topic_name` for text, if none does.

        Where there are no files it tells readers the columns.
        """
        import pyarrow.parquet as pq

        topics = {topic for file in files for name, topic in file.partition if name == "topic_name" and topic}
        if files and (not topics or any(map(is_text, topics))):
            return []
        dates = [date for file in files for name, date in file.partition if name == "date"]
        known = next((date for date in dates if date is not None), None if files else "1970-01-01")
        folders = {"topic_name": "topic_name=~text", "date": folder_of([("date", known)])}
        place = os.path.join(*map(folders.__getitem__, partition_by), "text.parquet")
        with self.tasks.attempt("hint") as attempt:
            path = os.path.join(attempt.folder, "text.parquet")
            pq.write_table(schema.empty_table(), path)
            sync_file(path, REAL)
            return [StagedFile(attempt.keep(path), place, os.path.getsize(path), 0)]

    def strays_at(self, version: int, after: int = 0) -> list[str]:
        """Return the files that no export made, and that readers count; see `made_at`."""
        found: list[str] = []
        for made in self.made_at(version, after):
            folder = f"export={made.number}"
            own = frozenset(made.files)
            there = (place for place in self.folder.files(folder) if not _UNREAD.search(place))
            found += [self.folder.at(f"{folder}/{place}") for place in sorted(there) if place not in own]
        return found

    def absent_at(self, version: int) -> tuple[str, ...]:
        there = (number for number in self._numbers() if number <= version)
        numbers = islice(absent_exports(there), MOST_LOST + 1)
        return tuple(self.folder.at(f"export={number}") for number in numbers)

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema) -> None:
        """Publish all files of an export by one rename; see the base."""
        assert manifest.files == [file.place for file in files]  # readers of the manifest find them all
        tree = self.root / STAGING / "tree"
        tree.mkdir()
        folders = brought(tree, (file[:2] for file in files))
        # All is durable before the rename makes it visible: after a power cut an export must not lack files.
        manifest.write(tree / MANIFEST)
        for folder in folders:
            sync_folder(folder)
        os.rename(tree, self.root / f"export={manifest.number}")
        # Until this fsync a power cut may undo the rename; the next run then exports the same range again.
        sync_folder(self.root)

    def _numbers(self) -> list[int]:
        return exports_in(os.listdir(self.root))

    def _manifest_in(self, number: int) -> Manifest:
        folder = self.root / f"export={number}"
        file = manifest_file(folder / MANIFEST)
        manifest = file.load(Manifest.of)
        if manifest is None:
            raise file.refused(FileNotFoundError())
        if manifest.number != number:
            raise StoreAccessError(
                f"{folder}: by its manifest a copy of export={manifest.number}; rows would count twice: remove it, "
                "or give it the name of the export that it is"
            )
        return manifest


def stray_text(strays: Sequence[str], root: str) -> str:
    """Return the sentence about files that no export made, of which there is one at least."""
    others = f" (and {len(strays) - 1} others)" if strays[1:] else ""
    return (
        f"{strays[0]}{others}: no export made this file, and readers of the table {root} count its rows; remove it, or "
        "give it a name that begins with _"
    )


def is_text(topic: str) -> bool:
    """Return whether every reader takes this name for text.

    Such a name starts with a letter, and is not a word for a value, such as `true` or `nan`.
    """
    return topic.lstrip("%")[:1].isalpha() and topic.casefold() not in _NO_TEXT

"""Keeps messages of an export whose bodies do not decode in a directory of their own.

`--dead-letters DIR` makes:

DIR/_flintmq.json                 the table that they are of
DIR/export=3/00000-dead.parquet   those of export 3: where the message is, why its body does not decode, the body

The rows are in the table too, with the bytes in `body_raw`; here they lie together for whoever mends them. A directory
appears by one rename, just before the export of its number does. If that export does not come to be, because the run
dies, or is undone later, because the table is put back, the next export into the table removes the directory first. So
after each export the directories are those of the table's exports: no letter is missing, and none is there twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintmq.arrow.schema import SPARK_SCHEMA, member_columns, of_many
from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.files.failed_file import give_up, naming
from flintmq.lake.files.table_format import EXPORT_FOLDER
from flintmq.objects.object_file import fetch
from flintmq.storage.files import full_disk
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.store_url import local_only
from flintmq.storage.files.versioned_json import VersionedJson, only, unreadable
from flintmq.storage.files.whole_file import sync_file, sync_folder

MARK = "_flintmq.json"
STAGING = "_staging"
FORMAT = 1
ROW_GROUP_BYTES = 16 << 20
_NAMES = (
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "store_timestamp",
    "born_timestamp",
    "msg_id",
    "keys",
    "tags",
    "properties",
)


def letter_schema(many: bool) -> pa.Schema:
    """Return the columns of dead letters; of several stores also broker and store."""
    kept = [of_many(SPARK_SCHEMA, many).field(name) for name in (*_NAMES, *member_columns(many))]
    return pa.schema([*kept, pa.field("reason", pa.string()), pa.field("body", pa.binary())])


class DeadLetterWriter:
    """Writes the dead letters of one task into one file, which is made for the first of them.

    Thread: one.

    A block `with` a writer gives its file up if it ends with an error; otherwise `close` comes first.
    """

    def __init__(self, folder: str, many: bool) -> None:
        self._path = os.path.join(folder, "dead.parquet")
        self._schema = letter_schema(many)
        self._writer: Any = None
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> DeadLetterWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and self._writer is not None:
            give_up(self._writer)

    def write(self, batch: pa.RecordBatch, bad: Sequence[tuple[int, str]]) -> None:
        """Add rows of a batch of the scan's columns, each with the reason."""
        rows = batch.take(pa.array([number for number, _ in bad], pa.int32()))
        reasons = pa.array([reason for _, reason in bad], pa.string())
        columns = [reasons if name == "reason" else rows.column(name) for name in self._schema.names]
        self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        if sum(each.nbytes for each in self._waiting) > ROW_GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        with naming(self._path):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, self._schema, compression="snappy")
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting = []

    def close(self) -> str | None:
        """Write the rest, sync the file, and return its path; None if there is none."""
        if self._waiting:
            self._write()
        if self._writer is None:
            return None
        with naming(self._path):
            self._writer.close()
        sync_file(self._path, REAL)
        return self._path


@dataclass
class DeadLetters:
    """The directory of dead letters; without a directory nothing is written.

    `files`: of the export that is made: path and the beginning of the name.
    """

    folder: Path | None
    table: str  # path or URL of the target of the export
    s3: S3Options = field(default_factory=S3Options)
    files: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def at(cls, path: str | None, table: str, s3: S3Options = S3Options()) -> DeadLetters:  # noqa: B008
        """Return the dead letters in this directory, which is created if it does not exist."""
        if path is None:
            return cls(None, table, s3)
        folder = Path(os.path.abspath(local_only(path)))
        if folder.is_relative_to(table) or Path(table).is_relative_to(folder):
            raise UsageError(f"--dead-letters {folder}: one of it and {table} is in the other; give one beside it")
        mark = _mark_file(folder / MARK)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            strangers = [
                name for name in os.listdir(folder) if name[0] not in "._" and not EXPORT_FOLDER.fullmatch(name)
            ]
            there = mark.load(lambda value: str(only(value, ("table",))["table"]))
            if strangers or (there is None and any(map(EXPORT_FOLDER.fullmatch, os.listdir(folder)))):
                what = strangers[0] if strangers else "exports"
                raise UsageError(f"--dead-letters {folder} holds other things ({what!a}); give an empty directory")
            if there is None:
                mark.save({"table": table})
        except OSError as error:
            raise StoreAccessError(f"{folder}: {error.strerror}; give a directory that can be written") from error
        if there not in (None, table):
            raise UsageError(f"--dead-letters {folder} belongs to {there}; give a directory of its own")
        return cls(folder, table, s3)

    def collect(self, answers: Sequence[Any]) -> None:
        self.files = [tuple(answer["dead_letters"]) for answer in answers if answer["dead_letters"]]

    def publish(self, last: int, number: int) -> None:
        """Publish the files in one step, and remove those of exports that did not come to be.

        Durability: on return. Raises OSError: the disk is full or fails. Then the export must not be published.
        """
        if self.folder is None:
            return
        staging = self.folder / STAGING
        shutil.rmtree(staging, ignore_errors=True)
        for name in os.listdir(self.folder):
            match = EXPORT_FOLDER.fullmatch(name)
            # Of an export that did not come to be, or was undone: its messages come again.
            if match is not None and int(match[1]) > last:
                shutil.rmtree(self.folder / name)
        if self.files:
            try:
                with full_disk.naming(str(self.folder)):
                    self._copy(staging)
            except BaseException:  # as the disk is full: what is there of them would fill it until the next run
                shutil.rmtree(staging, ignore_errors=True)
                raise
            # One rename of files that are synced: a reader finds all letters of an export, or none.
            os.rename(staging, self.folder / f"export={number}")
        sync_folder(self.folder)

    def _copy(self, staging: Path) -> None:
        """Copy the files into a new directory; the table may be on another disk."""
        staging.mkdir()
        for path, name in self.files:
            fetch(path, str(staging / f"{name}-dead.parquet"), self.s3)
            sync_file(str(staging / f"{name}-dead.parquet"), REAL)
        sync_folder(staging)


def _mark_file(path: Path) -> VersionedJson:
    refused = unreadable(path, "does not name a table ({}); give --dead-letters an empty directory")
    return VersionedJson(str(path), ("format", FORMAT), refused, 1 << 16)

"""The directory that exports go to: what is committed, what is in the making, and the one step between them.

    DIR/export=1/_flintmq.json                          what this export holds: the manifest
    DIR/export=1/topic_name=T/date=2026-01-31/00000-000001.parquet
    DIR/export=2/...                                    a later export: only what was new
    DIR/_staging/...                                    an export in the making, or the remains of one that failed
    DIR/_flintmq.lock                                   held while somebody exports here

Everything of an export is written below `_staging` and made durable; then one rename of a directory brings all of it
in at once, files and manifest. Before that rename a reader sees nothing of it, after it everything; a run that dies
leaves only `_staging`, which the next one sweeps. Readers (Spark, Arrow, DuckDB) pass over names that begin with `_`.
The manifest names the log offset where the export ends: the next one begins there.

Readers guess the type of `topic_name` from the names of directories. Where all topics of an export could be taken for
numbers or dates (`007` and `7`, both 7), it has a file without rows in `topic_name=~text`, so that they read text.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.parquet import folder_of

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "_flintmq.json"
STAGING = "_staging"
LOCK = "_flintmq.lock"
FORMAT = 1
NAMES = 2  # how directories are named; 1 (or nothing): bytes of UTF-8 as %XX, which Spark reads as other characters
_OLD_NAMES = re.compile("topic_name=.*%[89A-F]", re.DOTALL)
_NO_TEXT = frozenset({"nan", "inf", "infinity", "true", "false", "null", "none", "nat", "now", "today", "epoch"})
MANIFEST_BYTES_MAX = 64 << 20
_EXPORT = re.compile(r"export=([1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True)
class ExportAnchor:
    """One exported record by which a later run sees that it has the same log before it.

    Attributes:
        physical_offset, size, store_timestamp (ms), body_crc: as in the record.
    """

    physical_offset: int
    size: int
    store_timestamp: int
    body_crc: int


@dataclass(frozen=True)
class Manifest:
    """What one export holds.

    Attributes:
        number: 1, 2, ...
        begin, end: log offsets; the export holds what was asked for of the records that start in [begin, end).
        rows: how many.
        files: paths below the export's directory.
        bytes: sizes of all files together.
        anchor: one of the last records.
        choice: what was asked for (CHOICES in spark/jobs/export/job.py); all exports of a directory agree in it.
        lost_bytes: bytes of the log that were passed over as damaged.
        made: Unix seconds.
        offsets: of a streaming export: the next queue offset of each queue; None of others.
        names: how directories are named (NAMES).
    """

    number: int
    begin: int
    end: int
    rows: int
    files: list[str]
    bytes: int
    anchor: ExportAnchor
    choice: dict[str, Any]
    lost_bytes: int
    made: int
    offsets: dict[str, int] | None = None
    names: int = 1

    def to_json(self) -> str:
        """The manifest as text."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest of a text.

        Raises:
            ValueError, TypeError, KeyError: it is none, or of another version.
        """
        value = json.loads(text)
        if value.pop("format") != FORMAT:
            raise ValueError("written by another version of FlintMQ")
        return cls(**{**value, "anchor": ExportAnchor(**value["anchor"])})


class StagedFile(NamedTuple):
    """A file that a task wrote and made durable.

    Attributes:
        path: where it is.
        place: where it belongs, below the export.
        size: in bytes.
        rows: how many it has.
        partition: values of its rows, see parquet.Values.
        stats: see parquet.statistics.
    """

    path: str
    place: str
    size: int
    rows: int
    partition: Sequence[Sequence[str | None]] = ()
    stats: Mapping[str, Any] = MappingProxyType({})


class ExportTarget:
    """One directory that exports go to. Made and used within `locked`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.staging = root / STAGING
        self.notes: dict[str, int] = {}  # what `last` found that the user should know

    def number_after(self, last: Manifest | None) -> int:
        """What the next export is called."""
        return 1 if last is None else last.number + 1

    def check(self, last: Manifest | None, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Look whether files may go in here, before any is made.

        Args:
            last: as `last` gave it.
            schema: of the files.
            partition_by: what their directories say.

        Raises:
            UsageError: what is there was not made by such exports.
            StoreAccessError: it cannot be read.
        """
        if (self.root / "_delta_log").exists():
            raise UsageError(f"{self.root} holds a Delta table; give --to delta, or an empty directory")
        if last is None or last.names >= NAMES:
            return
        for entry in os.listdir(self.root):
            places = os.listdir(self.root / entry) if self.is_own(entry) else []
            old = next((place for place in places if _OLD_NAMES.match(place)), None)
            if old is not None:
                raise UsageError(
                    f"{self.root}/{entry}/{old}: an earlier FlintMQ named this directory so that Spark reads another "
                    "topic_name; the same topic would get two; export into a new directory"
                )

    def hints(self, files: Sequence[StagedFile], schema: pa.Schema) -> list[StagedFile]:
        """A file without rows by which readers see that `topic_name` is text, where no topic tells them.

        Raises:
            OSError: the disk is full or fails.
        """
        topics = {topic for file in files for name, topic in file.partition if name == "topic_name" and topic}
        if not topics or any(map(is_text, topics)):
            return []
        import pyarrow.parquet as pq

        path = self.staging / "tasks" / "text.parquet"
        pq.write_table(schema.empty_table(), path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        dates = [pair for file in files for pair in file.partition if pair[0] == "date"]
        known = next((pair for pair in dates if pair[1] is not None), None)
        folder = os.path.join("topic_name=~text", folder_of([known or dates[0]]) if dates else "")
        return [StagedFile(str(path), os.path.join(folder, path.name), path.stat().st_size, 0)]

    def last(self) -> Manifest | None:
        """The manifest of the newest export; None where there is none yet.

        Raises:
            StoreAccessError: it cannot be read, or is damaged.
        """
        numbers = [int(match[1]) for match in map(_EXPORT.fullmatch, os.listdir(self.root)) if match]
        if not numbers:
            return None
        return self.read_manifest(self.root / f"export={max(numbers)}" / MANIFEST)

    @staticmethod
    def is_own(name: str) -> bool:
        """Whether this can be the directory of an export."""
        return _EXPORT.fullmatch(name) is not None

    @staticmethod
    def read_manifest(path: Path) -> Manifest:
        """The manifest in a file.

        Raises:
            StoreAccessError: it cannot be read, or is damaged.
        """
        try:
            if path.stat().st_size > MANIFEST_BYTES_MAX:
                raise ValueError("too large")
            return Manifest.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StoreAccessError(
                f"{path}: not a readable manifest ({type(error).__name__}); export into a new directory"
            ) from error

    def stage(self) -> Path:
        """An empty directory for the tasks, each of which makes one of its own below it."""
        shutil.rmtree(self.staging, ignore_errors=True)
        tasks = self.staging / "tasks"
        tasks.mkdir(parents=True)
        return tasks

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema) -> None:
        """Bring an export in: all of it, in one step.

        Args:
            manifest: goes with it; its `files` are the places of `files`.
            files: what the tasks wrote.
            schema: of the files, the same in every export of a directory.

        Raises:
            OSError: the disk is full or fails. Then nothing has been brought in.
        """
        tree = self.staging / "tree"
        folders = {tree}
        tree.mkdir()
        for written, place, *_ in files:
            (tree / place).parent.mkdir(parents=True, exist_ok=True)
            os.rename(written, tree / place)
            folders.update(folder for folder in (tree / place).parents if folder.is_relative_to(tree))
        write_synced(tree / MANIFEST, manifest.to_json())
        for folder in folders:
            sync_folder(folder)
        os.rename(tree, self.root / f"export={manifest.number}")
        sync_folder(self.root)

    def sweep(self) -> None:
        """Remove what is in the making."""
        shutil.rmtree(self.staging, ignore_errors=True)


def is_text(topic: str) -> bool:
    """Whether every reader takes this name for text: it begins with a letter and is no word for a value."""
    return topic.lstrip("%")[:1].isalpha() and topic.casefold() not in _NO_TEXT


@contextmanager
def locked(path: str | os.PathLike[str], kind: type[ExportTarget] = ExportTarget) -> Iterator[ExportTarget]:
    """The target at this path, made if it is not there, for this process alone.

    Args:
        path: the directory.
        kind: of target.

    Raises:
        UsageError: somebody else exports into it now, or it holds other things than exports.
        StoreAccessError: it cannot be made or written.
    """
    root = Path(path)
    try:
        root.mkdir(parents=True, exist_ok=True)
        strangers = [name for name in os.listdir(root) if name[0] not in "._" and not kind.is_own(name)]
        if strangers:
            raise UsageError(f"{root} holds other things than exports ({strangers[0]!a}); give an empty directory")
        handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise StoreAccessError(f"{root}: {error.strerror}; give a directory that can be written") from error
    target = kind(root)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{root}: another export into it is running; wait for its end") from error
        yield target
        target.sweep()
    finally:
        os.close(handle)


def now() -> int:
    """Unix seconds."""
    return int(time.time())


def write_synced(path: Path, text: str) -> None:
    """Write a file and make it durable (its name is not).

    Raises:
        OSError: the disk is full or fails.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make the names in a directory durable.

    Raises:
        OSError: the disk fails.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

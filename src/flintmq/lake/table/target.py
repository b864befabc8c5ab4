"""Declares what exports publish: the manifest, and the protocol of tables of all formats.

DIR/_staging/...        a running export, or the remains of a failed one
DIR/_flintmq.lock       locked while an export into DIR runs

A target publishes the files of an export, with its manifest, in one step: before it a reader sees nothing of the
export, after it everything. All files are written below `_staging` first, and are durable before that step. A run that
fails removes `_staging`; one that dies leaves it, and the next run removes it. Readers (Spark, Arrow, DuckDB) ignore
names that begin with `_`.
The manifest names the log offset where the export ends: the next one begins there.
"""

from __future__ import annotations

import fcntl
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from flintmq.cluster.member import ONLY
from flintmq.errors import FlintError, StoreAccessError, UsageError
from flintmq.lake.files.failed_file import naming
from flintmq.lake.files.table_folder import TableFolder, manifest_place
from flintmq.lake.files.task_folders import FinalNames, TaskFolders
from flintmq.lake.shape.parquet import PARTITIONS
from flintmq.storage.files import full_disk
from flintmq.storage.files.versioned_json import VersionedJson, only, unreadable
from flintmq.store.commitlog.anchor import LogAnchor

if TYPE_CHECKING:
    import pyarrow as pa

LOCK = "_flintmq.lock"
FORMAT = 2  # 1, of FlintMQ 0.1, did not name the writer, nor a record at the end
NAMES = 2  # version of directory names; 1 (or nothing): UTF-8 bytes as %XX, which Spark reads as other characters
MANIFEST_BYTES_MAX = 64 << 20
# Options that all exports of a directory share, with their meaning where a manifest does not name them.
CHOICES: dict[str, Any] = {
    "topics": None,
    "decompress": False,
    "explode": False,
    "stream": False,
    "properties": None,
    "body": "bytes",
    "body_schema": None,
    "body_head": False,
    "partition_by": list(PARTITIONS),
    "many": False,
    "upsert_key": None,
    "delete_when": None,
}
MOST_LOST = 1000  # directories of exports that a comparison goes on without


@dataclass(frozen=True)
class StoreProgress:
    """Holds the progress of the export of one store.

    Attributes:
        begin, end: log offsets; the last export with messages of the store covers those that start in [begin, end).
        anchor: the last record of the log before `end`, exported or not; of a streaming export the last one that was
            read. None: there was none.
    """

    begin: int
    end: int
    anchor: LogAnchor | None
    offsets: dict[str, int] | None = None  # of a streaming export, the next queue offset of each queue; otherwise None
    at_end: bool = False  # the anchor is what is said here; FlintMQ 0.1 named the last exported record

    @property
    def next(self) -> int:
        """Log offset from which on the next export reads.

        A blank between the last record and `end` may be lost with the power, and messages be put in its place.
        """
        return self.anchor.end if self.at_end and self.anchor is not None else self.end

    @classmethod
    def of(cls, value: dict[str, Any]) -> StoreProgress:
        return cls(**{**only(value, cls.__dataclass_fields__), "anchor": _anchor(value["anchor"])})


def _anchor(value: dict[str, Any] | None) -> LogAnchor | None:
    return None if value is None else LogAnchor(**only(value, LogAnchor.__dataclass_fields__))


@dataclass(frozen=True)
class Manifest:
    """The description of one export.

    Attributes:
        begin, end: log offsets; the export covers the records that start in [begin, end). Of several stores 0.
        members: of several stores, the progress of each broker, also of those that this export has nothing of.
        body_source: schema of Avro's or Protobuf's bodies (see BodyForm.source_kept); None: there is none, or it is not
            kept.
        added: property columns that the first export had not: column -> broker -> log offset up to
            which the table has no value in it. None: there is none, or an earlier FlintMQ wrote the manifest.
        changes: of a table that has the last row of each key, what later changes are compared with, see
            `lake/export/upsert.py`.
    """

    number: int
    begin: int
    end: int
    rows: int
    files: list[str]  # paths relative to the export's directory
    bytes: int
    anchor: LogAnchor | None  # anchor, at_end: as in StoreProgress; of several stores None and False
    choice: dict[str, Any]  # options (CHOICES), the same for all exports of a directory
    lost_bytes: int
    made: int  # Unix seconds
    offsets: dict[str, int] | None = None  # of a streaming export, the next queue offset of each queue; otherwise None
    names: int = 1
    members: dict[str, StoreProgress] | None = None
    body_source: dict[str, str] | None = None
    added: dict[str, dict[str, int]] | None = None
    at_end: bool = False
    changes: dict[str, Any] | None = None

    @property
    def stores(self) -> Mapping[str, StoreProgress]:
        """The progress of each broker of which something was exported, ONLY that of an only store."""
        if self.members is not None:
            return self.members
        return {ONLY: StoreProgress(self.begin, self.end, self.anchor, self.offsets, self.at_end)}

    @property
    def ends(self) -> dict[str, dict[str, int]]:
        """Of streaming exports, the offset of each broker at which the next one begins."""
        return {broker: one.offsets for broker, one in self.stores.items() if one.offsets is not None}

    def with_columns(self, columns: Iterable[str], earlier: Iterable[str]) -> dict[str, dict[str, int]] | None:
        """Return `added` for the next manifest."""
        stores = {broker: one.end for broker, one in self.stores.items()}
        known = frozenset(earlier)
        fresh = {column: stores for column in columns if column not in known}
        return {**(self.added or {}), **fresh} or None

    @classmethod
    def of(cls, value: dict[str, Any]) -> Manifest:
        only(value, cls.__dataclass_fields__)
        only(value["choice"], CHOICES)
        members = value.get("members")
        parts = None if members is None else {name: StoreProgress.of(part) for name, part in members.items()}
        return cls(**{**value, "anchor": _anchor(value["anchor"]), "members": parts})

    def write(self, path: Path) -> None:
        """Write the manifest into a file. Durability: on return."""
        with naming(str(path)):
            manifest_file(path).save(_value(self))


def encoded(manifest: Manifest) -> bytes:
    return manifest_file("").encode(_value(manifest))


def _value(manifest: Manifest) -> dict[str, Any]:
    """Return a manifest for its file: of a table of messages as an earlier FlintMQ reads it too."""
    return {name: value for name, value in asdict(manifest).items() if name != "changes" or value is not None}


def manifest_file(path: str | os.PathLike[str]) -> VersionedJson:
    words = "not a readable manifest ({}); restore it from a backup, or export into a new directory"
    style = {"ensure_ascii": False, "indent": 1}
    return VersionedJson(str(path), ("format", FORMAT), unreadable(path, words), MANIFEST_BYTES_MAX, style, older=(1,))


class StagedFile(NamedTuple):
    """A file that a task wrote and synced."""

    path: str
    place: str  # its final path, relative to the export
    size: int
    rows: int
    partition: Sequence[
        Sequence[str | None]
    ] = ()  # values of its rows, see parquet.Values (JSON turns the pairs into lists)
    stats: Mapping[str, Any] = MappingProxyType({})  # see parquet.statistics

    @property
    def folder(self) -> str:
        return os.path.dirname(self.place)

    @property
    def name(self) -> str:
        """Its final name without suffix: unique in an export, in log order."""
        return os.path.basename(self.place).removesuffix(".parquet")


class Target(ABC):
    """A table of any format that exports are published into; used within `locked`.

    `place`: returns the place of a file of number, partition folder and name, where the format says which files count;
    None: names do.
    """

    changeable: frozenset[str] = frozenset()  # options (CHOICES) that may differ from those of the last export

    def __init__(self, folder: TableFolder) -> None:
        self.folder, self.where = folder, folder.where
        self.place: Callable[[int, str, str], str] | None = None
        self.notes: dict[str, int] = {}  # findings of `last` that the user should know

    @property
    def root(self) -> Path:
        assert not self.folder.remote
        return Path(self.where)

    @staticmethod
    @abstractmethod
    def is_own(name: str) -> bool:
        """Return whether exports make a directory or file of this name."""

    @abstractmethod
    def last(self) -> Manifest | None:
        """Return the manifest of the export that the table's rows come from; None if there is none.

        Raises:
            StoreAccessError, MissingExtraError: the table or the manifest cannot be read, or is damaged.
            UsageError: the table was moved.
        """

    @abstractmethod
    def committed(self) -> tuple[Manifest | None, int]:
        """Return what `last` does, and the number of the export.

        Of a Delta table that is Delta's version, of an Iceberg table the id of the snapshot. No lock is needed, and
        nothing is changed.
        """

    @abstractmethod
    def files_at(self, version: int) -> tuple[str, ...]:
        """Return the paths of the files of a version, those of the newest export last.

        No lock is needed, and nothing is changed.

        Raises:
            As `last`; StoreAccessError also if the version is no longer there.
            UsageError: the files alone do not show the rows: some are deleted by a file beside them.
        """

    @abstractmethod
    def number_after(self, last: Manifest | None) -> int:
        """Return the number of the next export, given the result of `last`."""

    @abstractmethod
    def check(self, last: Manifest | None, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Check that an export may be published here, before it writes any file.

        Raises UsageError: exports did not make this table or directory; or its columns or partitions differ.
        """

    @abstractmethod
    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema) -> None:
        """Publish all files of an export in one step; the manifest's `files` are their places.

        Raises:
            OSError: the disk is full or fails. Until that step no row was published. If the last sync fails, the
                export is there, but a power cut may undo it; then the next run exports the same range again.
            StoreError: another export was faster; or somebody put the table back, or made it again.
            StoreAccessError: object storage or the table rejects the export; or nobody knows yet: the next run finds
                out.
        """

    def hints(self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str]) -> list[StagedFile]:
        """Return files without rows that tell readers types; none where the table declares them."""
        return []

    def strays_at(self, version: int) -> list[str]:
        """Return the files that no export made, and that readers count.

        There are none where the table lists its files.
        """
        return []

    def absent_at(self, version: int) -> tuple[str, ...]:
        """Return the directories of exports that a version has lost.

        Of more than MOST_LOST the first ones, and one more; none where the table lists its files.
        """
        return ()

    def manifest_of(self, number: int, build: Callable[[dict[str, Any]], Manifest] = Manifest.of) -> Manifest:
        """Read the manifest of an export, where it lies beside the table's files."""
        place = manifest_place(number)
        file = manifest_file(self.folder.at(place))
        try:
            data = self.folder.read(place)
        except OSError as error:
            raise file.refused(error) from error
        return file.parse(data, build)

    def stage(self, last: Manifest | None, whole: bool = False) -> TaskFolders:
        """Return where the tasks of the next export make their directories; it is empty.

        `whole`: the files of the tasks are those of the table; nothing combines them.
        """
        number = self.number_after(last)
        self.tasks = self.folder.stage(number)
        if whole and self.folder.remote and self.place is not None:
            self.tasks = replace(self.tasks, final=FinalNames(self.where, number, self.place))
        return self.tasks

    def abandon(self) -> None:
        """Remove what an export that failed has made and not published: a full disk would stay full."""
        self.sweep()

    def sweep(self) -> None:
        self.folder.sweep()


@contextmanager
def locked(target: Target) -> Iterator[Target]:
    """Lock the directory of a table for this process; create it if it does not exist.

    A directory below a URL has no lock: there the number of the export is claimed when it is published.
    A run that ends with an error removes what it has made and not published (`Target.abandon`).
    """
    if target.folder.remote:
        _refuse_strangers(target)
        with _abandoned(target):
            yield target
        target.sweep()
        return
    root, is_new = target.root, not os.path.lexists(target.root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        # Before the lock's file is made: a directory of something else stays as it is.
        _refuse_strangers(target)
        handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise StoreAccessError(f"{root}: {error.strerror}; give a directory that can be written") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{root}: another export into it is running; wait until it ends") from error
        # Within the lock: what is cleaned up is not another run's.
        with _abandoned(target):
            yield target
        target.sweep()
    except BaseException:
        if is_new:  # nothing is left of a run that was refused
            with suppress(OSError):
                _remove_empty(root)
        raise
    finally:
        os.close(handle)


def _remove_empty(root: Path) -> None:
    """Remove the directory of an export, if nothing but its lock is in it."""
    if os.listdir(root) == [LOCK]:
        os.unlink(root / LOCK)
        os.rmdir(root)


@contextmanager
def _abandoned(target: Target) -> Iterator[None]:
    """Abandon the export if the block fails; its error counts more than one of cleaning up.

    It names the table at least, if it says that a disk is full.
    """
    try:
        with full_disk.naming(target.where):
            yield
    except BaseException:
        with suppress(FlintError, OSError):
            target.abandon()
        raise


def _refuse_strangers(target: Target) -> None:
    """Raise UsageError if the directory has files that no export made."""
    strangers = [name for name in target.folder.names() if name[0] not in "._" and not target.is_own(name)]
    if strangers:
        raise UsageError(f"{target.where} holds other things than exports ({strangers[0]!a}); give an empty directory")


def now() -> int:
    """Return the current time in Unix seconds."""
    return int(time.time())

"""Publishes exports into a directory: one rename commits what was staged.

DIR/export=1/_flintmq.json                          what this export holds: the manifest
DIR/export=1/topic_name=T/date=2026-01-31/00000-000001.parquet
DIR/export=2/...                                    a later export: only what was new
DIR/_staging/...                                    a running export, or the remains of a failed one
DIR/_flintmq.lock                                   locked while an export into DIR runs

Below a URL of object storage `lake/table/bucket_target.py` publishes.

All files of an export are written below `_staging` and synced; then one rename of a directory publishes files and
manifest together. Before that rename a reader sees nothing of the export, after it everything. A run that fails
removes `_staging`; one that dies leaves it, and the next run removes it. Readers (Spark, Arrow, DuckDB) ignore names
that begin with `_`.
The manifest names the log offset where the export ends: the next one begins there.

Readers infer the type of `topic_name` from the names of directories. If all topics of an export could be numbers or
dates (`007` and `7` would both be 7), a file without rows in `topic_name=~text` makes readers choose text.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from flintmq.cluster.member import ONLY
from flintmq.config.s3 import S3Options
from flintmq.errors import FlintError, StoreAccessError, UsageError
from flintmq.lake.files.failed_file import naming
from flintmq.lake.files.table_folder import STAGING, BucketFolder, DiskFolder, TableFolder, manifest_place
from flintmq.lake.files.table_format import EXPORT_FOLDER, absent_exports, exports_in
from flintmq.lake.files.task_folders import FinalNames, TaskFolders
from flintmq.lake.shape.parquet import PARTITIONS, folder_of
from flintmq.storage import full_disk
from flintmq.storage.filesystem import REAL
from flintmq.storage.store_url import is_remote
from flintmq.storage.versioned_json import VersionedJson, only, why
from flintmq.storage.whole_file import sync_file, sync_folder
from flintmq.store.commitlog.anchor import LogAnchor

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "_flintmq.json"
LOCK = "_flintmq.lock"
FORMAT = 2  # 1, of FlintMQ 0.1, did not name the writer, nor a record at the end
NAMES = 2  # version of directory names; 1 (or nothing): UTF-8 bytes as %XX, which Spark reads as other characters
_OLD_NAMES = re.compile("topic_name=.*%[89A-F]", re.DOTALL)
_NO_TEXT = frozenset({"nan", "inf", "infinity", "true", "false", "null", "none", "nat", "now", "today", "epoch"})
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
}
_UNREAD = re.compile("(^|/)[._]")  # places that every reader passes over
MOST_LOOKED_AT = 1000  # of the newest exports, for files that no export made
MOST_LOST = 1000  # directories of exports that a comparison goes on without


@dataclass(frozen=True)
class StoreProgress:
    """Holds the progress of the export of one store.

    Attributes:
        begin, end: log offsets; the last export with messages of the store covers those that start in [begin, end).
        anchor: the last record of the log before `end`, exported or not; of a streaming export the last one that was
            read. None: there was none.
        offsets: of a streaming export, the next queue offset of each queue; otherwise None.
        at_end: the anchor is what is said here; FlintMQ 0.1 named the last exported record.
    """

    begin: int
    end: int
    anchor: LogAnchor | None
    offsets: dict[str, int] | None = None
    at_end: bool = False

    @property
    def next(self) -> int:
        """Log offset from which on the next export reads.

        A blank between the last record and `end` may be lost with the power, and messages be put in its place.
        """
        return self.anchor.end if self.at_end and self.anchor is not None else self.end

    @classmethod
    def of(cls, value: dict[str, Any]) -> StoreProgress:
        """Make the progress from a dict that was read from JSON.

        Raises:
            ValueError, TypeError, KeyError: the dict is none.
        """
        return cls(**{**only(value, cls.__dataclass_fields__), "anchor": _anchor(value["anchor"])})


def _anchor(value: dict[str, Any] | None) -> LogAnchor | None:
    return None if value is None else LogAnchor(**only(value, LogAnchor.__dataclass_fields__))


@dataclass(frozen=True)
class Manifest:
    """The description of one export.

    Attributes:
        number: 1, 2, ...; the name of the directory has it too.
        begin, end: log offsets; the export covers the records that start in [begin, end). Of several stores 0.
        rows: number of rows.
        files: paths relative to the export's directory.
        bytes: total size of the files.
        anchor, at_end: as in StoreProgress; of several stores None and False.
        choice: options (CHOICES), the same for all exports of a directory.
        lost_bytes: bytes of the log that were skipped as damaged.
        made: Unix seconds.
        offsets: of a streaming export, the next queue offset of each queue; otherwise None.
        names: version of directory names (NAMES).
        members: of several stores, the progress of each broker, also of those that this export has nothing of.
        body_source: schema of Avro's or Protobuf's bodies (see BodyForm.source_kept); None: there is none, or it is not
            kept.
        added: property columns that the first export had not: column -> broker -> log offset up to
            which the table has no value in it. None: there is none, or an earlier FlintMQ wrote the manifest.
    """

    number: int
    begin: int
    end: int
    rows: int
    files: list[str]
    bytes: int
    anchor: LogAnchor | None
    choice: dict[str, Any]
    lost_bytes: int
    made: int
    offsets: dict[str, int] | None = None
    names: int = 1
    members: dict[str, StoreProgress] | None = None
    body_source: dict[str, str] | None = None
    added: dict[str, dict[str, int]] | None = None
    at_end: bool = False

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
        """Return `added` for the next manifest.

        Args:
            columns, earlier: the property columns of the next export, and those of this one.
        """
        stores = {broker: one.end for broker, one in self.stores.items()}
        known = frozenset(earlier)
        fresh = {column: stores for column in columns if column not in known}
        return {**(self.added or {}), **fresh} or None

    @classmethod
    def of(cls, value: dict[str, Any]) -> Manifest:
        """Make a manifest from a dict that was read from JSON.

        Raises:
            ValueError, TypeError, KeyError: the dict is not a manifest, or one with fields that are unknown here.
        """
        only(value, cls.__dataclass_fields__)
        only(value["choice"], CHOICES)
        members = value.get("members")
        parts = None if members is None else {name: StoreProgress.of(part) for name, part in members.items()}
        return cls(**{**value, "anchor": _anchor(value["anchor"]), "members": parts})

    def write(self, path: Path) -> None:
        """Write the manifest into a file.

        Raises:
            OSError: the disk is full or fails.

        Durability: on return.
        """
        with naming(str(path)):
            _manifest_file(path).save(asdict(self))


def encoded(manifest: Manifest) -> bytes:
    """Return the content of the file of a manifest."""
    return _manifest_file("").encode(asdict(manifest))


def _manifest_file(path: str | os.PathLike[str]) -> VersionedJson:
    def refused(error: Exception) -> StoreAccessError:
        return StoreAccessError(
            f"{path}: not a readable manifest ({why(error)}); restore it from a backup, or export into a new directory"
        )

    style = {"ensure_ascii": False, "indent": 1}
    return VersionedJson(str(path), ("format", FORMAT), refused, MANIFEST_BYTES_MAX, style, older=(1,))


class StagedFile(NamedTuple):
    """A file that a task wrote and synced.

    Attributes:
        path: path of the file.
        place: its final path, relative to the export.
        size: bytes.
        rows: number of rows.
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
    """A directory that exports are published into. Created and used within `locked`.

    Args:
        root: the directory; or what reads and writes it.

    Attributes:
        folder: reads and writes the directory.
        where: path or URL of the directory.
        changeable: options (CHOICES) that may differ from those of the last export.
        place: returns the place of a file of number, partition folder and name, where the format says which files
            count; None: names do.
        notes: findings of `last` that the user should know.
        lists_files: whether the format has a list of its files, and so no directory decides what counts.
    """

    changeable: frozenset[str] = frozenset()
    lists_files = False

    def __init__(self, root: Path | TableFolder) -> None:
        self.folder = root if isinstance(root, TableFolder) else DiskFolder(root)
        self.where = self.folder.where
        self.place: Callable[[int, str, str], str] | None = None
        self.notes: dict[str, int] = {}

    @property
    def root(self) -> Path:
        """The directory, which is one of this machine."""
        assert not self.folder.remote
        return Path(self.where)

    @property
    def staging(self) -> Path:
        """The staging directory, which is one of this machine."""
        return self.root / STAGING

    def number_after(self, last: Manifest | None) -> int:
        """Return the number of the next export."""
        return 1 if last is None else last.number + 1

    def check(self, last: Manifest | None, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Check that an export may be published here, before it writes any file.

        Args:
            last: result of `last`.
            schema: schema of the files.
            partition_by: partition columns.

        Raises:
            UsageError: the directory has content that such exports did not write.
            StoreAccessError: the directory cannot be read.
        """
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

        Raises:
            OSError: the disk is full or fails.
        """
        if not files:
            path, size = self._write_hint(schema)
            folders = {"topic_name": "topic_name=~text", "date": "date=1970-01-01"}
            return [StagedFile(path, os.path.join(*map(folders.__getitem__, partition_by), "text.parquet"), size, 0)]
        topics = {topic for file in files for name, topic in file.partition if name == "topic_name" and topic}
        if not topics or any(map(is_text, topics)):
            return []
        dates = [pair for file in files for pair in file.partition if pair[0] == "date"]
        known = next((pair for pair in dates if pair[1] is not None), None)
        folder = os.path.join("topic_name=~text", folder_of([known or dates[0]]) if dates else "")
        path, size = self._write_hint(schema)
        return [StagedFile(path, os.path.join(folder, "text.parquet"), size, 0)]

    def _write_hint(self, schema: pa.Schema) -> tuple[str, int]:
        """Write a file without rows among the staged ones; return it and its bytes."""
        import pyarrow.parquet as pq

        with self.tasks.attempt("hint") as attempt:
            path = os.path.join(attempt.folder, "text.parquet")
            pq.write_table(schema.empty_table(), path)
            sync_file(path, REAL)
            return attempt.keep(path), os.path.getsize(path)

    def last(self) -> Manifest | None:
        """Return the manifest of the newest export; None if there is no export yet.

        Raises:
            StoreAccessError: the manifest cannot be read, or is damaged.
        """
        numbers = exports_in(os.listdir(self.root))
        if not numbers:
            return None
        return self._manifest_in(numbers[-1])

    def committed(self) -> tuple[Manifest | None, int]:
        """Return the manifest of the newest export, and the version of the table that it made.

        No lock is needed, and nothing is changed.

        Returns:
            The manifest, None if there is no export; and the number of the export. Of a Delta table Delta's version, of
            an Iceberg table the id of the snapshot.

        Raises:
            StoreAccessError: the manifest cannot be read, or is damaged.
        """
        last = ExportTarget.last(self)
        return last, 0 if last is None else last.number

    def files_at(self, version: int) -> tuple[str, ...]:
        """Return the paths of the files of a version, those of the newest export last.

        No lock is needed, and nothing is changed.

        Raises:
            StoreAccessError: a manifest cannot be read, or is damaged; the version is no longer there.
        """
        return tuple(
            self.folder.at(f"export={made.number}/{place}") for made in self.made_at(version) for place in made.files
        )

    def made_at(self, version: int, after: int = 0) -> Iterator[Manifest]:
        """Yield the manifests of the exports of a version, rising.

        Args:
            version: the version.
            after: only of exports with a greater number.

        Raises:
            StoreAccessError: one cannot be read, or is damaged.
        """
        return (self._manifest_in(number) for number in self._numbers_at(version) if number > after)

    def strays_at(self, version: int, after: int = 0) -> list[str]:
        """Return the files that no export made, and that readers count.

        Raises:
            As `made_at`.
        """
        found: list[str] = []
        for made in () if self.lists_files else self.made_at(version, after):
            folder = f"export={made.number}"
            own = frozenset(made.files)
            there = (place for place in self.folder.files(folder) if not _UNREAD.search(place))
            found += [self.folder.at(f"{folder}/{place}") for place in sorted(there) if place not in own]
        return found

    def absent_at(self, version: int) -> tuple[str, ...]:
        """Return the directories of exports that a version has lost.

        Of more than MOST_LOST the first ones, and one more. Only of a table without a list of its files; Delta and
        Iceberg have one.
        """
        there = () if self.lists_files else self._numbers_at(version)
        numbers = islice(absent_exports(there), MOST_LOST + 1)
        return tuple(self.folder.at(f"export={number}") for number in numbers)

    def columns_at(self, version: int) -> frozenset[str] | None:
        """Return the columns that the table declares for a version; None: its files do.

        Raises:
            StoreAccessError: the table cannot be read, or the version is no longer there.
        """
        return None

    def first_at(self, version: int) -> Manifest:
        """Return the manifest of the first export of a version: all later ones have its columns.

        Raises:
            StoreAccessError: it cannot be read, or is damaged.
        """
        return self._manifest_in(self._numbers_at(version)[0])

    def _numbers_at(self, version: int) -> list[int]:
        """Return the numbers of the exports of a version that are there, rising."""
        return [number for number in exports_in(os.listdir(self.root)) if number <= version]

    def _manifest_in(self, number: int) -> Manifest:
        """Read the manifest in the directory of an export.

        Raises:
            StoreAccessError: the manifest cannot be read, is damaged, or is that of another export.
        """
        folder = self.root / f"export={number}"
        manifest = self.read_manifest(folder / MANIFEST)
        if manifest.number != number:
            raise StoreAccessError(
                f"{folder}: by its manifest a copy of export={manifest.number}; rows would count twice: remove it, "
                "or give it the name of the export that it is"
            )
        return manifest

    @staticmethod
    def is_own(name: str) -> bool:
        """Return whether this can be the name of an export's directory."""
        return EXPORT_FOLDER.fullmatch(name) is not None

    @staticmethod
    def read_manifest(path: str | os.PathLike[str]) -> Manifest:
        """Read the manifest in a file.

        Raises:
            StoreAccessError: the manifest cannot be read, or is damaged.
        """
        file = _manifest_file(path)
        manifest = file.load(Manifest.of)
        if manifest is None:
            raise file.refused(FileNotFoundError())
        return manifest

    def manifest_of(self, number: int, build: Callable[[dict[str, Any]], Manifest] = Manifest.of) -> Manifest:
        """Read the manifest of an export, where it lies beside the table's files.

        Args:
            number: of the export.
            build: makes the manifest from the JSON object.

        Raises:
            StoreAccessError: the manifest cannot be read, or is damaged.
        """
        place = manifest_place(number)
        file = _manifest_file(self.folder.at(place))
        try:
            data = self.folder.read(place)
        except OSError as error:
            raise file.refused(error) from error
        return file.parse(data, build)

    def stage(self, last: Manifest | None, whole: bool = False) -> TaskFolders:
        """Return where the tasks of the next export make their directories; it is empty.

        Args:
            last: result of `last`, or of the publication since.
            whole: the files of the tasks are those of the table; nothing combines them.
        """
        number = self.number_after(last)
        self.tasks = self.folder.stage(number)
        if whole and self.folder.remote and self.place is not None:
            self.tasks = replace(self.tasks, final=FinalNames(self.where, number, self.place))
        return self.tasks

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema) -> None:
        """Publish all files of an export in one step.

        Args:
            manifest: manifest of the export; its `files` are the places of `files`.
            files: files that the tasks wrote.
            schema: schema of the files, the same in every export of a directory.

        Raises:
            OSError: the disk is full or fails. Until the rename nothing was published. If the last sync fails, the
                export is there, but a power cut may undo it; then the next run exports the same range again.
        """
        assert manifest.files == [file.place for file in files]  # readers of the manifest find them all
        tree = self.staging / "tree"
        folders = {tree}
        tree.mkdir()
        for written, place, *_ in files:
            (tree / place).parent.mkdir(parents=True, exist_ok=True)
            os.rename(written, tree / place)
            folders.update(folder for folder in (tree / place).parents if folder.is_relative_to(tree))
        # All is durable before the rename makes it visible: after a power cut an export must not lack files.
        manifest.write(tree / MANIFEST)
        for folder in folders:
            sync_folder(folder)
        os.rename(tree, self.root / f"export={manifest.number}")
        # Until this fsync a power cut may undo the rename; the next run then exports the same range again.
        sync_folder(self.root)

    @contextmanager
    def _taken_back(self, number: int) -> Iterator[list[str]]:
        """Yield a list for places of files, which are removed from a disk if the block fails.

        Not those of an export that the table has, or may have: its commit may have succeeded before the error.

        Args:
            number: of the export.
        """
        places: list[str] = []
        try:
            yield places
        except BaseException:
            if places and not self.folder.remote:
                with suppress(FlintError, OSError):
                    if self._newest_number() < number:
                        for place in places:
                            (self.root / place).unlink(missing_ok=True)
            raise

    def _newest_number(self) -> int:
        """Return the number of the newest export that the table ever had, as it is now; 0 for none."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Remove what an export that failed has made and not published: a full disk would stay full.

        Raises:
            OSError, StoreAccessError: the disk or object storage fails.
        """
        self.sweep()

    def sweep(self) -> None:
        """Remove the staging directory."""
        self.folder.sweep()


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


@contextmanager
def locked(
    path: str | os.PathLike[str],
    make: Callable[[Any], ExportTarget] = ExportTarget,
    s3: S3Options = S3Options(),  # noqa: B008  (it is frozen)
) -> Iterator[ExportTarget]:
    """Lock the export directory at this path for this process; create it if it does not exist.

    A directory below a URL has no lock: there the number of the export is claimed when it is published.

    Args:
        path: the directory, or a URL.
        make: makes the target of a directory.
        s3: how to reach a URL.

    A run that ends with an error removes what it has made and not published (`ExportTarget.abandon`).

    Raises:
        UsageError: another export into the directory is running, or it contains other files.
        StoreAccessError: the directory cannot be created or written.
    """
    if is_remote(path):
        target = make(BucketFolder(os.fspath(path), s3))
        _refuse_strangers(target)
        with _abandoned(target):
            yield target
        target.sweep()
        return
    root = Path(path)
    target, is_new = make(root), not os.path.lexists(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        _refuse_strangers(target)
        handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise StoreAccessError(f"{root}: {error.strerror}; give a directory that can be written") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{root}: another export into it is running; wait until it ends") from error
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
def _abandoned(target: ExportTarget) -> Iterator[None]:
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


def _refuse_strangers(target: ExportTarget) -> None:
    """Raise UsageError if the directory has files that no export made."""
    strangers = [name for name in target.folder.names() if name[0] not in "._" and not target.is_own(name)]
    if strangers:
        raise UsageError(f"{target.where} holds other things than exports ({strangers[0]!a}); give an empty directory")


def now() -> int:
    """Return the current time in Unix seconds."""
    return int(time.time())

"""Reads rows of a table that exports made: of one version, whatever is exported meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flintmq.arrow.schema import FIRST_COLUMNS, SPARK_SCHEMA, member_columns
from flintmq.cluster.member import ONLY, broker_words
from flintmq.config.s3 import S3Options
from flintmq.errors import FlintError, StoreAccessError, UsageError
from flintmq.format.text import ms_of
from flintmq.lake.bodies.column import RAW
from flintmq.lake.files.table_folder import folder_at
from flintmq.lake.files.table_format import format_in
from flintmq.lake.table.formats import target_at
from flintmq.lake.table.iceberg_catalog import TableName, in_one_line
from flintmq.lake.table.parquet_target import ParquetTarget
from flintmq.lake.table.row_files import fitted, footer_of, is_missing, rows_in, state_of, told
from flintmq.lake.table.row_mask import COLUMNS, columns_of, mask_of
from flintmq.lake.table.target import MOST_LOST, Manifest, Target
from flintmq.lake.table.transactional_target import TransactionalTarget
from flintmq.objects.object_file import readable
from flintmq.storage.files.store_url import absolute
from flintmq.store.commitlog.predicate import Predicate

EVERYTHING = Predicate()
NEEDED = pa.schema([SPARK_SCHEMA.field(name) for name in COLUMNS])
BATCH_ROWS = 16 << 10

_WITH_COLUMN = {
    "parquet": "put the file back from a copy",
    "delta": "RESTORE a version with it",
    "iceberg": "rename it back",
}


class FileSize(NamedTuple):
    rows: int
    bytes: int


@dataclass(frozen=True)
class TableVersion:
    """Names one version of a table, for tasks.

    Attributes:
        lost: paths of files, or of directories of exports, that are read as if the version did not have them.
        columns: those that each file of a Parquet table has; a file without one was changed by somebody else.
    """

    root: str
    to: str  # "parquet", "delta" or "iceberg"
    version: int  # number of the newest export; of a Delta table Delta's version, of an Iceberg table a snapshot's id
    name: TableName
    s3: S3Options = field(default_factory=S3Options)
    lost: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()

    def rows(self, schema: pa.Schema, begin: int, end: int | None, broker: str = ONLY) -> pa.Table:
        """Read the rows of messages in a range of a log, in the order of the log.

        `begin`, `end`: log offsets [begin, end); None: no end.
        """
        order: Any = [("physical_offset", "ascending"), ("queue_offset", "ascending")]
        parts = list(self._parts(schema, begin, end, broker))
        return (pa.concat_tables(parts) if parts else schema.empty_table()).sort_by(order)

    def _parts(self, schema: pa.Schema, begin: int | None, end: int | None, broker: str) -> Iterator[pa.Table]:
        if self.to == "iceberg":
            yield fitted(_snapshot(self).rows(schema.names, begin, end, broker), schema)
            return
        for path in self.files:
            with told(path, self.missing):
                part = rows_in(path, self.s3, schema, begin, end, broker)
            if part is not None:
                yield part

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The paths of its data files, those of the newest export last."""
        target = self.target()
        for absent in target.absent_at(self.version):
            if absent not in self.lost:
                raise is_missing(absent, "directory", self.root)
        return tuple(path for path in target.files_at(self.version) if path not in self.lost)

    def without_lost(self) -> TableVersion:
        """Return the version without the files and exports that are not there; they are its `lost`."""
        version = replace(self, lost=frozenset(self.target().absent_at(self.version)[:MOST_LOST]))
        there = _snapshot(self).holds if self.to == "iceberg" else self._holds
        return replace(self, lost=version.lost | {path for path in version.files if not there(path)})

    def _holds(self, path: str) -> bool:
        try:
            state_of(path, self.s3)
        except FileNotFoundError:
            return False
        return True

    def missing(self, path: str) -> StoreAccessError:
        target = self.target()
        if path in target.absent_at(self.version):
            return is_missing(path, "directory", self.root)
        try:
            is_lost = path in target.files_at(target.committed()[1])
        except FlintError:
            is_lost = False
        if not is_lost:
            return StoreAccessError("deleted while the table was read", place=path, advice="read it again")
        return is_missing(path, "file", self.root, self.to)

    def batches(
        self, files: Sequence[str], schema: pa.Schema, predicate: Predicate = EVERYTHING
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some of its files that a predicate wants, file by file.

        `predicate`: selects rows; parts of files whose statistics show that they have none are not read.
        """
        names = list(dict.fromkeys((*schema.names, *columns_of(predicate))))
        for file in files:
            if self.to == "iceberg":
                batches = _snapshot(self).batches(file, names)
            else:
                batches = _batches(self, file, names, predicate)
            for batch in batches:
                rows = pa.Table.from_batches([batch])
                if not predicate.everything:
                    rows = rows.filter(mask_of(predicate, fitted(rows, NEEDED)))
                yield from fitted(rows, schema).to_batches()

    def size(self, file: str) -> FileSize:
        if self.to == "iceberg":
            return _snapshot(self).size(file)
        with told(file, self.missing):
            return FileSize(footer_of(file, self.s3).num_rows, state_of(file, self.s3)[1])

    def count_before(self, offset: int, broker: str = ONLY) -> int:
        schema = pa.schema([("physical_offset", pa.int64())])
        return sum(part.num_rows for part in self._parts(schema, None, offset, broker))

    def count(self) -> int:
        """Count all rows, also those that name no message."""
        if self.to == "iceberg":
            return int(_snapshot(self).rows(["physical_offset"], None, None, ONLY).num_rows)
        return sum(footer_of(path, self.s3).num_rows for path in self.files)

    def target(self) -> Target:
        return target_at(folder_at(self.root, self.s3), self.to, self.name)


def open_table(
    path: str,
    catalog: str | None = None,
    s3: S3Options = S3Options(),  # noqa: B008  (it is frozen)
    whole: bool = True,
) -> tuple[Manifest, TableVersion]:
    """Return the manifest of the newest export in a table, and the version that it is.

    Args:
        catalog: of an Iceberg table, NAME:NAMESPACE.TABLE; None: its own.
        whole: whether a version that lost the directory of an export is an error here, or where its files are used; and
            whether one without a column that its exports wrote is an error, or has nulls there.
    """
    root, name = absolute(path), TableName.parse(catalog)
    folder = folder_at(root, s3)
    to = format_in(folder.names()) if catalog is None else "iceberg"
    if to is None:
        raise UsageError(f"{path} holds no table that an export made; give the --out of one")
    target = target_at(folder, to, name)
    manifest, version = target.committed()
    if manifest is None:
        raise UsageError(f"{path} holds no table that an export made, or nothing was exported yet")
    if manifest.changes is not None:
        raise UsageError(
            f"{path} is a table of changes (--upsert-key), whose rows are no messages; read it as any {to} table"
        )
    found = TableVersion(root, to, version, name, folder.s3)
    if not whole:
        return manifest, found
    if isinstance(target, ParquetTarget):
        found.files  # noqa: B018  (a version that cannot be read is an error here)
        if not folder.remote:  # there the sizes would be further requests
            _refuse_changed(found, target)
        return manifest, _holding(found, written_columns(target.first()))
    assert isinstance(target, TransactionalTarget)
    there = target.columns_at(version)
    if lacking := [name for name in written_columns(manifest) if name not in there]:
        raise _lacks(f"{root}: the table", lacking, to)
    found.files  # noqa: B018  (as above)
    return manifest, found


def _refuse_changed(version: TableVersion, target: ParquetTarget) -> None:
    """Refuse a table if an export's files have not the rows that it wrote.

    Only files whose sizes are not those of the export are opened.
    """
    for made in target.made_at(version.version):
        folder = target.folder.at(f"export={made.number}")
        paths = [f"{folder}/{place}" for place in made.files]
        with suppress(FileNotFoundError, pa.ArrowException):  # whoever reads such a file names it
            if sum(map(os.path.getsize, paths)) == made.bytes:
                continue
            rows = sum(footer_of(path, version.s3).num_rows for path in paths)
            if rows != made.rows:
                raise StoreAccessError(
                    f"{folder}: its files have {rows} rows, and its export wrote {made.rows}: a file was replaced or "
                    "changed; put the files back from a copy, or export anew into another directory"
                )


def _holding(version: TableVersion, columns: Sequence[str]) -> TableVersion:
    """Return the version with the columns of each file; the list of files is not read again."""
    found = replace(version, columns=frozenset(columns))
    found.__dict__["files"] = version.files
    return found


def written_columns(manifest: Manifest) -> list[str]:
    """Return the columns that an export wrote.

    Without those that a later FlintMQ adds to the schema: earlier exports lack them, and readers see nulls there.
    """
    choice = manifest.choice
    properties = choice.get("properties")
    own = FIRST_COLUMNS if properties is None else [name for name in FIRST_COLUMNS if name != "properties"]
    return [
        *own,
        *(column for _, column in properties or ()),
        *([] if choice.get("body", "bytes") == "bytes" else [RAW]),
        *member_columns(choice.get("many", False)),
    ]


def _lacks(what: str, columns: Sequence[str], to: str) -> UsageError:
    """Return the error about a table, or a file of one, that lost columns."""
    plural = "s" if columns[1:] else ""
    return UsageError(
        f"{what} lacks the column{plural} {', '.join(columns[:3])}, which its exports wrote: somebody renamed or "
        f"dropped {'them' if plural else 'it'}; {_WITH_COLUMN[to]}, or export anew into another directory"
    )


def open_delta(path: str, s3: S3Options) -> TableVersion:
    """Return the newest version of a Delta table, whoever made it: Delta's log names its files."""
    from flintmq.lake.table.delta import DeltaTarget

    root = absolute(path)
    folder = folder_at(root, s3)
    version = DeltaTarget(folder).newest()
    if version is None:
        raise UsageError(f"{path} holds no Delta table")
    return TableVersion(root, "delta", version, TableName.parse(None), folder.s3)


def _batches(table: TableVersion, path: str, names: Sequence[str], predicate: Predicate) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the row groups of a file that may have wanted rows."""
    with told(path, table.missing), readable(path, table.s3) as source, pq.ParquetFile(source) as file:
        footer = file.metadata
        places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
        groups = [
            number for number in range(footer.num_row_groups) if _wanted(footer.row_group(number), places, predicate)
        ]
        there = set(file.schema_arrow.names)
        if not table.columns <= there:
            raise _lacks(f"{path}: this file of the table", sorted(table.columns - there), table.to)
        known = [name for name in names if name in there]
        # A column is read to count rows, where the file has none of those wanted.
        yield from file.iter_batches(BATCH_ROWS, groups, known or ["queue_id"], use_threads=False)


def _wanted(group: Any, places: Mapping[str, int], predicate: Predicate) -> bool:
    """Return whether a row group may have rows that a predicate wants, by its statistics."""
    named = predicate.named_topics
    topics, times = (_range_of(group, places.get(name)) for name in ("topic", "store_timestamp"))
    if named is not None and topics is not None and not any(topics[0] <= topic <= topics[1] for topic in named):
        return False
    if times is None or (predicate.since is None and predicate.until is None):
        return True
    least, most = (ms_of(time.replace(tzinfo=UTC)) for time in times)
    return (predicate.since is None or most >= predicate.since) and (predicate.until is None or least < predicate.until)


def _range_of(group: Any, place: int | None) -> tuple[Any, Any] | None:
    statistics = None if place is None else group.column(place).statistics
    return None if statistics is None or not statistics.has_min_max else (statistics.min, statistics.max)


class _Snapshot:
    def __init__(self, table: TableVersion) -> None:
        self._version = table
        self._table = table.name.open(folder_at(table.root, table.s3)).load_table(table.name.identifier)
        self._id = table.version
        self._known = {field.name for field in self._table.schema().fields}

    def _scan(self, names: Sequence[str], filter: Any = None) -> Any:
        fields = tuple(name for name in names if name in self._known) or ("queue_id",)
        more = {} if filter is None else {"row_filter": filter}
        return self._table.scan(selected_fields=fields, snapshot_id=self._id, **more)

    def rows(self, names: Sequence[str], begin: int | None, end: int | None, broker: str) -> pa.Table:
        from pyiceberg import expressions

        if lacking := [name for name in ("physical_offset", *broker_words(broker)) if name not in self._known]:
            raise _lacks(f"{self._version.root}: the table", lacking, "iceberg")

        made: Any = expressions
        wanted = made.AlwaysTrue()
        for part in (
            None if begin is None else made.GreaterThanOrEqual("physical_offset", begin),
            None if end is None else made.LessThan("physical_offset", end),
            *(made.EqualTo(column, value) for column, value in broker_words(broker).items()),
        ):
            wanted = wanted if part is None else made.And(wanted, part)
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._scan(names, wanted)
        tasks = [task for task in scan.plan_files() if task.file.file_path not in self._version.lost]
        with in_one_line(self._version.root, "cannot be read"):
            # As `to_arrow` of the scan, of these files.
            return ArrowScan(self._table.metadata, self._table.io, scan.projection(), scan.row_filter).to_table(tasks)

    def holds(self, path: str) -> bool:
        with in_one_line(path, "cannot be read"):
            return bool(self._table.io.new_input(path).exists())

    @cached_property
    def _tasks(self) -> dict[str, Any]:
        return {task.file.file_path: task for task in self._scan(()).plan_files()}

    def size(self, path: str) -> FileSize:
        file = self._tasks[path].file
        return FileSize(file.record_count, file.file_size_in_bytes)

    def batches(self, path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        columns = self._scan(names).projection()
        with in_one_line(path, "cannot be read"):
            scan = ArrowScan(self._table.metadata, self._table.io, columns, AlwaysTrue())
            try:
                yield from scan.to_record_batches([self._tasks[path]])
            except FileNotFoundError as error:
                raise self._version.missing(path) from error


@lru_cache(maxsize=4)
def _snapshot(table: TableVersion) -> _Snapshot:
    return _Snapshot(table)


def keys(table: pa.Table) -> list[tuple[Any, Any]]:
    """Return log offset and queue offset of each row."""
    return list(zip(table["physical_offset"].to_pylist(), table["queue_offset"].to_pylist(), strict=True))


def milliseconds(column: Any) -> Any:
    return pc.divide(column.cast(pa.int64()), pa.scalar(1000, pa.int64()))

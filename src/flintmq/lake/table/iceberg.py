"""Publishes exports into an Iceberg table, one snapshot each, through PyIceberg.

    DIR/data/000001/00000-000001.parquet    data files of export 1
    DIR/metadata/...                        Iceberg's own files: which data files count
    DIR/catalog.db                          the catalog: which metadata file is the present one; or another catalog
    DIR/_flintmq/000001.json                the manifest of export 1
    DIR/_staging/, DIR/_flintmq.lock        as in a directory of Parquet exports

One commit of the catalog adds the files of an export as a snapshot that has the number of the export, and sets the same
number as a property of the table (`transactional_target.py`). A file that the table has already is refused.

A table that was rolled back keeps the properties, but not the rows. So the number is looked for in the snapshots that
the present rows come from; the next export begins where that one ended, with a new number. Where these snapshots have
expired, the id of the newest export's snapshot, another property, decides. The package pyiceberg is the extra
`iceberg`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.lake.files.table_folder import TableFolder
from flintmq.lake.shape.parquet import SEARCHED
from flintmq.lake.table.iceberg_catalog import CATALOG, TableName, in_one_line
from flintmq.lake.table.target import Manifest
from flintmq.lake.table.transactional_target import ATTEMPTS, Actions, Requirements, TransactionalTarget
from flintmq.storage.files.store_url import store_path
from flintmq.storage.files.whole_file import sync_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

EXPORT = "flintmq-export"  # of a snapshot's summary: number of its export
NEWEST = "flintmq.export"  # of the table: number of the newest export
SNAPSHOT = "flintmq.snapshot"  # of the table: id of that export's snapshot
SETTINGS = {
    "format-version": "2",
    # A stream commits every few seconds: neither its manifests nor its metadata files may add up.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    # Files have statistics of these columns alone (`lake/shape/parquet.py`).
    "write.metadata.metrics.default": "none",
    **{f"write.metadata.metrics.column.{name}": "truncate(16)" for name in SEARCHED},
}
PARTITION_SOURCES = {"topic_name": "topic", "date": "store_timestamp"}


class IcebergTarget(TransactionalTarget["Table"]):
    """An Iceberg table that exports are published into; see TransactionalTarget."""

    changeable = frozenset({"partition_by"})
    kind, put_back, claims_first = "an Iceberg table", "rolled back", True

    def __init__(self, folder: TableFolder, name: TableName = TableName()) -> None:  # noqa: B008  (it is frozen)
        super().__init__(folder)
        if self.folder.remote and name.catalog is None:
            raise UsageError(
                f"{self.where}: the catalog of an Iceberg table on object storage lies elsewhere; give --catalog "
                "NAME:NAMESPACE.TABLE, with NAME from PyIceberg's configuration"
            )
        self.name, self.place = name, place_of
        self._catalog: Catalog | None = None

    @staticmethod
    def is_own(name: str) -> bool:
        """Return whether this can be the name of a directory or file of such a table."""
        return name in ("data", "metadata") or name.startswith(CATALOG)

    def last(self) -> Manifest | None:
        if self.name.catalog is not None and self.folder.holds(CATALOG):
            raise UsageError(f"{self.where} has a catalog of its own, {CATALOG}; leave --catalog out")
        return super().last()

    def _refuse_remains(self) -> None:
        if self.name.catalog is None and self.folder.holds("data"):
            raise self._no_table("data")

    def files_at(self, version: int) -> tuple[str, ...]:
        """Return the paths of the files of a snapshot, those of the newest export last."""
        with self._read() as table:
            if table is None or table.snapshot_by_id(version) is None:
                raise StoreAccessError(
                    f"{self.where}: the table has no snapshot {version} any more; begin the read anew"
                )
            with in_one_line(self.where, "cannot be read"):
                return tuple(sorted(task.file.file_path for task in table.scan(snapshot_id=version).plan_files()))

    def check(self, last: Manifest | None, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Check that the table has the columns of the files, or may get them."""
        table = self._table()
        if table is None:
            # A first run that died leaves a catalog and metadata, no data.
            own = self.name.catalog is not None or self.folder.holds(CATALOG)
            there = [] if self.folder.remote else self.folder.names()  # a run that died leaves its data in a bucket
            others = [name for name in there if name == "data" or (name == "metadata" and not own)]
            if others:
                raise self._no_table(min(others))
            return
        newest = self._seen.newest
        if not newest and table.current_snapshot() is not None:
            raise UsageError(f"{self.where} holds an Iceberg table that no export made; give an empty directory")
        self._missing(table, schema, partition_by)
        # A roll-back leaves the partitions as they are.
        partitions = list(_partitions(table.metadata))
        if newest and partitions != _transforms(self.manifest_of(newest).choice["partition_by"]):
            raise UsageError(
                f"{self.where} is an Iceberg table whose partitions somebody changed to "
                f"{', '.join(map(' of '.join, partitions)) or 'none'}; export into a new directory"
            )

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        from pyiceberg.exceptions import CommitFailedException

        with in_one_line(self.where, "the Iceberg table rejected the export"):
            try:
                yield
            except CommitFailedException as error:
                raise StoreError(
                    f"{self.where} was changed by others {ATTEMPTS} times during the commit; run the export again"
                ) from error

    def _conflict(self) -> type[Exception]:
        from pyiceberg.exceptions import CommitFailedException

        return CommitFailedException

    def _add(self, table: Table, actions: Actions) -> None:
        # In memory only. PyIceberg would try again by itself, after a commit of anyone, and add the rows a second time.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        number, transaction = str(actions.manifest.number), table.transaction()
        if self._missing(table, actions.schema, actions.partition_by):
            with transaction.update_schema() as columns:
                columns.union_by_name(actions.schema)
        _repartition(transaction, _transforms(actions.partition_by))
        old, places = actions.old or frozenset(), [self.folder.at(place) for place in actions.places]
        files = {task.file.file_path: task.file for task in table.scan().plan_files()} if old else {}
        self._still_there(files, old)
        add_files(transaction, places, {EXPORT: number}, [files[path] for path in old])
        snapshot = transaction.table_metadata.current_snapshot_id
        transaction.set_properties({NEWEST: number, SNAPSHOT: str(snapshot)})
        transaction.commit_transaction()

    def data(self) -> Mapping[str, Callable[[list[str]], pa.Table]]:
        table = self._table()
        if table is None:
            return {}
        return {task.file.file_path: partial(self._columns, table, task) for task in table.scan().plan_files()}

    def columns(self) -> pa.Schema | None:
        import pyarrow as pa

        table = self._table()
        return None if table is None else pa.schema(self._fields(table))

    def given_again(self, names: Collection[str]) -> list[str]:
        """Return those of the table's and these names that another column had before.

        The files of exports name their columns and do not number them, so readers take its values for the new one's.
        """
        table = self._table()
        if table is None:
            return []
        now = {field.name: field.field_id for field in table.schema().fields}
        before = {(one.name, one.field_id) for schema in table.schemas().values() for one in schema.fields}
        return sorted({name for name, number in before if name in {*now, *names} and now.get(name) != number})

    def _columns(self, table: Table, task: Any, names: list[str]) -> pa.Table:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        there = {field.name for field in table.schema().fields}
        columns = table.scan(selected_fields=tuple(name for name in names if name in there)).projection()
        with in_one_line(task.file.file_path, "cannot be read"):
            return ArrowScan(table.metadata, table.io, columns, AlwaysTrue()).to_table([task])

    def sweep(self) -> None:
        """Remove the staging directory, and close the catalog."""
        super().sweep()
        self._close()

    def _open(self) -> Catalog:
        """Open the catalog anew; if its directory was made again, an open file is of the old one."""
        self._close()
        self._catalog = self.name.open(self.folder)
        return self._catalog

    def _close(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()

    def _create(self, actions: Actions) -> tuple[Table, Requirements]:
        catalog = self._open()
        catalog.create_namespace_if_not_exists(self.name.identifier[:-1])
        table = catalog.create_table(self.name.identifier, actions.schema, self.where, properties=SETTINGS)
        if not self.folder.remote:
            sync_folder(self.root)
        return table, Requirements(table_id=str(table.metadata.table_uuid))

    def _table(self, version: int | None = None) -> Table | None:
        """Load the table as it is now: a change of columns makes no snapshot."""
        if self.name.catalog is None and not self.folder.holds(CATALOG):
            return None
        with in_one_line(self.where, "the Iceberg table cannot be read"):
            catalog = self._open()
            if not catalog.table_exists(self.name.identifier):
                return None
            table = catalog.load_table(self.name.identifier)
        there = table.location()
        if not self._is_here(there):
            raise UsageError(
                f"{self.where} is not the directory of this Iceberg table: its files are in {there}; give that one, or "
                "move it back if it was moved, or export into a new directory"
            )
        return table

    def _no_table(self, there: str) -> UsageError:
        """Return the error about files of a table that no catalog names."""
        why = "but no Iceberg table"
        if self.name.catalog is None:
            why += (
                f": {CATALOG}, which names its present state, is gone or empty; put that file back from a copy, give "
                "--catalog if another catalog names it, or"
            )
        else:
            why += ";"
        return UsageError(f"{self.where} holds {there!a} {why} give an empty directory")

    def _is_here(self, location: str) -> bool:
        """Return whether the location of a table in its catalog is this directory."""
        if self.folder.remote:
            return bool(store_path(location) == self.where)
        return os.path.realpath(location.removeprefix("file://")) == os.path.realpath(self.root)

    def _state(self, table: Table) -> Requirements:
        return Requirements(*self._numbers(table), str(table.metadata.table_uuid))

    def _version(self, table: Table) -> int:
        snapshot = table.metadata.current_snapshot_id
        assert snapshot is not None  # an export made it
        return snapshot

    def _fields(self, table: Table) -> Sequence[Any]:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return list(schema_to_pyarrow(table.schema(), include_field_ids=False))

    def _wanted(self, schema: pa.Schema, partition_by: Sequence[str]) -> Sequence[Any]:
        from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow

        return list(schema_to_pyarrow(_pyarrow_to_schema_without_ids(schema), include_field_ids=False))

    def _numbers(self, table: Table) -> tuple[int, int]:
        """Return the newest export that the table had and the one its rows come from; 0 for none."""
        newest = int(table.properties.get(NEWEST, "0"))
        mark = table.properties.get(SNAPSHOT)
        by_id = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
        here = table.metadata.current_snapshot_id
        while here in by_id:
            if str(here) == mark:
                return newest, newest
            summary = by_id[here].summary
            number = None if summary is None else summary.additional_properties.get(EXPORT)
            if number is not None:
                return newest, int(number)
            here = by_id[here].parent_snapshot_id
        # The first snapshot of such a table is an export's, so here others have expired.
        if not newest or str(here) == mark or self._has_files_of(table, newest):
            return newest, newest
        raise StoreAccessError(
            f"{self.where}: the snapshots of its exports have expired, and nothing else shows whether the table was "
            f"rolled back since export {newest}; if it was not, set its property {SNAPSHOT} to "
            f"{table.metadata.current_snapshot_id}, otherwise export into a new directory"
        )

    def _has_files_of(self, table: Table, number: int) -> bool:
        """Return whether files of an export are among those of the table's present rows."""
        folder = f"{number:06d}"
        return any(Path(task.file.file_path).parent.name == folder for task in table.scan().plan_files())

    def _newest_number(self) -> int:
        if self.name.catalog is not None:  # a commit whose answer was lost may be under way there: nobody knows yet
            raise StoreAccessError(f"{self.where}: the outcome of a commit is not known")
        return super()._newest_number()


def place_of(number: int, folder: str, name: str) -> str:
    """Return the place of a file in the table; its partition is in Iceberg's metadata."""
    return f"data/{number:06d}/{name}"


def _transforms(partition_by: Sequence[str]) -> list[tuple[str, str]]:
    transforms = {"topic_name": "identity", "date": "day"}
    return [(transforms[name], PARTITION_SOURCES[name]) for name in partition_by]


def _partitions(metadata: Any) -> dict[tuple[str, str], str]:
    """Return transform and column of each partition field of a table, with its name."""
    return {
        (str(field.transform), str(metadata.schema().find_column_name(field.source_id))): field.name
        for field in metadata.spec().fields
        if str(field.transform) != "void"
    }


def _repartition(transaction: Transaction, wanted: list[tuple[str, str]]) -> None:
    there = _partitions(transaction.table_metadata)
    if list(there) == wanted:
        return
    names = {source: name for name, source in PARTITION_SOURCES.items()}
    with transaction.update_spec() as spec:
        for pair, name in there.items():
            if pair not in wanted:
                spec.remove_field(name)
        for transform, source in wanted:
            if (transform, source) not in there:
                spec.add_field(source, transform, names[source])


def add_files(
    transaction: Transaction, places: Sequence[str], properties: Mapping[str, str], removed: Sequence[DataFile] = ()
) -> None:
    """Add a snapshot with data files to a transaction; the table has all columns of the files.

    `removed`: files of the table that the snapshot has no more.

    PyIceberg's own `add_files` compares the schema of each file with the table's, and works out for each which columns
    have statistics: 4 ms of processor time a file, while nothing else runs. The files of an export have one schema,
    which was compared with the table's before the first of them was written; so here a file costs the reading of its
    footer.
    """
    from pyiceberg.table import TableProperties

    table, metadata = transaction._table, transaction.table_metadata
    if metadata.current_snapshot() is not None:
        there = {task.file.file_path for task in table.scan().plan_files()}
        for place in places:
            if place in there:
                raise ValueError(f"the table has {place} already")
    if metadata.name_mapping() is None:  # the files name their columns, and do not number them
        mapping = metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    files = data_files(table.io, metadata, places)
    # Merging is a setting of the table (SETTINGS), which somebody may have changed.
    merges = metadata.properties.get(TableProperties.MANIFEST_MERGE_ENABLED, "false").lower() == "true"
    update = transaction.update_snapshot(snapshot_properties=dict(properties))
    append = update.merge_append if merges else update.fast_append
    with update.overwrite() if removed else append() as snapshot:
        for file in removed:
            snapshot.delete_data_file(file)
        for file in files:
            snapshot.append_data_file(file)


def data_files(io: Any, metadata: Any, places: Sequence[str]) -> list[DataFile]:
    """Return the entries of a manifest for Parquet files, which have the columns of the table."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    schema, spec = metadata.schema(), metadata.spec()
    collected, ids = compute_statistics_plan(schema, metadata.properties), parquet_path_to_id_mapping(schema)
    found = []
    for place in places:
        file = io.new_input(place)
        with file.open() as stream:
            footer = pq.read_metadata(stream)
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer, stats_columns=collected, parquet_column_mapping=ids
        )
        found.append(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=place,
                file_format=FileFormat.PARQUET,
                partition=statistics.partition(spec, schema),
                file_size_in_bytes=len(file),
                sort_order_id=None,
                spec_id=metadata.default_spec_id,
                equality_ids=None,
                key_metadata=None,
                **statistics.to_serialized_dict(),
            )
        )
    return found

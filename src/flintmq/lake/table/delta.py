"""Publishes exports into a Delta table, one transaction each, without Spark's Delta jars.

    DIR/topic_name=T/date=2026-01-31/000001-00000-000001.parquet    data files, as an export to Parquet has them
    DIR/_delta_log/...                                              Delta's own log: which files count
    DIR/_flintmq/000001.json                                        the manifest of export 1
    DIR/_staging/, DIR/_flintmq.lock                                as in a directory of Parquet exports

The manifest of an export is synced first; then its files are moved into the table; then one commit adds them, with an
application transaction that has the number of the export. The table's number decides: files and manifests with a number
that the table does not have are remains of a run that died, and the next run uses that number again.

There is one exception: a restored table (`RESTORE`) keeps the number of its newest export, but not its rows. So
Delta's log is searched for the export from which the present rows come; the next export begins where that one ended,
with a new number. Where somebody rewrote all files of the newest export (OPTIMIZE), and Delta has removed that part of
its log, the rows decide: a restored table has none of the newest export. If there is none, somebody may have deleted
them, so the user has to say which it was, by a property of the table. The package deltalake is the extra `delta`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flintmq.arrow.schema import FIRST_COLUMNS
from flintmq.config.releases import is_older
from flintmq.errors import MissingExtraError, StoreAccessError, StoreError, UsageError
from flintmq.lake.files.storage_options import storage_options
from flintmq.lake.files.table_folder import BucketFolder, TableFolder
from flintmq.lake.shape.columns import RAW
from flintmq.lake.table.iceberg_catalog import TableName
from flintmq.lake.table.target import NAMES, ExportTarget, Manifest, StagedFile, encoded
from flintmq.storage.tree import walk_tree
from flintmq.storage.whole_file import sync_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

APP = "flintmq-export"  # of the application transactions
OLDEST = (1, 6)
"""The first deltalake that keeps application transactions; the next export finds the last one by these."""
NEEDED = "a Delta table needs deltalake 1.6 or later: pip install 'flintmq[delta]'"
LOG = "_delta_log"
SAID = "flintmq.export"
"""Property of a table by which a user says, as `K/N`, that its rows are those of export K, the newest one being N."""
ATTEMPTS = 5  # commits of an export while others change the table
CHECKPOINT_INTERVAL = 100  # commits, unless the table sets its own
_OWN = re.compile(r"(topic_name|date)=.+|\d{6,}-.+\.parquet", re.DOTALL)
_OLD_CUT = re.compile(r"~[0-9a-f]{16}\Z")  # of a shortened topic_name: earlier versions shortened names in Delta too
_VERSION = re.compile(r"(\d{20})\.")
# deltalake decodes %XX in a table's path, takes \ for / and refuses controls; in a URL it cuts off what ? and # begin.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")
_MISREAD_URL = re.compile(r"%[0-9A-Fa-f]{2}|[?#\x00-\x1f\x7f]")


class DeltaTarget(ExportTarget):
    """A Delta table that exports are published into. Created and used within `locked`.

    Args:
        root: the directory; or what reads and writes it.

    Raises:
        UsageError: deltalake would open another path than this.
    """

    lists_files = True

    def __init__(self, root: Path | TableFolder) -> None:
        super().__init__(root)
        misread = (_MISREAD_URL if self.folder.remote else _MISREAD).search(self.where)
        if misread is not None:
            raise UsageError(
                f"{self.where}: deltalake does not open a path with {misread[0]!a} in it, or opens another one in its "
                "place; give a Delta table another path"
            )
        self.place = place_of
        self._newest = -1  # number of the newest export that the table ever had; 0: none; -1: `last` was not called
        self._current = -1  # number of the export that its rows come from: an older one if the table was restored
        self._table_id: str | None = None  # of the table at that time; None: there was none
        self._synced: dict[str, tuple[int, int]] = {}

    @staticmethod
    def is_own(name: str) -> bool:
        """Return whether this can be the name of a directory or file of such a table."""
        return _OWN.fullmatch(name) is not None

    def last(self) -> Manifest | None:
        """Return the manifest of the export that the table's rows come from; None if there is none.

        Raises:
            MissingExtraError: deltalake is not installed, or too old.
            StoreAccessError: the table or the manifest cannot be read.
        """
        table = self._table()
        if table is None:
            self._newest = self._current = 0
            self._table_id = None
            return None
        self._newest, self._current = self._numbers(table)
        self._table_id = str(table.metadata().id)
        if self._current < self._newest:
            self.notes["table_was_put_back"] = 1
        if isinstance(self.folder, BucketFolder):
            self.folder.sweep_lost(self._newest)
        return self.manifest_of(self._current) if self._current else None

    def committed(self) -> tuple[Manifest | None, int]:
        """Return the manifest of the export that the rows come from, and the table's version.

        Raises:
            MissingExtraError, StoreAccessError: as `last`.
        """
        table = self._table()
        number = 0 if table is None else self._numbers(table)[1]
        if table is None or not number:
            return None, 0
        return self.manifest_of(number), table.version()

    def newest(self) -> int | None:
        """Return the newest version of the table, whoever made it; None if there is no table.

        Raises:
            MissingExtraError, StoreAccessError: as `last`.
        """
        table = self._table()
        return None if table is None else table.version()

    def files_at(self, version: int) -> tuple[str, ...]:
        """Return the paths of the files of a version, those of the newest export last.

        Raises:
            MissingExtraError, StoreAccessError: as `last`; or Delta's log no longer has the version.
            UsageError: the files alone do not show the rows: some are deleted by a file beside them.
        """
        table = self._table(version)
        features = [] if table is None else table.protocol().reader_features or []
        if features:
            raise UsageError(f"{self.where}: the Delta table uses {', '.join(features)[:80]}, which is not read here")
        # Files have the number of their export in their names: the last ones have all columns.
        return () if table is None else tuple(sorted(self._files(table), key=os.path.basename))

    def _files(self, table: DeltaTable) -> list[str]:
        """Return the paths of a table's files, or their URLs, with the names as they are."""
        import pyarrow as pa

        # `file_uris` escapes some characters of paths and keys, and not others; Delta's log escapes all.
        places: list[Any] = pa.table(table.get_add_actions())["path"].to_pylist()
        return [self.folder.at(unquote(place)) for place in places]

    def columns_at(self, version: int) -> frozenset[str]:
        """Return the columns of a version; see the base."""
        table = self._table(version)
        return frozenset() if table is None else frozenset(field.name for field in table.schema().fields)

    def number_after(self, last: Manifest | None) -> int:
        """Return the number of the next export; no number is used twice."""
        assert self._newest >= 0  # `last` was called
        # Below a URL a run that died keeps the number that it claimed, as nobody knows that it is dead.
        return max(self._newest, self.folder.claimed()) + 1

    def check(self, last: Manifest | None, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Check that the table has the columns of the files, or may get them.

        Raises:
            UsageError: exports did not make this table or directory, or its columns or partitions differ.
            StoreAccessError: the table cannot be read.
        """
        table = self._table()
        if table is None:
            others = [name for name in self.folder.names() if self.is_own(name) and not self.folder.remote]
            if others:
                raise UsageError(f"{self.where} holds {others[0]!a} but no Delta table; give an empty directory")
            return
        assert self._newest >= 0  # `last` was called
        if not self._newest and table.file_uris():
            raise UsageError(f"{self.where} holds a Delta table that no export made; give an empty directory")
        if list(table.metadata().partition_columns) != list(partition_by):
            there = ",".join(table.metadata().partition_columns)
            raise UsageError(f"{self.where} is a Delta table partitioned by {there or 'nothing'}; give the same")
        self._missing(table, schema, partition_by)
        if last is not None and last.names < NAMES and "topic_name" in partition_by:
            old = next(
                (one["topic_name"] for one in table.partitions() if _OLD_CUT.search(one["topic_name"] or "")), None
            )
            if old is not None:
                raise UsageError(
                    f"{self.where}: an earlier FlintMQ cut a long topic to the topic_name {old[-40:]!a}; the same "
                    "topic would get two; export into a new directory"
                )

    def hints(self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str]) -> list[StagedFile]:
        """Return no files: the table itself declares the types of its columns."""
        return []

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema) -> None:
        """Publish an export in one transaction of the table, after one that adds new columns.

        Raises:
            OSError: the disk is full or fails. Until the commit no row was published. If the last sync fails, the rows
                are in the table, but a power cut may undo the commit; the next run begins where the table's rows end.
            StoreError: the table was restored, dropped or made again during the export.
            StoreAccessError: the table rejected the transaction.
        """
        with self._taken_back(manifest.number) as places:
            self._publish(manifest, files, schema, places)

    def _publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema, places: list[str]) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError, DeltaError

        assert manifest.number > self._newest >= 0  # files have the number in their names, and no number is used twice
        partition_by = list(manifest.choice["partition_by"])
        full = delta_schema(schema, partition_by)
        try:
            table = self._unchanged()
            if table is None:
                table = DeltaTable.create(self.where, full, partition_by=partition_by, storage_options=self._storage())
                self._sync_log()
            # The manifest comes first: the next run reads it for every number that the table has.
            self.folder.claim(manifest.number, encoded(manifest))
            # The files' names are durable before the commit that refers to them.
            places += [
                self.folder.final_place(file.path) or place_of(manifest.number, *os.path.split(file.place))
                for file in files
            ]
            self.folder.bring([(file.path, place) for file, place in zip(files, places, strict=True)])
            actions = [_added(file, place) for file, place in zip(files, places, strict=True)]
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._commit_rows(table, manifest, actions, schema, partition_by)
                    break
                except CommitFailedError:
                    # Somebody else committed since the table was loaded: look again whose rows it has.
                    if attempt == ATTEMPTS:
                        raise
                    table = self._unchanged(created=self._table_id is None)
                    assert table is not None
            self._sync_log()
            self._newest = self._current = manifest.number
            self._table_id = str(table.metadata().id)
        except DeltaError as error:
            raise self._rejected(error) from error
        except OSError as error:
            if not self.folder.remote:
                raise
            # The answer to the commit may be lost: the next run finds out whether the table has the export.
            raise StoreAccessError(f"{self.where}: the Delta table cannot be written: {_line(error)}") from error
        # The export is in the table: a failure from here on must not say otherwise. A later run tries again.
        try:
            self._shorten_log()
        except (DeltaError, OSError):
            self.notes["log_not_shortened"] = 1

    def _unchanged(self, created: bool = False) -> DeltaTable | None:
        """Load the table again; None if there is none yet.

        Args:
            created: this publication has made the table.

        Raises:
            StoreError: it is another table, or has other rows of exports, than when the export began.
        """
        table = self._table()
        # A table that was dropped, or made again at this path, may have the same numbers, and not the same rows.
        same = created or self._table_id == (None if table is None else str(table.metadata().id))
        if not same or (table is not None and self._numbers(table) != (self._newest, self._current)):
            raise StoreError(
                f"{self.where} was restored, made again, or exported into, during this export; run it again"
            )
        return table

    def _commit_rows(
        self, table: DeltaTable, manifest: Manifest, actions: list[Any], schema: pa.Schema, partition_by: list[str]
    ) -> None:
        """Add the files in one transaction, after one that adds new columns."""
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction

        added = self._missing(table, schema, partition_by)
        if added:
            table.alter.add_columns(added)
        table.create_write_transaction(
            actions,
            mode="append",
            schema=delta_schema(schema, partition_by),
            partition_by=partition_by,
            commit_properties=CommitProperties(app_transactions=[Transaction(APP, manifest.number)]),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
        )

    def _rejected(self, error: Exception) -> StoreError | StoreAccessError:
        """Return the error for users: another export was faster, or deltalake's own."""
        table = self._table()
        if table is not None and self._numbers(table) != (self._newest, self._current):
            return StoreError(f"{self.where}: another export into it was faster; run this one again")
        return StoreAccessError(f"{self.where}: the Delta table rejected the export: {_line(error)}")

    def _table(self, version: int | None = None) -> DeltaTable | None:
        try:
            import deltalake
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError
        except ImportError as error:
            raise MissingExtraError(NEEDED) from error
        if is_older(deltalake.__version__, OLDEST):
            raise MissingExtraError(f"{NEEDED} (here is {deltalake.__version__})")
        try:
            if not DeltaTable.is_deltatable(self.where, self._storage()):
                return None
            table = DeltaTable(self.where, version, storage_options=self._storage())
        except (DeltaError, OSError) as error:
            raise StoreAccessError(f"{self.where}: the Delta table cannot be read: {_line(error)}") from error
        # Reader version 2 has one feature, and no list of features: columns with other names in the files.
        mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        if mode != "none" or not 1 <= table.protocol().min_reader_version <= 3:
            what = f"column mapping by {mode[:20]}" if mode != "none" else "a newer reader version of Delta"
            raise UsageError(f"{self.where}: the Delta table uses {what}, which is not read or written here")
        return table

    def _storage(self) -> dict[str, str] | None:
        """Return deltalake's options for object storage; None for a disk."""
        return storage_options(self.where, self.folder.s3) if self.folder.remote else None

    def _missing(self, table: DeltaTable, schema: pa.Schema, partition_by: Sequence[str]) -> list[Any]:
        """Return the fields that the table lacks: properties, and columns added to the schema later.

        Raises:
            UsageError: the table lacks a column that every export has, or has columns that exports do not make:
                somebody else made or changed it.
        """
        from deltalake import Schema

        existing = {field.name: field for field in table.schema().fields}
        base = {*FIRST_COLUMNS, RAW, *partition_by}
        wanted = Schema.from_arrow(delta_schema(schema, partition_by)).fields
        missing = [field for field in wanted if field.name not in existing]
        other = [field.name for field in missing if field.name in base]
        other += [f.name for f in wanted if f.name in existing and existing[f.name].type != f.type]
        other += [f.name for f in existing.values() if not f.nullable and f.name not in {each.name for each in wanted}]
        if other:
            raise UsageError(
                f"{self.where} is a Delta table with other columns than this export ({', '.join(other[:3])}); "
                "give an empty directory"
            )
        return missing

    def _numbers(self, table: DeltaTable) -> tuple[int, int]:
        """Return the newest export that the table had and the one its rows come from; 0 for none.

        Raises:
            StoreAccessError: Delta's log does not reach back far enough.
        """
        newest = table.transaction_version(APP) or 0
        # Files have the number of their export in their names: a file of the newest means that nothing was restored.
        if not newest or any(os.path.basename(uri).startswith(f"{newest:06d}-") for uri in table.file_uris()):
            return newest, newest
        version = table.version()
        while version >= 0:
            try:
                actions = self._commit(version, newest)
            except StoreAccessError:
                current = self._said(table, newest) or (newest if self._has_rows_of(table, newest) else 0)
                if not current:
                    raise
                return newest, current
            found = [action["txn"]["version"] for action in actions if action.get("txn", {}).get("appId") == APP]
            if found:
                return newest, max(found)
            facts: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
            version = self._restored(version, facts) if facts.get("operation") == "RESTORE" else version - 1
        return newest, 0

    def _newest_number(self) -> int:
        table = self._table()
        return 0 if table is None else self._numbers(table)[0]

    def _commit(self, version: int, newest: int) -> list[dict[str, Any]]:
        """Read the actions of one commit."""
        place = f"{LOG}/{version:020d}.json"
        try:
            return [json.loads(line) for line in self.folder.read(place).decode().splitlines() if line]
        except (OSError, ValueError) as error:
            raise StoreAccessError(
                f"{self.folder.at(place)}: not readable, and the table has no row of its last export, {newest}, so "
                f"nothing shows whether it was restored (RESTORE) since; set its property {SAID} to "
                f"'{newest}/{newest}' if it was not, or to 'K/{newest}' if its rows are those of export K"
            ) from error

    @staticmethod
    def _said(table: DeltaTable, newest: int) -> int:
        """Return the export that a user names as the one of the rows; 0 if none is named."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", table.metadata().configuration.get(SAID, ""))
        return int(match[1]) if match is not None and int(match[2]) == newest and int(match[1]) <= newest else 0

    def _has_rows_of(self, table: DeltaTable, number: int) -> bool:
        """Return whether a row of an export is in the table.

        Raises:
            StoreAccessError: a manifest, or a file of the table, cannot be read.
        """
        from flintmq.lake.table.table_rows import TableVersion, has_rows_of

        before = self.manifest_of(number - 1) if number > 1 else None
        version = TableVersion(self.where, "delta", table.version(), TableName(), self.folder.s3)
        return has_rows_of(version, self.manifest_of(number), before)

    def _restored(self, version: int, facts: Mapping[str, Any]) -> int:
        """Return the version that a RESTORE went back to.

        Args:
            version: version of the RESTORE itself.
            facts: its commitInfo.
        """
        from deltalake import DeltaTable

        named = (facts.get("operationParameters") or {}).get("version")
        if named is not None and str(named).isdigit():
            return min(int(named), version - 1)
        # The RESTORE named a time: find the version that has the same files.
        table = DeltaTable(self.where, version=version, storage_options=self._storage())
        files = set(table.file_uris())
        for earlier in range(version - 1, -1, -1):
            table.load_as_version(earlier)
            if set(table.file_uris()) == files:
                return earlier
        return -1

    def _sync_log(self) -> None:
        """Fsync the files of Delta's log that readers need, because deltalake does not.

        These are commits and checkpoints from the newest checkpoint on, and files without version (`_last_checkpoint`).
        Files that this process has synced, and that have not changed since, are skipped.
        """
        if self.folder.remote:
            return
        log = self.root / LOG
        files = [Path(folder, name) for folder, _, names in walk_tree(log) for name in names]
        versions = {path: int(match[1]) for path in files if (match := _VERSION.match(path.name))}
        newest = max((version for path, version in versions.items() if ".checkpoint" in path.name), default=0)
        for path in files:
            if versions.get(path, newest) < newest:
                continue
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                state = (found.st_ino, found.st_mtime_ns)
                if self._synced.get(str(path)) != state:
                    os.fsync(file.fileno())
                    self._synced[str(path)] = state
        for folder in {path.parent for path in files}:
            sync_folder(folder)
        sync_folder(self.root)

    def _shorten_log(self) -> None:
        """Write a checkpoint of the table if one is due; only then remove old commits."""
        table = self._table()
        assert table is not None
        settings = table.metadata().configuration
        interval = int(settings.get("delta.checkpointInterval") or CHECKPOINT_INTERVAL)
        if (table.version() + 1) % max(1, interval):
            return
        table.create_checkpoint()
        self._sync_log()
        if settings.get("delta.enableExpiredLogCleanup", "true").lower() == "true":
            table.cleanup_metadata()


def _line(error: Exception) -> str:
    """Return the text of an error of deltalake in one line, without colours and arrows."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error)).split())[:300]


def place_of(number: int, folder: str, name: str) -> str:
    """Return the place of a file in the table."""
    return os.path.join(folder, f"{number:06d}-{name}")


def _added(file: StagedFile, place: str) -> Any:
    """Return the action that adds a file."""
    from deltalake.transaction import AddAction

    partition = {str(column): value for column, value in file.partition}
    return AddAction(place, file.size, partition, int(time.time() * 1000), True, json.dumps(dict(file.stats)))


def delta_schema(schema: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """Return the columns of the files, followed by the partition columns."""
    import pyarrow as pa

    types = {"topic_name": pa.string(), "date": pa.date32()}
    return pa.schema([*schema, *(pa.field(name, types[name]) for name in partition_by)])

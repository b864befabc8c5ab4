"""Publishes exports into a Delta table, one transaction each, without Spark's Delta jars.

    DIR/topic_name=T/date=2026-01-31/000001-00000-000001.parquet    data files, as an export to Parquet has them
    DIR/_delta_log/...                                              Delta's own log: which files count
    DIR/_flintmq/000001.json                                        the manifest of export 1
    DIR/_staging/, DIR/_flintmq.lock                                as in a directory of Parquet exports

One commit adds the files of an export, with an application transaction that has the number of the export
(`transactional_target.py`).

A restored table (`RESTORE`) keeps the number of its newest export, but not its rows. So Delta's log is searched for the
export from which the present rows come; the next export begins where that one ended, with a new number. Where somebody
rewrote all files of the newest export (OPTIMIZE), and Delta has removed that part of its log, the rows decide: a
restored table has none of the newest export. If there is none, somebody may have deleted them, so the user has to say
which it was, by a property of the table. The package deltalake is the extra `delta`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flintmq.config.releases import is_older
from flintmq.errors import MissingExtraError, StoreAccessError, StoreError, UsageError
from flintmq.lake.files.storage_options import storage_options
from flintmq.lake.files.table_folder import TableFolder
from flintmq.lake.table.target import NAMES, Manifest, StagedFile
from flintmq.lake.table.transactional_target import Actions, Paths, Requirements, TransactionalTarget
from flintmq.objects.object_file import readable
from flintmq.storage.files.tree import walk_tree
from flintmq.storage.files.whole_file import sync_folder
from flintmq.version import OURS

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
CHECKPOINT_INTERVAL = 100  # commits, unless the table sets its own
_OWN = re.compile(r"(topic_name|date)=.+|(\d{6,}|part)-.+\.parquet", re.DOTALL)  # `part-`: of others, as OPTIMIZE
_OLD_CUT = re.compile(r"~[0-9a-f]{16}\Z")  # of a shortened topic_name: earlier versions shortened names in Delta too
_VERSION = re.compile(r"(\d{20})\.")
# deltalake decodes %XX in a table's path, takes \ for / and refuses controls; in a URL it cuts off what ? and # begin.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")
_MISREAD_URL = re.compile(r"%[0-9A-Fa-f]{2}|[?#\x00-\x1f\x7f]")


class DeltaTarget(TransactionalTarget["DeltaTable"]):
    """A Delta table that exports are published into; see TransactionalTarget."""

    kind, put_back, claims_first = "a Delta table", "restored", False

    def __init__(self, folder: TableFolder) -> None:
        super().__init__(folder)
        misread = (_MISREAD_URL if self.folder.remote else _MISREAD).search(self.where)
        if misread is not None:
            raise UsageError(
                f"{self.where}: deltalake does not open a path with {misread[0]!a} in it, or opens another one in its "
                "place; give a Delta table another path"
            )
        self.place = place_of
        self._synced: dict[str, tuple[int, int]] = {}

    @staticmethod
    def is_own(name: str) -> bool:
        """Return whether this can be the name of a directory or file of such a table."""
        return _OWN.fullmatch(name) is not None

    def newest(self) -> int | None:
        """Return the newest version of the table, whoever made it; None if there is no table."""
        table = self._table()
        return None if table is None else table.version()

    def files_at(self, version: int) -> tuple[str, ...]:
        """Return the paths of the files of a version, those of the newest export last.

        Raises UsageError: the files alone do not show the rows: some are deleted by a file beside them.
        """
        table = self._table(version)
        # Files have the number of their export in their names: the last ones have all columns.
        return () if table is None else tuple(sorted(self._files(table), key=os.path.basename))

    def _files(self, table: DeltaTable) -> list[str]:
        """Return the paths of a table's files, or their URLs, with the names as they are."""
        features = table.protocol().reader_features
        if features:
            raise UsageError(f"{self.where}: the Delta table uses {', '.join(features)[:80]}, which is not read here")
        # `file_uris` escapes some characters of paths and keys, and not others; Delta's log escapes all.
        return [self.folder.at(unquote(place)) for place in _places_in(table)]

    def check(self, last: Manifest | None, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Check that the table has the columns of the files, or may get them."""
        table = self._table()
        if table is None:
            others = [name for name in self.folder.names() if self.is_own(name) and not self.folder.remote]
            if others:
                raise UsageError(f"{self.where} holds {others[0]!a} but no Delta table; give an empty directory")
            return
        if not self._seen.newest and table.file_uris():
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

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema, old: Paths = None) -> None:
        """Publish an export by one commit, after one that adds new columns; see the base."""
        super().publish(manifest, files, schema, old)
        from deltalake.exceptions import DeltaError

        # The export is in the table: a failure from here on must not say otherwise. A later run tries again.
        try:
            self._shorten_log()
        except (DeltaError, OSError):
            self.notes["log_not_shortened"] = 1

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        from deltalake.exceptions import DeltaError

        try:
            yield
        except DeltaError as error:
            raise self._rejected(error) from error
        except OSError as error:
            if not self.folder.remote:
                raise
            # The answer to the commit may be lost: the next run finds out whether the table has the export.
            raise StoreAccessError(f"{self.where}: the Delta table cannot be written: {_line(error)}") from error

    def _conflict(self) -> type[Exception]:
        from deltalake.exceptions import CommitFailedError

        return CommitFailedError

    def _create(self, actions: Actions) -> tuple[DeltaTable, Requirements]:
        from deltalake import DeltaTable

        by = actions.partition_by
        full = delta_schema(actions.schema, by)
        table = DeltaTable.create(self.where, full, partition_by=by, storage_options=self._storage())
        # deltalake syncs nothing, and the table must be durable before a manifest names an export of it.
        self._sync_log()
        return table, Requirements(table_id=str(table.metadata().id))

    def _add(self, table: DeltaTable, actions: Actions) -> None:
        """Add the files in one transaction, after one that adds new columns."""
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction

        added = self._missing(table, actions.schema, actions.partition_by)
        if added:
            table.alter.add_columns(added)
        if actions.old is not None:
            return self._replace(table, actions, actions.old)
        table.create_write_transaction(
            [_added(file, place) for file, place in zip(actions.files, actions.places, strict=True)],
            mode="append",
            schema=delta_schema(actions.schema, actions.partition_by),
            partition_by=actions.partition_by,
            commit_properties=CommitProperties(app_transactions=[Transaction(APP, actions.manifest.number)]),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
        )
        # Until this a power cut may undo the commit; the next run begins where the table's rows end.
        self._sync_log()

    def data(self) -> Mapping[str, Callable[[list[str]], pa.Table]]:
        table = self._table()
        files = {} if table is None else dict(zip(_places_in(table), self._files(table), strict=True))
        return {place: partial(self._columns, path) for place, path in files.items()}

    def columns(self) -> pa.Schema | None:
        import pyarrow as pa

        table = self._table()
        schema: Any = None if table is None else table.schema().to_arrow()  # has PyCapsules
        return None if schema is None else pa.schema(schema)

    def _columns(self, path: str, names: list[str]) -> pa.Table:
        import pyarrow.parquet as pq

        with readable(path, self.folder.s3) as source:
            return pq.ParquetFile(source).read(names)

    def _replace(self, table: DeltaTable, actions: Actions, old: frozenset[str]) -> None:
        """Put files in the place of others by one commit, which deltalake has no call for.

        Its form: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions; of writer version 2, in which
        deltalake makes tables.
        """
        settings, writer = table.metadata().configuration, table.protocol().min_writer_version
        if writer > 2 or settings.get("delta.appendOnly", "").lower() == "true":
            what = "is append-only" if writer <= 2 else f"needs writers of version {writer}"
            raise UsageError(f"{self.where}: the Delta table {what}; --upsert-key replaces rows of version 2")
        self._still_there(_places_in(table), old)
        ms = int(time.time() * 1000)
        commit: list[dict[str, Any]] = [
            {"commitInfo": {"timestamp": ms, "operation": "MERGE", "engineInfo": f"flintmq {OURS}"}},
            {"txn": {"appId": APP, "version": actions.manifest.number, "lastUpdated": ms}},
        ]
        commit += [{"remove": {"path": p, "deletionTimestamp": ms, "dataChange": True}} for p in sorted(old)]
        for file, place in zip(actions.files, actions.places, strict=True):
            added = {"path": place, "partitionValues": {}, "size": file.size, "modificationTime": ms}
            commit.append({"add": added | {"dataChange": True, "stats": json.dumps(dict(file.stats))}})
        content = "".join(f"{json.dumps(action)}\n" for action in commit).encode()
        if not self.folder.put_new(f"{LOG}/{table.version() + 1:020d}.json", content):
            raise self._conflict()(f"another commit was faster than version {table.version() + 1}")
        self._sync_log()

    def _rejected(self, error: Exception) -> StoreError | StoreAccessError:
        """Return the error for users: another export was faster, or deltalake's own."""
        table = self._table()
        if table is not None and self._numbers(table) != (self._seen.newest, self._seen.current):
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
        return storage_options(self.where, self.folder.s3) if self.folder.remote else None

    def _state(self, table: DeltaTable) -> Requirements:
        return Requirements(*self._numbers(table), str(table.metadata().id))

    def _version(self, table: DeltaTable) -> int:
        return table.version()

    def _fields(self, table: DeltaTable) -> Sequence[Any]:
        return table.schema().fields

    def _wanted(self, schema: pa.Schema, partition_by: Sequence[str]) -> Sequence[Any]:
        from deltalake import Schema

        return Schema.from_arrow(delta_schema(schema, partition_by)).fields

    def _numbers(self, table: DeltaTable) -> tuple[int, int]:
        """Return the newest export that the table had and the one its rows come from; 0 for none."""
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

    def _commit(self, version: int, newest: int) -> list[dict[str, Any]]:
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
        from flintmq.lake.table.row_files import has_rows_of

        if self.manifest_of(number).changes is not None:  # rows do not say by which export they came
            return False
        before = self.manifest_of(number - 1) if number > 1 else None
        return has_rows_of(self._files(table), self.folder, self.manifest_of(number), before)

    def _restored(self, version: int, facts: Mapping[str, Any]) -> int:
        """Return the version that a RESTORE went back to. `version`: version of the RESTORE itself."""
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


def _places_in(table: DeltaTable) -> list[str]:
    """Return the paths of a table's files as its log has them."""
    import pyarrow as pa

    places: list[Any] = pa.table(table.get_add_actions())["path"].to_pylist()
    return places


def place_of(number: int, folder: str, name: str) -> str:
    return os.path.join(folder, f"{number:06d}-{name}")


def _added(file: StagedFile, place: str) -> Any:
    from deltalake.transaction import AddAction

    partition = {str(column): value for column, value in file.partition}
    return AddAction(place, file.size, partition, int(time.time() * 1000), True, json.dumps(dict(file.stats)))


def delta_schema(schema: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """Return the columns of the files, followed by the partition columns."""
    import pyarrow as pa

    types = {"topic_name": pa.string(), "date": pa.date32()}
    return pa.schema([*schema, *(pa.field(name, types[name]) for name in partition_by)])

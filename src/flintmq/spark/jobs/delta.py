"""A Delta table that exports go to: one transaction each, without Spark's Delta jars (`pip install 'flintmq[delta]'`).

    DIR/topic_name=T/date=2026-01-31/000001-00000-000001.parquet    data files, as an export to Parquet has them
    DIR/_delta_log/...                                              Delta's own log: which files count
    DIR/_flintmq/000001.json                                        the manifest of export 1
    DIR/_staging/, DIR/_flintmq.lock                                as in a directory of Parquet exports

An export's manifest is made durable first; then its files are moved into the table; then one commit adds them, with an
application transaction that names the export's number. That number is the truth: files and manifests of a number that
the table does not have are remains of a run that died, and the next run writes that number anew.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flintmq.errors import MissingExtraError, StoreAccessError
from flintmq.spark.jobs.parquet import NO_VALUE
from flintmq.spark.jobs.shape import PARTITIONED_BY
from flintmq.spark.jobs.target import Manifest, StagedFile, Target, sync_folder, write_synced

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

APP = "flintmq-export"  # of the application transactions
MANIFESTS = "_flintmq"


class DeltaTarget(Target):
    """One Delta table that exports go to. Made and used within `locked`."""

    @staticmethod
    def is_own(name: str) -> bool:
        """Whether this can be a directory of such a table."""
        return re.fullmatch("topic_name=.+", name) is not None

    def last(self) -> Manifest | None:
        """As Target; the table tells the number.

        Raises:
            MissingExtraError: deltalake is not installed.
            StoreAccessError: the table or the manifest cannot be read.
        """
        table = self._table()
        number = table.transaction_version(APP) if table is not None else None
        return None if number is None else self.read_manifest(self._manifest(number))

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema) -> None:
        """As Target: one transaction of the table.

        Raises:
            OSError: the disk is full or fails.
            StoreAccessError: the table did not take the transaction.
        """
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.exceptions import DeltaError

        schema = delta_schema(schema)
        try:
            table = self._table() or DeltaTable.create(str(self.root), schema, partition_by=list(PARTITIONED_BY))
            path = self._manifest(manifest.number)
            path.parent.mkdir(exist_ok=True)
            write_synced(path, manifest.to_json())
            sync_folder(path.parent)
            actions = [self._bring(manifest.number, file) for file in files]
            for folder in {(self.root / action.path).parent for action in actions}:
                sync_folder(folder)
                sync_folder(folder.parent)
            sync_folder(self.root)
            table.create_write_transaction(
                actions,
                mode="append",
                schema=schema,
                partition_by=list(PARTITIONED_BY),
                commit_properties=CommitProperties(app_transactions=[Transaction(APP, manifest.number)]),
            )
            self._sync_log()
        except DeltaError as error:
            raise StoreAccessError(f"{self.root}: the Delta table did not take the export: {error}") from error

    def _table(self) -> DeltaTable | None:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise MissingExtraError("a Delta table needs deltalake: pip install 'flintmq[delta]'") from error
        return DeltaTable(str(self.root)) if DeltaTable.is_deltatable(str(self.root)) else None

    def _manifest(self, number: int) -> Path:
        return self.root / MANIFESTS / f"{number:06d}.json"

    def _bring(self, number: int, file: StagedFile) -> Any:
        """Move a file into the table; what the transaction says of it."""
        from deltalake.transaction import AddAction

        folder, name = os.path.split(file.place)
        place = os.path.join(folder, f"{number:06d}-{name}")
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        os.rename(file.path, self.root / place)
        values = dict(part.split("=", 1) for part in folder.split(os.sep))
        partition = {
            name: None if value == NO_VALUE else (unquote(value) if name == "topic_name" else value)
            for name, value in values.items()
        }
        stats = json.dumps({"numRecords": file.rows})
        return AddAction(place, file.size, partition, int(time.time() * 1000), True, stats)

    def _sync_log(self) -> None:
        """Make the newest commit durable: deltalake leaves that to the system."""
        log = self.root / "_delta_log"
        newest = max(log.glob("*.json"))
        with newest.open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(log)


def delta_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the files, and the two that the table is partitioned by."""
    import pyarrow as pa

    return pa.schema([*schema, pa.field("topic_name", pa.string()), pa.field("date", pa.date32())])

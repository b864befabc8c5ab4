"""Opens the catalog of an Iceberg table: its own, or any that PyIceberg is configured for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flintmq.errors import FlintError, MissingExtraError, StoreAccessError, UsageError
from flintmq.lake.files.storage_options import file_io_properties
from flintmq.lake.files.table_folder import DiskFolder, TableFolder

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG = "catalog.db"  # SQLite, in the directory of the table
_NAME = re.compile(r"(?P<catalog>[A-Za-z0-9_-]+):(?P<namespace>[^:/\s]+)\.(?P<table>[^.:/\s]+)")
_FILES = {"py-io-impl": "flintmq.lake.table.iceberg_files.SyncedFileIO"}


@dataclass(frozen=True)
class TableName:
    catalog: str | None = None  # name of a catalog in PyIceberg's configuration; None: the table's own
    namespace: str = "flintmq"  # namespace, table: names in the catalog; of several levels the namespace has dots
    table: str = "messages"

    @classmethod
    def parse(cls, text: str | None) -> TableName:
        """Parse `NAME:NAMESPACE.TABLE`; None is the table of an own catalog."""
        if text is None:
            return cls()
        match = _NAME.fullmatch(text)
        if match is None:
            raise UsageError(f"--catalog {text[:80]!r} is not NAME:NAMESPACE.TABLE, such as prod:lake.messages")
        return cls(match["catalog"], match["namespace"], match["table"])

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace.split("."), self.table)

    def open(self, root: Path | TableFolder) -> Catalog:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.catalog.sql import SqlCatalog
        except ImportError as error:
            raise MissingExtraError("an Iceberg table needs pyiceberg: pip install 'flintmq[iceberg]'") from error
        folder = root if isinstance(root, TableFolder) else DiskFolder(root)
        if self.catalog is not None:
            with in_one_line(f"catalog {self.catalog}", "cannot be opened; see PyIceberg's configuration"):
                own = file_io_properties(folder.s3) if folder.remote else {}
                return load_catalog(self.catalog, **own, **_FILES)
        from sqlalchemy import URL

        place = URL.create("sqlite", database=folder.at(CATALOG)).render_as_string()
        with in_one_line(folder.at(CATALOG), "cannot be opened"):
            return SqlCatalog("flintmq", **{"uri": place, "warehouse": folder.where, **_FILES})


@contextmanager
def in_one_line(where: str, what: str) -> Iterator[None]:
    """Turn the errors of PyIceberg, and of the many catalogs under it, into one line.

    Raises StoreAccessError: instead of them; errors of the disk are raised as they are.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise StoreAccessError(
            f"{where}: {what}: {_line(error)}; the files of an Iceberg table name each other by whole paths: if it was "
            "moved, move it back, or export into a new directory"
        ) from error
    except FlintError:
        raise
    except Exception as error:  # catalogs are plug-ins: SQL, HTTP and cloud libraries, each with errors of its own
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise StoreAccessError(f"{where}: {what}: {type(error).__name__}: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

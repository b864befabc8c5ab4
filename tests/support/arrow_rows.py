"""Arrow tables as plain rows, and stores to read them from."""

import hashlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from flintmq.message import COLUMNS, StoredMessage
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk, Piece
from tests.compat.stores import Golden
from tests.support.kernel_records import records

TIMES = ("born_timestamp", "store_timestamp")


def rows_of(
    batches: pa.Table | pa.RecordBatch | list[pa.RecordBatch], schema: pa.Schema | None = None
) -> list[dict[str, Any]]:
    """Rows as dicts: times as integers in the column's unit, maps as lists of pairs. Validates everything."""
    if isinstance(batches, pa.RecordBatch):
        batches = [batches]
    table = batches if isinstance(batches, pa.Table) else pa.Table.from_batches(batches, schema)
    table.validate(full=True)
    for name in TIMES:
        if name in table.column_names:
            at = table.column_names.index(name)
            table = table.set_column(at, name, table[name].cast(pa.int64()))
    return table.to_pylist()


def row_of(message: StoredMessage) -> dict[str, Any]:
    """The same row by the slow way."""
    return {**message.as_row(), "properties": list(message.properties.items())}


def java_differs(java: dict[str, Any], row: dict[str, Any]) -> str:
    """The first column in which a row differs from Java's decoding, or nothing."""
    found = {
        **row,
        "body_length": len(row["body"]),
        "body_sha1": hashlib.sha1(row["body"]).hexdigest(),
        "properties": dict(row["properties"]),
    }
    for name, value in java.items():
        if name.endswith("_host") and value.startswith("["):
            address, _, port = value[1:].partition("]")
            value = f"[{ipaddress.ip_address(address).compressed}]{port}"
        if found[name] != value:
            return f"{name}: {found[name]!r}, Java has {value!r}"
    return "" if list(row) == list(COLUMNS) else f"columns are {list(row)}"


def walk_of(store: Golden | Path, **options: Any) -> LogWalk:
    path = store.path if isinstance(store, Golden) else store
    return LogWalk(LogFiles.discover([str(path / "commitlog")]), read_facts(str(path)), **options)


def messages_of(store: Golden | Path) -> Iterator[StoredMessage]:
    """Every message of a store, decoded the slow way."""
    for piece in walk_of(store):
        for at in piece.positions[: piece.count]:
            size = int.from_bytes(piece.data[at : at + 4], "big")
            yield StoredMessage(bytes(piece.data[at : at + size]))


def store_of(path: Path, *changes: dict[str, Any], file_size: int = 1 << 22) -> Path:
    """A store of one file, with a record for each dict of fields."""
    data, _ = records(*changes)
    (path / "commitlog").mkdir(parents=True)
    (path / "commitlog" / ("0" * 20)).write_bytes(data.ljust(file_size, b"\0"))
    return path


def pieces_of(path: Path, **options: Any) -> Iterator[Piece]:
    return iter(walk_of(path, **options))

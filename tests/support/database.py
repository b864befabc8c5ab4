"""A table of a database as a dict, its changes as Debezium, Canal or plain bodies have them, and readers of tables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

SCHEMA = "id long, name string, total double"
WAYS: dict[str, dict[str, Any]] = {
    "debezium": {"body_schema": SCHEMA, "delete_when": "debezium"},
    "canal": {"body_schema": SCHEMA, "delete_when": "canal"},
    "plain": {"body_schema": f"{SCHEMA}, gone boolean", "delete_when": "gone=true"},
}
"""Keywords of an export that reads the changes."""

Row = dict[str, Any]


class Database:
    """A table with rows by id, and bodies for what is done to it.

    Attributes:
        rows: what a copy of the table must have.
    """

    def __init__(self, seed: int, way: str) -> None:
        self.random, self.way, self.rows = random.Random(seed), way, dict[int, Row]()
        self.done = 0

    def change(self) -> list[bytes]:
        """Insert, update, delete, or give a row another key, at random; return the bodies."""
        self.done += 1
        free = [key for key in range(12) if key not in self.rows]
        what = self.random.choice("iiuuukd")
        if not self.rows or (what == "i" and free):
            return self._write(None, self._row(self.random.choice(free)))
        old = self.rows.pop(self.random.choice(sorted(self.rows)))
        if what == "d":
            return self._delete(old)
        return self._write(old, self._row(self.random.choice(free) if what == "k" and free else old["id"]))

    def _row(self, key: int) -> Row:
        return {"id": key, "name": self.random.choice(["Ünal", "", None, f"n{self.done}"]), "total": self.done / 4}

    def _write(self, old: Row | None, new: Row) -> list[bytes]:
        self.rows[new["id"]] = new
        if self.way == "debezium":
            return [debezium("c" if old is None else "u", old, new, wrapped=self.random.random() < 0.5)]
        if self.way == "canal":
            return [canal("INSERT" if old is None else "UPDATE", [new], None if old is None else [old])]
        moved = old is not None and old["id"] != new["id"]
        return [*(self._delete(old) if old is not None and moved else []), json.dumps(new).encode()]

    def _delete(self, old: Row) -> list[bytes]:
        if self.way == "debezium":
            return [debezium("d", old, None), self.random.choice([b"", b"null"])]
        if self.way == "canal":
            return [canal("DELETE", [old], None)]
        return [json.dumps({"id": old["id"], "gone": True}).encode()]


def debezium(
    op: str, before: Row | None, after: Row | None, *, wrapped: bool = False, table: str = "customers"
) -> bytes:
    """An event as Debezium's JSON converter writes it, with or without the schema.

    https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-change-event-values
    """
    source = {
        "version": "3.0.0.Final", "connector": "mysql", "name": "mysql-server-1", "ts_ms": 1465581029523,
        "snapshot": "false", "db": "inventory", "sequence": None, "table": table, "server_id": 223344, "gtid": None,
        "file": "mysql-bin.000003", "pos": 484, "row": 0, "thread": 7, "query": None,
    }  # fmt: skip
    event = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1465581029523, "transaction": None}
    schema = {"type": "struct", "fields": [], "optional": False, "name": "mysql-server-1.inventory.customers.Envelope"}
    return json.dumps({"schema": schema, "payload": event} if wrapped else event).encode()


def canal(kind: str, rows: list[Row], olds: list[Row] | None, *, ddl: bool = False, table: str = "customers") -> bytes:
    """A flat message as Canal writes it: all values as text, and of the old ones those that changed.

    https://github.com/alibaba/canal/blob/master/protocol/src/main/java/com/alibaba/otter/canal/protocol/FlatMessage.java
    """
    changed = olds and [
        {name: _text(old[name]) for name in row if old[name] != row[name]} for row, old in zip(rows, olds, strict=True)
    ]
    return json.dumps({
        "data": [{name: _text(value) for name, value in row.items()} for row in rows] if not ddl else None,
        "database": "inventory", "es": 1589373560000, "id": 9, "isDdl": ddl, "old": changed,
        "mysqlType": {"id": "bigint", "name": "varchar(255)", "total": "double"}, "pkNames": ["id"],
        "sql": "", "sqlType": {"id": -5, "name": 12, "total": 8}, "table": table, "ts": 1589373560798, "type": kind,
    }).encode()  # fmt: skip


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def rows_in(out: Path | str, to: str) -> list[Row]:
    """The rows of a table, read without FlintMQ, by key; without the columns that are the export's."""
    if to == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(out)).to_pyarrow_table()
    else:
        table = iceberg_in(out).scan().to_arrow()
    kept = [name for name in table.column_names if not name.startswith("flintmq_") and name != "gone"]
    return sorted(table.select(kept).to_pylist(), key=lambda row: row["id"])


def iceberg_in(out: Path | str) -> Any:
    """The Iceberg table that an export made."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("flintmq", uri=f"sqlite:///{out}/catalog.db", warehouse=str(out))
    return catalog.load_table("flintmq.messages")

"""Changes of a database's table, merged into a Delta or Iceberg table: it equals the database's."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
pytest.importorskip("deltalake", reason="needs the extra delta")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyiceberg.types import DoubleType, StringType

import flintmq
from flintmq import Message
from flintmq.errors import StoreError, UsageError
from flintmq.lake.export.export_once import export
from flintmq.lake.export.export_stream import export_stream
from flintmq.lake.table.delta import DeltaTarget
from flintmq.storage.files.filesystem import Effects
from tests.support.database import SCHEMA, WAYS, Database, canal, debezium, iceberg_in, rows_in
from tests.support.engine import open_small

FORMATS = ("delta", "iceberg")
KEYED: dict[str, Any] = {"body": "json", "upsert_key": ["id"]}


class Clock(Effects):
    """The clock of all brokers: a millisecond later at each look, so that it orders their puts."""

    now = 1_800_000_000_000

    def now_ms(self) -> int:
        Clock.now += 1
        return Clock.now


def put(root: Path, *bodies: bytes, topic: str = "changes") -> None:
    with open_small(root, Clock(), mappedFileSizeCommitLog=1 << 16) as store:
        for body in bodies:
            assert store.put(Message(topic, body)).status.name == "PUT_OK"


def keyed(out: Path, to: str, way: str, **more: Any) -> dict[str, Any]:
    return {"out": str(out), "to": to, **KEYED, **WAYS[way], **more}


# -- the table is the database's -----------------------------------------------------------------------------------


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("way", WAYS)
def test_a_table_follows_a_store(tmp_path: Path, to: str, way: str) -> None:
    database = Database(7, way)
    for _ in range(6):
        put(tmp_path / "s", *(body for _ in range(25) for body in database.change()))
        export(str(tmp_path / "s"), **keyed(tmp_path / "out", to, way))
        assert rows_in(tmp_path / "out", to) == [database.rows[key] for key in sorted(database.rows)]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_a_table_follows_two_brokers_that_are_exported_unevenly(
    tmp_path: Path, to: str, follow: bool, seed: int
) -> None:
    """Changes of a key come by either broker; an export meets one broker late, and the table is right once all came."""
    database, out = Database(seed, ("debezium", "canal", "plain")[seed % 3]), tmp_path / "out"
    choices = keyed(out, to, database.way)
    live, there = tmp_path / "live", tmp_path / "there"
    for round_ in range(8):
        for _ in range(12):
            broker = database.random.choice("ab")
            for body in database.change():
                put(live / broker, body)
        quiet = round_ % 3 == 0
        for broker in "ab" if quiet else database.random.choice("ab"):
            shutil.copytree(live / broker, there / broker, dirs_exist_ok=True)
        if follow:
            export_stream(str(there / "*"), once=True, max_offsets=database.random.randrange(3, 30), **choices)
        else:
            export(str(there / "*"), **choices)
        if quiet:
            assert rows_in(out, to) == [database.rows[key] for key in sorted(database.rows)]


@pytest.mark.parametrize("to", FORMATS)
def test_a_deletion_outlives_older_changes_that_come_late(tmp_path: Path, to: str) -> None:
    """Broker b is behind: its row is older than the deletion, which left nothing in the table."""
    there, row = tmp_path / "there", {"id": 1, "name": "x", "total": 1.0}
    for broker in "ab":
        put(there / broker, debezium("c", None, {**row, "id": 9}))
    choices = keyed(tmp_path / "out", to, "debezium")
    export(str(there / "*"), **choices)
    shutil.copytree(there / "b", tmp_path / "b")
    put(tmp_path / "b", debezium("c", None, row))
    put(there / "a", debezium("d", row, None))
    export(str(there / "*"), **choices)
    export(str(there / "*"), **choices)
    shutil.copytree(tmp_path / "b", there / "b", dirs_exist_ok=True)
    export(str(there / "*"), **choices)
    assert [found["id"] for found in rows_in(tmp_path / "out", to)] == [9]


def test_a_new_broker_that_begins_before_forgotten_deletions_is_refused(tmp_path: Path) -> None:
    there, row = tmp_path / "there", {"id": 1, "name": "x", "total": 1.0}
    put(tmp_path / "b", debezium("c", None, row))
    put(there / "a", debezium("d", row, None))
    put(there / "a", debezium("c", None, {**row, "id": 2}))
    choices = keyed(tmp_path / "out", "delta", "debezium")
    export(str(there / "*"), **choices)
    shutil.copytree(tmp_path / "b", there / "b")
    with pytest.raises(
        UsageError, match="broker 'b' is new to the table and has changes older than those of the others"
    ):
        export(str(there / "*"), **choices)
    assert [found["id"] for found in rows_in(tmp_path / "out", "delta")] == [2]


@pytest.mark.parametrize("apart", [False, True])
def test_the_order_of_a_queue_holds_over_a_clock_that_is_set_back(tmp_path: Path, apart: bool) -> None:
    """Within a log the later message wins, in one export and in two, though its store time is earlier."""
    row, choices = {"id": 1, "name": "old", "total": 1.0}, keyed(tmp_path / "out", "delta", "debezium")
    put(tmp_path / "s", debezium("c", None, row), debezium("c", None, {**row, "id": 2}))
    if apart:
        export(str(tmp_path / "s"), **choices)
    Clock.now -= 10 * 3_600_000  # more than an hour: the store follows the clock
    put(tmp_path / "s", debezium("u", row, {**row, "name": "new"}), debezium("d", {"id": 2}, None))
    times = [message.store_timestamp for message in flintmq.open_store(tmp_path / "s").messages()]
    assert times[2] < times[1]
    export(str(tmp_path / "s"), **choices)
    assert rows_in(tmp_path / "out", "delta") == [{**row, "name": "new"}]
    Clock.now += 10 * 3_600_000


# -- bodies --------------------------------------------------------------------------------------------------------


def test_a_message_of_canal_has_several_rows_and_keys_may_be_swapped(tmp_path: Path) -> None:
    one, two = {"id": 1, "name": "one", "total": 1.0}, {"id": 2, "name": "two", "total": 2.0}
    put(
        tmp_path / "s",
        canal("INSERT", [one, two, {"id": 3, "name": None, "total": None}], None),
        canal("ALTER", [], None, ddl=True),
        canal("UPDATE", [{**one, "id": 2}, {**two, "id": 1}], [one, two]),
    )
    done = export(str(tmp_path / "s"), **keyed(tmp_path / "out", "delta", "canal"))
    assert [(row["id"], row["name"]) for row in rows_in(tmp_path / "out", "delta")] == [
        (1, "two"),
        (2, "one"),
        (3, None),
    ]
    assert done.rows == 3 and done.notes == {"ddl-skipped": 1} and done.exit_code == 0


def test_texts_of_canal_become_values(tmp_path: Path) -> None:
    schema = "id int, day date, at timestamp, yes boolean, rate double, parts array<int>, note string"
    row = {
        "id": "5", "day": "2026-02-03", "at": "2026-02-03 04:05:06.789", "yes": "1", "rate": "1.5", "parts": "[1, 2]",
        "note": "12", "unknown": "x",
    }  # fmt: skip
    put(tmp_path / "s", canal("INSERT", [row], None))
    export(str(tmp_path / "s"), **(keyed(tmp_path / "out", "delta", "canal") | {"body_schema": schema}))
    [found] = rows_in(tmp_path / "out", "delta")
    texts = {name: str(value) for name, value in found.items()}
    assert texts == {
        "id": "5", "day": "2026-02-03", "at": "2026-02-03 04:05:06.789000+00:00", "yes": "True", "rate": "1.5",
        "parts": "[1, 2]", "note": "12",
    }  # fmt: skip


@pytest.mark.parametrize("to", FORMATS)
def test_rows_that_somebody_else_put_into_the_table_are_replaced(tmp_path: Path, to: str) -> None:
    """As of a first load by other means: they do not say by which change they came."""
    choices, out = keyed(tmp_path / "out", to, "debezium"), str(tmp_path / "out")
    put(tmp_path / "s", debezium("c", None, {"id": 1, "name": "a", "total": 1.0}))
    export(str(tmp_path / "s"), **choices)
    theirs = pa.table({"id": pa.array([2, 3, 4], pa.int64()), "name": ["x", "y", "z"], "total": [5.0, 6.0, 7.0]})
    if to == "delta":
        from deltalake import write_deltalake

        write_deltalake(out, theirs, mode="append", schema_mode="merge")
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        SqlCatalog("flintmq", uri=f"sqlite:///{out}/catalog.db", warehouse=out).load_table("flintmq.messages").append(
            theirs
        )
    put(
        tmp_path / "s",
        debezium("u", {"id": 2, "name": "x", "total": 5.0}, {"id": 2, "name": "b", "total": 2.0}),
        debezium("d", {"id": 3, "name": "y", "total": 6.0}, None),
    )
    export(str(tmp_path / "s"), **choices)
    assert [(row["id"], row["name"]) for row in rows_in(tmp_path / "out", to)] == [(1, "a"), (2, "b"), (4, "z")]


BAD = {
    b"not JSON": "not JSON",
    b'{"op": "u"}': "not of the schema",
    b'{"op": "t"}': "not a change of a row",
    b"[1]": "not a change of a row",
    debezium("c", None, {"id": None, "name": "x", "total": 1.0}): "null in the upsert key",
    debezium("c", None, {"id": "1", "name": "x", "total": 1.0}): "not of the schema",
    debezium("d", None, None): "not of the schema",
    debezium("u", {"id": 1}, {"id": 1, "name": "__debezium_unavailable_value"}): "a value that Debezium left out",
}


@pytest.mark.parametrize("to", FORMATS)
def test_what_is_no_change_is_a_dead_letter(tmp_path: Path, to: str) -> None:
    put(tmp_path / "s", *BAD, debezium("c", None, {"id": 4, "name": "x", "total": 1.0}))
    done = export(str(tmp_path / "s"), **keyed(tmp_path / "out", to, "debezium", dead_letters=str(tmp_path / "dead")))
    assert [row["id"] for row in rows_in(tmp_path / "out", to)] == [4]
    letters = pq.ParquetDataset(str(tmp_path / "dead")).read().to_pylist()
    assert {letter["body"]: letter["reason"] for letter in letters} == BAD and done.bad_bodies == len(BAD)


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("TRUNCATE", "truncate table one"),
        ("ERASE", "DROP TABLE one"),
        ("RENAME", "rename table one to other"),
        ("ALTER", "ALTER TABLE one DROP  PARTITION p0"),
    ],
)
def test_a_statement_of_canal_that_empties_a_table_is_a_dead_letter(tmp_path: Path, kind: str, sql: str) -> None:
    """Passed over, it would leave rows that the database does not have."""
    put(tmp_path / "s", canal("INSERT", [{"id": 4, "name": "x", "total": 1.0}], None))
    put(tmp_path / "s", canal("ALTER", None, None, ddl=True))
    put(tmp_path / "s", json.dumps({"isDdl": True, "type": kind, "sql": sql, "data": None}).encode())
    with pytest.raises(StoreError, match="offset 2: the change cannot be read: a statement that may delete rows"):
        export(str(tmp_path / "s"), **keyed(tmp_path / "out", "delta", "canal"))


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("way", WAYS)
def test_copies_of_messages_change_nothing(tmp_path: Path, to: str, way: str) -> None:
    """What a broker stores to retry, to give up or to delay came before, or comes yet."""
    old, new = ({"id": 1, "name": name, "total": 1.0} for name in ("old", "new"))
    make = {
        "debezium": lambda row: debezium("c", None, row),
        "canal": lambda row: canal("INSERT", [row], None),
        "plain": lambda row: json.dumps(row).encode(),
    }[way]
    put(tmp_path / "s", make(old), make(new))
    for topic in ("%RETRY%group", "%DLQ%group", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"):
        put(tmp_path / "s", make(old), topic=topic)
    done = export(str(tmp_path / "s"), **keyed(tmp_path / "out", to, way))
    assert [row["name"] for row in rows_in(tmp_path / "out", to)] == ["new"]
    assert done.notes["copies-skipped"] == 4


@pytest.mark.parametrize("to", FORMATS)
def test_columns_that_others_added_keep_their_values(tmp_path: Path, to: str) -> None:
    put(tmp_path / "s", *(debezium("c", None, {"id": n, "name": "x", "total": 1.0}) for n in range(4)))
    choices = keyed(tmp_path / "out", to, "debezium")
    export(str(tmp_path / "s"), **choices)
    if to == "delta":
        table = DeltaTable(str(tmp_path / "out"))
        table.alter.add_columns([Field("extra", PrimitiveType("string")), Field("more", PrimitiveType("double"))])
        table.update({"extra": "'mine'", "more": "2.5"}, predicate="id >= 1")
    else:
        iceberg = iceberg_in(tmp_path / "out")
        with iceberg.update_schema() as update:
            update.add_column("extra", StringType())
            update.add_column("more", DoubleType())
        rows = iceberg.scan().to_arrow()
        whose = pc.greater_equal(rows["id"], 1)
        texts = pc.if_else(whose, "mine", pa.scalar(None, pa.string()))
        rows = rows.set_column(rows.schema.names.index("extra"), "extra", texts)
        numbers = pc.if_else(whose, 2.5, pa.scalar(None, pa.float64()))
        iceberg.overwrite(rows.set_column(rows.schema.names.index("more"), "more", numbers))
    put(tmp_path / "s", debezium("u", None, {"id": 3, "name": "three", "total": 1.0}))
    put(tmp_path / "s", debezium("c", None, {"id": 4, "name": "four", "total": 1.0}))
    export(str(tmp_path / "s"), **choices)
    if to == "delta":
        whole = DeltaTable(str(tmp_path / "out")).to_pyarrow_table()
    else:
        whole = iceberg_in(tmp_path / "out").scan().to_arrow()
    found = [tuple(row[name] for name in ("id", "name", "extra", "more")) for row in whole.sort_by("id").to_pylist()]
    assert found == [
        (0, "x", None, None), (1, "x", "mine", 2.5), (2, "x", "mine", 2.5), (3, "three", None, None),
        (4, "four", None, None),
    ]  # fmt: skip


def upsert(tmp_path: Path, to: str, schema: str, *rows: dict[str, Any], follow: bool = False) -> list[tuple[Any, ...]]:
    """Export rows of this schema; return all of the table, by key, without the export's own columns."""
    put(tmp_path / "s", *(debezium("u", None, row) for row in rows))
    choices = keyed(tmp_path / "out", to, "debezium", body_schema=schema)
    if follow:
        export_stream(str(tmp_path / "s"), once=True, **choices)
    else:
        export(str(tmp_path / "s"), **choices)
    return [tuple(row.values()) for row in rows_in(tmp_path / "out", to)]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("to", FORMATS)
def test_columns_of_the_database_come_and_go(tmp_path: Path, to: str, follow: bool) -> None:
    """Columns have names of messages' too. One that goes stays in the table: rows that change have null in it."""
    one, two, three = ({"id": n, "name": f"n{n}", "topic": n / 4, "tags": f"t{n}"} for n in (1, 2, 3))
    assert upsert(tmp_path, to, "id long, name string", one, two, follow=follow) == [(1, "n1"), (2, "n2")]
    found = upsert(tmp_path, to, "id long, topic double, name string, tags string", two, three, follow=follow)
    columns = [name for name in columns_in(tmp_path / "out", to) if not name.startswith("flintmq_")]
    assert columns == ["id", "name", "topic", "tags"]
    assert found == [(1, "n1", None, None), (2, "n2", 0.5, "t2"), (3, "n3", 0.75, "t3")]
    assert upsert(tmp_path, to, "id long, tags string", one, follow=follow)[0] == (1, None, None, "t1")
    found = upsert(tmp_path, to, "id long, name string, tags string", {**one, "name": "new"}, follow=follow)
    assert found == [(1, "new", None, "t1"), (2, "n2", 0.5, "t2"), (3, "n3", 0.75, "t3")]


def columns_in(out: Path, to: str) -> list[str]:
    if to == "delta":
        return [field.name for field in DeltaTable(str(out)).schema().fields]
    return [field.name for field in iceberg_in(out).schema().fields]


@pytest.mark.parametrize("to", FORMATS)
def test_a_table_that_was_put_back_to_before_a_column_gets_it_again(tmp_path: Path, to: str) -> None:
    upsert(tmp_path, to, "id long", {"id": 1})
    snapshot = iceberg_in(tmp_path / "out").current_snapshot().snapshot_id if to == "iceberg" else 0
    version = DeltaTable(str(tmp_path / "out")).version() if to == "delta" else 0
    assert upsert(tmp_path, to, "id long, name string", {"id": 2, "name": "two"}) == [(1, None), (2, "two")]
    if to == "delta":
        DeltaTable(str(tmp_path / "out")).restore(version)
    else:
        iceberg_in(tmp_path / "out").manage_snapshots().rollback_to_snapshot(snapshot).commit()
    found = upsert(tmp_path, to, "id long, name string", {"id": 3, "name": "three"})
    assert found == [(1, None), (2, "two"), (3, "three")]


def test_an_export_that_ends_between_a_column_and_its_rows_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta gets the column by a commit before that of the rows."""
    upsert(tmp_path, "delta", "id long", {"id": 1})
    row, schema = {"id": 2, "name": "two"}, "id long, name string"
    with monkeypatch.context() as broken:
        broken.setattr(DeltaTarget, "_replace", lambda *_: (_ for _ in ()).throw(OSError(5, "broken")))
        with pytest.raises(OSError, match="broken"):
            upsert(tmp_path, "delta", schema, row)
    assert "name" in columns_in(tmp_path / "out", "delta")
    assert upsert(tmp_path, "delta", schema) == [(1, None), (2, "two")]


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("id long, name string, total long", r"with other columns than this export \(total\)"),
        ("id long, name string, TOTAL double", "differs from the new one, 'TOTAL', in capital letters alone"),
    ],
)
def test_a_column_of_another_type_or_alike_is_refused(tmp_path: Path, to: str, schema: str, words: str) -> None:
    row = {"id": 1, "name": "x", "total": 1.0, "TOTAL": 2.0}
    upsert(tmp_path, to, SCHEMA, row)
    with pytest.raises(UsageError, match=words):
        upsert(tmp_path, to, schema, {**row, "total": 1})
    assert upsert(tmp_path, to, SCHEMA, {**row, "name": "y"}) == [(1, "y", 1.0)]


@pytest.mark.parametrize("there", [True, False])
def test_a_column_that_was_dropped_and_comes_again_is_refused(tmp_path: Path, there: bool) -> None:
    """It would have its old values, as files of exports name their columns; somebody adds it again, or the export."""
    row = {"id": 1, "name": "x", "total": 1.0}
    upsert(tmp_path, "iceberg", SCHEMA, row)
    if not there:
        upsert(tmp_path, "iceberg", "id long, name string", {**row, "id": 2})
    with iceberg_in(tmp_path / "out").update_schema() as update:
        update.delete_column("total")
    if there:
        with iceberg_in(tmp_path / "out").update_schema() as update:
            update.add_column("total", DoubleType())
        assert [found["total"] for found in rows_in(tmp_path / "out", "iceberg")] == [1.0]
    with pytest.raises(UsageError, match="somebody dropped or renamed the column 'total', and one of that name came"):
        upsert(tmp_path, "iceberg", SCHEMA, {**row, "id": 3})


def test_a_column_that_somebody_renamed_is_told(tmp_path: Path) -> None:
    put(tmp_path / "s", debezium("c", None, {"id": 1, "name": "x", "total": 1.0}))
    choices = keyed(tmp_path / "out", "iceberg", "debezium")
    export(str(tmp_path / "s"), **choices)
    with iceberg_in(tmp_path / "out").update_schema() as update:
        update.rename_column("name", "title")
    put(tmp_path / "s", debezium("c", None, {"id": 2, "name": "x", "total": 1.0}))
    with pytest.raises(UsageError, match="the table has no column 'name', which this export writes; somebody dropped"):
        export(str(tmp_path / "s"), **choices)


@pytest.mark.parametrize("left_out", ["__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="])
@pytest.mark.parametrize("form", ["{}", "[{}]", '{"k":{}}'])
def test_a_value_that_debezium_left_out_within_another_is_found(tmp_path: Path, left_out: str, form: str) -> None:
    kinds = {"{}": "string", "[{}]": "array<string>", '{"k":{}}': "map<string,string>"}
    value = json.loads(form.replace("{}", json.dumps(left_out)) if form != "{}" else json.dumps(left_out))
    put(tmp_path / "s", debezium("u", None, {"id": 1, "a": value}))
    choices = keyed(tmp_path / "out", "delta", "debezium", body_schema=f"id long, a {kinds[form]}")
    with pytest.raises(StoreError, match="a value that Debezium left out"):
        export(str(tmp_path / "s"), **choices)


def test_without_a_place_for_it_what_is_no_change_ends_the_export(tmp_path: Path) -> None:
    put(tmp_path / "s", debezium("c", None, {"id": 4, "name": "x", "total": 1.0}), b"?")
    words = re.escape(
        "topic 'changes', queue 0, offset 1: the change cannot be read: not JSON; --dead-letters DIR keeps such"
    )
    with pytest.raises(StoreError, match=words):
        export(str(tmp_path / "s"), **keyed(tmp_path / "out", "delta", "debezium"))
    assert not (tmp_path / "out").exists()


def test_json_that_is_nested_too_deep_is_called_so(tmp_path: Path) -> None:
    """Python's parser stops at its own depth; the body may be JSON."""
    with open_small(tmp_path / "s", Clock(), mappedFileSizeCommitLog=1 << 22) as store:
        store.put(Message("changes", b"[" * 1_000_000 + b"]" * 1_000_000))
    with pytest.raises(StoreError, match="the change cannot be read: JSON that is nested too deep; --dead-letters DIR"):
        export(str(tmp_path / "s"), **keyed(tmp_path / "out", "delta", "debezium"))
    messages: dict[str, Any] = {"out": str(tmp_path / "rows"), "body": "json", "body_schema": SCHEMA}
    assert export(str(tmp_path / "s"), **messages).bad_reasons == {"JSON that is nested too deep": 1}


@pytest.mark.parametrize("way", WAYS)
def test_an_inner_batch_is_told_to_be_taken_apart(tmp_path: Path, way: str) -> None:
    row, store = {"id": 1, "name": "x", "total": 1.0}, tmp_path / "s"
    make = {
        "debezium": lambda row: debezium("c", None, row),
        "canal": lambda row: canal("INSERT", [row], None),
        "plain": lambda row: json.dumps(row).encode(),
    }[way]
    with open_small(store, Clock(), mappedFileSizeCommitLog=1 << 16) as batches:
        batches.create_topic("changes", 1, "BatchCQ")
        batches.put_batch([Message("changes", make({**row, "id": n})) for n in range(3)])
    words = "the change cannot be read: an inner batch, which --explode takes apart"
    choices = keyed(tmp_path / "out", "delta", way)
    with pytest.raises(StoreError, match=f"{words}$"):
        export(str(store), **choices)
    done = export(str(store), **choices | {"out": str(tmp_path / "kept"), "dead_letters": str(tmp_path / "dead")})
    assert done.bad_reasons == {"an inner batch, which --explode takes apart": 1}
    export(str(store), **choices, explode=True)
    assert [found["id"] for found in rows_in(tmp_path / "out", "delta")] == [0, 1, 2]
    put(store, b"?")
    with pytest.raises(StoreError, match="the change cannot be read: not JSON; --dead-letters DIR"):
        export(str(store), **choices, explode=True)


def test_a_key_of_several_columns_and_types(tmp_path: Path) -> None:
    schema = "shop string, day date, at timestamp, open boolean, n int, gone string"
    key = ["shop", "day", "at", "open", "n"]
    one = {"shop": "ü,|", "day": "2026-01-02", "at": "2026-01-02T03:04:05.000006Z", "open": True, "n": -1}
    other = {**one, "open": False}
    choices = keyed(tmp_path / "out", "iceberg", "plain") | {
        "body_schema": schema, "upsert_key": key, "delete_when": "gone=yes, it is",
    }  # fmt: skip
    for body in (one, other, {**one, "gone": "no"}, {**other, "gone": "yes, it is"}, {**other, "gone": "yes, it is"}):
        put(tmp_path / "s", json.dumps(body).encode())
        export(str(tmp_path / "s"), **choices)
    from pyiceberg.catalog.sql import SqlCatalog

    out = tmp_path / "out"
    table = SqlCatalog("flintmq", uri=f"sqlite:///{out}/catalog.db", warehouse=str(out)).load_table("flintmq.messages")
    [row] = table.scan().to_arrow().to_pylist()
    assert (row["shop"], str(row["day"]), row["open"], row["n"], row["gone"]) == ("ü,|", "2026-01-02", True, -1, "no")


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["debezium", "canal", "plain"])
def test_changes_of_two_tables_are_refused(tmp_path: Path, way: str) -> None:
    """In one export, and where the other table comes later, its rows being replaced by the first one's."""
    row = {"id": 1, "name": "x", "total": 1.0}
    make = {
        "debezium": lambda table: debezium("c", None, row, table=table),
        "canal": lambda table: canal("INSERT", [row], None, table=table),
        "plain": lambda table: json.dumps(row).encode(),
    }[way]
    choices = keyed(tmp_path / "out", "delta", way)
    put(tmp_path / "s", make("one"), topic="one")
    export(str(tmp_path / "s"), **choices)
    put(tmp_path / "s", make("two"), topic="two")
    put(tmp_path / "s", make("one"), topic="one")
    words = [f"topic '{name}'" for name in ("one", "two")]
    if way != "plain":
        server = "mysql-server-1." if way == "debezium" else ""
        words = [f"table '{server}inventory.{name}' in topic '{name}'" for name in ("one", "two")]
    with pytest.raises(UsageError, match=f"changes of {words[0]} and of {words[1]}, whose keys would mix"):
        export(str(tmp_path / "s"), **choices)
    with pytest.raises(UsageError, match="whose keys would mix"):
        export(str(tmp_path / "s"), **choices | {"out": str(tmp_path / "other")})


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"to": "parquet"}, "--upsert-key is for --to delta and iceberg"),
    ({"body": "bytes", "body_schema": None}, "--upsert-key names columns of bodies; give --body json"),
    ({"upsert_key": ["id", "other"]}, "--upsert-key 'other' is no column of the bodies"),
    ({"upsert_key": ["total"]}, "--upsert-key 'total' is of type double"),
    ({"upsert_key": ["id", "id"]}, "names no column, or one twice"),
    ({"upsert_key": None}, "--delete-when is for --upsert-key"),
    ({"delete_when": "debezum"}, "--delete-when 'debezum' is not debezium, canal, or COLUMN=VALUE"),
    ({"delete_when": "id=01"}, "--delete-when 'id=01': no int64 has this text; give a whole number such as 1"),
    ({"delete_when": "total=1"}, "--delete-when 'total=1': no double has this text; give a column of whole numbers"),
    ({"delete_when": "name"}, "--delete-when 'name' is not debezium, canal, or COLUMN=VALUE"),
    ({"delete_when": "gone=True", "body_schema": "id long, gone boolean"}, "no bool has this text; give true or false"),
    (
        {"delete_when": "on=1.2", "body_schema": "id long, on date"},
        "no date32[day] has this text; give a date",
    ),
    ({"partition_by": ("date",)}, "--partition-by is for tables of messages"),
    ({"properties": ["a"]}, "--property is for tables of messages"),
    ({"body_schema": "id long, flintmq_x int"}, "columns that begin with flintmq_ are the export's"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    put(tmp_path / "s", b"x")
    with pytest.raises(UsageError, match=re.escape(words)):
        export(str(tmp_path / "s"), **keyed(tmp_path / "out", "delta", "debezium") | change)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"upsert_key": ["name"]}, '--upsert-key (["id"] there, ["name"] now)'),
        ({"upsert_key": None, "delete_when": None}, '--upsert-key (["id"] there, nothing now)'),
        ({"delete_when": "name=gone"}, '--delete-when ("debezium" there, "name=gone" now)'),
    ],
)
def test_other_options_for_one_table_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    put(tmp_path / "s", debezium("c", None, {"id": 4, "name": "x", "total": 1.0}))
    choices = keyed(tmp_path / "out", "delta", "debezium")
    export(str(tmp_path / "s"), **choices)
    with pytest.raises(UsageError, match=re.escape(words)):
        export(str(tmp_path / "s"), **choices | change)


def test_a_key_for_a_table_of_messages_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "s", debezium("c", None, {"id": 4, "name": "x", "total": 1.0}))
    choices = keyed(tmp_path / "out", "delta", "debezium")
    export(str(tmp_path / "s"), **choices | {"upsert_key": None, "delete_when": None})
    with pytest.raises(UsageError, match=re.escape('--upsert-key (nothing there, ["id"] now)')):
        export(str(tmp_path / "s"), **choices)


@pytest.mark.parametrize("to", FORMATS)
def test_it_is_not_read_as_a_table_of_messages(tmp_path: Path, to: str) -> None:
    put(tmp_path / "s", debezium("c", None, {"id": 4, "name": "x", "total": 1.0}))
    export(str(tmp_path / "s"), **keyed(tmp_path / "out", to, "debezium"))
    with pytest.raises(UsageError, match=f"is a table of changes .* read it as any {to} table"):
        flintmq.scan_arrow(tmp_path / "s", history=tmp_path / "out")


# -- beside others -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", FORMATS)
def test_a_table_that_was_put_back_gets_the_later_changes_again(tmp_path: Path, to: str) -> None:
    database, out, states = Database(3, "debezium"), tmp_path / "out", []
    choices = keyed(out, to, "debezium")
    for _ in range(4):
        put(tmp_path / "s", *(body for _ in range(8) for body in database.change()))
        export(str(tmp_path / "s"), **choices)
        states.append([database.rows[key] for key in sorted(database.rows)])
    if to == "delta":
        from deltalake import DeltaTable

        DeltaTable(str(out)).restore(2)
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("flintmq", uri=f"sqlite:///{out}/catalog.db", warehouse=str(out))
        table = catalog.load_table("flintmq.messages")
        table.manage_snapshots().rollback_to_snapshot(table.history()[1].snapshot_id).commit()
    assert rows_in(out, to) == states[1]
    put(tmp_path / "s", *database.change())
    done = export(str(tmp_path / "s"), **choices)
    assert done.notes["table_was_put_back"] == 1
    assert rows_in(out, to) == [database.rows[key] for key in sorted(database.rows)]


@pytest.mark.parametrize("to", FORMATS)
def test_what_others_do_to_the_table_meanwhile(tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that others rewrite during the export are neither lost nor doubled: it is refused, and the next one runs."""
    row, out = {"id": 4, "name": "x", "total": 1.0}, tmp_path / "out"
    choices = keyed(out, to, "debezium")
    for key in (1, 2):
        put(tmp_path / "s", debezium("c", None, {**row, "id": key}))
        export(str(tmp_path / "s"), **choices)
    put(tmp_path / "s", debezium("u", None, {**row, "id": 1, "name": "new"}))
    from flintmq.lake.files.table_folder import DiskFolder

    bring, done = DiskFolder.bring, []

    def bring_late(folder: DiskFolder, files: Any) -> None:
        if not done:
            done.append(compact(out, to))
        bring(folder, files)

    monkeypatch.setattr(DiskFolder, "bring", bring_late)
    with pytest.raises(StoreError, match="others wrote files of the table anew during this export; run it again"):
        export(str(tmp_path / "s"), **choices)
    assert [(found["id"], found["name"]) for found in rows_in(out, to)] == [(1, "x"), (2, "x")]
    export(str(tmp_path / "s"), **choices)
    assert [(found["id"], found["name"]) for found in rows_in(out, to)] == [(1, "new"), (2, "x")]


def compact(out: Path, to: str) -> bool:
    if to == "delta":
        from deltalake import DeltaTable

        DeltaTable(str(out)).optimize.compact()
        return True
    from pyiceberg.catalog.sql import SqlCatalog

    table = SqlCatalog("flintmq", uri=f"sqlite:///{out}/catalog.db", warehouse=str(out)).load_table("flintmq.messages")
    table.overwrite(table.scan().to_arrow())
    return True


def test_an_append_only_delta_table_is_refused(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    put(tmp_path / "s", debezium("c", None, {"id": 4, "name": "x", "total": 1.0}))
    choices = keyed(tmp_path / "out", "delta", "debezium")
    export(str(tmp_path / "s"), **choices)
    DeltaTable(str(tmp_path / "out")).alter.set_table_properties({"delta.appendOnly": "true"})
    put(tmp_path / "s", debezium("d", {"id": 4}, None))
    with pytest.raises(UsageError, match="the Delta table is append-only"):
        export(str(tmp_path / "s"), **choices)


def test_other_readers_filter_the_table(tmp_path: Path) -> None:
    """By columns of every type: no file is left out for statistics that it does not have."""
    import duckdb
    from deltalake import DeltaTable

    put(tmp_path / "s", debezium("c", None, {"id": 4, "name": "x", "total": 1.5}))
    export(str(tmp_path / "s"), **keyed(tmp_path / "out", "delta", "debezium"))
    database = duckdb.connect()
    database.register("rows", DeltaTable(str(tmp_path / "out")).to_pyarrow_dataset())
    for condition in ("id = 4", "name = 'x'", "total > 1", "flintmq_store_timestamp > '2000-01-01'"):
        assert database.sql(f"select count(*) from rows where {condition}").fetchall() == [(1,)], condition


def test_the_log_of_the_delta_table_becomes_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.lake.table.delta.CHECKPOINT_INTERVAL", 3)
    database = Database(1, "canal")
    for _ in range(7):
        put(tmp_path / "s", *(body for _ in range(5) for body in database.change()))
        export(str(tmp_path / "s"), **keyed(tmp_path / "out", "delta", "canal"))
    assert list((tmp_path / "out" / "_delta_log").glob("*.checkpoint.parquet"))
    assert rows_in(tmp_path / "out", "delta") == [database.rows[key] for key in sorted(database.rows)]
    assert DeltaTarget.is_own("000001-rows-000001.parquet") and SCHEMA.startswith("id")

"""Exports into an Iceberg table: each row once, whatever happens to the table in between."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from flintmq import Message, MessageStore, scan_arrow
from flintmq.config.releases import is_older
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.lake.export.export import Exported
from flintmq.lake.export.export_once import export
from flintmq.lake.export.export_stream import export_stream
from flintmq.lake.files import table_folder
from flintmq.lake.files.table_folder import DiskFolder
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.table.iceberg import IcebergTarget, add_files, data_files
from flintmq.testing import write_store
from tests.robustness.matrix.stores import SMALL
from tests.robustness.matrix.truth import rows as truth_rows
from tests.support.faults import Faulty


class Lake:
    """A store that is written, and an Iceberg table of it."""

    def __init__(self, folder: Path) -> None:
        self.store, self.out, self.put_so_far = folder / "store", folder / "table", 0

    def put(self, count: int, topic: str = "T", **properties: str) -> None:
        with MessageStore(self.store, SMALL) as store:
            for _ in range(count):
                message = Message(topic, b"%d" % self.put_so_far, properties=properties)
                assert store.put(message).status.name == "PUT_OK"
                self.put_so_far += 1

    def export(self, **named: Any) -> Exported:
        return export(self.store, str(self.out), to="iceberg", **named)

    @property
    def table(self) -> Table:
        """As anybody opens it who knows nothing of FlintMQ."""
        catalog = SqlCatalog("flintmq", uri=f"sqlite:///{self.out}/catalog.db", warehouse=str(self.out))
        return catalog.load_table("flintmq.messages")

    def bodies(self) -> list[int]:
        """Of the table's rows, as numbers, in order."""
        return sorted(int(body) for body in self.table.scan().to_arrow()["body"].to_pylist())

    def check(self) -> None:
        """Each message of the log once, by the slow codecs."""
        assert self.bodies() == list(range(self.put_so_far)) and len(truth_rows(self.store)) == self.put_so_far


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three exports: messages 0 to 2, 3 and 4, 5 to 8."""
    made = Lake(tmp_path)
    for count in (3, 2, 4):
        made.put(count)
        made.export()
    assert len(made.table.snapshots()) == 3
    return made


def test_rows_are_those_of_an_export_to_parquet(golden: Any, tmp_path: Path) -> None:
    """All columns of all rows, as PyIceberg and Polars read them; nothing new makes no snapshot."""
    store = golden("basic").path
    done = export(store, str(tmp_path / "ice"), to="iceberg")
    assert done.rows == export(store, str(tmp_path / "parquet")).rows > 100
    wanted = polars.scan_parquet(f"{tmp_path}/parquet/export=1/**/*.parquet", hive_partitioning=False)
    wanted = wanted.sort("physical_offset", "queue_id").collect()
    lake = Lake(tmp_path)
    lake.out = tmp_path / "ice"
    found = polars.from_arrow(lake.table.scan().to_arrow()).select(wanted.columns)
    assert found.sort("physical_offset", "queue_id").cast(wanted.schema).equals(wanted)
    if not is_older(polars.__version__, (2, 1)):  # it reads files without field ids from then on
        lazily = polars.scan_iceberg(lake.table).select("physical_offset", "topic").collect()
        assert lazily.sort("physical_offset")["topic"].to_list() == wanted["topic"].to_list()
    assert export(store, str(lake.out), to="iceberg").number == 0
    assert len(lake.table.snapshots()) == 1


def test_partitions_let_readers_pass_over_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for topic in ("a", "%RETRY%组 #?=", "x" * 120):
        lake.put(3, topic)
    lake.export()
    for topic in ("a", "%RETRY%组 #?=", "x" * 120):
        scan = lake.table.scan(f"topic = '{topic}'")
        assert len(list(scan.plan_files())) == 1 and scan.to_arrow().num_rows == 3
    assert not list(lake.table.scan("store_timestamp < '2001-01-01T00:00:00+00:00'").plan_files())
    lake.check()


ROLLED_BACK: dict[str, Callable[[Table, list[int]], Any]] = {
    "by one": lambda table, ids: table.manage_snapshots().rollback_to_snapshot(ids[1]).commit(),
    "by two": lambda table, ids: table.manage_snapshots().rollback_to_snapshot(ids[0]).commit(),
    "and changed": lambda table, ids: (
        table.manage_snapshots().rollback_to_snapshot(ids[1]).commit(),
        table.delete("queue_offset < 0"),
        table.update_schema().add_column("own", StringType()).commit(),
    ),
    "there and back": lambda table, ids: (
        table.manage_snapshots().rollback_to_snapshot(ids[0]).commit(),
        table.manage_snapshots().set_current_snapshot(ids[2]).commit(),
    ),
}


@pytest.mark.parametrize("name", ROLLED_BACK)
def test_a_table_that_was_rolled_back_gets_its_rows_again(lake: Lake, name: str) -> None:
    ids = [entry.snapshot_id for entry in lake.table.history()]
    ROLLED_BACK[name](lake.table, ids)
    before, rows = lake.bodies(), len(lake.bodies())
    lake.put(2)
    done = lake.export()
    assert (done.number, done.rows) == (4, lake.put_so_far - rows), before
    assert bool(done.notes) == (name != "there and back")
    lake.check()
    lake.put(1)
    assert lake.export().number == 5
    lake.check()


def test_rolled_back_beyond_a_change_of_partitions(lake: Lake) -> None:
    """A roll-back leaves the table's partitions as they are."""
    first = lake.table.history()[0].snapshot_id
    lake.put(1)
    lake.export(partition_by=("date",))
    lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert lake.export(partition_by=("date",)).rows == lake.put_so_far - 3
    lake.check()


def test_rows_that_a_user_deleted_stay_deleted(lake: Lake) -> None:
    lake.table.delete("physical_offset < 1")
    lake.put(1)
    assert lake.export().rows == 1
    assert lake.bodies() == list(range(1, 10))


def expire(lake: Lake) -> None:
    """Expire all snapshots but the newest."""
    table = lake.table
    older = [snapshot.snapshot_id for snapshot in table.snapshots()]
    older.remove(table.metadata.current_snapshot_id)
    table.maintenance.expire_snapshots().by_ids(older).commit()
    assert len(lake.table.snapshots()) == 1


def test_snapshots_may_expire(lake: Lake) -> None:
    """The newest snapshot is a user's, and its parent that of the newest export: known by its id."""
    expire(lake)
    lake.put(1)
    assert (done := lake.export()).number == 4 and done.rows == 1
    lake.table.delete("physical_offset < 1")
    expire(lake)
    lake.put(1)
    assert (done := lake.export()).number == 5 and done.rows == 1
    assert lake.bodies() == list(range(1, 11))


def test_all_files_were_written_anew_and_all_snapshots_expired(lake: Lake) -> None:
    """As after a compaction and a week without exports: no guess, and a way on."""
    table = lake.table
    table.overwrite(table.scan().to_arrow())
    expire(lake)
    lake.put(1)
    with pytest.raises(StoreAccessError, match=r"have expired, .* set its property flintmq\.snapshot to \d+") as caught:
        lake.export()
    assert "\n" not in str(caught.value)
    there = lake.table
    with there.transaction() as change:
        change.set_properties({"flintmq.snapshot": str(there.metadata.current_snapshot_id)})
    assert lake.export().rows == 1
    lake.check()


def test_a_roll_back_that_nothing_shows_any_more_is_no_guess(lake: Lake) -> None:
    table = lake.table
    first = table.history()[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    lake.table.delete("physical_offset < 1")
    expire(lake)
    lake.put(1)
    with pytest.raises(StoreAccessError, match=r"have expired, .* set its property flintmq\.snapshot to \d+") as caught:
        lake.export()
    assert "\n" not in str(caught.value)


def dying(monkeypatch: pytest.MonkeyPatch, lake: Lake, what: Any, name: str, after: bool) -> None:
    """Run an export that dies before or after a call."""
    real = getattr(what, name)

    def dies(*args: Any, **named: Any) -> Any:
        if after:
            real(*args, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(what, name, dies)
        with pytest.raises(KeyboardInterrupt):
            lake.export()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("what", "name"),
    [
        (SqlCatalog, "create_namespace_if_not_exists"), (SqlCatalog, "create_table"), (SqlCatalog, "commit_table"),
        (DiskFolder, "bring"), (IcebergTarget, "_add"), (os, "rename"),
    ],
)  # fmt: skip
def test_a_death_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Any, name: str, first: bool, after: bool
) -> None:
    """The next run adds what is missing, and nothing twice."""
    lake = Lake(tmp_path)
    lake.put(2)
    if not first:
        lake.export()
        lake.put(3)
        if name.startswith("create"):
            return  # made once
    dying(monkeypatch, lake, what, name, after)
    lake.put(1)
    lake.export()
    lake.check()


def foreign(lake: Lake) -> None:
    """Somebody else's commit, which leaves the rows as they are."""
    with lake.table.transaction() as change:
        change.set_properties({"owner": f"{lake.table.properties.get('owner', '')}x"})


@pytest.mark.parametrize("times", [1, 4, 5])
def test_others_commit_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The table is looked at again; after five times the export gives up, and the next run does it."""
    real, done = SqlCatalog.commit_table, []

    def late(catalog: SqlCatalog, table: Table, requirements: Any, updates: Any) -> Any:
        if len(done) < times:
            done.append(1)
            raise CommitFailedException("somebody was faster")
        return real(catalog, table, requirements, updates)

    lake.put(2)
    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", late)
        if times < 5:
            assert lake.export().rows == 2
        else:
            with pytest.raises(StoreError, match="changed by others 5 times"):
                lake.export()
    lake.export()
    lake.check()


def test_a_commit_on_an_older_state_of_the_table_is_not_made(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody adds rows between the look at the table and the commit: one more look, then the commit."""
    real, looks = IcebergTarget._add, []

    def with_a_rival(target: IcebergTarget, table: Table, *args: Any) -> None:
        looks.append(1)
        if len(looks) == 1:
            lake.table.delete("physical_offset < 1")
        real(target, table, *args)

    monkeypatch.setattr(IcebergTarget, "_add", with_a_rival)
    lake.put(2)
    lake.export()
    assert len(looks) == 2 and lake.bodies() == list(range(1, 11))


def test_an_export_of_somebody_else_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another machine, where the lock of the directory does not hold: one line, nothing doubled."""
    real = DiskFolder.bring

    def with_a_rival(folder: DiskFolder, *args: Any) -> None:
        table = lake.table
        with table.transaction() as change:
            change.append(table.scan(limit=1).to_arrow(), snapshot_properties={"flintmq-export": "4"})
            change.set_properties({"flintmq.export": "4"})
        real(folder, *args)

    monkeypatch.setattr(DiskFolder, "bring", with_a_rival)
    lake.put(2)
    with pytest.raises(StoreError, match="exported into, during this export; run it again"):
        lake.export()


def test_rolled_back_while_a_stream_runs(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.put(2)
    export_stream(lake.store, str(lake.out), to="iceberg", once=True)
    lake.put(2)
    export_stream(lake.store, str(lake.out), to="iceberg", once=True)
    lake.check()
    first = lake.table.history()[0].snapshot_id
    lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert export_stream(lake.store, str(lake.out), to="iceberg", once=True).rows == 2
    lake.check()


@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_is_dropped_while_a_stream_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """Its directory is gone, or another table with the same number is there: the stream ends, and writes nothing."""
    lake, other = Lake(tmp_path), Lake(tmp_path)
    lake.put(2)
    lake.export()
    shutil.copytree(lake.out, tmp_path / "kept")
    real = DiskFolder.bring

    def dropped(folder: DiskFolder, *args: Any) -> None:
        monkeypatch.undo()
        real(folder, *args)
        for name in ("catalog.db", "metadata"):
            os.rename(lake.out / name, tmp_path / f"old-{name}")
        if again:
            other.out = tmp_path / "other"
            other.export()
            with sqlite3.connect(other.out / "catalog.db") as catalog:
                catalog.execute(
                    "update iceberg_tables set metadata_location = replace(metadata_location, 'other', 'table')"
                )
            shutil.copy(other.out / "catalog.db", lake.out / "catalog.db")

    monkeypatch.setattr(DiskFolder, "bring", dropped)
    lake.put(2)
    with pytest.raises((StoreError, StoreAccessError)) as caught:
        lake.export()
    assert "\n" not in str(caught.value)


def test_store_times_beyond_the_calendar(tmp_path: Path) -> None:
    """They are null, and so is their partition; the other rows have their day."""
    faulty = Faulty()
    faulty.clock = 253_402_300_800_000 + 86_400_000 * 3
    with MessageStore(tmp_path / "store", SMALL, effects=faulty, unique_keys=False) as store:
        for _ in range(2):
            faulty.clock += 86_400_000
            assert store.put(Message("T", b"1")).status.name == "PUT_OK"
    lake = Lake(tmp_path)
    assert lake.export().rows == 2
    found = lake.table.scan().to_arrow()
    assert found["store_timestamp"].to_pylist() == [None, None]
    assert [file.file.partition[1] for file in lake.table.scan().plan_files()] == [None]


def test_nothing_stays_open(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.put(1)
    lake.export()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        lake.put(1)
        lake.export()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_columns_are_added(tmp_path: Path) -> None:
    """A later property is a column; rows before have null there; a user's own column lives on; others are refused."""
    lake = Lake(tmp_path)
    lake.put(2, region="eu")
    lake.export(properties=["region"])
    lake.table.update_schema().add_column("own", StringType()).commit()
    lake.put(2, region="us", tenant="x")
    lake.export(properties=["region", "tenant:customer"])
    lake.put(1, tenant="y")
    lake.export(properties=["tenant:customer", "region"])
    lake.check()
    rows = polars.from_arrow(lake.table.scan().to_arrow()).select("physical_offset", "region", "customer", "own")
    assert rows.sort("physical_offset").drop("physical_offset").rows() == [
        ("eu", None, None), ("eu", None, None), ("us", "x", None), ("us", "x", None), (None, "y", None),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="exports with other --property"):
        lake.export(properties=["region"])
    lake.table.update_schema().add_column("number", LongType()).commit()
    with pytest.raises(UsageError, match=r"other columns than this export \(number\)"):
        lake.export(properties=["region", "tenant:customer", "n:number"])


@pytest.mark.parametrize("partition_by", [("date",), ("topic_name",), ()])
def test_partitions_change(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    """There and back; rows before stay where they are."""
    lake = Lake(tmp_path)
    for now in (("topic_name", "date"), partition_by, ("topic_name", "date")):
        lake.put(2, "a")
        lake.put(1, "b")
        lake.export(partition_by=now)
        names = {"topic_name": "identity", "date": "day"}
        fields = [str(field.transform) for field in lake.table.spec().fields]
        assert sorted(fields) == sorted(names[name] for name in now)
        lake.check()
    lake.table.update_spec().add_identity("queue_id").commit()
    lake.put(1)
    with pytest.raises(UsageError, match="partitions somebody changed to .*identity of queue_id"):
        lake.export()


BODY = """{"type": "struct", "fields": [
  {"name": "n", "type": "long", "nullable": true, "metadata": {}},
  {"name": "who", "nullable": true, "metadata": {}, "type": {"type": "struct", "fields": [
    {"name": "name", "type": "string", "nullable": true, "metadata": {}}]}}]}"""


def test_bodies_as_json_and_several_stores(tmp_path: Path) -> None:
    """Structs are Iceberg's; the columns broker and store come last."""
    for broker in ("a", "库存"):
        with MessageStore(tmp_path / "data" / broker / "store", SMALL) as store:
            store.put(Message("T", b'{"n": 1, "who": {"name": "Ada"}}'))
            store.put(Message("T", b"no JSON"))
    (tmp_path / "body.json").write_text(BODY)
    out = tmp_path / "table"
    for kind in (export, lambda *args, **named: export_stream(*args, once=True, **named)):
        target = out / kind.__name__.strip("<>")
        done = kind(
            f"{tmp_path}/data/*/store", str(target), to="iceberg", body="json",
            body_schema=str(tmp_path / "body.json"),
        )  # fmt: skip
        assert done.rows == 4 and done.bad_bodies == 2
        lake = Lake(tmp_path)
        lake.out = target
        assert (
            kind(
                f"{tmp_path}/data/*/store",
                str(target),
                to="iceberg",
                body="json",
                body_schema=str(tmp_path / "body.json"),
            ).rows
            == 0
        ), "goes on, with the same columns"
        found = lake.table.scan().to_arrow()
        assert found.column_names[-2:] == ["broker", "store"]
        assert sorted(set(found["broker"].to_pylist())) == ["a", "库存"]
        assert [row for row in found["body"].to_pylist() if row] == [{"n": 1, "who": {"name": "Ada"}}] * 2


def no_table(out: Path) -> None:
    (out / "data").mkdir(parents=True)


def own_table(out: Path) -> None:
    out.mkdir()
    catalog = SqlCatalog("flintmq", uri=f"sqlite:///{out}/catalog.db", warehouse=str(out))
    catalog.create_namespace("flintmq")
    table = catalog.create_table("flintmq.messages", pa.schema([("x", pa.int64())]), str(out))
    table.append(pa.table({"x": [1]}))


def no_catalog(out: Path) -> None:
    out.mkdir()
    (out / "catalog.db").write_bytes(b"this is no database\n" * 100)


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "an Iceberg table": own_table,
    "directories alone": no_table,
    "a file that is no catalog": no_catalog,
    "Parquet files": lambda out: (out.mkdir(), (out / "part-0.parquet").touch()),
}


def tree(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in sorted(out.rglob("*")) if path.name != "_flintmq.lock"}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_somebody_else_made_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path)
    lake.put(2)
    FOREIGN[name](lake.out)
    before = tree(lake.out)
    for to in ("iceberg", "delta", "parquet"):
        with pytest.raises((UsageError, StoreAccessError)) as caught:
            export(lake.store, str(lake.out), to=to)
        assert "\n" not in str(caught.value)
        assert tree(lake.out) == before


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_formats_do_not_mix(tmp_path: Path, to: str) -> None:
    """A table of one format is not continued as another."""
    lake = Lake(tmp_path)
    lake.put(2)
    lake.export()
    with pytest.raises(UsageError, match="empty directory"):
        export(lake.store, str(lake.out), to=to)
    export(lake.store, f"{lake.out}2", to=to)
    with pytest.raises(UsageError, match="empty directory"):
        export(lake.store, f"{lake.out}2", to="iceberg")


def test_a_table_that_was_moved(lake: Lake) -> None:
    """Iceberg's files name each other by whole paths; a link to the table is the table."""
    os.symlink(lake.out, f"{lake.out}-link")
    lake.put(1)
    assert export(lake.store, f"{lake.out}-link", to="iceberg").rows == 1
    lake.check()
    os.rename(lake.out, f"{lake.out}2")
    with pytest.raises((UsageError, StoreAccessError), match=re.escape(str(lake.out))):
        export(lake.store, f"{lake.out}2", to="iceberg")


def test_all_that_the_catalog_names_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the catalog names a file, its bytes and its name are synced, and so is all that it names in turn."""
    synced: dict[int, int] = {}

    def watched(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(handle: int) -> None:
            real(handle)
            found = os.fstat(handle)
            synced[found.st_ino] = found.st_mtime_ns

        return sync

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    lake = Lake(tmp_path)
    for _ in range(3):
        lake.put(1)
        lake.export()
        with sqlite3.connect(lake.out / "catalog.db") as catalog:
            [(present,)] = catalog.execute("select metadata_location from iceberg_tables").fetchall()
        paths = [Path(present), *lake.out.glob("data/*/*"), *lake.out.glob("metadata/*.avro")]
        assert len(paths) >= 4
        for path in {*paths, *(path.parent for path in paths), *(path.parent.parent for path in paths)}:
            found = path.stat()
            assert found.st_ino in synced, path
            assert path.is_dir() or synced[found.st_ino] == found.st_mtime_ns, path


def test_a_full_disk_leaves_the_table_as_it_was(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    real = table_folder.sync_folder

    def full(path: Any) -> None:
        if str(path).endswith("/data"):
            raise OSError(28, "No space left on device")
        real(path)

    lake.put(2)
    with monkeypatch.context() as patched:
        patched.setattr(table_folder, "sync_folder", full)
        with pytest.raises(OSError, match="No space left"):
            lake.export()
    assert lake.bodies() == list(range(9))
    lake.export()
    lake.check()


@pytest.mark.parametrize("empty", [False, True])
def test_a_catalog_that_is_gone_is_named_by_every_door(lake: Lake, empty: bool) -> None:
    """The rows are there, and no reader knows which of them count."""
    path = lake.out / "catalog.db"
    kept = path.read_bytes()
    path.unlink()
    if empty:
        path.touch()
    doors: list[Callable[[], Any]] = [
        lake.export,
        lambda: compare_table(str(lake.store), str(lake.out)),
        lambda: scan_arrow(lake.store, history=lake.out),
    ]
    for door in doors:
        with pytest.raises(UsageError) as caught:
            door()
        assert str(caught.value) == (
            f"{lake.out} holds 'data' but no Iceberg table: catalog.db, which names its present state, is gone or "
            "empty; put that file back from a copy, give --catalog if another catalog names it, or give an empty "
            "directory"
        )
    path.write_bytes(kept)
    assert lake.export().rows == 0
    lake.check()


# -- entries of data files are those that PyIceberg makes ------------------------------------------------------------


@pytest.fixture
def filled(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.put(3, "Orders", city="Köln")
    made.put(2, "Payments")
    made.export()
    return made


def places(lake: Lake) -> list[str]:
    return [task.file.file_path for task in lake.table.scan().plan_files()]


@pytest.mark.parametrize("more", [{}, {"properties": ["city"]}, {"partition_by": ()}, {"body": "text"}])
def test_entries_are_those_of_pyiceberg(tmp_path: Path, more: dict[str, Any]) -> None:
    lake = Lake(tmp_path)
    write_store(lake.store, 500, kinds="all")
    export(lake.store, str(lake.out), to="iceberg", **more)
    table = lake.table
    ours = data_files(table.io, table.metadata, places(lake))
    assert ours == [parquet_file_to_data_file(table.io, table.metadata, place) for place in places(lake)]
    assert sum(file.record_count for file in ours) >= 500


def test_a_file_of_the_table_is_refused(filled: Lake) -> None:
    transaction = filled.table.transaction()
    with pytest.raises(ValueError, match="already"):
        add_files(transaction, places(filled)[:1], {})
    filled.check()


@pytest.mark.parametrize("merged", ["true", "false"])
def test_manifests_are_merged_as_the_table_says(filled: Lake, merged: str) -> None:
    with filled.table.transaction() as transaction:
        transaction.set_properties({"commit.manifest-merge.enabled": merged, "commit.manifest.min-count-to-merge": "2"})
    for count in (1, 2):
        filled.put(count)
        filled.export()
    snapshot = filled.table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(filled.table.io)) == (1 if merged == "true" else 3)
    filled.check()

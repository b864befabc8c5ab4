"""Delta tables that others changed: put back, grown by columns, foreign; what is durable; what readers pass over."""

import json
import os
import re
import shutil
import threading

import deltalake
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, PostCommitHookProperties

from flintmq import Message, MessageStore
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.lake.files.table_folder import DiskFolder
from flintmq.lake.shape.columns import ExportColumns
from flintmq.lake.table import delta as module
from flintmq.lake.table.delta import DeltaTarget, delta_schema
from flintmq.spark.jobs.export.job import export, export_stream
from tests.robustness.matrix.stores import SMALL
from tests.robustness.matrix.truth import rows as truth_rows

pytestmark = pytest.mark.usefixtures("in_process")


class Lake:
    """A store that is written, and a table of it."""

    def __init__(self, folder):
        self.store, self.out, self.put_so_far = folder / "store", folder / "table", 0

    def put(self, count, topic="T", **properties):
        with MessageStore(self.store, SMALL) as store:
            for _ in range(count):
                body = b"%d" % self.put_so_far
                assert store.put(Message(topic, body, properties=properties)).status.name == "PUT_OK"
                self.put_so_far += 1

    def export(self, **named):
        return export(None, str(self.store), str(self.out), to="delta", **named)

    @property
    def table(self):
        return DeltaTable(str(self.out))

    def bodies(self):
        """Of the table's rows, as numbers, in order."""
        return sorted(int(body) for body in self.table.to_pyarrow_table(columns=["body"])["body"].to_pylist())

    def check(self):
        """Each message of the log once, by the slow codecs."""
        assert self.bodies() == list(range(self.put_so_far)) and len(truth_rows(self.store)) == self.put_so_far


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path)
    for count in (3, 2, 4):
        made.put(count)
        made.export()
    assert made.table.version() == 3
    return made


def optimized(lake):
    lake.table.optimize.compact()


def by_time(lake):
    """Restored to a time: Delta's log does not tell the version."""
    for version in range(4):
        path = lake.out / "_delta_log" / f"{version:020d}.json"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] = 1_700_000_000_000 + 60_000 * version
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (1_700_000_000 + 60 * version,) * 2)
    lake.table.restore("2023-11-14T22:15:00Z")  # between versions 1 and 2


RESTORES = {
    "by one": lambda lake: lake.table.restore(2),
    "by two": lambda lake: lake.table.restore(1),
    "to the empty table": lambda lake: lake.table.restore(0),
    "there and back": lambda lake: [lake.table.restore(version) for version in (1, 3)],
    "twice": lambda lake: [lake.table.restore(version) for version in (2, 1)],
    "back to a restored one": lambda lake: [lake.table.restore(version) for version in (1, 3, 4)],
    "optimized before": lambda lake: [optimized(lake), lake.table.restore(2)],
    "optimized after": lambda lake: [lake.table.restore(2), optimized(lake)],
    "optimized": optimized,
    "a user's column after": lambda lake: [lake.table.restore(1), lake.table.alter.add_columns(Field("own", "string"))],
    "to a time": by_time,
}


@pytest.mark.parametrize("name", RESTORES)
def test_a_table_that_was_put_back_gets_its_rows_again(lake, name):
    RESTORES[name](lake)
    left = len(lake.bodies())
    lake.put(2)
    done = lake.export()
    lake.check()
    assert done.rows == lake.put_so_far - left and done.number == 4
    assert done.notes.get("table_was_put_back", 0) == (left < 9)
    assert lake.export().rows == 0
    lake.put(1)
    assert (lake.export().number, lake.export().rows) == (5, 0)
    lake.check()


def test_put_back_and_a_checkpoint(lake, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    lake.export(checkpoint=str(checkpoint))
    lake.table.restore(1)
    with pytest.raises(UsageError, match="is at export 3, .* at 1: the table was restored; remove the checkpoint"):
        lake.export(checkpoint=str(checkpoint))
    shutil.rmtree(checkpoint)
    assert lake.export(checkpoint=str(checkpoint)).rows == 6
    lake.check()
    assert json.loads((checkpoint / "export.json").read_text())["number"] == 4


def test_rows_that_a_user_deleted_stay_deleted(lake):
    lake.table.delete("physical_offset > 0")
    lake.put(1)
    assert (lake.export().rows, lake.bodies()) == (1, [0, 9])


def test_the_log_does_not_reach_back(lake):
    """Nothing tells whether it was put back: refused, where anything else might lose rows or double them."""
    lake.table.restore(1)
    lake.table.create_checkpoint()
    for version in range(5):
        (lake.out / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(
        StoreAccessError,
        match=r"0004\.json: not readable, and the table has no row of its last export, 3, so nothing shows whether it "
        r"was restored \(RESTORE\) since; set its property flintmq\.export to '3/3' if it was not",
    ):
        lake.export()


def test_put_back_while_a_stream_runs(tmp_path):
    lake = Lake(tmp_path)
    lake.put(6)

    def on_batch(done):
        if done.number == 2:
            lake.table.restore(1)

    def run(**named):
        return export_stream(None, str(lake.store), str(lake.out), to="delta", once=True, max_offsets=2, **named)

    with pytest.raises(
        StoreError, match="was restored, made again, or exported into, during this export; run it again"
    ):
        run(on_batch=on_batch)
    assert lake.bodies() == [0, 1]
    assert run().notes == {"table_was_put_back": 1}
    lake.check()


@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_is_dropped_while_a_stream_runs(tmp_path, again):
    """Also one that is made again by as many exports: numbers alone do not show that its rows are others."""
    lake, other, stop = Lake(tmp_path), tmp_path / "other", threading.Event()
    lake.put(6)

    def run(out, **named):
        return export_stream(None, str(lake.store), str(out), to="delta", once=True, max_offsets=2, **named)

    def drop(done):
        if done.number == 2:
            for path in [lake.out / "_delta_log", *lake.out.glob("topic_name=*")]:
                shutil.rmtree(path)
                if again:
                    shutil.move(other / path.name, path)

    run(other, stop=stop, on_batch=lambda done: stop.set() if done.number == 2 else None)
    with pytest.raises(StoreError, match="was restored, made again, or exported into, during this export; run it"):
        run(lake.out, on_batch=drop)
    if again:
        assert lake.bodies() == [0, 1, 2, 3] and lake.table.transaction_version("flintmq-export") == 2
    else:
        assert not DeltaTable.is_deltatable(str(lake.out))


FOREIGN = {
    "other columns": lambda out: deltalake.write_deltalake(
        out,
        pa.table({"topic_name": ["T"], "date": pa.array([20000], pa.date32()), "value": [1]}),
        partition_by=["topic_name", "date"],
    ),
    "other partitions": lambda out: deltalake.write_deltalake(out, pa.table({"value": [1]})),
    "empty, other columns": lambda out: DeltaTable.create(
        out, pa.schema([("topic_name", pa.string()), ("date", pa.date32())]), partition_by=["topic_name", "date"]
    ),
    "empty, another type": lambda out: DeltaTable.create(
        out,
        pa.schema([
            f.with_type(pa.string()) if f.name == "queue_id" else f
            for f in delta_schema(ExportColumns().schema(), ["topic_name", "date"])
        ]),
        partition_by=["topic_name", "date"],
    ),
    "our columns, somebody's rows": lambda out: deltalake.write_deltalake(
        out,
        pa.Table.from_pylist([{"topic": "T"}], delta_schema(ExportColumns().schema(), ["topic_name", "date"])),
        partition_by=["topic_name", "date"],
    ),
    "directories alone": lambda out: os.makedirs(os.path.join(out, "topic_name=T")),
    "Parquet files": lambda out: [os.makedirs(out), open(os.path.join(out, "part-0.parquet"), "w").close()],
}  # fmt: skip


def tree(out):
    return {path: path.stat().st_size for path in sorted(out.rglob("*")) if path.name != "_flintmq.lock"}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_somebody_else_made_is_refused_and_left_alone(tmp_path, name):
    lake = Lake(tmp_path)
    lake.put(2)
    FOREIGN[name](str(lake.out))
    before = tree(lake.out)
    for to in ("delta", "parquet"):
        with pytest.raises(UsageError) as caught:
            export(None, str(lake.store), str(lake.out), to=to)
        assert re.fullmatch(".*(empty directory|partitioned by).*", str(caught.value)), "one line, with a way on"
        assert tree(lake.out) == before


def test_an_empty_table_that_a_run_left_is_taken(tmp_path):
    """Killed between version 0 and 1; or made by the user with all columns and one of his own."""
    lake = Lake(tmp_path)
    lake.put(2)
    schema = delta_schema(ExportColumns().schema(), ["topic_name", "date"]).append(pa.field("own", pa.int32()))
    DeltaTable.create(str(lake.out), schema, partition_by=["topic_name", "date"])
    assert lake.export().number == 1
    lake.check()


def test_columns_are_added(tmp_path):
    """A later property is a column; rows before have null there; a user's own column lives on; others are refused."""
    lake = Lake(tmp_path)
    lake.put(2, region="eu")
    lake.export(properties=["region"])
    lake.table.alter.add_columns(Field("own", "string"))
    lake.put(2, region="us", tenant="x")
    for _ in range(2):
        lake.export(properties=["region", "tenant:customer"])
    lake.put(1, tenant="y")
    lake.export(properties=["tenant:customer", "region"])
    lake.check()
    rows = polars.scan_delta(str(lake.out)).select("physical_offset", "region", "customer", "own").collect()
    assert rows.sort("physical_offset").drop("physical_offset").rows() == [
        ("eu", None, None), ("eu", None, None), ("us", "x", None), ("us", "x", None), (None, "y", None),
    ]  # fmt: skip
    lake.put(1)
    before = tree(lake.out)
    for properties in (["region"], None, ["region:customer", "tenant"], ["region", "tenant"]):
        with pytest.raises(UsageError, match="exports with other --property"):
            lake.export(properties=properties)
    with pytest.raises(UsageError, match=r"other columns than this export \(number\)"):
        lake.table.alter.add_columns(Field("number", "integer"))
        before = tree(lake.out)
        lake.export(properties=["region", "tenant:customer", "n:number"])
    assert tree(lake.out) == before


def test_a_death_between_the_column_and_the_rows(tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    lake.put(2, a="1")
    lake.export(properties=["a"])
    lake.put(1, a="2", b="3")
    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lake.export(properties=["a", "b"])
    assert "b" in [field.name for field in lake.table.schema().fields]
    assert lake.export(properties=["a", "b"]).rows == 1
    lake.check()


def test_columns_are_added_to_parquet(tmp_path):
    """Readers that join columns by name see all; deltalake is not asked."""
    import duckdb
    import pyarrow.dataset as ds

    lake = Lake(tmp_path)
    lake.put(2, a="1")
    for properties in (["a"], ["a", "b"]):
        export(None, str(lake.store), str(tmp_path / "lake"), properties=properties)
        lake.put(1, a="2", b="3")
    schema = ExportColumns.parse(["a", "b"]).schema()
    found = ds.dataset(tmp_path / "lake", schema, partitioning="hive").to_table(columns=["physical_offset", "a", "b"])
    want = [{"a": "1", "b": None}] * 2 + [{"a": "2", "b": "3"}]
    assert found.sort_by("physical_offset").drop(["physical_offset"]).to_pylist() == want
    text = f"SELECT a, b FROM read_parquet('{tmp_path}/lake/export=*/**/*.parquet', union_by_name=true)"
    assert duckdb.sql(f"{text} ORDER BY physical_offset").to_arrow_table().to_pylist() == want


def test_the_log_lets_readers_pass_over_files(tmp_path):
    """Least and greatest values are those of the rows in each file; one file is left for a narrow question."""
    lake = Lake(tmp_path)
    for number in range(4):
        lake.put(5, topic=f"T{number % 2}")
        lake.export(partition_by=["date"])
    actions = pa.table(lake.table.get_add_actions(flatten=True)).to_pylist()
    assert len(actions) == 4 == len({action["path"] for action in actions})
    for action in actions:
        rows = pa.Table.to_pylist(pa.parquet.read_table(lake.out / action["path"], partitioning=None))
        assert action["num_records"] == len(rows) == 5
        for name in ("topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp"):
            values = [row[name] for row in rows]
            assert (action[f"min.{name}"], action[f"max.{name}"]) == (min(values), max(values)), name
            assert action[f"null_count.{name}"] == 0
    last = max(action["min.physical_offset"] for action in actions)
    dataset = lake.table.to_pyarrow_dataset()
    wanted = pa.compute.field("physical_offset") >= last
    assert len(list(dataset.get_fragments(filter=wanted))) == 1 and dataset.count_rows(filter=wanted) == 5


def test_all_that_readers_need_of_the_log_is_durable(tmp_path, monkeypatch):
    """Version 0, each commit, checkpoints and their pointer: synced after their last change, and their names too."""
    synced, real = {}, os.fsync

    def fsync(handle):
        real(handle)
        found = os.fstat(handle)
        synced[found.st_ino] = found.st_mtime_ns

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(module, "CHECKPOINT_INTERVAL", 3)
    lake = Lake(tmp_path)
    cleaned = []
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", lambda table: cleaned.append(check() or table.version()))

    def check():
        log = lake.out / "_delta_log"
        assert lake.out.stat().st_ino in synced, "the log's own name"
        for path in [log, *log.rglob("*")]:
            found = path.stat()
            assert synced.get(found.st_ino) == found.st_mtime_ns, path

    for number in range(7):
        lake.put(1)
        lake.export()
        check()
        names = {path.name for path in (lake.out / "_delta_log").iterdir()}
        assert f"{number + 1:020d}.json" in names and "00000000000000000000.json" in names
    assert {name for name in names if "checkpoint" in name} == {
        "_last_checkpoint",
        *(f"{version:020d}.checkpoint.parquet" for version in (2, 5)),
    }
    assert cleaned == [2, 5], "old commits go only when a checkpoint is durable"
    lake.check()


def test_what_is_left_alone_when_the_log_is_synced(tmp_path, monkeypatch):
    """Commits before the newest checkpoint are not synced again, nor what this process has synced."""
    lake = Lake(tmp_path)
    for _ in range(4):
        lake.put(1)
        lake.export()
    lake.table.create_checkpoint()
    count, real = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (count.append(os.readlink(f"/proc/self/fd/{handle}")), real(handle))
    )
    target = DeltaTarget(DiskFolder(lake.out))
    for expected in (["00000000000000000004.checkpoint.parquet", "00000000000000000004.json", "_last_checkpoint"], []):
        count.clear()
        target._sync_log()
        assert sorted(os.path.basename(path) for path in count if os.path.isfile(path)) == expected


def test_a_log_that_cannot_be_read_is_told(lake):
    newest = max((lake.out / "_delta_log").glob("*.json"))
    newest.write_text("{ not JSON\n")
    with pytest.raises(StoreAccessError, match="the Delta table cannot be read") as caught:
        lake.export()
    assert "\n" not in str(caught.value)


def test_hooks_of_deltalake_are_what_we_think():
    """What is switched off in favour of our own order exists."""
    assert PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False) is not None


def test_a_log_that_cannot_be_shortened_takes_no_export_back(tmp_path, monkeypatch):
    """The commit is done by then: an error would make somebody export again."""
    lake = Lake(tmp_path)
    monkeypatch.setattr(module, "CHECKPOINT_INTERVAL", 1)

    def refused(self):
        raise deltalake.exceptions.DeltaError("no checkpoint today")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_checkpoint", refused)
        lake.put(3)
        assert lake.export().notes == {"log_not_shortened": 1}
    lake.check()
    lake.put(2)
    assert lake.export().notes == {}
    lake.check()

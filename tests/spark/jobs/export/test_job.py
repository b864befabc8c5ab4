"""Export: every message once, whatever fails or runs twice, readable by everybody."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, StoreError, UsageError
from flintmq.lake.export import export_once as job
from flintmq.lake.shape.parquet import escape
from flintmq.spark.jobs.export.job import export
from tests.support.makers import hurt_body


@pytest.fixture
def in_process(in_process, monkeypatch):
    """The log is cut into five ranges."""
    monkeypatch.setattr(job, "split_count", lambda span, cores: 5)


def run(store, out, path=None, **named):
    return export(None, str(path or store.path), str(out), StoreConfig.from_keys(store.config), **named)


def exported(out):
    return sorted(
        offset
        for file in out.glob("export=*/**/*.parquet")
        for offset in pq.read_table(file)["physical_offset"].to_pylist()
    )


def offsets(store):
    return [row["physical_offset"] for row in store.live]


def test_every_message_once(golden_store, in_process, tmp_path):
    """Where more records count than Java reads (expect.json: beyond), they are exported too."""
    want, beyond = offsets(golden_store), golden_store.expect.get("beyond", 0)
    for number in (1, 0):
        done = run(golden_store, tmp_path)
        found = exported(tmp_path)
        assert found[: len(want)] == want and len(found) == len(set(found)) == len(want) + beyond
        assert (done.number, done.rows) == (number, len(found) * number)


def test_files_are_where_they_should_be(golden, in_process, tmp_path):
    store = golden("flags")
    done = run(store, tmp_path)
    manifest = json.loads((tmp_path / "export=1" / "_flintmq.json").read_text())
    files = sorted(str(file.relative_to(tmp_path / "export=1")) for file in tmp_path.glob("export=1/**/*.parquet"))
    assert sorted(manifest["files"]) == files and done.files == len(files)
    assert {file.split("/")[0] for file in files} == {f"topic_name={escape(row['topic'])}" for row in store.rows}


def cut_off(store, path, count):
    """Leave the first `count` messages of a copy."""
    end = store.rows[count]["physical_offset"]
    for file in (path / "commitlog").iterdir():
        data = file.read_bytes()
        keep = max(0, min(len(data), end - int(file.name)))
        file.write_bytes(data[:keep] + bytes(len(data) - keep))


def test_a_later_run_adds_what_is_new(golden, in_process, tmp_path):
    store = golden("basic")
    path, out = store.copy(tmp_path), tmp_path / "out"
    for count in (700, 1500):
        shutil.rmtree(path)
        store.copy(tmp_path)
        cut_off(store, path, count)
        run(store, out, path)
        assert exported(out) == offsets(store)[:count]
    done = run(store, out)
    assert (done.number, done.rows) == (3, 1500)
    assert exported(out) == offsets(store)


def test_a_run_that_fails_leaves_nothing_and_the_next_one_does_it_all(golden, in_process, monkeypatch, tmp_path):
    store = golden("basic")
    calls = []

    def failing(*args):
        calls.append(1)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return real(*args)

    real = job.export_range
    with monkeypatch.context() as patched:
        patched.setattr(job, "export_range", failing)
        with pytest.raises(OSError):
            run(store, tmp_path)
    assert exported(tmp_path) == []
    run(store, tmp_path)
    assert exported(tmp_path) == offsets(store)


def test_damage_is_an_error_or_counted(golden, in_process, tmp_path):
    store = golden("basic")
    path, out = store.copy(tmp_path), tmp_path / "out"
    row = next(row for row in store.rows[500:] if row["body_length"] > 8)
    file, _ = hurt_body(path, row["physical_offset"])
    with pytest.raises(CorruptStoreError, match=file.name):
        run(store, out, path)
    assert exported(out) == []
    done = run(store, out, path, fail_on_data_loss=False)
    assert (done.rows, done.damages, done.lost_bytes) == (2999, 1, row["size"])
    assert exported(out) == [offset for offset in offsets(store) if offset != row["physical_offset"]]


def test_another_store_is_refused(golden, in_process, tmp_path):
    run(golden("basic"), tmp_path)
    with pytest.raises(UsageError, match="another store"):
        run(golden("v540"), tmp_path)


def test_another_choice_is_refused(golden, in_process, tmp_path):
    run(golden("basic"), tmp_path, decompress=True)
    with pytest.raises(UsageError, match="exports with other --decompress"):
        run(golden("basic"), tmp_path)


def test_expired_messages_are_told(golden, in_process, tmp_path):
    store = golden("basic")
    path, out = store.copy(tmp_path), tmp_path / "out"
    cut_off(store, path, 300)
    run(store, out, path)
    files = sorted((store.path / "commitlog").iterdir())
    shutil.rmtree(path / "commitlog")
    (path / "commitlog").mkdir()
    for file in files[2:]:
        shutil.copy(file, path / "commitlog")
    with pytest.raises(StoreError, match="have expired"):
        run(store, out, path)
    run(store, out, path, fail_on_data_loss=False)
    rest = [offset for offset in offsets(store) if offset >= int(files[2].name)]
    assert exported(out) == offsets(store)[:300] + rest


def test_topics_explode_and_compression(golden, in_process, tmp_path):
    done = run(golden("batch"), tmp_path, topics=["BatchTopic"], explode=True, compression="zstd")
    singles = [r for r in golden("batch").rows if r["topic"] == "BatchTopic"]
    assert done.rows == sum(int(r["properties"]["INNER_NUM"]) if r["sys_flag"] & 128 else 1 for r in singles)
    file = next(tmp_path.glob("export=1/**/*.parquet"))
    assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"
    with pytest.raises(UsageError, match="is not one of: snappy"):
        run(golden("batch"), tmp_path, compression="zip")


@pytest.mark.spark
def test_on_spark_and_read_by_everybody(spark, golden, tmp_path):
    """Spark, Arrow, DuckDB and Polars see the same rows, with topics as they are."""
    store = golden("basic")
    path, out = store.copy(tmp_path), tmp_path / "out"
    cut_off(store, path, 1000)
    assert export(spark, str(path), str(out)).rows == 1000
    assert export(spark, str(store.path), str(out)).rows == 2000
    assert export(spark, str(store.path), str(out)).rows == 0
    want = {}
    for row in store.rows:
        want[row["topic"]] = want.get(row["topic"], 0) + 1
    frame = spark.read.parquet(str(out))
    assert {row[0]: row[1] for row in frame.groupBy("topic").count().collect()} == want
    assert sorted(row[0] for row in frame.select("physical_offset").collect()) == offsets(store)
    assert dict(frame.dtypes)["date"] == "date"
    table = pq.read_table(out)
    assert sorted(table["physical_offset"].to_pylist()) == offsets(store)
    import duckdb

    found = duckdb.sql(f"SELECT topic, count(*) FROM '{out}/export=*/**/*.parquet' GROUP BY topic").fetchall()
    assert dict(found) == want
    import polars

    assert polars.scan_parquet(f"{out}/export=*/**/*.parquet").select(polars.len()).collect().item() == 3000

"""Names of topics times readers: what each of them sees of an export, compared with what the slow codecs read."""

import json
import os
import shutil

import duckdb
import pandas
import polars
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flintmq.errors import UsageError
from flintmq.lake.shape.parquet import partition_value
from flintmq.lake.table.parquet_target import is_text
from flintmq.spark.jobs.export.job import export
from flintmq.testing.write_store import write_store
from tests.robustness.matrix.stores import NAMES as MATRIX_NAMES
from tests.robustness.matrix.stores import fill
from tests.robustness.matrix.truth import rows as truth_rows

# As numbers, dates, times and other values: each of them alone is taken for one by some reader.
VALUES = (
    "007",
    "7",
    "-1",
    "1e5",
    "2026-11-21",
    "2026-11-21 10:00:00",
    "NaN",
    "true",
    "0x1F",
    "٣",
    "1_000",
    "null",
    ".5",
)
MORE = ("Orders", "~text", "%2F", "日" * 42, "\x1b[31m", "x:y", "#?", "^`|<>")
NAMES = tuple(sorted({*MATRIX_NAMES, *MORE} - {"."}))
# As a log may have them, though no client of RocketMQ makes them.
LONG = ("日" * 127, "/" * 127, "日" * 126 + "月", ".", "..", "a/b")


def parquet_arrow(out):
    return pq.read_table(out).select(["topic", "topic_name", "physical_offset"]).to_pylist()


def parquet_dataset(out):
    return ds.dataset(out, partitioning="hive").to_table(columns=["topic", "topic_name", "physical_offset"]).to_pylist()


def parquet_pandas(out):
    return pandas.read_parquet(out)[["topic", "topic_name", "physical_offset"]].to_dict("records")


def parquet_duckdb(out):
    frame = duckdb.sql(f"SELECT * FROM read_parquet('{out}/export=*/**/*.parquet', hive_partitioning=true)")
    return frame.to_arrow_table().select(["topic", "topic_name", "physical_offset"]).to_pylist()


def parquet_polars(out):
    frame = polars.scan_parquet(f"{out}/export=*/**/*.parquet", hive_partitioning=True)
    return frame.select("topic", "topic_name", "physical_offset").collect().to_dicts()


def parquet_polars_directory(out):
    """Polars takes all files of a directory but those whose names are said to hide them."""
    frame = polars.scan_parquet(out, hidden_file_prefix="_")
    return frame.select("topic", "topic_name", "physical_offset").collect().to_dicts()


def delta_deltalake(out):
    return DeltaTable(str(out)).to_pyarrow_table(columns=["topic", "topic_name", "physical_offset"]).to_pylist()


def delta_polars(out):
    """Polars takes the values of partitions from the names of directories, not from Delta's log."""
    return polars.scan_delta(str(out)).select("topic", "topic_name", "physical_offset").collect().to_dicts()


def delta_duckdb(out):
    lake = DeltaTable(str(out)).to_pyarrow_dataset()  # noqa: F841 (DuckDB finds it by its name)
    return duckdb.sql("SELECT topic, topic_name, physical_offset FROM lake").to_arrow_table().to_pylist()


READERS = {
    "parquet": (
        parquet_arrow,
        parquet_dataset,
        parquet_pandas,
        parquet_duckdb,
        parquet_polars,
        parquet_polars_directory,
    ),
    "delta": (delta_deltalake, delta_polars, delta_duckdb),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two messages in each of these topics; and the rows by the slow codecs."""
    made = {}
    for name, topics in (("names", NAMES), ("values", VALUES), ("numbers", ("007", "7")), ("long", LONG)):
        path = tmp_path_factory.mktemp(name)
        if name == "long":
            write_store(path, 100, topics=topics, queues=1, queues_and_index=False)
        else:
            fill(path, list(topics), 1, 2 * len(topics))
        made[name] = path, [(row.topic, row.physical_offset) for row in truth_rows(path)]
        assert {topic for topic, _ in made[name][1]} == set(topics)
    return made


def wanted(rows, read):
    """(topic, topic_name, physical_offset) of each row; Delta's topic_name is the topic itself."""
    exact = read in (delta_deltalake, delta_duckdb)
    return sorted((topic, topic if exact else partition_value(topic), offset) for topic, offset in rows)


def seen(found):
    return sorted((row["topic"], row["topic_name"], row["physical_offset"]) for row in found)


@pytest.mark.parametrize("name", ["names", "values", "numbers", "long"])
@pytest.mark.parametrize("to", READERS)
def test_every_reader_sees_every_topic(stores, in_process, tmp_path, to, name):
    store, rows = stores[name]
    done = export(None, str(store), str(tmp_path / "lake"), to=to)
    assert done.rows == len(rows)
    for read in READERS[to]:
        assert seen(read(tmp_path / "lake")) == wanted(rows, read), read.__name__


@pytest.mark.parametrize("topic", VALUES)
def test_one_topic_that_looks_like_a_value(in_process, tmp_path, topic):
    fill(tmp_path / "s", [topic], 1, 1)
    export(None, str(tmp_path / "s"), str(tmp_path / "lake"))
    for read in READERS["parquet"]:
        assert seen(read(tmp_path / "lake")) == [(topic, topic, 0)], read.__name__
    hints = list((tmp_path / "lake").glob("export=1/topic_name=~text/*/*.parquet"))
    assert [pq.read_metadata(hint).num_rows for hint in hints] == [0] and not is_text(topic)


@pytest.mark.spark
def test_spark_sees_every_topic(spark, stores, in_process, tmp_path):
    """Also where it asks for one of them: the filter that the page recommends."""
    for name, (store, rows) in stores.items():
        out = str(tmp_path / name)
        export(None, str(store), out)
        frame = spark.read.parquet(out).select("topic", "topic_name", "physical_offset")
        assert seen(row.asDict() for row in frame.collect()) == wanted(rows, None)
        for topic in {"names": ("库存", "007", "a b", "it's", "back\\slash"), "numbers": ("007", "7")}.get(name, ()):
            assert frame.where(frame.topic_name == topic).count() == 2, topic


@pytest.mark.parametrize("to", READERS)
@pytest.mark.parametrize("by", [("topic_name",), ("date",), ()])
def test_other_partitions(stores, in_process, tmp_path, to, by):
    """Fewer files; the same rows; a second run adds what is new, with the same words only."""
    store, out = tmp_path / "store", tmp_path / "lake"
    shutil.copytree(stores["names"][0], store)
    done = export(None, str(store), str(out), to=to, partition_by=by)
    fill(store, ["Orders", "007"], 1, 4)
    again = export(None, str(store), str(out), to=to, partition_by=by, target_file_size=64 << 10)
    rows = [(row.topic, row.physical_offset) for row in truth_rows(store)]
    assert (done.rows, again.rows) == (2 * len(NAMES), 4) and len(rows) == done.rows + 4
    assert (done.files, again.files) == ((len(NAMES), 2) if by == ("topic_name",) else (1, 1))
    for read in READERS[to] if "topic_name" in by else ():
        assert seen(read(out)) == wanted(rows, read), read.__name__
    if to == "delta":
        table = DeltaTable(str(out))
        assert table.metadata().partition_columns == list(by)
        found = table.to_pyarrow_table()
    else:
        found = pq.read_table(out)
        folders = {os.path.relpath(root, out) for root, _, names in os.walk(out) if any("parquet" in n for n in names)}
        assert all([part.split("=")[0] for part in folder.split("/")] == ["export", *by] for folder in folders)
    assert sorted(zip(*(found[name].to_pylist() for name in ("topic", "physical_offset")), strict=True)) == sorted(rows)
    assert ("date" in found.column_names, "topic_name" in found.column_names) == ("date" in by, "topic_name" in by)
    with pytest.raises(UsageError, match=r"other --partition-by \(\["):
        export(None, str(store), str(out), to=to)


def test_partitions_that_cannot_be(stores, in_process, tmp_path):
    for by in (("date", "topic_name"), ("topic",), ("date", "date")):
        with pytest.raises(UsageError, match="is not one of: topic_name,date; topic_name; date; none"):
            export(None, str(stores["names"][0]), str(tmp_path), partition_by=by)


def test_a_directory_of_an_earlier_version(stores, in_process, tmp_path):
    """It goes on where its names are as today's; where one is not, it is refused, and nothing is added."""
    fill(tmp_path / "s", ["Orders", "a b", "%x"], 1, 3)
    out = tmp_path / "lake"

    def as_before(folder="", old=""):
        export(None, str(tmp_path / "s"), str(out))
        newest = max(out.glob("export=*"))
        told = json.loads((newest / "_flintmq.json").read_text())
        del told["names"], told["choice"]["partition_by"]
        (newest / "_flintmq.json").write_text(json.dumps(told))
        if folder:
            (newest / folder).rename(newest / old)

    as_before()
    fill(tmp_path / "s", ["库存"], 1, 1)
    as_before("topic_name=库存", "topic_name=%E5%BA%93%E5%AD%98")
    fill(tmp_path / "s", ["Orders"], 1, 1)
    with pytest.raises(UsageError, match="named this directory so that Spark reads another topic_name"):
        export(None, str(tmp_path / "s"), str(out))
    assert sorted(path.name for path in out.glob("export=*")) == ["export=1", "export=2"]
    shutil.rmtree(out / "export=2")
    assert export(None, str(tmp_path / "s"), str(out)).rows == 2
    assert {row["topic_name"] for row in parquet_arrow(out)} == {"Orders", "a b", "%x", "库存"}

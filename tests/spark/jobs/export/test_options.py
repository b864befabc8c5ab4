"""Options of an export on real stores, in batch and streaming, to Parquet and to Delta: what readers then see."""

import hashlib
import inspect
import json
import random
import zlib

import lz4.frame
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.lake.export import export_once as batch_job
from flintmq.lake.export import export_stream as local
from flintmq.lake.export.choices import ExportChoices
from flintmq.lake.read.splits import shares
from flintmq.lake.stream import plan
from flintmq.spark.jobs.export.job import StreamChoices, export, export_stream
from tests.spark.jobs.calls import tasks_as_calls
from tests.spark.stream.drive import in_queues

try:
    from compression import zstd
except ImportError:
    from backports import zstd

ORDER = StructType([StructField("id", LongType()), StructField("items", ArrayType(StringType()))])


@pytest.fixture(params=["batch", "stream"])
def mode(request, monkeypatch):
    """Either kind of export, its tasks as calls."""
    tasks_as_calls(monkeypatch, cores=4)
    monkeypatch.setattr(batch_job, "shares", lambda log, begin, end, count: shares(log, begin, end, 8))
    return request.param


def run(mode, path, out, config=None, **named):
    if mode == "stream":
        return export_stream(None, str(path), str(out), config, once=True, **named)
    return export(None, str(path), str(out), config, **named)


def read(out):
    if (out / "_delta_log").exists():
        return DeltaTable(str(out)).to_pyarrow_table()
    return pa.concat_tables([pq.ParquetFile(file).read() for file in sorted(out.glob("export=*/**/*.parquet"))])


def plain(row):
    """A body as its producer gave it, by the compressors' own packages."""
    kind = {0x000: "zlib", 0x100: "lz4", 0x200: "zstd", 0x300: "zlib"}[row["sys_flag"] & 0x700]
    body = row["body"]
    if not row["sys_flag"] & 1:
        return body
    return {"zlib": zlib.decompress, "lz4": lz4.frame.decompress, "zstd": zstd.decompress}[kind](body)


def test_decompression(golden, mode, tmp_path):
    """ZLIB, LZ4, ZSTD and the untyped bodies of old clients, as RocketMQ's compressors wrote them."""
    store = golden("flags")
    config = StoreConfig.from_keys(store.config)
    run(mode, store.path, tmp_path / "stored", config)
    run(mode, store.path, tmp_path / "plain", config, decompress=True)
    stored = {row["physical_offset"]: row for row in read(tmp_path / "stored").to_pylist()}
    given = {row["physical_offset"]: row["body"] for row in read(tmp_path / "plain").to_pylist()}
    sums = {row["physical_offset"]: row["body_sha1"] for row in store.rows}
    assert {offset: hashlib.sha1(row["body"]).hexdigest() for offset, row in stored.items()} == {
        o: sums[o] for o in stored
    }
    assert given == {offset: plain(row) for offset, row in stored.items()}
    kinds = {row["sys_flag"] & 0x701 for row in stored.values()}
    assert {0x101, 0x201, 0x301} <= kinds and len(kinds) >= 4


def test_a_topic_that_is_misspelled(golden, mode, tmp_path, caplog):
    """Once: refused, and nothing is made. As a stream the topic may come yet: told, and the target has no rows."""
    store = golden("basic")
    config = StoreConfig.from_keys(store.config)
    if mode == "batch":
        with pytest.raises(UsageError, match="the store has no topic 'Ordres'; did you mean 'Orders'"):
            run(mode, store.path, tmp_path / "out", config, topics=["Ordres"])
        assert not (tmp_path / "out").exists()
    else:
        run(mode, store.path, tmp_path / "out", config, topics=["Ordres"])
        assert "no topic 'Ordres'" in caplog.text
        assert [pq.read_metadata(path).num_rows for path in (tmp_path / "out").rglob("*.parquet")] == [0]


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_properties_and_text(golden, mode, tmp_path, to):
    store = golden("basic")
    named = {"properties": ["region", "UNIQ_KEY:id"], "body": "text", "to": to}
    done = run(mode, store.path, tmp_path, **named)
    table = read(tmp_path)
    assert "properties" not in table.schema.names and table.schema.field("body").type == pa.string()
    want = {row["physical_offset"]: row for row in store.rows}
    assert done.bad_bodies == 0 and table.num_rows == len(want) == 3000
    for row in table.to_pylist():
        there = want[row["physical_offset"]]
        assert (row["region"], row["id"]) == (there["properties"].get("region"), there["properties"].get("UNIQ_KEY"))
        assert hashlib.sha1(row["body"].encode()).hexdigest() == there["body_sha1"] and row["body_raw"] is None
    with pytest.raises(UsageError, match=r'other --property \(\[\["region", "region"\], .* there, nothing now\)'):
        run(mode, store.path, tmp_path, **named | {"properties": None})
    with pytest.raises(UsageError, match=r'body \("text" there, "bytes" now\)'):
        run(mode, store.path, tmp_path, **named | {"body": "bytes"})
    assert run(mode, store.path, tmp_path, **named | {"compression": "zstd"}).rows == 0, "files may differ, columns not"


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_json(mode, tmp_path, to):
    """Good and bad ones, in two runs, one of them compressed; the bad ones' bytes are kept and counted."""
    file, out, chance = tmp_path / "order.json", tmp_path / "out", random.Random(3)
    file.write_text(ORDER.json())
    named = {"body": "json", "body_schema": str(file), "to": to}
    want, bad = [], 0
    with MessageStore(tmp_path / "store", dev=True) as store:
        for turn in range(2):
            for n in range(40):
                value = {"id": n, "items": ["x"] * chance.randrange(3)}
                raw = json.dumps(value | {"more": turn}).encode()
                if chance.random() < 0.25:
                    raw, value, bad = raw[:-1], None, bad + 1
                flag = 0x301 if n % 5 == 0 else 0
                store.put(Message("Orders", zlib.compress(raw) if flag else raw, sys_flag=flag))
                want.append((value, None if value else raw))
            assert store.wait_dispatched(60)
            done = run(mode, tmp_path / "store", out, **named)
            assert (done.rows, done.bad_bodies) == (40, bad) and bad
            bad = 0
    rows = sorted(read(out).to_pylist(), key=lambda row: row["queue_offset"])
    assert [(row["body"], row["body_raw"]) for row in rows] == want
    if to == "delta":
        assert polars.scan_delta(str(out)).select(polars.col("body").struct.field("id").sum()).collect().item() == sum(
            value["id"] for value, _ in want if value
        )
    other = StructType([*ORDER.fields[:1]])
    file.write_text(other.json())
    with pytest.raises(UsageError, match='other --body-schema .* there, "struct<id:bigint>" now'):
        run(mode, tmp_path / "store", out, **named)


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_target_file_size(golden, mode, tmp_path, to, monkeypatch):
    """One file a topic and date where the tasks wrote many; the same rows."""
    monkeypatch.setattr(plan, "split_count", lambda *_: 8)
    store = golden("basic")
    done = run(mode, store.path, tmp_path / "a", to=to, target_file_size=8 << 20)
    many = run(mode, store.path, tmp_path / "b", to=to)
    folders = len({row["topic"] for row in store.rows})
    assert done.files == folders and many.files == 8 * folders
    assert sorted(read(tmp_path / "a")["physical_offset"].to_pylist()) == in_queues(store.rows)
    assert done.rows == many.rows == 3000
    assert not (tmp_path / "a" / "_staging").exists()


def test_the_checkpoint_is_a_copy(golden, mode, tmp_path):
    store, copy = golden("basic"), tmp_path / "copy"
    run(mode, store.path, tmp_path / "out", checkpoint=str(copy))
    told = json.loads((copy / "export.json").read_text())
    assert (told["table"], told["number"]) == (str(tmp_path / "out"), 1)
    last = max(store.rows, key=lambda row: row["physical_offset"])
    assert told["end"] >= last["physical_offset"] + last["size"]
    if mode == "stream":
        ends = {}
        for row in store.rows:
            name = f"{row['topic']}/{row['queue_id']}"
            ends[name] = max(ends.get(name, 0), row["queue_offset"] + 1)
        offsets = {key: number for key, number in told["offsets"].items() if not key.startswith("@")}
        assert offsets == ends
    (copy / "export.json").unlink()
    run(mode, store.path, tmp_path / "out", checkpoint=str(copy))
    assert json.loads((copy / "export.json").read_text()) == told, "made again from the table"
    with pytest.raises(UsageError, match="the table was restored"):
        (tmp_path / "out").rename(tmp_path / "gone")
        run(mode, store.path, tmp_path / "out", checkpoint=str(copy))


def test_spark_takes_the_keywords_of_a_local_export_that_goes_on():
    taken = inspect.signature(local.export_stream).parameters.values()
    own = {one.name for one in taken if one.kind is one.KEYWORD_ONLY} - {"workers"}
    assert StreamChoices.__annotations__.keys() == own | ExportChoices.__annotations__.keys()

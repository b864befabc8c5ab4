"""A table and what is not exported yet as one frame: every row once, whatever runs beside the read."""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import flintmq
from flintmq import Message, MessageStore
from flintmq.errors import CorruptStoreError, NotAStoreError, StoreAccessError, StoreError, UsageError
from flintmq.lake.history.history import History
from flintmq.lake.table.table_rows import open_table
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import NOT_IN_STORES, OF_STREAM, Report
from tests.support.engine import put_messages
from tests.support.exporting import Export, iceberg_table, once, whole
from tests.support.makers import patch

SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 16384, "mappedFileSizeConsumeQueue": 2000}


def put(store: Path, begin: int, end: int, topics: tuple[str, ...] = ("Orders", "库存"), **words: Any) -> None:
    with MessageStore(store, **words) as opened:
        for number in range(begin, end):
            sent = Message(
                topics[number % len(topics)], b'{"n": %d}' % number, queue_id=number % 3, tags=f"tag{number % 4}",
                properties={"n": f"{number}"},
            )  # fmt: skip
            assert opened.put(sent).status.name == "PUT_OK"


def union(store: Any, out: Path, **words: Any) -> pa.Table:
    return flintmq.scan_arrow(store, history=out, **words).read_all()


def numbers(rows: pa.Table) -> list[int]:
    """What the bodies say, in the order of the rows."""
    return [int(body[6:-1]) for body in rows["body"].to_pylist()]


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    """All columns of all rows, in the order of brokers and logs."""
    names = [name for name in ("broker", "physical_offset", "queue_offset") if name in rows.schema.names]
    found: list[dict[str, Any]] = rows.sort_by([(name, "ascending") for name in names]).to_pylist()
    return found


CHOICES: list[dict[str, Any]] = [
    {},
    {"properties": ["n", "UNIQ_KEY:id"], "body": "text", "partition_by": ()},
    {"body": "json", "body_schema": "n long"},
    {"topics": ["Orders"]},
]


@pytest.mark.parametrize("choices", CHOICES, ids=["all", "text", "json", "one topic"])
def test_the_frame_is_the_table_after_the_next_export(
    tmp_path: Path, make: Export, to: str, choices: dict[str, Any]
) -> None:
    """All columns; the second export is by the exporter, which knows nothing of frames."""
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 60)
    make(store, out, to=to, **choices)
    put(store, 60, 100)
    before = union(store, out)
    assert before.num_rows == (50 if "topics" in choices else 100)
    make(store, out, to=to, **choices)
    manifest, version = open_table(str(out))
    assert manifest.rows == (20 if "topics" in choices else 40)
    table = pa.Table.from_batches(version.batches(version.files, as_exported(before.schema)))
    assert in_order(table.cast(before.schema)) == in_order(before)


def as_exported(schema: pa.Schema) -> pa.Schema:
    """The types that exports write: times in microseconds."""
    us = pa.timestamp("us", tz="UTC")
    return pa.schema([(field.name, us if pa.types.is_timestamp(field.type) else field.type) for field in schema])


@pytest.mark.parametrize(
    "words",
    [
        {"topics": "Orders"},
        {"topics": ["Orders"]},
        {"queues": [1]},
        {"queues": [("库存", 0), ("Orders", 2)]},
        {"queues": [("Orders", 0, 3, 9), ("Orders", 1, 0, None)]},
        {"tags": ["tag1", "tag3"]},
        {"topics": "库存", "tags": "tag3"},
        {"columns": ["broker_less"]},
        {"columns": ["keys"]},
        {"columns": ["queue_offset", "topic"], "topics": "Orders"},
    ],
    ids=lambda words: "-".join(map(str, words)),
)
def test_selections_are_those_of_a_scan_of_the_log(
    tmp_path: Path, make: Export, to: str, words: dict[str, Any]
) -> None:
    """The log still has all messages, so the kernels' scan is the reference."""
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 70)
    make(store, out, to=to, partition_by=("date",))
    put(store, 70, 100)
    if words.get("columns") == ["broker_less"]:
        with pytest.raises(UsageError, match="no column 'broker_less'"):
            union(store, out, **words)
        return
    expected = flintmq.scan_arrow(store, **words).read_all()
    found = union(store, out, **words)
    assert found.schema == expected.schema
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, expected.to_pylist()))
    assert found.num_rows > 0


def test_times_select_rows_of_both(tmp_path: Path, make: Export) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 60)
    make(store, out)
    put(store, 60, 90)
    column = flintmq.scan_arrow(store, columns=["store_timestamp"]).read_all()["store_timestamp"]
    times = sorted(column.cast(pa.int64()).to_pylist())
    chosen = random.Random(1)
    for _ in range(10):
        since, until = sorted(chosen.sample(range(times[0] - 1, times[-1] + 3), 2))
        expected = flintmq.scan_arrow(store, since=since, until=until).read_all()
        assert in_order(union(store, out, since=since, until=until)) == in_order(expected)


def test_several_stores(tmp_path: Path, make: Export, to: str) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    for broker in ("a", "库存"):
        put(data / broker / "store", 0, 20)
    pattern = f"{data}/{{broker}}/store"
    make(pattern, out, to=to)
    put(data / "a" / "store", 20, 30)
    put(data / "new" / "store", 0, 5)
    (data / "库存").rename(tmp_path / "away")
    report = Report()
    found = union(pattern, out, report=report)
    assert found.schema.names[-2:] == ["broker", "store"]
    by_broker = Counter(found["broker"].to_pylist())
    assert by_broker == {"a": 30, "库存": 20, "new": 5}
    assert sorted(numbers(found)) == sorted([*range(30), *range(20), *range(5)])
    [noted] = [note.text for note in report.notes if note.code in (NOT_IN_STORES, OF_STREAM)]
    assert "broker '库存'" in noted and ("is gone" if make is once else "whose store is not read") in noted


def expire(store: Path, keep: int) -> int:
    """Delete log files as retention does, but for the newest ones; return the offset where the log begins now."""
    files = sorted((store / "commitlog").iterdir())
    for path in files[:-keep]:
        path.unlink()
    return int(files[-keep].name)


def test_what_the_log_no_longer_has_comes_from_the_table(tmp_path: Path, make: Export, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 300, **SMALL)
    make(store, out, to=to)
    put(store, 300, 320, **SMALL)
    assert expire(store, 2) > 0
    assert sorted(numbers(union(store, out))) == list(range(320))


def test_an_export_and_retention_amid_the_read(tmp_path: Path, make: Export, to: str) -> None:
    """While the rows of one version are read, others export more, and the log loses it."""
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 200, **SMALL)
    make(store, out, to=to)
    put(store, 200, 500, **SMALL)
    reader = iter(flintmq.scan_arrow(store, history=out, columns=["body"]))
    first = next(reader)
    make(store, out, to=to)
    expire(store, 1)
    put(store, 500, 510, **SMALL)
    rest = pa.Table.from_batches([first, *reader])
    assert sorted(numbers(rest)) == list(range(510))


def test_messages_that_no_export_has_are_an_error(tmp_path: Path, make: Export) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 100, **SMALL)
    make(store, out)
    put(store, 100, 400, **SMALL)
    expire(store, 1)
    with pytest.raises(StoreError, match="expired|no longer"):
        union(store, out)
    report = Report()
    found = numbers(union(store, out, strict=False, report=report))
    assert found[:100] and len(found) == len(set(found)) and set(range(100)) < set(found) < set(range(400))


def test_a_table_that_is_rewritten_amid_the_read_is_an_error(tmp_path: Path, make: Export) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    for begin in (0, 100):
        put(store, begin, begin + 100, **SMALL)
        make(store, out, to="delta", partition_by=())
    put(store, 200, 500, **SMALL)
    reader = iter(flintmq.scan_arrow(store, history=out))
    next(reader)
    make(store, out, to="delta", partition_by=())
    assert DeltaTable(str(out)).optimize.compact()["numFilesRemoved"]
    expire(store, 1)
    with pytest.raises(StoreError, match="rewritten while it was read; read it again"):
        list(reader)


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_rows_that_somebody_compacted_come_once(tmp_path: Path, make: Export, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    for begin in range(0, 100, 25):
        put(store, begin, begin + 25)
        make(store, out, to=to, partition_by=())
    if to == "delta":
        DeltaTable(str(out)).optimize.compact()
    else:
        table = iceberg_table(out)
        table.overwrite(table.scan().to_arrow())
    put(store, 100, 110)
    assert sorted(numbers(union(store, out))) == list(range(110))


def test_refused(tmp_path: Path, make: Export) -> None:
    store, other, out = tmp_path / "store", tmp_path / "other", tmp_path / "out"
    put(store, 0, 10)
    put(other, 500, 520)
    with pytest.raises(UsageError, match="holds no table that an export made"):
        union(store, tmp_path / "nothing")
    for wrong in (5, "", [str(out)], b""):
        with pytest.raises(UsageError, match="history is the directory of a table that exports made, not"):
            union(store, wrong)  # type: ignore[arg-type]
    make(store, out, topics=["Orders"])
    for words, text in (
        ({"views": True}, "views does not apply to a read with history"),
        ({"begin": 0}, "begin does not apply"),
        ({"end": 5}, "end does not apply"),
        ({"decompress": True}, "decompress does not apply"),
        ({"topics": "库存"}, "topic '?库存'? was not exported into it, only '?Orders"),
    ):
        with pytest.raises(UsageError, match=text):
            union(store, out, **words)
    with pytest.raises((UsageError, StoreError), match="another store|truncated"):
        union(other, out)
    with pytest.raises(UsageError, match="is a table of one store"):
        union([store], out)
    with pytest.raises(NotAStoreError):
        union(tmp_path / "gone", out)
    [file] = [path for path in out.rglob("*.parquet") if path.stat().st_size > 100][:1]
    file.write_bytes(b"PAR1")
    with pytest.raises(StoreAccessError, match="not readable as a file of an export"):
        union(store, out)


def test_damage_in_the_log_is_told(tmp_path: Path, make: Export) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 50)
    make(store, out)
    put(store, 50, 100)
    end = flintmq.scan_arrow(store, columns=["physical_offset"]).read_all()["physical_offset"].to_pylist()
    [log] = (store / "commitlog").iterdir()
    patch(log, end[70] + 4, b"\xff\xff")
    with pytest.raises(CorruptStoreError):
        union(store, out)
    report = Report()
    found = numbers(union(store, out, strict=False, report=report))

    assert sorted(found) == [n for n in range(100) if n != 70] and report.damage_count == 1


NUMBER = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}


def put_avro(store: Path, begin: int, end: int, head: bytes = b"") -> None:
    """Put numbers as Avro writes them: zigzag, one byte for those below 64."""
    put_messages(store, (Message("Orders", head + bytes([2 * number])) for number in range(begin, end)))


def avro_rows(store: Path, out: Path) -> list[tuple[dict[str, int] | None, bytes | None]]:
    table = union(store, out).select(["body", "body_raw"])
    return [(row["body"], row["body_raw"]) for row in table.to_pylist()]


def test_avro_bodies(tmp_path: Path, make: Export, to: str) -> None:
    schema, store, out = tmp_path / "body.avsc", tmp_path / "store", tmp_path / "out"
    schema.write_text(json.dumps(NUMBER))
    put_avro(store, 0, 5)
    make(store, out, to=to, body="avro", body_schema=str(schema))
    put_avro(store, 5, 9)
    put_messages(store, [Message("Orders", b"")])
    schema.unlink()  # the table has it
    assert avro_rows(store, out) == [*(({"n": n}, None) for n in range(9)), (None, b"")]


def test_avro_bodies_of_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, out, head = tmp_path / "store", tmp_path / "out", b"\0\0\0\0\x07"
    (tmp_path / "schemas").mkdir()
    for name in ("schemas/7.avsc", "body.avsc"):
        (tmp_path / name).write_text(json.dumps(NUMBER))
    put_avro(store, 0, 5, head)
    monkeypatch.chdir(tmp_path)
    schema = str(tmp_path / "body.avsc")
    whole(store, out, body="avro", body_schema=schema, body_head=True, schema_registry="schemas")
    put_avro(store, 5, 9, head)
    monkeypatch.chdir("/")
    assert avro_rows(store, out) == [({"n": n}, None) for n in range(9)]


def test_protobuf_bodies(tmp_path: Path, make: Export) -> None:
    from tests.support import shop_proto

    store, out = tmp_path / "store", tmp_path / "out"
    path = shop_proto.write(tmp_path, shop_proto.timestamps(), shop_proto.shop())
    for number in range(3):
        sent = shop_proto.message("shop.Everything")
        sent.int32 = number
        put_messages(store, [Message("Orders", sent.SerializeToString())])
        if number == 1:
            make(store, out, body="protobuf", body_schema=path, body_message="shop.Everything")
    Path(path).unlink()
    assert [row["body"]["int32"] for row in union(store, out).to_pylist()] == [0, 1, 2]


def test_a_large_schema_is_not_kept(tmp_path: Path) -> None:
    schema = tmp_path / "body.avsc"
    schema.write_text(json.dumps(NUMBER | {"doc": "x" * 20_000}))
    put_avro(tmp_path / "store", 0, 5)
    whole(tmp_path / "store", tmp_path / "out", body="avro", body_schema=str(schema))
    with pytest.raises(UsageError, match="bodies were exported as avro, whose schema is not in the table"):
        union(tmp_path / "store", tmp_path / "out")


@pytest.fixture
def frame(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A store and its table; 40 of 60 messages are exported."""
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 40)
    whole(store, out)
    put(store, 40, 60)
    yield store, out


def test_datasets_read_anew(frame: tuple[Path, Path]) -> None:
    import pyarrow.compute as pc

    store, out = frame
    rows = flintmq.dataset(store, history=out)
    assert rows.schema == flintmq.dataset(store).schema
    assert rows.count_rows() == 60 and rows.count_rows(filter=pc.field("topic") == "Orders") == 30
    put(store, 60, 70)
    assert rows.count_rows() == 70
    whole(store, out)
    assert rows.count_rows() == 70
    assert sorted(numbers(rows.to_table(columns=["body"], filter=pc.field("queue_id") == 1))) == [*range(1, 70, 3)]


def test_polars_and_duckdb(frame: tuple[Path, Path]) -> None:
    import duckdb
    import polars as pl

    store, out = frame
    for access in ("pread", "map"):
        lazy = flintmq.scan_polars(store, history=out, access=access)
        counted = lazy.filter(pl.col("topic") == "Orders").group_by("queue_id").len().collect()
        assert dict(counted.iter_rows()) == {0: 10, 1: 10, 2: 10}
        messages = flintmq.dataset(store, history=out, access=access)  # noqa: F841  (DuckDB finds it by name)
        found = duckdb.sql("select topic, count(*), max(queue_offset) from messages group by 1 order by 1").fetchall()
        assert found == [("Orders", 30, 9), ("库存", 30, 9)]


def test_a_filter_keeps_the_history(frame: tuple[Path, Path]) -> None:
    """What the log does not have any more is in the table alone."""
    import pyarrow.compute as pc

    store, out = frame
    rows = flintmq.dataset(store, history=out).filter(pc.field("topic") == "Orders")
    shutil.rmtree(out / "export=1" / "topic_name=Orders")
    with pytest.raises(StoreAccessError, match="is missing"):
        rows.count_rows()


def test_a_table_that_was_replaced_by_one_of_another_form_is_refused(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 10)
    whole(store, out)
    opened = History.open(store, str(out), Predicate())
    shutil.rmtree(out)
    whole(store, out, body="text")
    with pytest.raises(UsageError, match="got other columns while it was read"):
        opened.newest()

"""Views: the rows of copies, bytes that outlive the reader, and the engines that take them."""

import gc
import io
import os
import pickle
import random
import resource
import shutil
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import flintmq
from flintmq import scan_arrow
from flintmq.arrow import batches as batches_module
from flintmq.arrow.schema import CODES, SCHEMA, VIEW_SCHEMA, has_views, narrow
from flintmq.errors import CorruptStoreError
from flintmq.frames import dataset as dataset_module
from flintmq.frames.dataset import dataset
from flintmq.store.commitlog.report import Report
from flintmq.testing import write_store
from tests.compat.stores import Golden
from tests.support.arrow_rows import store_of
from tests.support.kernel_records import COUNTING, HOST4, HOST6, LONG_WINDED
from tests.support.makers import hurt_body

ACCESS = ("pread", "map")


def read(path: Any, **options: Any) -> list[pa.RecordBatch]:
    """The batches of a scan with views, each checked by Arrow in full: offsets, prefixes, UTF-8, dictionaries."""
    reader = scan_arrow(path, views=True, **options)
    assert reader.schema == narrow(options.get("columns"), VIEW_SCHEMA)
    batches = list(reader)
    for batch in batches:
        batch.validate(full=True)
    return batches


def assert_same(path: Any, **options: Any) -> pa.Table:
    """Column by column, row by row: views cast to the copied schema are the copies."""
    copied = scan_arrow(path, **options).read_all()
    batches = read(path, **options)
    viewed = pa.Table.from_batches(batches, narrow(options.get("columns"), VIEW_SCHEMA))
    for name in copied.schema.names:
        assert viewed[name].cast(copied.schema.field(name).type).equals(copied[name]), name
        if not pa.types.is_timestamp(copied[name].type):  # some are outside the years of Python
            assert viewed[name].to_pylist() == copied[name].to_pylist(), name
    assert viewed.num_rows == copied.num_rows
    return viewed


def test_the_schema_is_a_variant_of_the_one() -> None:
    assert VIEW_SCHEMA.names == SCHEMA.names
    assert [field.nullable for field in VIEW_SCHEMA] == [field.nullable for field in SCHEMA]
    kinds = {field.name: str(field.type) for field in VIEW_SCHEMA if field.type != SCHEMA.field(field.name).type}
    assert kinds == {
        **dict.fromkeys(("topic", "born_host", "store_host", "magic"), str(CODES)),
        **dict.fromkeys(("tags", "keys", "msg_id"), "string_view"),
        "body": "binary_view",
        "properties": str(pa.map_(pa.string_view(), pa.string_view())),
    }
    assert has_views(VIEW_SCHEMA) and not has_views(SCHEMA) and not has_views(narrow(["size"], VIEW_SCHEMA))


@pytest.fixture
def read_schemas(monkeypatch: pytest.MonkeyPatch) -> list[pa.Schema]:
    """The schemas of all reads of datasets."""
    found: list[pa.Schema] = []
    read_store = dataset_module.StoreDataset.read

    def noted(self: Any, schema: pa.Schema, *rest: Any) -> Any:
        found.append(schema)
        return read_store(self, schema, *rest)

    monkeypatch.setattr(dataset_module.StoreDataset, "read", noted)
    return found


@pytest.mark.parametrize(
    ("question", "viewed"),
    [
        ("select topic, max(tags), sum(octet_length(body)) from messages group by 1", True),
        ("select max(body) from messages where topic = 'Orders'", False),
        ("select max(body) from messages where octet_length(body) > 30", True),
        ("set threads to 1; select max(body) from messages", True),
        ("create temp table t as select 1; select max(body) from messages", False),
    ],
)
def test_sql_uses_views_where_they_are_faster(
    golden: Any, read_schemas: list[pa.Schema], question: str, viewed: bool
) -> None:
    """Of mapped files, where the scan is to drop no rows (experiments/2026-11-22-views.md)."""
    sql = pytest.importorskip("flintmq.frames.sql", reason="duckdb is not installed")
    for options, may in (({"access": "map"}, True), ({}, False), ({"access": "map", "topics": "Orders"}, False)):
        with sql.ask(dataset(golden("basic").path, **options), question) as answer:
            answer.read_all()
        assert has_views(read_schemas[-1]) is (viewed and may), options


def test_polars_uses_views_where_they_are_faster(golden: Any, read_schemas: list[pa.Schema]) -> None:
    """For all rows, and of mapped files also for those that Polars itself chooses."""
    pl = pytest.importorskip("polars", reason="polars is not installed")
    orders = scan_arrow(golden("basic").path, topics="Orders").read_all()
    named, long = pl.col("topic") == "Orders", pl.col("body").bin.size() > 30
    for options, filters, viewed in (
        ({}, [], True),
        ({}, [long], False),
        ({}, [named], False),
        ({"access": "map"}, [], True),
        ({"access": "map"}, [long], True),
        ({"access": "map"}, [long, named], False),
        ({"access": "map", "topics": "Orders"}, [], False),
    ):
        rows = flintmq.scan_polars(golden("basic").path, **options).filter(*filters).collect()
        assert has_views(read_schemas[-1]) is viewed, (options, filters)
        copied = pl.from_arrow(orders if options.get("topics") else scan_arrow(golden("basic").path).read_all())
        copied = copied.filter(*filters)
        assert rows.equals(copied) and rows.schema == copied.schema and len(rows)


@pytest.mark.parametrize("access", ACCESS)
def test_golden_stores(golden_store: Golden, access: str) -> None:
    assert_same(golden_store.path, access=access, set=golden_store.config)
    assert_same(golden_store.path, access=access, set=golden_store.config, decompress=True, strict=False)


@pytest.mark.parametrize("name", SCHEMA.names)
def test_each_column_alone_and_with_a_number(golden: Any, name: str) -> None:
    for access in ACCESS:
        assert_same(golden("basic").path, columns=[name], access=access)
    assert_same(golden("basic").path, columns=["queue_offset", name] if name != "queue_offset" else [name, "size"])


@pytest.mark.parametrize(
    "options",
    [
        {"topics": "Payments"},
        {"queues": [("Payments", 1, 5, 9)]},
        {"queues": [("Payments", 1, 5, 6)], "columns": ["body", "topic"]},
        {"since": 1795167380700},
        {"until": 1795167380700, "columns": ["properties", "store_host"]},
        {"tags": "TagA", "batch_bytes": 3000},
        {"topics": "no such"},
        {"threads": 3},
        {"threads": 2, "batch_bytes": 1, "columns": ["tags", "body"]},
        {"batch_bytes": 1},
        {"batch_bytes": 10_000},
    ],
    ids=str,
)
def test_rows_and_sizes(golden: Any, options: dict[str, Any]) -> None:
    for store in ("basic", "rolled"):
        for access in ACCESS:
            assert_same(golden(store).path, access=access, strict=False, **options)  # not each has the topics


@pytest.mark.parametrize("access", ACCESS)
def test_damage(golden: Any, tmp_path: Path, access: str) -> None:
    path = golden("basic").copy(tmp_path)
    for row in (100, 101, 200):
        hurt_body(path, golden("basic").rows[row]["physical_offset"])
    with pytest.raises(CorruptStoreError):
        read(path, access=access)
    reports = Report(), Report()
    assert_same(path, access=access, strict=False, report=reports[0])
    assert reports[0].damage_count == 2 * 2  # two scans of two places


def test_every_odd_record(tmp_path: Path) -> None:
    odd = [{"topic": b"\xff", "born_host": HOST6, "properties": text} for text in LONG_WINDED.values()]
    store = store_of(tmp_path / "s", *(COUNTING * 3 + odd * 40 + [{}] * 50 + odd[:1] + COUNTING) * 2)
    for access in ACCESS:
        for batch_bytes in (1000, 8 << 20):
            assert_same(store, access=access, batch_bytes=batch_bytes)
    for name in ("topic", "born_host", "properties", "tags"):
        assert_same(store, columns=[name])


def test_rows_that_are_all_left_to_python(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", *[{"topic": b"\xff\xfe", "born_host": HOST6, "store_host": HOST6}] * 300)
    for column in ("topic", "born_host", "store_host", "offset_msg_id", "properties"):
        assert_same(store, columns=[column])
    assert_same(store)


def test_compressed_bodies(tmp_path: Path) -> None:
    small, large = zlib.compress(b"a" * 5), zlib.compress(b"b" * 100_000)
    changes = [{"body": small, "sys_flag": 1}, {"body": b"as it is"}, {"body": large, "sys_flag": 1}, {"body": b""}]
    store = store_of(tmp_path / "s", *changes * 50)
    for options in ({}, {"batch_bytes": 200_000}, {"columns": ["body"]}):
        table = assert_same(store, decompress=True, **options)
        assert table["body"].to_pylist() == [b"a" * 5, b"as it is", b"b" * 100_000, b""] * 50
    assert_same(store)


def test_dictionaries_that_fill_up(tmp_path: Path) -> None:
    hosts = [bytes([10, 1, n >> 8, n & 255]) + (1000 + n).to_bytes(4, "big") for n in range(5000)]
    topics = [b"t%d" % n * (1 + n % 9) for n in range(5000)]
    changes = [{"born_host": host, "topic": topic} for host, topic in zip(hosts, topics, strict=True)]
    store = store_of(tmp_path / "s", *changes, *changes[:100])
    table = assert_same(store)
    assert max(len(chunk.dictionary) for chunk in table["born_host"].chunks) > 1000
    assert_same(store, columns=["topic", "born_host"], batch_bytes=50_000)


@pytest.mark.parametrize("seed", range(4))
def test_random_stores(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    def text(most: int) -> bytes:
        return "".join(chance.choice("abcé报😀") for _ in range(chance.randrange(most))).encode()

    changes = []
    for _ in range(400):
        pairs = b"".join(
            (
                chance.choice([b"TAGS", b"KEYS", b"UNIQ_KEY", b"a" * chance.randrange(1, 20)])
                + b"\x01"
                + text(20)
                + b"\x02"
            )
            for _ in range(chance.randrange(5))
        )
        change: dict[str, Any] = {"body": chance.randbytes(chance.choice((0, 1, 11, 12, 13, 16, 300)))}
        change |= {"topic": text(15) or b"t", "properties": pairs, "born_host": chance.choice((HOST4, HOST6))}
        changes.append(change)
    store = store_of(tmp_path / "s", *changes)
    for access in ACCESS:
        assert_same(store, access=access)
        assert_same(store, access=access, batch_bytes=chance.choice((1, 5000, 40_000)), threads=2)


# -- lifetime ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESS)
def test_batches_outlive_reader_files_and_each_other(golden: Any, tmp_path: Path, access: str) -> None:
    path = golden("basic").copy(tmp_path)
    expected = scan_arrow(path, ["body", "msg_id", "properties"]).read_all().to_pylist()
    reader = scan_arrow(path, ["body", "msg_id", "properties"], access=access, views=True, batch_bytes=20_000)
    batches = list(reader)
    assert len(batches) > 3
    shutil.rmtree(path)
    del reader
    part = batches[2].slice(5, 3)
    rows = sum(batch.num_rows for batch in batches[:2])
    assert [row for batch in batches for row in batch.to_pylist()] == expected
    batches.clear()
    gc.collect()
    assert part.to_pylist() == expected[rows + 5 : rows + 8]


def mapped_logs() -> int:
    return Path("/proc/self/maps").read_text().count("/commitlog/")


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs the list of this process's maps")
def test_a_map_goes_with_its_last_batch(golden: Any, tmp_path: Path) -> None:
    path = golden("basic").copy(tmp_path)
    gc.collect()
    before = mapped_logs()
    batches = read(path, access="map", columns=["body"])
    column = batches[0].column(0).slice(7, 1)
    del batches
    gc.collect()
    assert mapped_logs() > before
    assert len(column[0].as_py()) > 0
    del column
    gc.collect()
    assert mapped_logs() == before
    kept = read(path, access="map", columns=["size", "queue_id"])
    assert kept and mapped_logs() == before  # no column refers to the log


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs the list of this process's maps")
def test_a_result_over_2000_files_holds_no_descriptor_of_them(tmp_path: Path) -> None:
    """A process may have 1024 by default; it has here as many as it uses, and 64."""
    store = tmp_path / "s"
    write_store(store, 4000, body_bytes=100, commit_log_file_size=640, queues_and_index=False)
    assert len(list((store / "commitlog").iterdir())) >= 2000
    expected = scan_arrow(store, ["body"]).read_all()["body"].to_pylist()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 64, hard))
    try:
        for options in ({}, {"threads": 2}):
            table = pa.Table.from_batches(list(scan_arrow(store, ["body"], access="map", views=True, **options)))
            assert len(os.listdir("/proc/self/fd")) < used + 5
            assert table["body"].to_pylist() == expected
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_few_rows_of_much_log_do_not_hold_it(golden: Any) -> None:
    (batch,) = read(golden("basic").path, queues=[("Payments", 1, 5, 7)], columns=["body"])
    held = sum(buffer.size for buffer in batch.column(0).buffers()[2:])
    assert batch.num_rows == 2 and held < 2000


def test_a_batch_holds_the_bytes_of_its_rows(golden: Any) -> None:
    store = golden("basic")
    sizes = scan_arrow(store.path, ["size"]).read_all()["size"].to_pylist()
    for access in ACCESS:
        at = 0
        for batch in read(store.path, access=access, batch_bytes=50_000, columns=["body"]):
            held = sum(buffer.size for buffer in batch.column(0).buffers()[2:])
            assert held == sum(sizes[at : at + batch.num_rows])
            at += batch.num_rows
        assert at == len(sizes)


def log_buffers(batch: pa.RecordBatch) -> list[pa.Buffer]:
    """The buffers with bytes of the log that a batch of one column of views holds."""
    return batch.column(0).buffers()[2:]


@pytest.mark.parametrize("access", ACCESS)
def test_rows_beside_large_messages_do_not_hold_these(tmp_path: Path, access: str) -> None:
    """One of two records of each piece is wanted, but a thousandth of its bytes."""
    pair = {"topic": b"Small", "body": b"s" * 100}, {"topic": b"Large", "body": bytes(600_000)}
    store = store_of(tmp_path / "s", *pair * 30, file_size=20 << 20)
    gc.collect()
    before = pa.total_allocated_bytes()
    batches = read(store, topics="Small", columns=["body"], access=access)
    assert pa.total_allocated_bytes() - before < 2 << 20
    assert sum(buffer.size for batch in batches for buffer in log_buffers(batch)) < 30 * 400
    assert [len(log_buffers(batch)) for batch in batches] == [1] if access == "pread" else len(batches) == 1
    assert pa.Table.from_batches(batches)["body"].to_pylist() == [b"s" * 100] * 30
    assert_same(store, topics="Small", access=access)


def test_all_rows_of_a_buffer_that_is_mostly_empty_are_copied(tmp_path: Path) -> None:
    """A large record that begins in a piece is read again with the next one: the first holds a few rows only."""
    store = store_of(tmp_path / "s", *[{"body": b"s" * 100}, {"body": bytes(3 << 20)}] * 4, file_size=20 << 20)
    gc.collect()
    before = pa.total_allocated_bytes()
    batches = read(store, columns=["body"])
    assert pa.total_allocated_bytes() - before < 4 * (3 << 20) + (2 << 20)
    assert sum(batch.num_rows for batch in batches) == 8
    assert_same(store)


@pytest.mark.parametrize("access", ACCESS)
def test_copies_between_views_share_buffers(tmp_path: Path, access: str) -> None:
    """Pieces with many wanted rows and pieces with few take turns."""
    many, large = [{"topic": b"T", "body": b"m" * 900}] * 1200, [{"topic": b"O", "body": bytes(200_000)}] * 5
    store = store_of(tmp_path / "s", *(many + (large + many[:3]) * 8) * 2, file_size=20 << 20)
    batches = read(store, topics="T", columns=["body"], access=access)
    rows = sum(batch.num_rows for batch in batches)
    held = [buffer.size for batch in batches for buffer in log_buffers(batch)]
    assert rows == 2 * (1200 + 24) and len(batches) == 1
    assert len(held) <= (4 if access == "map" else 6)
    assert sum(held) < 1.2 * rows * 1100
    assert_same(store, topics="T", access=access)


@pytest.mark.parametrize("access", ACCESS)
def test_an_undecodable_body_among_others_is_told_at_its_place(tmp_path: Path, access: str) -> None:
    wrong = {"topic": b"T", "body": b"no zlib", "sys_flag": 1}
    store = store_of(tmp_path / "s", *[{"topic": b"O"}] * 5, wrong, *[{"topic": b"O"}] * 5)
    at = scan_arrow(store, ["physical_offset"], topics="T").read_all().column(0)[0].as_py()
    with pytest.raises(CorruptStoreError, match=f"position {at}: the body is no ZLIB stream"):
        read(store, topics="T", decompress=True, access=access)
    report = Report()
    assert_same(store, topics="T", decompress=True, access=access, strict=False, report=report)
    assert any(f"position {at}:" in text for text in str(report.notes).split(", "))


def test_a_log_file_larger_than_offsets_of_views(tmp_path: Path) -> None:
    """The file is mapped whole, so its bytes reach further than a view can say."""
    store = store_of(tmp_path / "s", *[{"body": b"b" * 30}] * 5, file_size=1 << 12)
    os.truncate(store / "commitlog" / ("0" * 20), 3 << 30)
    assert sum(batch.num_rows for batch in read(store, access="map", columns=["body"])) == 5
    assert_same(store, access="map", columns=["body", "tags", "properties"])


def test_patched_rows_share_a_buffer(tmp_path: Path) -> None:
    """Not one for each row beside all others."""
    packed = {"body": zlib.compress(b"z" * 50), "sys_flag": 1}
    store = store_of(tmp_path / "s", *[{"body": b"plain" * 5}, packed] * 300)
    (batch,) = read(store, columns=["body"], decompress=True)
    assert batch.column(0).to_pylist() == [b"plain" * 5, b"z" * 50] * 300
    assert len(log_buffers(batch)) == 2
    odd = {"properties": b"A\x01" + b"1" * 20 + b"\x02A\x01" + b"2" * 20 + b"\x02TAGS\x01" + b"t" * 15 + b"\x02"}
    store = store_of(tmp_path / "t", *[{}, odd] * 300)
    (batch,) = read(store, columns=["properties", "tags"])
    names, values = batch.column(0).values.flatten()
    assert len(values.buffers()[2:]) == 2 and len(batch.column(1).buffers()[2:]) == 2 and not names.buffers()[2:]
    assert_same(store)


@pytest.mark.parametrize("longest_at", [None, 0, 63, 64, 199])
def test_columns_whose_texts_are_within_their_views_hold_no_log(tmp_path: Path, longest_at: int | None) -> None:
    text = [b"t" * (13 if row == longest_at else 12) for row in range(200)]
    store = store_of(tmp_path / "s", *[{"body": b"b" * 13, "properties": b"TAGS\x01" + tag + b"\x02"} for tag in text])
    batch = assert_same(store).to_batches()[0]
    held = {name: bool(batch[name].buffers()[2:]) for name in ("tags", "keys", "body")}
    assert held == {"tags": longest_at is not None, "keys": False, "body": True}
    assert not batch["properties"].values.field(0).buffers()[2:]


def test_much_log_ends_a_batch(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "_HELD", 0.001)
    assert len(read(golden("basic").path, columns=["body"])) > 1
    assert_same(golden("basic").path, columns=["body", "topic"])


# -- other libraries --------------------------------------------------------------------------------------------------


def test_written_sent_and_pickled(golden: Any, tmp_path: Path) -> None:
    copied = scan_arrow(golden("basic").path).read_all()
    batches = read(golden("basic").path, access="map", batch_bytes=100_000)
    table = pa.Table.from_batches(batches)
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, VIEW_SCHEMA) as writer:
        for batch in batches:
            writer.write(batch)
    assert pa.ipc.open_stream(stream.getvalue()).read_all().cast(SCHEMA).equals(copied)
    file = io.BytesIO()
    with pa.ipc.new_file(file, VIEW_SCHEMA) as writer:
        writer.write_table(table.unify_dictionaries().combine_chunks())
    assert pa.ipc.open_file(file.getvalue()).read_all().cast(SCHEMA).equals(copied)
    again = pickle.loads(pickle.dumps(batches[1]))
    assert again.equals(batches[1])
    pq.write_table(table, tmp_path / "views.parquet", store_schema=False)
    assert pq.read_table(tmp_path / "views.parquet").cast(SCHEMA).equals(copied)
    frame = table.select(["topic", "tags", "body", "size"]).to_pandas()
    assert frame["topic"].astype(str).tolist() == copied["topic"].to_pylist()
    assert frame["body"].tolist() == copied["body"].to_pylist()


def test_duckdb_and_polars_read_them(golden: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    copied = scan_arrow(golden("basic").path).read_all()
    viewed = pa.Table.from_batches(read(golden("basic").path, batch_bytes=100_000))
    question = (
        "select topic, max(tags), sum(octet_length(body)), max(properties['KEYS']), min(born_host) from {} group by 1"
    )
    assert duckdb.sql(question.format("viewed") + " order by 1").fetchall() == (
        duckdb.sql(question.format("copied") + " order by 1").fetchall()
    )
    frame = polars.from_arrow(viewed)
    assert frame["body"].to_list() == copied["body"].to_pylist()
    assert frame["tags"].to_list() == copied["tags"].to_pylist()
    assert frame["topic"].cast(polars.String).to_list() == copied["topic"].to_pylist()


def test_a_dataset_filters_and_keeps_its_types(golden: Any) -> None:
    plain, views = dataset(golden("basic").path), dataset(golden("basic").path, views=True)
    assert views.schema == VIEW_SCHEMA
    for filter in (None, pc.field("topic") == "Payments", pc.field("keys").is_null(), pc.field("size") > 200):
        for columns in (None, ["body", "topic"], ["msg_id"], ["size"]):
            table = views.scanner(columns=columns, filter=filter).to_table()
            assert table.schema == narrow(columns, VIEW_SCHEMA)
            assert table.cast(narrow(columns)).equals(plain.scanner(columns=columns, filter=filter).to_table())
    assert views.count_rows() == plain.count_rows() == 3000
    assert views.filter(pc.field("topic") == "Orders").count_rows() == 763
    assert views.head(3).schema == VIEW_SCHEMA


def test_duckdb_reads_a_dataset_of_views(golden: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    views = dataset(golden("basic").path, views=True)  # DuckDB finds it by name
    plain = dataset(golden("basic").path)
    for condition in ("topic = 'Orders'", "tags = 'TagA'", "queue_id = 1", "octet_length(body) > 50", "keys is null"):
        question = f"select count(*), max(msg_id), min(topic) from {{}} where {condition}"
        assert duckdb.sql(question.format("views")).fetchall() == duckdb.sql(question.format("plain")).fetchall()
    assert views is not plain


@pytest.mark.parametrize("access", ACCESS)
def test_a_head_after_a_filter_of_polars_holds_few_rows(tmp_path: Path, access: str) -> None:
    """Polars does not tell the scan of the head, and would cut its rows out of a whole batch."""
    pl = pytest.importorskip("polars", reason="polars is not installed")
    store = store_of(tmp_path / "s", *[{"body": b"%05d" % n * 200} for n in range(3000)])
    for chosen in (pl.col("queue_id") >= 0, pl.col("body").bin.size() > 5, pl.col("topic") != "none"):
        frame = flintmq.scan_polars(store, access=access)
        expected = frame.collect()
        results = [frame.filter(chosen).head(2).collect() for _ in range(10)]
        gc.collect()
        assert all(result.equals(expected.head(2)) for result in results)
        assert frame.filter(chosen).collect().equals(expected)
        assert frame.filter(chosen).head(1000).collect().equals(expected.head(1000))
        before = pa.total_allocated_bytes()
        results.clear()
        gc.collect()
        assert before - pa.total_allocated_bytes() < 12 << 20, "ten batches take 90 MB"

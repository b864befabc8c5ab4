"""What a replay reads: chunks hold every row once, in order."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintmq import Message, scan_arrow
from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.export.export import CHOICES
from flintmq.lake.export.export_once import export
from flintmq.lake.table.parquet_target import MANIFEST
from flintmq.lake.table.target import Manifest
from flintmq.spark.jobs.replay.source import open_source, rows_of
from flintmq.store.commitlog.report import Report
from tests.spark.jobs.replay.test_rows import batch_of
from tests.support.engine import put_messages
from tests.support.object_server import BUCKET, KEYS, Server, running


def table(root: Path, *files: list[int]) -> Path:
    """A directory with an export of these log offsets, a file each."""
    (root / "export=1" / "topic_name=T").mkdir(parents=True)
    for number, offsets in enumerate(files):
        rows = batch_of(*({"physical_offset": offset, "size": 1} for offset in offsets))
        path = root / "export=1" / "topic_name=T" / f"{number}.parquet"
        pq.write_table(pa.Table.from_batches([rows]), path, row_group_size=4)
    return described(root, 1)


def described(root: Path, number: int) -> Path:
    """Give an export the manifest that makes it one."""
    folder = root / f"export={number}"
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))
    rows = sum(pq.ParquetFile(folder / name).metadata.num_rows for name in files)
    Manifest(number, 0, 1, rows, files, 1, None, dict(CHOICES), 0, 0).write(folder / MANIFEST)
    return root


def read(root: Path, begin: int, chunk_bytes: int) -> list[list[int]]:
    source = open_source(str(root), StoreConfig())
    assert source.kind == "parquet"
    return [
        [offset for batch in rows_of(source, chunk, Report()) for offset in batch.column("physical_offset").to_pylist()]
        for chunk in source.chunks(begin, chunk_bytes)
    ]


def test_files_that_overlap_are_read_together(tmp_path: Path) -> None:
    root = table(tmp_path, [30, 40, 50], [0, 10, 25, 5], [35, 45], [60])
    assert read(root, 0, 1 << 30) == [[0, 5, 10, 25], [30, 35, 40, 45, 50], [60]]
    assert read(root, 40, 1 << 30) == [[40, 45, 50], [60]]
    assert read(root, 61, 1 << 30) == []


def test_large_ones_are_parted(tmp_path: Path) -> None:
    chunks = read(table(tmp_path, list(range(0, 100, 2)), list(range(1, 100, 2))), 0, 1000)
    assert len(chunks) > 2 and [offset for chunk in chunks for offset in chunk] == list(range(100))


def test_exports_that_are_missing_or_there_twice(tmp_path: Path) -> None:
    """Rows would be left out, or be replayed twice."""
    stored(tmp_path / "store", ["a"])
    for number in (1, 2, 3):
        assert export(str(tmp_path / "store"), str(tmp_path / "lake")).number == number
        stored(tmp_path / "store", [f"b{number}"])
    lake = tmp_path / "lake"
    assert bodies_of(lake) == ["a", "b1", "b2"]
    shutil.copytree(lake / "export=3", lake / "export=4")
    with pytest.raises(StoreAccessError, match=f"{lake}/export=4: by its manifest a copy of export=3"):
        open_source(str(lake), StoreConfig())
    shutil.rmtree(lake / "export=4")
    data = next((lake / "export=2").rglob("topic_name=T/**/*.parquet"))
    data.rename(tmp_path / "kept")
    with pytest.raises(StoreAccessError, match=f"{data}: this file of the table {lake} is missing, so rows are"):
        open_source(str(lake), StoreConfig())
    (tmp_path / "kept").rename(data)
    shutil.copy(data, data.with_name("copy.parquet"))  # no export has it: somebody left it there
    assert bodies_of(lake) == ["a", "b1", "b2"]
    shutil.rmtree(lake / "export=2")
    with pytest.raises(StoreAccessError, match=f"{lake}/export=2: this directory of the table {lake} is miss"):
        open_source(str(lake), StoreConfig())


def test_a_delta_table_that_somebody_else_made(tmp_path: Path) -> None:
    """Delta's log names its files: it needs no manifest."""
    import deltalake

    stored(tmp_path / "store", ["a", "b", "c"])
    rows = scan_arrow(tmp_path / "store").read_all()
    deltalake.write_deltalake(tmp_path / "lake", rows.slice(0, 2))
    deltalake.write_deltalake(tmp_path / "lake", rows.slice(2), mode="append")
    assert bodies_of(tmp_path / "lake") == ["a", "b", "c"]
    deltalake.DeltaTable(tmp_path / "lake").delete("queue_offset = 1")
    assert bodies_of(tmp_path / "lake") == ["a", "c"]


def test_what_is_no_table_of_messages(tmp_path: Path) -> None:
    (tmp_path / "export=1").mkdir()
    pq.write_table(pa.table({"topic": ["a"]}), tmp_path / "export=1" / "a.parquet")
    described(tmp_path, 1)
    with pytest.raises(UsageError, match="lacks column queue_id"):
        open_source(str(tmp_path), StoreConfig())
    (tmp_path / "export=1" / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(StoreAccessError, match=r"a\.parquet"):
        open_source(str(tmp_path), StoreConfig())


def test_the_log_of_a_store_in_chunks(golden: Any) -> None:
    source = open_source(str(golden("basic").path), StoreConfig())
    want = [row["physical_offset"] for row in golden("basic").rows]
    for size in (5000, 1 << 30):
        chunks = source.chunks(0, size)
        rows = [b for chunk in chunks for b in rows_of(source, chunk, Report())]
        assert [offset for b in rows for offset in b.column("physical_offset").to_pylist()] == want
        assert all(b.schema.equals(SPARK_SCHEMA) for b in rows)
    assert source.chunks(want[-1], 5000)[0].begin == want[-1] and source.chunks(10**9, 5000) == []


def test_a_directory_that_may_not_be_listed_is_told_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table(tmp_path / "t", [1, 2])
    refused = str(root)
    real_list, real_scan = os.listdir, os.scandir

    def shut(real: Any) -> Any:
        def call(path: Any = ".") -> Any:
            if str(path) == refused:
                raise PermissionError(13, "Permission denied", refused)
            return real(path)

        return call

    monkeypatch.setattr(os, "listdir", shut(real_list))
    monkeypatch.setattr(os, "scandir", shut(real_scan))
    with pytest.raises(StoreAccessError, match="check its permissions") as told:
        open_source(str(root), StoreConfig())
    assert refused in str(told.value)


def stored(root: Path, bodies: list[str]) -> Path:
    put_messages(root, (Message("T", body.encode()) for body in bodies))
    return root


def bodies_of(path: str | Path, config: StoreConfig | None = None) -> list[str]:
    source = open_source(str(path), config or StoreConfig())
    chunks = source.chunks(0, 1 << 30)
    rows = [batch for chunk in chunks for batch in rows_of(source, chunk, Report())]
    return [body.decode(errors="backslashreplace") for batch in rows for body in batch.column("body").to_pylist()]


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_a_table_of_several_stores_is_refused(tmp_path: Path, to: str) -> None:
    """Their offsets say nothing of each other: new messages of one would be taken for replayed ones."""
    stored(tmp_path / "a" / "store", ["a"]), stored(tmp_path / "b" / "store", ["b", "c"])
    export(str(tmp_path / "{broker}" / "store"), str(tmp_path / "lake"), to=to)
    with pytest.raises(UsageError, match=f"{tmp_path / 'lake'}: the table has messages of several stores.*one by one"):
        open_source(str(tmp_path / "lake"), StoreConfig())


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_a_table_of_one_of_several_stores(tmp_path: Path, to: str) -> None:
    stored(tmp_path / "a" / "store", ["a", "b"])
    export(str(tmp_path / "{broker}" / "store"), str(tmp_path / "lake"), to=to)
    stored(tmp_path / "a" / "store", ["c"])
    export(str(tmp_path / "{broker}" / "store"), str(tmp_path / "lake"), to=to)
    assert bodies_of(tmp_path / "lake") == ["a", "b", "c"]


def test_rows_of_an_unknown_store_are_refused(tmp_path: Path) -> None:
    rows = pa.Table.from_batches([batch_of({"physical_offset": 0, "size": 1})])
    (tmp_path / "export=1").mkdir()
    unknown = rows.append_column("broker", pa.array([None], pa.string()))
    pq.write_table(unknown, tmp_path / "export=1" / "a.parquet")
    described(tmp_path, 1)
    with pytest.raises(UsageError, match="of an unknown one"):
        open_source(str(tmp_path), StoreConfig())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    for package in ("moto", "flask", "deltalake", "obstore"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    with running() as server:
        yield server


@pytest.fixture
def bucket(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URL of a folder in a bucket, whose server and keys the environment names."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.mark.parametrize("to", ["parquet", "delta"])
def test_a_table_on_object_storage(bucket: str, tmp_path: Path, to: str) -> None:
    root = stored(tmp_path / "store", ["a", "订单"])
    export(str(root), f"{bucket}/lake", to=to)
    stored(root, ["c"])
    export(str(root), f"{bucket}/lake", to=to)
    assert open_source(f"{bucket}/lake", StoreConfig()).kind == to
    assert bodies_of(f"{bucket}/lake") == bodies_of(root) == ["a", "订单", "c"]


def test_a_table_of_several_stores_on_object_storage(bucket: str, tmp_path: Path) -> None:
    stored(tmp_path / "a" / "store", ["a"]), stored(tmp_path / "b" / "store", ["b"])
    export(str(tmp_path / "{broker}" / "store"), f"{bucket}/lake", to="parquet")
    with pytest.raises(UsageError, match=f"{bucket}/lake: the table has messages of several stores"):
        open_source(f"{bucket}/lake", StoreConfig())


def test_a_store_on_object_storage(server: Server, golden: object, tmp_path: Path) -> None:
    store = golden("config")  # type: ignore[operator]
    url, config = server.put(store.path, "replayed"), StoreConfig().with_keys({**store.config, **server.keys})
    there, here = open_source(url, config), open_source(str(store.path), config)
    assert there.kind == "store" and bodies_of(url, config) == bodies_of(store.path, config)
    assert there.queue_counts() == here.queue_counts() and here.queue_counts()


def test_nothing_on_object_storage(bucket: str) -> None:
    with pytest.raises(UsageError, match="none is there"):
        open_source(f"{bucket}/nothing", StoreConfig())

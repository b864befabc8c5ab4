"""Exports of several stores into one table: each row once, the progress of each store in the same commit."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message
from flintmq.errors import FlintError, NotAStoreError, StoreError, UsageError
from flintmq.lake.files.table_folder import DiskFolder
from flintmq.lake.table.parquet_target import ParquetTarget
from tests.support.engine import put_messages
from tests.support.exporting import Export, once, whole


def put(store: Path, begin: int, end: int, topic: str = "Orders") -> None:
    put_messages(store, (Message(topic, b"%d" % number, queue_id=number % 3) for number in range(begin, end)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two brokers with 20 and 30 messages."""
    put(tmp_path / "data" / "a" / "store", 0, 20)
    put(tmp_path / "data" / "库存" / "store", 100, 130, "库存")
    return tmp_path / "data"


def rows(out: Path) -> Counter[tuple[str, bytes]]:
    """(broker, body) of each row, with how often it is there."""
    import pyarrow.parquet as pq

    found: Counter[tuple[str, bytes]] = Counter()
    for path in out.glob("export=*/**/*.parquet"):
        table = pq.ParquetFile(path).read()
        assert table.schema.names[-2:] == ["broker", "store"]
        assert all(text.endswith(f"{broker}/store") for broker, text in names_of(table))
        found.update(zip(table["broker"].to_pylist(), table["body"].to_pylist(), strict=True))
    return found


def names_of(table: Any) -> list[tuple[str, str]]:
    return list(zip(table["broker"].to_pylist(), table["store"].to_pylist(), strict=True))


def expected(*spans: tuple[str, int, int]) -> Counter[tuple[str, bytes]]:
    return Counter((broker, b"%d" % number) for broker, begin, end in spans for number in range(begin, end))


def test_each_row_once_and_what_is_new(data: Path, tmp_path: Path, make: Export) -> None:
    out, pattern = tmp_path / "lake", f"{data}/{{broker}}/store"
    done = make(pattern, out)
    assert done.rows == 50 and set(done.brokers) == {"a", "库存"} and done.number == 1
    assert rows(out) == expected(("a", 0, 20), ("库存", 100, 130))
    assert make(pattern, out).number == 0, "nothing new"
    put(data / "a" / "store", 20, 25)
    done = make(pattern, out)
    assert done.rows == 5 and set(done.brokers) == {"a"} and done.number == 2
    manifest = ParquetTarget(DiskFolder(out)).last()
    assert manifest is not None and manifest.members is not None
    assert sorted(manifest.members) == ["a", "库存"], "the progress of a store with nothing new is kept"
    assert rows(out) == expected(("a", 0, 25), ("库存", 100, 130))


def test_brokers_come_go_and_return(data: Path, tmp_path: Path, make: Export) -> None:
    out, pattern = tmp_path / "lake", f"{data}/*/store"
    make(pattern, out)
    shutil.move(data / "a", tmp_path / "away")
    put(data / "c" / "store", 7, 9)
    assert make(pattern, out).rows == 2
    put(tmp_path / "away" / "store", 20, 22)
    shutil.move(tmp_path / "away", data / "a")
    assert make(pattern, out).rows == 2
    assert make(pattern, out).number == 0
    assert rows(out) == expected(("a", 0, 22), ("库存", 100, 130), ("c", 7, 9))


def test_a_stream_goes_on_over_batches(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    done = once(f"{data}/*/store", out, max_offsets=7)
    manifest = ParquetTarget(DiskFolder(out)).last()
    assert done.rows == 50 and manifest is not None and manifest.number >= 8
    assert rows(out) == expected(("a", 0, 20), ("库存", 100, 130))


def test_a_store_of_another_log_is_refused(data: Path, tmp_path: Path, make: Export) -> None:
    out, pattern = tmp_path / "lake", f"{data}/*/store"
    make(pattern, out)
    before = rows(out)
    shutil.rmtree(data / "a")
    put(data / "a" / "store", 500, 560)
    with pytest.raises(FlintError, match="another store|anchor|truncated|created again"):
        make(pattern, out)
    assert rows(out) == before


def test_one_store_and_several_do_not_mix(data: Path, tmp_path: Path, make: Export) -> None:
    out = tmp_path / "lake"
    make(f"{data}/*/store", out)
    with pytest.raises(UsageError, match="exports of several stores, and one is given now"):
        make(str(data / "a" / "store"), out)
    alone = tmp_path / "alone"
    make(str(data / "a" / "store"), alone)
    with pytest.raises(UsageError, match="exports of one store, and several are given now"):
        make(f"{data}/*/store", alone)


def test_nothing_is_written_in_a_store(data: Path, make: Export) -> None:
    with pytest.raises(UsageError, match="inside the store"):
        make(f"{data}/*/store", data / "库存" / "store" / "lake")


def test_a_store_that_is_not_there(data: Path, tmp_path: Path, make: Export) -> None:
    manifest = tmp_path / "cluster.toml"
    manifest.write_text("".join(f'[[stores]]\nstore = "data/{n}/store"\nbroker = "{n}"\n' for n in ("a", "x")))
    with pytest.raises(NotAStoreError, match="mounted"):
        make(manifest, tmp_path / "lake")
    done = make(manifest, tmp_path / "lake", fail_on_data_loss=False)
    assert done.rows == 20 and set(done.brokers) == {"a"}


def test_properties_and_texts_as_columns(data: Path, tmp_path: Path, make: Export) -> None:
    import pyarrow.parquet as pq

    make(f"{data}/*/store", tmp_path / "lake", properties=["UNIQ_KEY:key"], body="text")
    path = next((tmp_path / "lake").rglob("*.parquet"))
    table = pq.ParquetFile(path).read()
    assert {"key", "body_raw", "broker", "store"} <= set(table.schema.names) and table.num_rows
    with pytest.raises(UsageError, match="column 'broker' exists already"):
        make(f"{data}/*/store", tmp_path / "other", properties=["broker"])


def test_small_files_are_combined(data: Path, tmp_path: Path, make: Export) -> None:
    make(f"{data}/*/store", tmp_path / "lake", target_file_size=1 << 20, partition_by=[])
    files = list((tmp_path / "lake").rglob("*.parquet"))
    assert len(files) == 1 and rows(tmp_path / "lake") == expected(("a", 0, 20), ("库存", 100, 130))


def test_an_export_that_fails_publishes_nothing(
    data: Path, tmp_path: Path, make: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress of all stores comes with the rows, in one rename."""
    out, pattern = tmp_path / "lake", f"{data}/*/store"
    make(pattern, out)
    put(data / "a" / "store", 20, 25)
    put(data / "库存" / "store", 130, 133, "库存")
    real = os.rename

    def full(source: Any, target: Any, **rest: Any) -> None:
        if str(target).endswith("export=2"):
            raise OSError(28, "No space left on device")
        real(source, target, **rest)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space"):
        make(pattern, out)
    monkeypatch.undo()
    assert rows(out) == expected(("a", 0, 20), ("库存", 100, 130))
    assert make(pattern, out).rows == 8
    assert rows(out) == expected(("a", 0, 25), ("库存", 100, 133))


def test_delta_has_the_same(data: Path, tmp_path: Path, make: Export) -> None:
    import deltalake

    out, pattern = tmp_path / "lake", f"{data}/*/store"
    make(pattern, out, to="delta")
    put(data / "a" / "store", 20, 25)
    assert make(pattern, out, to="delta").rows == 5 and make(pattern, out, to="delta").number == 0
    table = deltalake.DeltaTable(str(out)).to_pyarrow_table()
    found = Counter(zip(table["broker"].to_pylist(), table["body"].to_pylist(), strict=True))
    assert found == expected(("a", 0, 25), ("库存", 100, 130))


def test_what_expired_meanwhile_is_an_error(data: Path, tmp_path: Path) -> None:
    """As of one store: the text names the store's log."""
    out, pattern = tmp_path / "lake", f"{data}/*/store"
    whole(pattern, out)
    path = out / "export=1" / "_flintmq.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    log = next((data / "a" / "store" / "commitlog").iterdir())
    log.rename(log.with_name(f"{1 << 30:020d}"))  # as if retention had deleted the first file
    assert manifest["members"]["a"]["end"] < 1 << 30
    with pytest.raises(StoreError, match="the messages in between have expired"):
        whole(pattern, out)

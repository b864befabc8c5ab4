"""A broker with another name in a manifest or a pattern: its messages do not come into the table a second time."""

from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import UsageError
from flintmq.lake.export.export_stream import export_stream
from flintmq.lake.history.diff_table import compare_table
from flintmq.message import Message
from tests.support.engine import put_messages
from tests.support.exporting import Export, once, whole

TOLD = r"the table knows the store of broker 'A2' as broker 'A', and would get its messages again; give it the old name"


def fill(path: Path, *bodies: str) -> None:
    put_messages(path, (Message("T", body.encode()) for body in bodies))


def manifest(root: Path, **stores: str) -> Path:
    path = root / "cluster.toml"
    path.write_text("".join(f'[[stores]]\nstore = "{one}"\nbroker = "{name}"\n' for name, one in stores.items()))
    return path


def rows(table: Path) -> int:
    import pyarrow.dataset as ds

    return int(ds.dataset(str(table), format="parquet", partitioning="hive").count_rows())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    fill(tmp_path / "a", "a1", "a2")
    fill(tmp_path / "b", "b1")
    return tmp_path


@pytest.mark.parametrize("export", [whole, once])
def test_it_is_refused_by_all_who_use_the_table(root: Path, export: Export) -> None:
    table = root / "table"
    assert export(manifest(root, A="a", B="b"), table).rows == 3
    fill(root / "a", "a3")
    renamed = manifest(root, A2="a", B="b")
    readers: list[Any] = [
        lambda: export(renamed, table),
        lambda: export(renamed, table, fail_on_data_loss=False),
        lambda: flintmq.scan_arrow(renamed, history=table).read_all(),
        lambda: compare_table(str(renamed), str(table)),
    ]
    for read in readers:
        with pytest.raises(UsageError, match=f"^{table}: {TOLD}") as caught:
            read()
        assert "\n" not in str(caught.value)
    assert rows(table) == 3
    assert export(manifest(root, A="a", B="b"), table).rows == 1


@pytest.mark.parametrize("export", [whole, once])
def test_a_broker_that_is_new_is_exported(root: Path, export: Export) -> None:
    """Beside one that is gone for now, and also where its log has a record at the same place."""
    table = root / "table"
    assert export(manifest(root, A="a"), table).rows == 2
    fill(root / "c", "c1", "c2", "c3")
    assert export(manifest(root, C="c"), table).rows == 3
    assert export(manifest(root, A="a", B="b", C="c"), table).rows == 1


def test_a_directory_that_is_renamed_while_a_stream_follows(root: Path) -> None:
    """A pattern names brokers by their directories."""
    (root / "data").mkdir()
    (root / "a").rename(root / "data" / "A")
    batches: list[int] = []

    def rename(done: Any) -> None:
        batches.append(done.rows)
        (root / "data" / "A").rename(root / "data" / "A2")

    with pytest.raises(UsageError, match=TOLD):
        export_stream(f"{root}/data/*", str(root / "table"), interval_s=0, on_batch=rename)
    assert batches == [2] and rows(root / "table") == 2

"""What a replay reads: chunks hold every row once, in order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, UsageError
from flintmq.spark.jobs.replay.source import open_source, rows_of
from flintmq.store.commitlog.report import Report
from tests.spark.jobs.replay.test_rows import batch_of


def table(root: Path, *files: list[int]) -> Path:
    """A directory with an export of these log offsets, a file each."""
    (root / "export=1" / "topic_name=T").mkdir(parents=True)
    for number, offsets in enumerate(files):
        rows = batch_of(*({"physical_offset": offset, "size": 1} for offset in offsets))
        path = root / "export=1" / "topic_name=T" / f"{number}.parquet"
        pq.write_table(pa.Table.from_batches([rows]), path, row_group_size=4)
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


def test_what_is_no_table_of_messages(tmp_path: Path) -> None:
    (tmp_path / "export=1").mkdir()
    pq.write_table(pa.table({"topic": ["a"]}), tmp_path / "export=1" / "a.parquet")
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


@pytest.mark.parametrize("closed", ["", "part"], ids=["the table", "a directory in it"])
def test_a_directory_that_may_not_be_listed_is_told_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    root = table(tmp_path / "t", [1, 2])
    export = next(path for path in root.iterdir() if path.is_dir())
    (export / "part").mkdir()
    refused = str(export / closed if closed else root)
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

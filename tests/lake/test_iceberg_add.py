"""Entries of data files are those that PyIceberg makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")

from pyiceberg.io.pyarrow import parquet_file_to_data_file

from flintmq.lake.export_once import export
from flintmq.lake.iceberg_add import add_files, data_files
from flintmq.testing import write_store
from tests.lake.test_iceberg import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.put(3, "Orders", city="Köln")
    made.put(2, "Payments")
    made.export()
    return made


def places(lake: Lake) -> list[str]:
    return [task.file.file_path for task in lake.table.scan().plan_files()]


@pytest.mark.parametrize("more", [{}, {"properties": ["city"]}, {"partition_by": ()}, {"body": "text"}])
def test_entries_are_those_of_pyiceberg(tmp_path: Path, more: dict[str, Any]) -> None:
    lake = Lake(tmp_path)
    write_store(lake.store, 500, kinds="all")
    export(lake.store, str(lake.out), to="iceberg", **more)
    table = lake.table
    ours = data_files(table.io, table.metadata, places(lake))
    assert ours == [parquet_file_to_data_file(table.io, table.metadata, place) for place in places(lake)]
    assert sum(file.record_count for file in ours) >= 500


def test_a_file_of_the_table_is_refused(lake: Lake) -> None:
    transaction = lake.table.transaction()
    with pytest.raises(ValueError, match="already"):
        add_files(transaction, places(lake)[:1], {})
    lake.check()


@pytest.mark.parametrize("merged", ["true", "false"])
def test_manifests_are_merged_as_the_table_says(lake: Lake, merged: str) -> None:
    with lake.table.transaction() as transaction:
        transaction.set_properties({"commit.manifest-merge.enabled": merged, "commit.manifest.min-count-to-merge": "2"})
    for count in (1, 2):
        lake.put(count)
        lake.export()
    snapshot = lake.table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(lake.table.io)) == (1 if merged == "true" else 3)
    lake.check()

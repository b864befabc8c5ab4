"""Differences of every kind are planted in stores and tables: `diff` names each, and nothing else."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("deltalake", reason="needs the extra delta")
pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from flintmq.forensics.diff import ranges
from flintmq.lake.history import diff_table
from labs.planted_differences import PAIRS, run


@pytest.mark.parametrize("pair", PAIRS)
def test_a_hundred_of_each_kind(tmp_path: Path, pair: str) -> None:
    assert run(pair, tmp_path, 100, seed=1)


@pytest.mark.parametrize("pair", ["offset", "parquet"])
def test_in_many_ranges(tmp_path: Path, pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that moved over the border of two ranges is one that moved, not one that is missing."""
    monkeypatch.setattr(ranges, "PIECE", 16 << 10)
    monkeypatch.setattr(ranges, "RANGE_MOST", 64 << 10)
    monkeypatch.setattr(diff_table, "RANGE_BYTES", 100_000)
    assert run(pair, tmp_path, 500, seed=2)

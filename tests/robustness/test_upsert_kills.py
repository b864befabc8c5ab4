"""A few kills; `python -m labs.upsert_kills` makes many."""

from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
pytest.importorskip("deltalake", reason="needs the extra delta")

from labs.upsert_kills.__main__ import FORMATS, killed


def test_tables_of_changes_survive_kills(tmp_path: Path) -> None:
    run = killed(tmp_path, seed=6, kills=2)
    assert run.counted["kills"] == 2 and run.counted["comparisons"] >= 2 * len(FORMATS)

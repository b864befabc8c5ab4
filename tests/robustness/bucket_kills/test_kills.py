"""A few kills; `python -m labs.bucket_kills` makes many."""

import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
pytest.importorskip("deltalake", reason="needs the extra delta")

from labs.bucket_kills.__main__ import FORMATS, killed
from tests.support.object_server import running


def test_tables_survive_kills(tmp_path):
    with running() as server:
        run = killed(tmp_path, server, seed=5, kills=4)
    assert run.counted["killed"] >= 4 and run.counted["tables compared"] >= len(FORMATS)

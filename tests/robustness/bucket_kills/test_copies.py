"""A few ended copies; `python -m labs.bucket_kills.copies` makes many."""

import pytest

pytest.importorskip("obstore", reason="obstore is not installed")

from labs.bucket_kills.copies import killed
from tests.support.object_server import running


def test_a_killed_copy_is_no_store(tmp_path):
    with running() as server:
        run = killed(tmp_path, server, seed=6, kills=3, small=True)
    assert run.counted["looks that found no store"] > 0

"""A few kills; `python -m labs.replication` makes many."""

from pathlib import Path

import pytest

from labs.replication.__main__ import killed
from tests.interop.running_broker import java_of

BESIDE_JAVA = pytest.param("5.4.0", marks=[pytest.mark.slow, pytest.mark.turn(3, of=["src/flintmq/ha/"])])


@pytest.mark.parametrize("version", ["FlintMQ", BESIDE_JAVA])
def test_a_copy_survives_kills(tmp_path: Path, version: str):
    if version != "FlintMQ":
        java_of(version)
    counted = killed(tmp_path, version, seed=3, kills=3)
    assert counted["stores equal"] == 1 and counted["messages"] > 0
    assert counted["follower"] + counted["master"] + 2 * counted["both"] >= 3

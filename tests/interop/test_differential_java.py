"""The short form of labs/interop/differential.py. The long one's figures stand in docs/internals/reliability.md."""

from pathlib import Path

import pytest

from labs.interop.differential import run
from tests.interop.java import VERSIONS
from tests.interop.running_broker import java_of

pytestmark = pytest.mark.slow


@pytest.mark.turn(9)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["batch", "light", "ext"])
def test_batches_light_queues_and_extensions_give_the_same_bytes(tmp_path: Path, version: str, kind: str):
    """Batches of both kinds, light queues, queue extensions: log, queues of either type and index."""
    found = run(tmp_path, java_of(version), seed=5, rounds=2, per_round=400, kind=kind)
    assert found.operations == 800 and found.compared["queues"] > 20_000
    assert found.compared["batch"] > (10_000 if kind == "batch" else -1)
    assert found.compared["ext"] > (10_000 if kind == "ext" else -1)
    assert found.answers == [] and found.differing == [], str(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_seeded_operations_give_the_same_bytes(tmp_path: Path, version: str):
    """Log, queues and index, byte for byte, with a clean stop of both in the middle."""
    found = run(tmp_path, java_of(version), seed=3, rounds=2, per_round=800)
    assert found.operations == 1600 and found.refused > 0
    assert found.compared["log"] > 300_000 and found.compared["queues"] > 20_000 and found.compared["index"] > 40_000
    assert found.answers == [] and found.differing == [], str(found)

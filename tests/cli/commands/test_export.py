"""`flintmq export`: what it prints. What is in the tables is tested in tests/lake."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.compat.stores import Golden


@pytest.fixture
def brokers(golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    root = tmp_path / "data"
    shutil.copytree(golden("basic").path, root / "a" / "store")
    return root


def test_a_store_that_is_left_out_is_named(run: Run, brokers: Path) -> None:
    for broker in "bc":
        (brokers / broker / "store").mkdir(parents=True)
    (brokers / "d").symlink_to(brokers / "a")
    pattern, out = f"{brokers}/{{broker}}/store", brokers.parent / "lake"
    said = [
        f"no-store: {brokers}/b/store: no commitlog/ there, of broker 'b'; is its disk mounted?; left out and 1 more "
        "like it",
        f"same-store: {brokers}/d/store: another name of {brokers}/a/store; read once",
    ]
    result = run("export", pattern, "--out", out)
    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.startswith("note")] == [f"note     {one}" for one in said]
    told = json.loads(run("export", pattern, "--out", out, "--json").out)
    assert told["notes"] == {"no-store": 1, "same-store": 1}
    assert told["note_texts"] == {code: [text] for code, text in (one.split(": ", 1) for one in said)}

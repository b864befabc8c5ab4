"""`flintmq salvage`: the command. What it makes is tested in tests/forensics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.forensics.makers import flip


def damaged(golden: Any, tmp_path: Path) -> Path:
    """A copy of `basic` with one damaged record of 236 bytes."""
    root = Path(golden("basic").copy(tmp_path))
    flip(root / "commitlog" / "00000000000000131072", 40100, 0x55)
    return root


def test_into_a_new_store(run: Run, golden: Any, tmp_path: Path) -> None:
    root, into = damaged(golden, tmp_path), tmp_path / "into"
    result = run("salvage", root, "--into", into)
    assert (result.code, result.err) == (0, "")
    assert "2999 records" in result.out and "1 damaged ranges, 236 B" in result.out and str(into) in result.out
    assert run("verify", into).code == 0


def test_json(run: Run, golden: Any, tmp_path: Path) -> None:
    [done] = run("salvage", damaged(golden, tmp_path), "--into", tmp_path / "into", "--json").rows
    assert (done["records"], done["lost_ranges"], done["lost_bytes"], done["units"]) == (2999, 1, 236, 2999)


def test_wrong_use(run: Run, golden: Any, tmp_path: Path) -> None:
    root = damaged(golden, tmp_path)
    for words in ((), ("--into", root), ("--into", tmp_path / "x", "--peer", "4")):
        result = run("salvage", root, *words)
        assert result.code == 2 and len(result.err.splitlines()) == 1, words
    assert run("salvage", tmp_path / "nowhere", "--into", tmp_path / "x").code == 2

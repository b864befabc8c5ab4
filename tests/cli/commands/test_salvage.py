"""`flintmq salvage`: the command. What it makes is tested in tests/forensics."""

import io
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support.makers import flip


def damaged(golden: Any, tmp_path: Path) -> Path:
    """A copy of `basic` with one damaged record of 236 bytes."""
    root = Path(golden("basic").copy(tmp_path))
    flip(root / "commitlog" / "00000000000000131072", 40100, 0x55)
    return root


def test_into_a_new_store(run: Run, golden: Any, tmp_path: Path) -> None:
    root, into = damaged(golden, tmp_path), tmp_path / "into"
    result = run("salvage", root, "--out", into)
    assert (result.code, result.err) == (0, "")
    assert "2999 records" in result.out and "1 damaged range, 236 B" in result.out and str(into) in result.out
    assert run("verify", into).code == 0


def test_json(run: Run, golden: Any, tmp_path: Path) -> None:
    [done] = run("salvage", damaged(golden, tmp_path), "--out", tmp_path / "into", "--json").rows
    assert (done["records"], done["lost_ranges"], done["lost_bytes"], done["units"]) == (2999, 1, 236, 2999)


def test_in_place_and_back(run: Run, golden: Any, tmp_path: Path) -> None:
    root = damaged(golden, tmp_path)
    log = (root / "commitlog" / "00000000000000131072").read_bytes()
    told = run("salvage", root, "--in-place", "--dry-run")
    assert told.code == 0 and "position 39979: 236 bytes" in told.out and "would cover 1 range (236 B)" in told.out
    assert (root / "commitlog" / "00000000000000131072").read_bytes() == log
    asked = run("salvage", root, "--in-place")
    assert asked.code == 2 and "--yes" in asked.err
    [done] = run("salvage", root, "--in-place", "--yes", "--json").rows
    assert [line["bytes"] for line in done["ranges"]] == [236] and done["journal"].endswith("salvage-0001")
    assert run("verify", root).code == 0
    assert "there is nothing to do" in run("salvage", root, "--in-place").out
    undone = run("salvage", root, "--undo", "--yes")
    assert undone.code == 0 and "salvage-0001" in undone.out
    assert (root / "commitlog" / "00000000000000131072").read_bytes() == log


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("y\n", 2), ("", 2)])
def test_it_takes_a_typed_yes(
    run: Run, golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    stdin = io.StringIO(answer)
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)
    root = damaged(golden, tmp_path)
    result = run("salvage", root, "--in-place")
    assert result.code == code and "type yes to change" in result.err
    assert run("verify", root).code == (0 if code == 0 else 1)


def test_verify_names_it(run: Run, golden: Any, tmp_path: Path) -> None:
    root = damaged(golden, tmp_path)
    assert f"flintmq salvage {root} --in-place  (first with --dry-run; or" in run("verify", root).out


def test_wrong_use(run: Run, golden: Any, tmp_path: Path) -> None:
    root = damaged(golden, tmp_path)
    wrong = [("--out", tmp_path / "x", "--in-place"), ("--out", tmp_path / "x", "--yes"), ("--undo", "--dry-run")]
    for words in (*wrong, (), ("--out", root), ("--out", tmp_path / "x", "--peer", "4")):
        result = run("salvage", root, *words)
        assert result.code == 2 and len(result.err.splitlines()) == 1, words
    assert run("salvage", tmp_path / "nowhere", "--out", tmp_path / "x").code == 2

"""`flintmq rebuild`: the command. What it makes is tested in tests/forensics."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.engine import tree
from tests.support.makers import hurt_body


def test_makes_javas_queues_and_says_what_it_made(
    run: Run,
    golden,
    tmp_path: Path,
    expected: Callable[[str, str], None],  # type: ignore[no-untyped-def]
) -> None:
    store, into = golden("basic"), tmp_path / "into"
    result = run("rebuild", store.path, "--out", into)
    assert (result.code, result.err) == (0, "")
    expected("rebuild-basic.txt", result.out.replace(str(into), "INTO"))
    assert tree(into, "consumequeue") == tree(store.path, "consumequeue")


def test_access_changes_nothing_but_the_way(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for access in ("pread", "map"):
        assert run("rebuild", golden("rolled").path, "--out", tmp_path / access, "--access", access).code == 0
    assert tree(tmp_path / "map", "") == tree(tmp_path / "pread", "")
    result = run("rebuild", golden("rolled").path, "--out", tmp_path / "x", "--access", "mmap")
    assert result.code == 2 and "pread" in result.err


def test_json(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    [done] = run("rebuild", golden("basic").path, "--out", tmp_path, "--json").rows
    assert (done["records"], done["units"], done["queues"]) == (3000, 3000, 16)


@pytest.mark.parametrize("peer", ["5.3.3", "5.4.0", "5.5.0"])
def test_the_peer_decides_whether_tags_are_indexed(peer: str, run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("v540")
    tagged = sum(row["tags"] is not None for row in store.live)
    [done] = run("rebuild", store.path, "--out", tmp_path / peer, "--peer", peer, "--json").rows
    [plain] = run("rebuild", store.path, "--out", tmp_path / "plain", "--json").rows
    assert done["keys"] - plain["keys"] == (tagged if peer != "5.3.3" else 0)


def test_nothing_is_overwritten(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert run("rebuild", golden("basic").path, "--out", tmp_path).code == 0
    result = run("rebuild", golden("basic").path, "--out", tmp_path)
    assert result.code == 2 and "exist already" in result.err and len(result.err.splitlines()) == 1


def test_damage_is_an_error_and_leaves_nothing(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    hurt_body(store, 131072 + 5071)
    result = run("rebuild", store, "--out", tmp_path / "into")
    assert result.code == 1 and "position 5071" in result.err
    assert not [p for p in tree(tmp_path / "into") if not p.startswith(".")]


def test_nothing_is_written_beside_other_things(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, into = golden("basic").path, tmp_path / "into"
    (into / "src").mkdir(parents=True)
    result = run("rebuild", store, "--out", into)
    assert result.code == 2 and result.err.endswith("holds other things ('src'); give an empty directory\n")
    assert [one.name for one in into.iterdir()] == ["src"]
    (into / "src").rename(into / "config")  # of a store that lost its queues
    assert run("rebuild", store, "--out", into).code == 0
    assert "consumequeue, index exist already; give" in run("rebuild", store, "--out", into).err

"""`flintmq copy`: what it says, and which copy its options make."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


def test_whole(run: Run, golden: Any, tmp_path: Path) -> None:
    done = run("copy", golden("basic").path, "--into", tmp_path / "c")
    assert done.code == 0 and "offsets 0 to 737416" in done.out and done.out.endswith(f"{tmp_path}/c\n")
    assert run("verify", tmp_path / "c").code == 0
    again = run("copy", golden("basic").path, "--into", tmp_path / "c")
    assert again.code == 2 and "is there already" in again.err
    [row] = run("copy", golden("crash").path, "--into", tmp_path / "d", "--json").rows
    assert row["live"] is True and row["into"] == str(tmp_path / "d")


def test_some(run: Run, golden: Any, tmp_path: Path) -> None:
    words = ["copy", golden("basic").path, "--into", tmp_path / "c", "--topic", "Orders", "--topic", "Payments"]
    [row] = run(*words, "--until", "2026-11-20T09:36:20.600", "--json").rows
    found = run("scan", tmp_path / "c", "--json").rows
    assert len(found) == row["records"] > 0 and {m["topic"] for m in found} == {"Orders", "Payments"}
    assert all(m["store_timestamp"] < 1795167380600 for m in found)


def test_damage(run: Run, golden: Any, tmp_path: Path) -> None:
    store = golden("basic").copy(tmp_path)
    with (store / "commitlog" / "00000000000000262144").open("rb+") as file:
        file.write(b"\xff" * 50)
    words = ["copy", store, "--into", tmp_path / "c"]
    assert run(*words, "--topic", "Orders").code == 1 and not (tmp_path / "c").exists()
    done = run(*words, "--topic", "Orders", "--skip-damage")
    assert done.code == 1 and "1 damaged ranges" in done.out and (tmp_path / "c").exists()
    assert run("copy", store, "--into", tmp_path / "e", "--skip-damage").code == 2


@pytest.mark.parametrize("gone", ["middle", "link", "cut"])
def test_a_whole_copy_tells_what_its_log_lacks(run: Run, golden: Any, tmp_path: Path, gone: str) -> None:
    store = golden("basic").copy(tmp_path)
    files = sorted((store / "commitlog").iterdir())
    if gone == "cut":
        os.truncate(files[-2], 600)
    else:
        files[2].rename(tmp_path / "elsewhere")
        if gone == "link":
            files[2].symlink_to(tmp_path / "elsewhere")
    done = run("copy", store, "--into", tmp_path / "copy")
    assert done.code == 1 and "damage " in done.out and "flintmq salvage" in done.out

"""`flintmq copy`: what it says, and which copy its options make."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


def test_whole(run: Run, golden: Any, tmp_path: Path) -> None:
    done = run("copy", golden("basic").path, "--out", tmp_path / "c")
    assert done.code == 0 and "offsets 0 to 737416" in done.out and done.out.endswith(f"{tmp_path}/c\n")
    assert run("verify", tmp_path / "c").code == 0
    again = run("copy", golden("basic").path, "--out", tmp_path / "c")
    assert again.code == 2 and "is there already" in again.err
    [row] = run("copy", golden("crash").path, "--out", tmp_path / "d", "--json").rows
    assert row["live"] is True and row["into"] == str(tmp_path / "d")


def test_some(run: Run, golden: Any, tmp_path: Path) -> None:
    words = ["copy", golden("basic").path, "--out", tmp_path / "c", "--topic", "Orders", "--topic", "Payments"]
    [row] = run(*words, "--until", "2026-11-20T09:36:20.600", "--json").rows
    found = run("scan", tmp_path / "c", "--json").rows
    assert len(found) == row["records"] > 0 and {m["topic"] for m in found} == {"Orders", "Payments"}
    assert all(m["store_timestamp"] < 1795167380600 for m in found)


@pytest.mark.parametrize("topics", [["nosuch"], ["Orders", "nosuch"]])
def test_a_topic_that_is_not_there_makes_no_copy(run: Run, golden: Any, tmp_path: Path, topics: list[str]) -> None:
    words = [word for topic in topics for word in ("--topic", topic)]
    done = run("copy", golden("basic").path, "--out", tmp_path / "c", *words)
    assert (done.code, done.out) == (7, "") and list(tmp_path.iterdir()) == []
    assert done.err.startswith("flintmq: topic 'nosuch': there is no such topic; topics are ")


def test_a_topic_that_only_the_log_names(run: Run, golden: Any, tmp_path: Path) -> None:
    shutil.copytree(golden("basic").path / "commitlog", tmp_path / "log" / "commitlog")
    assert run("copy", tmp_path / "log", "--out", tmp_path / "c", "--topic", "Orders").code == 0
    assert run("copy", tmp_path / "log", "--out", tmp_path / "d", "--topic", "nosuch").code == 7


@pytest.mark.parametrize("words", [["--since", "2027-01-01"], ["--topic", "Orders", "--until", "2026-01-01"]])
def test_a_copy_of_nothing_says_so(run: Run, golden: Any, tmp_path: Path, words: list[str]) -> None:
    done = run("copy", golden("basic").path, "--out", tmp_path / "c", *words)
    assert done.code == 0 and done.out.startswith("log      0 records, ")
    assert done.err == (
        "flintmq: no message matches, so the copy has none; flintmq inspect shows the topics and times\n"
    )
    assert "note" in json.loads(run("copy", golden("basic").path, "--out", tmp_path / "d", *words, "--json").err)


def test_damage(run: Run, golden: Any, tmp_path: Path) -> None:
    store = golden("basic").copy(tmp_path)
    with (store / "commitlog" / "00000000000000262144").open("rb+") as file:
        file.write(b"\xff" * 50)
    words = ["copy", store, "--out", tmp_path / "c"]
    assert run(*words, "--topic", "Orders").code == 1 and not (tmp_path / "c").exists()
    done = run(*words, "--topic", "Orders", "--skip-damage")
    assert done.code == 1 and "1 damaged ranges" in done.out and (tmp_path / "c").exists()
    assert run("copy", store, "--out", tmp_path / "e", "--skip-damage").code == 2


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
    done = run("copy", store, "--out", tmp_path / "copy")
    assert done.code == 1 and "damage " in done.out and "flintmq salvage" in done.out

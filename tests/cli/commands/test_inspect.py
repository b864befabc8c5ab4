"""`flintmq inspect`: what is printed. What is found is tested in tests/forensics."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.compat.stores import Golden

Expected = Callable[[str, str], None]


@pytest.mark.parametrize("name", ["basic", "config", "crash", "rolled"])
def test_at_one_glance(name: str, run: Run, golden, expected: Expected) -> None:  # type: ignore[no-untyped-def]
    store = golden(name)
    result = run("inspect", store.path, *store.sets)
    assert (result.code, result.err) == (0, "")
    expected(f"inspect-{name}.txt", result.out.replace(str(store.path), "STORE"))
    assert len(result.out.splitlines()) <= 40


def test_json_is_one_object(run: Run, golden_store: Golden) -> None:
    [found] = run("inspect", golden_store.path, "--json", *golden_store.sets).rows
    assert found["root"] == str(golden_store.path)
    assert found["clean"] == (not (golden_store.path / "abort").exists())
    live = golden_store.live
    assert found["log"]["first_time"] == live[0]["store_timestamp"]
    if not golden_store.expect:
        assert found["log"]["end"] == live[-1]["physical_offset"] + live[-1]["size"]


def test_counts_are_those_of_the_log(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    [found] = run("inspect", store.path, "--json").rows
    counts: dict[str, int] = {}
    for row in store.live:
        counts[row["topic"]] = counts.get(row["topic"], 0) + 1
    assert {topic["name"]: topic["messages"] for topic in found["topics"]} == counts
    assert found["messages"] == 3000


def test_many_topics_and_queues_stay_readable(run: Run, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for topic in range(150):
        (tmp_path / "consumequeue" / f"T{topic}" / "0").mkdir(parents=True)
    for queue in range(40):
        (tmp_path / "consumequeue" / "Wide" / str(queue)).mkdir(parents=True)
    lines = run("inspect", tmp_path).out.splitlines()
    assert len(lines) < 130
    assert "and 51 topics with fewer messages (--json shows all)" in lines
    assert len(run("inspect", tmp_path, "--json").rows[0]["topics"]) == 151
    [wide] = [line for line in run("inspect", tmp_path).out.splitlines() if line.startswith("Wide ")] or [""]
    assert not wide or wide.endswith("and 24 more")


def test_names_in_a_store_are_escaped(run: Run, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for name in (b"\x1b[31mred", b"\xff\xfe", "\u202efdp".encode(), b"[bold]markup", b"\xc2\x9b31m"):
        folder = bytes(tmp_path) + b"/consumequeue/" + name + b"/0"
        os.makedirs(folder)
    out = run("inspect", tmp_path).out  # `run` looks for what a terminal would obey
    assert "[bold]markup " in out
    run("inspect", tmp_path, "--json")


def test_sparse_files_are_told_as_such(run: Run, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """As RocketMQ makes queues and index: far larger than what they hold."""
    root = golden("poison").copy(tmp_path)
    with (root / "consumequeue" / "large").open("wb") as file:
        file.truncate(200 << 20)
    found = {folder["kind"]: folder for folder in run("inspect", root, "--json").rows[0]["folders"]}
    assert found["consumequeue"]["bytes"] >= 200 << 20 > 100 << 20 > found["consumequeue"]["on_disk"]
    shown = run("inspect", root).out
    assert "MiB, on disk " in shown and shown.count("on disk") == 1

"""Answers of scan, tail, query, get and inspect about a store that lacks files say what they lack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from flintmq.cli.body_option import Bodies
from tests.cli.conftest import Run

SIZE = 131072
HOLE = f"{SIZE:020}"


@pytest.fixture
def store(golden, tmp_path: Path) -> Path:  # type: ignore[no-untyped-def]
    return golden("basic").copy(tmp_path)  # type: ignore[no-any-return]


@pytest.fixture
def holed(store: Path) -> Path:
    (store / "commitlog" / HOLE).unlink()
    return store


@pytest.mark.parametrize("words", [(), ("--skip-damage",), ("--json",)])
def test_scan_says_which_files_were_deleted_before_it_came_there(
    words: tuple[str, ...], run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Bodies.of

    def of(self: Bodies, message):  # type: ignore[no-untyped-def]
        for number in (2, 3):
            (store / "commitlog" / f"{number * SIZE:020}").unlink(missing_ok=True)
        return plain(self, message)

    monkeypatch.setattr(Bodies, "of", of)
    result = run("scan", store, *words)
    assert result.code == 1
    assert 0 < len(result.out.splitlines()) < 3000
    lines = result.err.splitlines()
    assert len(lines) == 2
    assert "0262144, position 0: the file was deleted while the log was read" in lines[0]
    assert "0393216" in lines[1]


@pytest.mark.parametrize("json_words", [(), ("--json",)])
def test_tail(json_words: tuple[str, ...], run: Run, holed: Path) -> None:
    result = run("tail", holed, "Orders", "--since", 0, *json_words)
    assert (result.code, len(result.out.splitlines())) == (1, 613)
    [line] = result.err.splitlines()
    text = json.loads(line)["note"] if json_words else line
    assert "incomplete: messages of topic Orders cannot be read at 150 places, the first in" in text
    assert f"{HOLE}, position " in text
    assert text.endswith("run `flintmq verify`")


def test_tail_of_what_is_after_or_before_the_hole(run: Run, holed: Path) -> None:
    newest = run("tail", holed, "Orders")
    assert (newest.code, newest.err, len(newest.out.splitlines())) == (0, "", 10)
    before = run("tail", holed, "Orders", "--since", 0, "--until", "2026-11-20T09:36:20.6Z")
    assert (before.code, before.err) == (0, "")
    assert before.out


def test_tail_of_the_newest_in_damage(run: Run, golden, store: Path) -> None:  # type: ignore[no-untyped-def]
    row = [row for row in golden("basic").live if row["topic"] == "Orders"][-1]
    path = store / "commitlog" / f"{row['physical_offset'] // SIZE * SIZE:020}"
    data = bytearray(path.read_bytes())
    data[row["physical_offset"] % SIZE + 90] ^= 1
    path.write_bytes(data)
    result = run("tail", store, "Orders")
    assert (result.code, len(result.out.splitlines())) == (1, 10)
    assert "cannot be read at 1 place, the first in" in result.err


def test_query(run: Run, holed: Path) -> None:
    result = run("query", holed, "Orders", "k383")
    assert (result.code, result.out) == (1, "")
    first, second = result.err.splitlines()
    assert "the answer may be incomplete" in first
    assert f"{HOLE}, position " in first
    assert second == "flintmq: no readable message of topic Orders with key k383"


def test_a_log_without_files(run: Run, store: Path) -> None:
    for file in (store / "commitlog").iterdir():
        file.unlink()
    for words in (("query", store, "Orders", "k383"), ("tail", store, "Orders"), ("get", store, "Orders", 0, 3)):
        result = run(*words)
        assert (result.code, result.out) == (1, "")
        assert "the log's end is missing" in result.err
        assert "--skip-damage" not in result.err, "they have no such option"


@pytest.mark.parametrize("size", [None, 0, 100])
def test_inspect_and_metrics_of_a_hole(size: int | None, run: Run, holed: Path) -> None:
    if size is not None:
        (holed / "commitlog" / HOLE).write_bytes(bytes(size))
    result = run("inspect", holed)
    assert result.code == 1
    [note] = [line for line in result.out.splitlines() if line.startswith("note")]
    assert note.startswith(f"note log-gap: {holed / 'commitlog' / HOLE}: missing or too short; {SIZE - (size or 0)} ")
    result = run("inspect", holed, "--json")
    assert (result.code, result.rows[0]["log"]["gaps"]) == (1, 1)
    assert 'flintmq_log_damaged{cluster="",node_type="broker",node_id="basic"} 1' in run("metrics", holed).out


def test_inspect_of_several(run: Run, golden, holed: Path) -> None:  # type: ignore[no-untyped-def]
    for words in ((), ("--json",)):
        assert run("inspect", golden("config").path, holed, *words).code == 1
    assert run("inspect", golden("config").path, golden("basic").path).code == 0


@pytest.mark.parametrize("gone", ["Orders/0", "Orders"])
def test_directories_of_queues_that_are_missing(gone: str, run: Run, store: Path) -> None:
    shutil.rmtree(store / "consumequeue" / gone)
    result = run("inspect", store)
    [note] = [line for line in result.out.splitlines() if line.startswith("note")]
    assert "note queue-files: files of Orders/0" in note
    assert "run `flintmq rebuild`" in note
    assert run("get", store, "Orders", 0, 3).code == 0
    result = run("tail", store, "Orders", "--since", 0)
    assert (result.code, len(result.out.splitlines()), result.err) == (0, 763, "")

"""`flintmq stats`: what people and programs see, and what is refused, with the count itself."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


def test_figures_for_people_and_a_page(run: Run, golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # to import it is an error
    rows, out = golden("basic").rows, tmp_path / "r.html"
    result = run("stats", golden("basic").path, "--out", out)
    assert (result.code, result.err) == (0, "")
    assert f"messages  {len(rows)} (" in result.out and result.out.endswith(f"result    {out}\n")
    assert "flintmq scan" in out.read_text(encoding="utf-8")


def test_the_same_figures_for_programs(run: Run, golden: Any) -> None:
    rows = [row for row in golden("basic").rows if row["topic"] == "Orders"]
    result = run("stats", golden("basic").path, "--topic", "Orders", "--json", "--threads", "3")
    [found] = result.rows
    assert (result.code, found["messages"], found["bytes"]) == (0, len(rows), sum(row["size"] for row in rows))
    assert found["asked"] == {"topics": ["Orders"], "since": None, "until": None}


def test_what_changed(run: Run, golden: Any, tmp_path: Path) -> None:
    older = tmp_path / "older.json"
    older.write_text(run("stats", golden("basic").path, "--topic", "Orders", "--json").out)
    result = run("stats", golden("basic").path, "--compare", older)
    assert result.code == 0 and "changed   messages: 763 -> 3,000\n" in result.out
    assert "note      the earlier count was asked for other topics or times\n" in result.out
    assert "changed   messages of Shipments: none -> 756\n" in result.out
    same = run("stats", golden("basic").path, "--topic", "Orders", "--compare", older)
    assert same.code == 0 and same.out.endswith("changed   nothing\n")
    [found] = run("stats", golden("basic").path, "--compare", older, "--json").rows
    assert found["compared"]["topics_changed"] == 3


def test_damage_is_said_by_the_exit_code(run: Run, golden: Any, tmp_path: Path) -> None:
    copy = golden("basic").copy(tmp_path)
    with (copy / "commitlog" / "00000000000000131072").open("rb+") as file:
        file.seek(40_000)
        file.write(b"\xff" * 300)
    assert run("stats", copy).code == 1
    skipped = run("stats", copy, "--skip-damage")
    assert skipped.code == 1 and "look      Skipped 1 damaged place of the log" in skipped.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--topic", "Order"], "Order"),
        (["--compare", "none.json"], "there is no such file"),
        (["--since", "yesterday"], "--since"),
        (["--out", "."], "is a directory"),
        (["--threads", "-1"], "--threads"),
    ],
)
def test_wrong_words_are_refused_in_a_line(
    run: Run, golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("stats", golden("basic").path, *words)
    assert result.code in (2, 7) and said in result.err and result.out == ""
    assert len(result.err.splitlines()) == 1 and [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("package", "words"), [("pyarrow", []), ("numpy", []), ("jinja2", ["--out", "r.html"])])
def test_what_is_not_installed_is_named(
    run: Run, golden: Any, monkeypatch: pytest.MonkeyPatch, package: str, words: list[str], tmp_path: Path
) -> None:
    from importlib.util import find_spec

    from flintmq.lake.stats import svg

    svg.templates.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("flintmq.cli.parser.find_spec", lambda name: None if name == package else find_spec(name))
    monkeypatch.chdir(tmp_path)
    result = run("stats", golden("basic").path, *words)
    assert result.code == 8 and result.err.count("\n") == 1
    assert package in result.err and "pip install 'flintmq[stats]'" in result.err


def test_json_of_an_empty_choice(run: Run, golden: Any) -> None:
    result = run("stats", golden("basic").path, "--until", "2001-01-01", "--json")
    assert result.code == 0 and json.loads(result.out)["messages"] == 0

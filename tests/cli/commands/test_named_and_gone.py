"""A store that a manifest names and that is not there: refused, or left out, said, and exit code 1."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.compat.stores import Golden

pytest.importorskip("duckdb", reason="duckdb is not installed")

LENIENT = {
    "scan": ("scan", "STORES"),
    "sql": ("sql", "STORES", "SELECT count(*) FROM messages"),
    "sql with history": ("sql", "STORES", "SELECT count(*) FROM messages", "--history", "TABLE"),
    "sql with history of a stream": ("sql", "STORES", "SELECT count(*) FROM messages", "--history", "STREAMED"),
    "export": ("export", "STORES", "--out", "NEW"),
    "export again": ("export", "STORES", "--out", "TABLE"),
    "export --follow": ("export", "STORES", "--out", "NEW", "--follow", "--once"),
    "export --follow again": ("export", "STORES", "--out", "STREAMED", "--follow", "--once"),
}
STRICT = {
    "verify": ("verify", "STORES"),
    "inspect": ("inspect", "STORES"),
    "diff": ("diff", "STORES", "TABLE"),
    "diff of a stream": ("diff", "STORES", "STREAMED"),
}


@pytest.fixture
def root(run: Run, golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    """A manifest of two stores with two tables of both, the second one of a stream."""
    text = ""
    for broker in "ab":
        shutil.copytree(golden("basic").path, tmp_path / broker / "store")
        text += f'[[stores]]\nstore = "{broker}/store"\nbroker = "{broker}"\n'
    (tmp_path / "cluster.toml").write_text(text)
    assert run("export", tmp_path / "cluster.toml", "--out", tmp_path / "table").code == 0
    assert run("export", tmp_path / "cluster.toml", "--out", tmp_path / "streamed", "--follow", "--once").code == 0
    return tmp_path


def words(command: tuple[str, ...], root: Path) -> list[str]:
    names = {"STORES": "cluster.toml", "NEW": "new", "TABLE": "table", "STREAMED": "streamed"}
    return [str(root / names[word]) if word in names else word for word in command]


def said(root: Path) -> str:
    return f"{root}/b/store: no commitlog/ there, of broker 'b'; is its disk mounted?"


@pytest.mark.parametrize("command", LENIENT)
def test_it_is_left_out_with_exit_code_1(run: Run, root: Path, command: str) -> None:
    """Before, a whole broker was left out with exit code 0."""
    given = words(LENIENT[command], root)
    assert run(*given, "--skip-damage").code == 0, "all are there"
    shutil.move(root / "b", root / "away")
    shutil.rmtree(root / "new", ignore_errors=True)
    result = run(*given)
    assert (result.code, result.out) == (2, "") and said(root) in result.err
    result = run(*given, "--skip-damage")
    assert result.code == 1 and f"{said(root)}; left out" in result.out + result.err


@pytest.mark.parametrize("command", STRICT)
def test_it_is_refused_where_all_are_needed(run: Run, root: Path, command: str) -> None:
    given = words(STRICT[command], root)
    assert run(*given).code == 0
    shutil.move(root / "b", root / "away")
    result = run(*given)
    assert (result.code, result.out) == (2, "") and said(root) in result.err


def test_the_note_of_an_export(run: Run, root: Path) -> None:
    shutil.move(root / "b", root / "away")
    for more in ([], ["--follow", "--once"]):
        out = root / f"new{len(more)}"
        result = run("export", root / "cluster.toml", "--out", out, "--skip-damage", "--json", *more)
        told = json.loads(result.out.splitlines()[-1])
        assert (result.code, told["notes"]) == (1, {"lost": 1})
        assert told["note_texts"] == {"lost": [f"{said(root)}; left out"]}


def test_what_only_matches_a_pattern_is_no_loss(run: Run, root: Path) -> None:
    shutil.rmtree(root / "b" / "store" / "commitlog")
    for words in (["scan"], ["sql", "SELECT 1"], ["export", "--out", str(root / "new")]):
        result = run(words[0], f"{root}/*/store", *words[1:], "--skip-damage")
        assert result.code == 0 and said(root) in result.out + result.err

"""Which of a family of alike tests run: another part each day where workers share the tests, else all."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness import turns

VERSIONS = [f"tests/a.py::test_x[{version}-basic]" for version in ("5.3.3", "5.4.0", "5.5.0")]
MARKED = [f"tests/b.py::test_p[{page}:{line}]" for page in ("one", "two", "three", "four") for line in (1, 2)]
NIGHTLY = ["tests/c.py::test_n[a]", "tests/c.py::test_n[b]"]
OTHERS = ["tests/a.py::test_y", "tests/a.py::test_z[5.4.0]", "tests/a.py::test_x[5.4.0-rolled]"]


def item(name: str) -> Any:
    """A test; those of MARKED have the mark with their page as the member, those of NIGHTLY the other mark."""
    page = name.rpartition("[")[2].partition(":")[0]
    mark = SimpleNamespace(args=(3,), kwargs={"member": page, "of": [f"docs/{page}", "src/every"]})
    marks = {"turn": mark if name in MARKED else None}
    marks["nightly"] = SimpleNamespace(kwargs={"of": ["src/every"]}) if name in NIGHTLY else None
    return SimpleNamespace(nodeid=name, get_closest_marker=marks.get)


def kept(names: list[str], turn: int | str, changed: str = "src/else.py", **more: Any) -> list[str]:
    """What is left of these tests; what is left out is told to pytest."""
    told: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    items = [item(name) for name in names]
    every = {id(one) for one in items}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(turns.VARIABLE, str(turn))
        patch.setattr(turns, "_changes", lambda: frozenset([changed]))
        turns.take(SimpleNamespace(hook=hook, **more), items)  # type: ignore[arg-type]
    assert {id(one) for one in items + told} == every
    return [one.nodeid for one in items]


def test_each_version_has_its_day():
    days = [kept(VERSIONS + OTHERS, turn, workerinput={}) for turn in range(20_000, 20_003)]
    assert [day[1:] for day in days] == [OTHERS] * 3
    assert {day[0] for day in days} == set(VERSIONS)


def test_members_of_a_mark_have_their_days_and_stay_together():
    days = [kept(MARKED, turn, workerinput={}) for turn in range(20_000, 20_003)]
    assert sorted(name for day in days for name in day) == sorted(MARKED), "each once in three days"
    assert sorted(len(day) for day in days) == [2, 2, 4]
    assert all({name.replace(":1]", ":2]") for name in day} <= set(day) for day in days)


@pytest.mark.parametrize(("changed", "always"), [("docs/two.md", MARKED[2:4]), ("src/every/x.py", MARKED)])
def test_what_changed_runs_each_day(changed: str, always: list[str]):
    for turn in range(3):
        assert set(kept(MARKED, turn, changed, workerinput={})) >= set(always)


@pytest.mark.parametrize(("changed", "there"), [("src/else.py", []), ("src/every/x.py", NIGHTLY)])
def test_nightly_ones_run_where_their_files_changed(changed: str, there: list[str]):
    assert [kept(NIGHTLY, turn, changed, workerinput={}) for turn in range(3)] == [there] * 3


@pytest.mark.parametrize(("turn", "more"), [("all", {"workerinput": {}}), (1, {})], ids=["all", "one process"])
def test_all_of_them(turn: int | str, more: dict[str, Any]):
    every = VERSIONS + MARKED + NIGHTLY + OTHERS
    assert kept(every, turn, **more) == every


def test_the_head_of_a_run_tells_the_turn(monkeypatch: pytest.MonkeyPatch):
    config: Any = SimpleNamespace(option=SimpleNamespace(numprocesses=2))
    monkeypatch.setenv(turns.VARIABLE, "7")
    assert turns.told(config).startswith("turn 7: ") and "FLINTMQ_TURN=all" in turns.told(config)
    assert turns.day() == 7
    monkeypatch.setenv(turns.VARIABLE, "all")
    assert turns.told(config) == "" and turns.day() > 20_000
    assert turns.told(SimpleNamespace(option=SimpleNamespace(numprocesses=None))) == ""  # type: ignore[arg-type]


def test_what_git_does_not_know_has_not_changed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BASE", "no-such-commit")
    assert turns._changes.__wrapped__() == frozenset()


def test_each_turn_names_paths_that_there_are():
    """Else a change of these files would not make the tests run."""
    root, given = Path(__file__).resolve().parents[2], r"(?:mark\.(?:turn|nightly)|one_a_day)\((?:[^()]|\([^()]*\))*\)"
    named = {
        path
        for file in (root / "tests").rglob("*.py")
        if file != Path(__file__)
        for turn in re.findall(given, file.read_text(encoding="utf-8"))
        for path in re.findall(r'"([^"]*)"', turn.partition("of=")[2])
    }
    assert len(named) > 10
    assert [path for path in sorted(named) if not list(root.glob(f"{path.rstrip('/')}*"))] == []

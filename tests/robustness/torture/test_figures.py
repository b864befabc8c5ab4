"""What the long runs have counted: the sums in the page, and how another run is added."""

from pathlib import Path

import pytest

from labs.torture import figures, report
from labs.torture.figures import FIGURES, LABS, Figures, Series

PAGE = LABS.parent / "docs" / "internals" / "reliability.md"


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_has_the_sums_of_each_data_file(name: str):
    series, (begin, end) = figures.read(name), report.marks(name)
    assert series, "no run is kept"
    between = PAGE.read_text(encoding="utf-8").partition(f"{begin}\n")[2].partition(f"\n{end}")[0]
    assert between == "\n".join(figures.lines(name, series))
    assert all(len(row) == len(one.columns) for one in series for row in one.rows)
    assert "all" not in [row[0] for one in series for row in one.rows], "a row of sums would count all twice"
    declared = {*FIGURES[name].sums, *FIGURES[name].wrong, *FIGURES[name].spread}
    assert declared <= {known for one in series for known in (*one.columns, *one.told)}, "what nobody counts"
    assert len({one.run for one in series}) == len(series)


def test_every_data_file_is_of_a_run():
    found = {path for path in LABS.rglob("*.json") if path.read_text(encoding="utf-8").startswith('{"series": [')}
    assert found == {figures.place(name) for name in FIGURES}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page for two runs, `a` and `b`, whose data files are beside it."""
    monkeypatch.setattr(figures, "LABS", tmp_path)
    monkeypatch.setitem(FIGURES, "a", Figures(".", ("kills", "minutes"), ("lost", "altered")))
    monkeypatch.setitem(FIGURES, "b", Figures(".", (), (), ("seconds",), by="size"))
    page = tmp_path / "page.md"
    page.write_text("<!-- a: begin -->\n<!-- a: end -->\n<!-- b: begin -->\nold\n<!-- b: end -->\n")
    return page


def of(kills: int, run: str, day: str, note: str = "") -> Series:
    return Series(["kind", "kills", "lost"], [["x", kills, 0], ["y", 1000, 1]], [f"commit {run}, {day}"],
                  {"minutes": 2.4, "altered": 1}, run, note)  # fmt: skip


def told(page: Path, name: str) -> str:
    begin, end = report.marks(name)
    return page.read_text().partition(f"{begin}\n")[2].partition(f"\n{end}")[0]


def test_another_run_is_added_and_the_same_run_counts_once(page: Path):
    figures.record(page, "a", of(1, "first", "1 May 2026"))
    assert told(page, "a") == "1,001 kills, 2 minutes; 2 wrong. Commit first, 1 May 2026."
    figures.record(page, "a", of(5, "second", "2 May 2026", "Said besides."))
    figures.record(page, "a", of(7, "first", "1 May 2026"))
    assert [(one.run, one.rows[0]) for one in figures.read("a")] == [("first", ["x", 7, 0]), ("second", ["x", 5, 0])]
    sums = "2,012 kills, 5 minutes; 4 wrong. Commits first to second, 1 to 2 May 2026."
    assert told(page, "a") == f"{sums}\n\nSaid besides."
    assert told(page, "b") == "old"


def test_a_line_for_each_value_of_a_column(page: Path):
    rows = [["small", 0.25], ["large", 3.0], ["small", 0.5]]
    figures.record(page, "b", Series(["size", "seconds"], rows, ["commit -, 30 April 2026", "commit c, 1 May 2026"]))
    done = "Commit c, 30 April 2026 to 1 May 2026"
    assert told(page, "b") == (
        f"- size small: 0.25 to 0.5 seconds. {done}.\n- size large: 3 to 3 seconds. {done}."
    )  # fmt: skip


def test_what_is_a_column_and_told_besides_is_refused():
    with pytest.raises(AssertionError, match="kills would be counted twice"):
        list(Series(["kills"], [[1]], [], {"kills": 1}).values("kills"))

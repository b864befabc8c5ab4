"""The pages that promise something name the tests that hold the promise; the tests must be there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = {
    name: path.relative_to(ROOT)
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}
CASES = {int(number) for name in TESTS for number in re.findall(r"(?<=_)d(\d+)(?=_)", name)}
PAGES = ["durability.md", "upstream-defects.md", "defect-classes.md", "reliability.md", "../reliability.md"]
NOT_BUILT = {15, 16, 17, 18, 19, 26}


def page(name: str) -> str:
    return (ROOT / "docs" / "internals" / name).read_text(encoding="utf-8")


def rows(text: str, first: str) -> dict[str, str]:
    """The lines of a table whose first cell matches, by that cell."""
    return {m[1]: m[0] for m in re.finditer(rf"^\| ({first})\b.*$", text, re.MULTILINE)}


@pytest.mark.parametrize("name", PAGES)
def test_every_test_that_a_page_names_is_there(name: str):
    named = set(re.findall(r"`(test_\w+)`", page(name)))
    assert named - TESTS.keys() == set()
    files = re.findall(r"`(tests/[\w/]+\.py)`", page(name))
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert files if name.endswith("reliability.md") else named


def test_each_line_of_the_contract_has_tests():
    lines = rows(page("durability.md"), r"[1-7]\. ")
    assert len(lines) == 7
    for line, row in lines.items():
        assert len(re.findall(r"`test_\w+`", row)) >= 3, line


def test_each_known_defect_is_in_the_table_with_its_tests():
    table = rows(page("upstream-defects.md"), r"D\d+(?: to D\d+)?")
    found: set[int] = set()
    for case, row in table.items():
        low, *high = map(int, re.findall(r"\d+", case))
        numbers = set(range(low, (high or [low])[-1] + 1))
        found |= numbers
        named = re.findall(r"`(test_\w+)`", row)
        assert bool(named) != (numbers <= NOT_BUILT), case
        assert all(f"_d{low}_" in name for name in named), case
    assert found == set(range(1, 38))
    assert found - NOT_BUILT == CASES, "and no test has a number that is not there"

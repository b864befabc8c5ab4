"""A part of the cases of `labs/hostile/pages.py`, which tries them all; subsets of what is derived all the
time."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from labs.hostile import pages
from labs.torture import report
from tests.support.crashed import small_and_quick
from tests.support.own_time import own_time


def wrong(cases: Callable[..., Iterator[pages.Case]], folder: Path, stride: int, least: int) -> list[object]:
    """The cases that must not be, of each stride-th; there are so many of them at least."""
    found = [(name, tried()) for name, tried in cases(folder, stride)]
    assert len(found) >= least
    return [case for case in found if case[1]]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_and_quick(monkeypatch.setattr)


def test_t8_pages_that_are_lost_or_written_to_another_place(tmp_path: Path) -> None:
    assert wrong(pages.page_cases, tmp_path, 17, 15) == []


def test_t9_files_of_every_length(tmp_path: Path) -> None:
    assert wrong(pages.length_cases, tmp_path, 797, 20) == []


def test_t9_files_that_are_gone_renamed_doubled_swapped(tmp_path: Path) -> None:
    assert wrong(pages.name_cases, tmp_path, 23, 20) == []


def test_t12_what_is_derived_is_made_again_byte_for_byte(tmp_path: Path) -> None:
    assert wrong(pages.subset_cases, tmp_path, 3, 40) == []


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def attempt(n: int) -> list[str]:
        tried.append(n)
        if len(tried) == 2:
            now[0] = 11.0
        return ["gone"] if n == 1 else []

    now = [0.0]
    monkeypatch.setattr(pages, "KINDS", {"some": lambda folder: ((f"case {n}", partial(attempt, n)) for n in range(4))})
    own_time(monkeypatch, pages, monotonic=lambda: now[0])

    def state() -> report.State:
        return report.State(tmp_path / "state.json", kinds={}, commits=[])

    pages.go_on("some", state(), 10)
    assert tried == [0, 1] and state()["kinds"]["some"] == {"done": 2, "wrong": ["case 1: gone"], "all": False}
    assert pages.series(state()).rows == [["some", 2, "not all", 1]]
    pages.go_on("some", state(), 20)
    assert tried == [0, 1, 2, 3] and state()["kinds"]["some"]["all"]
    assert pages.series(state()).rows == [["some", 4, "all", 1]]

"""Which tests of a family of alike ones run today.

Some tests are there many times and cost much each time: one for each version of RocketMQ starts a Java machine, one for
each page of docs/spark starts Spark. What one of them finds the others mostly find too. Where several workers share the
tests, so in `make test` and CI, such a family runs in part, another part each day, and after some days all of it has
run. A file or test that is named runs whole, and so does everything with FLINTMQ_TURN=all (two of the runs of
`make torture`). FLINTMQ_TURN=0, 1, 2, ... names the day. Families are:

- Tests whose names differ in nothing but RocketMQ's version: one version a day.
- Tests with the mark `turn(days, member=NAME, of=PATHS)`: of a function's members one in `days`. Without `member` each
  of the function's parameters is one; tests of the same `member` run together. A member of which a file has changed, by
  `git diff` since the commit BASE (main), runs each day: `of` are the beginnings of the paths of its files.

Tests with the mark `nightly(of=PATHS)` run where everything does (so each night), and where a file of `of` has changed:
they take about a minute, and other tests find nearly all that they find.
"""

import os
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from labs.mutants.__main__ import changed_since
from labs.mutants.patches import PatchError

VARIABLE = "FLINTMQ_TURN"
_VERSION = re.compile(r"(?<=[\[-])5\.\d\.\d(?=[]-])")  # in a test's id: [5.4.0-basic], [basic-5.4.0]


def one_a_day(values: Sequence[str], of: Sequence[str]) -> list[Any]:
    """Parameters of which one runs a day, of each test another; all where a file of `of` has changed."""
    return [pytest.param(value, marks=pytest.mark.turn(len(values), member=value, of=of)) for value in values]


def agree() -> None:
    """Have all workers take the same turn, also at midnight. The process that starts them calls it."""
    os.environ.setdefault(VARIABLE, str(_today()))


def day() -> int:
    """The number of the turn, for tests that choose by themselves what to ask today."""
    named = os.environ.get(VARIABLE, "all")
    return _today() if named == "all" else int(named)


def _today() -> int:
    return int(time.time() // 86400)


def told(config: pytest.Config) -> str:
    """A line for the head of a run that leaves some out, else nothing."""
    if not getattr(config.option, "numprocesses", None) or os.environ[VARIABLE] == "all":
        return ""
    return f"turn {os.environ[VARIABLE]}: of families of alike tests a part runs; FLINTMQ_TURN=all: everything"


def take(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose turn it is not; pytest counts them as deselected."""
    turn = os.environ.get(VARIABLE, "all")
    if turn == "all" or not hasattr(config, "workerinput"):
        return
    left_out = {item.nodeid for item in _others(items, int(turn))}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def _others(items: list[pytest.Item], turn: int) -> list[pytest.Item]:
    """The tests whose turn it is not."""
    families: dict[tuple[str, int], dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    others: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("turn")
        if (nightly := item.get_closest_marker("nightly")) is not None:
            others += [] if _changed(nightly) else [item]
        elif mark is not None:
            name = item.nodeid.partition("[")[0]
            families[name, mark.args[0]][mark.kwargs.get("member", item.nodeid)].append(item)
        elif version := _VERSION.search(item.nodeid):
            families[_VERSION.sub("", item.nodeid), 0][version[0]].append(item)
    for (name, days), members in families.items():
        first = zlib.crc32(name.encode()) + turn
        for place, member in enumerate(members.values()):
            if (first - place) % (days or len(members)) and not _changed(member[0].get_closest_marker("turn")):
                others += member
    return others


def _changed(mark: pytest.Mark | None) -> bool:
    of = tuple(mark.kwargs.get("of", ())) if mark is not None else ()
    return bool(of) and any(path.startswith(of) for path in _changes())


@cache
def _changes() -> frozenset[str]:
    """Paths that differ from the commit BASE; none where git does not know."""
    try:
        return frozenset(changed_since(os.environ.get("BASE") or "main"))
    except (PatchError, OSError):
        return frozenset()

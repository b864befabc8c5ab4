"""Which version of RocketMQ a test meets: another one each day where workers share the tests, else all."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import turns

ALIKE = [f"tests/a.py::test_x[{version}-basic]" for version in ("5.3.3", "5.4.0", "5.5.0")]
OTHERS = ["tests/a.py::test_y", "tests/a.py::test_z[5.4.0]", "tests/a.py::test_x[5.4.0-rolled]"]


def kept(turn: str, **more: Any) -> list[str]:
    """What is left of all these tests; what is left out is told to pytest."""
    told: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in ALIKE + OTHERS]
    every = {id(item) for item in items}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(turns.VARIABLE, turn)
        turns.take(SimpleNamespace(hook=hook, **more), items)  # type: ignore[arg-type]
    assert {id(item) for item in items + told} == every
    return [item.nodeid for item in items]


def test_each_version_has_its_day():
    days = [kept(str(turn), workerinput={}) for turn in range(20_000, 20_003)]
    assert [day[1:] for day in days] == [OTHERS] * 3
    assert {day[0] for day in days} == set(ALIKE)


@pytest.mark.parametrize(("turn", "more"), [("all", {"workerinput": {}}), ("1", {})], ids=["all", "one process"])
def test_all_of_them(turn: str, more: dict[str, Any]):
    assert kept(turn, **more) == ALIKE + OTHERS

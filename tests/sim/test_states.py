"""States after a power cut: all of them where there are few, and the same ones every time."""

from __future__ import annotations

import random

from tests.sim.disk import ROOT, SimDisk
from tests.sim.states import Uncertain


def disk(pages: int) -> SimDisk:
    found = SimDisk(3, "journal")
    fd = found.create(f"{ROOT}/a", pages * 4096)
    found.sync(fd)
    for page in range(pages):
        found.pwrite(fd, b"x" * 700, page * 4096)
    found.create(f"{ROOT}/b", 0)
    return found


def test_few_states_are_all_there():
    uncertain = Uncertain.of(disk(1))
    assert uncertain.states == 2 * 3, "a name, and three versions of a page"
    states = list(uncertain.choose(100, random.Random(1)))
    assert len(set(states[:6])) == 6
    images = {tuple(uncertain.image(state).files.items()) for state in states[:6]}
    assert len(images) == 6 and {"b" in dict(i).get(f"{ROOT}/b", b"b").decode() for i in images} <= {True, False}


def test_many_states_begin_with_the_corners_and_keep_to_the_budget():
    uncertain = Uncertain.of(disk(12))
    assert uncertain.states == 2 * 3**12
    one, two = (list(uncertain.choose(60, random.Random(1))) for _ in range(2))
    assert one == two and len(one) == 60
    assert set(one[0].pages) == {0} and set(one[1].pages) == {2}
    assert uncertain.image(one[1]).files[f"{ROOT}/a"] == bytes(uncertain.disk.find(f"{ROOT}/a").shown)  # type: ignore
    assert any(page > 2 for state in one for page in state.pages), "torn sectors"

"""What both explorers share: which states are judged, how often, and how they are made again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import ClassVar

from tests.sim.cut_explorer import CutExplorer, EnoughError, Failure, Judged
from tests.sim.disk import Image, SimDisk


@dataclass(frozen=True)
class Case:
    seed: int = 3
    model: str = "ext4"


class Writes:
    """Lives that write a file of one byte in three steps; a mistake at the end, if that is asked for."""

    def __init__(self, disk: SimDisk, breaks: bool) -> None:
        self.disk, self.complaints, self._breaks = disk, ["a complaint"], breaks

    def go(self) -> None:
        fd = self.disk.create("/store/file", 1)
        self.disk.pwrite(fd, b"x", 0)
        self.disk.sync(fd)
        self.disk.close(fd)
        if self._breaks:
            raise LookupError("of the lives")


@dataclass
class Looks(CutExplorer[Case, Writes, int]):
    """Finds fault with each state that is deep enough."""

    DEEPEST: ClassVar[int] = 2
    OPTIONS: ClassVar[str] = "--looks "

    breaks: bool = False
    wrong_from: int = 9
    enough: int = 10_000
    judged: list[tuple[bool, int, int]] = field(default_factory=list)

    def _lives(self, disk: SimDisk) -> Writes:
        disk.mkdirs("/store")
        return Writes(disk, self.breaks)

    def _promised(self, *, power: bool) -> int:
        return int(power)

    def _is_new(self, image: Image, promised: int, depth: int) -> bool:
        if len(self.judged) >= self.enough:
            raise EnoughError
        return True

    def _judge(self, image: Image, promised: int, disk: SimDisk, chance: random.Random, depth: int) -> Judged:
        self.judged.append((image.power, promised, depth))
        if depth == self.wrong_from:
            raise ValueError("wrong")
        return Judged(1, "too deep" if depth > self.wrong_from else "")

    def _recover(self, disk: SimDisk) -> None:
        disk.listdir("/store")
        disk.mkdirs("/store/again")


def test_a_kill_and_power_cuts_are_judged_by_their_own_promises():
    found = Looks(Case(), 4).go()
    assert [failure.what for failure in found.failures] == ["a complaint"]
    assert {(power, promised) for power, promised, depth in found.judged if depth == 1} == {(False, 0), (True, 1)}
    assert {depth for _, _, depth in found.judged} == {1, 2}, "never deeper than DEEPEST"


def test_a_violation_has_the_numbers_that_make_its_state_again():
    found = Looks(Case(), 4, wrong_from=1).go()
    assert {depth for _, _, depth in found.judged} == {1}, "a wrong state is not stopped once more"
    first = found.failures[0]
    assert first.what.startswith("ValueError: wrong") and (first.seed, first.model) == (3, "ext4")
    assert first.replay == (
        f"python -m labs.sim.crash --looks --seed 3 --model ext4 --cut {first.cut} --state {first.state}"
    )
    again = Looks(Case(), 4, first.cut, first.state, wrong_from=1).go()
    assert len(again.judged) == 1 and again.failures[0] == first


def test_a_mistake_in_the_lives_is_a_violation_and_its_state_is_judged():
    whole, broken = Looks(Case(), 2).go(), Looks(Case(), 2, breaks=True).go()
    assert [failure.what.splitlines()[-1] for failure in broken.failures] == [
        "LookupError: of the lives",
        "a complaint",
    ]
    assert len(broken.judged) == len(whole.judged)


def test_enough_is_enough():
    assert len(Looks(Case(), 4, enough=3).go().judged) == 3
    assert Failure(1, "m", 2, 3, 1, "x").replay.endswith("crash --seed 1 --model m --cut 2 --state 3")

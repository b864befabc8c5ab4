"""Stops the disk of a simulated run at every call, and has each state judged.

The explorer of a store and that of a follower inherit it. They say what is promised, and judge a recovered state; which
states there are, which were seen, how a recovery is itself stopped, and the numbers that make a state again are here.
"""

from __future__ import annotations

import gc
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from flintmq.errors import FlintError
from tests.sim.disk import Image, PowerCut, SimDisk
from tests.sim.states import Uncertain
from tests.sim.tracebacks import portable_traceback

DEEPER: Final = 0.25
"""Share of the states whose recovery is stopped, too."""


class SimCase(Protocol):
    """The part of a case that identifies it."""

    @property
    def seed(self) -> int:
        """Seed of all that is drawn."""

    @property
    def model(self) -> str:
        """Model of the disk."""


class SimLives(Protocol):
    """The part of a run that an explorer drives."""

    disk: SimDisk
    complaints: list[str]

    def go(self) -> object:
        """Run the case."""


@dataclass(frozen=True)
class Failure:
    """A state after which a promise does not hold.

    Attributes:
        seed, model, cut, state: identify it.
        depth: 1, or more if recovery itself was stopped.
        what: the violation.
        options: of the command line, before these.
    """

    seed: int
    model: str
    cut: int
    state: int
    depth: int
    what: str
    options: str = ""

    @property
    def replay(self) -> str:
        """The command that makes the state again."""
        return (
            f"python -m labs.sim.crash {self.options}--seed {self.seed} --model {self.model} "
            f"--cut {self.cut} --state {self.state}"
        )


class Judged(NamedTuple):
    """A state that was recovered.

    Attributes:
        calls: calls of the disk that recovery made.
        wrong: the promise that does not hold; empty: all hold.
    """

    calls: int
    wrong: str = ""


class EnoughError(BaseException):
    """As many states were explored as were asked for."""


C = TypeVar("C", bound=SimCase)
R = TypeVar("R", bound=SimLives)
P = TypeVar("P")  # what is promised of a state


@dataclass
class CutExplorer(ABC, Generic[C, R, P]):
    """Explores one case.

    Args:
        case: the case.
        per_cut: most states at one call.
        cut, state: only this call, and only this state of it; None for all.

    Attributes:
        counts: depth -> different states of power cuts that were recovered; 0 -> the same of kills.
        failures: the violations.
        trace: of the disk, at the end.
        run: the lives, from `go` on.
    """

    DEEPEST: ClassVar[int]
    OPTIONS: ClassVar[str] = ""

    case: C
    per_cut: int = 8
    cut: int | None = None
    state: int | None = None
    counts: Counter[int] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    trace: int = 0
    _seen: set[int] = field(default_factory=set)
    _last: tuple[int, int] = (0, -1)

    def go(self) -> Self:
        """Run the case and explore every call."""
        self.run: R = self._lives(SimDisk(self.case.seed, self.case.model))
        self.run.disk.at_call = self._at_call
        try:
            try:
                self.run.go()
            except Exception:
                self._fail(self.run.disk.calls, 0, 0, portable_traceback())
            self._at_call("end", "")
        except EnoughError:
            pass
        for complaint in self.run.complaints:
            self._fail(self.run.disk.calls, 0, 0, complaint)
        self.trace = self.run.disk.trace
        return self

    # -- for the explorers that inherit it ----------------------------------------------------------------------------

    @abstractmethod
    def _lives(self, disk: SimDisk) -> R:
        """Return the run of the case on a disk."""

    @abstractmethod
    def _promised(self, *, power: bool) -> P:
        """Return what must hold if the machine, or only the process, stops now."""

    @abstractmethod
    def _is_new(self, image: Image, promised: P, depth: int) -> bool:
        """Return whether a state was not judged by these promises before, and count it."""

    @abstractmethod
    def _judge(self, image: Image, promised: P, disk: SimDisk, chance: random.Random, depth: int) -> Judged:
        """Recover a state on a disk that has its image, and check it.

        Raises:
            AssertionError, FlintError, OSError, LookupError, ValueError, TypeError: likewise a violation.
        """

    @abstractmethod
    def _recover(self, disk: SimDisk) -> None:
        """Recover a state whose disk stops amid it, or refuses a call."""

    def _is_dull(self) -> bool:
        """Return whether the states of this moment need not be explored."""
        return False

    def _spoil(self, disk: SimDisk, chance: random.Random, stop: int) -> None:
        """Plan more faults for a recovery that stops at a call."""

    # -- states -------------------------------------------------------------------------------------------------------

    def _at_call(self, name: str, path: str) -> None:
        disk = self.run.disk
        now = id(disk), disk.generation
        if now == self._last or self.cut not in (None, disk.calls) or self._is_dull():
            return
        self._last = now
        for number, (image, promised) in enumerate(self._states(disk)):
            if self.state in (None, number):
                self._look(image, promised, disk.calls, number, 1)

    def _states(self, disk: SimDisk) -> Iterator[tuple[Image, P]]:
        """Yield the possible states: after a kill, and after a power cut."""
        yield disk.shown(), self._promised(power=False)
        chance = random.Random(f"{self.case.seed}-{disk.calls}")
        uncertain, promised = Uncertain.of(disk), self._promised(power=True)
        for state in uncertain.choose(self.per_cut, chance):
            yield uncertain.image(state), promised

    def _look(self, image: Image, promised: P, cut: int, number: int, depth: int) -> None:
        """Have one state judged; now and then stop its recovery too."""
        if not self._is_new(image, promised, depth):
            return
        chance = random.Random(f"{self.case.seed}-{cut}-{number}-{depth}")
        disk = SimDisk(self.case.seed, self.case.model, image, watched=False)
        try:
            judged = self._judge(image, promised, disk, chance, depth)
        except (AssertionError, FlintError, OSError, LookupError, ValueError, TypeError) as error:
            lines = portable_traceback().splitlines()[-3:]
            self._fail(cut, number, depth, f"{type(error).__name__}: {error} {lines[0].strip()}")
            return
        finally:
            gc.collect(0)  # a store is full of cycles; now it is small and still in the processor's cache
        if judged.wrong:
            self._fail(cut, number, depth, judged.wrong)
        elif depth < self.DEEPEST and chance.random() < DEEPER:
            self._deeper(image, promised, cut, number, depth, chance, max(judged.calls, 1))

    def _deeper(
        self, image: Image, promised: P, cut: int, number: int, depth: int, chance: random.Random, calls: int
    ) -> None:
        """Stop the recovery of a state at one of its calls, and explore the states after that."""
        disk = SimDisk(chance.randrange(1 << 30), self.case.model, image)
        stop = chance.randint(1, calls)
        self._spoil(disk, chance, stop)
        disk.plan[stop] = "power"
        try:
            self._recover(disk)
        except (PowerCut, OSError, FlintError):
            pass
        if chance.random() < 0.2:
            self._look(disk.shown(), promised, cut, number, depth + 1)
            return
        uncertain = Uncertain.of(disk)
        for state in list(uncertain.choose(8, chance))[-2:]:
            self._look(uncertain.image(state), promised, cut, number, depth + 1)

    def _fail(self, cut: int, number: int, depth: int, what: str) -> None:
        self.failures.append(Failure(self.case.seed, self.case.model, cut, number, depth, what, self.OPTIONS))

"""The crash explorer: stops a simulated machine at every call, recovers and compares.

The durability contract judges each recovered state. Now and then recovery itself is stopped, also with a fault in it,
and the state after that is recovered (depth 2 and 3).
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from flintmq.errors import FlintError
from flintmq.store.message_store import MessageStore
from flintmq.testing.sim.contract import Book, check_contract, config_of
from flintmq.testing.sim.disk import Image, PowerCut, SimDisk
from flintmq.testing.sim.run import SHORT, STORE, Case, SimRun
from flintmq.testing.sim.states import Uncertain
from flintmq.testing.sim.tracebacks import portable_traceback

DEEPEST = 3
ERRORS = (5, 28, 24, 30)  # EIO, ENOSPC, EMFILE, EROFS: faults during recovery


@dataclass(frozen=True)
class Failure:
    """A state after which the contract does not hold.

    Attributes:
        seed, model, cut, state: identify it.
        depth: 1, or more if recovery itself was stopped.
        what: the violation.
    """

    seed: int
    model: str
    cut: int
    state: int
    depth: int
    what: str

    @property
    def replay(self) -> str:
        """The command that makes the state again."""
        return (
            f"python -m flintmq.testing.sim.crash --seed {self.seed} --model {self.model} --cut {self.cut} "
            f"--state {self.state}"
        )


@dataclass
class Explorer:
    """Explores one case.

    Args:
        case: the case.
        per_cut: most states at one call.
        cut, state: only this call, and only this state of it; None for all.

    Attributes:
        counts: depth -> different states of power cuts that were recovered and compared; 0 -> the same of kills.
        again: known states that were recovered and compared again because more, or less, was promised by then.
        torn: records in them as counted by `ContractReport.torn`.
        failures: the violations.
        trace: of the disk, at the end.
    """

    case: Case
    per_cut: int = 8
    cut: int | None = None
    state: int | None = None
    counts: Counter[int] = field(default_factory=Counter)
    again: int = 0
    torn: int = 0
    failures: list[Failure] = field(default_factory=list)
    trace: int = 0
    _seen: set[int] = field(default_factory=set)
    _images: set[int] = field(default_factory=set)
    _last: tuple[int, int] = (0, -1)

    def go(self) -> Explorer:
        """Run the case and explore every call."""
        self.run = SimRun(self.case, SimDisk(self.case.seed, self.case.model))
        self.run.disk.at_call = self._at_call
        try:
            self.run.go()
        except Exception:
            self._fail(self.run.disk.calls, 0, 0, portable_traceback())
        self._at_call("end", "")
        for complaint in self.run.complaints:
            self._fail(self.run.disk.calls, 0, 0, complaint)
        self.trace = self.run.disk.trace
        return self

    def _at_call(self, name: str, path: str) -> None:
        disk = self.run.disk
        now = id(disk), disk.generation
        if now == self._last or (self.cut not in (None, disk.calls)) or self.run.at < self.case.known:
            return
        if self.case.seed >= SHORT and not self.run.book.sent:
            return  # drawn cases begin alike, as short cases do, which are explored from the first call on
        self._last = now
        for number, (image, book) in enumerate(self._states(disk)):
            if self.state in (None, number):
                self._look(image, book, disk.calls, number, 1)

    def _states(self, disk: SimDisk) -> Iterator[tuple[Image, Book]]:
        """Yield the possible states: after a kill, and after a power cut."""
        yield disk.shown(), self.run.now(power=False)
        chance = random.Random(f"{self.case.seed}-{disk.calls}")
        uncertain, book = Uncertain.of(disk), self.run.now(power=True)
        for state in uncertain.choose(self.per_cut, chance):
            yield uncertain.image(state), book

    def _look(self, image: Image, book: Book, cut: int, number: int, depth: int) -> None:
        """Recover one state and compare it; now and then stop that recovery too."""
        left = hash((tuple(image.files.items()), image.power))
        consumed = 0 if book.consumed is None else book.consumed.key
        known = hash((left, len(book.answers), tuple(book.safe.items()), consumed))
        if known in self._seen:
            return
        self._seen.add(known)
        if left in self._images:
            self.again += 1
        else:
            self._images.add(left)
            self.counts[depth if image.power else 0] += 1
        chance = random.Random(f"{self.case.seed}-{cut}-{number}-{depth}")
        disk = SimDisk(self.case.seed, self.case.model, image, watched=False)
        calls: list[int] = []
        try:
            found = check_contract(
                STORE, book, self.case.keys, effects=disk, services=False, again=chance.random() < 0.1,
                opened=lambda store: calls.append(disk.calls),
            )  # fmt: skip
        except (AssertionError, FlintError, OSError, LookupError, ValueError, TypeError) as error:
            lines = portable_traceback().splitlines()[-3:]
            self._fail(cut, number, depth, f"{type(error).__name__}: {error} {lines[0].strip()}")
            return
        finally:
            gc.collect(0)  # a store is full of cycles; now it is small and still in the processor's cache
        self.torn += found.torn
        if found.wrong:
            self._fail(cut, number, depth, f"{found.wrong} {found.notes[:4]}")
        elif disk.held:
            self._fail(cut, number, depth, f"descriptors left open: {disk.held}")
        elif depth < DEEPEST and chance.random() < 0.25:
            self._deeper(image, book, cut, number, depth, chance, max(calls[-1], 1))

    def _deeper(
        self, image: Image, book: Book, cut: int, number: int, depth: int, chance: random.Random, calls: int
    ) -> None:
        """Stop the recovery of a state at one of its calls, and explore the states after that."""
        disk = SimDisk(chance.randrange(1 << 30), self.case.model, image)
        stop = chance.randint(1, calls)
        disk.plan[stop] = "power"
        if chance.random() < 0.3:
            disk.plan[chance.randint(1, stop)] = chance.choice(ERRORS)
            disk.plan[stop] = "power"
        try:
            MessageStore(STORE, config=config_of(tuple(self.case.keys.items())), effects=disk, services=False)
        except (PowerCut, OSError, FlintError):
            pass
        disk.at_call = None
        if chance.random() < 0.2:
            self._look(disk.shown(), book, cut, number, depth + 1)
            return
        uncertain = Uncertain.of(disk)
        for state in list(uncertain.choose(8, chance))[-2:]:
            self._look(uncertain.image(state), book, cut, number, depth + 1)

    def _fail(self, cut: int, number: int, depth: int, what: str) -> None:
        self.failures.append(Failure(self.case.seed, self.case.model, cut, number, depth, what))


def shrunk(case: Case, per_cut: int) -> Case:
    """Return the case without the operations that its failure does not need."""
    at = 0
    while at < len(case.ops):
        fewer = replace(case, ops=case.ops[:at] + case.ops[at + 1 :], known=0)
        if Explorer(fewer, per_cut).go().failures:
            case = fewer
        else:
            at += 1
    return case

"""The crash explorer of a store: the durability contract judges each recovered state.

Now and then recovery itself is stopped, also with a fault in it, and the state after that is recovered (depth 2 and 3).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import ClassVar

from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import Book, check_contract, config_of
from tests.sim.cut_explorer import CutExplorer, Judged
from tests.sim.disk import Image, SimDisk
from tests.sim.run import IN_CALLER, SHORT, STORE, Case, SimRun

ERRORS = (5, 28, 24, 30)  # EIO, ENOSPC, EMFILE, EROFS: faults during recovery


@dataclass
class Explorer(CutExplorer[Case, SimRun, Book]):
    """Explores one case of a store.

    Args:
        case, per_cut, cut, state: see CutExplorer.

    Attributes:
        counts, failures, trace: see CutExplorer.
        again: known states that were recovered and compared again because more, or less, was promised by then.
        torn: records in them as counted by `ContractReport.torn`.
    """

    DEEPEST: ClassVar[int] = 3

    again: int = 0
    torn: int = 0
    _images: set[int] = field(default_factory=set)

    def _lives(self, disk: SimDisk) -> SimRun:
        return SimRun(self.case, disk)

    def _promised(self, *, power: bool) -> Book:
        return self.run.now(power=power)

    def _is_dull(self) -> bool:
        # Drawn cases begin alike, as short cases do, which are explored from the first call on.
        return self.run.at < self.case.known or (self.case.seed % IN_CALLER >= SHORT and not self.run.book.sent)

    def _is_new(self, image: Image, promised: Book, depth: int) -> bool:
        left = hash((tuple(image.files.items()), image.power))
        consumed = 0 if promised.consumed is None else promised.consumed.key
        known = hash((left, len(promised.answers), tuple(promised.safe.items()), consumed))
        if known in self._seen:
            return False
        self._seen.add(known)
        if left in self._images:
            self.again += 1
        else:
            self._images.add(left)
            self.counts[depth if image.power else 0] += 1
        return True

    def _judge(self, image: Image, promised: Book, disk: SimDisk, chance: random.Random, depth: int) -> Judged:
        calls: list[int] = []
        found = check_contract(
            STORE, promised, self.case.keys, effects=disk, services=False, again=chance.random() < 0.1,
            opened=lambda store: calls.append(disk.calls),
        )  # fmt: skip
        self.torn += found.torn
        if found.wrong:
            return Judged(0, f"{found.wrong} {found.notes[:4]}")
        return Judged(calls[-1], f"descriptors left open: {disk.held}" if disk.held else "")

    def _recover(self, disk: SimDisk) -> None:
        try:
            MessageStore(STORE, config=config_of(tuple(self.case.keys.items())), effects=disk, services=False)
        finally:
            disk.at_call = None

    def _spoil(self, disk: SimDisk, chance: random.Random, stop: int) -> None:
        if chance.random() < 0.3:
            disk.plan[chance.randint(1, stop)] = chance.choice(ERRORS)


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

"""Fails every call of a follower's disk, once or for good, then kills it or cuts the power.

A follower whose step raises has ended, as its loop does; the next operation of the case opens it again. Its copy must
be a master's log and hold what was promised before, whatever was refused; once the disk works, it must follow on.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from flintmq.errors import FlintError, ReplicationError
from flintmq.ha.follower import Follower
from tests.sim.disk import PowerCut, SimDisk
from tests.sim.faults import ERRORS, Swept, left, refuse, swept
from tests.sim.pair_explorer import PairExplorer
from tests.sim.pair_run import Op, PairCase, PairRun, Promised, make_follower
from tests.sim.run import steps
from tests.sim.tracebacks import portable_traceback

AFTER: list[Op] = [("receive", 12), ("report",), ("flush",), ("dispatch",), ("close",), ("receive", 2)]
OF_THE_LINE = ("connect", "receive", "report", "close")


@dataclass
class FaultyPairRun(PairRun):
    """A running case whose disk refuses calls.

    Attributes:
        works: whether the disk refuses none any more.
    """

    works: bool = False

    def opened(self) -> bool:
        """Open the follower if it is not open; return False if the disk refuses."""
        if self.follower is not None:
            return True
        follower = make_follower(self.case, self.disk, self._dial)
        try:
            follower.open()
        except (OSError, FlintError) as error:
            if not self.disk.refused or self.works:
                self._complain(error)
            return False
        self.follower, self.torn = follower, False
        return True

    def promised(self, power: bool) -> Promised:
        """Return what must be there if the machine, or only the process, stops now.

        After a sync that failed, the kernel may show the bytes of before, so a kill costs as much as a power cut.
        """
        return super().promised(power or any(name == "sync" for _, name, _ in self.disk.refused))

    def _step(self, name: str, op: Op) -> None:
        follower = self.follower
        assert follower is not None and follower.steps.store is not None
        if name not in OF_THE_LINE:
            with suppress(OSError, FlintError):  # the threads of a store log such errors, and try again
                steps(follower.steps.store).get(name, lambda: None)()
            return
        try:
            super()._step(name, op)
        except (OSError, FlintError) as error:
            self._ended(follower, error)

    def _refused(self, follower: Follower, error: ReplicationError) -> None:
        try:
            super()._refused(follower, error)
        except (OSError, FlintError) as refused:
            self._ended(follower, refused)

    def _ended(self, follower: Follower, error: Exception) -> None:
        """End the follower, as its loop does after an error of the disk."""
        if not self.disk.refused or self.works:
            self._complain(error)
        self.promised(power=True)
        follower.steps.refused(error)
        with suppress(OSError, FlintError):
            follower.close()
        self.follower = None
        self._forget_line()

    def _complain(self, error: Exception) -> None:
        self.complaints.append(f"operation {self.at}: {type(error).__name__} of a disk that works: {error}")

    def _check_rest(self, end: int) -> None:
        if not self.disk.refused:  # what cannot be zeroed is zeroed by the next start
            super()._check_rest(end)


def sweep(case: PairCase, errors: tuple[int | str, ...] = ERRORS, *, each: bool = False) -> Swept:
    """Fail every call of the follower's disk in turn.

    Args:
        case: the case.
        errors: the faults, one a call in turn.
        each: all of them at each call.
    """
    calm = PairRun(case, SimDisk(case.seed, case.model))
    calm.go()
    return swept(calm.disk.calls, errors, partial(_one, case), each=each)


def _one(case: PairCase, call: int, error: int | str, sticky: bool, found: Swept) -> str:
    """Run a case with one fault; return the violation, or an empty text."""
    run = FaultyPairRun(case, SimDisk(case.seed, case.model))
    refuse(run.disk, call, error, sticky)
    judge = PairExplorer(case)
    judge.run = run
    try:
        run.go()
        what = _compared(run, judge, found)
        if what:
            return what
        run.disk.sticky, run.disk.plan, run.works = None, {}, True  # the disk works again, and the process was killed
        run.dead()
        run.go(AFTER)
        what = _compared(run, judge, found)
        if what:
            return f"after it went on: {what}"
    except (Exception, PowerCut):
        return portable_traceback()
    return "; ".join(run.complaints)


def _compared(run: FaultyPairRun, judge: PairExplorer, found: Swept) -> str:
    for number, image in enumerate(left(run.disk, run.case.seed)):
        found.states += 1
        chance = random.Random(f"{run.case.seed}-{run.disk.calls}-{number}")
        what = judge.judged(image, run.promised(power=image.power), chance)
        if what:
            return what
    return ""


__all__ = ["FaultyPairRun", "sweep"]

"""Fails every call of a case, once or from then on, then kills the store or cuts the power."""

from __future__ import annotations

import errno
import gc
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from flintmq.errors import FlintError
from flintmq.testing.contract import Book, check_contract
from tests.sim.disk import Image, PowerCut, SimDisk
from tests.sim.run import STORE, Case, Op, SimRun
from tests.sim.states import Uncertain
from tests.sim.tracebacks import portable_traceback

ERRORS: tuple[int | str, ...] = (
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENOMEM, errno.EROFS, "short",
)  # fmt: skip
AFTER: list[Op] = [("put", "plain", 80, 0, 0), ("flush",), ("dispatch",)]


@dataclass
class Swept:
    """The result of a sweep.

    Attributes:
        runs: cases that ran with a fault.
        states: images that were recovered and compared.
        failures: (call, error, sticky, violation).
    """

    runs: int = 0
    states: int = 0
    failures: list[tuple[int, int | str, bool, str]] = field(default_factory=list)


def sweep(case: Case, errors: tuple[int | str, ...] = ERRORS, *, each: bool = False) -> Swept:
    """Fail every call of a case in turn.

    Args:
        case: the case.
        errors: the faults, one a call in turn.
        each: all of them at each call.
    """
    calm = SimRun(case, SimDisk(case.seed, case.model))
    calm.go()
    return swept(calm.disk.calls, errors, partial(_one, case), each=each)


def swept(
    calls: int,
    errors: tuple[int | str, ...],
    one: Callable[[int, int | str, bool, Swept], str],
    *,
    each: bool,
) -> Swept:
    """Run a case once for each fault of each call.

    Args:
        calls: of a run without a fault.
        errors, each: see `sweep`.
        one: runs it with (call, error, whether all later calls get it, the sums), and returns the violation.
    """
    found = Swept()
    for call in range(1, calls + 1):
        for error in errors if each else (errors[call % len(errors)],):
            for sticky in (False, True) if isinstance(error, int) else (False,):
                found.runs += 1
                what = one(call, error, sticky, found)
                if what:
                    found.failures.append((call, error, sticky, what))
    return found


def refuse(disk: SimDisk, call: int, error: int | str, sticky: bool) -> None:
    """Plan a fault, once or from this call on."""
    if sticky:
        assert isinstance(error, int)
        disk.sticky = call, error
    else:
        disk.plan[call] = error


def left(disk: SimDisk, seed: int) -> Iterator[Image]:
    """Yield what a kill leaves, and some of what a power cut may (`Image.power` tells which)."""
    chance = random.Random(f"{seed}-{disk.calls}")
    if not any(file.bad for names in disk.folders.values() for file in names.values() if file is not None):
        yield disk.shown()  # bad pages may change after a kill
    uncertain = Uncertain.of(disk)
    states = list(uncertain.choose(6, chance))
    for state in dict.fromkeys((states[0], states[-1], chance.choice(states))):
        yield uncertain.image(state)


def _one(case: Case, call: int, error: int | str, sticky: bool, found: Swept) -> str:
    """Run a case with one fault; return the violation, or an empty text."""
    run = SimRun(case, SimDisk(case.seed, case.model))
    refuse(run.disk, call, error, sticky)
    try:
        run.go()
        for image, book in _left(run):
            found.states += 1
            what = _compared(case, image, book)
            if what:
                return what
        run.disk.sticky, run.disk.plan = None, {}  # the disk works again, and the process was killed
        run.dead()
        run.go([*AFTER, ("close",), *AFTER])
        if run.store is None:
            return "it does not open again"
        for image, book in _left(run):
            found.states += 1
            what = _compared(case, image, book)
            if what:
                return f"after it went on: {what}"
    except (Exception, PowerCut):
        return portable_traceback()
    return "; ".join(run.complaints)


def _left(run: SimRun) -> Iterator[tuple[Image, Book]]:
    for image in left(run.disk, run.case.seed):
        yield image, run.now(power=image.power)


def _compared(case: Case, image: Image, book: Book) -> str:
    disk = SimDisk(case.seed, case.model, image, watched=False)
    try:
        found = check_contract(STORE, book, case.keys, effects=disk, services=False, again=False)
    except (AssertionError, FlintError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        gc.collect(0)  # as the explorer does
    return f"{found.wrong} {found.notes[:4]}" if found.wrong else ""

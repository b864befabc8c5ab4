"""Resyncs a follower's copy that a master refused, and stops the machine amid it.

Each record that is dropped must be in `quarantine/`, byte for byte, whenever the machine stops; then the copy must be
the master's log to its end. A search that was stopped is begun again; a cut that was begun is done by any opening.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from flintmq.errors import DivergedError, OffsetGoneError
from flintmq.ha.follower import Follower
from flintmq.store.layout import followed
from flintmq.testing import slow_read
from tests.sim.disk import Image, PowerCut, SimDisk
from tests.sim.pair_run import FILE_SIZE, PairCase, log_on, make_follower
from tests.sim.pair_wire import MasterLog
from tests.sim.run import STORE
from tests.sim.states import Uncertain

STOPPED: Final = 0.5
"""Share of the resyncs that are stopped at one of their calls first."""
PER_STOP: Final = 3
"""Most states of a power cut that are resynced again after such a stop."""


class WrongResyncError(AssertionError):
    """A promise of `--resync` that does not hold."""


@dataclass(frozen=True)
class Copy:
    """A copy before its resync.

    Attributes:
        begin: log offset of its first byte.
        data: its bytes from there on.
        records: log offset -> bytes of each of its records.
        parting: log offset from which on records are dropped; None: no record is common, or a power cut may have
            changed files that the master has deleted, so that nobody can tell.
    """

    begin: int
    data: bytes
    records: dict[int, bytes]
    parting: int | None

    @staticmethod
    def of(disk: SimDisk, end: int, master: MasterLog) -> Copy:
        """Return the copy on a disk, whose log ends at an offset."""
        begin, data = log_on(disk)
        data = data[: end - begin]
        found = slow_read.records(STORE, FILE_SIZE, disk)
        records = {r.physical_offset: data[r.physical_offset - begin :][: r.size] for r in found}
        first = max(begin, master.begin)
        noted = followed.read(STORE, disk)
        unsure = noted.unsure_from if noted is not None and noted.unsure_from is not None else end
        stop = min(end, master.end)
        same = next((at for at in range(first, stop) if data[at - begin] != master.data[at]), max(stop, first))
        parting = end if same == end else max((at for at in records if at <= same), default=None)
        known = max(begin, min(unsure, end - 1) // FILE_SIZE * FILE_SIZE) >= master.begin
        return Copy(begin, data, records, parting if parting is not None and parting > first and known else None)

    @property
    def dropped(self) -> dict[int, bytes]:
        """Records that the resync drops."""
        return {} if self.parting is None else {at: data for at, data in self.records.items() if at >= self.parting}


@dataclass
class Resyncs:
    """Resyncs copies of one case.

    Args:
        case: the case.
        master: the log that is there now.
        dial: makes the dial of a disk.
        run_on: takes a follower's steps until nothing more comes.
        check: compares queues, index and answers with the log; it is given the store and the disk.

    Attributes:
        done: copies that came to the master's end; `without`: those that have no record in common with it.
        stopped: states of a stop amid it.
    """

    case: PairCase
    master: MasterLog
    dial: Callable[[SimDisk], Any]
    run_on: Callable[[Follower, MasterLog], None]
    check: Callable[[Any, SimDisk], object]
    done: int = 0
    without: int = 0
    stopped: int = 0

    def go(self, image: Image, end: int, chance: random.Random) -> None:
        """Resync the copy of an image, whose log ends at an offset; sometimes stop it first.

        Raises:
            WrongResyncError: a promise does not hold.
        """
        disk = SimDisk(self.case.seed, self.case.model, image, watched=False)
        before = Copy.of(disk, end, self.master)
        self._to_the_end(disk, before)
        if chance.random() < STOPPED:
            for left in self._stopped(image, chance, chance.randint(1, max(disk.calls, 1))):
                self.stopped += 1
                again = SimDisk(self.case.seed, self.case.model, left, watched=False)
                self._check_kept(again, before)
                self._to_the_end(again, before)

    def _stopped(self, image: Image, chance: random.Random, call: int) -> list[Image]:
        """Return what may be on the disk of a resync that is stopped at a call."""
        disk = SimDisk(chance.randrange(1 << 30), self.case.model, image)
        disk.plan[call] = "power"
        try:
            self._resynced(disk)
        except (PowerCut, DivergedError, OffsetGoneError):
            pass
        uncertain = Uncertain.of(disk)
        return [disk.shown(), *(uncertain.image(state) for state in uncertain.choose(PER_STOP, chance))]

    def _resynced(self, disk: SimDisk) -> Follower:
        follower = make_follower(self.case, disk, self.dial(disk), resync=True)
        follower.open()
        self.run_on(follower, self.master)
        return follower

    def _to_the_end(self, disk: SimDisk, before: Copy) -> None:
        try:
            follower = self._resynced(disk)
        except (DivergedError, OffsetGoneError) as error:
            _expect(before.parting is None, f"resync refused ({error}), and {before.parting} is common")
            begin, data = log_on(disk)
            _expect((begin, data[: len(before.data)]) == (before.begin, before.data), "changed by a refused resync")
            self.without += 1
            return
        _expect(before.parting is not None, "resynced with a master that has no record in common")
        store = follower.steps.store
        assert store is not None
        begin, data = log_on(disk)
        end, master = store.raw.end, self.master
        _expect(end >= master.end, f"stays at {end} of {master.end} after a resync")
        first = max(begin, master.begin)
        _expect(data[first - begin : end - begin] == master.data[first:end], "another log than the master's at the end")
        self._check_kept(disk, before)
        self.check(store, disk)
        follower.close()
        self.done += 1

    def _check_kept(self, disk: SimDisk, before: Copy) -> None:
        """Check that each record which is to be dropped is in the log or in quarantine, whole."""
        begin, data = log_on(disk)
        kept = _quarantined(disk)
        for at, wanted in before.dropped.items():
            there = at >= begin and data[at - begin :][: len(wanted)] == wanted
            _expect(there or (at, wanted) in kept, f"the dropped record at {at} is nowhere")


def _quarantined(disk: SimDisk) -> set[tuple[int, bytes]]:
    """Return (log offset, bytes) of the records in quarantine, without a call of the disk."""
    found = disk.folders.get(f"{STORE}/quarantine") or {}
    whole = {name: file for name, file in found.items() if name.endswith(".record") and file is not None}
    return {(int(name[:20]), bytes(file.shown)) for name, file in whole.items()}


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise WrongResyncError(what)

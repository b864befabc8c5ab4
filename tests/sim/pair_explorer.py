"""The crash explorer of a replication line.

It stops the follower's machine at every call, recovers and follows on.

Each state is opened as a follower. Its log must be a prefix of the master's, and hold what was promised; queues, index
and answers must be those of its records. Then it may follow the master that there is to the end, or must refuse it, and
a master may be opened on it. Now and then recovery itself is stopped.
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from flintmq.errors import DivergedError, FlintError, OffsetGoneError, ReplicationError
from flintmq.format import record
from flintmq.ha.follower import Follower
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing import slow_read
from flintmq.testing.contract import ContractReport, check_derived, config_of, placed
from tests.sim.cut_explorer import CutExplorer, EnoughError, Judged
from tests.sim.disk import Image, SimDisk
from tests.sim.pair_resync import Resyncs
from tests.sim.pair_run import (
    BATCH,
    FILE_SIZE,
    PairCase,
    PairRun,
    Promised,
    is_blank,
    log_on,
    make_follower,
    same_prefix,
)
from tests.sim.pair_wire import MasterLog, PlainLine, SimWire
from tests.sim.run import GEOMETRY, STORE

FOLLOWED: Final = 0.35
"""Share of the states that are followed on."""
MOST_STEPS: Final = 200


class WrongCopyError(AssertionError):
    """A promise of the follower that does not hold."""


@dataclass
class PairExplorer(CutExplorer[PairCase, PairRun, Promised]):
    """Explores one case of a master and its follower, at every call of the follower's disk.

    Args:
        case, per_cut, cut, state: see CutExplorer.
        most: stop after so many states.

    Attributes:
        counts, failures, trace: see CutExplorer.
        torn: states with bytes above what was on disk that the power cut took, and that no checksum covers.
        followed: states from which the master was followed to the end; `others`: those that had to refuse it;
            `mastered`: those that were opened as a master.
        resynced: those that went on with `--resync`, of which `stopped` were stopped amid it first; `without`: those
            that had no record in common with the master.
        refused: refusals during the case, by reason.
    """

    DEEPEST: ClassVar[int] = 2
    OPTIONS: ClassVar[str] = "--pairs "

    most: int | None = None
    torn: int = 0
    followed: int = 0
    others: int = 0
    mastered: int = 0
    resynced: int = 0
    stopped: int = 0
    without: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def go(self) -> Self:
        """Run the case and explore every call of the follower's disk."""
        super().go()
        self.refused.update(self.run.refused)
        return self

    def judged(self, image: Image, promised: Promised, chance: random.Random) -> str:
        """Recover a state of `run`, and check it; return the violation, or an empty text."""
        disk = SimDisk(self.case.seed, self.case.model, image, watched=False)
        try:
            return self._judge(image, promised, disk, chance, 1).wrong
        except (AssertionError, FlintError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            gc.collect(0)  # as for each state of `go`

    def _lives(self, disk: SimDisk) -> PairRun:
        return PairRun(self.case, disk)

    def _promised(self, *, power: bool) -> Promised:
        return self.run.promised(power=power)

    def _at_call(self, name: str, path: str) -> None:
        super()._at_call(name, path)
        if self.most is not None and self.counts.total() >= self.most:
            raise EnoughError

    def _is_new(self, image: Image, promised: Promised, depth: int) -> bool:
        known = hash((tuple(image.files.items()), image.power, promised))
        if known in self._seen:
            return False
        self._seen.add(known)
        self.counts[depth if image.power else 0] += 1
        return True

    def _judge(self, image: Image, promised: Promised, disk: SimDisk, chance: random.Random, depth: int) -> Judged:
        if not image.power and depth == 1 and not self.run.torn:
            self._check_killed(image)
        return Judged(self._check(disk, promised, chance, torn=image.power or depth > 1 or self.run.torn))

    def _recover(self, disk: SimDisk) -> None:
        make_follower(self.case, disk, _Lines(self.run.master.log, disk).dial).open()

    def _check_killed(self, image: Image) -> None:
        """Check what a kill leaves, before anybody recovers it: the master's bytes, then zeros."""
        folder = f"{STORE}/commitlog/"
        names = sorted(path for path in image.files if path.startswith(folder))
        files = [image.files[path] or b"" for path in names]
        _expect(all(len(data) == FILE_SIZE for data in files[:-1]), "a log file of another size")
        _expect(all(len(data) <= FILE_SIZE for data in files), "a log file that is too long")
        if not files:
            return
        begin, data = int(names[0][len(folder) :]), b"".join(files)
        end = begin + len(data.rstrip(b"\0"))
        lied = {at for lie in self.run.lies for at in range(lie.begin, lie.at + lie.size)}
        _expect(
            any(_agree(data[: end - begin], log.data[begin:end], begin, lied) for log in self.run.master.pasts),
            f"the files hold bytes up to {end} that no master had there",
        )

    def _check(self, disk: SimDisk, promised: Promised, chance: random.Random, *, torn: bool) -> int:
        """Open a state as a follower and check it; return the calls that recovery made."""
        lines = _Lines(self.run.master.log, disk)
        follower = make_follower(self.case, disk, lines.dial)
        follower.open()
        calls = disk.calls
        store = follower.steps.store
        assert store is not None
        begin, end = self._check_log(store, disk, promised, torn=torn)
        self._check_derived(store, disk)
        if chance.random() < FOLLOWED:
            self._follow_on(follower, begin, end, disk, lines, chance)
        return calls

    def _check_log(
        self, store: MessageStore, disk: SimDisk, promised: Promised, *, torn: bool
    ) -> tuple[int | None, int]:
        raw = store.raw
        begin, data = log_on(disk)
        if raw.begin is None:
            _expect(not data.rstrip(b"\0"), "an empty log with bytes")
            _expect(promised.reported == 0, f"the log is empty, and {promised.reported} was reported")
            return None, 0
        end = raw.end
        _expect(len(data) % FILE_SIZE == 0, "a log file of another size")
        _expect(not any(data[end - begin :]), f"bytes after the log's end {end}")
        if not any(same_prefix(data, begin, end, log) for log in self.run.master.pasts):
            sure = max(promised.end if torn else end, begin)
            _expect(
                any(same_prefix(data, begin, min(sure, end), log) for log in self.run.master.pasts),
                f"the log up to {min(sure, end)} is no master's",
            )
            self.torn += 1
        _expect(self._reaches(end, promised.end), f"the log ends at {end}, and {promised.end} was there")
        _expect(self._reaches(end, promised.reported), f"the log ends at {end}, and {promised.reported} was reported")
        return begin, end

    def _reaches(self, end: int, offset: int) -> bool:
        """Return whether no record below an offset is missing.

        The blank that ends a file comes again.
        """
        blank = offset % FILE_SIZE == 0 and offset - FILE_SIZE < end < offset
        return end >= offset or (blank and any(is_blank(log, end) for log in self.run.master.pasts))

    def _check_derived(self, store: MessageStore, disk: SimDisk) -> list[record.Record]:
        _expect(store.wait_dispatched(30), "dispatch does not reach the log's end")
        log = slow_read.records(STORE, FILE_SIZE, disk)
        last = log[-1].physical_offset + log[-1].size if log else 0
        _expect(last <= store.raw.end, f"the last record ends at {last}, and the log at {store.raw.end}")
        found = ContractReport()
        check_derived(store, log, GEOMETRY, found)
        _expect(not found.wrong, f"{found.wrong} {found.notes[:4]}")
        return log

    def _follow_on(
        self, follower: Follower, begin: int | None, end: int, disk: SimDisk, lines: _Lines, chance: random.Random
    ) -> None:
        """Follow the present master from a recovered state.

        It must be refused if it has another past.
        """
        master = lines.log
        before = slow_read.tree(STORE, effects=disk)
        ours = log_on(disk)[1][: end - (begin or 0)]
        same = begin is None or (master.begin <= end <= master.end and ours == master.data[begin:end])
        seen = begin is None or self._shows(follower, end, master)
        try:
            self._run_on(follower, master)
        except (DivergedError, OffsetGoneError) as error:
            _expect(not same, f"refused the master of the same past: {error}")
            _expect(before == slow_read.tree(STORE, effects=disk), f"changed by a refusal ({error})")
            self.others += 1
            self._resync(follower, end, disk, error, chance)
            return
        _expect(same or not seen, f"follows a master of another past from {end} on")
        if not same:
            return
        self.followed += 1
        store = follower.steps.store
        assert store is not None
        if master.end > master.begin:
            now_begin, data = log_on(disk)
            _expect(store.raw.end >= master.end, f"stays at {store.raw.end} of {master.end}")
            _expect(
                data[: store.raw.end - now_begin] == master.data[now_begin : store.raw.end], "another log at the end"
            )
        log = self._check_derived(store, disk)
        if chance.random() < 0.3:
            follower.close()
            self._open_as_master(disk, log)
            self.mastered += 1

    def _resync(
        self, follower: Follower, end: int, disk: SimDisk, refusal: ReplicationError, chance: random.Random
    ) -> None:
        """Drop what the master does not have, and follow it on."""
        follower.steps.refused(refusal)
        follower.close()
        master = self.run.master.log
        resyncs = Resyncs(self.case, master, lambda disk: _Lines(master, disk).dial, self._run_on, self._check_derived)
        resyncs.go(disk.shown(), end, chance)
        self.resynced += resyncs.done
        self.without += resyncs.without
        self.stopped += resyncs.stopped

    def _shows(self, follower: Follower, end: int, master: MasterLog) -> bool:
        """Return whether the line can show another past.

        It can in our last record, or by nothing being there.
        """
        assert follower.steps.store is not None
        raw = follower.steps.store.raw
        at = raw.last_record if raw.last_record is not None else end
        begin, data = log_on(follower.steps.store.effects)  # type: ignore[arg-type]
        return not (master.begin <= at and end <= master.end and data[at - begin : end - begin] == master.data[at:end])

    def _run_on(self, follower: Follower, master: MasterLog) -> None:
        """Take the follower's steps until nothing more comes."""
        quiet = 0
        for _ in range(MOST_STEPS):
            steps = follower.steps
            if steps.line is None and not (steps.resync_once() and steps.connect_once()):
                continue
            before = follower.end
            follower.steps.receive_once()
            follower.steps.report_once()
            quiet = 0 if follower.end != before or not follower.steps.resumed else quiet + 1
            if quiet > 3 or (quiet and master.end and follower.end == master.end):
                return
        raise WrongCopyError(f"does not get anywhere in {MOST_STEPS} steps: {follower.state}")

    def _open_as_master(self, disk: SimDisk, log: list[record.Record]) -> None:
        """Open a follower's directory as a master and put a message into each queue."""
        with MessageStore(
            STORE, config_of(tuple(GEOMETRY.items())), effects=disk, services=False, unique_keys=False
        ) as store:
            following = {(each.topic, each.queue_id): each.queue_offset + 1 for each in placed(log)}
            for (topic, queue_id), offset in following.items():
                result = store.put(Message(topic, b"after", queue_id=queue_id))
                _expect(
                    result.queue_offset == offset, f"{topic}/{queue_id} goes on at {result.queue_offset}, not {offset}"
                )


class _Lines:
    """Lines to a master that neither breaks nor goes on.

    Args:
        log: the master's.
        disk: the follower's.
    """

    def __init__(self, log: MasterLog, disk: SimDisk) -> None:
        self.log, self._disk = log, disk

    def dial(self, address: Any, seconds: float) -> SimWire:
        return SimWire(PlainLine(self.log, BATCH, self._disk.ticks), lambda: self._disk)


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise WrongCopyError(what)


def _agree(ours: bytes, theirs: bytes | bytearray, begin: int, lied: set[int]) -> bool:
    """Return whether bytes are equal but where a master lied."""
    if ours == theirs:
        return True
    if not lied or len(ours) != len(theirs):
        return False
    return all(begin + at in lied for at in range(len(ours)) if ours[at] != theirs[at])


__all__ = ["PairExplorer", "WrongCopyError"]

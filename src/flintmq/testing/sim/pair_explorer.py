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
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from flintmq.errors import DivergedError, FlintError, OffsetGoneError
from flintmq.format import record
from flintmq.ha.follower import Follower
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing.sim import slow_read
from flintmq.testing.sim.contract import ContractReport, check_derived, config_of, placed
from flintmq.testing.sim.disk import Image, PowerCut, SimDisk
from flintmq.testing.sim.pair_run import (
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
from flintmq.testing.sim.pair_wire import MasterLog, PlainLine, SimWire
from flintmq.testing.sim.run import GEOMETRY, STORE
from flintmq.testing.sim.states import Uncertain
from flintmq.testing.sim.tracebacks import portable_traceback

DEEPEST: Final = 2
FOLLOWED: Final = 0.35
"""Share of the states that are followed on."""
MOST_STEPS: Final = 200


class WrongCopyError(AssertionError):
    """A promise of the follower that does not hold."""


@dataclass(frozen=True)
class PairFailure:
    """A state after which a promise does not hold.

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
            f"python -m flintmq.testing.sim.crash --pairs --seed {self.seed} --model {self.model} --cut {self.cut} "
            f"--state {self.state}"
        )


@dataclass
class PairExplorer:
    """Explores one case of a master and its follower.

    Args:
        case: the case.
        per_cut: most states at one call of the follower's disk.
        cut, state: only this call, and only this state of it; None for all.
        most: stop after so many states.

    Attributes:
        counts: depth -> different states of power cuts that were recovered; 0 -> the same of kills.
        torn: those among them with bytes above what was on disk that the power cut took, and that no checksum covers.
        followed: states from which the master was followed to the end; `others`: those that had to refuse it;
            `mastered`: those that were opened as a master.
        refused: refusals during the case, by reason.
        failures: the violations.
        trace: of the follower's disk, at the end.
    """

    case: PairCase
    per_cut: int = 8
    cut: int | None = None
    state: int | None = None
    most: int | None = None
    counts: Counter[int] = field(default_factory=Counter)
    torn: int = 0
    followed: int = 0
    others: int = 0
    mastered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[PairFailure] = field(default_factory=list)
    trace: int = 0
    _seen: set[int] = field(default_factory=set)
    _last: tuple[int, int] = (0, -1)

    def go(self) -> PairExplorer:
        """Run the case and explore every call."""
        self.run = PairRun(self.case, SimDisk(self.case.seed, self.case.model))
        self.run.disk.at_call = self._at_call
        try:
            self.run.go()
        except _EnoughError:
            pass
        except Exception:
            self._fail(self.run.disk.calls, 0, 0, portable_traceback())
        else:
            self._at_call("end", "")
        for complaint in self.run.complaints:
            self._fail(self.run.disk.calls, 0, 0, complaint)
        self.trace = self.run.disk.trace
        self.refused.update(self.run.refused)
        return self

    def _at_call(self, name: str, path: str) -> None:
        disk = self.run.disk
        now = id(disk), disk.generation
        if now == self._last or self.cut not in (None, disk.calls):
            return
        self._last = now
        for number, (image, promised) in enumerate(self._states(disk)):
            if self.state in (None, number):
                self._look(image, promised, disk.calls, number, 1)
        if self.most is not None and self.counts.total() >= self.most:
            raise _EnoughError

    def _states(self, disk: SimDisk) -> Iterator[tuple[Image, Promised]]:
        """Yield the possible states: after a kill, and after a power cut."""
        yield disk.shown(), self.run.promised(power=False)
        chance = random.Random(f"{self.case.seed}-{disk.calls}")
        uncertain, promised = Uncertain.of(disk), self.run.promised(power=True)
        for state in uncertain.choose(self.per_cut, chance):
            yield uncertain.image(state), promised

    def _look(self, image: Image, promised: Promised, cut: int, number: int, depth: int) -> None:
        """Recover one state and check it; now and then stop that recovery too."""
        known = hash((tuple(image.files.items()), image.power, promised))
        if known in self._seen:
            return
        self._seen.add(known)
        self.counts[depth if image.power else 0] += 1
        chance = random.Random(f"{self.case.seed}-{cut}-{number}-{depth}")
        disk = SimDisk(self.case.seed, self.case.model, image, watched=False)
        try:
            if not image.power and depth == 1 and not self.run.torn:
                self._check_killed(image)
            calls = self._check(disk, promised, chance, torn=image.power or depth > 1 or self.run.torn)
        except (AssertionError, FlintError, OSError, LookupError, ValueError, TypeError) as error:
            lines = portable_traceback().splitlines()[-3:]
            self._fail(cut, number, depth, f"{type(error).__name__}: {error} {lines[0].strip()}")
            return
        finally:
            gc.collect(0)
        if depth < DEEPEST and chance.random() < 0.25:
            self._deeper(image, promised, cut, number, depth, chance, calls)

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
            if follower.steps.line is None and not follower.steps.connect_once():
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

    def _deeper(
        self, image: Image, promised: Promised, cut: int, number: int, depth: int, chance: random.Random, calls: int
    ) -> None:
        """Stop the recovery of a state at one of its calls, and explore the states after that."""
        disk = SimDisk(chance.randrange(1 << 30), self.case.model, image)
        disk.plan[chance.randint(1, max(calls, 1))] = "power"
        follower = make_follower(self.case, disk, _Lines(self.run.master.log, disk).dial)
        try:
            follower.open()
        except (PowerCut, OSError, FlintError):
            pass
        if chance.random() < 0.2:
            self._look(disk.shown(), promised, cut, number, depth + 1)
            return
        uncertain = Uncertain.of(disk)
        for state in list(uncertain.choose(8, chance))[-2:]:
            self._look(uncertain.image(state), promised, cut, number, depth + 1)

    def _fail(self, cut: int, number: int, depth: int, what: str) -> None:
        self.failures.append(PairFailure(self.case.seed, self.case.model, cut, number, depth, what))


class _EnoughError(BaseException):
    """So many states as were asked for."""


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


__all__ = ["PairExplorer", "PairFailure", "WrongCopyError"]

"""Runs the lives of a master and its follower, each on a simulated disk.

All is in one thread and in an order of the seed.

The master is a FlintMQ store whose log a plain line serves (`pair_wire`). The follower is `flintmq.ha.Follower` with
its steps called one by one. A case is a list of operations of both, and of the line between them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from flintmq.errors import FlintError, ReplicationError
from flintmq.ha.follower import Follower
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import config_of
from tests.sim.disk import Image, SimDisk
from tests.sim.pair_wire import Lie, MasterLog, OwnLine, PlainLine, SimWire
from tests.sim.run import GEOMETRY, STORE, steps
from tests.sim.states import Uncertain

FILE_SIZE: Final = GEOMETRY["mappedFileSizeCommitLog"]
MASTER: Final = "192.0.2.1:10912"
BATCH: Final = 3000  # bytes of the largest frame: records are larger, and files are no multiple of it
BLANK_MAGIC: Final = b"\xcb\xd4\x31\x94"
HEAD: Final = 88  # bytes of a record before its body
STALE: Final = 0xA5  # a byte of the undefined part of a blank
Op = tuple[Any, ...]
LIES: Final = ("flip", "zeros", "offset", "negative", "long")


@dataclass
class PairCase:
    """One case to run.

    Attributes:
        seed: of everything.
        model: of both disks.
        flush: the follower's, "SYNC" or "ASYNC".
        ack: whether it acknowledges.
        begin: of the follower.
        stale: whether the master's blanks hold old bytes after their first 8, as RocketMQ's may.
        own: whether FlintMQ's own line serves the log, not a plain one.
        ops: the operations.
    """

    seed: int
    model: str
    flush: str
    ack: bool
    begin: str
    stale: bool
    own: bool
    ops: list[Op]

    @staticmethod
    def of(seed: int, model: str) -> PairCase:
        """Return the case of a number."""
        chance = random.Random(seed)
        flush, ack = chance.choice(("SYNC", "ASYNC")), chance.random() < 0.7
        begin, stale = chance.choice(("first", "first", "last")), chance.random() < 0.4
        return PairCase(seed, model, flush, ack, begin, stale, chance.random() < 0.5, list(_drawn(chance)))


def _drawn(chance: random.Random) -> Iterator[Op]:
    """Yield the operations of a case: some lives of either."""
    for _ in range(chance.choice((0, 1, 3, 8))):
        yield _put(chance)
    for _ in range(chance.choice((2, 3, 4))):
        damaged = chance.random() < 0.25
        for _ in range(chance.choice((6, 15, 30))):
            kind = chance.random()
            if kind < 0.3:
                yield _put(chance)
                yield from (("receive",) for _ in range(chance.randrange(3)))
            elif kind < 0.55:
                yield "receive", chance.choice((1, 2, 6))
            elif kind < 0.7:
                yield ("report",)
            elif kind < 0.9:
                yield (chance.choice(("dispatch", "dispatch", "flush", "checkpoint", "save", "clean", "connect")),)
            elif kind < 0.93:
                yield "clock", chance.choice((1, 700, 6000, 21_000))
            elif kind < 0.96:
                yield "line", chance.choice((0, 1, 11, 400, 5000))
            elif kind < 0.965:
                yield "refuse", chance.choice((1, 2))
            elif damaged:
                yield "lie", chance.choice(LIES), chance.randrange(3)
                yield _put(chance)
                yield "receive", 6
            else:
                yield (chance.choice(("m_flush", "m_dispatch", "m_checkpoint", "m_clean")),)
        yield from _end(chance)
    yield _put(chance)
    yield "receive", 6
    yield ("report",)


def _put(chance: random.Random) -> Op:
    size = chance.choice((40, 40, 300, 1500, 3700, chance.randrange(6000)))
    return "put", size, chance.randrange(2), chance.randrange(2)


def _end(chance: random.Random) -> Iterator[Op]:
    kind = chance.random()
    if kind < 0.7:
        yield (chance.choice(("close", "kill", "cut", "cut")),)
    if kind > 0.5:
        if chance.random() < 0.5:
            yield ("m_flush",)
        yield (chance.choice(("m_close", "m_kill", "m_cut", "m_cut")),)
        yield from (_put(chance) for _ in range(chance.randrange(3)))


def log_on(disk: SimDisk) -> tuple[int, bytes]:
    """Return (begin, bytes) of the log without a call of the disk."""
    found = sorted((disk.folders.get(f"{STORE}/commitlog") or {}).items())
    return int(found[0][0]) if found else 0, b"".join(bytes(file.shown) for _, file in found if file is not None)


class SimMaster:
    """A master: a store on a disk of its own, and the log that its lines send.

    Args:
        case: the case.

    Attributes:
        log: of the present life; one that came out of a power cut is another object.
        pasts: the logs of all lives that differ.
        store: the open store; None while the master is down.
    """

    def __init__(self, case: PairCase) -> None:
        self.case, self.disk = case, SimDisk(case.seed + 1, case.model)
        self.log = MasterLog(bytearray(), FILE_SIZE)
        self.pasts = [self.log]
        self.store: MessageStore | None = None

    def opened(self) -> MessageStore:
        """Return the store; open it if the master is down."""
        if self.store is None:
            config = config_of(tuple(GEOMETRY.items()))
            self.store = MessageStore(STORE, config, effects=self.disk, services=False, unique_keys=False)
            self.note()
        return self.store

    def note(self) -> None:
        """Let the lines see what was put."""
        assert self.store is not None
        end = self.store._parts.log.end
        begin, data = log_on(self.disk)
        self.log.begin = begin
        known = max(self.log.end, begin)
        self.log.data += bytes(known - self.log.end)
        self.log.data += data[known - begin : end - begin]
        if self.case.stale:
            _fill_blanks(self.log, begin, known)

    def put(self, number: int, size: int, topic: int, queue_id: int) -> None:
        """Put a message."""
        body = bytes((number + n) % 255 + 1 for n in range(size))
        properties = {"n": str(number)} if number % 4 == 0 else None
        message = Message(
            f"T{topic}", body, tags=f"t{number % 3}", keys=f"k{number}", queue_id=queue_id, properties=properties
        )
        self.opened().put(message)
        self.note()
        self.disk.clock += 1

    def step(self, name: str) -> None:
        """Take a step of the store's threads."""
        store = self.opened()
        with suppress(OSError, FlintError):
            steps(store).get(name, lambda: None)()
        self.note()

    def down(self, *, clean: bool) -> None:
        """Stop the process."""
        if self.store is not None and clean:
            self.store.close()
        self.store = None

    def cut_power(self, chance: random.Random) -> None:
        """Cut the power.

        The next life begins on one of the possible states, and may have lost a tail.

        States in which a record is there and differs (in bytes that no checksum covers) are left out: nothing on the
        line can show that.
        """
        self.store = None
        uncertain = Uncertain.of(self.disk)
        states = list(uncertain.choose(6, chance))
        chance.shuffle(states)
        before = self.log
        for state in states:
            self.disk = SimDisk(self.case.seed + 1, self.case.model, uncertain.image(state))
            self.log = MasterLog(bytearray(), FILE_SIZE)
            self.opened()
            kept = max(self.log.begin, before.begin)
            if self.log.end <= before.end and self.log.data[kept:] == before.data[kept : self.log.end]:
                break
        else:
            self.disk = SimDisk(self.case.seed + 1, self.case.model, uncertain.disk.shown())
            self.log, self.store = MasterLog(bytearray(), FILE_SIZE), None
            self.opened()
        self.log.data[: self.log.begin] = before.data[: self.log.begin]
        self.pasts.append(self.log)


def _fill_blanks(log: MasterLog, begin: int, known: int) -> None:
    """Fill what is undefined in the blanks of files that are complete since."""
    for start in range(known - known % FILE_SIZE, log.end // FILE_SIZE * FILE_SIZE, FILE_SIZE):
        at = max(start, begin)
        while at < start + FILE_SIZE:
            size, magic = struct.unpack_from(">i4s", log.data, at)
            if magic == BLANK_MAGIC:
                log.data[at + 8 : start + FILE_SIZE] = bytes([STALE]) * (start + FILE_SIZE - at - 8)
                break
            if size <= 0:
                break
            at += size


def is_blank(log: MasterLog, offset: int) -> bool:
    """Return whether a blank begins at an offset."""
    return log.data[offset + 4 : offset + 8] == BLANK_MAGIC


@dataclass(frozen=True)
class Promised:
    """Return what must be there if the follower's machine, or process, stops now.

    Attributes:
        end: log offset that the log reaches at least, unless it is at its begin.
        reported: the largest report that is an acknowledgement.
    """

    end: int
    reported: int


@dataclass
class PairRun:
    """A running case.

    Attributes:
        case: the case.
        disk: the follower's.
        master: the master.
        follower: the open follower; None between two.
        complaints: violations.
        refused: refusals by reason.
        lies: of the master, so far.
        at: number of the operation.
        torn: whether the disk is as a power cut left it.
    """

    case: PairCase
    disk: SimDisk
    master: SimMaster = field(init=False)
    follower: Follower | None = None
    complaints: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    lies: list[Lie] = field(default_factory=list)
    at: int = 0
    torn: bool = False
    _wires: list[SimWire] = field(default_factory=list)
    _limit: int | None = None  # of the line that is open, or of the next one
    _lie: Lie | None = None
    _refusals: int = 0  # dials that the master refuses
    _dials: int = 0
    _opening: bool = False
    _end_after_kill: int = 0
    _end_after_cut: int = 0
    _reported: int = 0

    def __post_init__(self) -> None:
        """Make the master."""
        self.master = SimMaster(self.case)

    def go(self, ops: list[Op] | None = None) -> None:
        """Run the operations of the case, or others after them."""
        for number, op in enumerate(self.case.ops if ops is None else ops):
            self.at = number
            self._do(op[0], number, op)
            self._check()
            self.disk.clock += 1
            self.disk.ticks += 0.001

    def _do(self, name: str, number: int, op: Op) -> None:
        if name == "put":
            self.master.put(number, *op[1:])
        elif name == "m_cut":
            self._lines_end()
            self.master.cut_power(random.Random(f"{self.case.seed}-m-{number}"))
        elif name in ("m_close", "m_kill"):
            self._lines_end()
            self.master.down(clean=name == "m_close")
        elif name.startswith("m_"):
            self.master.step(name[2:])
        elif name == "clock":
            self.disk.clock += op[1]
            self.disk.ticks += op[1] / 1000
        elif name == "line":
            wire = self._wires[-1] if self._wires else None
            if wire is None or wire.closed:
                self._limit = op[1]
            else:
                wire.limit = op[1]
        elif name == "refuse":
            self._refusals = op[1]
        elif name == "lie":
            self._begin_lie(op[1], op[2])
        elif name == "kill":
            self.dead()
        elif name == "cut":
            self._cut_power(number)
        elif self.opened():
            self._step(name, op)

    def _step(self, name: str, op: Op) -> None:
        follower = self.follower
        assert follower is not None and follower.steps.store is not None
        try:
            if name == "connect":
                self._connected(follower)
            elif name == "receive":
                for _ in range(op[1] if len(op) > 1 else 1):
                    if self._connected(follower):
                        follower.steps.receive_once()
                        self._check()
            elif name == "report":
                follower.steps.report_once()
            elif name == "close":
                self._close(follower)
            else:
                steps(follower.steps.store).get(name, lambda: None)()
        except ReplicationError as error:
            self._refused(follower, error)

    def _connected(self, follower: Follower) -> bool:
        return follower.steps.line is not None or follower.steps.connect_once()

    def _close(self, follower: Follower) -> None:
        follower.close()
        self.follower = None
        self._end_after_kill = self._end_after_cut = max(self._end_after_kill, follower.whole)
        self._check_rest(follower.whole)
        self._forget_line()

    # -- lives ------------------------------------------------------------------------------------------------------

    def opened(self) -> bool:
        """Open the follower if it is not open."""
        if self.follower is None:
            follower = make_follower(self.case, self.disk, self._dial)
            try:
                follower.open()
            except (OSError, FlintError) as error:
                self.complaints.append(f"operation {self.at}: could not be opened: {type(error).__name__}: {error}")
                return False
            self.follower, self.torn = follower, False
        return True

    def promised(self, power: bool) -> Promised:
        """Return what must be there if the machine, or only the process, stops now."""
        store = self.follower.steps.store if self.follower is not None else None
        if store is not None and store._parts.raw is not None:
            raw = store.raw
            if raw.begin is not None and store._parts.files.files:
                self._end_after_kill = raw.end
                self._end_after_cut = raw.durable
        if power:
            reported = self._reported if self.case.flush == "SYNC" else 0
            return Promised(self._end_after_cut, reported)
        return Promised(self._end_after_kill, self._reported)

    def dead(self) -> None:
        """Kill the follower."""
        self.promised(power=True)
        self.follower = None
        self._forget_line()

    def _cut_power(self, number: int) -> None:
        self.dead()
        chance = random.Random(f"{self.case.seed}-cut-{number}")
        uncertain = Uncertain.of(self.disk)
        states = list(uncertain.choose(6, chance))
        chance.shuffle(states)
        before = self.disk
        images = [uncertain.image(state) for state in states]
        left = next(filter(self._is_copy, images), uncertain.disk.shown())
        self.disk = SimDisk(self.case.seed, before.model, left)
        self.disk.calls, self.disk.trace, self.disk.at_call = before.calls, before.trace, before.at_call
        self.disk.ticks = before.ticks
        self._end_after_kill, self.torn = self._end_after_cut, True
        if self.case.flush == "ASYNC":
            self._reported = 0

    def _is_copy(self, image: Image) -> bool:
        """Return whether the log that recovers from a state is a master's.

        The header of a torn record may differ.
        """
        disk = SimDisk(self.case.seed, self.case.model, image, watched=False)
        with suppress(FlintError, OSError):  # a wrong state is the explorer's to judge
            follower = make_follower(self.case, disk, self._dial)
            follower.open()
            begin, data = log_on(disk)
            end = follower.whole
            return any(same_prefix(data, begin, max(end, begin), log) for log in self.master.pasts)
        return False

    # -- the line ---------------------------------------------------------------------------------------------------

    def _dial(self, address: Any, seconds: float) -> SimWire:
        if self.master.store is None or self._refusals > 0:
            self._refusals = max(self._refusals - 1, 0)
            raise ConnectionRefusedError(111, "Connection refused")
        self._dials += 1
        kind = OwnLine if self.case.own else PlainLine
        line = kind(self.master.log, BATCH, self.disk.ticks)
        line.lie, self._lie = self._lie, None
        chance = random.Random(f"{self.case.seed}-line-{self._dials}")
        wire = SimWire(line, lambda: self.disk, chance, self._on_report, self._limit)
        self._limit = None
        self._wires.append(wire)
        return wire

    def _begin_lie(self, kind: str, ahead: int) -> None:
        """Have the master lie about one of the next records that it puts."""
        at = self.master.log.end
        for n in range(ahead + 1):
            at = self.master.log.end
            self.master.put(10_000 * (n + 1) + self.at, 200 + 100 * n, 0, 0)
        if self.master.log.end // FILE_SIZE != at // FILE_SIZE:  # a blank precedes it
            return
        lie = Lie(kind, at + HEAD if kind == "flip" else at, self.master.log.end - at if kind == "zeros" else 1)
        wire = self._wires[-1] if self._wires else None
        if wire is None or wire.closed:
            self._lie = lie
        else:
            wire.line.lie = lie
        self.lies.append(lie)

    def _on_report(self, wire: SimWire, report: int) -> None:
        """Check a report when it is sent."""
        follower = self.follower
        if follower is None or follower.steps.store is None:
            self.complaints.append(f"operation {self.at}: report {report} of no follower")
            return
        raw = follower.steps.store.raw
        probing = wire.first is None and raw.begin is None
        previous = wire.line.acknowledged
        if report < previous:
            self.complaints.append(f"operation {self.at}: report {report} after {previous}")
        if not self.case.ack and wire.first is not None and report != wire.first:
            self.complaints.append(f"operation {self.at}: a tap reports {report} after {wire.first}")
        if probing or report <= 1 or (raw.begin is not None and report <= raw.begin):
            return
        if wire.first is not None and wire.line.next is not None and not self.case.ack:
            return
        if report > raw.end:
            self.complaints.append(f"operation {self.at}: report {report}, and what is whole ends at {raw.end}")
        if self.case.flush == "SYNC" and report > raw.durable:
            self.complaints.append(f"operation {self.at}: report {report}, and what is on disk ends at {raw.durable}")
        self._reported = max(self._reported, report)

    def _lines_end(self) -> None:
        for wire in self._wires:
            wire.dead = True

    def _forget_line(self) -> None:
        for wire in self._wires:
            wire.closed = True
        self._wires.clear()

    # -- checks -----------------------------------------------------------------------------------------------------

    def _refused(self, follower: Follower, error: ReplicationError) -> None:
        """Judge a refusal, and end the follower, as its loop does."""
        self.refused[error.reason] = self.refused.get(error.reason, 0) + 1
        lie = self._wires[-1].line.lie if self._wires else None
        lied = lie is not None and (lie.sent or lie.at > lie.begin)
        if error.reason in ("damaged", "protocol"):
            if not lied:
                self.complaints.append(f"operation {self.at}: refused an honest master: {error}")
        elif not lied and self.has_same_past(follower):
            self.complaints.append(f"operation {self.at}: refused the master of the same past: {error}")
        follower.steps.refused(error)
        self._close(follower)

    def has_same_past(self, follower: Follower) -> bool:
        """Return whether the master's log contains the follower's and can continue it."""
        assert follower.steps.store is not None
        raw, log = follower.steps.store.raw, self.master.log
        if raw.begin is None:
            return True
        begin, data = log_on(self.disk)
        return log.begin <= raw.end <= log.end and data[: raw.end - begin] == log.data[begin : raw.end]

    def _check(self) -> None:
        """Check the follower's log in memory against the master that it follows."""
        follower = self.follower
        if follower is None or follower.steps.store is None:
            return
        if follower.steps.line is None:
            self._check_rest(follower.steps.store.raw.end)
        if not follower.steps.resumed or not self._wires:
            return
        raw, log = follower.steps.store.raw, self._wires[-1].line.log
        if raw.begin is None:
            return
        begin, data = log_on(self.disk)
        if not same_prefix(data, begin, raw.end, log):
            self.complaints.append(f"operation {self.at}: follows a master of another past, up to {raw.end}")

    def _check_rest(self, end: int) -> None:
        """Check that nothing follows what is whole while there is no line: it comes again."""
        begin, data = log_on(self.disk)
        if any(data[max(end - begin, 0) :]):
            self.complaints.append(f"operation {self.at}: bytes after the log's end {end} without a line")


def same_prefix(data: bytes, begin: int, end: int, log: MasterLog) -> bool:
    """Return whether a log's bytes up to an offset are the master's."""
    return end <= log.end and data[: end - begin] == log.data[begin:end]


def make_follower(case: PairCase, disk: SimDisk, dial: Any, *, resync: bool = False) -> Follower:
    """Return a follower of a case on a disk.

    With `resync` it drops what its master does not have.
    """
    return Follower(
        STORE,
        MASTER,
        begin=case.begin,
        config=follower_config(case.flush),
        ack=case.ack,
        resync=resync,
        confirmed=resync,
        effects=disk,
        dial=dial,
        services=False,
    )


def follower_config(flush: str) -> Any:
    """Return the configuration of a follower, cached."""
    return config_of(tuple((GEOMETRY | {"flushDiskType": f"{flush}_FLUSH", "brokerRole": "SLAVE"}).items()))

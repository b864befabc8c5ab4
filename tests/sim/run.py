"""Runs the lives of a store on a simulated disk, in one thread and in an order of the seed.

A case is a list of operations: puts of every kind, the steps of a running store's threads, closing, kills and power
cuts. Seeds below SHORT enumerate short ones around the usual trouble (first file, roll-over, checkpoint, saved
configuration, cleaning, a stale tail); the others are drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from flintmq.errors import FlintError
from flintmq.format import record
from flintmq.message import Message, PutResult
from flintmq.store.consumer.consumer import Consumer
from flintmq.store.message_store import MessageStore
from flintmq.testing import slow_read
from flintmq.testing.consumer_ledger import GROUP, Consumed
from flintmq.testing.contract import NEVER, Book, config_of, content_of, digest_of
from tests.sim.disk import ROOT, PowerCut, SimDisk
from tests.sim.invariants import check_invariants
from tests.sim.states import Uncertain

STORE = f"{ROOT}/store"
GEOMETRY: dict[str, Any] = {
    "mappedFileSizeCommitLog": 16384,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 8,
    "maxIndexNum": 32,
    "transientStorePoolSize": 3,
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "fileReservedTime": 0,
}
KINDS = ("plain", "nowait", "prepared", "rollback", "commit", "many", "batch", "retry")
FLAGS = {"prepared": record.TRANSACTION_PREPARED, "rollback": record.TRANSACTION_ROLLBACK,
         "commit": record.TRANSACTION_COMMIT}  # fmt: skip
LONG_TOPIC = "%RETRY%" + "g" * 150  # makes a V2 record
Op = tuple[Any, ...]

BEFORE: dict[str, list[Op]] = {
    "nothing": [],
    "one file": [("put", "plain", 300, 0, 0)] * 3 + [("dispatch",), ("flush",), ("checkpoint",)],
    "almost full": [("put", "plain", 3700, 0, 0)] * 4 + [("dispatch",), ("flush",), ("checkpoint",)],
    "three files": [("put", "plain", 5000, 0, n % 2) for n in range(7)] + [("dispatch",), ("flush",), ("checkpoint",)],
    "a tail": [("put", "plain", 200, 0, 0)] * 12 + [("cut",), ("put", "plain", 200, 0, 0)],
}
STEPS: tuple[Op, ...] = (
    ("put", "plain", 100, 0, 0), ("put", "plain", 1200, 0, 1), ("put", "many", 90, 1, 0), ("flush",), ("dispatch",),
    ("checkpoint",), ("save",), ("clean",), ("allocate",), ("close",), ("kill",), ("cut",),
)  # fmt: skip
WAYS = (("SYNC_FLUSH", False), ("ASYNC_FLUSH", False), ("SYNC_FLUSH", True), ("ASYNC_FLUSH", True))
PAIRS = len(BEFORE) * len(STEPS) ** 2 * len(WAYS)
SHORT = PAIRS + len(BEFORE) * len(STEPS) ** 3 * len(WAYS)
CONSUMING = 1 << 30  # seeds from here on: drawn cases in which a group of consumers polls and commits, too
IN_CALLER = 1 << 40  # added to a seed: the same case, and a put that waits syncs itself (sync_in_caller)


@dataclass
class Case:
    """One case to run.

    Attributes:
        seed: of everything.
        model: of the disk.
        keys: of the store.
        ops: the operations.
        known: number of first operations that another case explores.
        in_caller: a put that waits syncs itself.
    """

    seed: int
    model: str
    keys: dict[str, Any]
    ops: list[Op]
    known: int = 0
    in_caller: bool = False

    @staticmethod
    def of(seed: int, model: str) -> Case:
        """Return the case of a number."""
        if seed >= IN_CALLER:
            return replace(Case.of(seed - IN_CALLER, model), seed=seed, in_caller=True)
        if seed < SHORT:
            count = 2 if seed < PAIRS else 3
            rest, (disk, pool) = _pick(seed if count == 2 else seed - PAIRS, WAYS)
            rest, before = _pick(rest, list(BEFORE))
            ops = list(BEFORE[before])
            known = len(ops) if rest else 0
            for _ in range(count):
                rest, op = _pick(rest, STEPS)
                ops.append(op)
            return Case(seed, model, _keys(disk, pool), ops, known)
        chance = random.Random(seed)
        disk, pool = chance.choice(WAYS)
        keys = _keys(disk, pool)
        keys["enabledAppendPropCRC"] = chance.random() < 0.3
        keys["fileReservedTime"] = chance.choice((0, 72))
        return Case(seed, model, keys, list(_consuming(chance) if seed >= CONSUMING else _drawn(chance)))

    @property
    def is_consuming(self) -> bool:
        """Whether a group of consumers polls and commits, too."""
        return self.seed % IN_CALLER >= CONSUMING


def _pick(number: int, of: Any) -> tuple[int, Any]:
    rest, at = divmod(number, len(of))
    return rest, of[at]


def _keys(disk: str, pool: bool) -> dict[str, Any]:
    return GEOMETRY | {"flushDiskType": disk, "transientStorePoolEnable": pool}


def _drawn(chance: random.Random) -> Iterable[Op]:
    """Yield the operations of a long case: two to four lives."""
    for _ in range(chance.choice((2, 3, 4))):
        puts = chance.choice((4, 12, 25))
        size = chance.choice((60, 250, 1500))
        for _ in range(puts):
            kind = "plain" if chance.random() < 0.6 else chance.choice(KINDS)
            yield (
                "put",
                kind,
                chance.choice((size, size, chance.randrange(3000))),
                chance.randrange(2),
                chance.randrange(2),
            )
            while chance.random() < 0.6:
                step = chance.choice(("flush", "dispatch", "dispatch", "checkpoint", "save", "clean", "commit",
                                      "allocate", "clock"))  # fmt: skip
                yield (step,) if step != "clock" else (step, chance.choice((1, 5, 700, 4000)))
        if chance.random() < 0.1:
            yield "clock", chance.choice((-3_600_000, -10_000_000, 315_360_000_000, -315_360_000_000))
        yield (chance.choice(("close", "kill", "cut", "cut")),)
    yield "put", "plain", 100, 0, 0


def _consuming(chance: random.Random) -> Iterable[Op]:
    """Yield a long case with polls and commits of each topic between its operations."""
    for op in _drawn(chance):
        yield op
        while op[0] not in ("close", "kill", "cut") and chance.random() < 0.45:
            topic = chance.randrange(2)
            if chance.random() < 0.4:
                yield ("dispatch",)
            if chance.random() < 0.6:
                yield "poll", topic, chance.choice((1, 2, 5, 32))
            else:
                yield "consumed", topic, chance.random() < 0.7


@dataclass
class SimRun:
    """A running case.

    Attributes:
        case: the case.
        disk: its disk.
        book: the ledger of puts and answers.
        store: the open store; None between two.
        life: number of the store that is or was open.
        complaints: violations besides the contract's.
    """

    case: Case
    disk: SimDisk
    book: Book = field(default_factory=Book)
    store: MessageStore | None = None
    life: int = 0
    complaints: list[str] = field(default_factory=list)
    at: int = 0  # number of the operation
    _consumers: dict[str, Consumer] = field(default_factory=dict)  # topic -> consumer of the open store
    _after_kill: dict[str, int] = field(default_factory=dict)  # life -> safe offset if only the process ends
    _after_cut: dict[str, int] = field(default_factory=dict)  # life -> safe offset if the power fails

    def __post_init__(self) -> None:
        """Start the ledger of a case with consumers."""
        if self.case.is_consuming:
            self.book.consumed = Consumed()

    def go(self, ops: Iterable[Op] | None = None) -> None:
        """Run the operations; the store is left as it is.

        Raises:
            PowerCut: the disk's plan stopped the machine.
        """
        for number, op in enumerate(self.case.ops if ops is None else ops):
            name, self.at = op[0], number
            if name == "clock":
                self.disk.clock += op[1]
                self.disk.ticks += abs(op[1]) / 1000 % 60
            elif name == "kill":
                self.dead()
            elif name == "cut":
                self.cut_power(number)
            elif self.opened():
                self._do(name, number, op)
                self._check_invariants()
                self.disk.clock += 1
                self.disk.ticks += 0.001

    def _do(self, name: str, number: int, op: Op) -> None:
        assert self.store is not None
        if name == "put":
            self._put(number, *op[1:])
        elif name in ("poll", "consumed"):
            self._consume(name, f"T{op[1]}", op[2])
        elif name == "close":
            self.now(power=True)  # a closed store knows no more where its log begins
            with suppress(FlintError):
                self.store.close()
            self.dead()  # of a poisoned store, not all that it took is safe
        else:
            step = steps(self.store).get(name)
            if step is not None:
                with suppress(OSError, FlintError):  # the threads log such errors and try again, too
                    step()

    def _check_invariants(self) -> None:
        """Add a complaint if something that must always hold does not hold in the open store."""
        if self.store is not None:
            try:
                check_invariants(self.store)
            except AssertionError as error:
                self.complaints.append(f"after operation {self.at}: {error}")

    def _consume(self, name: str, topic: str, words: Any) -> None:
        assert self.store is not None and self.book.consumed is not None
        with suppress(OSError, FlintError):  # a consumer gets the error, and continues
            if topic not in self._consumers:
                self._consumers[topic] = self.store.consumer(GROUP, topic)
            if name == "poll":
                self.complaints += self.book.consumed.poll(self._consumers[topic], words)
            else:
                self.book.consumed.commit(self._consumers[topic], wait=words)

    # -- lives --------------------------------------------------------------------------------------------------

    def opened(self) -> bool:
        """Open the store if it is not open; return False if the disk refuses."""
        if self.store is None:
            self.life += 1
            self._consumers = {}
            try:
                self.store = MessageStore(
                    STORE,
                    config=config_of(tuple(self.case.keys.items())),
                    effects=self.disk,
                    services=False,
                    unique_keys=False,  # a seed gives the same bytes each time
                    sync_in_caller=self.case.in_caller,
                )
            except (OSError, FlintError) as error:
                if not self.disk.refused:
                    self.complaints.append(f"could not be opened: {error}")
                return False
            self._check_invariants()
            self.settle()
        return self.store is not None

    def settle(self) -> None:
        """Record what recovery kept, which must stay, and what it dropped, which must not return."""
        begin = slow_read.log_begin(STORE, self.disk)
        plan, self.disk.plan, sticky, self.disk.sticky = self.disk.plan, {}, self.disk.sticky, None
        watch, self.disk.at_call = self.disk.at_call, None
        calls = self.disk.calls
        log = slow_read.records(STORE, self.case.keys["mappedFileSizeCommitLog"], self.disk)
        self.disk.plan, self.disk.sticky, self.disk.at_call, self.disk.calls = plan, sticky, watch, calls
        there = {content_of(r)[0]: r for r in log}
        for identity in self.book.sent:
            r, answer = there.get(identity), self.book.answers.get(identity)
            if r is None and (answer is None or answer.get("place", begin) >= begin):
                self.book.gone.add(identity)
            elif r is not None:
                self.book.answers[identity] = {"outcome": "ok", "place": r.physical_offset, "size": content_of(r)[3],
                                            "queue_offset": r.queue_offset, "time": r.store_timestamp,
                                            "committed": None}  # fmt: skip

    def dead(self) -> None:
        """End the process, by kill -9 or not: everything that the kernel shows stays."""
        self.now(power=True)
        self.store = None

    def cut_power(self, number: int) -> None:
        """Cut the power; the next life begins on one of the possible states."""
        self.now(power=True)
        self._after_kill = dict(self._after_cut)
        self.store = None
        chance = random.Random(f"{self.case.seed}-cut-{number}")
        uncertain = Uncertain.of(self.disk)
        states = list(uncertain.choose(6, chance))
        before = self.disk
        self.disk = SimDisk(self.case.seed, before.model, uncertain.image(chance.choice(states)))
        self.disk.calls, self.disk.trace, self.disk.plan = before.calls, before.trace, before.plan
        self.disk.sticky, self.disk.at_call, self.disk.refused = before.sticky, before.at_call, before.refused
        self.disk.ticks = before.ticks

    def now(self, power: bool) -> Book:
        """Return the book as if the machine, or only the process, stopped now."""
        if self.store is not None:
            files, commits, life = self.store._parts.files, self.store._parts.commits, str(self.life)
            self.book.expired = max(self.book.expired, files.min_offset)
            self._after_cut[life] = files.flushed_where
            self._after_kill[life] = NEVER if commits is None else commits.done[1]
        safe = dict(self._after_cut if power else self._after_kill)
        return Book(self.book.sent, self.book.answers, safe, self.book.gone, self.book.expired, self.book.consumed)

    # -- puts ---------------------------------------------------------------------------------------------------

    def _put(self, number: int, kind: str, size: int, topic: int, queue_id: int) -> None:
        store = self.store
        assert store is not None
        count = 3 if kind in ("many", "batch") else 1
        identities = [f"{self.life}-{number}-{n}" for n in range(count)]
        messages = [
            Message(
                LONG_TOPIC if kind == "retry" else f"T{topic}",
                bytes((number + n) % 255 + 1 for n in range(min(size, 40))) + bytes(max(size - 40, 0)),
                tags=f"t{number % 3}", keys=identity, queue_id=queue_id, sys_flag=FLAGS.get(kind, 0),
                wait=kind != "nowait", properties={"n": str(number)} if number % 4 == 0 else None,
            )
            for identity in identities
        ]  # fmt: skip
        for identity, message in zip(identities, messages, strict=True):
            self.book.sent[identity] = {"digest": digest_of(message)}
        poisoned = bool(store._parts.failure)
        call: Callable[[], list[PutResult]] = {
            "many": lambda: store.put_many(messages), "batch": lambda: store.put_batch(messages),
            **dict.fromkeys(("prepared", "rollback"), lambda: store.put_many(messages, delivered=True)),
        }.get(kind, lambda: [store.put(messages[0])])  # fmt: skip
        sync = store.config.flush_disk_type == "SYNC_FLUSH" and kind != "nowait"
        for identity, r in zip(identities, call(), strict=True):
            self.book.answers[identity] = {
                "outcome": r.outcome.value, "queue_offset": r.queue_offset, "place": r.physical_offset, "size": r.size,
                "time": r.store_timestamp, "committed": None if sync else 0,
            }  # fmt: skip
            if poisoned and r.outcome.value != "failed":
                self.complaints.append(f"{identity}: {r.status.name} after a failed sync")


def steps(store: MessageStore) -> dict[str, Callable[[], object]]:
    """Return the steps of a store's threads, by name."""
    found: dict[str, Callable[[], object]] = {
        "flush": store._parts.flush.flush_once,
        "dispatch": store._parts.dispatch.dispatch_once,
        "save": store._parts.housekeeping.save_once,
        "clean": store._parts.retention.clean_once,
    }
    if not store._parts.failure:
        found["checkpoint"] = store._parts.checkpointer.write
    if store._parts.commits is not None:
        found["commit"] = store._parts.commits.commit_once
    if store._parts.files.allocation is not None:
        found["allocate"] = store._parts.files.allocation.step
    return found


__all__ = ["BEFORE", "GEOMETRY", "IN_CALLER", "PAIRS", "SHORT", "STORE", "Case", "Op", "PowerCut", "SimRun", "steps"]

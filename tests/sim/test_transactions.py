"""Power cuts and kills amid transactions: each ends once as its sender said, or its sender is asked."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from flintmq import Half
from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.sim.disk import SimDisk
from tests.sim.run import GEOMETRY, STORE
from tests.sim.states import Uncertain
from tests.sim.test_given_back import dispatch

COUNT, PER_CUT = 12, 4
LATE_MS = 7_000
OUTCOME = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def opened(disk: SimDisk, flush: str) -> MessageStore:
    keys = GEOMETRY | {"flushDiskType": flush, "fileReservedTime": 72}
    return MessageStore(STORE, config=keys, effects=disk, services=False, unique_keys=False)


def check(store: MessageStore, disk: SimDisk) -> None:
    disk.clock += LATE_MS
    dispatch(store)
    store._parts.transactions.check_once()
    dispatch(store)
    store._parts.transactions.check_invariants()


def all_of(store: MessageStore, topic: str) -> list[str]:
    """The keys of all messages of a topic."""
    low, high = store.bounds(topic, 0)
    found: list[str] = []
    while low < high:
        got = store.get(topic, 0, low)
        found, low = [*found, *(one.keys or "" for one in got.messages)], got.next_begin_offset
    return found


@dataclass
class Judge:
    """Recovers the states of a disk, and has the senders asked about what is open there."""

    flush: str
    disk: SimDisk
    halves: dict[str, Half] = field(default_factory=dict)  # by their keys
    begun: set[str] = field(default_factory=set)  # keys of half messages that are on disk
    committed: set[str] = field(default_factory=set)  # whose sender said so, on disk or not
    rolled_back: set[str] = field(default_factory=set)
    safe: set[str] = field(default_factory=set)  # of both: what said so is on disk
    states: int = 0
    mended: int = 0  # committed messages whose outcome was not there
    _last: int = -1

    def at_call(self, name: str, path: str) -> None:
        if self.disk.generation == self._last:
            return
        self._last = self.disk.generation
        chance = random.Random(self.disk.calls)
        uncertain = Uncertain.of(self.disk)
        for image in (self.disk.shown(), *map(uncertain.image, uncertain.choose(PER_CUT, chance))):
            self._judge(SimDisk(1, self.disk.model, image, watched=False))

    def _judge(self, disk: SimDisk) -> None:
        disk.clock = self.disk.clock
        store = opened(disk, self.flush)
        dispatch(store)
        before = Counter(all_of(store, "T"))
        low, high = store.bounds(OUTCOME, 0)
        named = {store.get(OUTCOME, 0, offset, 1).messages[0].body for offset in range(low, high)}
        asked: list[str] = []

        def ask(half: Half) -> None:
            key = half.message.keys or ""
            asked.append(key)
            half.rollback() if key in self.rolled_back else half.commit()

        store.on_check(ask)
        for _ in range(2):
            check(store, disk)
        where = f"call {self.disk.calls}"
        after = Counter(all_of(store, "T"))
        assert not after or max(after.values()) == 1, f"{where}: twice: {after}"
        assert Counter(asked).most_common(1)[:1] == [] or max(Counter(asked).values()) == 1, f"{where}: asked {asked}"
        assert not after.keys() & self.rolled_back, f"{where}: {after.keys() & self.rolled_back} were rolled back"
        lost = self.begun - self.rolled_back - after.keys()
        assert not lost, f"{where}: {lost} are lost"
        assert not set(asked) & before.keys(), f"{where}: asked about {set(asked) & before.keys()}, which are there"
        unsaid = set(asked) & self.safe
        assert not unsaid, f"{where}: asked about {unsaid}, whose senders had said"
        assert not all_of(store, "TRANS_CHECK_MAX_TIME_TOPIC")
        self.states += 1
        ended = store.bounds("RMQ_SYS_TRANS_HALF_TOPIC", 0)[1]
        assert store.consumer_offset("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0) in (ended, None)
        self.mended += sum(b"%d," % self.halves[key].message.queue_offset not in named for key in before)


@pytest.mark.parametrize("model", ["ext4", "posix"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_state_of_the_disk_loses_or_doubles_a_message(flush: str, model: str):
    disk = SimDisk(20261130, model)
    store = opened(disk, flush)
    judge = Judge(flush, disk)
    disk.at_call = judge.at_call
    halves = judge.halves

    def promised() -> None:
        """Note what no state of the disk lacks from now on."""
        store._parts.flush.flush_once()
        judge.begun |= halves.keys()
        judge.safe |= judge.committed | judge.rolled_back

    store.on_check(lambda half: None)
    for number in range(COUNT):
        key = str(number)
        message = Message("T", bytes(300), keys=key, properties={"UNIQ_KEY": f"U{key}"})
        halves[key] = store.begin(message, "G")
        if number % 3 == 2:
            promised()
        if number % 4 == 1:
            check(store, disk)  # some are asked about, and do not know yet
        if number % 5 == 4:
            store._parts.housekeeping.save_once()
        for ready in (str(number - 2), str(number - 4)):
            if ready in halves and int(ready) % 4 != 3 and ready not in judge.committed | judge.rolled_back:
                said, call = (
                    (judge.rolled_back, halves[ready].rollback)
                    if int(ready) % 4 == 0
                    else (judge.committed, halves[ready].commit)
                )
                said.add(ready)
                with suppress(UsageError):
                    call()
    promised()
    store._parts.checkpointer.write()
    store._parts.housekeeping.save_once()
    disk.at_call = None
    dispatch(store)
    assert judge.states > 100 and judge.mended > 0, judge
    assert set(all_of(store, "T")) == judge.committed

"""Power cuts and kills while messages wait for their time: each comes once, never early, whatever was on disk."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.sim.disk import SimDisk
from tests.sim.invariants import check_invariants
from tests.sim.run import GEOMETRY, STORE
from tests.sim.states import Uncertain

SECOND, PER_CUT = 1000, 2
STOPS_S = 0, 4, 30  # between a cut and the next start: the next round, or the message's own time, is over then
KEYS = GEOMETRY | {"fileReservedTime": 72, "mappedFileSizeTimerLog": 3 * 52 + 16, "timerRollWindowSlot": 3}
# Number -> seconds that it waits: some for the same moment; three so long that they are stored once more amid the cuts.
WAITS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 3, 5: 20, 6: 4, 7: 6}
RECALLED = 7


def opened(disk: SimDisk, flush: str) -> MessageStore:
    return MessageStore(
        STORE, config=KEYS | {"flushDiskType": flush}, effects=disk, services=False, unique_keys=False
    )  # fmt: skip


def step(store: MessageStore) -> None:
    """Dispatch, take and deliver until nothing remains to be done now."""
    timers = store._parts.housekeeping.timers
    assert timers is not None
    for _ in range(3):
        store._parts.flush.flush_once()  # under SYNC_FLUSH only what is on disk is dispatched
        while store._parts.dispatch.dispatch_once():
            pass
        while timers.step():
            pass


@dataclass
class Judge:
    """Recovers the states of a disk, lets all time pass in each, and counts what came."""

    flush: str
    disk: SimDisk
    durable: set[str] = field(default_factory=set)  # keys of what is on disk, and must come
    due: dict[str, int] = field(default_factory=dict)  # key -> time before which it may not come
    recalled: set[str] = field(default_factory=set)  # keys of what may not come any more
    states: int = 0
    delivered: int = 0  # in how many of them a message had been delivered that `timercheck` called waiting
    _last: int = -1

    def at_call(self, name: str, path: str) -> None:
        if self.disk.generation == self._last:
            return
        self._last = self.disk.generation
        chance = random.Random(self.disk.calls)
        uncertain = Uncertain.of(self.disk)
        for image in (self.disk.shown(), *map(uncertain.image, uncertain.choose(PER_CUT, chance))):
            self._judge(SimDisk(1, self.disk.model, image, watched=False), chance.choice(STOPS_S))

    def _judge(self, disk: SimDisk, stop_s: int) -> None:
        disk.clock = self.disk.clock + stop_s * SECOND
        store = opened(disk, self.flush)
        timers = store._parts.housekeeping.timers
        assert timers is not None
        noted = timers.file.check().last_read_time
        self.delivered += any(int(m.properties["TIMER_OUT_MS"]) >= noted for m in store if m.topic == "T")
        step(store)
        for _ in range(12):
            disk.clock += 2 * SECOND
            step(store)
        check_invariants(store)
        came = Counter(m.keys for m in store if m.topic == "T")
        where = f"call {self.disk.calls}, started after {stop_s} s: {came}"
        assert all(count == 1 for count in came.values()), f"twice: {where}"
        assert came.keys() >= self.durable - self.recalled, f"lost: {where}"
        assert not came.keys() & self.recalled, f"recalled: {where}"
        assert all(m.store_timestamp >= self.due[m.keys or ""] for m in store if m.topic == "T"), f"early: {where}"
        self.states += 1


@pytest.mark.parametrize("model", ["ext4", "posix"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_state_of_the_disk_loses_or_repeats_a_message(flush: str, model: str):
    disk = SimDisk(20261130, model)
    store = opened(disk, flush)
    timers = store._parts.housekeeping.timers
    assert timers is not None
    judge = Judge(flush, disk)
    begin = disk.clock
    handle = None
    for number, seconds in WAITS.items():
        due = begin + seconds * SECOND
        pairs = {"UNIQ_KEY": f"K{number}"}
        sent = Message("T", bytes(500), keys=str(number), properties=pairs, deliver_timestamp=due, wait=False)
        handle = store.put(sent).recall_handle()
        judge.due[str(number)] = due
    store._parts.flush.flush_once()
    judge.durable = {str(number) for number in WAITS}
    assert handle is not None and store.recall(handle)
    store._parts.flush.flush_once()
    judge.recalled = {str(RECALLED)}
    disk.at_call = judge.at_call
    for second in range(6):
        step(store)
        if second % 2 == 1:
            timers.save_once()
        disk.clock += SECOND
    disk.at_call = None
    assert judge.states > 60 and judge.delivered > 10, (judge.states, judge.delivered)

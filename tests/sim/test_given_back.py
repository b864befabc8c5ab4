"""Power cuts and kills while a consumer gives messages back: each is still to come, was processed, or is dead."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from flintmq import GroupSettings
from flintmq.message import Message, StoredMessage
from flintmq.store.consumer.consumer import Consumer
from flintmq.store.message_store import MessageStore
from tests.sim.disk import SimDisk
from tests.sim.run import GEOMETRY, STORE
from tests.sim.states import Uncertain

COUNT, PER_CUT = 6, 5


def opened(disk: SimDisk, flush: str) -> MessageStore:
    keys = GEOMETRY | {"flushDiskType": flush, "fileReservedTime": 72}
    return MessageStore(STORE, config=keys, effects=disk, services=False, unique_keys=False)


def consumer_of(store: MessageStore) -> Consumer:
    return store.consumer("G", "T", retries=True)


def dispatch(store: MessageStore) -> None:
    store._parts.flush.flush_once()  # under SYNC_FLUSH only what is on disk is dispatched
    while store._parts.dispatch.dispatch_once():
        pass


def deliver(store: MessageStore, disk: SimDisk) -> None:
    """Let all delays pass."""
    disk.clock += 10_000_000
    dispatch(store)
    while store._parts.housekeeping.delay.deliver_once():
        pass
    dispatch(store)


@dataclass
class Judge:
    """Recovers the states of a disk, and asks each for the messages that were not processed."""

    flush: str
    disk: SimDisk
    done: set[str] = field(default_factory=set)  # keys of what was processed
    put: set[str] = field(default_factory=set)  # keys of what is on disk
    states: int = 0
    only_retries: int = 0  # in how many of them the group's offset is after a message that was not processed
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
        store = opened(disk, self.flush)
        offset = store.consumer_offset("G", "T", 0) or 0
        coming: list[StoredMessage] = []
        with consumer_of(store) as consumer:
            deliver(store, disk)
            while found := consumer.poll():
                coming += found
        dead = store.get("%DLQ%G", 0, 0).messages
        kept = {message.keys for message in (*coming, *dead)}
        assert kept >= self.put - self.done, f"call {self.disk.calls}: {self.put - self.done - kept} are lost"
        self.states += 1
        self.only_retries += any(offset > int(key) for key in self.put - self.done)


@pytest.mark.parametrize("model", ["ext4", "posix"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_state_of_the_disk_loses_a_message(flush: str, model: str):
    disk = SimDisk(20261129, model)
    store = opened(disk, flush)
    store.create_group("G", GroupSettings(retry_max_times=2))
    for number in range(COUNT):
        assert store.put(Message("T", bytes(900), keys=str(number)))
    store._parts.flush.flush_once()
    dispatch(store)
    judge = Judge(flush, disk, put={str(number) for number in range(COUNT)})
    disk.at_call = judge.at_call
    with consumer_of(store) as consumer:
        for life in range(4):
            for message in consumer.poll():
                assert message.keys is not None
                if message.keys in "01":  # given back until they are dead
                    consumer.retry(message)
                elif message.keys == "2":
                    consumer.dead(message)
                else:
                    judge.done.add(message.keys)
            consumer.commit(wait=life % 2 == 1)
            store._parts.housekeeping.save_once()
            deliver(store, disk)
        assert sum(consumer.lag().values()) == 0
    assert {m.keys for m in store.get("%DLQ%G", 0, 0).messages} == {"0", "1", "2"} and len(judge.done) == 3
    disk.at_call = None
    assert judge.states > 100 and judge.only_retries > 50, judge

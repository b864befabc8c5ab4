"""Power cuts and kills while a group pops: each message is still to come, was acknowledged, or is dead."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from flintmq import GroupSettings
from flintmq.broker.pop import Given, PopWanted
from flintmq.message import Message, PutResult
from flintmq.store.message_store import MessageStore
from tests.sim.disk import SimDisk
from tests.sim.states import Uncertain
from tests.sim.test_given_back import dispatch, opened
from tests.support.popping import Popper, pops_of

COUNT, PER_CUT = 8, 5
RETRIES = "%RETRY%G_T"


@dataclass
class Judge:
    """Recovers the states of a disk, and looks in each for the messages that were not acknowledged."""

    flush: str
    disk: SimDisk
    done: set[str] = field(default_factory=set)  # keys of what was acknowledged
    put: set[str] = field(default_factory=set)  # keys of what is on disk
    states: int = 0
    only_retries: int = 0  # in how many of them the group's offset is after a message that was not acknowledged
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
        dispatch(store)
        offset = store.consumer_offset("G", "T", 0) or 0
        places = (("T", offset), (RETRIES, store.consumer_offset("G", RETRIES, 0) or 0), ("%DLQ%G", 0))
        kept = {message.keys for topic, at in places for message in store.get(topic, 0, at).messages}
        assert kept >= self.put - self.done, f"call {self.disk.calls}: {self.put - self.done - kept} are lost"
        self.states += 1
        self.only_retries += any(offset > int(key) for key in self.put - self.done)


async def lives(store: MessageStore, judge: Judge) -> None:
    """Pop and acknowledge some, let the time of others be over, save offsets now and then."""
    pops = pops_of(store)
    expiring = asyncio.create_task(pops.keep_expiring())
    popped = list[Given]()
    for life in range(8):
        dispatch(store)
        found = (await pops.pop(PopWanted("G", "T", most=5), Popper())).given
        for one in found:
            key = one.message.keys
            assert key is not None
            if key in "012":  # refused until it is dead
                assert pops.change("G", "T", one.receipt, 0) is not None
            elif life > 4 or key in "34":
                judge.done.add(key)
                assert pops.ack("G", "T", one.receipt)
            else:
                popped.append(one)
        if life == 4:
            for one in popped:
                pops.change("G", "T", one.receipt, 0)
        for _ in range(20):  # what is over comes again
            await asyncio.sleep(0)
        pops.check_invariants()
        store._parts.housekeeping.save_once()
    expiring.cancel()


@pytest.mark.parametrize("model", ["ext4", "posix"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_state_of_the_disk_loses_a_message(flush: str, model: str):
    disk = SimDisk(20261130, model)
    store = opened(disk, flush)

    async def put_now(message: Message) -> PutResult:  # there is no thread that flushes
        return store.put(message)

    store.put_async = put_now  # type: ignore[method-assign]
    store.create_group("G", GroupSettings(retry_max_times=2))
    for number in range(COUNT):
        assert store.put(Message("T", bytes(900), keys=str(number)))
    store._parts.flush.flush_once()
    dispatch(store)
    judge = Judge(flush, disk, put={str(number) for number in range(COUNT)})
    disk.at_call = judge.at_call
    asyncio.run(lives(store, judge))
    dispatch(store)
    assert {m.keys for m in store.get("%DLQ%G", 0, 0).messages} == {"0", "1", "2"}
    assert judge.done == {"3", "4", "5", "6", "7"}
    disk.at_call = None
    assert judge.states > 100 and judge.only_retries > 20, judge

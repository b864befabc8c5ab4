"""Random lives of groups that pop: nothing is lost, and nobody gets what another has."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from flintmq import GroupSettings, Message
from flintmq.broker.pop import Given, Pops, PopWanted
from flintmq.broker.receipts import OWN
from flintmq.store.message_store import MessageStore
from tests.support.engine import open_small
from tests.support.popping import Popper, pops_of

GROUPS = {"Any": False, "Ordered": True}
QUEUES, STEPS = 3, 250
Place = tuple[str, int, int]  # kind, queue, offset


class Life:
    """One store and its groups; what each has in flight is known here, too."""

    def __init__(self, store: MessageStore, seed: int) -> None:
        self.store, self.chance = store, random.Random(seed)
        self.sent = 0
        self.flying: dict[str, dict[Place, Given]] = {name: {} for name in GROUPS}  # group -> place -> the last receipt
        self.done: dict[str, set[str]] = {name: set() for name in GROUPS}

    async def live(self) -> None:
        self.start()
        steps = (self.put, self.pop, self.pop, self.ack, self.ack, self.refuse, self.restart, self.set_back)
        weights = (6, 6, 6, 6, 6, 3, 0.3, 0.2)
        for _ in range(STEPS):
            [step] = self.chance.choices(steps, weights)
            await step()
            for _ in range(4):
                await asyncio.sleep(0)
            self.pops.check_invariants()
        await self.drain()
        await self.end()

    def start(self) -> None:
        self.pops: Pops = pops_of(self.store)
        self.expiring = asyncio.get_running_loop().create_task(self.pops.keep_expiring())

    async def end(self) -> None:
        self.expiring.cancel()
        with suppress(asyncio.CancelledError):
            await self.expiring

    async def restart(self) -> None:
        await self.end()
        self.start()
        for flying in self.flying.values():
            flying.clear()

    async def put(self) -> None:
        for _ in range(self.chance.randrange(5)):
            assert self.store.put(Message("T", b"", keys=str(self.sent), queue_id=self.chance.randrange(QUEUES)))
            self.sent += 1
        assert self.store.wait_dispatched(60)

    async def pop(self) -> None:
        group = self.chance.choice(list(GROUPS))
        most, queue_id = self.chance.randrange(1, 6), self.chance.choice((-1, -1, self.chance.randrange(QUEUES)))
        wanted = PopWanted(group, "T", queue_id, most, is_ordered=GROUPS[group])
        for one in (await self.pops.pop(wanted, Popper())).given:
            place = one.receipt.kind, one.receipt.queue_id, one.receipt.offset
            assert place not in self.flying[group], f"{group} has {place} already"
            self.flying[group][place] = one

    def _some(self) -> tuple[str, Given] | None:
        group = self.chance.choice(list(GROUPS))
        flying = self.flying[group]
        return (group, flying.pop(self.chance.choice(list(flying)))) if flying else None

    async def ack(self) -> None:
        if (found := self._some()) is not None:
            group, one = found
            assert self.pops.ack(group, "T", one.receipt) and not self.pops.ack(group, "T", one.receipt)
            self.done[group].add(str(one.message.keys))

    async def refuse(self) -> None:
        if (found := self._some()) is not None:
            group, one = found
            assert self.pops.change(group, "T", one.receipt, 0) is not None

    async def set_back(self) -> None:
        """An operator sets a group to the begin of a queue: what it has of that is forgotten, but not its retries."""
        group, queue_id = self.chance.choice(list(GROUPS)), self.chance.randrange(QUEUES)
        if not self.store.consumer_offset(group, "T", queue_id):
            return
        self.store.commit_offset(group, "T", queue_id, 0)
        for place in list(self.flying[group]):
            if place[:2] == (OWN, queue_id):
                del self.flying[group][place]

    async def drain(self) -> None:
        """Everything that is left comes, and is acknowledged."""
        assert self.store.wait_dispatched(60)
        for group, ordered in GROUPS.items():
            for one in self.flying[group].values():
                self.pops.ack(group, "T", one.receipt)
                self.done[group].add(str(one.message.keys))
            empty = 0
            while empty < 20:
                assert self.store.wait_dispatched(60)
                found = (await self.pops.pop(PopWanted(group, "T", is_ordered=ordered), Popper())).given
                empty = 0 if found else empty + 1
                for one in found:
                    assert self.pops.ack(group, "T", one.receipt)
                    self.done[group].add(str(one.message.keys))
                await asyncio.sleep(0)
            assert self.done[group] == {str(number) for number in range(self.sent)}
            for queue_id in range(QUEUES):
                assert (self.store.consumer_offset(group, "T", queue_id) or 0) == self.store.bounds("T", queue_id)[1]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_and_nothing_is_given_twice_at_a_time(tmp_path: Path, seed: int):
    with open_small(tmp_path / "store") as store:
        store.create_topic("T", QUEUES)
        for group in GROUPS:
            store.create_group(group, GroupSettings(retry_max_times=1000))
        asyncio.run(Life(store, seed).live())

"""Keeps what groups have in flight of popped messages, and has it come again.

Plan. What a group has of a queue is where it goes on (`next`), and what is in flight before that. The offset that is
committed is that of the oldest message in flight, or `next`: so after a kill everything comes again that was not
acknowledged, and a broker of RocketMQ that takes the store over goes on there.

- A message whose time is over is put into the group's retries of its topic, as one more try, or into its dead letters;
  then it counts as acknowledged where it was: a message that nobody can process holds no offset up.
- Of a group that pops in order it stays in flight, and is given again in place (`pop`). How often is lost at a restart.
- What is in flight is in memory. A receipt of before a restart acknowledges nothing; its message comes again.
- If somebody else sets the group's offset (an operator, a consumer that pulls), what is in flight is forgotten, and the
  group goes on there.

Upstream: PopBufferMergeService, PopReviveService, ConsumerOrderInfoManager.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from flintmq.broker.held import Held
from flintmq.broker.receipts import OWN, Receipt, pop_retry_topic
from flintmq.broker.served_store import ONE_QUEUE, ServedStore
from flintmq.broker.store_offsets import StoreOffsets
from flintmq.errors import FlintError
from flintmq.format import properties
from flintmq.message import Message, PutMessageStatus, StoredMessage
from flintmq.store.consumer.retry import MOST_RETRIES, not_acknowledged

log = logging.getLogger("flintmq.broker")

_NEVER: Final = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)
"""Refusals of a message itself, which stay."""
LOOK_S: Final = 0.01  # between two looks whether a copy was put
AGAIN_S: Final = 1.0  # after an error, until a message whose time is over is put again
DUE_LEAST: Final = 1000  # entries of the list of times, from which on those are taken out that count no more

Key = tuple[str, str, int]
"""What a group has of a queue is kept by group, topic (that of the retries, too), queue id."""


@dataclass(slots=True)
class Flight:
    """A message in flight."""

    popped_ms: int  # by it a receipt counts, or does not
    until: float  # the loop's time
    times: int  # how often it was given before, to a group that pops in order
    is_leaving: bool = False  # a copy of it is being put


@dataclass(slots=True, eq=False)
class GroupQueue:
    """The part of a queue that a group has."""

    key: Key
    asked: str  # the topic that the group asks for; that of `key`, or the one whose retries that has
    kind: str  # as in receipts
    next: int = 0
    committed: int | None = None  # None: it is not known where the group begins
    flights: dict[int, Flight] = field(default_factory=dict)  # by queue offset, ascending
    is_ordered: bool = False
    attempt: str = ""  # the last one of a group that pops in order
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # of who gives messages

    @property
    def oldest(self) -> int:
        return next(iter(self.flights), self.next)


class Flights:
    """The table of all groups. Thread: the loop's."""

    def __init__(self, served: ServedStore, offsets: StoreOffsets, held: Held) -> None:
        self._served, self._store, self._offsets, self._held = served, served.store, offsets, held
        self._loop = asyncio.get_running_loop()
        self._queues: dict[Key, GroupQueue] = {}
        self._due: list[tuple[float, int, GroupQueue, list[int]]] = []  # a heap: when the times of offsets are over
        self._due_most, self._numbers = DUE_LEAST, itertools.count()
        self._is_sooner = asyncio.Event()  # something is due before what is waited for
        self._said = ""

    # -- the table ----------------------------------------------------------------------------------------------------

    def at(self, key: Key) -> GroupQueue | None:
        """Return what a group has of a queue.

        None, too, if somebody else set its offset, also to what it was, or deleted the group. Thread: any.
        """
        queue = self._queues.get(key)
        if queue is None or queue.committed is None:
            return queue
        is_set = self._offsets.is_reset(*key) or self._offsets.get(*key) != queue.committed
        return None if is_set or self._store.group(key[0]) is None else queue

    def known(self, key: Key) -> GroupQueue | None:
        """Return what a group has of a queue; forget it if it is not that any more."""
        queue = self.at(key)
        if queue is None:
            self._queues.pop(key, None)
        return queue

    def of(self, key: Key, asked: str, kind: str) -> GroupQueue:
        """Return what a group has of a queue, nothing at first."""
        queue = self.known(key)
        if queue is None:
            queue = self._queues[key] = GroupQueue(key, asked, kind)
        return queue

    def find(self, group: str, topic: str, receipt: Receipt) -> tuple[GroupQueue, Flight] | None:
        """Return the message of a receipt; None: it is not in flight by that."""
        queue = self.known((group, receipt.topic(group, topic), receipt.queue_id))
        flight = queue.flights.get(receipt.offset) if queue is not None else None
        if queue is None or flight is None or flight.popped_ms != receipt.popped_ms:
            return None
        return queue, flight

    def most(self, group: str) -> int:
        """Return how often a message of a group is given again."""
        settings = self._store.group(group)
        return MOST_RETRIES if settings is None else settings.retry_max_times

    # -- in flight, and out of it -------------------------------------------------------------------------------------

    def start(self, queue: GroupQueue, times: dict[int, int], popped_ms: int, until: float) -> None:
        """Put messages in flight, and commit what that passed.

        `times`: queue offset -> how often the message was given before.
        """
        for offset, before in times.items():
            queue.flights[offset] = Flight(popped_ms, until, before)
        if times:
            self.watch(queue, list(times), until)
        self._commit(queue)

    def land(self, queue: GroupQueue, offset: int) -> None:
        """Take a message out of flight."""
        queue.flights.pop(offset, None)
        self._commit(queue)
        if queue.is_ordered:
            self._held.recall(*queue.key)

    def watch(self, queue: GroupQueue, offsets: list[int], until: float) -> None:
        """Have messages looked at when their time is over."""
        if len(self._due) >= self._due_most:
            self._due = [
                (flight.until, next(self._numbers), one, [offset])
                for one in self._queues.values()
                for offset, flight in one.flights.items()
            ]
            heapq.heapify(self._due)
            self._due_most = max(2 * len(self._due), DUE_LEAST)
        heapq.heappush(self._due, (until, next(self._numbers), queue, offsets))
        if self._due[0][0] == until:
            self._is_sooner.set()

    def _commit(self, queue: GroupQueue) -> None:
        """Commit the offset of the oldest message in flight, unless somebody else set the group's."""
        oldest = queue.oldest
        if oldest != queue.committed and self.known(queue.key) is queue:
            self._offsets.commit(*queue.key, oldest, None)
            queue.committed = oldest

    # -- copies -------------------------------------------------------------------------------------------------------

    async def message(self, queue: GroupQueue, offset: int) -> StoredMessage | None:
        """Read a message again; None: the log has it no more."""
        found = await self._served.read(queue.key[1], queue.key[2], offset)
        return StoredMessage(found.data) if found.count else None

    async def put_copy(self, queue: GroupQueue, offset: int, flight: Flight, *, most: int) -> None:
        """Put a copy of a message into the retries or the dead letters, unless it is gone.

        Raises FlintError, OSError: it is not stored.
        """
        message, group = await self.message(queue, offset), queue.key[0]
        if message is not None:
            topic = pop_retry_topic(group, queue.asked) if queue.kind == OWN else queue.key[1]
            copy = not_acknowledged(message, group, topic, most=most, popped_ms=flight.popped_ms)
            await self._put(copy, message)

    async def move(self, queue: GroupQueue, offset: int, flight: Flight, *, most: int) -> None:
        """Put a copy of a message, as `put_copy`, then take it out of flight; once for all who ask.

        Raises FlintError, OSError: it is not stored, and stays in flight.
        """
        while flight.is_leaving:
            await asyncio.sleep(LOOK_S)
        if queue.flights.get(offset) is not flight:
            return
        flight.is_leaving = True
        try:
            await self.put_copy(queue, offset, flight, most=most)
        finally:
            flight.is_leaving = False
        if queue.flights.get(offset) is flight:
            self.land(queue, offset)

    async def _put(self, message: Message, original: StoredMessage) -> None:
        await self._served.make_topic(message.topic, ONE_QUEUE)
        result = await self._store.put_async(message)
        if result.status in _NEVER:  # the copy's own properties may be what is too much
            pairs = {name: value for name, value in original.properties.items() if name != properties.CRC32}
            message.properties_bytes = properties.encode(pairs)
            result = await self._store.put_async(message)
        if result.status in _NEVER:
            log.error(
                "%s: the message at log offset %d cannot be put there, now or later: %s; it does not come again",
                message.topic, original.physical_offset, result.reason,
            )  # fmt: skip
        elif result.physical_offset < 0:  # what is stored, but late on disk, counts as stored, as of a send
            result.raise_for_status()

    # -- times that are over ------------------------------------------------------------------------------------------

    async def keep_expiring(self) -> None:
        """Have messages come again whose time is over, again and again, until it is cancelled."""
        while True:
            left = self._due[0][0] - self._loop.time() if self._due else None
            if left is None or left > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._is_sooner.wait()
                self._is_sooner.clear()
                continue
            until, _, queue, offsets = heapq.heappop(self._due)
            if self.known(queue.key) is queue:
                await self._expire(queue, offsets, until)
            await asyncio.sleep(0)  # others come between, however many are due

    async def _expire(self, queue: GroupQueue, offsets: list[int], until: float) -> None:
        """Put copies of messages whose time is over; they are in flight until that is done."""
        if queue.is_ordered:
            self._held.recall(*queue.key)
            return
        due = [(offset, queue.flights.get(offset)) for offset in offsets]
        await asyncio.gather(*(  # so that they share a sync of the disk
            self._expire_one(queue, offset, flight)
            for offset, flight in due
            if flight is not None and flight.until == until  # else it was acknowledged, or has another time
        ))  # fmt: skip

    async def _expire_one(self, queue: GroupQueue, offset: int, flight: Flight) -> None:
        try:
            await self.move(queue, offset, flight, most=self.most(queue.key[0]))
        except Exception as error:  # whatever it is: without this task nothing comes again
            self.say(queue, "popped messages come again later", error)
            flight.until = self._loop.time() + AGAIN_S
            self.watch(queue, [offset], flight.until)

    def say(self, queue: GroupQueue, what: str, error: Exception) -> None:
        """Log an error; a disk that is full gets one line, not one a second."""
        line = f"{queue.key[1]}/{queue.key[2]}: {what}: {error}"
        if line != self._said:
            log.error("%s", line, exc_info=not isinstance(error, (FlintError, OSError)))
            self._said = line

    # -- for tests ----------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Assert that offsets in flight ascend, end before `next`, and hold the committed offset."""
        for queue in self._queues.values():
            offsets = list(queue.flights)
            assert offsets == sorted(offsets) and (not offsets or offsets[-1] < queue.next), queue
            assert queue.committed is None or queue.committed == queue.oldest, queue

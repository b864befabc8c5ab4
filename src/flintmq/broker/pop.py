"""The pop engine: gives messages for a time, after which they come again.

They do unless they are acknowledged. A group gets messages of the queues, and of its retries. One that pops in order
gets the same messages of a queue again, in place, and nothing else of it before they are acknowledged. What is in
flight is kept by `flights`, which says how all of that outlives a kill.

One table serves both doors: remoting (`pop_requests`) and gRPC. Upstream: PopMessageProcessor, AckMessageProcessor,
ChangeInvisibleTimeProcessor.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from flintmq.broker.flights import Flights, GroupQueue
from flintmq.broker.held import Held, Holder, without_turn
from flintmq.broker.lookup import is_young
from flintmq.broker.needs import SUB, of_group, of_topic
from flintmq.broker.pull import readable_topic
from flintmq.broker.receipts import ORDERED_QUEUE, OWN, RETRIES, RETRIES_V2, Receipt, pop_retry_topic
from flintmq.broker.recent import Got
from flintmq.broker.requests import Need, Refused, anything
from flintmq.broker.served import EVERYTHING, Filter, Place
from flintmq.broker.served_store import ServedStore
from flintmq.broker.store_offsets import StoreOffsets
from flintmq.errors import FlintError
from flintmq.format.text import java_encode
from flintmq.message import StoredMessage
from flintmq.remoting.names import INVALID_PARAMETER, NO_PERMISSION
from flintmq.remoting.pulls import BYTES_MAX
from flintmq.store.append.checks import RETRY_TOPIC_LIMIT
from flintmq.store.read import answer

T = TypeVar("T")

MESSAGES_MAX: Final = 32  # of one pop, as RocketMQ
UNSENT_MS: Final = 1000  # until messages come again that did not reach their client
FLIGHTS_MAX: Final = 100_000  # messages of a queue that a group has; beyond, it gets none
RETRIES_FIRST: Final = 5  # one pop of so many looks at the retries first, the others last


@dataclass(frozen=True, slots=True)
class PopWanted:
    """Fields of a pop.

    Attributes:
        queue_id: -1: any.
        most: messages, 1 to 32.
        invisible_ms: until it comes again.
        only: what it wants of the topic; of retries it gets all.
        from_end: a group that never had an offset begins at the end of an old queue (else at its begin).
        is_ordered: a queue that has something in flight gives nothing, unless `attempt` is the one that got it. Give
            `pops.is_ordered(group)`, or what the client says.
        attempt: the client's id of this attempt; a client that lost the answer asks with the same one.
        may: raises Refused for what its user may not, or may not any more.
    """

    group: str
    topic: str
    queue_id: int = -1
    most: int = MESSAGES_MAX
    invisible_ms: int = 60_000
    only: Filter = EVERYTHING
    from_end: bool = False
    is_ordered: bool = False
    attempt: str = ""
    may: Callable[[Need], None] = anything


class Given(NamedTuple):
    """A message that was given.

    Attributes:
        message: its record: of the topic that was asked for, or of the group's retries, where `message.topic` names
            these. To the client it is a message of the topic that it asked for.
        receipt: `str(receipt)` is the text for the client.
        times: how often it was given before: reconsumeTimes; gRPC's delivery_attempt is one more.
    """

    message: StoredMessage
    receipt: Receipt
    times: int


class Popped(NamedTuple):
    """The result of a pop.

    Attributes:
        given: messages; none: nothing came in time.
        popped_ms: the time in their receipts.
        rest: how many more messages there were, about.
        is_full: too many requests are held already, so this did not wait.
        is_cut: it was time for others, before all was looked at.
    """

    given: list[Given]
    popped_ms: int
    rest: int
    is_full: bool = False
    is_cut: bool = False


class Pops:
    """The table of what groups have popped. Thread: the loop's.

    Args:
        broker: the broker's name, for receipts.
        held: the requests that wait, those of pulls among them.
        got: counts the messages that a group gets.
    """

    def __init__(
        self,
        served: ServedStore,
        offsets: StoreOffsets,
        held: Held,
        got: Got,
        broker: str,
    ) -> None:
        self._served, self._store, self._offsets = served, served.store, offsets
        self._held, self._got, self._broker = held, got, broker
        self._loop = asyncio.get_running_loop()
        self._flights = Flights(served, offsets, held)
        self.keep_expiring, self.check_invariants = self._flights.keep_expiring, self._flights.check_invariants

    def is_ordered(self, group: str) -> bool:
        """Return whether a group's settings say that it pops in order (consumeMessageOrderly)."""
        settings = self._store.group(group)
        return settings is not None and settings.consume_orderly

    def in_flight(self, group: str, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Return how many messages of a queue a group has in flight, and where it goes on.

        None: it does not pop, or has only just come. Thread: any.
        """
        queue = self._flights.at((group, topic, queue_id))
        return None if queue is None or queue.committed is None else (len(queue.flights), queue.next)

    # -- what clients ask ---------------------------------------------------------------------------------------------

    async def pop(self, wanted: PopWanted, peer: Holder, wait_s: float = 0.0) -> Popped:
        """Give messages, of the retries of the group among them; wait until there are some.

        What is given is in flight for `wanted.invisible_ms`. While it waits it gives back `peer`'s turn, and it ends
        early, with nothing, when `peer` is closed (`Held.left(peer)` wakes it) or the broker stops.

        Raises:
            Refused: no such topic or queue; the topic is not readable; the group may not consume, or is not known and
                may not be made. `code` is of remoting: TOPIC_NOT_EXIST, GROUP_NOT_EXIST, NO_PERMISSION,
                INVALID_PARAMETER.
            FlintError, OSError: the store cannot be read.
        """

        last = Popped([], 0, 0)

        async def take() -> tuple[Popped | None, bool]:
            nonlocal last
            last = await self._take(wanted)
            return (last if last.given else None), last.is_cut

        found, is_full = await self._found(wanted, peer, wait_s, take, takes=True)
        if found is None or not peer.is_closed:
            return found or last._replace(is_full=is_full)
        self.give_back(wanted, [one.receipt for one in found.given])
        return found._replace(given=[])

    def give_back(self, wanted: PopWanted, receipts: list[Receipt]) -> None:
        """Have messages come again soon that did not reach their client."""
        for receipt in receipts:
            self.change(wanted.group, wanted.topic, receipt, UNSENT_MS)

    async def notify(self, wanted: PopWanted, peer: Holder, wait_s: float = 0.0) -> tuple[bool, bool]:
        """Wait until a pop would find something; give nothing.

        Returns:
            Whether it would; and whether too many requests are held already, so that this did not wait.

        Raises:
            Refused, FlintError, OSError: as `pop`.
        """

        async def look() -> tuple[bool | None, bool]:
            return self.has_any(wanted) or None, False

        found, is_full = await self._found(wanted, peer, wait_s, look, takes=False)
        return found is not None, is_full

    def has_any(self, wanted: PopWanted) -> bool:
        """Return whether a pop may find something now."""
        return any(self._has_any(wanted, place) for _, place in self._places(wanted))

    def ack(self, group: str, topic: str, receipt: Receipt) -> bool:
        """Take a message out of flight: it does not come again.

        Args:
            topic: the one that the client popped from, or that of the retries.

        Returns:
            Whether it was in flight by that receipt. If not, its time was over, or the broker started again; upstream
            answers OK then.
        """
        found = self._flights.find(group, topic, receipt)
        if found is not None:
            self._flights.land(found[0], receipt.offset)
        return found is not None

    def change(self, group: str, topic: str, receipt: Receipt, invisible_ms: int) -> Receipt | None:
        """Set for how long a message stays invisible from now on; 0: it comes again at once.

        Returns:
            The new receipt, which names the new time; the old one counts, too. None: it is not in flight.
        """
        found = self._flights.find(group, topic, receipt)
        if found is None:
            return None
        queue, flight = found
        flight.until = self._loop.time() + invisible_ms / 1000
        self._flights.watch(queue, [receipt.offset], flight.until)
        return receipt._replace(invisible_ms=max(now_ms() - receipt.popped_ms, 0) + invisible_ms)

    async def bury(self, group: str, topic: str, receipt: Receipt) -> bool:
        """Put a message into the group's dead letters, and then take it out of flight.

        Returns:
            Whether it was in flight by that receipt.

        Raises:
            FlintError, OSError: it cannot be read or put; it stays in flight.
        """
        found = self._flights.find(group, topic, receipt)
        if found is not None:
            queue, flight = found
            await self._flights.move(queue, receipt.offset, flight, most=0)
        return found is not None

    async def peek(self, wanted: PopWanted) -> tuple[list[StoredMessage], int]:
        """Return messages that a pop would give, and how many more there are, about.

        Raises:
            Refused, FlintError, OSError: as `pop`.
        """
        await self._check(wanted)
        messages, rest, room = list[StoredMessage](), 0, BYTES_MAX
        for kind, place in self._places(wanted):
            at, end = self._goes_on(wanted.group, place), self._served.bounds(*place)[1]
            left, only = wanted.most - len(messages), wanted.only if kind == OWN else EVERYTHING
            if left > 0 and room > 0 and at < end:
                found = await self._served.read(*place, at, left, only, room)
                room -= len(found.data)
                messages += answer.messages_of(found.data)
                at = max(at, found.next_begin_offset)
            rest += max(end - at, 0)
        return messages, rest

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def _found(
        self,
        wanted: PopWanted,
        peer: Holder,
        wait_s: float,
        look: Callable[[], Coroutine[None, None, tuple[T | None, bool]]],
        *,
        takes: bool,
    ) -> tuple[T | None, bool]:
        """Look until something is found or the time is over; return also whether it could not wait.

        `look` returns, too, whether it has more to look at.
        """
        deadline, waited_for = self._loop.time() + wait_s, dict[Place, int]()
        try:
            while True:
                if peer.is_closed:
                    return None, False
                await self._check(wanted)  # each time: the topic may be gone, or closed
                ends, recalls = self._ends(wanted), self._held.recalls
                found, is_cut = await look()
                waited_for = dict.fromkeys(ends, -1) if is_cut and found is None else {}
                left = deadline - self._loop.time()
                if found is not None or left <= 0 or self._held.is_stopping:
                    return found, False
                if is_cut:
                    async with without_turn(peer):
                        await asyncio.sleep(0)
                elif self._held.is_full:
                    return None, True
                elif peer.is_closed:  # nobody would wake it
                    return None, False
                elif (ends, recalls) == (
                    self._ends(wanted),
                    self._held.recalls,
                ):  # else there is news it did not see
                    waited_for = ends
                    await self._held.wait(ends, peer, wanted.group, left, shares=takes)
                    if not peer.is_writable:
                        self._pass_on(wanted, waited_for)
                await peer.writable()
                if self._loop.time() >= deadline:  # its client may have given up: it takes nothing
                    return None, False
        finally:
            self._pass_on(wanted, waited_for)

    def _pass_on(self, wanted: PopWanted, waited_for: dict[Place, int]) -> None:
        """Have others look for one that was woken, and does not look, or not now."""
        if waited_for and waited_for != self._ends(wanted):
            for place in waited_for:
                self._held.recall(wanted.group, *place)

    async def _check(self, wanted: PopWanted) -> None:
        """Refuse what a group may not pop, or cannot."""
        group, topic = wanted.group, wanted.topic
        wanted.may(of_topic(topic, SUB))
        wanted.may(of_group(group, SUB))
        may_consume = self._served.may_consume(group)
        if may_consume is False:
            raise Refused(NO_PERMISSION, f"subscription group no permission, {group}")
        if may_consume is None:
            await self._served.admit(group)
        if len(java_encode(pop_retry_topic(group, topic))) > RETRY_TOPIC_LIMIT:
            raise Refused(INVALID_PARAMETER, f"group and topic are too long for a topic of retries: {group}, {topic}")
        facts = readable_topic(self._served, topic)
        if wanted.queue_id >= facts.read_queues:
            queues = f"topic:[{topic}] topicConfig.readQueueNums:[{facts.read_queues}]"
            raise Refused(INVALID_PARAMETER, f"queueId[{wanted.queue_id}] is illegal, {queues}")

    def _places(self, wanted: PopWanted) -> list[tuple[str, Place]]:
        """Return the queues to look at, each with its kind, in a just order."""
        own = [(wanted.topic, wanted.queue_id)] if wanted.queue_id >= 0 else self._turned(wanted.topic)
        found = [(OWN, place) for place in own]
        if wanted.is_ordered:
            return found
        retries = [
            (kind, place)
            for kind in (RETRIES, RETRIES_V2)
            for place in self._turned(pop_retry_topic(wanted.group, wanted.topic, kind))
        ]
        return retries + found if random.randrange(RETRIES_FIRST) == 0 else found + retries

    def _turned(self, topic: str) -> list[Place]:
        """Return the queues of a topic, from any one on; none if it is not there."""
        facts = self._served.topic(topic)
        queues = facts.read_queues if facts is not None else 0
        first = random.randrange(queues) if queues else 0
        return [(topic, (first + number) % queues) for number in range(queues)]

    def _ends(self, wanted: PopWanted) -> dict[Place, int]:
        """Return where the queues end that a pop looks at, the retries' also before it is there."""
        places = {place for _, place in self._places(wanted)}
        if not wanted.is_ordered:
            places.add((pop_retry_topic(wanted.group, wanted.topic), 0))
        return {place: self._served.bounds(*place)[1] for place in places}

    def _has_any(self, wanted: PopWanted, place: Place) -> bool:
        queue = self._flights.known((wanted.group, *place))
        if wanted.is_ordered and queue is not None and queue.flights:
            return self._is_free(queue, wanted.attempt)
        return self._goes_on(wanted.group, place) < self._served.bounds(*place)[1]

    def _goes_on(self, group: str, place: Place) -> int:
        """Return the next offset that a group gets of a queue."""
        queue = self._flights.known((group, *place))
        if queue is not None and queue.committed is not None:
            return queue.next
        offset = self._offsets.get(group, *place)
        return self._served.bounds(*place)[0] if offset is None else offset

    # -- giving -------------------------------------------------------------------------------------------------------

    async def _take(self, wanted: PopWanted) -> Popped:
        given, rest, room, popped_ms = list[Given](), 0, BYTES_MAX, now_ms()
        failed: FlintError | OSError | None = None
        places, until, is_cut = self._places(wanted), self._loop.time() + answer.LOOKS_S, False
        for number, (kind, place) in enumerate(places, 1):
            queue = self._flights.of((wanted.group, *place), wanted.topic, kind)
            async with queue.lock:
                if self._flights.known(queue.key) is not queue:  # its offset was set while another pop had it
                    continue
                try:
                    await self._begin(queue, wanted.from_end)
                    if len(given) < wanted.most and room > 0:
                        found = await self._give(queue, wanted, wanted.most - len(given), room, popped_ms, until)
                        room -= sum(one.message.size for one in found)
                        given += found
                except (FlintError, OSError) as error:  # what others gave is in flight, and goes to the client
                    failed = error
                    self._flights.say(queue, "cannot be popped", error)
                    continue
                rest += max(self._served.bounds(*place)[1] - queue.next, 0)
            if self._is_late(wanted.only, until):
                is_cut = rest > 0 or number < len(places)
                break
        if failed is not None and not given:
            raise failed
        return Popped(given, popped_ms, rest, is_cut=is_cut)

    async def _begin(self, queue: GroupQueue, from_end: bool) -> None:
        """Find where a group goes on in a queue; a new one begins as one does that pulls."""
        if queue.committed is not None:
            return
        _, topic, queue_id = queue.key
        offset = self._offsets.get(*queue.key)
        if offset is not None:
            self._offsets.moved(*queue.key, offset, None)  # who set it may stop to insist: the group knows it
        else:
            offset, end = self._served.bounds(topic, queue_id)
            if queue.kind == OWN and await is_young(self._served, topic, queue_id):
                offset = 0
            elif queue.kind == OWN and from_end:
                offset = end
            self._offsets.commit(*queue.key, offset, None)
        queue.next = queue.committed = offset

    def _is_late(self, only: Filter, until: float) -> bool:
        """Return whether it is time for others, as a client's own condition may take long."""
        return only.wanted is not None and self._loop.time() >= until

    async def _give(
        self, queue: GroupQueue, wanted: PopWanted, most: int, room: int, popped_ms: int, until: float
    ) -> list[Given]:
        """Give messages of a queue that nobody else gives of meanwhile."""
        if wanted.is_ordered and queue.flights:
            again = await self._again(queue, wanted, most, room)
            if again or queue.flights:
                return self._fly(queue, wanted, again, popped_ms)
        elif queue.is_ordered and queue.flights:  # it was in order until now: its times are looked at no more
            for offset, flight in queue.flights.items():
                self._flights.watch(queue, [offset], flight.until)
        queue.is_ordered, queue.attempt = wanted.is_ordered, wanted.attempt
        most = min(most, FLIGHTS_MAX - len(queue.flights))
        if most <= 0:
            return []
        found = await self._read(queue, most, room, wanted.only if queue.kind == OWN else EVERYTHING, until)
        return self._fly(queue, wanted, [(message, 0) for message in found], popped_ms)

    async def _read(self, queue: GroupQueue, most: int, room: int, only: Filter, until: float) -> list[StoredMessage]:
        """Read on, past what is not wanted, and past what is gone."""
        _, topic, queue_id = queue.key
        while True:
            found = await self._served.read(topic, queue_id, queue.next, most, only, room)
            before, queue.next = queue.next, found.next_begin_offset
            if found.count or queue.next == before or self._is_late(only, until):
                return answer.messages_of(found.data)
            await asyncio.sleep(0)  # others come between two reads of a long queue

    def _fly(
        self, queue: GroupQueue, wanted: PopWanted, messages: list[tuple[StoredMessage, int]], popped_ms: int
    ) -> list[Given]:
        """Give messages, each of which was given so often before."""
        first = messages[0][0].queue_offset if messages else -1
        revive = ORDERED_QUEUE if wanted.is_ordered else 0
        receipt = Receipt(first, popped_ms, wanted.invisible_ms, revive, queue.kind, self._broker, queue.key[2], first)
        given = [
            Given(message, receipt._replace(offset=message.queue_offset), times or message.reconsume_times)
            for message, times in messages
        ]
        if given:
            self._got.add(queue.key[1], wanted.group, len(given), sum(one.message.size for one in given))
        until = self._loop.time() + wanted.invisible_ms / 1000
        self._flights.start(queue, {message.queue_offset: times for message, times in messages}, popped_ms, until)
        return given

    def _is_free(self, queue: GroupQueue, attempt: str) -> bool:
        """Return whether an attempt of an ordered group may have what is in flight."""
        now = self._loop.time()
        is_same = bool(attempt) and attempt == queue.attempt
        return is_same or all(flight.until <= now for flight in queue.flights.values())

    async def _again(
        self, queue: GroupQueue, wanted: PopWanted, most: int, room: int
    ) -> list[tuple[StoredMessage, int]]:
        """Return what an ordered group did not acknowledge.

        That is nothing while another attempt has some of it. What the group got too often becomes a dead letter.
        """
        if not self._is_free(queue, wanted.attempt):
            return []
        is_same = bool(wanted.attempt) and wanted.attempt == queue.attempt
        queue.is_ordered, queue.attempt, found = True, wanted.attempt, list[tuple[StoredMessage, int]]()
        for offset, flight in list(queue.flights.items()):
            times = flight.times + (not is_same)
            if times > self._flights.most(wanted.group):
                await self._flights.move(queue, offset, flight, most=0)
                continue
            message = await self._flights.message(queue, offset)
            if message is None:
                self._flights.land(queue, offset)
            elif queue.flights.get(offset) is flight:  # it was not acknowledged meanwhile
                if len(found) >= most or (found and message.size > room):
                    break
                found.append((message, times))
                room -= message.size
        return found


def now_ms() -> int:
    return int(time.time() * 1000)

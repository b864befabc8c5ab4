"""Holds pulls and pops until their queues grow.

They wait, too, for their time, for their client's end, or for ours. A pull is an object that is called, and takes no
task; a pop is a coroutine that waits. Who reads and then waits looks before and after at `Served.news` of the queues,
or at where they end, and at `recalls`: what comes while it reads must not be missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from flintmq.broker.served import Place, Served

K = TypeVar("K")
V = TypeVar("V")

HELD_MAX: Final = 100_000  # more are answered at once


class Holder(Protocol):
    """The client of what is held: a connection, or a stream of one."""

    @property
    def is_closed(self) -> bool: ...

    turns: asyncio.Semaphore  # of answers that are made at a time; what is held gives its turn back

    @property
    def is_writable(self) -> bool:
        """Return whether the client takes its answers."""

    async def writable(self) -> None:
        """Wait until the client takes its answers, or is gone."""


class Waiting(Protocol):
    """Represents one that waits; it is held once at a time."""

    @property
    def ends(self) -> Mapping[Place, int]:
        """Return the queues that it waits for, and where each one ended when it was read."""

    @property
    def group(self) -> str: ...

    @property
    def peer(self) -> Holder: ...

    @property
    def shares(self) -> bool:
        """Return whether what it takes others of its group do not get; not all are woken then."""

    def woken(self) -> None:
        """Go on: it is held no more."""


class Held:
    """All that is held. Thread: the loop's.

    Attributes:
        recalls: how often some were woken for another reason than a queue's growth.
        is_stopping: nothing is to be held any more.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._timers: dict[Waiting, asyncio.TimerHandle] = {}  # in the order in which they came
        self._of: dict[Holder, dict[Waiting, None]] = {}
        self._at: dict[Place, dict[Waiting, int]] = {}  # -> where the queue ended
        self.recalls, self.is_stopping = 0, False

    @property
    def count(self) -> int:
        """Return how many are held."""
        return len(self._timers)

    @property
    def is_full(self) -> bool:
        """Return whether no more can be held."""
        return len(self._timers) >= HELD_MAX

    def hold(self, waiting: Waiting, seconds: float) -> None:
        """Have one wait until a queue may end elsewhere than in its `ends`, or its time is over.

        It waits no longer than until its group is recalled, or its client has ended.
        """
        self._timers[waiting] = asyncio.get_running_loop().call_later(seconds, self.wake, waiting)
        self._of.setdefault(waiting.peer, {})[waiting] = None
        for place, end in waiting.ends.items():
            self._at.setdefault(place, {})[waiting] = end

    def wake(self, waiting: Waiting) -> None:
        """Have one go on, unless it is held no more."""
        timer = self._timers.pop(waiting, None)
        if timer is None:
            return
        timer.cancel()
        _take_out(self._of, waiting.peer, waiting)
        for place in waiting.ends:
            _take_out(self._at, place, waiting)
        waiting.woken()

    async def wait(self, ends: Mapping[Place, int], peer: Holder, group: str, seconds: float, *, shares: bool) -> None:
        """Wait as `hold` does it. The client's turn is given back meanwhile.

        One that `shares` and does not look afterwards has to recall the others of its group.
        """
        waiting = _Coroutine(ends, peer, group, shares)
        self.hold(waiting, seconds)
        async with without_turn(peer):
            try:
                await waiting.future
            finally:
                self.wake(waiting)  # it is still held if the coroutine was cancelled

    def look(self, places: Iterable[Place] | None = None) -> None:
        """Wake those whose queues end elsewhere now: they grew, or are others.

        Args:
            places: the queues that may; None: all.
        """
        for place in list(self._at) if places is None else places:
            if (at_place := self._at.get(place)) is not None:
                self._wake_all(_chosen(at_place, self._served.bounds(*place)[1]))

    def recall(self, group: str, topic: str, queue_id: int | None = None) -> None:
        """Wake those of a group for a topic, or for one of its queues.

        Its offsets were set, or a queue gives messages again.
        """
        self.recalls += 1
        places = [place for place in self._at if place[0] == topic] if queue_id is None else [(topic, queue_id)]
        for place in places:
            self._wake_all([waiting for waiting in self._at.get(place, ()) if waiting.group == group])

    def left(self, peer: Holder) -> None:
        """Drop what is held for a client that has gone."""
        self._wake_all(list(self._of.get(peer, ())))

    def stop(self) -> None:
        """Have all that are held answered: nothing came."""
        self.is_stopping = True
        self._wake_all(list(self._timers))

    def _wake_all(self, found: list[Waiting]) -> None:
        for waiting in found:
            self.wake(waiting)


@asynccontextmanager
async def without_turn(peer: Holder) -> AsyncIterator[None]:
    """Give a client's turn back meanwhile, so that its other answers are made."""
    peer.turns.release()
    try:
        yield
    finally:
        await peer.turns.acquire()


def _chosen(at_place: dict[Waiting, int], end: int) -> list[Waiting]:
    """Return those to wake now that a queue ends here.

    Of those of a group that share, these are as many as messages came: each takes one or more. With all of them woken
    by each message, 100 idle consumers fill the loop. Those whose client takes no answers, or has no turn left, come
    last: they would keep a message from the others.
    """
    found, sharing, woken = list[Waiting](), list[Waiting](), dict[str, int]()
    for waiting, seen in at_place.items():
        if waiting.shares and end >= seen:
            sharing.append(waiting)
        elif seen != end:  # less: another queue of that name
            found.append(waiting)
    for waiting in sorted(sharing, key=lambda one: not one.peer.is_writable or one.peer.turns.locked()):
        if woken.get(waiting.group, 0) < end - at_place[waiting]:
            woken[waiting.group] = woken.get(waiting.group, 0) + 1
            found.append(waiting)
        else:
            at_place[waiting] = end  # what came is for the others
    return found


def _take_out(table: dict[K, dict[Waiting, V]], key: K, waiting: Waiting) -> None:
    """Take one out of a table of tables; an empty one does not stay."""
    found = table[key]
    del found[waiting]
    if not found:
        del table[key]


class _Coroutine:
    """A coroutine that waits for `future`."""

    __slots__ = ("ends", "future", "group", "peer", "shares")

    def __init__(self, ends: Mapping[Place, int], peer: Holder, group: str, shares: bool) -> None:
        self.ends, self.peer, self.group, self.shares = ends, peer, group, shares
        self.future = asyncio.get_running_loop().create_future()

    def woken(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

"""Keeps offsets of groups in the store that a broker writes, and those that an operator set."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from flintmq.broker.served import Asker
from flintmq.store.message_store import MessageStore

ANSWERS_MAX: Final = 3  # of a consumer that asks for the same place again; then it gets that
GONE_S: Final = 120.0  # without a consumer, or its connection, after which none comes back that does not know

Key = tuple[str, str, int]


@dataclass(slots=True)
class _Reset:
    """An offset that was set.

    Attributes:
        unaware: connections that do not know it -> offsets that they wanted, and got it in place of.
        seen: when consumers were there last, by time.monotonic.
        aware: connections that have gone on, or came after one that had.
        known: when one has gone on first, or one that does not know has committed last.
        lost: when a connection was seen last that ended and did not know.
    """

    unaware: dict[Asker | None, tuple[int, ...]]
    seen: float
    aware: set[Asker | None] = field(default_factory=set)
    known: float | None = None
    lost: float = -math.inf

    @property
    def is_open(self) -> bool:
        """Return whether nobody knows it."""
        return self.known is None

    def is_for(self, by: Asker | None) -> bool:
        """Return whether a connection does not know it; a new one may be of a client that does not."""
        return by in self.unaware or (by not in self.aware and (self.is_open or self._is_lost()))

    def _is_lost(self) -> bool:
        return time.monotonic() - self.lost < GONE_S or any(map(_has_ended, self.unaware))


class StoreOffsets:
    """Offsets of groups, kept by the store. Thread: the loop's.

    An offset that is set while consumers are there is one that each has to learn: until it asks for that place, or for
    another one although it got it as an answer, its commits do not count, as they would undo it. Who comes after the
    first has gone on has read it, unless a connection ended that did not know: its client may come back. Upstream:
    ConsumerOffsetManager.assignResetOffset, which ends it by the first pull.

    Args:
        consumers: returns connections of members of a group that may consume a topic.
    """

    has_own = False

    def __init__(
        self, store: MessageStore, consumers: Callable[[str, str], Collection[Asker]] = lambda group, topic: ()
    ) -> None:
        self._store, self._consumers = store, consumers
        self._resets: dict[Key, _Reset] = {}
        self.changes = 0

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        found = self._store.consumer_offset(group, topic, queue_id)
        return None if found is None or found < 0 else found

    def commit(self, group: str, topic: str, queue_id: int, offset: int, by: Asker | None) -> None:
        reset = self._reset((group, topic, queue_id))
        if reset is None or not reset.is_for(by):
            self._commit((group, topic, queue_id), offset)
        elif not reset.is_open:
            reset.known = time.monotonic()

    def _commit(self, key: Key, offset: int) -> None:
        self._store.commit_offset(*key, offset)
        self.changes += 1

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set offsets of queues, whatever consumers commit that do not know."""
        consumers = self._consumers(group, topic)
        for queue_id, offset in offsets.items():
            key = group, topic, queue_id
            if consumers or self._reset(key) is not None:  # else of one before that may come back
                self._resets[key] = _Reset(dict.fromkeys(consumers, ()), time.monotonic())
            self._commit(key, offset)

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether an offset was set that no consumer knows yet, or was deleted since.

        Thread: any.
        """
        reset = self._resets.get((group, topic, queue_id))
        return reset is not None and reset.is_open

    def moved(
        self, group: str, topic: str, queue_id: int, offset: int, by: Asker | None, *, is_new: bool = True
    ) -> int | None:
        key = group, topic, queue_id
        reset = self._reset(key)
        if reset is None:
            return None
        if not reset.is_for(by):
            reset.aware.add(by)
            return None
        now, answered = self.get(*key), reset.unaware.get(by, ())
        # One that is not new was sent before; one that wants the same place again may have been.
        if is_new and (offset == now or (answered and (offset != answered[-1] or len(answered) == ANSWERS_MAX))):
            reset.unaware.pop(by, None)
            reset.aware.add(by)
            if reset.is_open:
                reset.known = time.monotonic()
            return None
        if is_new or not answered:
            reset.unaware[by] = *answered, offset
        return now

    def _reset(self, key: Key) -> _Reset | None:
        """Return what was set; forget it if it was deleted, with its topic or its group."""
        reset = self._resets.get(key)
        if reset is not None and self.get(*key) is None:
            self._resets.pop(key, None)
            return None
        return reset

    def left(self, group: str) -> None:
        """Forget offsets that nobody is left to learn: a consumer of a group ended itself."""
        topics = {topic for of, topic, _ in self._resets if of == group}
        gone = {topic for topic in topics if not self._consumers(group, topic)}
        for key in [key for key in self._resets if key[0] == group and key[1] in gone]:
            self._resets.pop(key, None)

    def sweep(self) -> None:
        """Forget connections that have ended, and offsets that nobody is left to learn."""
        now = time.monotonic()
        there = {pair: bool(self._consumers(*pair)) for pair in {key[:2] for key in self._resets}}
        for key, reset in list(self._resets.items()):
            for peer in list(filter(_has_ended, reset.unaware)):
                del reset.unaware[peer]
                reset.lost = now
            reset.aware = {peer for peer in reset.aware if not _has_ended(peer)}
            if there[key[:2]]:
                reset.seen = now
            if reset.known is not None and now - reset.known >= GONE_S:  # who wanted nothing has never had the queue
                reset.unaware = {peer: wanted for peer, wanted in reset.unaware.items() if wanted}
            is_over = not (reset.is_open or reset.unaware) and now - reset.lost >= GONE_S
            if is_over or now - reset.seen >= GONE_S:
                self._resets.pop(key, None)

    def knows(self, group: str) -> bool:
        return self._store.group(group) is not None

    def all(self) -> Mapping[tuple[str, str], Mapping[int, int]]:
        return {key: queues for key, queues in self._store.all_offsets().items() if self.knows(key[1])}


def _has_ended(peer: Asker | None) -> bool:
    return peer is not None and peer.is_closed

"""Source of a consumer: one topic of a read-only view, without commits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flintmq.errors import UsageError
from flintmq.store.consumer.source import VIEW_POLL_S, QueueRead, _beyond, _expired, _most, _with_ends
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.reentry import refuse_handler

if TYPE_CHECKING:
    from flintmq.store.view import StoreView


class ViewSource:
    """One topic of a store that is open for reading only."""

    def __init__(self, topic: str, view: StoreView) -> None:
        self.root, self.topic, self.view = view.root, topic, view
        self._looks, self._next_look = 0, time.monotonic() + VIEW_POLL_S
        self._bounds: dict[int, tuple[int, int]] | None = None

    def check(self) -> None:
        _ = self.view.live
        refuse_handler(self.root)

    def _all(self) -> dict[int, tuple[int, int]]:
        if self._bounds is None:
            found = self.view.queues(self.topic)
            self._bounds = {info.queue_id: (info.min_offset, info.max_offset) for info in found}
        return self._bounds

    def queues(self) -> frozenset[int]:
        return frozenset(self._all())

    def topics(self) -> set[str]:
        return {*self.view.topics(), *self.view.broker.topics}

    def bounds(self, queue_id: int) -> tuple[int, int]:
        return self._all().get(queue_id, (0, 0))

    def read(self, queue_id: int, offset: int, most: int, tags: str | None) -> QueueRead:
        """Read messages of all tags; the consumer selects them."""
        low, high = self.bounds(queue_id)
        if offset < low:
            return _expired(self, queue_id, offset, low)
        if offset > high:
            return _beyond(self, queue_id, offset, high)
        batch = self.view.read(self.topic, queue_id, offset, _most(self.topic, most))
        return QueueRead(_with_ends(list(batch), batch.next_offset), batch.next_offset)

    def at_time(self, queue_id: int, ms: int) -> int:
        return self.view.offset_at_time(self.topic, queue_id, ms)

    def arrivals(self) -> int:
        if time.monotonic() >= self._next_look:
            self.view.refresh()
            self._bounds = None
            self._looks, self._next_look = self._looks + 1, time.monotonic() + VIEW_POLL_S
        return self._looks

    def wait(self, seen: int, seconds: float) -> None:
        time.sleep(min(seconds, VIEW_POLL_S))

    def committed(self, group: str, queue_id: int) -> int | None:
        broker = self.view.broker
        if group.startswith(LMQ_PREFIX):
            return broker.lmq_offsets.get((self.topic, group))
        return broker.consumer_offsets.get((self.topic, group), {}).get(queue_id)

    def note(self, group: str, offsets: Mapping[int, int]) -> None:
        raise UsageError(
            f"{self.view.root}: group {group[:100]!a} cannot commit, the store is open for reading only; "
            "open it with flintmq.MessageStore, in the process that writes it"
        )

    def save(self) -> None:
        """Do nothing: no offset is ever noted."""

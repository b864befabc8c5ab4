"""Source of a consumer: one topic of a read-only view, without commits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from flintmq.errors import UsageError
from flintmq.message import StoredMessage
from flintmq.store.consumer.source import VIEW_POLL_S, QueueRead, _beyond, _expired, _most
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import is_path
from flintmq.store.reentry import refuse_handler

if TYPE_CHECKING:
    from flintmq.store.read.queue_lookup import QueueLookup
    from flintmq.store.view import StoreView


MOST_BYTES = 1 << 20  # of one read, about
LOOK_SHARE = 9  # a refresh of the view takes at most a tenth of the time, unless the pause would be too long
LONGEST_PAUSE_S = 2.0  # until the next refresh: this one may have taken an hour because the process was stopped


class _Seen(NamedTuple):
    """The topic's queues by one lookup of the view."""

    lookup: QueueLookup | None
    bounds: dict[int, tuple[int, int]]
    queues: frozenset[int]


class ViewSource:
    """One topic of a store that is open for reading only."""

    wait_s = VIEW_POLL_S

    def __init__(self, topic: str, view: StoreView) -> None:
        self.root, self.topic, self.view = view.root, topic, view
        self._next_look = time.monotonic() + VIEW_POLL_S
        self._seen = _Seen(None, {}, frozenset())
        self._news: set[int] = set()

    def check(self) -> None:
        _ = self.view.live
        refuse_handler(self.root)

    def _now(self) -> _Seen:
        """Return what was seen at the last refresh of the view, which may be the user's."""
        seen, lookup = self._seen, self.view._now
        if seen.lookup is not lookup:
            below, snapshot = os.path.join(self.root, directories.QUEUES), lookup.snapshot
            folder = os.path.join(below, self.topic) if is_path(self.topic) else below
            with snapshot.held(), snapshot.effects.entered(folder, below):  # what thousands of queues share
                found = self.view.queues(self.topic)
            bounds = {info.queue_id: (info.min_offset, info.max_offset) for info in found}
            self._news.update(queue for queue in bounds if bounds[queue] != seen.bounds.get(queue))
            # Together: what another thread saw of an earlier lookup would be replaced at the next call.
            seen = self._seen = _Seen(lookup, bounds, frozenset(bounds))
        return seen

    def queues(self) -> frozenset[int]:
        return self._now().queues

    def topics(self) -> set[str]:
        return {*self.view.topics(), *self.view.configured_topics}

    def bounds(self, queue_id: int) -> tuple[int, int]:
        return self._now().bounds.get(queue_id, (0, 0))

    def read(self, queue_id: int, offset: int, most: int, tags: str | None) -> QueueRead:
        """Read messages of all tags; the consumer selects them."""
        low, high = self.bounds(queue_id)
        if offset < low:
            return _expired(self, queue_id, offset, low)
        if offset > high:
            return _beyond(self, queue_id, offset, high)
        batch = self.view.read(self.topic, queue_id, offset, _most(self.topic, most))
        if batch.bytes > MOST_BYTES and most > 1:
            return self.read(queue_id, offset, most // 2, tags)
        return QueueRead(list(batch), batch.next_offset)

    def at_time(self, queue_id: int, ms: int) -> int:
        return self.view.offset_at_time(self.topic, queue_id, ms)

    def as_read(self, queue_id: int) -> object:
        return self._now()

    def arrivals(self) -> int:
        begin = time.monotonic()
        if begin >= self._next_look:
            self.view.refresh()
            self._now()
            end = time.monotonic()
            # Of thousands of queues a look takes long; most of the time is for reading.
            self._next_look = end + max(VIEW_POLL_S, min(LOOK_SHARE * (end - begin), LONGEST_PAUSE_S))
        return 0  # `wait` looks again after its time

    def news(self) -> set[int]:
        return self._news

    def wait(self, seen: int, seconds: float) -> None:
        time.sleep(min(seconds, VIEW_POLL_S))

    def on_arrival(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Do nothing: who waits looks again after `wait_s`."""
        return lambda: None

    def committed(self, group: str, queue_id: int) -> int | None:
        broker = self.view.broker
        if group.startswith(LMQ_PREFIX):
            return broker.lmq_offsets.get((self.topic, group))
        return broker.consumer_offsets.get((self.topic, group), {}).get(queue_id)

    def note(self, group: str, offsets: Mapping[int, int]) -> None:
        raise UsageError(self._read_only(f"group {group[:100]!a} cannot commit"))

    def save(self) -> None:
        """Do nothing: no offset is ever noted."""

    def flush(self) -> None:
        """Do nothing: who writes the log makes it durable."""

    def close(self) -> None:
        """Do nothing: what it uses is the view's."""

    def give_back(self, group: str, message: StoredMessage, level: int) -> bool:
        raise UsageError(self._read_only(f"group {group[:100]!a} cannot give messages back"))

    def _read_only(self, refused: str) -> str:
        return (
            f"{self.view.root}: {refused}, the store is open for reading only; "
            "open it with flintmq.MessageStore, in the process that writes it"
        )

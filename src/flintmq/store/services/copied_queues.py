"""Lets a follower do to the queues of its copy what no record asks for.

The log does not tell all of a queue: its kind (topics of type BatchCQ), whether its topic was deleted, and where it
goes on once all its messages have expired are known to the broker alone. A follower that asks it holds the first record
of a topic until the topic's type is known, and brings what the broker said of its queues here.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.queue_ends import QueueEnds
from flintmq.store.services.dispatch_service import DispatchService


class CopiedQueues:
    """The queues of one copy. Thread: any."""

    def __init__(self, queues: ConsumeQueues, dispatch: DispatchService) -> None:
        self._queues, self._dispatch = queues, dispatch

    def hold_unless(self, knows: Callable[[bytes], bool]) -> None:
        """Dispatch no record of a topic, nor what follows it, before its type is known.

        `knows`: returns whether the type of a topic (raw) is known; called by dispatch, again and again.
        """
        self._dispatch.dispatcher.knows = knows

    @property
    def held(self) -> bool:
        """True while dispatch waits for the type of a topic."""
        return self._dispatch.held

    def places(self) -> list[tuple[bytes, int]]:
        return self._queues.places()

    def of_other_kind(self, known: Container[bytes], batch: Container[bytes]) -> set[bytes]:
        """Return the topics with a queue of the kind that they are not, among those that are known."""
        plain = {topic for (topic, _), queue in list(self._queues.plain.items()) if queue is not None}
        other = {topic for (topic, _), queue in list(self._queues.batch.items()) if queue is not None}
        return {topic for topic in plain if topic in batch} | {t for t in other if t in known and t not in batch}

    def agree(self, ends: QueueEnds) -> list[str] | None:
        """Have queues without a record go on where the master's do; see `DispatchService.agree`."""
        return self._dispatch.agree(ends)

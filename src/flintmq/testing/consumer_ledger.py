"""The ledger of messages that consumers received and offsets that they committed.

After any stop these must hold. A group's offset in a queue never goes back before one that `commit` has returned for,
and is never ahead of the offset it was asked to commit or of the queue's end. Every message below the offset was handed
out. From the offset on a consumer gets every message of the queue, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from flintmq.store.consumer.consumer import Consumer
    from flintmq.store.message_store import MessageStore

GROUP = "G"
Place = tuple[str, int]  # topic, queue id


class Placed(NamedTuple):
    """A record of the log that has a place in a queue.

    Attributes:
        topic, queue_id, queue_offset: the place.
        identity: the message's.
        end: log offset after it.
    """

    topic: str
    queue_id: int
    queue_offset: int
    identity: str
    end: int


@dataclass
class Consumed:
    """The ledger of one group.

    Attributes:
        handed: (place, queue offset, identity) of everything that a poll returned, in any life.
        promised: place -> the largest offset that a waiting `commit` has returned for.
        asked: place -> the largest offset that a commit was ever asked for, before it began.
    """

    handed: set[tuple[Place, int, str]] = field(default_factory=set)
    promised: dict[Place, int] = field(default_factory=dict)
    asked: dict[Place, int] = field(default_factory=dict)

    @property
    def key(self) -> int:
        """A hash that differs if something else is promised or asked."""
        return hash((tuple(self.promised.items()), tuple(self.asked.items()), len(self.handed)))

    def poll(self, consumer: Consumer, most: int) -> list[str]:
        """Poll and record the messages; return violations: each queue must continue in order."""
        before = {queue: consumer.position(queue) for queue in consumer.queues}
        expired, wrong = consumer.expired, []
        for message in consumer.poll(most):
            at = before.get(message.queue_id)
            if message.queue_offset != at and not (consumer.expired > expired and message.queue_offset > (at or 0)):
                wrong.append(f"{consumer.topic}/{message.queue_id}: {message.queue_offset} came where {at} is next")
            before[message.queue_id] = message.queue_offset + 1
            self.handed.add(((consumer.topic, message.queue_id), message.queue_offset, message.keys or ""))
        return wrong

    def commit(self, consumer: Consumer, wait: bool) -> None:
        """Commit a consumer's position.

        Raises:
            FlintError, OSError: as Consumer.commit; then nothing more is promised.
        """
        for queue in consumer.queues:
            place = consumer.topic, queue
            self.asked[place] = max(self.asked.get(place, 0), consumer.position(queue))
        for queue, offset in consumer.commit(wait=wait).items():
            if wait:
                self.promised[consumer.topic, queue] = max(self.promised.get((consumer.topic, queue), 0), offset)


def wrong_offsets(store: MessageStore, placed: Iterable[Placed], consumed: Consumed, expired: int) -> list[str]:
    """List the violations in the group's offsets in a recovered store, a line each.

    Args:
        store: the store.
        placed: every record of its log that has a place in a queue, in order.
        consumed: the ledger of earlier lives.
        expired: log offset below which retention may have deleted files.
    """
    wrong = []
    queues: dict[Place, list[Placed]] = {}
    for r in placed:
        queues.setdefault((r.topic, r.queue_id), []).append(r)
    for place in sorted({*queues, *consumed.asked}):
        records = queues.get(place, [])
        now = store.consumer_offset(GROUP, *place)
        least, most = consumed.promised.get(place), consumed.asked.get(place)
        if least is not None and (now is None or now < least):
            wrong.append(f"{place}: the group is at {now}, though it committed {least}")
        if now is not None and (most is None or now > most):
            wrong.append(f"{place}: the group is at {now}, though it never committed more than {most}")
        if now is not None and records and now > records[-1].queue_offset + 1:
            wrong.append(f"{place}: the group is at {now}, and the queue ends at {records[-1].queue_offset + 1}")
        for r in records:
            unseen = (place, r.queue_offset, r.identity) not in consumed.handed
            if now is not None and r.queue_offset < now and unseen and r.end > expired:
                wrong.append(f"{place}: the group is at {now}, and {r.identity} at {r.queue_offset} never came")
    for topic in sorted({topic for topic, _ in queues}):
        wrong += _not_given(store, topic, {q: found for (name, q), found in queues.items() if name == topic})
    return wrong


def _not_given(store: MessageStore, topic: str, queues: dict[int, list[Placed]]) -> list[str]:
    """List queues whose consumer does not get all after the group's offset, in order."""
    given: dict[int, list[tuple[int, str]]] = {queue: [] for queue in queues}
    with store.consumer(GROUP, topic) as consumer:
        while messages := consumer.poll():
            for message in messages:
                given.setdefault(message.queue_id, []).append((message.queue_offset, message.keys or ""))
    wrong = []
    for queue, records in queues.items():
        begin = store.consumer_offset(GROUP, topic, queue) or 0
        wanted = [(r.queue_offset, r.identity) for r in records if r.queue_offset >= begin]
        if given[queue] != wanted:
            wrong.append(f"{topic}/{queue}: a consumer at {begin} got {given[queue][:3]}... and not {wanted[:3]}...")
    return wrong

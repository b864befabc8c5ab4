"""One topic, and the retries of a group, as one source of a consumer.

A queue of the retries has a negative number, -1 for their queue 0, and so on: to the group they are queues like others,
and offsets by number cannot mix them up with the topic's. Upstream: DefaultMQPushConsumerImpl, which subscribes to the
topic of retries and gives its messages with the topic that they were first in (resetRetryAndNamespace).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flintmq.format import properties
from flintmq.message import StoredMessage
from flintmq.store.consumer.source import QueueRead, TopicSource


def number_of(queue_id: int) -> int:
    """Return the number of a queue of the retries, or the queue id of a number."""
    return -1 - queue_id


class RetriedMessage(StoredMessage):
    """A message that its group gave back, as its consumer gets it again.

    `topic` is the one that it was first in, `queue_id` the negative number of its queue; `reconsume_times` is how often
    it was given back. All else is that of the record in the topic of retries.
    """

    __slots__ = ()

    @property
    def topic(self) -> str:
        """Topic that the message was first in."""
        return self.properties.get(properties.RETRY_TOPIC) or super().topic

    @property
    def queue_id(self) -> int:
        """Negative number of its queue, -1 for queue 0 of the retries."""
        return number_of(super().queue_id)


class TopicWithRetries:
    """A topic, and the topic of a group's retries. See TopicSource."""

    def __init__(self, group: str, own: TopicSource, retries: TopicSource) -> None:
        self.root, self.topic, self.wait_s = own.root, own.topic, own.wait_s
        self.group, self._own, self._retries = group, own, retries
        self._known: tuple[frozenset[int], frozenset[int], frozenset[int]] = (frozenset(),) * 3
        self.check, self.topics, self.arrivals, self.wait = own.check, own.topics, own.arrivals, own.wait
        self.give_back, self.save, self.flush, self.close = own.give_back, own.save, own.flush, own.close

    def _of(self, queue: int) -> tuple[TopicSource, int]:
        return (self._own, queue) if queue >= 0 else (self._retries, number_of(queue))

    def queues(self) -> frozenset[int]:
        own, retries = self._own.queues(), self._retries.queues()
        if self._known[0] is not own or self._known[1] is not retries:
            self._known = own, retries, own | set(map(number_of, retries))
        return self._known[2]

    def bounds(self, queue_id: int) -> tuple[int, int]:
        source, queue = self._of(queue_id)
        return source.bounds(queue)

    def read(self, queue_id: int, offset: int, most: int, tags: str | None) -> QueueRead:
        """Read messages; those of retries whatever their tags are, as upstream.

        A retry of another topic is refused: who was asked for one topic would take it for that, or lose it.
        """
        source, queue = self._of(queue_id)
        if source is self._own:
            return source.read(queue, offset, most, tags)
        got = source.read(queue, offset, most, None)
        messages: list[StoredMessage] = [RetriedMessage(one.raw) for one in got.messages]
        topics = self.topic, source.topic
        for number, one in enumerate(messages):
            if one.topic not in topics:
                said = "" if number else self._foreign(one)
                return got._replace(messages=messages[:number], following=one.queue_offset, refused=said)
        return got._replace(messages=messages)

    def _foreign(self, message: StoredMessage) -> str:
        return (
            f"{self.root}: offset {message.queue_offset} of queue {message.queue_id} is a retry of topic "
            f"{message.topic[:100]!a}, and this consumer of group {self.group[:100]!a} reads {self.topic[:100]!a}: all "
            "consumers of a group must read one topic; seek past it, or close this one and consume "
            f"{self._retries.topic[:110]!a}"
        )

    def at_time(self, queue_id: int, ms: int) -> int:
        source, queue = self._of(queue_id)
        return source.at_time(queue, ms)

    def as_read(self, queue_id: int) -> object:
        source, queue = self._of(queue_id)
        return source.as_read(queue)

    def news(self) -> set[int]:
        news, retried = self._own.news(), self._retries.news()
        for queue in list(retried):
            news.add(number_of(queue))  # before it is taken out, or an interrupt would lose it
            retried.discard(queue)
        return news

    def on_arrival(self, callback: Callable[[], object]) -> Callable[[], None]:
        own, retried = self._own.on_arrival(callback), self._retries.on_arrival(callback)

        def end() -> None:
            own()
            retried()

        return end

    def committed(self, group: str, queue_id: int) -> int | None:
        source, queue = self._of(queue_id)
        return source.committed(group, queue)

    def note(self, group: str, offsets: Mapping[int, int]) -> None:
        for queue_id, offset in offsets.items():
            source, queue = self._of(queue_id)
            source.note(group, {queue: offset})

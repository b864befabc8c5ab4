"""What an open store answers from its files, through a view: by key, by time, all messages."""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.config import StoreConfig
from flintmq.message import StoredMessage
from flintmq.storage.effects import Effects
from flintmq.store.view import StoreView, open_store


class Answers:
    """The part of MessageStore that a view answers."""

    root: str
    config: StoreConfig
    effects: Effects

    def _check_open(self) -> None:
        """Raise UsageError if the store is closed."""
        raise NotImplementedError

    def query(self, topic: str, key: str, begin: int | None = None, end: int | None = None) -> list[StoredMessage]:
        """The newest messages that have a key, at most maxMsgsNumBatch, in the order of the log.

        Raises:
            UsageError: the store is closed.
        """
        self._check_open()
        with self.view() as view:
            return view.query(topic, key, begin, end, self.config.max_msgs_num_batch)

    def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str = "lower") -> int:
        """The offset in a queue that belongs to a store time, as RocketMQ tells it.

        Args:
            topic, queue_id: which queue.
            ms: Unix milliseconds.
            boundary: "lower": the first message not older; "upper": the last one not younger.

        Raises:
            UsageError: the store is closed.

        Thread: any.
        """
        self._check_open()
        with self.view() as view:
            return view.offset_at_time(topic, queue_id, ms, boundary)

    def view(self) -> StoreView:
        """A read-only view of this store as it is now."""
        self._check_open()
        return open_store(self.root, config=self.config, effects=self.effects)

    def __iter__(self) -> Iterator[StoredMessage]:
        """All messages of the log, in its order."""
        with self.view() as view:
            yield from view.messages()

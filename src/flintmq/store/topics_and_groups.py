"""Defines the methods of MessageStore about topics, consumer groups and their offsets.

Upstream: TopicConfigManager, SubscriptionGroupManager, ConsumerOffsetManager, AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.errors import StoreError, UsageError
from flintmq.store import arguments
from flintmq.store.layout import config_reader
from flintmq.store.services.groups import GroupSettings
from flintmq.store.services.topics import TopicSettings

if TYPE_CHECKING:
    from flintmq.store.assembly import StoreParts
    from flintmq.store.consumer.group import ConsumerGroups


class TopicsAndGroups:
    """A part of MessageStore. Thread: any."""

    root: str
    _parts: StoreParts
    _external: bool
    _groups: ConsumerGroups

    def create_topic(
        self, name: str, queues: int | TopicSettings = 8, queue_type: str = config_reader.SIMPLE_TYPE
    ) -> None:
        """Create a topic, or change its number of queues, or all its settings.

        A put creates its topic too, with defaultTopicQueueNums queues; RocketMQ's consumers see only a topic's queues.
        A put to a queue id that the topic has not, below 1,024, gives it more read and write queues, whatever its
        settings say: a broker looks at `write_queues` and `perm` before it puts.

        Args:
            name: of the topic.
            queues: number of its queues, both read and write, which leaves other settings as they are; or all settings.
            queue_type: "BatchCQ" for a topic whose batches are stored as one record each; it cannot be changed later.
                The attribute queue.type of settings says the same.

        Raises:
            TypeError: an argument of another type.
            UsageError: an illegal topic name, number of queues or setting, another type than the topic has, or the
                store is closed.
            StoreError: the log could not be flushed, now or before; nothing was written.
            OSError: it could not be written; the store keeps trying.

        Thread: any. Durability: on return.
        """
        self._parts.state.check()
        arguments.texts(name=name, queue_type=queue_type)
        if not isinstance(queues, TopicSettings):
            queues = arguments.number("queues", queues)
        self._parts.housekeeping.create(name, queues, queue_type)

    def topic(self, name: str) -> TopicSettings | None:
        """Return the settings of a topic; None if there is no such topic.

        Raises:
            TypeError: a name of another type.
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        arguments.texts(name=name)
        return self._parts.housekeeping.topic(name)

    def topics(self) -> dict[str, TopicSettings]:
        """Return the settings of each topic, by name.

        Those are the ones that were created, and the ones that have a message.

        Raises:
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        return self._parts.housekeeping.all_topics()

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its queues and its offsets in all groups; records stay in the log.

        A topic of that name which is made again, by `create_topic` or by a put, begins at queue offset 0 and never gets
        the old messages. Retry topics of pop consumers of it go too. A topic that does not exist is no error. Messages
        of it that wait for a delay are delivered, and make it again. `query` and log readers find its old records.

        Puts wait meanwhile. A `get` that waits is answered, open consumers of the topic raise UnknownTopicError.

        Args:
            name: of the topic.

        Raises:
            TypeError: a name of another type.
            UsageError: an illegal name, or a topic of RocketMQ's own; the store is a slave or follows a broker, its
                dispatch is left to another process, or it is closed.
            StoreError: the log could not be flushed, now or before.
            OSError: the disk refused. If a part was deleted, the next call or the next start deletes the rest.

        Thread: any. Durability: on return; a kill before that leaves the topic as it was, or the next start deletes it.
        """
        self._check_dispatched("delete_topic")
        arguments.texts(name=name)
        parts = self._parts
        if parts.raw is not None:
            raise UsageError(f"topic {name[:100]!a}: this store is a slave; delete topics at its master")
        for topic in (name, *parts.housekeeping.checked_retry_topics(name)):
            self._groups.end(topic)  # first: none of them may commit an offset of the old messages afterwards
            parts.deletion.delete(topic)
            self._groups.end(topic)

    def create_group(self, name: str, settings: GroupSettings | None = None) -> None:
        """Create a consumer group, or replace its settings.

        The first offset of a group creates it too.

        Args:
            name: of the group.
            settings: None: RocketMQ's defaults.

        Raises:
            TypeError: an argument of another type.
            UsageError: an illegal name or setting; the store follows a broker, or is closed.
            StoreError: the log could not be flushed, now or before; nothing was written.
            OSError: it could not be written; the store keeps trying.

        Thread: any. Durability: on return.
        """
        self._parts.state.check()
        arguments.texts(name=name)
        settings = GroupSettings() if settings is None else settings
        if not isinstance(settings, GroupSettings):
            raise TypeError(f"settings is of type {type(settings).__name__}; give a flintmq.GroupSettings")
        self._parts.housekeeping.create_group(name, settings)

    def group(self, name: str) -> GroupSettings | None:
        """Return the settings of a consumer group; None if there is no such group.

        Raises:
            TypeError: a name of another type.
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        arguments.texts(name=name)
        return self._parts.housekeeping.groups.settings(name)

    def groups(self) -> dict[str, GroupSettings]:
        """Return the settings of each consumer group, by name.

        Raises:
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        return self._parts.housekeeping.groups.all_settings()

    def delete_group(self, name: str, *, clean_offsets: bool = False) -> None:
        """Delete a consumer group; nothing happens if there is none.

        Consumers of it that are open go on; a later commit of one makes the group again, with default settings.

        Args:
            name: of the group.
            clean_offsets: delete its offsets too. Without it a group of this name goes on where this one ended.

        Raises:
            TypeError: an argument of another type.
            UsageError: an illegal name; the store follows a broker, or is closed.
            StoreError: the log could not be flushed, now or before; nothing was written.
            OSError: it could not be written; the store keeps trying.

        Thread: any. Durability: on return.
        """
        arguments.flags(clean_offsets=clean_offsets)
        self._parts.state.check()
        arguments.texts(name=name)
        self._parts.housekeeping.delete_group(name, clean_offsets)

    def group_offsets(self, name: str) -> dict[tuple[str, int], int]:
        """Return the offsets of a consumer group.

        Those are (topic, queue id) -> the next offset that it wants.

        Raises:
            TypeError: a name of another type.
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        arguments.texts(name=name)
        return self._parts.housekeeping.offsets.of_group(name)

    def all_offsets(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return the offsets of all consumer groups.

        Those are (topic, group) -> queue id -> the next offset that it wants.

        Raises:
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        return self._parts.housekeeping.offsets.of_all()

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the offset of the next message that a consumer group wants of a queue.

        Raises:
            TypeError: an argument of another type.
            UsageError: a name or number that cannot be stored, or the store is closed.
            StoreError: the disk refused before, so it will not be written.

        Thread: any. Durability: written every flushConsumerOffsetInterval (5 s) and by `close`.
        """
        self._parts.state.check()
        if not type(group) is type(topic) is str or not type(queue_id) is type(offset) is int:
            arguments.texts(group=group, topic=topic)
            queue_id, offset = arguments.numbers(queue_id=queue_id, offset=offset)
        self._check_disk()
        self._parts.housekeeping.offsets.commit(group, topic, queue_id, offset)

    def consumer_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset that a consumer group wants of a queue; None if it has none.

        Raises:
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        arguments.texts(group=group, topic=topic)
        return self._parts.housekeeping.offsets.get(group, topic, arguments.number("queue_id", queue_id))

    def _check_disk(self) -> None:
        """Raise StoreError if the disk refused."""
        if self._parts.failure:
            raise StoreError(
                f"{self.root}: {self._parts.failure.reason}; restart the store, which recovers the messages on disk"
            )

    def _check_dispatched(self, method: str) -> None:
        """Raise UsageError if the store is closed, or has no queues of its own."""
        self._parts.state.check()
        if self._external:
            raise UsageError(f'{self.root}: {method} needs queues, which dispatch="external" leaves out; use view()')

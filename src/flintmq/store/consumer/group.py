"""The consumers of one group on one topic in one process: their queues and positions.

As in RocketMQ, a queue belongs to one consumer of a group at a time, so that its messages are delivered in order.
RocketMQ divides queues by position in a list; here a consumer keeps its queues as far as the division stays even,
because each queue that moves causes duplicate deliveries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from flintmq.errors import UnknownTopicError, UsageError
from flintmq.message import StoredMessage
from flintmq.storage.threads.mutex import Lock
from flintmq.store.consumer.source import TopicSource


@dataclass(slots=True)
class MessageRun:
    """Messages of a queue in a row, and the queue offsets [begin, following) that they cover.

    There is none where no message of the range is wanted.

    Attributes:
        as_read: what the source said before they were read. They stand while it says the same.
    """

    queue_id: int
    begin: int
    following: int
    messages: list[StoredMessage]
    as_read: object

    def take(self, most: int) -> MessageRun:
        """Take the first messages out, with their offsets."""
        first = MessageRun(self.queue_id, self.begin, self.following, self.messages[:most], self.as_read)
        del self.messages[:most]
        if self.messages:
            first.following = self.messages[0].queue_offset
        self.begin = first.following
        return first


@dataclass(eq=False)
class GroupMember:
    """One consumer of a group.

    Attributes:
        queues: its queues, in order.
        fresh: those of them that may have messages after their position, next in turn first, with what was read ahead.
            That counts if it begins at the position. Whoever moves a position back adds the queue before.
        size: bytes of the message that was read last; 0 before the first.
    """

    wanted: frozenset[int] | None  # queues assigned to it explicitly; None: it shares the queues that are not assigned
    tags: frozenset[str] | None
    expired: int = 0  # number of messages that expired before they were consumed
    queues: list[int] = field(default_factory=list)
    fresh: OrderedDict[int, MessageRun | None] = field(default_factory=OrderedDict)
    size: int = 0


@dataclass
class ConsumerGroup:
    """One group on one topic.

    Attributes:
        positions: queue -> the offset of the next message to hand out; only while it has an owner.
        begins: queue -> where to begin if the group never committed an offset there.
        deleted: the topic, of those that it reads, that was deleted: its offsets are those of another one from now on.
    """

    name: str
    source: TopicSource
    reads: frozenset[str]  # its topics
    lock: Lock = field(default_factory=Lock)  # held for all access to the attributes below
    members: list[GroupMember] = field(default_factory=list)
    owners: dict[int, GroupMember] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    leaving: list[GroupMember] = field(default_factory=list)  # consumers that left while the lock was not available
    deleted: str = ""
    _divided: frozenset[int] | None = None  # the queues of the last division

    def join(self, member: GroupMember, latest: bool) -> None:
        """Add a consumer. With `latest`, a group without commits begins after existing messages.

        Raises:
            UsageError: it wants queues that are assigned to another consumer, or other tags than the group's.
        """
        self._let_leave()
        for other in self.members:
            twice = (other.wanted or frozenset()) & (member.wanted or frozenset())
            if twice:
                raise UsageError(
                    f"group {self.name[:100]!a}: queues {sorted(twice)} belong to another of its consumers"
                )
            if other.tags != member.tags:
                asked = "all tags" if other.tags is None else "tags " + " || ".join(sorted(other.tags))
                raise UsageError(
                    f"group {self.name[:100]!a} consumes {asked[:200]!a} already; a group has one subscription, "
                    "so give the same tags or another group"
                )
        assert all(member is not one for one in self.members)
        queues = self.source.queues()
        if latest and all(self.source.committed(self.name, queue) is None for queue in queues):
            ends = {queue: self.source.bounds(queue)[1] for queue in queues if queue >= 0}  # retries are old messages
            self.begins = ends | self.begins
        self.members.append(member)
        self._divided = None

    def check(self) -> None:
        """Raise UnknownTopicError if a topic of it was deleted."""
        if self.deleted:
            raise UnknownTopicError(f"topic {self.deleted[:100]!a} was deleted; create another consumer")

    def leave(self, member: GroupMember) -> None:
        """Remove a consumer; others get its uncommitted messages again."""
        if member in self.members:
            self._divided = None  # first: an interrupt must not leave its queues to nobody
            self.members.remove(member)
            for queue in [queue for queue, owner in self.owners.items() if owner is member]:
                del self.owners[queue]
                self.positions.pop(queue, None)
            member.queues, member.fresh = [], OrderedDict()

    def has_members(self) -> bool:
        """Return whether there is a consumer. Thread: one that does not hold the lock."""
        with self.lock:
            self._let_leave()
            return bool(self.members)

    def _let_leave(self) -> None:
        while self.leaving:
            self.leave(self.leaving.pop())

    def queues_of(self, member: GroupMember) -> list[int]:
        """Return the queues of a consumer in order, divided again if a queue or consumer changed."""
        self._let_leave()
        queues = self.source.queues()
        if queues is not self._divided:
            if queues != self._divided:
                self._divide(queues)
                for one in self.members:  # all of them may have messages, until they were read
                    one.queues = sorted(queue for queue, owner in self.owners.items() if owner is one)
                    one.fresh = OrderedDict.fromkeys(one.queues)
            self._divided = queues  # last: after an interrupt all of it is done again
        return member.queues

    def fresh_of(self, member: GroupMember) -> OrderedDict[int, MessageRun | None]:
        """Return a consumer's `fresh`, with the queues that have news since."""
        self.queues_of(member)
        news = self.source.news()
        for queue in list(news):
            owner = self.owners.get(queue)
            if owner is not None:
                owner.fresh.setdefault(queue)
            # Noted before it is taken out, or an interrupt between the two would lose it; and taken out before the
            # queue is read, or what comes meanwhile would be lost.
            news.discard(queue)
        return member.fresh

    def move(self, queue: int, position: int) -> None:
        """Continue a queue at another offset than the one after what was handed out."""
        self.owners[queue].fresh.setdefault(queue)
        self.positions[queue] = position

    def _divide(self, queues: Iterable[int]) -> None:
        free = []
        for queue in sorted(queues):
            given = next((m for m in self.members if m.wanted is not None and queue in m.wanted), None)
            if given is None:
                free.append(queue)
            else:
                self._give(queue, given)
        sharing = [m for m in self.members if m.wanted is None]
        if not sharing:
            return
        held = {id(m): [queue for queue in free if self.owners.get(queue) is m] for m in sharing}

        def count(member: GroupMember) -> int:
            return len(held[id(member)])

        for queue in free:
            if not any(self.owners.get(queue) is m for m in sharing):
                poorest = min(sharing, key=count)
                held[id(poorest)].append(queue)
                self._give(queue, poorest)
        while count(rich := max(sharing, key=count)) - count(poor := min(sharing, key=count)) > 1:
            queue = held[id(rich)].pop()
            held[id(poor)].append(queue)
            self._give(queue, poor)
        assert self.owners.keys() >= {*free}  # a queue without an owner would be read by nobody

    def _give(self, queue: int, member: GroupMember) -> None:
        assert any(member is one for one in self.members)  # nobody would poll the queue
        if self.owners.get(queue) is not member:
            self.owners[queue] = member
            self.positions.pop(queue, None)

    def position(self, queue: int) -> int:
        """Return the offset of the next message to hand out of a queue."""
        if queue not in self.positions:
            self.positions[queue] = self.begin(queue)
        return self.positions[queue]

    def begin(self, queue: int) -> int:
        """Return the offset after a restart: the committed one, else where the group began."""
        committed = self.source.committed(self.name, queue)
        if committed is not None:
            return committed
        return self.begins[queue] if queue in self.begins else self.source.bounds(queue)[0]


class ConsumerGroups:
    """The groups of one store in this process.

    Attributes:
        lock: held while a consumer joins.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self._groups: dict[tuple[str, str], dict[str, ConsumerGroup]] = {}  # name and member -> topic -> group

    def of(self, name: str, source: TopicSource, reads: frozenset[str], member: str = "") -> ConsumerGroup:
        """Return the group of this name on the source's topic. The lock is held.

        `member`: the only one of its group here, by the file of its offsets, which nobody else has at that time.

        Raises:
            UsageError: other consumers of the group read one of its topics in another way.
        """
        topics = self._groups.setdefault((name, member), {})
        found = None if member else topics.get(source.topic)
        if found is None or (found.reads != reads and not found.has_members()):
            found = topics[source.topic] = ConsumerGroup(name, source, reads)
        for other in topics.values():
            if other.reads != reads and other.reads & reads and other.has_members():
                raise UsageError(
                    f"group {name[:100]!a} reads {_listed(other.reads)} already; its consumers cannot read "
                    f"{_listed(reads)} beside, since a group has one subscription: give the same, or another group"
                )
        return found

    def end(self, topic: str) -> None:
        """Have the consumers of a topic that is deleted raise UnknownTopicError from now on."""
        with self.lock:
            self._end(topic)

    def _end(self, topic: str) -> None:
        """Take the groups of a topic out. The lock is held."""
        for groups in self._groups.values():
            for name, group in list(groups.items()):
                if topic in group.reads:
                    with group.lock:
                        group.deleted = topic
                    del groups[name]


def _listed(topics: Iterable[str]) -> str:
    return " and ".join(f"{topic[:110]!a}" for topic in sorted(topics))

"""A queue for an embedded user: `store.consumer("group", "topic")`. Source: upstream DefaultLitePullConsumer, whose
names and meanings are kept; store format 11.2 for what is stored.

Each message comes at least once. What was handed out and not committed is in flight: it comes again after a crash,
after a close, and when its queue goes to another consumer of the group.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, NamedTuple, Self

from flintmq.errors import UsageError
from flintmq.message import StoredMessage
from flintmq.store import arguments
from flintmq.store.consumer.group import ConsumerGroup, GroupMember
from flintmq.store.consumer.source import WAIT_S, TopicSource
from flintmq.store.reentry import reentered
from flintmq.store.services.consumer_offsets import check_names

AT_ONCE = 32  # messages that a poll gives, and iteration reads, unless told otherwise
STARTS = ("earliest", "latest")
Start = Literal["earliest", "latest"]


class _Entry(NamedTuple):
    """What was read of a queue: a message, or None where only messages stand that are not wanted."""

    queue_id: int
    begin: int
    following: int
    message: StoredMessage | None


class Consumer:
    """One consumer of a group on a topic. Make it with `store.consumer`; close it, or use it in a `with` block.

    Raises (every method): UsageError if the consumer or the store is closed.

    Thread: any; one poll at a time sees each message. Consumers of one group share a lock, not while they wait.
    Durability: what `commit` has returned for survives kill -9 and power loss.
    """

    def __init__(
        self, group: ConsumerGroup, topic: str, member: GroupMember, latest: bool, idle_ms: int | None
    ) -> None:
        """Use `store.consumer`."""
        self.group, self.topic, self.idle_ms = group.name, topic, idle_ms
        self._group, self._member, self._source = group, member, group.source
        self.root = self._source.root
        self._closed, self._pid = False, os.getpid()
        with group.lock:
            group.join(member, latest)

    def __enter__(self) -> Self:
        """The consumer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; nothing is committed."""
        self.close()

    def close(self) -> None:
        """Leave the group. Nothing is committed: what is in flight comes again. May be called again.

        A child made by fork may call it, and so may a signal handler, amid any call of this consumer.
        """
        self._closed = True
        if os.getpid() != self._pid:
            return
        if reentered(self.root):  # this thread may have the lock
            self._group.leaving.append(self._member)
            return
        with self._group.lock:
            self._group.leave(self._member)

    # -- messages ---------------------------------------------------------------------------------------------------

    def poll(self, max_messages: int = AT_ONCE, wait_ms: int = 0) -> list[StoredMessage]:
        """The next messages of all queues of this consumer: in order within a queue, no queue before the others.

        Args:
            max_messages: at most so many.
            wait_ms: if there are none, wait so long for the first.

        Returns:
            An empty list only if every queue was read to its end, and `wait_ms` is over.

        Raises:
            UsageError: less than one message, a negative time.
        """
        arguments.numbers(max_messages=max_messages, wait_ms=wait_ms)
        if max_messages < 1 or wait_ms < 0:
            raise UsageError(f"poll({max_messages}, {wait_ms}): ask for a message or more, and wait for 0 ms or more")
        taken: list[_Entry] = []
        try:
            self._wait_for(max_messages, wait_ms, taken)
            return [entry.message for entry in taken if entry.message is not None]
        except BaseException:  # SIGINT: the caller has none of them, and its next commit must not cover them
            self._give_back(taken)
            raise

    def __iter__(self) -> Iterator[StoredMessage]:
        """Messages as they come, for ever, or until none came for `idle_ms`. Ends if consumer or store is closed;
        raises UsageError in a fork's child.

        `commit` within the loop covers the message that the loop is at.
        """
        while True:
            try:
                entries = self._wait_for(AT_ONCE, self.idle_ms, None)
            except UsageError:
                self._check_caller()
                return
            if not entries:
                return
            for entry in entries:
                if self._group.lock.locked():  # perhaps by this thread, below; or since before a fork, for ever
                    self._check_caller()
                with self._group.lock:
                    mine = self._hand_out(entry)
                if mine and entry.message is not None:
                    yield entry.message

    def _wait_for(self, most: int, wait_ms: int | None, taken: list[_Entry] | None) -> list[_Entry]:
        """Read until there is a message, and hand it out into `taken` if that is given; empty if none came in time."""
        limit = None if wait_ms is None else time.monotonic() + wait_ms / 1000
        while True:
            self._check()
            seen = self._source.arrivals()
            with self._group.lock:
                entries = self._read(most)
                found = any(entry.message is not None for entry in entries)
                if taken is not None and found:
                    taken += entries  # before they are handed out: so that they can be given back
                if taken is not None or not found:
                    for entry in entries:
                        self._hand_out(entry)
            if found:
                return entries
            left = WAIT_S if limit is None else limit - time.monotonic()
            if not entries and left <= 0:
                return []
            if not entries:
                self._source.wait(seen, left)

    def _read(self, most: int) -> list[_Entry]:
        """Read what comes next: each queue its part, then more of those that have more. The lock is held."""
        group, member = self._group, self._member
        queues = group.queues_of(member)
        first = next((n for n, queue in enumerate(queues) if queue > member.turn), 0)
        queues = queues[first:] + queues[:first]
        member.turn = queues[0] if queues else -1
        at = {queue: group.position(queue) for queue in queues}
        entries: list[_Entry] = []
        part, count, before = -(-most // max(len(queues), 1)), 0, -1
        while before < count < most:
            before = count
            for queue in queues:
                if count < most:
                    found = self._read_queue(queue, at[queue], min(part, most - count))
                    entries += found
                    at[queue] = found[-1].following if found else at[queue]
                    count += sum(entry.message is not None for entry in found)
            part = most
        return entries

    def _read_queue(self, queue: int, offset: int, most: int) -> list[_Entry]:
        tags = self._member.tags
        taken = self._source.read(queue, offset, most, None if tags is None else " || ".join(sorted(tags)))
        self._member.expired += taken.expired
        entries, begin = [], offset
        for message, following in taken.messages:  # hashes of different tags may be equal
            wanted = tags is None or message.tags in tags
            entries.append(_Entry(queue, begin, following, message if wanted else None))
            begin = following
        if begin != taken.following:
            entries.append(_Entry(queue, begin, taken.following, None))
        return entries

    def _hand_out(self, entry: _Entry) -> bool:
        """Whether this is the next of its queue still: no seek and no other poll came between. The lock is held."""
        group = self._group
        next_one = group.owners.get(entry.queue_id) is self._member and group.position(entry.queue_id) == entry.begin
        if next_one:
            group.positions[entry.queue_id] = entry.following
        return next_one

    def _give_back(self, taken: list[_Entry]) -> None:
        """What was handed out comes again, unless somebody went on behind it."""
        if not taken:
            return
        with self._group.lock:
            for entry in reversed(taken):
                mine = self._group.owners.get(entry.queue_id) is self._member
                if mine and self._group.positions.get(entry.queue_id) == entry.following:
                    self._group.positions[entry.queue_id] = entry.begin

    # -- offsets ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[int, int] | None = None, *, wait: bool = True) -> dict[int, int]:
        """Say that everything handed out so far is done with, and will not be wanted again.

        Args:
            offsets: queue -> offset of the next message wanted, of this consumer's queues; None: its positions.
            wait: return once it is on disk. Without, it is written with the next commit that waits, every
                flushConsumerOffsetInterval (5 s) and when the store is closed, as RocketMQ's brokers do.

        Returns:
            What was committed, queue -> offset.

        Raises:
            UsageError: a queue of another, an offset that the queue does not have; the store is open for reading only.
            StoreError: the log could not be flushed, so that offsets may not be written either.
            OSError: the disk refused; the store goes on trying.

        Durability: on return, with `wait`: the log first, then config/consumerOffset.json, replaced as a whole.
        """
        self._check()
        with self._group.lock:
            mine = self._group.queues_of(self._member)
            if offsets is None:
                done = {queue: self._group.positions[queue] for queue in mine if queue in self._group.positions}
            else:
                done = dict(offsets)
                for queue, offset in done.items():
                    arguments.numbers(queue_id=queue, offset=offset)
                for queue, offset in done.items():
                    self._check_offset(queue, offset)
            self._source.note(
                self.group, {q: at for q, at in done.items() if self._source.committed(self.group, q) != at}
            )
        if wait:
            self._source.save()
        return done

    def seek(self, queue_id: int, where: int | Start | datetime) -> None:
        """Go on elsewhere in a queue of this consumer. Nothing is committed by it.

        Args:
            queue_id: which queue.
            where: a queue offset; "earliest" or "latest"; or a time (UTC where it has no zone): the first message
                stored then or later.

        Raises:
            UsageError: a queue of another, or an offset that the queue does not have.
        """
        self._check()
        arguments.numbers(queue_id=queue_id)
        if not isinstance(where, (str, datetime)):
            arguments.numbers(where=where)
        if isinstance(where, datetime):
            where = self._source.at_time(queue_id, _ms(where))
        with self._group.lock:
            low, high = self._source.bounds(queue_id)
            if isinstance(where, str):
                where = {"earliest": low, "latest": high}[check_start(where)]
            self._check_offset(queue_id, where)
            self._group.positions[queue_id] = where

    def seek_to_earliest(self) -> None:
        """Go on with the first message of each queue."""
        for queue_id in self.queues:
            self.seek(queue_id, "earliest")

    def seek_to_latest(self) -> None:
        """Go on with what comes from now on."""
        for queue_id in self.queues:
            self.seek(queue_id, "latest")

    def seek_to_time(self, when: datetime | int) -> None:
        """Go on, in each queue, with the first message stored at a time or later; an int is ms since 1970."""
        if not isinstance(when, datetime):
            arguments.numbers(when=when)
        for queue_id in self.queues:
            self.seek(queue_id, self._source.at_time(queue_id, when if isinstance(when, int) else _ms(when)))

    @property
    def queues(self) -> list[int]:
        """The queues that are this consumer's now; they change with queues and consumers that come and go."""
        self._check()
        with self._group.lock:
            return self._group.queues_of(self._member)

    @property
    def expired(self) -> int:
        """How many messages had left the store, by its retention, before this consumer got them."""
        return self._member.expired

    def position(self, queue_id: int) -> int:
        """The offset of the next message that this consumer hands out of a queue.

        Raises:
            UsageError: the queue is not this consumer's.
        """
        self._check()
        arguments.numbers(queue_id=queue_id)
        with self._group.lock:
            self._check_mine(queue_id)
            return self._group.position(queue_id)

    def committed(self, queue_id: int) -> int | None:
        """The offset of the next message that the group wants of a queue after a restart; None if it has none."""
        self._check()
        arguments.numbers(queue_id=queue_id)
        return self._source.committed(self.group, queue_id)

    def lag(self) -> dict[int, int]:
        """Messages of each queue of this consumer that are not committed, those in flight among them.

        `sum(consumer.lag().values())` is how far the consumer is behind. Messages with other tags count, as in
        RocketMQ's consumerProgress.
        """
        self._check()
        with self._group.lock:
            behind = {}
            for queue in self._group.queues_of(self._member):
                low, high = self._source.bounds(queue)
                behind[queue] = max(0, high - max(self._group.begin(queue), low))
            return behind

    def in_flight(self) -> dict[int, int]:
        """Offsets of each queue of this consumer that were handed out and are not committed."""
        self._check()
        with self._group.lock:
            group = self._group
            return {q: max(0, group.position(q) - group.begin(q)) for q in group.queues_of(self._member)}

    # -- what may not be --------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._closed:
            raise UsageError(f"this consumer of group {self.group[:100]!a} is closed; make another")
        self._source.check()

    def _check_caller(self) -> None:
        """Raise UsageError in a fork's child, and in a signal handler amid another call."""
        if os.getpid() != self._pid or reentered(self.root):
            self._source.check()

    def _check_mine(self, queue_id: int) -> None:
        mine = self._group.queues_of(self._member)
        if queue_id not in mine:
            raise UsageError(f"{self.topic[:100]!a}/{queue_id} is not this consumer's; its queues are {mine[:20]}")

    def _check_offset(self, queue_id: int, offset: int) -> None:
        self._check_mine(queue_id)
        low, high = self._source.bounds(queue_id)
        if not low <= offset <= high:
            raise UsageError(f"{self.topic[:100]!a}/{queue_id}: offset {offset}; the queue has {low} to {high}")


def check_start(start: str) -> str:
    """A word for where to begin.

    Raises:
        UsageError: it is none.
    """
    if start not in STARTS:
        raise UsageError(f"{start!r} is not one of: {', '.join(STARTS)}")
    return start


def new_consumer(
    groups: dict[tuple[str, str], ConsumerGroup],
    source: TopicSource,
    group: str,
    topic: str,
    queues: Iterable[int] | None,
    tags: str | None,
    start: str,
    idle_ms: int | None,
) -> Consumer:
    """A consumer; its group is taken from `groups`, or put there. See `Consuming.consumer`."""
    check_names(group, topic)
    wanted = None if queues is None else frozenset(queues)
    if wanted is not None and (not wanted or min(wanted) < 0):
        raise UsageError(f"queues={sorted(wanted)}: give queue numbers, or None for all")
    if idle_ms is not None and idle_ms < 0:
        raise UsageError(f"idle_ms={idle_ms} is negative; give None to wait for ever")
    names = {name.strip() for name in (tags or "*").split("||")} - {""}
    member = GroupMember(wanted, None if not names or "*" in names else frozenset(names))
    shared = groups.setdefault((group, topic), ConsumerGroup(group, source))
    return Consumer(shared, topic, member, check_start(start) == "latest", idle_ms)


def _ms(when: datetime) -> int:
    return int((when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() * 1000)

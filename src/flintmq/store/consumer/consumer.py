"""A consumer of a topic: `store.consumer("group", "topic")`.

Each message is delivered at least once. Messages that were handed out and not committed are in flight: they are
delivered again after a crash, after a close, and when their queue moves to another consumer of the group. Names and
meanings are those of upstream's DefaultLitePullConsumer; stored offsets are described in
docs/internals/format/config.md.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, Self

from flintmq.config.text import short, tag_names
from flintmq.errors import UnknownTopicError, UsageError
from flintmq.format.group_topics import OF_GROUPS
from flintmq.format.text import java_decode
from flintmq.message import StoredMessage
from flintmq.store import arguments
from flintmq.store.consumer.async_messages import messages_of
from flintmq.store.consumer.broadcast import BroadcastSource
from flintmq.store.consumer.group import ConsumerGroup, ConsumerGroups, GroupMember, MessageRun
from flintmq.store.consumer.retried import TopicWithRetries
from flintmq.store.consumer.source import WAIT_S, TopicSource
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.read.known_topics import no_topic
from flintmq.store.reentry import reentered
from flintmq.store.services.consumer_offsets import check_names

log = logging.getLogger("flintmq.consumer")

AT_ONCE = 32  # messages that a poll returns, and iteration reads, by default
MESSAGES_AHEAD = 256  # of one queue that are read at once, for later polls
BYTES_AHEAD = 8 << 20  # of all queues of a consumer, by the size of the last message of each
STARTS = ("earliest", "latest")
Start = Literal["earliest", "latest"]


class Consumer:
    """One consumer of a group on a topic.

    Make it with `store.consumer`; close it, or use it in a `with` block.

    Raises (every method): UsageError if the consumer or the store is closed.

    Thread: any; one poll at a time sees each message. Consumers of one group share a lock, not while they wait.
    Durability: offsets for which `commit` has returned survive kill -9 and power loss.
    """

    def __init__(
        self, group: ConsumerGroup, topic: str, member: GroupMember, latest: bool, idle_ms: int | None
    ) -> None:
        """Use `store.consumer`."""
        self.group, self.topic, self.idle_ms = group.name, topic, idle_ms
        self._group, self._member, self._source = group, member, group.source
        self.root = self._source.root
        self._closed, self._pid, self._is_told = False, os.getpid(), False
        with group.lock:
            group.join(member, latest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the consumer; nothing is committed."""
        self.close()

    def close(self) -> None:
        """Leave the group without a commit: messages in flight are delivered again.

        A broadcast consumer first writes what `commit(wait=False)` noted, and lets another one have its file; it raises
        what `commit` raises.

        May be called again, by a forked child, and by a signal handler during any call of this consumer.
        """

        self._closed = True
        if os.getpid() != self._pid:
            return
        if reentered(self.root):  # this thread may hold the lock
            self._group.leaving.append(self._member)
            return
        with self._group.lock:
            self._group.leave(self._member)
        self._source.close()

    def __repr__(self) -> str:
        return f"<flintmq.Consumer of {short(self.topic)} in group {short(self.group)}>"

    # -- messages ---------------------------------------------------------------------------------------------------

    def poll(self, max_messages: int = AT_ONCE, wait_ms: int = 0) -> list[StoredMessage]:
        """Return the next messages of this consumer's queues, in order within a queue.

        No queue is preferred.

        Args:
            max_messages: maximum number of messages.
            wait_ms: how long to wait for the first message if there is none.

        Returns:
            An empty list only if every queue was read to its end, and `wait_ms` has passed.

        Raises:
            UsageError: less than one message, a negative time.
        """
        max_messages, wait_ms = arguments.numbers(max_messages=max_messages, wait_ms=wait_ms)
        if max_messages < 1 or wait_ms < 0:
            raise UsageError(f"poll({max_messages}, {wait_ms}): ask for a message or more, and wait for 0 ms or more")
        taken: list[MessageRun] = []
        try:
            self._wait_for(max_messages, wait_ms, taken)
            return [message for run in taken for message in run.messages]
        except BaseException:  # SIGINT: the caller gets none of them, and its next commit must not cover them
            if taken:  # else the lock may be this thread's: an error of a signal handler's poll
                with self._group.lock:
                    self._go_back(taken)
            raise

    def __iter__(self) -> Iterator[StoredMessage]:
        """Iterate over messages for ever, or until none came for `idle_ms`.

        The iteration ends if consumer or store is closed; in a forked child it raises UsageError.

        `commit` within the loop covers the message that the loop is at.
        """
        while True:
            try:
                runs = self._wait_for(AT_ONCE, self.idle_ms, None)
            except UsageError:
                if self._is_open():
                    raise
                return
            if not runs:
                return
            for run in runs:
                while run.begin != run.following:
                    one = run.take(1)
                    if self._group.lock.locked():  # perhaps by this thread, further down the stack; or before a fork
                        self._check_caller()
                    with self._group.lock:
                        mine = self._hand_out(one)
                    if mine and one.messages:
                        yield one.messages[0]

    def __aiter__(self) -> AsyncIterator[StoredMessage]:
        """Iterate as `for` does, while other tasks of the event loop go on.

        A task may be cancelled anywhere: messages that it did not get are given later. `commit` waits for the disk, so
        it is best called by a thread.
        """
        return messages_of(self)

    def _wait_for(self, most: int, wait_ms: int | None, taken: list[MessageRun] | None) -> list[MessageRun]:
        """Read until there is a message and hand it out; empty if none came in time.

        Runs are also added to `taken` if it is given.
        """
        limit = None if wait_ms is None else time.monotonic() + wait_ms / 1000
        while True:
            seen, runs, found = self._look(most, taken)
            if found:
                return runs
            left = WAIT_S if limit is None else limit - time.monotonic()
            if not runs and left <= 0:
                return []
            if not runs:
                self._source.wait(seen, left)

    def _look(self, most: int, taken: list[MessageRun] | None) -> tuple[int, list[MessageRun], bool]:
        """Read once, and hand out what is read if `taken` is given, or if no message is in it.

        Return what `arrivals` was before, the runs, and whether there is a message.
        """
        self._check()
        seen = self._source.arrivals()
        with self._group.lock:
            runs, found = self._read(most)
            if taken is not None and found:
                taken += runs  # before they are handed out, so that they can be returned
            if taken is not None or not found:
                self._hand_out_all(runs)
        if not found:
            self._warn_of_no_topic()
        return seen, runs, found

    def _warn_of_no_topic(self) -> None:
        """Log once that the store has no such topic: an empty answer does not tell a misspelt one."""
        if not self._is_told:
            self._is_told = True
            is_made_later = self.topic.startswith("%")  # %RETRY%, %DLQ%, %LMQ%: others than their consumer make them
            if not self._source.queues() and not is_made_later and self.topic not in (known := self._source.topics()):
                log.warning("%s (it is consumed once it is there)", no_topic(self.root, self.topic, sorted(known)))

    def _read(self, most: int) -> tuple[list[MessageRun], bool]:
        """Read the next messages: a share of each queue with news, then more of long queues.

        Return them, and whether there is one. The lock is held.
        """
        fresh = self._group.fresh_of(self._member)
        first, share = next(iter(fresh), None), -(-most // max(len(fresh), 1))
        at: dict[int, int] = {}
        runs: list[MessageRun] = []
        left, ended = most, 0  # messages; queues in turn that have no more of them
        while left > 0 and ended < len(fresh):
            queue = next(iter(fresh))
            fresh.move_to_end(queue)
            if queue in at:
                run = self._next_run(queue, at[queue], left)
            else:
                run = self._next_run(queue, self._group.position(queue), min(share, left))
            if run.begin != run.following:
                runs.append(run)
                at[queue] = run.following
                left -= len(run.messages)
                ended = 0
            elif queue in at:
                ended += 1
            else:
                del fresh[queue]  # nothing of it is handed out that could be given back
        if fresh and first == (next_one := next(iter(fresh))):
            fresh.move_to_end(next_one)  # each is the first in turn
        return runs, left < most

    def _next_run(self, queue: int, offset: int, most: int) -> MessageRun:
        """Take messages that were read ahead, or read them.

        At the end of the queue a run without offsets.
        """
        as_read, fresh = self._source.as_read(queue), self._member.fresh
        rest, fresh[queue] = fresh[queue], None  # an interrupt below only has it read again
        if rest is None or rest.begin != offset or rest.as_read != as_read or not rest.messages:
            rest = self._read_ahead(queue, offset, most, as_read)
        run, fresh[queue] = rest.take(most), rest
        return run

    def _read_ahead(self, queue: int, offset: int, most: int, as_read: object) -> MessageRun:
        """Read `most` messages of a queue, or more once it is known how large they are."""
        member, tags = self._member, self._member.tags
        if member.size:
            most = max(most, min(MESSAGES_AHEAD, BYTES_AHEAD // len(member.fresh) // member.size))
        taken = self._source.read(queue, offset, most, None if tags is None else " || ".join(sorted(tags)))
        member.expired += taken.expired
        if taken.refused and offset == self._group.position(queue):  # else what comes before it is handed out first
            raise UsageError(taken.refused)
        messages = taken.messages
        if messages:
            member.size = messages[-1].size
        if tags is not None and queue >= 0:  # the hashes of different tags may be equal
            messages = [message for message in messages if message.tags in tags]
        return MessageRun(queue, offset, taken.following, messages, as_read)

    def _hand_out(self, run: MessageRun) -> bool:
        """Hand out a run if it is the next of its queue; return whether it was.

        A seek or another poll may have come between. The lock is held.
        """
        group = self._group
        next_one = group.owners.get(run.queue_id) is self._member and group.position(run.queue_id) == run.begin
        if next_one:
            group.positions[run.queue_id] = run.following
        return next_one

    def _hand_out_all(self, runs: list[MessageRun]) -> None:
        """Hand out runs as `_hand_out` says. The lock is held."""
        for run in runs:
            self._hand_out(run)

    def _go_back(self, taken: list[MessageRun]) -> None:
        """Take back runs so that they are delivered again, unless the position moved on.

        The lock is held.
        """
        for run in reversed(taken):
            mine = self._group.owners.get(run.queue_id) is self._member
            if mine and self._group.positions.get(run.queue_id) == run.following:
                self._group.move(run.queue_id, run.begin)

    # -- messages that fail -----------------------------------------------------------------------------------------

    def retry(self, message: StoredMessage, delay: int | None = None) -> bool:
        """Have a message that could not be processed given again later; then it counts as processed.

        It goes where RocketMQ's clients send it back to: to the topic of the group's retries, which a consumer with
        `retries=True` reads. After the group's retryMaxTimes it becomes a dead letter.

        Args:
            message: a message of this consumer. The next `commit` covers it: a crash before gives it twice.
            delay: a delay level from 1. None: level 3 (10 s) the first time, then a level more each time.

        Returns:
            True: it is given again. False: it is a dead letter.

        Raises:
            TypeError: an argument of another type.
            UsageError: the consumer reads no retries, or the message is not of its topic; a level below 1; the group
                has no queue for retries; the store is open for reading only.
            PutFailedError, PutUnknownError: it is not stored, or may not be; do not commit it.

        Durability: in the log; offsets that are committed later are not on disk before it is.
        """
        level = arguments.given_number("delay", delay)
        if level is not None and level < 1:
            raise UsageError(f"delay={level}: give a delay level from 1, or None")
        self._check()
        if len(self._group.reads) < 2:
            raise UsageError(
                f"this consumer of group {self.group[:100]!a} does not read the group's retries, so nobody would get "
                "the message again; make it with retries=True"
            )
        return self._give_back(message, level or 0)

    def dead(self, message: StoredMessage) -> None:
        """Put a message into the group's dead letters; then it counts as processed.

        Args, Raises, Durability: as `retry`; the consumer need not read retries.
        """
        self._check()
        self._give_back(message, -1)

    def _give_back(self, message: StoredMessage, level: int) -> bool:
        if not isinstance(message, StoredMessage):
            raise TypeError(f"message is of type {type(message).__name__}; give a message that this consumer returned")
        topic = java_decode(message.fields.topic)
        if topic not in self._group.reads:
            raise UsageError(f"a message of topic {topic[:100]!a} is not one of this consumer of {self.topic[:100]!a}")
        return self._source.give_back(self.group, message, level)

    # -- offsets ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[int, int] | None = None, *, wait: bool = True) -> dict[int, int]:
        """Commit the offsets of messages that were processed and are not wanted again.

        Args:
            offsets: queue -> offset of the next message wanted, of this consumer's queues; None: its positions.
            wait: return once the offsets are on disk. Without, they are written with the next commit that waits, every
                flushConsumerOffsetInterval (5 s) and when the store is closed, as RocketMQ's brokers do; those of a
                broadcast consumer with the next commit that waits, and by `close`.

        Returns:
            The committed offsets, queue -> offset.

        Raises:
            TypeError: no mapping of numbers; `wait` is neither True nor False.
            UsageError: a queue of another consumer, an offset that the queue does not have; the store is open for
                reading only, and this is no broadcast consumer.
            StoreError: the log could not be flushed, so that offsets may not be written either.
            OSError: the disk refused; the store keeps trying.

        Durability: on return, with `wait`: the log first, then config/consumerOffset.json, or the file of a broadcast
        consumer, replaced as a whole.
        """
        self._check()
        arguments.flags(wait=wait)
        given = None if offsets is None else _plain(offsets)
        with self._group.lock:
            done = self._positions() if given is None else given
            if given is not None:
                for queue, offset in given.items():
                    self._check_offset(queue, offset)
            self._note(done)
        if wait:
            self._source.save()
        return done

    def _positions(self) -> dict[int, int]:
        """Return the positions of this consumer's queues that have one. The lock is held."""
        positions = self._group.positions
        return {queue: positions[queue] for queue in self._group.queues_of(self._member) if queue in positions}

    def _note(self, offsets: dict[int, int]) -> None:
        """Note the offsets that are not committed yet. The lock is held."""
        self._group.check()  # with the lock: else an offset of the deleted topic could come after its deletion
        source = self._source
        source.note(self.group, {q: at for q, at in offsets.items() if source.committed(self.group, q) != at})

    def seek(self, queue_id: int, where: int | Start | datetime) -> None:
        """Continue at another offset of a queue of this consumer, without a commit.

        Args:
            queue_id: id of the queue.
            where: a queue offset; "earliest" or "latest"; or a time (UTC if it has no zone): the first message stored
                then or later.

        Raises:
            UsageError: a queue of another consumer, or an offset that the queue does not have.
        """
        self._check()
        queue_id = arguments.number("queue_id", queue_id)
        if not isinstance(where, (str, datetime)):
            where = arguments.number("where", where)
        if isinstance(where, datetime):
            where = self._source.at_time(queue_id, _ms(where))
        with self._group.lock:
            low, high = self._source.bounds(queue_id)
            if isinstance(where, str):
                where = {"earliest": low, "latest": high}[check_start(where)]
            self._check_offset(queue_id, where)
            self._group.move(queue_id, where)

    def seek_to_earliest(self) -> None:
        """Continue with the first message of each queue."""
        for queue_id in self.queues:
            self.seek(queue_id, "earliest")

    def seek_to_latest(self) -> None:
        """Continue with messages that are put from now on."""
        for queue_id in self.queues:
            self.seek(queue_id, "latest")

    def seek_to_time(self, when: datetime | int) -> None:
        """Continue with each queue's first message at a time or later; an int is ms since 1970."""
        ms = _ms(when) if isinstance(when, datetime) else arguments.number("when", when)
        for queue_id in self.queues:
            self.seek(queue_id, self._source.at_time(queue_id, ms))

    @property
    def queues(self) -> list[int]:
        """Queues of this consumer now; they change when queues or consumers come and go."""
        self._check()
        with self._group.lock:
            return list(self._group.queues_of(self._member))

    @property
    def expired(self) -> int:
        """Number of messages that retention removed before this consumer got them."""
        return self._member.expired

    def position(self, queue_id: int) -> int:
        """Return the offset of the next message that this consumer hands out of a queue.

        Raises:
            UsageError: the queue is not this consumer's.
        """
        self._check()
        queue_id = arguments.number("queue_id", queue_id)
        with self._group.lock:
            self._check_mine(queue_id)
            return self._group.position(queue_id)

    def committed(self, queue_id: int) -> int | None:
        """Return the offset from which a queue is continued after a restart, or None."""
        self._check()
        return self._source.committed(self.group, arguments.number("queue_id", queue_id))

    def lag(self) -> dict[int, int]:
        """Return the number of uncommitted messages of each queue, those in flight included.

        Their sum is the lag of this consumer. Messages with other tags count, as in
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
        """Return the number of offsets of each queue that are handed out and not committed."""
        self._check()
        with self._group.lock:
            group = self._group
            return {q: max(0, group.position(q) - group.begin(q)) for q in group.queues_of(self._member)}

    # -- what may not be --------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._closed:
            raise UsageError(f"this consumer of group {self.group[:100]!a} is closed; create another")
        self._group.check()
        self._source.check()

    def _is_open(self) -> bool:
        """Return whether consumer and store are open. Raises what `_check_caller` raises."""
        self._check_caller()
        try:
            self._check()
        except UnknownTopicError:  # of a topic that was deleted its user shall know
            return True
        except UsageError:
            return False
        return True

    def _check_caller(self) -> None:
        """Raise UsageError in a forked child, and in a signal handler during another call."""
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
            raise UsageError(
                f"{self.topic[:100]!a}/{queue_id}: offset {offset} is outside the queue, which has {low} to {high}"
            )


def check_start(start: str) -> str:
    """Check a word for where to begin, and return it."""
    if start not in STARTS:
        raise UsageError(f"{start!r} is not one of: {', '.join(STARTS)}")
    return start


def new_consumer(
    groups: ConsumerGroups,
    source: TopicSource,
    group: str,
    topic: str,
    queues: Iterable[int] | None,
    tags: str | None,
    start: str,
    idle_ms: int | None,
    retries: TopicSource | None = None,
    broadcast: str | os.PathLike[str] | None = None,
) -> Consumer:
    """Make a consumer; its group is taken from `groups`, or added. See `MessageStore.consumer`.

    `retries`: the topic of its group's retries, if it reads them.
    """
    member_file = "" if broadcast is None else os.path.abspath(os.fsdecode(broadcast))
    arguments.texts(group=group, topic=topic, start=start)
    arguments.given_text("tags", tags)
    idle_ms = arguments.given_number("idle_ms", idle_ms)
    check_names(group, topic)
    wanted = None if queues is None else frozenset(arguments.number(f"queues[{n}]", q) for n, q in enumerate(queues))
    if wanted is not None and (not wanted or min(wanted) < 0):
        raise UsageError(f"queues={sorted(wanted)}: give queue numbers, or None for all")
    if idle_ms is not None and idle_ms < 0:
        raise UsageError(f"idle_ms={idle_ms} is negative; give None to wait for ever")
    names = {*tag_names(tags or "*")} - {""}
    if not names:  # for `get` that is no tag, for RocketMQ's clients an error
        raise UsageError(f"tags={short(tags)} names no tag; give None for all messages")
    member = GroupMember(wanted, None if "*" in names else frozenset(names))
    latest, reads = check_start(start) == "latest", frozenset([topic])
    if retries is not None:
        _check_retries(topic, wanted, member_file)
        source, reads = TopicWithRetries(group, source, retries), frozenset([topic, retries.topic])
    if member_file:
        source = BroadcastSource(group, source, member_file)
    try:
        with groups.lock:
            return Consumer(groups.of(group, source, reads, member_file), topic, member, latest, idle_ms)
    except BaseException:
        source.close()
        raise


def _check_retries(topic: str, wanted: frozenset[int] | None, member_file: str) -> None:
    if member_file:
        raise UsageError("broadcast and retries=True: a retry would come to every member again; give one of them")
    if topic.startswith((*OF_GROUPS, LMQ_PREFIX)):
        raise UsageError(
            f"{topic[:100]!a} holds messages of other topics, to which a retry would go back; read it without retries"
        )
    if wanted is not None:
        raise UsageError(f"queues={sorted(wanted)} and retries=True: the queues of retries would be nobody's; give one")


def _plain(offsets: Mapping[int, int]) -> dict[int, int]:
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets is of type {type(offsets).__name__}; give a dict of queue to offset")
    return {
        arguments.number("queue_id", queue): arguments.number("offset", offset) for queue, offset in offsets.items()
    }


def _ms(when: datetime) -> int:
    return int((when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() * 1000)

"""The end of a topic: its newest messages, those since a time, and those still to come.

Stored messages are read through the queues, so only messages of the topic are touched; later ones are read from the log
as they arrive. Both come in log order, the second from the end of the first.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack

from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import CorruptStoreError, MessageNotFoundError
from flintmq.message import StoredMessage
from flintmq.store.commitlog.report import Report
from flintmq.store.dispatch.queue_positions import places
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.view import NO_FILES, QueueInfo, StoreView, open_store

AT_ONCE = 256  # messages of a queue that are read at a time
LOOKED_BACK = 100_000  # most messages that `last` reads in all queues together
NAMES_SHOWN = 8
TO_THE_END = 1 << 62  # more offsets than a queue has


def no_such_topic(topics: Collection[str]) -> str:
    names = [short(name)[1:-1] for name in topics]
    more = f", and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"there is no such topic; topics are {', '.join(names[:NAMES_SHOWN]) or 'none'}{more}"


def check_end(view: StoreView) -> None:
    """Check that the log ends where it was written to, for a command that cannot skip damage."""
    try:
        view.check_end()
    except CorruptStoreError as error:
        raise type(error)(error.file, error.position, error.reason, "run `flintmq verify`") from None


def must_have(view: StoreView, topics: Iterable[str]) -> None:
    for topic in topics:
        if topic not in view.configured_topics and not view.queues(topic):
            check_end(view)
            raise MessageNotFoundError(f"topic {short(topic)}: {no_such_topic(view.topics())}")


def one_must_have(stores: Iterable[str], topics: Iterable[str], config: StoreConfig) -> None:
    """Check that each topic that the user named exists in one of the stores."""
    with ExitStack() as opened:
        views = [opened.enter_context(open_store(store, config=config)) for store in stores]
        for topic in topics:
            failures: list[MessageNotFoundError] = []
            for view in views:
                try:
                    must_have(view, [topic])
                    break
                except MessageNotFoundError as error:
                    failures.append(error)
            else:
                if failures:
                    raise failures[0]


def messages_from(
    view: StoreView, topic: str, queue_id: int, offset: int, count: int, report: Report
) -> tuple[list[StoredMessage], int]:
    """Return up to `count` messages of a queue from an offset on, and the offset after them.

    `report` receives the places of those that cannot be read.
    """
    found, at = list[StoredMessage](), offset
    while len(found) < count and (batch := view.read(topic, queue_id, at, count - len(found), report=report)):
        found += batch
        at = batch.next_offset
    return found, at


class TopicTail:
    """Reads the end of one topic.

    Args:
        queues: only these; None for all.
        tags: only messages with one of these; None for all.
        expected: allow a missing topic, because it may be created later.

    Attributes:
        report: the places of records that are damaged or missing and may belong to what was read, each once. Complete
            after `last`, and after the last message of `since`.
    """

    def __init__(
        self,
        view: StoreView,
        topic: str,
        queues: Collection[int] | None = None,
        tags: Collection[str] | None = None,
        *,
        expected: bool = False,
    ) -> None:
        self.view, self.topic, self.numbers, self.tags = view, topic, queues, tags
        self.complete = True  # whether `last` found as many messages as asked for, or read all there are
        self.report = Report()
        self._reported: set[int] = set()  # log offsets of what is in it
        view.read_log_of(topic)
        self.queues = [info for info in view.queues(topic) if queues is None or info.queue_id in queues]
        if not self.queues and not expected:
            check_end(view)
            raise MessageNotFoundError(f"topic {short(topic)}: {self._why_nothing()}")

    def _why_nothing(self) -> str:
        there = [info.queue_id for info in self.view.queues(self.topic)]
        if there:
            return f"none of these queues has a message; its queues are {', '.join(map(str, there[:32]))}"
        return NO_FILES if self.topic in self.view.configured_topics else no_such_topic(self.view.topics())

    def last(self, count: int) -> list[StoredMessage]:
        """Return the newest `count` messages, or fewer if LOOKED_BACK messages do not hold as many."""
        found: list[StoredMessage] = []
        lost = Report()
        budget = LOOKED_BACK // max(len(self.queues), 1)
        for info in self.queues if count else ():
            found += self._last_of(info, count, max(budget, count), lost)
        newest = sorted(found, key=_place)[-count:]
        self._take(lost, newest[0].physical_offset if len(newest) == count and newest else 0, TO_THE_END)
        return newest

    def _last_of(self, info: QueueInfo, count: int, budget: int, lost: Report) -> list[StoredMessage]:
        """Return the newest messages of one queue, searching backwards in growing steps."""
        found: list[StoredMessage] = []
        end, step = info.max_offset, count
        self._read_lost_end(info, lost)
        while end > info.min_offset and len(found) < count:
            if info.max_offset - end >= budget:
                self.complete = False
                break
            begin = max(info.min_offset, end - step)
            found = [*self._read(info, begin, end, lost), *found]
            end, step = begin, min(4 * step, 16 * AT_ONCE)
        return found[-count:]

    def since(self, ms: int, until: int | None = None) -> Iterator[StoredMessage]:
        """Return the messages stored at `ms` (Unix milliseconds) or later, and before `until`."""
        begins = [(info, self.view.offset_at_time(self.topic, info.queue_id, ms)) for info in self.queues]
        return heapq.merge(*(self._since_of(info, begin, until) for info, begin in begins), key=_place)

    def _since_of(self, info: QueueInfo, begin: int, until: int | None) -> Iterator[StoredMessage]:
        lost, late = Report(), TO_THE_END  # log offset of the first message that is too late
        for message in self._read(info, begin, info.max_offset, lost):
            if until is not None and message.store_timestamp >= until:
                late = min(late, message.physical_offset)
            self._take(lost, 0, late)
            if until is None or message.store_timestamp < until:
                yield message
        self._read_lost_end(info, lost)
        self._take(lost, 0, late)

    def _read_lost_end(self, info: QueueInfo, lost: Report) -> None:
        """Report what is lost after a queue's last message that can be read."""
        self.view.read(self.topic, info.queue_id, info.max_offset, TO_THE_END, report=lost)
        hidden = self.view._now.lost_outside(QueueName(self.topic, info.queue_id))
        if hidden is not None:
            lost.damage(hidden)

    def _take(self, lost: Report, begin: int, end: int) -> None:
        """Move into `report` what is lost in [begin, end) of the log."""
        for damage in lost.damages:
            if begin < damage.end and damage.offset < end and damage.offset not in self._reported:
                self._reported.add(damage.offset)
                self.report.damage(damage)
        lost.damages.clear()

    def _read(self, info: QueueInfo, begin: int, end: int, lost: Report) -> Iterator[StoredMessage]:
        while begin < end:
            batch = self.view.read(self.topic, info.queue_id, begin, min(AT_ONCE, end - begin), report=lost)
            if not batch:
                return
            yield from filter(self._has_tag, batch)
            begin = batch.next_offset

    def coming(self, stop: threading.Event, poll_ms: int = 200) -> Iterator[StoredMessage]:
        """Yield the messages stored after the view's end as they arrive, until `stop` is set."""
        for message in self.view.follow(self.view.max_physical_offset, poll_ms, stop):
            if self._is_here(message) and self._has_tag(message):
                yield message

    def _is_here(self, message: StoredMessage) -> bool:
        return any(
            place.topic == self.topic and (self.numbers is None or place.queue_id in self.numbers)
            for place in places(message)
        )

    def _has_tag(self, message: StoredMessage) -> bool:
        return self.tags is None or message.tags in self.tags


def _place(message: StoredMessage) -> int:
    return message.physical_offset

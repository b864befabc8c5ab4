"""The store that a broker writes, as its rooms use it.

What is near the log's end is in memory: such a read, and each put, is one compiled call in the loop. All else goes to
the executor.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from concurrent.futures import Executor
from contextlib import AbstractContextManager, suppress
from typing import Final, TypeVar

from flintmq.broker.broker_keys import BrokerKeys
from flintmq.broker.recent import PutAndGetRates
from flintmq.broker.requests import Refused
from flintmq.broker.served import EVERYTHING, READABLE, TEMPLATE, WRITABLE, Filter, Place, TopicFacts
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import GIVEN_UP_TOPIC, HALF_TOPIC, LEGAL_NAME, OUTCOME_TOPIC, retry_topic
from flintmq.message import RawResult, StoredMessage
from flintmq.remoting.names import GROUP_NOT_EXIST, SYSTEM_ERROR
from flintmq.store.message_store import MessageStore
from flintmq.store.services.topics import TopicSettings
from flintmq.store.view import StoreView

log = logging.getLogger("flintmq.broker")
T = TypeVar("T")

HOT: Final = 64 << 20  # bytes before the log's end that count as in memory
INHERITS: Final = 1  # bit of TEMPLATE's permissions
MESSAGE_TYPE: Final = "message.type"  # attribute of a topic
ONE_QUEUE: Final = TopicSettings(1, 1)
UNMADE: Final = TopicFacts(1, 1, READABLE | WRITABLE)  # of a topic that every broker has, before its first message
NAME_MAX: Final = 127  # letters of a topic
SYSTEM_TOPICS: Final = frozenset({
    SCHEDULE_TOPIC, TEMPLATE, "BenchmarkTest", HALF_TOPIC, "RMQ_SYS_TRACE_TOPIC", OUTCOME_TOPIC, GIVEN_UP_TOPIC,
    "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
})  # fmt: skip


def check_topic(topic: str) -> None:
    """Refuse what RocketMQ lets no topic be named. Upstream: TopicValidator.validateTopic."""
    if not topic.strip():
        raise Refused(SYSTEM_ERROR, "The specified topic is blank.")
    check_letters("topic", topic)
    if len(topic) > NAME_MAX:
        raise Refused(SYSTEM_ERROR, "The specified topic is longer than topic max length.")


def check_letters(what: str, name: str) -> None:
    """Refuse a name with letters that RocketMQ lets no topic and no group have."""
    if not LEGAL_NAME.fullmatch(name):
        raise Refused(
            SYSTEM_ERROR, f"The specified {what} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        )


class ServedStore:
    """A store that is open for writing. Thread: the loop's, but for `run`'s function.

    Args:
        arrived: gets the queues that have new messages.
        own: topics that have a route before anybody made them.
    """

    def __init__(
        self,
        store: MessageStore,
        executor: Executor,
        keys: BrokerKeys,
        arrived: Callable[[Iterable[Place]], None],
        own: Set[str] = frozenset(),
    ) -> None:
        self.store, self.keys, self._executor, self._arrived, self._own = store, keys, executor, arrived, own
        self.root, self.config = store.root, store.config
        self._loop = asyncio.get_running_loop()
        self._news: Counter[Place] = Counter()
        self._came: deque[Place] = deque()
        self._is_waking = False
        self._hot: dict[Place, tuple[int, int]] = {}  # the oldest read that was near the log's end: queue, log offset
        self._rates = PutAndGetRates(store.stats())
        self._ends = {name: self._end_of(name) for name in store.topics()}
        self._grown: set[str] = set()  # topics that may have more than `_ends` says
        store.on_arrival(self._note)

    # -- topics and groups --------------------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicFacts | None:
        if name == TEMPLATE and self.keys.auto_create_topic:  # whatever a message to it made of it
            queues = self.config.default_topic_queue_nums
            return TopicFacts(queues, queues, READABLE | WRITABLE | INHERITS)
        found = self.store.topic(name)
        if found is None:
            return UNMADE if name in self._own else None
        return TopicFacts(found.read_queues, found.write_queues, found.perm)

    def message_type(self, topic: str) -> str:
        """Return what a topic takes, its attribute `message.type`; "" if it says nothing."""
        found = self.store.topic(topic)
        return "" if found is None else found.attributes.get(MESSAGE_TYPE, "")

    def topic_names(self) -> set[str]:
        return {*self.store.topics(), *self._own}

    def knows_group(self, name: str) -> bool:
        return self.store.group(name) is not None

    @property
    def makes_groups(self) -> bool:
        return self.keys.auto_create_group

    async def admit(self, group: str) -> None:
        if not self.knows_group(group):
            if not self.keys.auto_create_group:
                raise Refused(GROUP_NOT_EXIST, f"subscription group [{group}] does not exist")
            await self.make_group(group)

    def group_names(self) -> Collection[str]:
        return self.store.groups()

    def may_consume(self, group: str) -> bool | None:
        found = self.store.group(group)
        return None if found is None else found.consume_enable

    async def make_topic(self, name: str, settings: TopicSettings) -> None:
        """Make a topic if it is not there.

        Raises FlintError, OSError: as `create_topic`.
        """
        if self.store.topic(name) is None:
            await self.run(self.store.create_topic, name, settings)

    async def make_group(self, name: str) -> None:
        """Make a consumer group and its topic of retries, if they are not there."""
        if self.store.group(name) is None:
            await self.run(self.store.create_group, name)
        await self.make_topic(retry_topic(name), ONE_QUEUE)

    @property
    def log_file_size(self) -> int:
        return self.config.mapped_file_size_commit_log

    # -- reads --------------------------------------------------------------------------------------------------------

    @property
    def log_bounds(self) -> tuple[int, int]:
        return self.store.min_physical_offset, self.store.max_physical_offset

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return self.store.bounds(topic, queue_id)

    def ends(self) -> Mapping[str, int]:
        for topic in self._grown:
            self._ends[topic] = self._end_of(topic)
        self._grown.clear()
        return self._ends

    def _end_of(self, topic: str) -> int:
        found = self.store.topic(topic)
        queues = 0 if found is None else max(found.read_queues, found.write_queues)
        return sum(self.store.bounds(topic, queue_id)[1] for queue_id in range(queues))

    def figures(self) -> Mapping[str, str]:
        return self._rates.shown(self.store.stats())

    def reading(self) -> AbstractContextManager[StoreView]:
        return self.store.view()

    def sample(self) -> None:
        """Keep counters for `figures`."""
        self._rates.take(self.store.stats())

    def news(self, place: Place) -> int:
        return self._news[place]

    def read_now(
        self, topic: str, queue_id: int, offset: int, most: int = 1, only: Filter = EVERYTHING, most_bytes: int = 1
    ) -> RawResult | None:
        if not self._is_hot((topic, queue_id), offset):
            return None
        if only.wanted is not None and offset < self.store.bounds(topic, queue_id)[1]:
            return None  # a client's own condition on each message may take long
        return self._get(topic, queue_id, offset, most, only, most_bytes)

    async def read(
        self, topic: str, queue_id: int, offset: int, most: int = 1, only: Filter = EVERYTHING, most_bytes: int = 1
    ) -> RawResult:
        asked = topic, queue_id, offset, most, only, most_bytes
        found = self.read_now(*asked)
        if found is None:
            found = await self.run(self._get, *asked)
            if found.count:
                at = StoredMessage(found.data).physical_offset
                if self.store.max_physical_offset - at <= HOT:
                    self._hot[topic, queue_id] = offset, at
        return found

    def _get(self, topic: str, queue_id: int, offset: int, most: int, only: Filter, most_bytes: int) -> RawResult:
        tags, wanted = only
        return self.store.get_raw(topic, queue_id, offset, most, tags=tags, max_bytes=most_bytes, wanted=wanted)

    def _is_hot(self, place: Place, offset: int) -> bool:
        """Return whether what a queue has from an offset on lies near the log's end, or is nothing."""
        since = self._hot.get(place)
        if since is not None:
            if self.store.max_physical_offset - since[1] > HOT:
                del self._hot[place]
            elif offset >= since[0]:
                return True
        return offset >= self.store.bounds(*place)[1]

    async def query(self, topic: str, key: str, begin: int, end: int, most: int) -> list[StoredMessage]:
        def query() -> list[StoredMessage]:
            with self.reading() as view:
                return list(view.query(topic, key, begin, end, most))

        return await self.run(query)

    async def at(self, physical_offset: int) -> StoredMessage:
        return await self.run(self.store.get_at, physical_offset)

    async def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str) -> int:
        return await self.run(self.store.offset_at_time, topic, queue_id, ms, boundary)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        return await self._loop.run_in_executor(self._executor, lambda: function(*args))

    # -- news ---------------------------------------------------------------------------------------------------------

    def _note(self, places: list[Place]) -> None:
        """Take queues that have new messages, in the thread that dispatches.

        The loop is woken once for all that come until it has looked. It lowers the flag before it takes what came: so
        what comes in between is taken now or wakes it again.
        """
        self._came.extend(places)
        if not self._is_waking:
            self._is_waking = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._is_waking = False
        places = set[Place]()
        with suppress(IndexError):
            while True:
                places.add(self._came.popleft())
        for place in places:
            self._news[place] += 1
            self._grown.add(place[0])
        self._arrived(places)

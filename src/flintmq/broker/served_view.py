"""The store that a read-only broker serves: a view that is refreshed, with its topics.

Every read goes to the executor: files may be cold, or on object storage, and the loop must answer heartbeats meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from flintmq.errors import FlintError
from flintmq.store.layout.config_reader import BrokerConfig
from flintmq.store.view import StoreView

log = logging.getLogger("flintmq.broker")
T = TypeVar("T")

LOOK_S: Final = 1.0  # from one refresh to the next
LOOK_SHARE: Final = 9  # a refresh takes at most a tenth of the time
LONGEST_PAUSE_S: Final = 30.0
READABLE, WRITABLE = 4, 2


class TopicFacts(NamedTuple):
    """Facts of a topic for clients; `perm` has the bits READABLE and WRITABLE."""

    read_queues: int
    write_queues: int
    perm: int

    @property
    def is_readable(self) -> bool:
        return bool(self.perm & READABLE)


class ServedView:
    """A view, as a broker's handlers use it. Thread: the loop's, but for `run`'s function.

    Attributes:
        topics: name -> facts, as of the last look.
        bounds: (topic, queue id) -> first queue offset, and the one after the last.
        broker: config/ of the store.
        looks: how many refreshes there were; who reads and then waits compares it.
    """

    def __init__(self, view: StoreView, executor: ThreadPoolExecutor) -> None:
        self.view, self._executor = view, executor
        self.topics: Mapping[str, TopicFacts] = {}
        self.bounds: Mapping[tuple[str, int], tuple[int, int]] = {}
        self.broker = BrokerConfig()
        self.looks = 0
        self._told = ""

    async def run(self, function: Callable[..., T], *args: object, **given: object) -> T:
        """Call a function in the executor."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: function(*args, **given))

    async def first_look(self) -> None:
        """Read the topics as the view was opened.

        Raises FlintError: the store cannot be read.
        """
        self.broker, self.topics, self.bounds = await self.run(self._look)

    async def keep_looking(self, looked: Callable[[], None]) -> None:
        """Refresh the view again and again; `looked` is called after each time."""
        pause = LOOK_S
        while True:
            await asyncio.sleep(pause)
            begin = time.monotonic()
            try:
                await self.run(self.view.refresh)
                self.broker, self.topics, self.bounds = await self.run(self._look)
            except (FlintError, OSError) as error:
                if str(error) != self._told:
                    log.error("%s: not read again: %s", self.view.root, error)
                self._told = str(error)
            else:
                self._told = ""
                self.looks += 1
                looked()
            pause = max(LOOK_S, min(LOOK_SHARE * (time.monotonic() - begin), LONGEST_PAUSE_S))

    def _look(self) -> tuple[BrokerConfig, dict[str, TopicFacts], dict[tuple[str, int], tuple[int, int]]]:
        """Return config/, the topics, and the bounds of all queues.

        Topics are those of topics.json, and others that have queues. A topic may have more queues than its entry says,
        which would then be read by nobody: all that are there are served.
        """
        broker, found = self.view.broker, dict[str, int]()
        queues = self.view.queues()
        for one in queues:
            found[one.topic] = max(found.get(one.topic, 0), one.queue_id + 1)
        topics = {topic: TopicFacts(count, count, READABLE) for topic, count in found.items()}
        for topic, told in broker.topics.items():
            topics[topic] = TopicFacts(max(told.read_queues, found.get(topic, 0)), told.write_queues, told.perm)
        return broker, topics, {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in queues}

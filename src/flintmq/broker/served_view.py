"""The store that a read-only broker serves: a view that is refreshed, with its topics.

Every read goes to the executor: files may be cold, or on object storage, and the loop must answer heartbeats meanwhile.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Set
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, TypeAlias, TypeVar

from flintmq.broker.served import EVERYTHING, READABLE, Filter, Place, TopicFacts
from flintmq.errors import FlintError, StoreAccessError
from flintmq.format.group_topics import RETRY, retry_topic
from flintmq.message import RawResult, StoredMessage
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.store_url import effects_for
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import BrokerConfig
from flintmq.store.view import StoreView

log = logging.getLogger("flintmq.broker")
T = TypeVar("T")

LOOK_S: Final = 1.0  # from one refresh to the next
LOOK_SHARE: Final = 9  # a refresh takes at most a tenth of the time
LONGEST_PAUSE_S: Final = 30.0


Looked: TypeAlias = tuple[BrokerConfig, Mapping[str, TopicFacts], Mapping[Place, tuple[int, int]]]
"""What a look finds: config/, topics, and bounds of queues, as ServedView has them."""


class ServedView:
    """A view, as a broker's handlers use it. Thread: the loop's, but for `run`'s function.

    Attributes:
        topics: name -> facts, as of the last look.
        broker: config/ of the store.
        looks: how many refreshes there were.

    Args:
        groups: returns the names of the groups whose consumers came here.
    """

    def __init__(self, view: StoreView, executor: Executor, groups: Callable[[], Collection[str]]) -> None:
        self.view, self._executor, self._groups = view, executor, groups
        self.root, self.config = view.root, view.config
        self.topics: Mapping[str, TopicFacts] = {}
        self._bounds: Mapping[Place, tuple[int, int]] = {}  # first queue offset, and the one after the last
        self.broker = BrokerConfig()
        self.looks = 0
        self._told = ""
        is_here = effects_for(view.root, view.config.s3) is REAL  # not on object storage
        self._folders = [one.path for one in directories.log_directories(view.root, view.config)] if is_here else []
        self._places = self._places_now()

    def topic(self, name: str) -> TopicFacts | None:
        """Return facts of a topic; None: there is no such topic.

        Each group that came here has a topic of its retries, an empty one if the store has none: mqadmin asks for its
        route before all that it asks about a group.
        """
        found = self.topics.get(name)
        if found is None and name.startswith(RETRY) and name.removeprefix(RETRY) in self._groups():
            return TopicFacts(1, 1, READABLE)
        return found

    def topic_names(self) -> set[str]:
        return {*self.topics, *map(retry_topic, list(self._groups()))}

    @property
    def log_bounds(self) -> tuple[int, int]:
        return self.view.min_physical_offset, self.view.max_physical_offset

    @property
    def log_file_size(self) -> int:
        return self.view.log_file_size

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's bounds as of the last look."""
        return self._bounds.get((topic, queue_id), (0, 0))

    def knows_group(self, name: str) -> bool:
        return name in self.broker.groups

    makes_groups = True

    async def admit(self, group: str) -> None:
        """Let any group come: nothing is written."""

    def group_names(self) -> Collection[str]:
        return {*self.broker.groups, *list(self._groups())}

    def may_consume(self, group: str) -> bool | None:
        found = self.broker.groups.get(group)
        return None if found is None else found.get("consumeEnable") is not False

    def ends(self) -> Mapping[str, int]:
        return {}

    def figures(self) -> Mapping[str, str]:
        return {}

    def reading(self) -> AbstractContextManager[StoreView]:
        return nullcontext(self.view)

    def news(self, place: Place) -> int:
        return self.looks

    def read_now(
        self, topic: str, queue_id: int, offset: int, most: int = 1, only: Filter = EVERYTHING, most_bytes: int = 1
    ) -> RawResult | None:
        """Return None: every read goes to the executor."""
        return None

    async def read(
        self, topic: str, queue_id: int, offset: int, most: int = 1, only: Filter = EVERYTHING, most_bytes: int = 1
    ) -> RawResult:
        place = topic, queue_id, offset, most
        return await self.run(
            partial(self.view.get_raw, *place, tags=only.tags, max_bytes=most_bytes, wanted=only.wanted)
        )

    async def query(self, topic: str, key: str, begin: int, end: int, most: int) -> list[StoredMessage]:
        return list(await self.run(self.view.query, topic, key, begin, end, most))

    async def at(self, physical_offset: int) -> StoredMessage:
        return await self.run(self.view.get_at, physical_offset)

    async def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str) -> int:
        return await self.run(self.view.offset_at_time, topic, queue_id, ms, boundary)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call a function in the executor.

        Raises StoreAccessError: the log's directory was taken away or replaced, so the result may lack messages. A
        group that passed over them would never get them.
        """
        places = self._places

        def call() -> T:
            found = function(*args)
            if self._places_now() != places:
                raise StoreAccessError(f"{self.view.root}: its log was taken away or replaced; it is read again soon")
            return found

        return await self._in_executor(call)

    async def _in_executor(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def first_look(self) -> None:
        """Read the topics as the view was opened.

        Raises FlintError: the store cannot be read.
        """
        self.broker, self.topics, self._bounds = await self.run(self._look, self.view)

    async def keep_looking(self, looked: Callable[[Set[str]], None]) -> None:
        """Refresh the view again and again; `looked` gets the topics that are there no more."""
        pause = LOOK_S
        while True:
            await asyncio.sleep(pause)
            begin, before = time.monotonic(), self.topics.keys()
            try:
                await self._look_again()
            except Exception as error:  # whatever it is: a broker that looked no more would serve the past for good
                if str(error) != self._told:
                    known = isinstance(error, (FlintError, OSError))
                    log.error("%s: not read again: %s", self.view.root, error, exc_info=not known)
                self._told = str(error)
            else:
                self._told = ""
                self.looks += 1
                looked(before - self.topics.keys())
            pause = max(LOOK_S, min(LOOK_SHARE * (time.monotonic() - begin), LONGEST_PAUSE_S))

    async def _look_again(self) -> None:
        """Refresh a copy of the view, and serve it if there still is a store."""
        fresh, places = copy.copy(self.view), self._places_now()

        def look() -> Looked:
            fresh.refresh()
            found = self._look(fresh)
            is_here = self._places_now() == places and (places or not self._folders)
            if not is_here or (self.view.log_file_size and not fresh.log_file_size):
                raise StoreAccessError("its log is gone, or is being replaced; what was read before is served")
            return found

        found = await self._in_executor(look)
        self.view, self._places, (self.broker, self.topics, self._bounds) = fresh, places, found

    def _places_now(self) -> list[tuple[int, int]]:
        """Return device and inode of the log's directories; nothing if one is not there."""
        try:
            found = [os.stat(folder) for folder in self._folders]
        except OSError:
            return []
        return [(one.st_dev, one.st_ino) for one in found]

    def _look(self, view: StoreView) -> Looked:
        """Return config/, the topics, and the bounds of all queues.

        Topics are those of topics.json, and others that have queues. A topic may have more queues than its entry says,
        which would then be read by nobody: all that are there are served.
        """
        broker, found = self._usable(view.broker), dict[str, int]()
        queues = view.queues()
        for one in queues:
            found[one.topic] = max(found.get(one.topic, 0), one.queue_id + 1)
        topics = {topic: TopicFacts(count, count, READABLE) for topic, count in found.items()}
        for topic, told in broker.topics.items():
            topics[topic] = TopicFacts(max(told.read_queues, found.get(topic, 0)), told.write_queues, told.perm)
        return broker, topics, {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in queues}

    def _usable(self, broker: BrokerConfig) -> BrokerConfig:
        """Return config/, or as it was before, if a file that was used cannot be used now.

        It is being written, or is damaged; groups would begin anew without it.
        """
        lost = {name.removesuffix(".bak") for name in self.broker.files}
        lost -= {name.removesuffix(".bak") for name in broker.files}
        return self.broker if broker.problems_of(*lost) else broker

"""Declares the store that a broker serves, as its rooms use it: one to write, or a view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

from flintmq.config.keys import StoreConfig
from flintmq.message import RawResult, StoredMessage
from flintmq.store.read.answer import Wanted
from flintmq.store.view import StoreView

T = TypeVar("T")

READABLE, WRITABLE = 4, 2
TEMPLATE = "TBW102"
"""The topic whose route producers ask for before the first message of a topic that nobody made."""
Place = tuple[str, int]
"""A queue: topic, queue id."""


class Filter(NamedTuple):
    """A choice of messages.

    Attributes:
        tags: those of which messages have one (`a || b`); None: any.
        wanted: says of a message's properties whether it is wanted; None: it is.
    """

    tags: str | None = None
    wanted: Wanted | None = None


EVERYTHING = Filter()


class TopicFacts(NamedTuple):
    """Facts of a topic for clients; `perm` has the bits READABLE and WRITABLE."""

    read_queues: int
    write_queues: int
    perm: int

    @property
    def is_readable(self) -> bool:
        return bool(self.perm & READABLE)

    @property
    def is_writable(self) -> bool:
        return bool(self.perm & WRITABLE)


class Asker(Protocol):
    """The connection of a client that asks."""

    @property
    def is_closed(self) -> bool: ...


class Served(Protocol):
    """Reads of a store.

    Thread: the loop's; `topic`, `topic_names`, `group_names`, `bounds` and `reading` any.
    """

    root: str
    config: StoreConfig

    @property
    def log_file_size(self) -> int: ...

    @property
    def log_bounds(self) -> tuple[int, int]:
        """Return where the log begins and ends."""

    def topic(self, name: str) -> TopicFacts | None:
        """Return facts of a topic; None: there is no such topic."""

    def topic_names(self) -> set[str]: ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's first offset, and the one after the last.

        (0, 0) of one that never had a message.
        """

    def knows_group(self, name: str) -> bool:
        """Return whether the store has a consumer group."""

    def group_names(self) -> Collection[str]:
        """Return the names of the store's consumer groups.

        To one that is only read groups come that it does not have; they are among them.
        """

    @property
    def makes_groups(self) -> bool:
        """Return whether a group that is not known may come."""

    async def admit(self, group: str) -> None:
        """Make a consumer group that is not known, if that may be.

        Raises Refused: it may not.
        """

    def may_consume(self, group: str) -> bool | None:
        """Return whether a group's settings let it consume; None: there is no such group."""

    def news(self, place: Place) -> int:
        """Return a number that changes when a queue may have grown.

        Who reads and then waits compares it.
        """

    def ends(self) -> Mapping[str, int]:
        """Return how many messages the queues of each topic ever had; nothing where nobody puts."""

    def figures(self) -> Mapping[str, str]:
        """Return how fast messages come and go, by RocketMQ's names; nothing where nobody puts."""

    def reading(self) -> AbstractContextManager[StoreView]:
        """Return a view for reads in another thread, which count nowhere."""

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call a function in a thread that reads files.

        Raises StoreAccessError: the store was taken away meanwhile, so the result may lack messages.
        """

    def read_now(
        self, topic: str, queue_id: int, offset: int, most: int = 1, only: Filter = EVERYTHING, most_bytes: int = 1
    ) -> RawResult | None:
        """Return what `read` does if it is in memory; None: it may wait for a disk."""

    async def read(
        self, topic: str, queue_id: int, offset: int, most: int = 1, only: Filter = EVERYTHING, most_bytes: int = 1
    ) -> RawResult:
        """Return records of a queue, as `get_raw` does; by default a single one."""

    async def query(self, topic: str, key: str, begin: int, end: int, most: int) -> list[StoredMessage]:
        """Return the newest messages with a key, in log order."""

    async def at(self, physical_offset: int) -> StoredMessage:
        """Return the message at a place of the log.

        Raises MessageNotFoundError: no record begins there.
        """

    async def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str) -> int: ...


class Offsets(Protocol):
    """Offsets of groups. Thread: the loop's.

    Attributes:
        changes: how many offsets were committed.
        has_own: whether there are others than those of the store's files.
    """

    changes: int

    @property
    def has_own(self) -> bool: ...

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset that a group wants of a queue; None: it never committed one."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int, by: Asker | None) -> None:
        """Note an offset, unless one was set of which the connection `by` does not know."""

    def moved(
        self, group: str, topic: str, queue_id: int, offset: int, by: Asker | None, *, is_new: bool = True
    ) -> int | None:
        """Return where a group must go on that wants an offset; None: there.

        Args:
            by: the connection that wants it.
            is_new: it wants it since now.
        """

    def knows(self, group: str) -> bool:
        """Return whether a group has committed an offset."""

    def all(self) -> Mapping[tuple[str, str], Mapping[int, int]]:
        """Return the offsets of all groups, (topic, group) to queue to offset."""

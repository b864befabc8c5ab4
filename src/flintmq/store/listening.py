"""Declares what a store and the listener of its followers need of each other.

The engine does not know `flintmq.ha`: it makes the listener through a hook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.store.append.replicas import Replicas


def address_of(given: tuple[str, int]) -> tuple[str, int]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise UsageError(f'ha_listen={str(given)[:60]!a}; give host and port, such as ("127.0.0.1", 10912)')
    host, port = given
    return host, port


class ListenOptions(NamedTuple):
    """The choices of a store that lets followers have its log.

    `replica`: "host": several followers of one host are one replica; "connection": each is one, as upstream.
    """

    listen: tuple[str, int]  # host and port to bind; port 0: any free one
    allow: tuple[str, ...] = ()  # networks (CIDR) from which followers may come; empty: all
    new_slave: str = "last"  # "last": a follower without a log gets the last file, as upstream; "first": the whole log
    durable_only: bool = False  # only what is on disk is sent
    replica: str = "host"
    connections: int = 64
    prefix: str = "ha_"  # begins the name of an option in an error, as the user gives it


class LogPart(NamedTuple):
    """One log file that a follower is sent; it stays open until `release`."""

    fd: int
    start: int  # log offset of its first byte
    size: int
    release: Callable[[], None]  # called once, when no more of it is sent


class LogSource(Protocol):
    """The log that followers are sent. Thread: any."""

    @property
    def file_size(self) -> int:
        """Bytes of a log file; 0 while that is not known."""

    def begin(self) -> int:
        """Return the log offset of the first byte that is there."""

    def end(self) -> int:
        """Return the log offset below which the log may be sent."""

    def open(self, offset: int) -> LogPart | None:
        """Return the file with this log offset; None: it is not there (any more)."""


class FollowerInfo(NamedTuple):
    """One follower of a listener."""

    address: tuple[str, int]  # host and port of its end of the line
    state: str  # "wait" for its first report, or "transfer"
    sent: int  # log offset after the last byte that was sent; -1 before the first report
    acknowledged: int  # log offset below which it has the log, as it says; -1 before the first report
    in_sync: bool  # it lacks at most haMaxGapNotInSync bytes
    since: float  # seconds for which it has been there


class Listener(Protocol):
    """Listens for followers, and sends them the log.

    `on_turn`: called in its thread after each turn, when what could be sent is under way. Set before `start`.

    Thread: any, for every method.
    """

    address: tuple[str, int]  # host and port that are bound
    replicas: Replicas | None  # answers puts that wait for replicas; None: no put does
    on_turn: Callable[[], None] | None

    def start(self) -> None:
        """Start the thread."""

    def wake(self) -> None:
        """Have what can be sent by now sent soon."""

    def followers(self) -> list[FollowerInfo]:
        """Return the followers that are there."""

    def close(self) -> None:
        """Close all lines and free the port. May be called again."""

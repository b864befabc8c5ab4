"""Follows all brokers of a name server, each into a directory of its own.

All are followed in one process. Every 30 s the name server is asked again. A broker that comes is followed from then
on. One that goes keeps its follower, which tries to connect until it is there again. One whose address changed gets a
new follower there, which compares before it goes on. One that is refused is reported, and the others go on; at another
address it is tried again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from flintmq.config.text import check_seconds
from flintmq.errors import FlintError, ReplicationError, UsageError
from flintmq.ha import name_server
from flintmq.ha.name_server import BrokerRoute
from flintmq.storage.threads.mutex import Lock
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store import arguments

EVERY_S: Final = 30.0
TIMEOUT_S: Final = 5.0
"""Seconds for an answer of a name server."""
RETRY_S: Final = 1.0
"""Seconds between two attempts to reach a name server, with `once`."""
ATTEMPTS: Final = 3
REMIND_S: Final = 600.0
"""Seconds after which a broker that is still lost is reported again."""
PLACE: Final = "{broker}"

Event = dict[str, Any]


class FollowsOne(Protocol):
    """The part of `Follower` that a fleet uses."""

    @property
    def state(self) -> str:
        """State, as `Follower` has it."""

    def run(self, stopping: threading.Event | None = None) -> None:
        """Follow until stopped, or until it is done or refused."""


Make = Callable[[str, str, str, Callable[[Event], None]], FollowsOne]
"""(store, address for replication, listenPort's address, on_event) -> a follower of one broker."""


@dataclass
class FleetMember:
    route: BrokerRoute
    address: str | None = None  # of its replication port; None if it was refused before that was asked
    follower: FollowsOne | None = None
    thread: threading.Thread | None = None
    stopping: threading.Event = field(default_factory=StopEvent)
    error: BaseException | None = None  # why it ended; None while it runs, or if it is done

    @property
    def runs(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class Fleet:
    """Follows the brokers of a name server.

    Thread: one for `run`; `members` is for tests.

    Args:
        store: path with `{broker}` in it, which is replaced by the name of the broker.
        on_event: called with each event, a dict with `broker`; one call at a time.
    """

    def __init__(
        self,
        servers: Collection[str],
        store: str,
        make: Make,
        *,
        cluster: str | None = None,
        brokers: Collection[str] = (),
        on_event: Callable[[Event], None] | None = None,
        once: bool = False,
        every_s: float = EVERY_S,
    ) -> None:
        arguments.flags(once=once)
        check_seconds("every_s", every_s)
        if PLACE not in store:
            raise UsageError(f"--out {store!a} is one directory for all brokers; write {PLACE} where a name belongs")
        if not servers:
            raise UsageError("give the address of a name server")
        self.servers, self.store, self.make = servers, store, make
        self.cluster, self.brokers, self.once = cluster, frozenset(brokers), once
        self.every_s = every_s
        self.members: dict[str, FleetMember] = {}
        self._on_event, self._one_event = on_event, Lock()
        self._looks = 0
        self._changed = False  # a follower ended, or it is to stop
        self._told: dict[
            str | None, float
        ] = {}  # when it was last said that this broker is lost; None: the name server
        self._missing: dict[str, str] = {}  # brokers that are wanted and not followed, as of the last look: why

    def run(self, stopping: threading.Event) -> None:
        """Follow until stopped, until all are refused, or with `once` until all have ended.

        Raises ReplicationError: a broker was refused; the others were followed.
        """
        try:
            while not stopping.is_set():
                self._looks += 1
                self.look()
                if self._is_over():
                    break
                lacks = self._missing or not self.members
                self._wait(stopping, RETRY_S if self.once and lacks and self._looks < ATTEMPTS else self.every_s)
        finally:
            self.stop()
        for member in self.members.values():
            if member.error is not None:
                raise member.error
        if self.once and self._missing and not stopping.is_set():
            name, why = next(iter(self._missing.items()))
            raise UsageError(f"broker {name!a} was not copied: {why}")
        if self.once and not self.members and not stopping.is_set():
            raise UsageError(f"{self._servers}: no broker to follow was found there")

    def look(self) -> None:
        """Ask the name server, and begin, move or keep followers."""
        try:
            known = name_server.routes(self.servers, timeout=TIMEOUT_S)
        except (OSError, ReplicationError) as error:
            self._note_lost(None, str(error))
            return
        wanted = {route.name: route for route in known.values() if self._is_wanted(route)}
        self._missing = {}
        for name in sorted(self.brokers - set(wanted) - set(self.members)):
            self._missing[name] = self._unknown(known, "broker")
        for route in wanted.values():
            self._take(route)
        if wanted or self.members or self.brokers:
            self._told.pop(None, None)
        else:
            self._note_lost(None, self._unknown(known, "broker" if self.cluster is None else "cluster"))
        for name in [name for name in self._told if name is not None and name not in self._missing]:
            del self._told[name]
        for name, why in self._missing.items():
            self._note_lost(name, why)

    def _unknown(self, known: dict[str, BrokerRoute], what: str) -> str:
        """Say that nothing of what is wanted is there, and what is."""
        there = sorted({route.cluster if what == "cluster" else route.name for route in known.values()})
        names = ", ".join(f"{name[:100]!a}" for name in there[:5]) or f"no {what} at all"
        named = f" {self.cluster!a}" if what == "cluster" else ""
        return f"{self._servers} knows no such {what}{named}; it knows {names}"

    def stop(self) -> None:
        """Stop all followers, and wait until their stores are closed."""
        for member in self.members.values():
            member.stopping.set()
        for member in self.members.values():
            if member.thread is not None:
                member.thread.join()

    @property
    def _servers(self) -> str:
        return ";".join(self.servers)

    def _is_wanted(self, route: BrokerRoute) -> bool:
        return self.cluster in (None, route.cluster) and (not self.brokers or route.name in self.brokers)

    def _is_over(self) -> bool:
        members = self.members.values()
        if self.once and not any(member.runs for member in members):
            return self._looks >= ATTEMPTS or (bool(members) and not self._missing)
        if not members or self._missing:
            return False
        return all(member.error is not None and not member.runs for member in members)

    def _take(self, route: BrokerRoute) -> None:
        member = self.members.get(route.name)
        if route.master is None:
            if member is None:
                self._missing[route.name] = "only slaves of it are registered"  # its master may come back
            return
        if not route.is_plain:
            if member is None:
                text = "its name cannot be the name of a directory"
                self.members[route.name] = self._refused(route, ReplicationError("config", text))
            return
        same = member is not None and member.route.master == route.master
        if member is not None and same and (self.once or member.address is None or self._is_content(member)):
            return
        try:
            address = name_server.ha_address(route.master, timeout=TIMEOUT_S)
        except OSError as error:
            if member is None or not self.once:
                self._missing[route.name] = str(error)
            return
        except (ReplicationError, UsageError) as error:
            if member is None or not member.runs:
                self.members[route.name] = self._refused(route, error)
            return
        if member is not None and same and member.address == address:
            return
        if member is not None and member.thread is not None:
            member.stopping.set()
            member.thread.join()
        self.members[route.name] = self._begun(route, address)

    def _is_content(self, member: FleetMember) -> bool:
        """Return whether a follower needs no other address."""
        return member.runs and member.follower is not None and member.follower.state == "following"

    def _begun(self, route: BrokerRoute, address: str) -> FleetMember:
        assert route.master is not None
        member = FleetMember(route, address)
        store = self.store.replace(PLACE, route.name)
        try:
            member.follower = self.make(store, address, route.master, lambda event: self._event(route.name, event))
        except FlintError as error:
            return self._refused(route, error)
        member.thread = threading.Thread(target=self._follow, args=(member,), name=f"flintmq-follow-{route.name}")
        member.thread.start()
        return member

    def _follow(self, member: FleetMember) -> None:
        assert member.follower is not None
        try:
            member.follower.run(member.stopping)
        except (FlintError, OSError) as error:
            member.error = error
            if isinstance(error, UsageError):  # the follower reports the others
                self._event(member.route.name, {"event": "refused", "reason": "config", "detail": str(error)})
        except BaseException as error:
            member.error = error
            raise
        finally:
            self._changed = True

    def _refused(self, route: BrokerRoute, error: FlintError) -> FleetMember:
        reason = error.reason if isinstance(error, ReplicationError) else "config"
        self._event(route.name, {"event": "refused", "reason": reason, "detail": str(error)})
        return FleetMember(route, error=error)

    def _note_lost(self, broker: str | None, why: str) -> None:
        """Say that a broker, or the name server, is not there: at first, and now and then."""
        now = time.monotonic()
        if now - self._told.get(broker, -math.inf) >= REMIND_S:
            self._told[broker] = now
            self._event(broker, {"event": "lost", "what": "broker" if broker else "name server", "reason": why})

    def _event(self, broker: str | None, event: Event) -> None:
        if self._on_event is not None:
            with self._one_event:
                self._on_event(event if broker is None else {**event, "broker": broker})

    def _wait(self, stopping: threading.Event, seconds: float) -> None:
        """Wait for the next question; shorter if it is to stop, or all have ended."""
        left = seconds
        while left > 0 and not stopping.wait(min(left, 0.2)):
            left -= 0.2
            if self._changed:
                self._changed = False
                if self._is_over():
                    return

"""Follows the log of one master into one store: `flintmq follow`, `flintmq.ha.Follower`.

The store is open in role SLAVE and gets the master's bytes at the master's offsets. One thread takes the steps
(`follower_steps`); this module is what any thread has of it: start and stop, views, waits, numbers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Self

from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_seconds
from flintmq.errors import FlintError, StoreError, UsageError
from flintmq.ha.broker_tables import BrokerTables
from flintmq.ha.connection import POLL_S, Dial, dial
from flintmq.ha.follower_steps import FollowerStats, FollowerSteps
from flintmq.ha.follower_store import Event, FollowOptions
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.threads.mutex import Condition
from flintmq.store import arguments
from flintmq.store.layout.store_config import given_config
from flintmq.store.message_store import MessageStore
from flintmq.store.view import StoreView

FLUSHES: Final = {None: None, "SYNC": "SYNC_FLUSH", "ASYNC": "ASYNC_FLUSH"}


class Follower:
    """Follows one master into one store. Use it in a `with` block, or `run` it.

    Args:
        path: the store's root; created if it is missing. A store that is there is continued.
        master: `HOST:PORT` of the master's HA port.
        begin: where an empty store begins: "first", "last", or the log offset of a file of the master's log.
        config: RocketMQ's keys, or a StoreConfig; mappedFileSizeCommitLog must be the master's.
        config_from: `HOST:PORT` of the broker itself, to take topics, groups and offsets from.
        on_event: called with each event, a dict (docs/operations/follow.md), in the follower's thread.
        ack: acknowledge what is here, so that the master counts this follower as a replica.
        flush: "SYNC": acknowledge only what is on disk; "ASYNC", "SYNC" or None for the configuration's flushDiskType.
        adopt: follow into a store that was written as a master.
        resync: first find out where the master's log parts from ours, and drop our records from there on; they are
            copied to `quarantine/`.
        confirmed: drop them without asking; otherwise the follower ends with a UsageError that says what would go.
        once: end when it has caught up.
        effects: the disk and the clock.
        dial: opens lines; for simulations.
        services: see MessageStore; for simulations.

    Raises:
        TypeError: a switch that is neither True nor False.
        UsageError: an address or an argument that cannot be used.
        ConfigError: an unknown key or an impossible value.

    Attributes:
        steps: the state that the steps change; for simulations.

    Thread: `stop`, `wait_caught_up`, `view` and the numbers may be used from any; the steps from one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        master: str,
        *,
        begin: str | int = "first",
        config: StoreConfig | Mapping[str, object] | None = None,
        config_from: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        ack: bool = False,
        flush: str | None = None,
        adopt: bool = False,
        resync: bool = False,
        confirmed: bool = False,
        once: bool = False,
        effects: Effects = REAL,
        dial: Dial = dial,
        services: bool = True,
    ) -> None:
        if begin not in ("first", "last") and not isinstance(begin, int):
            raise UsageError(f"begin={begin!r} is neither first, last nor the log offset of a file")
        if flush not in FLUSHES:
            raise UsageError(f"flush={flush!r}; give SYNC or ASYNC")
        arguments.flags(ack=ack, adopt=adopt, resync=resync, confirmed=confirmed, once=once, services=services)
        self.path, self.master = path, master
        keys = {"brokerRole": "SLAVE"} | ({"flushDiskType": FLUSHES[flush]} if flush else {})
        slave = given_config(config, False, {}).with_keys(keys)
        options = FollowOptions(
            path, master, begin, slave, ack, adopt, resync, confirmed, once, effects, dial, services
        )
        tables = BrokerTables(config_from, effects) if config_from is not None else None
        self.steps = FollowerSteps(options, tables, self._take)
        self._on_event = on_event
        self._changed = Condition()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Open the store, and follow in a thread of its own.

        Raises:
            FlintError: as for MessageStore.
        """
        self.open()
        self._thread = threading.Thread(target=self._loop_quietly, name="flintmq-follow", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop it; raise what `stop` raises unless an exception is under way, which says more."""
        try:
            self.stop()
        except StoreError:
            if kind is None:
                raise

    def stop(self) -> None:
        """Stop following, and close the store cleanly.

        What is whole is on disk, in queues and index, unless it raises.

        Raises:
            StoreError: the disk refused, now or before; see `MessageStore.close`.

        May be called again. Thread: any but its own.
        """
        self.steps.stopping.set()
        if self._thread is not None:
            self._thread.join()
        self.close()

    def run(self, stopping: threading.Event | None = None) -> None:
        """Open the store and follow, in this thread, until stopped or, with `once`, until caught up.

        In a new directory nothing is made until the master answers.

        Args:
            stopping: set when it is to stop.

        Raises:
            ReplicationError: the master was refused.
            FlintError: of the store.
            UsageError: with `once`, nobody answers at the master's address.
        """
        self.steps.stopping = stopping or self.steps.stopping
        try:
            self.steps.run()
        except BaseException as error:
            if isinstance(error, (FlintError, OSError)):
                self.steps.refused(error)
            with suppress(StoreError):  # it is logged, and what ended the follower says more
                self.close()
            raise
        self.close()

    def wait_caught_up(self, timeout: float | None = None) -> bool:
        """Wait until all that the master has is here.

        Args:
            timeout: seconds; None: no limit.

        Returns:
            False if the time is up, or it was stopped before.

        Raises:
            FlintError: the error that ended the follower.
            OSError: likewise, of the disk.
            UsageError: a timeout that is no time.

        Thread: any but its own.
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        with self._changed:
            done = self._changed.wait_for(lambda: self.caught_up or self.state in ("refused", "closed"), timeout)
        if self.error is not None:
            raise self.error
        # More may have come since it had caught up.
        return done and (self.caught_up or self.state not in ("refused", "closed"))

    @property
    def store(self) -> MessageStore:
        """The store, for `get`, `query`, consumers and statistics; it takes no puts.

        Raises:
            UsageError: the follower is closed; or a `run` into a new directory waits for its master.
        """
        return self.steps.opened()

    def view(self) -> StoreView:
        """Return a read-only view of what is whole now.

        Raises:
            UsageError: as `store`.
            StoreAccessError: a file may not be read.
        """
        return self.steps.opened().view()

    @property
    def state(self) -> str:
        """State: "opening", "connecting", "comparing", "following", "refused" or "closed"."""
        return self.steps.state

    @property
    def error(self) -> BaseException | None:
        """The error that ended it; None if none did."""
        return self.steps.error

    @property
    def caught_up(self) -> bool:
        """True if the last byte that the master sent is here, and no more came for a moment."""
        return self.steps.caught_up

    @property
    def end(self) -> int:
        """Log offset after the last byte received."""
        return self.stats().end

    @property
    def whole(self) -> int:
        """Log offset after the last whole record; readers, queues and index see the log up to it."""
        return self.steps.whole

    @property
    def lag_ms(self) -> int:
        """Our clock minus the store time of the last whole record, in ms; 0 while caught up."""
        return self.stats().lag_ms

    def stats(self) -> FollowerStats:
        """Return counters, also after the end."""
        return self.steps.stats()

    def open(self, *, patient: bool = False) -> None:
        """Take the broker's tables if they are asked for, and open the store.

        Args:
            patient: wait for a broker that cannot be reached until a stop, instead of three attempts.

        Raises:
            ReplicationError: the broker refuses.
            UsageError: it cannot be reached.
            FlintError: as for MessageStore.
        """
        arguments.flags(patient=patient)
        self.steps.open(patient=patient)

    def connect_once(self) -> bool:
        """Open a line to the master; see `FollowerSteps.connect_once`. For simulations."""
        return self.steps.connect_once()

    def receive_once(self, seconds: float = POLL_S) -> None:
        """Take what one read brings; see `FollowerSteps.receive_once`. For simulations."""
        check_seconds("seconds", seconds)
        self.steps.receive_once(seconds)

    def report_once(self) -> None:
        """Report to the master if it is time; see `FollowerSteps.report_once`. For simulations."""
        self.steps.report_once()

    def close(self) -> None:
        """Close the line and the store. May be called again.

        Raises:
            StoreError: as for `stop`.
        """
        try:
            self.steps.close()
        finally:
            with self._changed:
                self._changed.notify_all()

    def _loop_quietly(self) -> None:
        try:
            self.steps.loop()
        except (FlintError, OSError) as error:
            self.steps.refused(error)
        except BaseException as error:  # a bug, or the user's own `on_event`: who waits must not wait for ever
            self.steps.refused(error)
            raise

    def _take(self, event: Event) -> None:
        """Wake who waits, and pass an event on."""
        with self._changed:
            self._changed.notify_all()
        if self._on_event is not None:
            self._on_event(event)

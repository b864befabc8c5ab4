"""Lends the only line of a listener to the threads that put.

A put that waits for one replica then sends its record by itself and waits for the report, in one compiled call
(kernels/threads/replica_lane.py). The listener's thread takes the line back, notes what was exchanged, does what is
due, and lends the line again if nothing is under way on it. As long as puts send everything there is, it only looks
whether that is so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.ha.listener_line import ListenerLine
from flintmq.ha.master_line import LineState
from flintmq.kernels.threads.replica_lane import LaneFacts, ReplicaLane, native
from flintmq.storage.files.filesystem import Effects
from flintmq.store.listening import ListenOptions

LENT_S: Final = 0.05
"""Seconds for which a line is lent at most; then the listener's thread takes it back and sees what is due."""


def may_lend(options: ListenOptions, config: StoreConfig, effects: Effects) -> bool:
    """Return whether lines of a listener may be lent.

    They may if one replica is waited for, and a record may be sent from its file as soon as it is appended, however
    fast.
    """
    waits_for_one = config.broker_role == "SYNC_MASTER" and config.in_sync_replicas == 2
    at_once = config.flush_disk_type == "ASYNC_FLUSH" and not config.transient_store_pool_enable
    at_once = at_once and not options.durable_only and not config.ha_flow_control_enable
    return waits_for_one and at_once and type(effects) is Effects and native()


class Lending:
    """The lane of one listener, and the line that it has.

    `bell`: descriptor of a socket that wakes the listener's thread.

    Thread: the listener's, but for `acknowledged_by` (any) and `close` (after the listener's thread).
    """

    def __init__(self, bell: int, epoll: int) -> None:
        self.lane = ReplicaLane(bell)  # for the threads that put
        self._epoll = epoll
        self._lent: ListenerLine | None = None
        self._is_held = False  # the listener's thread has the lane
        self._until = 0.0

    def goes_on(self, end: int, now: float) -> bool:
        """Return whether the threads that put send all there is to send, and nothing else is due."""
        return self._lent is not None and now < self._until and self.lane.rests(end)

    def take_back(self) -> tuple[ListenerLine, LaneFacts] | None:
        """Take the line from the threads that put.

        Returns:
            The line, and what was exchanged; None if no line was lent, or a put has it now (`is_away`), which rings the
            bell as soon as it is done.
        """
        self._is_held = self._is_held or self.lane.take(0.0)
        one = self._lent
        if one is None or not self._is_held:
            return None
        facts = self.lane.facts()
        self._lent = None
        return one, facts

    def is_away(self, one: ListenerLine) -> bool:
        """Return whether a put has this line now, so that nobody else may use it."""
        return one is self._lent

    def lend(self, lines: Iterable[ListenerLine], end: int, now: float) -> None:
        """Lend the line if it is the only one that is sent the log, and nothing is under way on it."""
        if not self._is_held:
            return
        self._is_held = False
        sent = [one for one in lines if one.line.state is LineState.TRANSFER]
        if len(sent) != 1 or not sent[0].rests(end):
            self.lane.end()
            return
        one = sent[0]
        part, batch = one.part, one.line.rules.batch
        assert part is not None
        self._until = min(now + LENT_S, one.line.due())
        self._lent = one
        self.lane.lend(one.sock.fileno(), self._epoll, part.fd, part.start, part.size, batch, end)

    def acknowledged_by(self, one: ListenerLine) -> int:
        """Return the log offset below which a follower has the log; -1 before its first report."""
        known = one.line.acknowledged
        return max(known, self.lane.acknowledged) if one is self._lent else known

    def close(self) -> None:
        """Lend nothing any more; return when no put has a line."""
        self.lane.refuse()
        while not self._is_held:
            self._is_held = self.lane.take(0.01)
        self._lent = None
        self.lane.end()

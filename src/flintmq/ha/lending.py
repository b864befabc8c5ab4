"""Lends the one line of a listener to the threads that put.

A put that waits for one replica then sends its record by itself and waits for the report, in one compiled call
(kernels/replica_lane.py). The listener's thread takes the line back at each of its turns, notes what was exchanged, does
what is due, and lends it again if nothing is under way.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from flintmq.config.keys import StoreConfig
from flintmq.ha.frames import FRAME_HEADER, FrameHeader
from flintmq.kernels.replica_lane import ReplicaLane, native
from flintmq.storage.filesystem import Effects
from flintmq.store.listening import ListenOptions

if TYPE_CHECKING:
    from flintmq.ha.listener import Line

EXCHANGE_S: Final = 0.05
"""Seconds that a put keeps a line at most; then it waits as others do."""


def may_lend(options: ListenOptions, config: StoreConfig, effects: Effects) -> bool:
    """Return whether lines may be lent: the files of the log have what a put appended, and all of it may be sent."""
    return (
        native()
        and type(effects) is Effects
        and config.broker_role == "SYNC_MASTER"
        and config.in_sync_replicas == 2
        and config.flush_disk_type == "ASYNC_FLUSH"
        and not config.transient_store_pool_enable
        and not config.ha_flow_control_enable
        and not options.durable_only
    )


class Lending:
    """The lane of a listener, and the line that it has.

    Args:
        bell: descriptor to which a byte is sent if the listener wanted the line and did not get it.
        epoll: descriptor of the listener's selector.

    Thread: the listener's.
    """

    def __init__(self, bell: int, epoll: int) -> None:
        self.lane = ReplicaLane(bell)
        self._epoll = epoll
        self._lent: Line | None = None
        self._is_held = False

    def take_back(self, seconds: float = 0.0) -> bool:
        """Take the lane; return False if a put has it now, which rings when it ends."""
        self._is_held = self._is_held or self.lane.take(seconds)
        return self._is_held

    def is_away(self, one: Line) -> bool:
        """Return whether a put has this line now."""
        return one is self._lent and not self._is_held

    def absorb(self) -> Line | None:
        one, self._lent = self._lent, None
        if one is None:
            return None
        facts = self.lane.facts()
        if facts.wrote:
            if facts.next > facts.sent:
                one.head = FRAME_HEADER.pack(FrameHeader(one.line.next, facts.next - one.line.next))[12 - facts.head_left :] if facts.head_left else b""
                one.left = facts.next - facts.sent
        one.line.exchanged(facts.next, facts.sent, facts.report, facts.wrote, facts.received)
        return one

    def settle(self, lines: list[Line], end: int) -> None:
        """Lend the line if it is the only one, and idle; give the lane free."""
        if not self._is_held:
            return
        self._is_held = False
        going = [one for one in lines if one.line.sent >= 0]
        if len(going) == 1 and going[0].is_idle(end):
            one = going[0]
            part = one.part
            assert part is not None
            self._lent = one
            self.lane.lend(one.sock.fileno(), self._epoll, part.fd, part.start, part.size, one.line.rules.batch, one.line.next)
        else:
            self.lane.close()

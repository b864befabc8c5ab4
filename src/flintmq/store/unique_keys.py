"""Unique keys: the id that RocketMQ's client gives each message it sends (property UNIQ_KEY), by which it can be found.

Source: upstream MessageClientIDSetter (createUniqID, setUniqID). An id is upper-case hex of: the address of this
machine (4 bytes), the process id (2), the hash of the class loader (4), the time since the month began in ms (4), a
counter (2). Instead of that hash four bytes are drawn, for each store that is opened and again each month, so that
neither a second store of this process, nor another process with the same address and number (containers), nor the same
moment of another month gives an id twice. Upstream's counter comes round after 65,536 ids, also within one
millisecond; here the time moves on with it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime

from flintmq.format.properties import UNIQ_KEY
from flintmq.message import Message
from flintmq.storage.effects import Effects

COUNTER_BITS = 16


class UniqueKeys:
    """Gives ids.

    Args:
        effects: the clock, this machine's address, random bytes.

    Thread: any. A child made by fork opens a store of its own, and so has a prefix of its own.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects, self._lock = effects, threading.Lock()
        self._begin = self._end = 0
        self._prefix, self._last = "", -1

    def take(self, count: int) -> list[str]:
        """So many ids, each of which no other call gives."""
        with self._lock:
            now = self._effects.now_ms()
            if not self._begin <= now < self._end:
                self._start_month(now)
            following = self._last + 1
            free_running = following & ((1 << COUNTER_BITS) - 1)
            first = max(following, (now - self._begin) << COUNTER_BITS | free_running)
            self._last = first + count - 1
            prefix = self._prefix
        return [f"{prefix}{number:012X}" for number in range(first, first + count)]

    def keyed(self, message: Message) -> Message:
        """The message with an id; itself if it has one, or a property string that is encoded already."""
        if message.properties_bytes is not None or (message.properties and UNIQ_KEY in message.properties):
            return message
        one = message.copied()
        one.properties = {**(message.properties or {}), UNIQ_KEY: self.take(1)[0]}
        return one

    def shared(self, properties: Mapping[str, str] | None) -> dict[str, str]:
        """A batch's own properties with an id."""
        given = dict(properties or {})
        return given if UNIQ_KEY in given else given | {UNIQ_KEY: self.take(1)[0]}

    def _start_month(self, now: int) -> None:
        first = datetime.fromtimestamp(now / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        self._begin, self._end = (round(month.timestamp() * 1000) for month in (first, after))
        process = self._effects.process_id() & 0xFFFF
        self._prefix = (self._effects.own_address() + process.to_bytes(2, "big") + self._effects.random_bytes(4)).hex()
        self._prefix, self._last = self._prefix.upper(), -1

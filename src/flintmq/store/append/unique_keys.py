"""Unique keys: the id that RocketMQ's client gives each message it sends (property UNIQ_KEY), by which it can be found.

Source: upstream MessageClientIDSetter (createUniqID, setUniqID). An id is upper-case hex of: the address of this
machine (4 bytes), the process id (2), the hash of the class loader (4), the time since the month began in local time,
in ms (4), a counter (2). A message that has one keeps it, whatever it is.

Where this is not upstream's, and why:
- Instead of that hash four bytes are drawn, for each store that is opened and again each month, so that neither a
  second store of this process, nor another process with the same address and number (containers), nor the same moment
  of another month gives an id twice.
- Upstream's counter comes round after 65,536 ids, also within one millisecond; here the time moves on with it.
- A clock that was set back behind the month's begin starts that month anew; upstream counts a negative time.
- A machine without an IPv4 address has four drawn bytes for it; upstream takes 16 bytes of IPv6, or four of its clock.
- The id is not set in the sender's Message, which several threads may put: one that is put again gets another id.
- A batch of many records has no id of its own: upstream's client gives it one too, which 5.3.3 then stores behind each
  message's own, and so hides that. An inner batch, which is one record, has one as upstream's.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime

from flintmq.format.message_id import unique_key
from flintmq.format.properties import UNIQ_KEY
from flintmq.kernels.unique_keys import Numbers
from flintmq.message import Message
from flintmq.storage.filesystem import Effects


class UniqueKeys(Numbers):
    """Gives ids.

    Args:
        effects: the clock, this machine's address, random bytes.

    Thread: any. A child made by fork opens a store of its own, and so has a prefix of its own.
    """

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self._effects, self._lock = effects, threading.Lock()

    def numbers(self, count: int) -> tuple[bytes, int]:
        """A prefix, and the first of so many numbers behind it: ids that no other call gives."""
        with self._lock:
            now = self._effects.now_ms()
            first = self.reserve(now, count)
            if first < 0:
                self._start_month(now)
                first = self.reserve(now, count)
            assert first >= 0  # the month that has just begun has room for them
            return self.prefix, first

    def take(self, count: int) -> list[str]:
        """So many ids, each of which no other call gives."""
        prefix, first = self.numbers(count)
        return [unique_key(prefix, number) for number in range(first, first + count)]

    def add_to(self, message: Message) -> None:
        """Give the message an id, unless it has one, or a property string that is encoded already."""
        if message.properties_bytes is None:
            message.properties = self.shared(message.properties)

    def shared(self, properties: Mapping[str, str] | None) -> dict[str, str]:
        """These properties with an id."""
        given = dict(properties or {})
        return given if UNIQ_KEY in given else given | {UNIQ_KEY: self.take(1)[0]}

    def _start_month(self, now: int) -> None:
        first = datetime.fromtimestamp(now / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        begin, end = (round(month.timestamp() * 1000) for month in (first, after))
        process = self._effects.process_id() & 0xFFFF
        prefix = self._effects.own_address() + process.to_bytes(2, "big") + self._effects.random_bytes(4)
        self.start(begin, end, prefix.hex().upper().encode())

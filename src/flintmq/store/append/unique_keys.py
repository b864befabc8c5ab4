"""Unique keys: ids as RocketMQ's client gives each message (property UNIQ_KEY).

A message can be found by its id. An id is upper-case hex of: the address of this machine (4 bytes), the process id (2),
the hash of the class loader (4), the time since the month began in local time, in ms (4), a counter (2). A message that
has one keeps it, whatever it is. Upstream: MessageClientIDSetter (createUniqID, setUniqID).

Differences from upstream:
- Instead of that hash four random bytes are used, for each opened store and again each month, so that neither a second
store of this process, nor another process with the same address and number (containers), nor the same moment of another
month repeats an id.
- Upstream's counter overflows after 65,536 ids, also within one millisecond; here the time advances with it.
- A clock that was set back before the month's begin starts that month again; upstream counts a negative time.
- A machine without an IPv4 address uses four random bytes; upstream takes 16 bytes of IPv6, or four of its clock.
- The id is not set in the sender's Message, which several threads may put: one that is put again gets another id.
- A batch of many records has no id of its own. Upstream's client gives it one, which 5.3.3 stores after each message's
own and so hides that. An inner batch, which is one record, has one as in upstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from flintmq.format.message_id import unique_key
from flintmq.format.properties import UNIQ_KEY
from flintmq.kernels.write.unique_keys import Numbers
from flintmq.message import Message
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock


class UniqueKeys(Numbers):
    """Assigns ids.

    Thread: any. A forked child opens a store of its own, and so has its own prefix.
    """

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self._effects, self._lock = effects, Lock()

    def numbers(self, count: int) -> tuple[bytes, int]:
        """Reserve ids: return a prefix and the first of `count` numbers, used by no other call."""
        with self._lock:
            now = self._effects.now_ms()
            first = self.reserve(now, count)
            if first < 0:
                self._start_month(now)
                first = self.reserve(now, count)
            assert first >= 0  # the month that has just begun has room for them
            return self.prefix, first

    def take(self, count: int) -> list[str]:
        """Return `count` ids that no other call returns."""
        prefix, first = self.numbers(count)
        return [unique_key(prefix, number) for number in range(first, first + count)]

    def add_to(self, message: Message) -> None:
        """Give the message an id, unless it has one or an encoded property string."""
        if message.properties_bytes is None:
            message.properties = self.shared(message.properties)

    def shared(self, properties: Mapping[str, str] | None) -> dict[str, str]:
        given = dict(properties or {})
        return given if UNIQ_KEY in given else given | {UNIQ_KEY: self.take(1)[0]}

    def _start_month(self, now: int) -> None:
        first = datetime.fromtimestamp(now / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        begin, end = (round(month.timestamp() * 1000) for month in (first, after))
        process = self._effects.process_id() & 0xFFFF
        prefix = self._effects.own_address() + process.to_bytes(2, "big") + self._effects.random_bytes(4)
        self.start(begin, end, prefix.hex().upper().encode())

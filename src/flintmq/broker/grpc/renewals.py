"""Keeps messages invisible while the client that got them lives.

It does so where that asks for it (auto_renew). The push consumers of 5.x do: they say nothing of a message until they
are done with it. Each renewal makes a new receipt; the client goes on with the one that it got. Upstream:
ReceiptHandleProcessor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flintmq.broker.pop import Pops
from flintmq.broker.receipts import Receipt

RENEWED_MS: Final = 60_000  # for which a message is invisible each time
AHEAD_S: Final = 15.0  # before the end of that time
LOOK_S: Final = 5.0
LONGEST_S: Final = 3 * 3600.0  # after which it comes again although its client lives
GONE_MS: Final = 1000  # after the end of a client


@dataclass(slots=True)
class _Renewed:
    group: str
    topic: str
    receipt: Receipt  # the newest
    since: float
    until: float  # when it becomes visible


class Renewals:
    """The messages that are renewed, by client, group, topic and receipt. Thread: the loop's.

    `lives`: whether a client of this id is here.
    """

    def __init__(self, pops: Pops, lives: Callable[[str], bool]) -> None:
        self._pops, self._lives = pops, lives
        self._kept: dict[str, dict[tuple[str, str, Receipt], _Renewed]] = {}

    def add(self, client: str, group: str, topic: str, receipt: Receipt) -> None:
        """Keep a message invisible from now on, until `take` or the client's end."""
        now = time.monotonic()
        of_client = self._kept.setdefault(client, {})
        of_client[group, topic, receipt] = _Renewed(group, topic, receipt, now, now + RENEWED_MS / 1000)

    def take(self, client: str, group: str, topic: str, receipt: Receipt) -> Receipt:
        """Return the newest receipt of a message; it is renewed no more.

        A receipt names no group and no topic, and client ids are no secret: what is of another group stays.
        """
        of_client = self._kept.get(client)
        found = None if of_client is None else of_client.pop((group, topic, receipt), None)
        if of_client is not None and not of_client:
            del self._kept[client]
        return receipt if found is None else found.receipt

    def gone(self, client: str) -> None:
        """Have the messages of a client that has ended come again."""
        for one in self._kept.pop(client, {}).values():
            self._pops.change(one.group, one.topic, one.receipt, GONE_MS)

    async def keep(self) -> None:
        """Renew, again and again."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.renew()

    def renew(self) -> None:
        """Renew what becomes visible soon."""
        now = time.monotonic()
        for client, of_client in list(self._kept.items()):
            for told, one in list(of_client.items()):
                if one.until - now > AHEAD_S:
                    continue
                ends = now - one.since > LONGEST_S or not self._lives(client)
                changed = None if ends else self._pops.change(one.group, one.topic, one.receipt, RENEWED_MS)
                if changed is None:  # acknowledged by somebody else, or it ends: nobody renews it any more
                    del of_client[told]
                else:
                    one.receipt, one.until = changed, now + RENEWED_MS / 1000
            if not of_client:
                del self._kept[client]

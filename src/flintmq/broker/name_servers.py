"""Keeps a broker registered at name servers, with its topics, until it stops."""

from __future__ import annotations

import asyncio
from typing import Final

from flintmq.broker.routes import Routes
from flintmq.broker.served import READABLE
from flintmq.ha.registration import Registration, Topics

LOOK_S: Final = 1.0  # until a new topic is registered
ANSWER_S: Final = 2.0  # for an answer of a name server: a stop waits for it


class NameServers:
    """The name servers of one broker. Thread: the loop's.

    Args:
        servers: their addresses, `HOST:PORT;HOST:PORT`.
        address: of the broker, for clients.
        read_only: whether it takes no sends.
    """

    def __init__(self, servers: str, routes: Routes, address: str, read_only: bool) -> None:
        self._servers, self._routes, self._address, self._read_only = servers, routes, address, read_only
        self._registration: Registration | None = None
        self._telling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Register at each of them, if there are any.

        Raises:
            OSError: none of them answers.
            RemotingError: one refuses, or has another broker of this name.
        """
        if not self._servers:
            return
        registration = Registration(
            self._servers,
            broker=self._routes.name,
            cluster=self._routes.cluster,
            ha_address=self._address,  # nobody follows there: a slave that tries is hung up
            broker_address=self._address,
            topics=self._topics(),
            timeout_s=ANSWER_S,
        )
        self._registration = registration
        await asyncio.to_thread(registration.start)
        self._telling = asyncio.get_running_loop().create_task(self._keep_telling(registration))

    async def stop(self) -> None:
        """Take the registration back."""
        if self._telling is not None:
            self._telling.cancel()
        if self._registration is not None:
            await asyncio.to_thread(self._registration.close)

    async def _keep_telling(self, registration: Registration) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            registration.tell(self._topics())

    def _topics(self) -> Topics:
        """Return the topics; those of a read-only broker as read-only ones.

        A producer would send to it in its turn.
        """
        bits = READABLE if self._read_only else -1
        facts = self._routes.facts().items()
        return {name: (one.read_queues, one.write_queues, one.perm & bits) for name, one in facts}

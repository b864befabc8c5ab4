"""Accepts connections, sees what they speak, and ends those that break a limit."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from flintmq.broker.connection import ClientConnection, ClientLine
from flintmq.broker.remoting_line import RemotingLine
from flintmq.broker.requests import PlainTaker
from flintmq.broker.tls import DISABLED, ENFORCING, PERMISSIVE, TlsLayer
from flintmq.errors import FormatError, MissingExtraError, UsageError
from flintmq.remoting.client import join_address
from flintmq.remoting.frames import RemotingFrame

CONNECTIONS_MAX: Final = 10_000
OF_ONE_HOST_MAX: Final = 2_000
RECEIVED_MAX: Final = 256 << 10  # bytes of one read of a socket
END_LOOK_S: Final = 0.005  # between two looks whether all connections have ended
SWEEP_S: Final = 5.0  # between two looks for connections that are silent
_HTTP2: Final = ord("P")  # of `PRI * HTTP/2.0`


class BrokerListener:
    """All listeners of a broker, and the connections that came by them. Thread: the loop's.

    Args:
        take: gets each frame.
        left: gets each connection that has ended.

    Attributes, set before `serve`:
        plain: take plain requests, see RemotingLine.
        http2: makes what speaks HTTP/2; it raises MissingExtraError. None: nobody does.
        tls: serves TLS; None: nobody does.
        tls_mode: one of `tls.MODES`.
    """

    def __init__(
        self, take: Callable[[RemotingFrame, ClientConnection], None], left: Callable[[ClientConnection], None]
    ) -> None:
        self._take, self._left = take, left
        self.plain: Sequence[PlainTaker] = ()
        self.http2: Callable[[ClientConnection], ClientLine] | None = None
        self.tls: ssl.SSLContext | None = None
        self.tls_mode = PERMISSIVE
        self._servers: list[asyncio.Server] = []
        self._connections: set[ClientConnection] = set()
        self._of_host: Counter[str] = Counter()
        self._sweeping: asyncio.Task[None] | None = None
        self._into = memoryview(bytearray(RECEIVED_MAX))
        self.accepted = self.broken = 0
        self.port = 0  # of the first address

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def bind(self, host: str, port: int) -> str:
        """Take one more address; return it, with the port that port 0 became.

        Nobody is accepted before `serve`.

        Raises UsageError: the address cannot be listened at.
        """
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(self._connection, host, port, backlog=1024, start_serving=False)
        except OSError as error:
            raise UsageError(f"cannot listen at {join_address(host, port)}: {_reason(error)}") from None
        self._servers.append(server)
        sock: socket.socket = server.sockets[0]
        host, bound = sock.getsockname()[:2]
        self.port = self.port or bound
        return join_address(host, bound)

    async def serve(self) -> None:
        """Accept clients from now on."""
        for server in self._servers:
            await server.start_serving()
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep())

    async def stop(self) -> None:
        """Accept nobody any more, and take no more requests. Connections stay."""
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.is_ending = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping

    async def end(self, seconds: float) -> None:
        """End all connections after what is to be sent; those that take it no longer than this."""
        for connection in list(self._connections):
            connection.end()
        deadline = time.monotonic() + seconds
        while self._connections and time.monotonic() < deadline:
            for connection in list(self._connections):
                if connection.has_all():
                    connection.end_now()
            await asyncio.sleep(END_LOOK_S)
        for connection in list(self._connections):
            connection.end_now()

    def _connection(self) -> ClientConnection:
        return ClientConnection(self._into, self._line, self._tls, self._opened, self._closed)

    def _line(self, connection: ClientConnection, first: int) -> ClientLine:
        """Return what a connection speaks, by its first byte."""
        if self.tls_mode == ENFORCING and not connection.is_encrypted:
            raise FormatError("it speaks without TLS, and tls.server.mode is enforcing")
        if first != _HTTP2:
            return RemotingLine(connection, self._take, self.plain)
        if self.http2 is None:
            raise FormatError("it speaks HTTP/2 (gRPC), which a broker that only reads does not serve")
        try:
            return self.http2(connection)
        except MissingExtraError as error:
            raise FormatError(f"it speaks HTTP/2: {error}") from None

    def _tls(self) -> TlsLayer:
        if self.tls is None or self.tls_mode == DISABLED:
            raise FormatError("it speaks TLS, for which this broker has no certificate; see --tls-self-signed")
        return TlsLayer(self.tls)

    def _opened(self, connection: ClientConnection) -> str | None:
        self.accepted += 1
        self._connections.add(connection)
        self._of_host[connection.host] += 1
        if len(self._connections) > CONNECTIONS_MAX:
            return f"there are {CONNECTIONS_MAX} already"
        if self._of_host[connection.host] > OF_ONE_HOST_MAX:
            return f"{connection.host} has {OF_ONE_HOST_MAX} already"
        return None

    def _closed(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        self.broken += connection.is_broken
        self._of_host[connection.host] -= 1
        if not self._of_host[connection.host]:
            del self._of_host[connection.host]
        self._left(connection)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            for connection in list(self._connections):
                connection.check(now)


def _reason(error: OSError) -> str:
    """Return the system's words, which the loop replaces by longer ones."""
    number = error.errno
    return os.strerror(number) if number is not None and number in errno.errorcode else str(error.strerror or error)

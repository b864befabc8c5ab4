"""Serves GET /metrics over HTTP, with the standard library.

There is no authentication and no encryption: whoever reaches the address can read names of topics and groups.
"""

from __future__ import annotations

import io
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from flintmq.errors import FlintError, UsageError
from flintmq.metrics.page import CONTENT_TYPE

log = logging.getLogger("flintmq.metrics")

SCRAPES = 4
"""Scrapes that are answered at the same time; a further one is told to come again."""
IDLE_S = 10.0
"""Seconds that a client has for its request."""
PLAIN = "text/plain; charset=utf-8"


class HttpServer(ThreadingHTTPServer):
    """A server of one address, which answers while `serving`.

    Args:
        option: which names the address, for errors.
        port: 0 for any free one.

    Raises UsageError: the address cannot be used.
    """

    daemon_threads = True  # a client that reads nothing must not keep the process from ending
    request_queue_size = 128  # clients that come at once
    connections_max = 32  # at a time; each takes a descriptor and a thread of the process

    def __init__(self, option: str, host: str, port: int, handler: type[HttpHandler]) -> None:
        self._open = set[Any]()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), handler)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"{option} {host}:{port}: {reason}; give another address") from None

    def server_bind(self) -> None:
        """Bind the socket, without asking a name server for the host's name as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread; close it at once where too many are open."""
        if len(self._open) >= self.connections_max:
            log.info("%s: connection closed: %d are open", client_address, len(self._open))
            return self.shutdown_request(request)
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}"

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Answer in a thread of its own, until the end of a `with` block."""
        threading.Thread(target=self.serve_forever, name="flintmq-http", daemon=True).start()
        try:
            yield self
        finally:
            self.shutdown()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a request that failed, mostly because the client went away."""
        log.info("a request of %s ended early", client_address, exc_info=True)


class HttpHandler(BaseHTTPRequestHandler):
    """One connection of a client."""

    timeout = IDLE_S
    server_version = "flintmq"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_RequestBytes(self.connection))

    def answer(self, status: int, kind: str, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log a request where the program wants to see such lines; http.server prints them."""
        log.debug(format, *args)


class _RequestBytes(io.RawIOBase):
    """The bytes of a request, which has to be there within IDLE_S, in whatever pieces it comes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._until = connection, time.monotonic() + IDLE_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(max(self._until - time.monotonic(), 0.001))
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(IDLE_S)


class MetricsServer(HttpServer):
    """Serves a text as metrics. `text`: makes it, for each request anew."""

    def __init__(self, host: str, port: int, text: Callable[[], str], option: str = "--listen") -> None:
        self.text, self.scrapes = text, threading.BoundedSemaphore(SCRAPES)
        super().__init__(option, host, port, _MetricsHandler)

    @property
    def url(self) -> str:
        return f"{super().url}/metrics"


class _MetricsHandler(HttpHandler):
    server: MetricsServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self.answer(200, PLAIN, "FlintMQ: the metrics are at /metrics\n")
        elif path != "/metrics":
            self.answer(404, PLAIN, "only /metrics is here\n")
        elif not self.server.scrapes.acquire(blocking=False):
            self.answer(503, PLAIN, f"{SCRAPES} scrapes are being answered; come again\n")
        else:
            try:
                text = self.server.text()
            except (FlintError, OSError) as error:
                self.answer(503, PLAIN, f"{error}\n")
            else:
                self.answer(200, CONTENT_TYPE, text)
            finally:
                self.server.scrapes.release()

    do_HEAD = do_GET

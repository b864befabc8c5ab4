"""Serves GET /metrics over HTTP, with the standard library.

There is no authentication and no encryption: whoever reaches the address can read names of topics and groups.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from flintmq.errors import FlintError, UsageError
from flintmq.metrics.page import CONTENT_TYPE
from flintmq.metrics.stores import StoresWatch

log = logging.getLogger("flintmq.metrics")

SCRAPES = 4
"""Scrapes that are answered at the same time; a further one is told to come again."""
IDLE_S = 10.0
"""Seconds that a client has for its request."""
PLAIN = "text/plain; charset=utf-8"


class MetricsServer(ThreadingHTTPServer):
    """A server of one address; `serve_forever` answers until `shutdown`.

    `port`: 0 for any free one.
    """

    daemon_threads = True  # a client that reads nothing must not keep the process from ending

    def __init__(self, host: str, port: int, watch: StoresWatch) -> None:
        self.watch, self.scrapes = watch, threading.BoundedSemaphore(SCRAPES)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"--listen {host}:{port}: {reason}; give another address") from None

    def server_bind(self) -> None:
        """Bind the socket, without asking a name server for the host's name as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/metrics"

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a request that failed, mostly because the client went away."""
        log.info("a request of %s ended early", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = IDLE_S
    server_version = "flintmq"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._answer(200, PLAIN, "FlintMQ: the metrics are at /metrics\n")
        elif path != "/metrics":
            self._answer(404, PLAIN, "only /metrics is here\n")
        elif not self.server.scrapes.acquire(blocking=False):
            self._answer(503, PLAIN, f"{SCRAPES} scrapes are being answered; come again\n")
        else:
            try:
                text = self.server.watch.text()
            except (FlintError, OSError) as error:
                self._answer(503, PLAIN, f"{error}\n")
            else:
                self._answer(200, CONTENT_TYPE, text)
            finally:
                self.server.scrapes.release()

    do_HEAD = do_GET

    def _answer(self, status: int, kind: str, text: str) -> None:
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

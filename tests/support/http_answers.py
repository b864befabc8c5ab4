"""A server on loopback whose answers a test gives."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str  # with its query, as it was sent
    headers: Message
    body: bytes


Answer = tuple[int, dict[str, str], bytes]  # status, headers, body; its length is told unless a header tells another


@contextmanager
def answering(answer: Callable[[Asked], Answer | None]) -> Iterator[str]:
    """Answer one request at a time, each on a line of its own; None: the line breaks. Gives the server's URL."""
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with one_at_a_time:
                told = answer(Asked(self.command, self.path, self.headers, body))
            if told is None:
                self.connection.close()
                return
            status, headers, data = told
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Nothing: lines break here on purpose."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

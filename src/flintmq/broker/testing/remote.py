"""Offers a broker to tests in other languages: a method of BrokerControl is a POST.

    POST URL/wait   {"topic": "orders", "count": 1, "timeout": 5}
    200             {"result": [{"topic": "orders", "body": "dGVh", ...}]}

The URL has a secret. So neither other users of this machine nor pages in a browser on it can call anything, also not by
a name of theirs that leads here (DNS rebinding). A refusal is an object with `error`: 400 arguments that cannot be, 403
another secret, 404 no such method, 409 what was waited for did not come in time, 411 and 413 a body without a length or
too long, 429 too many calls at once, 500 an error of the broker, 501 no POST.

A call whose client has gone waits no more.
"""

from __future__ import annotations

import base64
import inspect
import json
import secrets
import select
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, get_args, get_type_hints

from flintmq.broker.testing.chaos import ClientRequest
from flintmq.broker.testing.control import BrokerControl, gives_up
from flintmq.errors import FlintError, UsageError
from flintmq.message import StoredMessage
from flintmq.metrics.server import HttpHandler, HttpServer

METHODS: Final = frozenset({
    "wait", "messages", "dead_letters", "lag", "wait_consumed", "requests", "fail", "drop_connections", "delay", "calm",
    "advance", "reset", "metrics", "stop", "restart", "kill",
})  # fmt: skip
_ALONE: Final = frozenset({"reset", "stop", "restart", "kill"})  # one at a time
BODY_MAX: Final = 64 << 10  # bytes of arguments
ANSWER_MAX: Final = 64 << 20  # letters of a result
CALLS_MAX: Final = 64  # at a time
_JSON: Final = "application/json"


class ControlServer(HttpServer):
    """Serves the methods of one control.

    Args:
        port: 0 for any free one.
        option: which names the address, for errors.

    Raises UsageError: the address cannot be used.
    """

    connections_max = 2 * CALLS_MAX  # so that one call too many gets its 429

    def __init__(self, host: str, port: int, control: BrokerControl, option: str = "--control") -> None:
        self.control, self.secret = control, secrets.token_urlsafe(16)
        self.calls, self.alone = threading.BoundedSemaphore(CALLS_MAX), threading.Lock()
        super().__init__(option, host, port, _ControlHandler)

    @property
    def url(self) -> str:
        """Return the URL below which the methods are, with its secret."""
        return f"{super().url}/{self.secret}"

    def server_close(self) -> None:
        """Wait for a start or an end of the broker that is under way.

        None begins any more, so the process may end.
        """
        super().server_close()
        self.alone.acquire()

    def call(self, name: str, told: object) -> object:
        """Call a method by its name.

        Raises:
            UsageError: arguments that cannot be.
            TimeoutError, FlintError, OSError: as the method.
        """
        method = getattr(self.control, name)
        arguments = _arguments(method, told)
        if name not in _ALONE:
            return method(**arguments)
        with self.alone:
            return method(**arguments)


class _ControlHandler(HttpHandler):
    server: ControlServer

    def do_POST(self) -> None:
        secret, _, name = self.path[1:].partition("/")
        length = self.headers.get("Content-Length", "" if "Transfer-Encoding" in self.headers else "0")
        if not secrets.compare_digest(secret.encode(), self.server.secret.encode()):
            self._refuse(403, "this is not the URL that the broker named when it was ready")
        elif name not in METHODS:
            self._refuse(404, f"no method {name[:40]!a}; there are {', '.join(sorted(METHODS))}")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(411, "give the length of the body, Content-Length")
        elif len(length) > 9 or int(length) > BODY_MAX:
            self._refuse(413, f"a body has at most {BODY_MAX} bytes")
        elif not self.server.calls.acquire(blocking=False):
            self._refuse(429, f"{CALLS_MAX} calls are under way; come again")
        else:
            try:
                self._call(name, self.rfile.read(int(length)))
            finally:
                self.server.calls.release()

    def _call(self, name: str, body: bytes) -> None:
        gives_up.set(self._is_gone)
        try:
            found = self.server.call(name, json.loads(body or b"{}"))
            text = json.dumps({"result": [_shown(one) for one in found] if isinstance(found, list) else found})
            if len(text) > ANSWER_MAX:
                raise UsageError(f"the result has {len(text)} letters; {ANSWER_MAX} are the most")
        except TimeoutError as error:
            self._refuse(409, str(error))
        except (UsageError, TypeError, ValueError, RecursionError) as error:
            self._refuse(400, str(error))
        except (FlintError, OSError) as error:
            self._refuse(500, str(error))
        else:
            self.answer(200, _JSON, text)

    def _is_gone(self) -> bool:
        """Return whether the client has closed its connection."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of ours in our form; http.server has pages of HTML."""
        self._refuse(code, message or self.responses[code][0])

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing: the line has the secret."""

    def _refuse(self, status: int, why: str) -> None:
        self.answer(status, _JSON, json.dumps({"error": why}))


def _arguments(method: Callable[..., object], told: object) -> dict[str, Any]:
    """Return the arguments of a call.

    Raises UsageError: they are not those of the method.
    """
    if not isinstance(told, dict):
        raise UsageError("the body is no object")
    try:
        inspect.signature(method).bind(**told)
    except TypeError as error:
        raise UsageError(str(error)) from None
    for name, kind in get_type_hints(method).items():
        kinds = get_args(kind) or (kind,)
        if name in told and type(told[name]) not in ((*kinds, int) if float in kinds else kinds):
            raise UsageError(f"{name}={told[name]!a:.100}: give {inspect.formatannotation(kind)}")
    return told


def _shown(one: StoredMessage | ClientRequest) -> dict[str, Any]:
    """Return a message with the keys of `flintmq scan --json`, or what a client asked."""
    if isinstance(one, ClientRequest):
        return one._asdict()
    return {**one.as_row(), "body": base64.b64encode(one.body).decode()}

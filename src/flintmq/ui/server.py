"""Listens at an address until a signal comes."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from flintmq.errors import UsageError
from flintmq.ui.app import Ui, make_app
from flintmq.ui.connection import PatientProtocol
from flintmq.ui.guard import RequestGuard, is_loopback

TOKEN = "FLINTMQ_UI_TOKEN"
TOKEN_CHARS = 16
HEAD_BYTES = 16 << 10
CONNECTIONS = 400
BACKLOG = 256
END_S = 2


class UiServer:
    """Serves pages.

    Args:
        port: 0 for any free one.

    Raises UsageError: the address cannot be used, or the token of the environment is too short.
    """

    def __init__(self, ui: Ui, host: str, port: int) -> None:
        self.ui, self.host = ui, host
        self.token = "" if is_loopback(host) else given_token()
        self._socket = bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        logging.getLogger("uvicorn").addHandler(logging.NullHandler())
        logging.getLogger("uvicorn").propagate = False
        self._server = uvicorn.Server(
            uvicorn.Config(
                RequestGuard(make_app(ui), host, self.token),
                http=PatientProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=HEAD_BYTES,
                limit_concurrency=CONNECTIONS,
                timeout_graceful_shutdown=END_S,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="flintmq-ui", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def __enter__(self) -> UiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ui.close()
        self._server.should_exit = True
        self._thread.join(END_S + 2)


def given_token() -> str:
    """Return the token of the environment, or a new one."""
    token = os.environ.get(TOKEN)
    if token is None:
        return secrets.token_urlsafe(24)
    if len(token) < TOKEN_CHARS:
        raise UsageError(f"{TOKEN} has {len(token)} characters; give {TOKEN_CHARS} at least, or unset it for a new one")
    return token


def bound(host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        found.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--listen {host}:{port}: {reason}; give another address") from None
    return found


def serve(ui: Ui, host: str, port: int, note: Callable[[str], None], wait: Callable[[], object], show: bool) -> None:
    """Serve pages until `wait` returns; `show`: open them in a browser."""
    with UiServer(ui, host, port) as server:
        if server.token:
            word = f"that of {TOKEN}" if TOKEN in os.environ else server.token
            note(f"{host} is no address of this machine alone, and what is read there is not encrypted")
            note(f"the password is {word}, with any user name")
        count = len(ui.stores)
        note(f"serving {server.url} of {count} store{'s' * (count != 1)}, until Ctrl-C or SIGTERM")
        if show:
            with suppress(webbrowser.Error):
                threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        # The first look reads all queues; who opens the page some seconds later does not wait for it.
        threading.Thread(target=ui.stores.looks, name="flintmq-ui-looks", daemon=True).start()
        wait()

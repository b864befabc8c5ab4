"""Refuses who should not ask, before a page is made; adds the headers that keep a page's text from being run.

A page of another site can make a browser ask this server. A name that leads to this machine only by trick of DNS is
told by the header Host; another site's script or form by Origin and Sec-Fetch-Site; a form that was not made here by
the key in it. On an address that others reach a password is asked for as well, by HTTP Basic: unlike a link with a
token in it, that is in no history and no log, and a browser sends it with events and forms too, without cookies.
"""

from __future__ import annotations

import binascii
import hmac
import ipaddress
import socket
from base64 import b64decode
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NULL = "null"  # the origin of forms under `no-referrer`


class RequestGuard:
    """Answers for an app, or refuses.

    Args:
        host: the address that is listened at.
        token: the password; "" where only this machine can ask.
    """

    def __init__(self, app: ASGIApp, host: str, token: str = "") -> None:
        self.app, self.token = app, token.encode()
        self._local = is_loopback(host)
        self._names = {"localhost"} if self._local else {"localhost", host.lower(), *own_names()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self.refuse(Headers(scope=scope), scope["method"])
        await (refused or self.app)(scope, receive, guarded)

    def refuse(self, headers: Headers, method: str) -> PlainTextResponse | None:
        """Return the answer to a request that is refused."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.is_here(hosts[0]):
            return PlainTextResponse("this server answers to its address and to localhost alone\n", 421)
        for origin in headers.getlist("origin"):
            if origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}") and not (
                origin == NULL and method == "POST"
            ):
                return PlainTextResponse("pages of other sites may not ask this server\n", 403)
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return PlainTextResponse("pages of other sites may not ask this server\n", 403)
        if self.token and not self.is_known(headers.get("authorization", "")):
            asked = {"WWW-Authenticate": 'Basic realm="flintmq", charset="UTF-8"'}
            return PlainTextResponse("the password is the token that `flintmq ui` printed\n", 401, asked)
        return None

    def is_here(self, host: str) -> bool:
        """Return whether a Host is an address, or a name that nobody else can give to this machine."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.startswith("[") and name.endswith("]"):
            name = name[1:-1]
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._names
        return address.is_loopback if self._local else True

    def is_known(self, authorization: str) -> bool:
        """Return whether the password is the token; the time that it takes says nothing about it."""
        kind, _, given = authorization.partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            password = b64decode(given, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(password, self.token)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def own_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0]}

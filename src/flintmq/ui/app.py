"""The app: its routes, the threads that read stores, limits of time, and errors as pages."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from flintmq.cli.body_option import Bodies
from flintmq.cli.output import error_line
from flintmq.cluster.member import Member
from flintmq.config.key_effects import text_of
from flintmq.config.keys import StoreConfig
from flintmq.errors import (
    FlintError,
    MessageNotFoundError,
    NotAStoreError,
    StoreAccessError,
    UnfinishedError,
    UnknownTopicError,
    UsageError,
)
from flintmq.ui import export, groups, health, messages, overview, search, tail, topics, waiting
from flintmq.ui.asked import Ask
from flintmq.ui.background import BackgroundCheck
from flintmq.ui.export import NamedTable, TableCheck
from flintmq.ui.health import StoreCheck
from flintmq.ui.page import UiPage, pieces, rendered
from flintmq.ui.stores import OpenStore, Stores
from flintmq.ui.streaming import Streamed, in_threads

log = logging.getLogger("flintmq.ui")

THREADS = 8
SECONDS = 30.0
"""Of one page; a search and a tail have limits of their own."""
SEARCHES, TAILS = 4, 12
FORM_BYTES = 4096
TAKE_CONFIG = ("retention", "trace")
"""First words of the commands on pages that have `--config`."""
STATIC = {"ui.css": "text/css; charset=utf-8", "ui.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"}
STATUS: Sequence[tuple[type[Exception], int]] = (
    (MessageNotFoundError, 404), (UnknownTopicError, 404), (NotAStoreError, 404), (UsageError, 400),
    (UnfinishedError, 503), (StoreAccessError, 503), (FlintError, 500),
)  # fmt: skip
T = TypeVar("T")
Handler = Callable[["Ui", OpenStore | None, Ask], UiPage]

STORE_PAGES: dict[str, Handler] = {
    "": overview.store,
    "retention": overview.retention,
    "topics": topics.topics,
    "topic": topics.topic,
    "queue": topics.queue,
    "message": messages.message,
    "bytes": messages.bytes_of,
    "groups": groups.groups,
    "group": groups.group,
    "waiting": waiting.waiting,
    "tail": tail.tail,
    "health": health.health,
    "finding": health.finding,
}
"""Pages of one store, by the last part of their address."""
FORMS: dict[Handler, Sequence[str]] = {search.search: (), topics.queue: ("topic", "queue"), waiting.waiting: ()}
"""Pages with a form, which is shown again where a value is wrong; and the values that they cannot be without."""


class Ui:
    """What the pages of one server share.

    Args:
        settings: the words of `--set` that the server was given, for the commands on its pages; likewise
        broker_conf: its file of `--config`.
        table: of exports of these stores; None: none was named.

    Attributes:
        key: what a form must bring that was made here.
        closing: the server ends.
    """

    def __init__(
        self,
        members: Sequence[Member],
        config: StoreConfig,
        bodies: Bodies,
        settings: Sequence[str] = (),
        broker_conf: str | None = None,
        table: NamedTable | None = None,
    ) -> None:
        self.stores, self.bodies = Stores(members, config), bodies
        self.settings, keys = _set_words(settings), StoreConfig.of(broker_conf)
        self._by_keys = _set_words(f"{key}={text_of(keys, key)}" for key in sorted(keys.given))
        self._by_file = ["--config", broker_conf] if broker_conf else []
        self.key = secrets.token_urlsafe(16)
        self.checks: dict[int, StoreCheck] = {}
        self.table, self.comparison = table, cast("TableCheck | None", None)
        self.searches = threading.BoundedSemaphore(SEARCHES)
        self.tails, self.tails_most = 0, TAILS
        self.closing = threading.Event()
        self._limiter: CapacityLimiter | None = None

    def given_words(self, command: str = "") -> list[str]:
        """Return the words that make a command read as this server does, by the command's first word.

        Few commands take a broker.conf; the others get its keys.
        """
        return [*(self._by_file if command in TAKE_CONFIG else self._by_keys), *self.settings]

    @property
    def limiter(self) -> CapacityLimiter:
        """The threads that read stores; made in the loop that uses them."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(THREADS)
        return self._limiter

    @property
    def all_checks(self) -> list[BackgroundCheck[Any]]:
        return [*self.checks.values(), *([] if self.comparison is None else [self.comparison])]

    def close(self) -> None:
        self.closing.set()
        for check in self.all_checks:
            check.stop.set()


def _set_words(settings: Iterable[str]) -> list[str]:
    return [word for one in settings for word in ("--set", one)]


def make_app(ui: Ui) -> Starlette:
    static = {name: files("flintmq.ui").joinpath("static", name).read_bytes() for name in STATIC}

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            raise HTTPException(404)
        return Response(static[name], media_type=STATIC[name])

    routes = [
        Route("/", _page(ui, overview.home)),
        Route("/export", _page(ui, export.export), methods=["GET"]),
        Route("/export", partial(_act, ui), methods=["POST"]),
        Route("/search", _page(ui, search.search, streams=True)),
        Route("/static/{name}", file),
        Route("/{number}/body", partial(_body, ui)),
        Route("/{number}/tail/events", partial(_events, ui)),
        Route("/{number}/health", partial(_act, ui), methods=["POST"]),
    ]
    for name, handler in STORE_PAGES.items():
        routes.append(Route(f"/{{number}}/{name}", _page(ui, handler)))
    return Starlette(routes=routes, exception_handlers={HTTPException: partial(_no_page, ui)})


def _page(ui: Ui, handler: Handler, streams: bool = False) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        ask = Ask(request.query_params)
        number = request.path_params.get("number")

        def made(ask: Ask) -> UiPage:
            return handler(ui, None if number is None else ui.stores.at(number), ask)

        def whole() -> tuple[UiPage, str | None]:
            try:
                page = made(ask)
            except UsageError as error:
                if handler not in FORMS or ask.as_json:
                    raise
                page = made(Ask({name: ask.text(name) for name in FORMS[handler]}, ask.given))
                page.problem = str(error)
            page.self_link = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
            return page, None if ask.as_json or (streams and not page.problem) else rendered(ui, page)

        try:
            page, text = await _in_time(ui, whole)
        except Exception as error:
            return await _failure(ui, request, error)
        if text is not None:
            return Response(text, 400 if page.problem else 200, media_type="text/html")
        if ask.as_json:
            lines = iter(page.lines()) if page.lines is not None else iter(())
            return await _json(ui, request, lines)
        return Streamed(in_threads(_told(pieces(ui, page)), ui.limiter), media_type="text/html")

    return endpoint


async def _in_time(ui: Ui, work: Callable[[], T]) -> T:
    """Do work in a thread.

    Raises UnfinishedError: it takes too long; the thread ends by itself, and counts as one until then.
    """
    try:
        with anyio.fail_after(SECONDS):
            return await to_thread.run_sync(work, limiter=ui.limiter, abandon_on_cancel=True)
    except TimeoutError:
        raise UnfinishedError(
            f"it takes over {SECONDS:.0f} s; the command on the page before has no such limit"
        ) from None


async def _json(ui: Ui, request: Request, lines: Iterator[str]) -> Response:
    """Answer with lines of JSON; an error before the first is the answer's status."""
    try:
        first = await _in_time(ui, lambda: next(lines, None))
    except Exception as error:
        return await _failure(ui, request, error)

    def all_lines() -> Generator[str]:
        if first is None:
            return
        yield f"{first}\n" if first else ""
        try:
            for line in lines:
                yield f"{line}\n" if line else ""
        except (FlintError, OSError) as error:
            yield error_json(error)

    return Streamed(in_threads(all_lines(), ui.limiter), media_type=JSON)


JSON = "application/json"


def error_json(error: Exception) -> str:
    return error_line(error, str(error), getattr(error, "exit_code", 3), True) + "\n"


def _told(texts: Iterator[str]) -> Generator[str]:
    """Yield texts joined to pieces worth sending; of an error amid them its words, as text."""
    held: list[str] = []
    try:
        for text in texts:
            held.append(text)
            if "\n" in text and (len(held) > 64 or "</tr>" in text):
                yield "".join(held)
                held.clear()
    except (FlintError, OSError) as error:
        held.append(f"<p>{escape(str(error))}</p>")
    yield "".join(held)


async def _failure(ui: Ui, request: Request, error: Exception) -> Response:
    """Answer with what went wrong, and what is the nearest that is there."""
    if isinstance(error, ClientDisconnect):
        raise error
    if isinstance(error, OSError) and not isinstance(error, FlintError):
        error = StoreAccessError(f"{error.filename or ''}: {error.strerror or error}; it may be gone meanwhile")
    if isinstance(error, FlintError):
        status, text = next(code for kind, code in STATUS if isinstance(error, kind)), str(error)
    else:
        log.debug("a page failed", exc_info=error)
        status, text = 500, f"internal error: {type(error).__name__}; please report it with the address of this page"
    if request.query_params.get("format") == "json":
        return Response(error_json(error), status, media_type=JSON)
    number = request.path_params.get("number", "")
    number = number if len(ui.stores) > 1 else "0"
    store = next((one for one in ui.stores.all if str(one.number) == number), None)
    near = (getattr(error, "words", ""), getattr(error, "href", ""))
    page = UiPage("error.html", {404: "Not there", 400: "Not so"}.get(status, "Failed"), {"text": text, "near": near})
    page.store = store
    page.self_link = request.url.path
    return Response(await to_thread.run_sync(rendered, ui, page), status, media_type="text/html")


async def _no_page(ui: Ui, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return await _failure(ui, request, MessageNotFoundError("there is no such page; begin at the overview"))
    return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)


async def _body(ui: Ui, request: Request) -> Response:
    """Answer with a body's bytes, as a file: a browser must not show it as a page."""
    try:
        one = ui.stores.at(request.path_params["number"])
        data = await _in_time(ui, lambda: messages.body(ui, one, Ask(request.query_params)))
    except Exception as error:
        return await _failure(ui, request, error)
    headers = {"Content-Disposition": 'attachment; filename="body.bin"'}
    return Response(data, media_type="application/octet-stream", headers=headers)


async def _events(ui: Ui, request: Request) -> Response:
    try:
        one = ui.stores.at(request.path_params["number"])
        return Streamed(tail.events(ui, one, Ask(request.query_params)), media_type="text/event-stream")
    except Exception as error:
        return await _failure(ui, request, error)


async def _act(ui: Ui, request: Request) -> Response:
    """Begin or stop a check, asked for by a form of this server."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > FORM_BYTES:
            return PlainTextResponse("that is no form of this server\n", 413)
    given = {name: values[0] for name, values in parse_qs(data.decode("latin-1")).items()}
    if not secrets.compare_digest(given.get("key", "").encode(), ui.key.encode()):
        return PlainTextResponse("the form is not of this server, or of one that ended; load the page again\n", 403)
    number, action = request.path_params.get("number"), given.get("action", "")
    try:
        if number is None:
            export.act(ui, action)
        else:
            health.act(ui, ui.stores.at(number), action)
    except Exception as error:
        return await _failure(ui, request, error)
    return RedirectResponse(request.url.path, 303)

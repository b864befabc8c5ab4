"""What a page is made of: a template and its words, the command that gives the same, and the JSON of that command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from flintmq.cli.output import error_line
from flintmq.cli.text import duration, iso, printable, shorten_text, size
from flintmq.errors import CorruptStoreError, StoreError
from flintmq.store.commitlog.report import Report
from flintmq.ui.links import link, message_link, query

if TYPE_CHECKING:
    from flintmq.ui.app import Ui
    from flintmq.ui.stores import OpenStore

NAME_CHARS = 120
MENDS = "To mend it, once the broker is stopped and the store copied; this writes:"


@dataclass
class UiPage:
    """A page.

    Attributes:
        command: words of the command that gives the same; `--set` and `--config` of the server are added.
        lines: the JSON that this command prints, a line each; None where it has none.
        tab: the tab that is marked as the current one.
        again_s: seconds after which the browser loads the page again; 0: never.
    """

    template: str
    title: str
    words: dict[str, Any]
    command: Sequence[str] = ()
    lines: Callable[[], Iterable[str]] | None = None
    tab: str = ""
    store: OpenStore | None = None
    again_s: int = 0
    also: Sequence[Sequence[str]] = field(default_factory=tuple)  # further commands
    mend: Sequence[str] = ()  # the command that mends what the page shows; it writes
    self_link: str = ""  # its own address
    problem: str = ""  # what is wrong in the values of its form


def visible(text: object, limit: int = NAME_CHARS) -> str:
    """Return a text of a store with its invisible characters escaped, and cut; the template escapes markup."""
    given = str(text)
    return shorten_text(printable(given[: 4 * limit]), limit)


def time_text(ms: int | None) -> str:
    return "–" if ms is None else iso(ms).replace("T", " ").replace("Z", "")


def local_text(ms: int) -> str:
    """Return the time of day of this machine, with its zone's name; a dash for a year that no calendar has."""
    try:
        return datetime.fromtimestamp(ms // 1000).astimezone().strftime("%H:%M %Z")
    except (ValueError, OverflowError, OSError):
        return "–"


def rate_text(rate: float, of_bytes: bool) -> str:
    """Return a rate a second, of bytes or of messages."""
    return f"{size(round(rate)) if of_bytes else f'{rate:,.0f}' if rate >= 10 else f'{rate:.2g}'} a second"


def shell_word(word: str) -> str:
    """Return a word as a shell takes it; invisible characters as escapes of bash."""
    if word.isprintable():
        return shlex.quote(word)
    shown = "".join(
        c if c.isprintable() and c not in "'\\" else f"\\{c}" if c.isprintable() else f"\\U{ord(c):08x}" for c in word
    )
    return f"$'{shown}'"


@cache
def templates() -> Environment:
    made = Environment(
        loader=PackageLoader("flintmq.ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "visible": visible,
        "time": time_text,
        "local": local_text,
        "size": size,
        "duration": duration,
        "rate": rate_text,
        "shell_word": shell_word,
        "ago": lambda ms: f"{duration(max(ms, 0) // 1000 * 1000)} ago" if ms >= 1000 else "just now",
        "number": lambda count: f"{count:,}",
        "shown_command": lambda words: " ".join(map(shell_word, ["flintmq", *words])),
    }
    made.globals |= {"link": link, "message_link": message_link, "query": query}
    return made


def places_lost(report: Report) -> str:
    return f"{report.damage_count} of its places cannot be read" if report.damage_count else ""


def incomplete(*told: str) -> Iterator[str]:
    """Yield the last line of a page's JSON if damage may hide some, which the command says by its exit code."""
    if words := "; ".join(filter(None, told)):
        text = f"the answer may be incomplete: {words}; run `flintmq verify`"
        yield error_line(StoreError(text), text, CorruptStoreError.exit_code, True)


def rendered(ui: Ui, page: UiPage) -> str:
    return "".join(pieces(ui, page))


def _with(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Add options to the words of a command, before the `--` of links.command_of."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *options, *words[at:]]


def pieces(ui: Ui, page: UiPage) -> Iterator[str]:
    """Yield the page's text as the template makes it, for pages whose rows are found meanwhile."""
    told = [("The same as a command", page.command), *(("and", words) for words in page.also), (MENDS, page.mend)]
    commands = [(label, _with(words, ui.given_words(words[0]))) for label, words in told if words]
    given = {
        "ui": ui, "page": page, "title": page.title, "store": page.store, "commands": commands,
        **page.words,
    }  # fmt: skip
    return templates().get_template(page.template).generate(given)

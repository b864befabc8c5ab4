"""Addresses of pages. Names of stores' content are values of a query, never parts of a path."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from flintmq.message import StoredMessage


def link(store: int, page: str = "", **values: object) -> str:
    """Return the address of a page of a store, with those values that are not None or empty."""
    return f"/{store}/{page}" + query(**values)


def query(**values: object) -> str:
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return f"?{urlencode(given, errors='replace')}" if given else ""


def message_link(store: int, message: StoredMessage) -> str:
    """Return the address of a message: its place in its queue, and its log offset, which tells another log."""
    m = message
    return link(store, "message", topic=m.topic, queue=m.queue_id, offset=m.queue_offset, at=m.physical_offset)


def command_of(name: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """Return the words of a command; arguments come after `--` if one looks like an option."""
    if any(one.startswith("-") for one in arguments):
        return [*name.split(), *options, "--", *arguments]
    return [*name.split(), *arguments, *options]


def option(word: str, value: object) -> Sequence[str]:
    """Return an option and its value for a command; nothing where there is no value."""
    if value in (None, ""):
        return ()
    return (f"{word}={value}",) if str(value).startswith("-") else (word, str(value))

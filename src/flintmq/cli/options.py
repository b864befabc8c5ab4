"""Arguments and options that several commands share, and their evaluation."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.text import iso, parse_time
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig

PAGES = "https://github.com/flintmq/flintmq/blob/main/docs"
"""The documentation, for users who have only the package; pyproject.toml has the same address."""

StoreArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        show_default=False,
        help="The store's directory, the one with commitlog/ in it; for reading also s3://BUCKET/STORE.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        show_default=False,
        help="A RocketMQ setting that the files do not record, such as maxIndexNum=400. May be repeated.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON for programs: one object a line.")]

DecompressOption = Annotated[
    bool, typer.Option("--decompress", help="Show compressed bodies as they were before (64 MiB each at most).")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", show_default=False, help="Stored at TIME or later: ISO 8601, ms since 1970, or -15m."
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", show_default=False, help="Stored before TIME.")
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", "-n", metavar="N", min=0, show_default=False, help="Stop after N messages."),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="T", show_default=False, help="Only this tag, or 'A || B'. May be repeated."),
]


class Access(enum.StrEnum):
    """The way of reading a log (flintmq.store.commitlog.walk.ACCESS)."""

    pread = "pread"
    map = "map"


AccessOption = Annotated[
    Access,
    typer.Option(
        "--access",
        metavar="WAY",
        help="pread, or map: faster, but a file that shrinks meanwhile ends the command.",
    ),
]

MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", show_default=False, help="Spark's master, such as 'local[4]'."),
]


def tags_of(words: Sequence[str] | None) -> frozenset[str] | None:
    """Return the tags that `--tag` names, also in the form `A || B`; None for all, as for `*`."""
    tags = frozenset(tag.strip() for word in words or () for tag in word.split("||")) - {""}
    return None if not words or "*" in tags else tags


def examples(*lines: str) -> str:
    """Return the end of a command's help: its examples, one a line and not wrapped."""
    return "\n".join(["Examples:", "", "\b", *(f"  {line}" for line in lines)])


def store_config(settings: Sequence[str] | None) -> StoreConfig:
    """Return the configuration given by repeated `--set KEY=VALUE`.

    Raises:
        ConfigError: a word without `=`, an unknown key, or an invalid value.
    """
    from flintmq.config.keys import from_settings

    return from_settings(settings or ())


def time_range(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Return [since, until) in ms; None where unbounded.

    Raises:
        UsageError: a text that is no time, or an empty range.
    """
    now_ms = time.time_ns() // 1_000_000
    first = None if since is None else parse_time(since, now_ms, "--since")
    end = None if until is None else parse_time(until, now_ms, "--until")
    if first is not None and end is not None and first >= end:
        raise UsageError(f"--since ({iso(first)}) is not before --until ({iso(end)}); no time is between them")
    return first, end

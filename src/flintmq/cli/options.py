"""Arguments and options that several commands share, and what becomes of them."""

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
"""Where the documentation is for those who have the package alone; pyproject.toml has the same."""

StoreArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        show_default=False,
        help="The store's directory, the one with commitlog/ in it; to read also s3://BUCKET/STORE.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        show_default=False,
        help="A RocketMQ setting that the files do not tell, such as maxIndexNum=400. May be repeated.",
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
    typer.Option("--limit", "-n", metavar="N", min=0, show_default=False, help="Stop after so many messages."),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="T", show_default=False, help="Only this tag, or 'A || B'. May be repeated."),
]


class Access(enum.StrEnum):
    """How a log is read (flintmq.store.commitlog.walk.ACCESS)."""

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
    """The tags that `--tag` names, also as RocketMQ's consumers write them: `A || B`. None for all, as `*` is."""
    tags = frozenset(tag.strip() for word in words or () for tag in word.split("||")) - {""}
    return None if not words or "*" in tags else tags


def examples(*lines: str) -> str:
    """The end of a command's help: its examples, one a line and not wrapped."""
    return "\n".join(["Examples:", "", "\b", *(f"  {line}" for line in lines)])


def store_config(settings: Sequence[str] | None) -> StoreConfig:
    """The configuration that repeated `--set KEY=VALUE` give.

    Raises:
        ConfigError: a word without `=`, an unknown key, or a value that the key cannot have.
    """
    from flintmq.config.keys import from_settings

    return from_settings(settings or ())


def time_range(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """What `--since` and `--until` say, in ms: from the first, up to and without the second; None where unbounded.

    Raises:
        UsageError: a text that is no time, or a range that is empty.
    """
    now_ms = time.time_ns() // 1_000_000
    first = None if since is None else parse_time(since, now_ms, "--since")
    end = None if until is None else parse_time(until, now_ms, "--until")
    if first is not None and end is not None and first >= end:
        raise UsageError(f"--since ({iso(first)}) is not before --until ({iso(end)}); nothing can lie between them")
    return first, end

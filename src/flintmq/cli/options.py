"""Arguments and options that several commands share, each declared once.

An option whose help differs between commands is a function of its help: `Annotated[str, into_option("The copy ...")]`.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any

from flintmq.cli.declare import Argument, Option

PAGES = "https://github.com/flintmq/flintmq/blob/main/docs/operations"
"""The documentation, for users who have only the package; pyproject.toml has the same address."""

StoreArgument = Annotated[
    str,
    Argument(
        metavar="STORE",
        show_default=False,
        help="The store's directory, the one with commitlog/ in it; for reading also a URL, s3://BUCKET/STORE.",
    ),
]
StoresArgument = Annotated[
    list[str],
    Argument(
        metavar="STORE",
        show_default=False,
        help="A store's directory, the one with commitlog/ in it, or a URL, s3://BUCKET/STORE. Several are one: "
        "more of them, a pattern such as '/data/{broker}/store', or a manifest (cluster.toml).",
    ),
]
TopicArgument = Annotated[str, Argument(metavar="TOPIC", show_default=False, help="The topic's name.", text=True)]
SetOption = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        show_default=False,
        help="A RocketMQ setting that the files do not record, such as maxIndexNum=400. May be repeated.",
    ),
]
JsonOption = Annotated[bool, Option("--json", help="JSON for programs: one object a line.")]

# Which messages.


def topics_option(help: str) -> Any:
    """Declare `--topic`, which may be repeated."""
    return Option("--topic", metavar="T", show_default=False, help=help, text=True)


def limit_option(*names: str, help: str) -> Any:
    """Declare `--limit` for a command that has a number of its own without it."""
    return Option("--limit", *names, metavar="N", min=0, show_default=False, help=help)


TopicsOption = Annotated[list[str] | None, topics_option("Only this topic. May be repeated.")]
QueuesOption = Annotated[
    list[int] | None,
    Option("--queue", metavar="N", show_default=False, help="Only this queue number. May be repeated."),
]
SinceOption = Annotated[
    str | None,
    Option(
        "--since", metavar="TIME", show_default=False, help="Stored at TIME or later: ISO 8601, ms since 1970, or -15m."
    ),
]
UntilOption = Annotated[str | None, Option("--until", metavar="TIME", show_default=False, help="Stored before TIME.")]
LimitOption = Annotated[int | None, limit_option("-n", help="Stop after N messages.")]
TagOption = Annotated[
    list[str] | None,
    Option("--tag", metavar="T", show_default=False, help="Only this tag, or 'A || B'. May be repeated.", text=True),
]

# How they are read and shown.


class Access(enum.StrEnum):
    """The way of reading a log (flintmq.store.commitlog.walk.ACCESS)."""

    pread = "pread"
    map = "map"


AccessOption = Annotated[
    Access,
    Option(
        "--access",
        metavar="WAY",
        help="pread, or map: faster, but a file that shrinks meanwhile ends the command.",
    ),
]


def skip_damage_option(help: str) -> Any:
    """Declare `--skip-damage`."""
    return Option("--skip-damage", help=help)


SkipDamageOption = Annotated[bool, skip_damage_option("Skip damage, and report it at the end with exit code 1.")]
DecompressOption = Annotated[
    bool, Option("--decompress", help="Show compressed bodies as they were before (64 MiB each at most).")
]


def template_option(help: str) -> Any:
    """Declare `--format TEMPLATE`."""
    return Option("--format", metavar="TEMPLATE", show_default=False, help=help, text=True)


# How a store is written.


class Peer(enum.StrEnum):
    """The RocketMQ version whose habits the result follows."""

    v533 = "5.3.3"
    v540 = "5.4.0"
    v550 = "5.5.0"


PeerOption = Annotated[
    Peer,
    Option("--peer", metavar="VERSION", help="Write as this RocketMQ: 5.3.3; 5.4.0 or 5.5.0 (index tags too)."),
]


def into_option(help: str) -> Any:
    """Declare `--into DIR`."""
    return Option("--into", metavar="DIR", show_default=False, help=help)


IntoOption = Annotated[str, into_option("Directory of the result; created if missing.")]


def broker_conf_option(help: str) -> Any:
    """Declare `--config FILE`, a broker.conf."""
    return Option("--config", metavar="FILE", show_default=False, help=help)


CatalogOption = Annotated[
    str | None,
    Option(
        "--catalog",
        metavar="NAME:TABLE",
        show_default=False,
        help="With --to iceberg: NAMESPACE.TABLE of a catalog in PyIceberg's configuration, instead of one in DIR.",
    ),
]

# Jobs on Spark.

MasterOption = Annotated[
    str | None,
    Option("--master", metavar="URL", show_default=False, help="Spark's master, such as 'local[4]'."),
]


def once_option(help: str) -> Any:
    """Declare `--once`, of a job that otherwise runs until a signal."""
    return Option("--once", help=help)


def interval_option(help: str, show_default: bool = True) -> Any:
    """Declare `--interval`, the seconds between the rounds of such a job."""
    return Option("--interval", metavar="S", min=0.0, show_default=show_default, help=help)


def examples(*lines: str) -> str:
    """Return the end of a command's help: its examples, one a line and not wrapped."""
    return "\n".join(["Examples:", "", "\b", *(f"  {line}" for line in lines)])

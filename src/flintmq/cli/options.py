"""Arguments and options that several commands share, each declared once.

An option whose help differs between commands is a function of its help: `Annotated[str, out_option("The copy ...")]`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from flintmq.cli.declare import Argument, Option

PAGES = "https://github.com/flintmq/flintmq/blob/main/docs/operations"
"""The documentation, for users who have only the package; pyproject.toml has the same address."""

StoreArgument = Annotated[
    str,
    Argument(
        "STORE", "The store's directory, the one with commitlog/ in it; for reading also a URL, s3://BUCKET/STORE."
    ),
]
LocalStoreArgument = Annotated[str, Argument("STORE", "The store's directory, the one with commitlog/ in it.")]
StoresArgument = Annotated[
    list[str],
    Argument(
        "STORE",
        "A store's directory, the one with commitlog/ in it, or a URL, s3://BUCKET/STORE. Several are one: "
        "more of them, a pattern such as '/data/{broker}/store', or a manifest (cluster.toml).",
    ),
]
TopicArgument = Annotated[str, Argument("TOPIC", "The topic's name.", text=True, topics=True)]
SetOption = Annotated[
    list[str] | None,
    Option(
        "--set KEY=VALUE", "A RocketMQ setting that the files do not record, such as maxIndexNum=400. May be repeated."
    ),
]
JsonOption = Annotated[bool, Option("--json", "JSON for programs: one object a line.")]

# Which messages.


def topics_option(help: str) -> Any:
    return Option("--topic T", help, text=True, topics=True)


def limit_option(help: str, old: tuple[str, ...] = ()) -> Any:
    return Option("--limit -n N", help, old=old, min=0)


TopicsOption = Annotated[list[str] | None, topics_option("Only this topic. May be repeated.")]
QueuesOption = Annotated[list[int] | None, Option("--queue N", "Only this queue number. May be repeated.")]
SinceOption = Annotated[
    str | None, Option("--since TIME", "Stored at TIME or later: ISO 8601, ms since 1970, or -15m.")
]
UntilOption = Annotated[str | None, Option("--until TIME", "Stored before TIME.")]
LimitOption = Annotated[int | None, limit_option("Stop after N messages.")]
TagOption = Annotated[list[str] | None, Option("--tag T", "Only this tag, or 'A || B'. May be repeated.", text=True)]

# How they are read and shown.

Access = Literal["pread", "map"]
"""The way of reading a log (flintmq.store.commitlog.walk.ACCESS)."""
AccessOption = Annotated[
    Access, Option("--access WAY", "pread, or map: faster, but a file that shrinks meanwhile ends the command.")
]
SkipDamageOption = Annotated[bool, Option("--skip-damage", "Skip damage, and report it at the end with exit code 1.")]
DecompressOption = Annotated[
    bool, Option("--decompress", "Show compressed bodies as they were before (64 MiB each at most).")
]


def template_option(help: str) -> Any:
    return Option("--format TEMPLATE", help, text=True)


# How a store is written.

Peer = Literal["5.3.3", "5.4.0", "5.5.0"]
"""The RocketMQ version whose habits the result follows."""
PeerOption = Annotated[
    Peer, Option("--peer VERSION", "Write as this RocketMQ: 5.3.3; 5.4.0 or 5.5.0 (index tags too).")
]


def out_option(help: str, metavar: str = "DIR", old: tuple[str, ...] = ("--into",)) -> Any:
    return Option(f"--out {metavar}", help, old=old)


OutOption = Annotated[str, out_option("Directory of the result; created if missing.")]


def broker_conf_option(help: str) -> Any:
    return Option("--config FILE", help)


def catalog_option(of: str) -> Any:
    name = "NAMESPACE.TABLE of a catalog in PyIceberg's configuration"
    return Option("--catalog NAME:TABLE", f"{of}: {name}, instead of one in its directory.")


# Jobs on Spark.

MasterOption = Annotated[str | None, Option("--master URL", "Spark's master, such as 'local[4]'.")]


def interval_option(help: str) -> Any:
    return Option("--interval S", help, min=0.0)


def examples(*lines: str) -> str:
    """Return the end of a command's help: its examples, one a line and not wrapped."""
    return "\n".join(["Examples:", "", *(f"  {line}" for line in lines)])

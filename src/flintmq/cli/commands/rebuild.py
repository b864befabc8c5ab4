"""`flintmq rebuild`: rebuild queues and index from the commit log."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from flintmq import hooks
from flintmq.cli.command import need
from flintmq.cli.declare import Option
from flintmq.cli.options import (
    Access,
    AccessOption,
    IntoOption,
    JsonOption,
    MasterOption,
    Peer,
    PeerOption,
    SetOption,
    StoreArgument,
    examples,
)
from flintmq.cli.output import output
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import store_config
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.forensics.rebuild import Rebuilt

EPILOG = examples(
    "flintmq rebuild /var/rocketmq/store --into /tmp/rebuilt",
    "flintmq rebuild /var/rocketmq/store --into /tmp/rebuilt --peer 5.4.0 --json",
)


class Engine(enum.StrEnum):
    """The engine that does the work."""

    local = "local"
    spark = "spark"


def command(
    store: StoreArgument,
    into: IntoOption,
    engine: Annotated[
        Engine, Option("--engine", metavar="ENGINE", help="local (one process) or spark; the bytes are the same.")
    ] = Engine.local,
    peer: PeerOption = Peer.v533,
    master: MasterOption = None,
    access: AccessOption = Access.pread,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rebuild queues and index from the log.

    Writes consumequeue/, consumequeue_ext/, batchconsumequeue/ and index/ into a directory. Reads only the log, and
    config/topics.json for the queue types. Either all of the result appears or nothing. To use it, stop the broker,
    move the store's own directories away and the new ones in. Damage in the log is an error: rebuild does not decide
    which messages may be lost.
    """
    if master is not None and engine is not Engine.spark:
        raise UsageError("--master belongs to --engine spark")
    from flintmq.storage.store_url import outside_store

    out, config = output(as_json), store_config(settings)
    into = outside_store(into, store, config)  # before Spark starts
    if engine is Engine.spark:
        need("pyspark", "spark")
        done = hooks.load("rebuild_on_spark")(out, master, store, into, config, peer.value, access.value)
    else:
        from flintmq.forensics.rebuild import rebuild

        with out.progress("rebuild") as progress:
            done = rebuild(store, into, config, peer.value, progress, access.value)
    out.result(done, lambda value: _render(value, into))
    return 0


def _render(done: Rebuilt, into: str) -> Iterable[Any]:
    """Describe a rebuild for people."""
    yield f"records  {done.records} in {size(done.log_bytes)} of log"
    yield f"queues   {done.queues} with {done.units} units"
    yield f"index    {done.index_files} files with {done.keys} keys"
    yield from note_lines(done.notes)
    yield f"result   {printable(into)}"

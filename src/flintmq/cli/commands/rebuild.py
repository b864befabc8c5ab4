"""`flintmq rebuild`: rebuild queues and index from the commit log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flintmq import hooks
from flintmq.cli.declare import Option
from flintmq.cli.options import (
    AccessOption,
    JsonOption,
    MasterOption,
    OutOption,
    PeerOption,
    SetOption,
    StoreArgument,
    examples,
)
from flintmq.cli.output import output
from flintmq.cli.parser import need
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import store_config
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.forensics.rebuild import Rebuilt

EPILOG = examples(
    "flintmq rebuild /var/rocketmq/store --out /tmp/rebuilt",
    "flintmq rebuild /var/rocketmq/store --out /tmp/rebuilt --peer 5.4.0 --json",
)
Engine = Literal["local", "spark"]
"""The engine that does the work."""


def command(
    store: StoreArgument,
    into: OutOption,
    engine: Annotated[
        Engine, Option("--engine ENGINE", "local (one process) or spark; the bytes are the same.")
    ] = "local",
    peer: PeerOption = "5.3.3",
    master: MasterOption = None,
    access: AccessOption = "pread",
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rebuild queues and index from the log.

    Writes consumequeue/, consumequeue_ext/, batchconsumequeue/ and index/ into a directory. Reads only the log, and
    config/topics.json for the queue types. Either all of the result appears or nothing. To use it, stop the broker,
    move the store's own directories away and the new ones in. Damage in the log is an error: rebuild does not decide
    which messages may be lost.
    """
    if master is not None and engine != "spark":
        raise UsageError("--master belongs to --engine spark")
    from flintmq.storage.files.store_url import outside_store

    out, config = output(as_json), store_config(settings)
    into = outside_store(into, store, config)  # before Spark starts
    if engine == "spark":
        need("pyspark", "spark")
        done = hooks.load("rebuild_on_spark")(out, master, store, into, config, peer, access)
    else:
        from flintmq.forensics.rebuild import rebuild

        with out.progress("rebuild") as progress:
            done = rebuild(store, into, config, peer, progress, access)
    out.result(done, lambda value: _render(value, into))
    return 0


def _render(done: Rebuilt, into: str) -> Iterable[Any]:
    yield f"records  {done.records} in {size(done.log_bytes)} of log"
    yield f"queues   {done.queues} with {done.units} units"
    yield f"index    {done.index_files} files with {done.keys} keys"
    yield from note_lines(done.notes)
    yield f"result   {printable(into)}"

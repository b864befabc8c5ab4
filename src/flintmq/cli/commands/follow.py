"""`flintmq follow`: a copy of a running broker's log, kept up to date."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from flintmq.cli import signals
from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import JsonOption, SetOption, examples
from flintmq.cli.output import Output, dumps, output
from flintmq.cli.values import store_config
from flintmq.errors import UsageError

EPILOG = examples(
    "flintmq follow 10.0.0.5:10912 --store /data/copy",
    "flintmq follow 10.0.0.5:10912 --store /data/copy --once --json",
)


class Flush(enum.StrEnum):
    """When the log is synced."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"


def command(
    master: Annotated[
        str | None,
        Argument(metavar="HOST:PORT", show_default=False, help="The master's HA port (haListenPort, 10912)."),
    ] = None,
    store: Annotated[
        str,
        Option("--store", metavar="DIR", show_default=False, help="The copy: a new directory, or one to go on with."),
    ] = "",
    ack: Annotated[
        bool,
        Option(
            "--ack",
            help="Acknowledge what is stored: the master then counts this copy as a replica (inSyncReplicas).",
        ),
    ] = False,
    from_offset: Annotated[
        str,
        Option(
            "--from-offset",
            metavar="first|last|N",
            help="Where a new copy begins: the master's first file, its last one, or the one at log offset N.",
        ),
    ] = "first",
    config_from: Annotated[
        str | None,
        Option(
            "--config-from",
            metavar="HOST:PORT",
            show_default=False,
            help="Also copy topics, groups and offsets from the broker at this address (listenPort, 10911).",
        ),
    ] = None,
    flush: Annotated[
        Flush, Option("--flush", metavar="SYNC|ASYNC", help="SYNC: the disk has what is acknowledged.")
    ] = Flush.ASYNC,
    adopt: Annotated[
        bool,
        Option("--adopt", help="Go on in a store that others have written, if its last record is the master's."),
    ] = False,
    once: Annotated[bool, Option("--once", help="End as soon as the copy has caught up.")] = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Keep a copy of a running broker's log, byte for byte.

    The copy has queues and index of its own, and can be read meanwhile. The broker is not changed: the copy connects to
    its HA port as a slave does. It goes on where it was after any stop, of either side, if its last record is still the
    master's; else it says why not and ends (exit code 12), and changes nothing. Ends at SIGINT or SIGTERM.
    """
    if master is None:
        raise UsageError("give the master's HA port, HOST:PORT")
    if not store:
        raise UsageError("--store DIR is missing; give the directory of the copy")
    from flintmq.ha.follower import Follower

    out, stopping = output(as_json), signals.stop_event()
    follower = Follower(
        store,
        master,
        begin=_begin(from_offset),
        config=store_config(settings),
        config_from=config_from,
        on_event=lambda event: _show(event, out),
        ack=ack,
        flush=flush.value,
        adopt=adopt,
        once=once,
    )
    follower.run(stopping)
    return 0


def _begin(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else text


def _show(event: dict[str, Any], out: Output) -> None:
    """Print an event at once."""
    if out.json:
        out.write(dumps(event).encode() + b"\n")
        return
    fields = ", ".join(f"{name} {value}" for name, value in event.items() if name != "event")
    out.note(f"{event['event'].replace('_', ' ')}: {fields}")

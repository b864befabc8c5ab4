"""`flintmq follow`: a copy of a running broker's log, kept up to date."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from flintmq.cli import signals
from flintmq.cli.declare import Argument, flag, option
from flintmq.cli.options import JsonOption, SetOption, examples, out_option
from flintmq.cli.output import Output, dumps, output
from flintmq.cli.values import store_config
from flintmq.config.text import short
from flintmq.errors import UsageError

EPILOG = examples(
    "flintmq follow 10.0.0.5:10912 --out /data/copy",
    "flintmq follow 10.0.0.5:10912 --out /data/copy --once --json",
    "flintmq follow --namesrv 10.0.0.1:9876 --cluster Orders --out '/data/copies/{broker}'",
)
Flush = Literal["SYNC", "ASYNC"]
"""When the log is synced."""


@dataclass(frozen=True)
class FollowWords:
    master: Annotated[str, Argument("HOST:PORT", "The master's HA port (haListenPort, 10912).")] = ""
    store: Annotated[str, out_option("The copy: a new directory, or one to go on with.", old=("--store",))] = ""
    ack: bool = flag(
        "--ack", "Acknowledge what is stored: the master then counts this copy as a replica (inSyncReplicas)."
    )
    from_offset: str = option(
        "--from-offset first|last|N",
        "Where a new copy begins: the master's first file, its last one, or the one at log offset N.",
        "first",
    )
    config_from: str | None = option(
        "--config-from HOST:PORT",
        "Also copy topics, groups and offsets from the broker at this address (listenPort, 10911).",
    )
    namesrv: str | None = option(
        "--namesrv HOST:PORT",
        "Follow all brokers that this name server knows, with their topics, groups and offsets; --out then "
        "has {broker} where a broker's name belongs.",
    )
    cluster: str | None = option("--cluster NAME", "With --namesrv: only brokers of this cluster.", text=True)
    broker: list[str] | None = option("--broker NAME", "With --namesrv: only this broker. May be repeated.", text=True)
    flush: Flush = option("--flush SYNC|ASYNC", "SYNC: the disk has what is acknowledged.", "ASYNC")
    adopt: bool = flag("--adopt", "Go on in a store that others have written, if its last record is the master's.")
    resync: bool = flag(
        "--resync", "First drop what the master does not have: all records from the first one on that differs."
    )
    yes: bool = flag("--yes", "With --resync: move these records to quarantine/; without it they are only counted.")
    once: bool = flag("--once", "End as soon as the copy has caught up.")
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: FollowWords) -> int:
    """Keep a copy of a running broker's log, byte for byte.

    The copy has queues and index of its own, and can be read meanwhile. The broker is not changed: the copy connects to
    its HA port as a slave does. It goes on where it was after any stop, of either side, if its last record is still the
    master's; else it says why not and ends (exit code 12), and changes nothing. Ends at SIGINT or SIGTERM.
    """
    if not words.store:
        raise UsageError("--out DIR is missing; give the directory of the copy")
    if words.namesrv is None and (words.cluster is not None or words.broker):
        raise UsageError("--cluster and --broker choose among the brokers of a name server; give --namesrv HOST:PORT")
    if bool(words.master) == (words.namesrv is not None):
        raise UsageError("give either the master's HA port, HOST:PORT, or --namesrv HOST:PORT")
    if words.yes and not words.resync:
        raise UsageError("--yes confirms what --resync drops; give both")
    if words.namesrv is not None and words.config_from is not None:
        raise UsageError("with --namesrv each broker is asked for its own topics; leave --config-from out")
    from flintmq.ha.follower import Follower

    out, stopping, begin = output(words.as_json), signals.stop_event(), _begin(words.from_offset)

    def make(store: str, master: str, config_from: str | None, on_event: Callable[[dict[str, Any]], None]) -> Follower:
        return Follower(
            store,
            master,
            begin=begin,
            config=store_config(words.settings),
            config_from=config_from,
            on_event=on_event,
            ack=words.ack,
            flush=words.flush,
            adopt=words.adopt,
            resync=words.resync,
            confirmed=words.yes,
            once=words.once,
        )

    def show(event: dict[str, Any]) -> None:
        _show(event, out)

    if words.master:
        make(words.store, words.master, words.config_from, show).run(stopping)
        return 0
    from flintmq.ha.fleet import Fleet
    from flintmq.ha.name_server import name_servers

    servers = name_servers(words.namesrv or "")
    fleet = Fleet(
        servers, words.store, make, cluster=words.cluster, brokers=words.broker or (), on_event=show, once=words.once
    )
    fleet.run(stopping)
    return 0


def _begin(text: str) -> str | int:
    if text in ("first", "last"):
        return text
    if text.isascii() and text.isdigit() and len(text) <= 19:
        return int(text)
    raise UsageError(f"--from-offset {short(text)} is neither first, last nor the log offset of a file")


def _show(event: dict[str, Any], out: Output) -> None:
    """Print an event at once.

    Why a single master is refused is left to the error that ends the command.
    """
    if out.json:
        out.write(dumps(event).encode() + b"\n")
        return
    if event["event"] == "refused" and "broker" not in event:
        event = {"event": "refused", "reason": event["reason"]}
    lacks = event.get("lacks")
    event = {name: value for name, value in event.items() if name not in ("promotable", "lacks")}
    given = {name: value for name, value in event.items() if name != "event" and value is not None}
    fields = ", ".join(f"{name} {_words(value)}" for name, value in given.items())
    out.note(f"{event['event'].replace('_', ' ')}: {fields or 'empty'}")
    if lacks is not None:
        out.note(f"not known to be fit to be carried on: {lacks}")


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)

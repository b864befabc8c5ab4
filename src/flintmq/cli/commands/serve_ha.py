"""`flintmq serve-ha`: lets RocketMQ's slaves and other followers have a store's log."""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping
from typing import Annotated

from flintmq.cli import signals
from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import JsonOption, SetOption, examples
from flintmq.cli.output import Output, PipeClosed, dumps, output
from flintmq.cli.values import HA_PORT, LOOPBACK, parse_address, store_config

EPILOG = examples(
    "flintmq serve-ha /var/rocketmq/store",
    "flintmq serve-ha /var/rocketmq/store --listen 10.1.2.3:10912 --allow 10.1.2.0/24 --new-slave first",
)


class NewSlave(enum.StrEnum):
    """What a follower gets that has no log yet."""

    last = "last"
    first = "first"


def command(
    store: Annotated[
        str,
        Argument(metavar="STORE", show_default=False, help="The store's directory, the one with commitlog/ in it."),
    ],
    listen: Annotated[
        str,
        Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where followers come; PORT alone is one of this machine only, port 0 any free one.",
        ),
    ] = f"{LOOPBACK}:{HA_PORT}",
    allow: Annotated[
        list[str] | None,
        Option("--allow", metavar="CIDR", show_default=False, help="Only followers of this network. May be repeated."),
    ] = None,
    new_slave: Annotated[
        NewSlave,
        Option("--new-slave", metavar="WHICH", help="A follower without a log gets the last file, or from the first."),
    ] = NewSlave.last,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let RocketMQ's slaves and other followers have a store's log, until Ctrl-C or SIGTERM.

    Nobody writes the store, or another process does; here it is only read. A follower asks for a place in the log and
    gets the bytes from there on, and new records as they come. The port has no authentication: whoever reaches it can
    read the whole log. With --json one object a line: `listening` (address, begin, end), `follower` (address, offset),
    `ended` (address, reason), `closed`.
    """
    from flintmq.ha.listener import HaListener
    from flintmq.ha.stored_log import StoredLog
    from flintmq.store.listening import ListenOptions

    host, port = parse_address("--listen", listen, HA_PORT)
    config = store_config(settings)
    log = StoredLog(store, config)
    listener = HaListener(ListenOptions((host, port), tuple(allow or ()), new_slave.value), log, config)
    try:
        stop = signals.stop_event()
        events = _Events(output(as_json), stop, as_json)
        listener.on_event = events.take
        events.take("listening", {"address": "{}:{}".format(*listener.address), "begin": log.begin(), "end": log.end()})
        listener.start()
        stop.wait()
    finally:
        listener.close()
    events.take("closed", {})
    return 0


class _Events:
    """Prints events; nobody reads them any more: the command ends."""

    TEXTS: Mapping[str, str] = {
        "listening": "{address}: followers may have the log, {begin} to {end}, until Ctrl-C or SIGTERM",
        "follower": "{address} follows from log offset {offset}",
        "ended": "{address} has ended: {reason}",
        "closed": "no follower is served any more",
    }

    def __init__(self, out: Output, stop: threading.Event, as_json: bool) -> None:
        self._out, self._stop, self._as_json = out, stop, as_json

    def take(self, event: str, fields: Mapping[str, object]) -> None:
        """Print one event, at once."""
        try:
            if self._as_json:
                self._out.lines([dumps({"event": event, **fields})])
            else:
                self._out.note(self.TEXTS[event].format(**fields))
        except PipeClosed:
            self._stop.set()

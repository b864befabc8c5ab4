"""`flintmq serve-ha`: lets RocketMQ's slaves and other followers have a store's log."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from flintmq.cli import signals
from flintmq.cli.declare import option
from flintmq.cli.options import JsonOption, LocalStoreArgument, SetOption, examples
from flintmq.cli.output import Output, PipeClosed, dumps, output
from flintmq.cli.values import HA_PORT, LOOPBACK, parse_address, store_config
from flintmq.errors import UsageError

EPILOG = examples(
    "flintmq serve-ha /var/rocketmq/store --listen 127.0.0.1:10912",
    "flintmq serve-ha /var/rocketmq/store --listen 10912 --allow 127.0.0.0/8 --new-slave first",
    "flintmq serve-ha /var/rocketmq/store --listen 10.1.2.3:10912 --register 10.1.2.9:9876 "
    "--cluster Orders --broker-name broker-a",
)
NewSlave = Literal["last", "first"]
"""The part of the log that a follower gets which has none yet."""


@dataclass(frozen=True)
class ServeWords:
    store: LocalStoreArgument
    listen: str = option(
        "--listen HOST:PORT",
        "Where followers come; PORT alone is one of this machine only, port 0 any free one.",
        f"{LOOPBACK}:{HA_PORT}",
    )
    allow: list[str] | None = option("--allow CIDR", "Only followers of this network. May be repeated.")
    new_slave: NewSlave = option(
        "--new-slave WHICH", "A follower without a log gets the last file, or from the first.", "last"
    )
    register: str | None = option(
        "--register HOST:PORT",
        "Register at this name server, so that slaves of --cluster and --broker-name find their master here.",
    )
    broker_name: str | None = option("--broker-name NAME", "With --register: the slaves' brokerName.", text=True)
    cluster: str | None = option("--cluster NAME", "With --register: the slaves' brokerClusterName.", text=True)
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: ServeWords) -> int:
    """Let RocketMQ's slaves have a store's log.

    So can other followers, until Ctrl-C or SIGTERM. Nobody writes the store, or another process does; here it is only
    read. A follower asks for a place in the log and gets the bytes from there on, and new records as they come. The
    port has no authentication: whoever reaches it can read the whole log. With --json one object a line: `listening`
    (address, begin, end), `registered` (server, broker, cluster), `follower` (address, offset), `ended` (address,
    reason), `closed`.
    """
    if [words.register is None, words.broker_name is None, words.cluster is None] not in ([True] * 3, [False] * 3):
        raise UsageError("--register, --broker-name and --cluster go together; give all three or none")
    from flintmq.ha.listener import HaListener
    from flintmq.ha.stored_log import StoredLog
    from flintmq.remoting.client import join_address
    from flintmq.store.listening import ListenOptions

    host, port = parse_address("--listen", words.listen, HA_PORT)
    config = store_config(words.settings)
    log = StoredLog(words.store, config)
    listener = HaListener(
        ListenOptions((host, port), tuple(words.allow or ()), words.new_slave, prefix="--"), log, config
    )
    try:
        stop = signals.stop_event()
        events = _Events(output(words.as_json), stop, words.as_json)
        listener.on_event = events.take
        address = join_address(*listener.address)
        events.take("listening", {"address": address, "begin": log.begin(), "end": log.end()})
        listener.start()
        with _registered(words.register, words.broker_name, words.cluster, address):
            if words.register is not None:
                events.take(
                    "registered", {"broker": words.broker_name, "cluster": words.cluster, "server": words.register}
                )
            stop.wait()
    finally:
        listener.close()
    events.take("closed", {})
    return 0


def _registered(
    servers: str | None, broker: str | None, cluster: str | None, address: str
) -> contextlib.AbstractContextManager[object]:
    """Return a registration that lasts for a `with` block, or none."""
    if servers is None:
        return contextlib.nullcontext()
    from flintmq.ha.registration import Registration

    return Registration(servers, broker=broker or "", cluster=cluster or "", ha_address=address)


class _Events:
    """Prints events; nobody reads them any more: the command ends."""

    TEXTS: Mapping[str, str] = {
        "listening": "{address}: followers may have the log, {begin} to {end}, until Ctrl-C or SIGTERM",
        "registered": "{server} names this as master of broker {broker} in cluster {cluster}",
        "follower": "{address} follows from log offset {offset}",
        "ended": "{address} has ended: {reason}",
        "closed": "no follower is served any more",
    }

    def __init__(self, out: Output, stop: threading.Event, as_json: bool) -> None:
        self._out, self._stop, self._as_json = out, stop, as_json

    def take(self, event: str, fields: Mapping[str, object]) -> None:
        try:
            if self._as_json:
                self._out.lines([dumps({"event": event, **fields})])
            else:
                self._out.note(self.TEXTS[event].format(**fields))
        except PipeClosed:
            self._stop.set()

"""`flintmq broker`: serves a store to stock clients of RocketMQ."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli import signals
from flintmq.cli.declare import Argument, option
from flintmq.cli.live.others import READS_NAMES, is_loopback, note_others
from flintmq.cli.options import JsonOption, SetOption, broker_conf_option, examples
from flintmq.cli.output import Output, dumps, output
from flintmq.cli.values import LOOPBACK, parse_address
from flintmq.errors import UsageError
from flintmq.remoting.client import join_address

if TYPE_CHECKING:
    from flintmq.broker import Broker
    from flintmq.broker.testing import BrokerControl

PORT = 9876
PARENT_S = 1.0  # between two looks whether the process that started this one is there
OF_COMMAND = ("store", "metrics", "control", "as_json")  # words that are no keywords of Broker
FREED_LOOKS = 60  # looks after which memory that is free goes back to the system
EPILOG = examples(
    "flintmq broker store --listen 127.0.0.1:9876",
    "flintmq broker /var/rocketmq/store --read-only --listen 127.0.0.1:9876",
    "flintmq broker /var/rocketmq/store --read-only --listen 127.0.0.1:9877 --offsets offsets.json",
    "flintmq broker /var/rocketmq/store --read-only --listen 10.1.2.3:10911 --register '10.1.2.8:9876;10.1.2.9:9876' "
    "--name backup-a --cluster Orders",
)


@dataclass(frozen=True)
class BrokerWords:
    store: Annotated[
        str | None,
        Argument(
            "STORE", "A store's directory, made if missing; with --read-only also a URL. Without it a temporary one."
        ),
    ] = None
    read_only: bool = option("--read-only", "Serve what is there; sends are refused, and nothing is written.", False)
    dev: bool = option("--dev", "Small files, for experiments.", False)
    listen: str = option(
        "--listen HOST:PORT",
        "Where clients come; PORT alone is one of this machine only, port 0 any free one.",
        f"{LOOPBACK}:{PORT}",
    )
    grpc: str | None = option("--grpc HOST:PORT", "One more such address, for clients by gRPC, which name their own.")
    advertise: str | None = option(
        "--advertise HOST", "The host that clients are told, instead of the one they came to."
    )
    name: str = option("--name NAME", "The broker's name.", "broker-a", text=True)
    cluster: str = option("--cluster NAME", "Its cluster's name.", "DefaultCluster", text=True)
    offsets: str | None = option(
        "--offsets FILE", "With --read-only: keep offsets of groups here; without it they are forgotten."
    )
    register: str | None = option(
        "--register HOST:PORT", "Register with this name server, or with several, with `;` between them."
    )
    tls_cert: str | None = option("--tls-cert FILE", "A certificate in PEM, for clients that come with TLS.")
    tls_key: str | None = option("--tls-key FILE", "Its key, if the certificate's file has none.")
    tls_self_signed: bool = option("--tls-self-signed", "Make a certificate for this run instead.", False)
    acl: str | None = option(
        "--acl FILE", "Users, and what they may do: JSON, or a plain_acl.yml. Without it all may do everything."
    )
    metrics: str | None = option(
        "--metrics HOST:PORT", "Serve GET /metrics there, for Prometheus; PORT alone is one of this machine only."
    )
    control: str | None = option(
        "--control HOST:PORT",
        "Let tests in any language wait, disturb, kill and reset, by HTTP on this machine. STORE is new, or left out; "
        "implies --dev. It ends with the process that started it.",
    )
    config: Annotated[str | None, broker_conf_option("The configuration, broker.conf.")] = None
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: BrokerWords) -> int:
    """Serve a store to stock clients of RocketMQ.

    It is their name server and their broker, until Ctrl-C or SIGTERM: `namesrvAddr` is the address of --listen. So is
    the endpoint of clients by gRPC, those of 5.x, which need the extra `grpc`; TLS is taken there, too. They send,
    consume by queue and tag, pop, look up by key, id and time; retries, dead letters, delay levels, timers and
    transactions are RocketMQ's, and so is the directory afterwards. With --read-only sends and gRPC are refused, groups
    go on from their offsets, and of a store that is written meanwhile new messages come within a second or two. mqadmin
    shows it. One node; without --acl whoever reaches the port can read the whole store, and send to it. One line on
    standard output says that it is ready; with --json an object (event, listen, store, pid, seconds). With
    --register it is one broker of a cluster, that of these name servers.
    """
    begin, parent = time.monotonic(), os.getppid()
    from flintmq.broker import Broker
    from flintmq.storage.files import libc_memory

    addresses = [parse_address("--listen", words.listen, PORT)]
    if words.grpc is not None:
        addresses.append(parse_address("--grpc", words.grpc, 8081))
    listen, grpc = [*(join_address(*one) for one in addresses), None][:2]
    metrics = None if words.metrics is None else parse_address("--metrics", words.metrics)
    control = None if words.control is None else _control_address(words)
    out = output(words.as_json)
    stop = signals.stop_event()
    options = {name: value for name, value in vars(words).items() if name not in OF_COMMAND}
    options |= {"listen": str(listen), "grpc": grpc, "register": words.register or (), "settings": words.settings or ()}
    with ExitStack() as stack:
        more = dict[str, str]()
        if control is None:
            broker: Broker | BrokerControl = stack.enter_context(Broker(words.store, **options))
        else:
            broker, more["control"] = _serve_control(stack, words.store, options, control)
        store = words.store or broker.store.root
        if metrics is not None:
            more["metrics"] = _serve_metrics(stack, broker, metrics, out)
        may = "read the whole store" + ("" if words.read_only else ", and send to it")
        for host, _ in addresses:
            if words.acl is None:
                note_others(out, host, may)
        if words.as_json:
            seconds = round(time.monotonic() - begin, 3)
            ready = {"event": "ready", "listen": broker.addresses, "store": store}
            out.lines([dumps({**ready, "pid": os.getpid(), "seconds": seconds, **more})])
        else:
            named = "".join(f", {what} {url}" for what, url in more.items())
            out.lines([f"ready: {', '.join(broker.addresses)}, store {store}{named}"])
        for look in count(1):
            # A test that is killed can end nothing.
            if stop.wait(PARENT_S) or (control is not None and os.getppid() != parent):
                break
            if look % FREED_LOOKS == 0:
                libc_memory.return_freed()
    return 0


def _control_address(words: BrokerWords) -> tuple[str, int]:
    """Return where tests come; refuse it for a store that has something in it."""
    host, port = parse_address("--control", str(words.control), 0)
    if not is_loopback(host):
        raise UsageError(f"--control {host}: is for tests on this machine; give {LOOPBACK}")
    if words.read_only or (words.store is not None and os.path.isdir(words.store) and os.listdir(words.store)):
        raise UsageError(
            "--control lets tests delete all that is in a store: give an empty directory, or leave out STORE for a "
            "temporary one; it does not go with --read-only"
        )
    return host, port


def _serve_control(
    stack: ExitStack, store: str | None, options: dict[str, Any], address: tuple[str, int]
) -> tuple[BrokerControl, str]:
    """Start a broker that tests control until the stack ends; return it, and where they come."""
    from flintmq.broker.testing.control import BrokerControl
    from flintmq.broker.testing.remote import ControlServer

    if store is None:  # a kill needs a place beside the store
        store = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-broker-")), "store")
    broker = stack.enter_context(BrokerControl(store, **{**options, "dev": True}))
    server = stack.enter_context(ControlServer(*address, broker))
    stack.enter_context(server.serving())
    return broker, server.url


def _serve_metrics(stack: ExitStack, broker: Broker | BrokerControl, address: tuple[str, int], out: Output) -> str:
    """Serve figures until the stack ends; return where."""
    from flintmq.metrics.server import MetricsServer

    server = stack.enter_context(MetricsServer(*address, broker.metrics, "--metrics"))
    stack.enter_context(server.serving())
    note_others(out, address[0], READS_NAMES)
    return server.url

"""`flintmq broker`: serves a store to stock clients of RocketMQ."""

from __future__ import annotations

import ipaddress
import os
import time
from dataclasses import dataclass
from typing import Annotated

from flintmq.cli import signals
from flintmq.cli.declare import Argument, option
from flintmq.cli.options import JsonOption, SetOption, broker_conf_option, examples
from flintmq.cli.output import dumps, output
from flintmq.cli.values import LOOPBACK, parse_address
from flintmq.remoting.client import join_address

PORT = 9876
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
    begin = time.monotonic()
    from flintmq.broker import Broker

    addresses = [parse_address("--listen", words.listen, PORT)]
    if words.grpc is not None:
        addresses.append(parse_address("--grpc", words.grpc, 8081))
    listen, grpc = [*(join_address(*one) for one in addresses), None][:2]
    out = output(words.as_json)
    stop = signals.stop_event()
    with Broker(
        words.store,
        read_only=words.read_only,
        dev=words.dev,
        listen=str(listen),
        grpc=grpc,
        advertise=words.advertise,
        name=words.name,
        cluster=words.cluster,
        offsets=words.offsets,
        register=words.register or (),
        tls_cert=words.tls_cert,
        tls_key=words.tls_key,
        tls_self_signed=words.tls_self_signed,
        acl=words.acl,
        config=words.config,
        settings=words.settings or (),
    ) as broker:
        store = words.store or broker.store.root
        may = "read the whole store" + ("" if words.read_only else ", and send to it")
        for host, _ in addresses:
            if not _only_here(host) and words.acl is None:
                out.note(f"{host} is no address of this machine alone: whoever reaches it can {may}")
        if words.as_json:
            seconds = round(time.monotonic() - begin, 3)
            ready = {"event": "ready", "listen": broker.addresses, "store": store}
            out.lines([dumps({**ready, "pid": os.getpid(), "seconds": seconds})])
        else:
            out.lines([f"ready: {', '.join(broker.addresses)}, store {store}"])
        stop.wait()
    return 0


def _only_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"

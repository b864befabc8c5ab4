"""Asks name servers where brokers are, and a broker where its replication port is.

A name server knows each broker's cluster and its listenPort (code 106); the port for replication is known to the broker
alone (code 906). Both requests only read; 906 is sent without fields, because fields would change the broker.
Upstream: RouteInfoManager.getAllClusterInfo, AdminBrokerProcessor.exchangeBrokerHaInfo.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from flintmq.errors import FormatError, RemotingError, ReplicationError, UsageError
from flintmq.format import config_json
from flintmq.ha.asking import asking
from flintmq.remoting.client import SHOWN, RemotingClient, join_address, split_address
from flintmq.remoting.names import GET_CLUSTERS, GET_HA_ADDRESS

BROKERS_MAX: Final = 10_000

_NAME = re.compile(r"[A-Za-z0-9_%|-][A-Za-z0-9_%|.-]{0,126}")


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    name: str
    cluster: str
    master: str | None  # `HOST:PORT` of the one with id 0; None if none is registered

    @property
    def is_plain(self) -> bool:
        """True if the name may be the name of a directory."""
        return _NAME.fullmatch(self.name) is not None


def name_servers(text: str) -> list[str]:
    """Split addresses as RocketMQ writes them: `HOST:PORT;HOST:PORT`."""
    found = [address.strip() for address in text.split(";") if address.strip()]
    if not found:
        raise UsageError("give the address of a name server, HOST:PORT")
    for address in found:
        split_address(address)
    return found


def routes(addresses: Collection[str], *, timeout: float = 5.0) -> dict[str, BrokerRoute]:
    """Return the brokers that a name server knows, by name.

    `addresses`: of name servers that know the same; the first that answers counts.
    """
    assert addresses, "name_servers gives one at least"
    failed: OSError | None = None
    for address in addresses:
        with asking(address, timeout_s=timeout) as client:
            try:
                return ask_routes(client)
            except OSError as error:
                failed = error
    raise failed or ConnectionError("no name server")


def ask_routes(client: RemotingClient) -> dict[str, BrokerRoute]:
    try:
        value = config_json.parse(client.ask(GET_CLUSTERS).body)
    except FormatError as error:
        raise _wrong(client, f"its body is no object ({error})") from None
    table = value.get("brokerAddrTable")
    if not isinstance(table, dict) or len(table) > BROKERS_MAX:
        raise _wrong(client, "its body has no brokerAddrTable, or one too large")
    found = {}
    for key, told in table.items():
        addresses = told.get("brokerAddrs") if isinstance(told, dict) else None
        if not isinstance(addresses, dict):
            raise _wrong(client, "a broker without addresses")
        master = addresses.get(0, addresses.get("0"))
        found[str(key)] = BrokerRoute(str(key), str(told.get("cluster")), master if isinstance(master, str) else None)
    return found


def ha_address(broker: str, *, timeout: float = 5.0) -> str:
    """Ask a broker for the address of its replication port. `timeout`: seconds."""
    with asking(broker, timeout_s=timeout) as client:
        told = client.ask(GET_HA_ADDRESS).fields.get("masterHaAddress", "")
    try:
        return join_address(*split_address(told))
    except UsageError as error:
        raise ReplicationError("config", f"{broker}: request {GET_HA_ADDRESS}: {error}") from None


def _wrong(client: RemotingClient, what: str) -> RemotingError:
    text = f"{client.address}: request {GET_CLUSTERS}: not the answer of a name server: {what[:SHOWN]}"
    return RemotingError(text)

"""Registers a listener or a broker at name servers, where slaves and clients look for it.

A slave asks its name server for the broker with its own cluster and name and the id 0, and follows that one's
haServerAddr. A client asks for the brokers of a topic. The entry is gone when the connection closes, or after two
minutes, so the connection is kept and the registration repeated every 30 s, and soon where topics have changed. A
listener registers no topic, so no client comes. Upstream: BrokerOuterAPI.registerBroker, DefaultRequestProcessor,
RouteInfoManager.registerBroker.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Mapping
from typing import Final, Self, TypeAlias

from flintmq.errors import RemotingError, UsageError
from flintmq.format import config_json
from flintmq.ha.name_server import ask_routes, name_servers
from flintmq.remoting.client import RemotingClient, join_address, split_address
from flintmq.remoting.names import REGISTER, UNREGISTER
from flintmq.storage.threads.stop_event import StopEvent

log = logging.getLogger("flintmq.ha")

EVERY_S: Final = 30.0
RETRY_S: Final = 5.0
"""Seconds until the next attempt after one that failed."""

Topics: TypeAlias = Mapping[str, tuple[int, int, int]]
"""Name of a topic -> queues that are read, queues that are written, bits of its permission."""


class Registration:
    """Keeps one broker registered. Use it in a `with` block, or call `start` and `close`.

    Thread: any, one at a time.

    Args:
        broker_address: `HOST:PORT` to give as the broker's listenPort, where slaves ask for topics and offsets; None:
            the port before the listener's, as at RocketMQ. Nobody needs to answer there, if there are no topics.
        topics: of the broker; `tell` gives others.
    """

    def __init__(
        self,
        servers: str,
        *,
        broker: str,
        cluster: str,
        ha_address: str,
        broker_address: str | None = None,
        topics: Topics | None = None,
        every_s: float = EVERY_S,
        timeout_s: float = 5.0,
    ) -> None:
        host, port = split_address(ha_address)
        if host in ("0.0.0.0", "::"):
            raise UsageError(f"{ha_address} means all interfaces; give the address at which slaves reach this one")
        if not broker or not cluster:
            raise UsageError("a registration needs the name of a broker and of its cluster")
        self.broker, self.cluster, self.ha_address = broker, cluster, ha_address
        self.broker_address = broker_address or join_address(host, max(port - 1, 1))
        split_address(self.broker_address)
        self._every_s = every_s
        self._clients = [RemotingClient(address, timeout_s=timeout_s) for address in name_servers(servers)]
        self._topics = topics or {}
        self._begun: set[str] = set()  # name servers whose connection has the registration
        self._news = StopEvent()  # the thread shall look at once: other topics, or the end
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        reached = 0
        failed: OSError | None = None
        for client in self._clients:
            try:
                self.register_once(client)
                reached += 1
            except OSError as error:
                log.warning("not registered: %s", error)
                failed = error
        if failed is not None and not reached:
            raise failed
        self._thread = threading.Thread(target=self._again, name="flintmq-register", daemon=True)
        self._thread.start()

    def tell(self, topics: Topics) -> None:
        """Register these topics from now on, soon if they are others than before.

        One that is gone stays at the name servers, as it does with RocketMQ's own brokers. Thread: any.
        """
        if topics != self._topics:
            self._topics = topics
            self._news.set()

    def register_once(self, client: RemotingClient) -> None:
        """Register at one name server; over a new connection look first who has the name."""
        try:
            if client.address not in self._begun:
                self._refuse_another(client)
                if len(self._topics) == 1:  # a name server takes one topic alone only of a broker that it knows
                    self._register(client, {})
            self._register(client, self._topics)
            self._begun.add(client.address)
        except BaseException:
            self._begun.discard(client.address)
            raise

    def _register(self, client: RemotingClient, topics: Topics) -> None:
        body = _body(topics)
        fields = {
            "brokerName": self.broker,
            "brokerAddr": self.broker_address,
            "clusterName": self.cluster,
            "haServerAddr": self.ha_address,
            "brokerId": "0",
            "enableActingMaster": "false",
            "compressed": "false",
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
        }
        client.ask(REGISTER, fields, body)

    def close(self) -> None:
        """Take the registration back, and close the connections. May be called again."""
        self._is_closed = True
        self._news.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for client in self._clients:
            if client.address in self._begun:
                self._begun.discard(client.address)
                fields = {
                    "brokerName": self.broker,
                    "brokerAddr": self.broker_address,
                    "clusterName": self.cluster,
                    "brokerId": "0",
                }
                try:
                    client.ask(UNREGISTER, fields)
                except (OSError, RemotingError) as error:
                    log.warning("the registration is not taken back: %s", error)
            client.close()

    def _refuse_another(self, client: RemotingClient) -> None:
        known = ask_routes(client).get(self.broker)
        if known is not None and known.master is not None and not _is_same(known.master, self.broker_address):
            raise RemotingError(
                f"{client.address}: broker {self.broker!a} is registered at {known.master!a}; stop that one first, or "
                "give another name",
            )

    def _again(self) -> None:
        wait_s = self._every_s
        while True:
            self._news.wait(wait_s)
            self._news.clear()
            if self._is_closed:
                return
            wait_s = self._every_s
            for client in self._clients:
                try:
                    self.register_once(client)
                except (OSError, RemotingError) as error:
                    wait_s = min(RETRY_S, self._every_s)
                    log.warning("not registered: %s", error)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _body(topics: Topics) -> bytes:
    """Return the RegisterBrokerBody of a broker with these topics, as JSON, not compressed."""
    version = {"counter": 0, "stateVersion": 0, "timestamp": time.time_ns() // 1_000_000}
    wrapper = {
        "dataVersion": version,
        "mappingDataVersion": version,
        "topicConfigTable": {
            name: {
                "attributes": {},
                "order": False,
                "perm": perm,
                "readQueueNums": read,
                "topicFilterType": "SINGLE_TAG",
                "topicName": name,
                "topicSysFlag": 0,
                "writeQueueNums": write,
            }
            for name, (read, write, perm) in topics.items()
        },
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    value: config_json.JsonObject = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    return config_json.write(value, "5.4.0", compact=True)


def _is_same(address: str, other: str) -> bool:
    """Return whether two addresses are one; RocketMQ writes no brackets around an IPv6 host."""
    try:
        return split_address(address) == split_address(other)
    except UsageError:
        return False

"""Answers as a name server that knows one broker: where topics are, which brokers there are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from flintmq.broker.requests import Answer, Handler, Peer, Refused, Request
from flintmq.broker.served import TEMPLATE, Served, TopicFacts
from flintmq.remoting.client import join_address
from flintmq.remoting.names import GET_ALL_TOPICS, GET_CLUSTERS, GET_ROUTE, TOPIC_NOT_EXIST

EVERY_ADDRESS: Final = ("0.0.0.0", "::")
MASTER: Final = "0"  # id of a broker that is nobody's slave


class Routes:
    """Answers as a name server does. Thread: the loop's.

    Args:
        advertise: host that clients get; None: the one that a client connected to.
        port: of the address that they get.
    """

    def __init__(self, served: Served, name: str, cluster: str, advertise: str | None, port: int) -> None:
        self._served, self.name, self.cluster = served, name, cluster
        self._advertise, self._port = advertise, port

    def handlers(self) -> dict[int, Handler]:
        return {GET_ROUTE: self.route, GET_CLUSTERS: self.clusters, GET_ALL_TOPICS: self.topics}

    def address(self, request: Request) -> str:
        """Return the address that a client gets."""
        return join_address(*self.place(request.peer))

    def place(self, peer: Peer) -> tuple[str, int]:
        """Return host and port of it."""
        return self._advertise or peer.local_host, self._port

    def route(self, request: Request) -> Answer:
        topic = request.text("topic")
        facts = self._served.topic(topic)
        if facts is None:
            raise Refused(TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}")
        queues = {
            "brokerName": self.name,
            "perm": facts.perm,
            "readQueueNums": facts.read_queues,
            "topicSysFlag": 0,
            "writeQueueNums": facts.write_queues,
        }
        return request.answer(
            body=_body({"brokerDatas": [self._broker(request)], "filterServerTable": {}, "queueDatas": [queues]})
        )

    def clusters(self, request: Request) -> Answer:
        tables = {
            "brokerAddrTable": {self.name: self._broker(request)},
            "clusterAddrTable": {self.cluster: [self.name]},
        }
        return request.answer(body=_body(tables))

    def facts(self) -> dict[str, TopicFacts]:
        """Return facts of each topic that has a route."""
        found = {name: self._served.topic(name) for name in (*self._served.topic_names(), TEMPLATE)}
        return {name: facts for name, facts in found.items() if facts is not None}

    def by_queue(self, entries: Iterable[tuple[str, int, object]]) -> bytes:
        """Encode values of queues (topic, queue id).

        Keys are objects: that is no JSON, and RocketMQ's way.
        """
        pairs = (
            _body({"brokerName": self.name, "queueId": queue_id, "topic": topic}) + b":" + _body(value)
            for topic, queue_id, value in entries
        )
        return b"{" + b",".join(pairs) + b"}"

    def topics(self, request: Request) -> Answer:
        return request.answer(body=_body({"topicList": sorted(self._served.topic_names())}))

    def _broker(self, request: Request) -> dict[str, Any]:
        return {
            "brokerAddrs": {MASTER: self.address(request)},
            "brokerName": self.name,
            "cluster": self.cluster,
            "enableActingMaster": False,
        }


def _body(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

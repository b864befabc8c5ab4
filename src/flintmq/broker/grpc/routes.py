"""Answers of gRPC's name server: the queues of a topic, and those that a consumer is to ask.

Upstream: RouteActivity.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.asked import Asked, checked_group, checked_topic
from flintmq.broker.grpc.messages import Denied, status
from flintmq.broker.pop import Pops
from flintmq.broker.routes import Routes
from flintmq.broker.served import TopicFacts
from flintmq.broker.served_store import ServedStore

ANY_QUEUE: Final = -1  # as a queue's id
_TYPES: Final = {
    "NORMAL": [wire.NORMAL],
    "FIFO": [wire.FIFO],
    "DELAY": [wire.DELAY],
    "TRANSACTION": [wire.TRANSACTION],
    "MIXED": [wire.NORMAL, wire.FIFO, wire.DELAY, wire.TRANSACTION],
}


class GrpcRoutes:
    """Answers where topics are. Thread: the loop's."""

    def __init__(self, served: ServedStore, routes: Routes, pops: Pops) -> None:
        self._served, self._routes, self._pops = served, routes, pops

    def route(self, asked: Asked, request: wire.QueryRouteRequest) -> wire.QueryRouteResponse:
        topic = checked_topic(request.topic)
        facts = self._facts(topic)
        kind = self.type_of(topic) if self._served.keys.check_types else "MIXED"
        broker, types = self._broker(asked, request.endpoints), _TYPES.get(kind, [wire.MESSAGE_TYPE_UNSPECIFIED])
        queues = [
            wire.MessageQueue(
                topic=request.topic, id=number, permission=permission, broker=broker, accept_message_types=types
            )
            for number, permission in enumerate(_permissions(facts))
        ]
        return wire.QueryRouteResponse(status=status(wire.OK), message_queues=queues)

    def type_of(self, topic: str) -> str:
        """Return what a topic takes: NORMAL, FIFO, DELAY, TRANSACTION or MIXED."""
        return self._served.message_type(topic) or "NORMAL"

    def assignment(self, asked: Asked, request: wire.QueryAssignmentRequest) -> wire.QueryAssignmentResponse:
        """Answer with what a push consumer is to ask: any queue; in order each by itself."""
        topic, group = checked_topic(request.topic), checked_group(request.group)
        facts = self._facts(topic)
        if not facts.is_readable or not facts.read_queues:
            raise Denied(wire.FORBIDDEN, "no readable queue")
        broker = self._broker(asked, request.endpoints)
        numbers = range(facts.read_queues) if self._pops.is_ordered(group) else [ANY_QUEUE]
        queues = [
            wire.MessageQueue(topic=request.topic, id=number, permission=_permission(facts), broker=broker)
            for number in numbers
        ]
        assignments = [wire.Assignment(message_queue=queue) for queue in queues]
        return wire.QueryAssignmentResponse(status=status(wire.OK), assignments=assignments)

    def _facts(self, topic: str) -> TopicFacts:
        facts = self._served.topic(topic)
        if facts is None:
            raise Denied(wire.TOPIC_NOT_FOUND, f"No topic route info in name server for the topic: {topic}")
        return facts

    def _broker(self, asked: Asked, endpoints: wire.Endpoints) -> wire.Broker:
        """Return this broker, at the address by which the client came: it may lead through a tunnel."""
        if not endpoints.addresses:
            host, port = self._routes.place(asked.connection)
            endpoints = wire.Endpoints(scheme=_scheme(host), addresses=[wire.Address(host=host, port=port)])
        return wire.Broker(name=self._routes.name, id=0, endpoints=endpoints)


def _scheme(host: str) -> wire.AddressScheme:
    try:
        return wire.IPv4 if ipaddress.ip_address(host).version == 4 else wire.IPv6
    except ValueError:
        return wire.DOMAIN_NAME


def _permission(facts: TopicFacts) -> wire.Permission:
    if facts.is_readable:
        return wire.READ_WRITE if facts.is_writable else wire.READ
    return wire.WRITE if facts.is_writable else wire.NONE


def _permissions(facts: TopicFacts) -> list[wire.Permission]:
    """Return each queue's permission, in upstream's order: those for one side alone are first."""
    both, read, write = _permission(facts), facts.read_queues, facts.write_queues
    if both == wire.READ_WRITE:
        shared = min(read, write)
        return [wire.READ] * (read - shared) + [wire.WRITE] * (write - shared) + [both] * shared
    return [both] * {wire.READ: read, wire.WRITE: write}.get(both, max(read, write, 1))

"""Lists what calls of gRPC need under an ACL. Upstream: DefaultAuthorizationContextBuilder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.needs import GET, PUB, SUB, of_group, of_topic
from flintmq.broker.requests import Need


def of_route(request: wire.QueryRouteRequest) -> list[Need]:
    return [of_topic(request.topic.name, PUB, SUB, GET)]


def to_send(request: wire.SendMessageRequest) -> list[Need]:
    return [of_topic(topic, PUB) for topic in {message.topic.name for message in request.messages}]


def to_publish(request: Any) -> list[Need]:
    """Return the need of a request that names only a topic, which is published to."""
    return [of_topic(request.topic.name, PUB)]


def to_receive(request: wire.ReceiveMessageRequest) -> list[Need]:
    return [of_topic(request.message_queue.topic.name, SUB), of_group(request.group.name, SUB)]


def of_both(request: Any) -> list[Need]:
    """Return the needs of a request that names a group and the topic that it consumes."""
    return [of_topic(request.topic.name, SUB), of_group(request.group.name, SUB)]


def of_its_group(request: Any) -> list[Need]:
    """Return the need of a request that a consumer makes with its group, a producer without one."""
    return [of_group(request.group.name, SUB)] if request.group.name else []


def of_settings(settings: wire.Settings) -> Iterator[Need]:
    for topic in settings.publishing.topics:
        yield of_topic(topic.name, PUB)
    if settings.HasField("subscription"):
        yield of_group(settings.subscription.group.name, SUB)
        for entry in settings.subscription.subscriptions:
            yield of_topic(entry.topic.name, SUB)

"""A call of a client, as its handlers get it: who asks, and whether the names may be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from flintmq.broker.connection import ClientConnection
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.http2 import Call
from flintmq.broker.grpc.messages import Denied
from flintmq.broker.requests import Need, Refused, anything
from flintmq.broker.served_store import check_letters, check_topic
from flintmq.format.group_topics import OWN_GROUPS, is_system_topic

GROUP_NAME_MAX: Final = 120  # letters: with %RETRY% it names a topic


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, and who makes it.

    Attributes:
        client: the client's id, which a handler may rely on.
        user: who signed it, with an ACL.
        may: raises Refused for what the client's user may not.
    """

    call: Call
    connection: ClientConnection
    client: str
    may: Callable[[Need], None] = anything
    user: str = ""

    @classmethod
    def of(cls, call: Call, connection: ClientConnection) -> Self:
        return cls(call, connection, call.header("x-mq-client-id").strip())

    def check(self) -> None:
        """Raise Denied for a client without an id."""
        if not self.client:
            raise Denied(wire.CLIENT_ID_REQUIRED, "client id cannot be empty")

    @property
    def language(self) -> str:
        return language_of(self.call)

    @property
    def left_s(self) -> float | None:
        """Return for how long the client still waits; None: for ever."""
        return None if self.call.deadline is None else self.call.deadline - time.monotonic()


def language_of(call: Call) -> str:
    return call.header("x-mq-language") or "OTHER"


def checked_topic(topic: wire.Resource) -> str:
    """Return the name of a topic.

    Raises Denied: no topic of a client may have it.
    """
    try:
        check_topic(topic.name)
    except Refused as refused:
        raise Denied(wire.ILLEGAL_TOPIC, refused.remark) from None
    if is_system_topic(topic.name):
        raise Denied(wire.ILLEGAL_TOPIC, "cannot access system topic")
    return topic.name


def checked_group(group: wire.Resource) -> str:
    """Return the name of a consumer group.

    Raises Denied: no group of a client may have it.
    """
    name = group.name
    if not name.strip():
        raise Denied(wire.ILLEGAL_CONSUMER_GROUP, "the specified group is blank")
    try:
        check_letters("group", name)
    except Refused as refused:
        raise Denied(wire.ILLEGAL_CONSUMER_GROUP, refused.remark) from None
    if len(name) > GROUP_NAME_MAX:
        raise Denied(wire.ILLEGAL_CONSUMER_GROUP, "the specified group is longer than group max length: 120.")
    if name.startswith(OWN_GROUPS):
        raise Denied(wire.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")
    return name

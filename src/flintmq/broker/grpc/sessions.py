"""The clients of gRPC: their settings, their heartbeats, and their end.

A client opens a stream, Telemetry, and says on it what it is; the broker answers with the same, completed. The stream
stays open for what the broker asks of the client. Upstream: ClientActivity, GrpcClientSettingsManager.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration

from flintmq.broker.clients import Clients, ConsumerClient, Subscription
from flintmq.broker.connection import ClientConnection
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.asked import Asked, checked_group, checked_topic, language_of
from flintmq.broker.grpc.http2 import INVALID_ARGUMENT, Call
from flintmq.broker.grpc.messages import Denied, status, status_of_refusal
from flintmq.broker.needs import PUB, SUB, of_group, of_topic
from flintmq.broker.requests import Need, Refused, lets
from flintmq.broker.served_store import ServedStore
from flintmq.remoting.frames import VERSION
from flintmq.remoting.pulls import TAG
from flintmq.store.consumer.retry import FIRST_LEVEL, MOST_RETRIES

SESSIONS_MAX: Final = 100_000
SETTINGS_MAX: Final = 1 << 20  # bytes of what a client says of itself
SILENT_S: Final = 120.0  # after which a client is gone
BATCH: Final = 32  # messages that a push consumer asks for at a time
POLL_S: Final = 20.0  # for which it waits for some
REQUEST_S: Final = 3.0  # in which a client wants an answer, if it does not say
_ATTEMPTS, _FIRST_MS, _LAST_MS, _FACTOR = 3, 10, 1000, 2.0  # of a producer's sends
_CONSUMERS: Final[Mapping[int, str]] = {
    wire.PUSH_CONSUMER: "CONSUME_PASSIVELY",
    wire.SIMPLE_CONSUMER: "CONSUME_ACTIVELY",
}


@dataclass(slots=True)
class Session:
    """A client's settings, the stream on which it hears, and its user.

    Attributes:
        may: raises Refused for what the user may not.
    """

    settings: wire.Settings
    connection: ClientConnection
    telemetry: Call
    heard: float
    user: str
    may: Callable[[Need], None]

    @property
    def is_consumer(self) -> bool:
        return self.settings.client_type in _CONSUMERS

    @property
    def group(self) -> str:
        return self.settings.subscription.group.name


class GrpcSessions:
    """The clients of gRPC by their ids. Thread: the loop's.

    Attributes:
        gone: gets the id of a client that has ended itself, or was silent for too long.
    """

    def __init__(self, served: ServedStore, clients: Clients) -> None:
        self._served, self._clients = served, clients
        self._sessions: dict[str, Session] = {}
        self.gone: Callable[[str], None] = lambda client: None

    def get(self, client: str) -> Session | None:
        return self._sessions.get(client)

    def producers(self, topic: str) -> Iterator[Call]:
        """Yield the streams of the producers of a topic who may send to it, to ask them something.

        Thread: any.
        """
        need = of_topic(topic, PUB)
        for session in list(self._sessions.values()):
            topics = session.settings.publishing.topics
            if not session.telemetry.is_closed and any(one.name == topic for one in topics) and lets(session.may, need):
                yield session.telemetry

    def producer_languages(self) -> list[str]:
        """Return the language of each producer. Thread: any."""
        sessions = list(self._sessions.values())
        return [language_of(one.telemetry) for one in sessions if not one.is_consumer]

    # -- the stream ---------------------------------------------------------------------------------------------------

    async def told(self, asked: Asked, command: wire.TelemetryCommand) -> None:
        """Take a client's settings, and answer with them, completed.

        Other commands answer none of ours. A refusal ends the stream, as upstream's does; the client then begins again.
        """
        if command.WhichOneof("command") != "settings":
            return
        settings = command.settings
        try:
            asked.check()
            if len(self._sessions) >= SESSIONS_MAX and asked.client not in self._sessions:
                raise Denied(wire.TOO_MANY_REQUESTS, f"{SESSIONS_MAX} clients are here already")
            if settings.ByteSize() > SETTINGS_MAX:
                raise Denied(wire.BAD_REQUEST, f"settings of more than {SETTINGS_MAX} bytes")
            await self._check(settings)
            known = self._sessions.get(asked.client)
            if known is not None and not known.connection.is_closed:
                _check_user(known, asked)
        except Denied as denied:
            if denied.code in (wire.CLIENT_ID_REQUIRED, wire.UNRECOGNIZED_CLIENT_TYPE):
                refusal = wire.TelemetryCommand(status=status(denied.code, str(denied)))
                asked.call.send(refusal.SerializeToString())
            asked.call.end(INVALID_ARGUMENT, f"process client telemetryCommand failed. {denied}")
            return
        except Refused as refused:
            asked.call.end(INVALID_ARGUMENT, status_of_refusal(refused).message)
            return
        session = Session(settings, asked.connection, asked.call, time.monotonic(), asked.user, asked.may)
        self._sessions[asked.client] = session
        self._join(asked.client, session, asked.language)
        answer = wire.TelemetryCommand(status=status(wire.OK), settings=settings)
        self._complete(answer.settings)
        asked.call.send(answer.SerializeToString())

    async def _check(self, settings: wire.Settings) -> None:
        """Look at what a client says of itself; make a consumer's group, if that may be.

        Raises:
            Denied: a name that may not be, or no producer and no consumer.
            Refused: the group is not known.
        """
        kind = settings.WhichOneof("pub_sub")
        if kind is None:
            raise Denied(wire.UNRECOGNIZED_CLIENT_TYPE, "there is no publishing or subscription data in settings")
        if kind == "publishing":
            for topic in settings.publishing.topics:
                checked_topic(topic)
        elif settings.client_type not in _CONSUMERS:
            raise Denied(wire.UNRECOGNIZED_CLIENT_TYPE, f"no client of type {settings.client_type} is served here")
        else:
            await self._served.admit(checked_group(settings.subscription.group))

    def _complete(self, settings: wire.Settings) -> None:
        """Add what the broker decides."""
        settings.metric.on = False
        policy = settings.backoff_policy
        if settings.HasField("publishing"):
            settings.publishing.max_body_size = self._served.config.max_message_size
            settings.publishing.validate_message_type = self._served.keys.check_types
            policy.max_attempts = _ATTEMPTS
            policy.exponential_backoff.initial.FromMilliseconds(_FIRST_MS)
            policy.exponential_backoff.max.FromMilliseconds(_LAST_MS)
            policy.exponential_backoff.multiplier = _FACTOR
            return
        subscription, group = settings.subscription, self._served.store.group(settings.subscription.group.name)
        subscription.fifo = group is not None and group.consume_orderly
        subscription.receive_batch_size = BATCH
        subscription.long_polling_timeout.FromMilliseconds(int(POLL_S * 1000))
        policy.max_attempts = (MOST_RETRIES if group is None else group.retry_max_times) + 1
        levels = self._served.config.delay_ms
        del policy.customized_backoff.next[:]
        policy.customized_backoff.next.extend(map(_duration, levels[FIRST_LEVEL - 1 :] or levels or (_LAST_MS,)))

    # -- life ---------------------------------------------------------------------------------------------------------

    def heartbeat(self, asked: Asked, request: wire.HeartbeatRequest) -> wire.HeartbeatResponse:
        session = self._of(asked)
        if session.is_consumer:
            checked_group(request.group)
        session.heard, session.connection = time.monotonic(), asked.connection
        session.user, session.may = asked.user, asked.may
        self._join(asked.client, session, asked.language)
        return wire.HeartbeatResponse(status=status(wire.OK))

    def end(self, asked: Asked, request: wire.NotifyClientTerminationRequest) -> wire.NotifyClientTerminationResponse:
        """Take out a client that ends itself."""
        self._of(asked)
        self._take_out(asked.client)
        return wire.NotifyClientTerminationResponse(status=status(wire.OK))

    def sweep(self) -> None:
        """Take out the clients that were silent for too long."""
        since = time.monotonic() - SILENT_S
        for client in [client for client, session in self._sessions.items() if session.heard < since]:
            self._take_out(client)

    def _of(self, asked: Asked) -> Session:
        """Return the session of who asks: ids are no secret, and anybody may name one.

        Raises:
            Denied: there is none, or it is another user's.
            Refused: its group is not the user's any more.
        """
        found = self._sessions.get(asked.client)
        if found is None:
            raise Denied(wire.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
        _check_user(found, asked)
        if found.is_consumer:
            asked.may(of_group(found.group, SUB))
        return found

    def _take_out(self, client: str) -> None:
        session = self._sessions.pop(client)
        if session.is_consumer:
            self._clients.take_out(session.group, client)
        self.gone(client)

    def _join(self, client: str, session: Session, language: str) -> None:
        """Make a consumer a member of its group, which mqadmin shows."""
        settings = session.settings
        if not session.is_consumer:
            return
        told: dict[str | int, Any] = {
            "consumeType": _CONSUMERS[settings.client_type],
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        }
        topics = {entry.topic.name: _subscription(entry) for entry in settings.subscription.subscriptions}
        member = ConsumerClient(session.connection, language, VERSION, told, topics, time.monotonic(), hears=False)
        self._clients.join(session.group, client, member)


def _check_user(session: Session, asked: Asked) -> None:
    """Raise Denied for a session of another user.

    A consumer whose user has lost its group, or is none any more, goes on with another user.
    """
    keeps = not session.is_consumer or lets(session.may, of_group(session.group, SUB))
    if session.user != asked.user and keeps:
        raise Denied(wire.FORBIDDEN, f"the client {asked.client:.200} is another user's")


def _subscription(entry: wire.SubscriptionEntry) -> Subscription:
    kind = "SQL92" if entry.expression.type == wire.SQL else TAG
    text = entry.expression.expression or "*"
    told: dict[str | int, Any] = {
        "topic": entry.topic.name, "subString": text, "expressionType": kind, "subVersion": 0,
        "classFilterMode": False, "tagsSet": [], "codeSet": [],
    }  # fmt: skip
    return Subscription(text, 0, kind, told)


def _duration(ms: int) -> Duration:
    made = Duration()
    made.FromMilliseconds(ms)
    return made

"""The calls of gRPC: who answers which, and what an error becomes.

A handler takes who asks and the request, and returns the answer, or a coroutine that does. What it raises becomes a
status in an answer of the same kind: clients look there, and at gRPC's own status only for calls that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from google.protobuf.message import DecodeError, Message

from flintmq.broker.acl import Guard
from flintmq.broker.clients import Clients
from flintmq.broker.connection import ClientConnection
from flintmq.broker.filters import Filters
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc import needs
from flintmq.broker.grpc.asked import Asked
from flintmq.broker.grpc.consuming import GrpcConsuming
from flintmq.broker.grpc.endings import GrpcEndings
from flintmq.broker.grpc.http2 import INTERNAL, INVALID_ARGUMENT, UNIMPLEMENTED, Call
from flintmq.broker.grpc.line import GrpcLine
from flintmq.broker.grpc.messages import Denied, status, status_of_refusal
from flintmq.broker.grpc.renewals import Renewals
from flintmq.broker.grpc.routes import GrpcRoutes
from flintmq.broker.grpc.sending import GrpcSends
from flintmq.broker.grpc.sessions import GrpcSessions
from flintmq.broker.held import Held
from flintmq.broker.pop import Pops
from flintmq.broker.recall import Recalls
from flintmq.broker.requests import Need, Refused, Requests
from flintmq.broker.routes import Routes
from flintmq.broker.send import Sends
from flintmq.broker.served_store import ServedStore
from flintmq.broker.transactions import Endings
from flintmq.errors import UsageError

SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"
AROUND_MAX: Final = 64 << 10  # bytes of a message beside its body: properties, and what protobuf adds
Handler: TypeAlias = Callable[[Asked, Any], Message | Coroutine[None, None, Message | None] | None]


@dataclass(frozen=True, slots=True)
class Method:
    """A method with one request.

    Attributes:
        request, answer: its classes; each answer has a status.
        needs: what a request needs under an ACL.
        handler: answers; what returns None answers by itself.
    """

    request: type[Message]
    answer: type[Message]
    needs: Callable[[Any], Iterable[Need]]
    handler: Handler


class GrpcService:
    """All calls of a broker. Thread: the loop's.

    Args:
        requests: keeps the answers that are under way, and counts errors.
        guard: checks calls by an ACL; None: there is none.
    """

    def __init__(
        self,
        served: ServedStore,
        requests: Requests,
        clients: Clients,
        routes: Routes,
        sends: Sends,
        endings: Endings,
        recalls: Recalls,
        pops: Pops,
        held: Held,
        filters: Filters,
        guard: Guard | None,
    ) -> None:
        self._served, self._requests, self._guard = served, requests, guard
        self.sessions = GrpcSessions(served, clients)
        self._renewals = Renewals(pops, lambda client: self.sessions.get(client) is not None)
        self.sessions.gone = self._renewals.gone
        named = GrpcRoutes(served, routes, pops)
        puts = GrpcSends(served, sends, named, routes.name)
        ends = GrpcEndings(served, endings, recalls, self.sessions)
        consuming = GrpcConsuming(served, pops, held, filters, self.sessions, self._renewals)
        calls: dict[str, tuple[Callable[[Any], Iterable[Need]], Handler]] = {
            "QueryRoute": (needs.of_route, named.route),
            "QueryAssignment": (needs.of_both, named.assignment),
            "Heartbeat": (needs.of_its_group, self.sessions.heartbeat),
            "SendMessage": (needs.to_send, puts.send),
            "ReceiveMessage": (needs.to_receive, consuming.receive),
            "AckMessage": (needs.of_both, consuming.ack),
            "ChangeInvisibleDuration": (needs.of_both, consuming.change),
            "ForwardMessageToDeadLetterQueue": (needs.of_both, consuming.bury),
            "NotifyClientTermination": (needs.of_its_group, self.sessions.end),
            "EndTransaction": (needs.to_publish, ends.end),
            "RecallMessage": (needs.to_publish, ends.recall),
        }
        self._methods = {
            name: Method(getattr(wire, f"{name}Request"), getattr(wire, f"{name}Response"), *call)
            for name, call in calls.items()
        }

    def line(self, connection: ClientConnection) -> GrpcLine:
        """Return what speaks gRPC on a connection."""
        return GrpcLine(connection, self.opened, self._served.config.max_message_size + AROUND_MAX)

    def tasks(self) -> list[Coroutine[None, None, None]]:
        """Return what is to run as long as the broker does."""
        return [self._renewals.keep()]

    def opened(self, call: Call, connection: ClientConnection) -> None:
        """Take a call that begins."""
        asked, name = Asked.of(call, connection), call.path.removeprefix(SERVICE)
        if call.path == f"{SERVICE}Telemetry":
            call.on_message = lambda message: self._told(asked, message)
            call.on_end = call.end
        elif call.path.startswith(SERVICE) and name in self._methods:
            _One(self, asked, self._methods[name])
        else:
            self._requests.count_unknown(call.path[:200], connection.address)
            call.end(UNIMPLEMENTED, f"Method not found: {call.path[1:200]}")

    def _guarded(self, asked: Asked, needs: Iterable[Need]) -> Asked:
        """Return a call that its user may make.

        Raises Refused: the user may not, or is none.
        """
        if self._guard is None:
            return asked
        header = asked.call.header
        user, may = self._guard.grpc(header("authorization"), header("x-mq-date-time"), asked.connection.host, needs)
        return replace(asked, user=user, may=may)

    def _told(self, asked: Asked, message: bytes) -> None:
        try:
            command = wire.TelemetryCommand.FromString(message)
        except DecodeError as error:
            asked.call.end(INVALID_ARGUMENT, f"the command cannot be read: {error}")
            return
        self._requests.start(self._hear(asked, command))

    async def _hear(self, asked: Asked, command: wire.TelemetryCommand) -> None:
        try:
            asked = self._guarded(asked, needs.of_settings(command.settings))
            await self.sessions.told(asked, command)
        except Refused as refused:  # by the ACL
            asked.call.send(wire.TelemetryCommand(status=status_of_refusal(refused)).SerializeToString())
            asked.call.end()
        except Exception as error:
            asked.call.end(INTERNAL, self._requests.described(f"Telemetry of {asked.connection.address}", error))

    def answer(self, asked: Asked, method: Method, message: bytes) -> None:
        """Answer a call, now or later. Nothing is raised."""
        try:
            request = method.request.FromString(message)
        except DecodeError as error:
            asked.call.end(INVALID_ARGUMENT, f"the request cannot be read: {error}")
            return
        try:
            asked = self._guarded(asked, method.needs(request))
            asked.check()
            found = method.handler(asked, request)
        except Exception as error:
            self._send(asked, method.answer(status=self._failed(asked, error)))
            return
        if isinstance(found, Coroutine):
            self._requests.start(self._later(asked, method, found))
        else:
            self._send(asked, found)

    async def _later(self, asked: Asked, method: Method, answer: Coroutine[None, None, Message | None]) -> None:
        try:
            found = await answer
        except Exception as error:
            found = method.answer(status=self._failed(asked, error))
        finally:
            answer.close()  # one that was never begun, at the broker's end
        self._send(asked, found)

    def _send(self, asked: Asked, answer: Message | None) -> None:
        if answer is not None:
            asked.call.send(answer.SerializeToString())
            asked.call.end()

    def _failed(self, asked: Asked, error: Exception) -> wire.Status:
        """Return the status that an error becomes."""
        if isinstance(error, Denied):
            return status(error.code, str(error))
        if isinstance(error, Refused):
            return status_of_refusal(error)
        if isinstance(error, UsageError):
            return status(wire.BAD_REQUEST, str(error))
        what = f"{asked.call.path.removeprefix(SERVICE)} of {asked.connection.address}"
        return status(wire.INTERNAL_SERVER_ERROR, self._requests.described(what, error))


class _One:
    """A call with one request, until that has come."""

    def __init__(self, service: GrpcService, asked: Asked, method: Method) -> None:
        self._service, self._asked, self._method = service, asked, method
        self._message: bytes | None = None
        asked.call.on_message, asked.call.on_end = self._take, self._end

    def _take(self, message: bytes) -> None:
        if self._message is not None:
            self._asked.call.end(INVALID_ARGUMENT, "a second request came in a call of one")
        self._message = message

    def _end(self) -> None:
        if self._message is None:
            self._asked.call.end(INVALID_ARGUMENT, "the call ended without its request")
        else:
            message, self._message = self._message, None  # a receive waits long, and needs it no more
            self._service.answer(self._asked, self._method, message)

"""A client of gRPC made of a socket and the library's other side: calls as stock clients make them."""

import socket
import ssl
import time
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from google.protobuf.message import Message
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.remoting.client import split_address

SERVICE = "/apache.rocketmq.v2.MessagingService/"
LIMIT_S = 60.0  # from here on it hangs; the machine may be slow
ANSWERS: dict[str, type[Message]] = {
    name: getattr(wire, f"{name}Response")
    for name in (
        "QueryRoute", "QueryAssignment", "Heartbeat", "SendMessage", "ReceiveMessage", "AckMessage",
        "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue", "NotifyClientTermination", "EndTransaction",
        "RecallMessage",
    )
} | {"Telemetry": wire.TelemetryCommand}  # fmt: skip
T = TypeVar("T", bound=Message)


def prefixed(message: bytes, compressed: int = 0) -> bytes:
    """A message as gRPC frames it."""
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


def headers(path: str, client: str | None = "test", **more: str) -> list[tuple[str, str]]:
    """The headers of a call, as grpc-java writes them."""
    found = [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers"), ("x-mq-language", "PYTHON"), ("x-mq-protocol", "v2"),
    ]  # fmt: skip
    if client is not None:
        found.append(("x-mq-client-id", client))
    return found + [(name.replace("_", "-"), value) for name, value in more.items()]


def client_connection() -> H2Connection:
    """The client's side of a connection, begun."""
    made = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    made.initiate_connection()
    return made


class Answered:
    """What came on one stream."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.trailers: dict[str, str] = {}
        self.code: str | None = None  # of HTTP
        self.is_over = False
        self.reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.trailers["grpc-status"])

    def messages(self) -> list[bytes]:
        """The whole messages that came."""
        found, at = [], 0
        while at + 5 <= len(self.data) and at + 5 + (n := int.from_bytes(self.data[at + 1 : at + 5], "big")) <= len(
            self.data
        ):
            found.append(bytes(self.data[at + 5 : at + 5 + n]))
            at += 5 + n
        return found


class Streams:
    """What came on all streams of a connection; `reads`: the windows are given back as it comes."""

    def __init__(self, connection: H2Connection, *, reads: bool = True) -> None:
        self.h2, self.reads = connection, reads
        self.of: dict[int, Answered] = defaultdict(Answered)
        self.goaway: int | None = None

    def take(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            match event:
                case ResponseReceived():
                    one = self.of[event.stream_id]
                    found = dict(event.headers)
                    one.code = found[":status"]
                    one.trailers |= {name: value for name, value in found.items() if name.startswith("grpc-")}
                case DataReceived():
                    self.of[event.stream_id].data += event.data
                    if self.reads:
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case TrailersReceived():
                    self.of[event.stream_id].trailers |= dict(event.headers)
                case StreamEnded():
                    self.of[event.stream_id].is_over = True
                case StreamReset():
                    self.of[event.stream_id].is_over = True
                    self.of[event.stream_id].reset = int(event.error_code)
                case ConnectionTerminated():
                    self.goaway = int(event.error_code)


class GrpcTalk:
    """One connection to a broker, closed at the end of a `with` block."""

    def __init__(self, address: str, *, client: str | None = "test", tls: bool = False, reads: bool = True) -> None:
        self.client = client
        self.socket = socket.create_connection(split_address(address), LIMIT_S)
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket)
        self.streams = Streams(client_connection(), reads=reads)
        self.flush()

    @property
    def h2(self) -> H2Connection:
        return self.streams.h2

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.socket.sendall(data)

    def start(self, name: str, request: Message | bytes | None, *, ends: bool = True, **more: str) -> int:
        """Begin a call; the number of its stream."""
        number = self.h2.get_next_available_stream_id()
        path = name if name.startswith("/") else SERVICE + name
        self.h2.send_headers(number, headers(path, self.client, **more), end_stream=request is None and ends)
        if request is not None:
            self.say(number, request, ends=ends)
        self.flush()
        return number

    def say(self, number: int, request: Message | bytes, *, ends: bool = False) -> None:
        """Send one more message in a call."""
        data = prefixed(request.SerializeToString()) if isinstance(request, Message) else request
        while len(data) > (room := min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)):
            if room:
                self.h2.send_data(number, data[:room])
                data = data[room:]
                self.flush()
                continue
            self.pump()
            if self.streams.of[number].is_over:
                return  # it was refused before all of it had come
        self.h2.send_data(number, data, end_stream=ends)
        self.flush()

    def pump(self, seconds: float = LIMIT_S) -> bool:
        """Take what comes next. False: nothing came in time. EOFError: the broker hung up."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            data = self.socket.recv(1 << 20)
        except TimeoutError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError
        self.streams.take(data)
        self.flush()
        return True

    def answered(self, number: int, seconds: float = LIMIT_S) -> Answered:
        """What came on a stream, once it is over."""
        limit = time.monotonic() + seconds
        while not self.streams.of[number].is_over:
            if not self.pump(limit - time.monotonic()):
                raise TimeoutError(f"no end of stream {number}")
        return self.streams.of[number]

    def ask(self, name: str, request: Message | bytes, **more: str) -> Any:
        """The one answer to a call."""
        found = self.answered(self.start(name, request, **more))
        assert found.status == 0, found.trailers
        [message] = found.messages()
        return ANSWERS[name].FromString(message)

    def receive(self, request: wire.ReceiveMessageRequest, **more: str) -> list[wire.ReceiveMessageResponse]:
        found = self.answered(self.start("ReceiveMessage", request, **more), 30)
        assert found.status == 0, found.trailers
        return [wire.ReceiveMessageResponse.FromString(one) for one in found.messages()]

    def settle(self, settings: wire.Settings) -> tuple[int, wire.Settings]:
        """Open the stream of commands with settings; its number, and the completed ones."""
        number = self.start("Telemetry", wire.TelemetryCommand(settings=settings), ends=False)
        [answer] = self.commands(number, 1)
        assert answer.status.code == wire.OK
        return number, answer.settings

    def commands(self, number: int, count: int, seconds: float = LIMIT_S) -> list[wire.TelemetryCommand]:
        """The first commands that came on a stream."""
        limit = time.monotonic() + seconds
        while len(self.streams.of[number].messages()) < count:
            if self.streams.of[number].is_over or not self.pump(limit - time.monotonic()):
                raise TimeoutError(f"no command on stream {number}: {self.streams.of[number].trailers}")
        return [wire.TelemetryCommand.FromString(one) for one in self.streams.of[number].messages()]

    def hung_up(self, seconds: float = LIMIT_S) -> bool:
        """Whether the broker ends the connection in time."""
        limit = time.monotonic() + seconds
        try:
            while self.pump(limit - time.monotonic()):
                pass
        except EOFError:
            return True
        return False

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def resource(name: str) -> wire.Resource:
    return wire.Resource(name=name)


def message(topic: str = "T", body: bytes = b"hello", key: str = "M1", **more: Any) -> wire.Message:
    """A message of a client's producer; `more`: its system properties, `properties`: a user's."""
    made = wire.Message(topic=resource(topic), body=body, user_properties=more.pop("properties", {}))
    made.system_properties.MergeFrom(
        wire.SystemProperties(message_id=key, message_type=wire.NORMAL, body_encoding=wire.IDENTITY)
    )
    made.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    for name, value in more.items():
        if name == "keys":
            made.system_properties.keys.extend(value)
        elif name == "delivery_ms":
            made.system_properties.delivery_timestamp.FromMilliseconds(value)
        else:
            setattr(made.system_properties, name, value)
    return made


def sending(*messages: wire.Message) -> wire.SendMessageRequest:
    return wire.SendMessageRequest(messages=messages)


def receiving(topic: str = "T", group: str = "G", **more: Any) -> wire.ReceiveMessageRequest:
    """A receive of a simple consumer, which waits 5 s at most; `more`: fields, `invisible_ms`, `tags`."""
    made = wire.ReceiveMessageRequest(
        group=resource(group), message_queue=wire.MessageQueue(topic=resource(topic), id=0), batch_size=32
    )
    made.invisible_duration.FromMilliseconds(more.pop("invisible_ms", 30_000))
    made.long_polling_timeout.FromMilliseconds(more.pop("wait_ms", 5_000))
    made.filter_expression.expression = more.pop("tags", "*")
    made.filter_expression.type = more.pop("filter_type", wire.TAG)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def consumer(group: str = "G", kind: int = wire.SIMPLE_CONSUMER, topics: Mapping[str, str] | None = None) -> Any:
    """The settings of a consumer."""
    entries = [
        wire.SubscriptionEntry(topic=resource(topic), expression=wire.FilterExpression(type=wire.TAG, expression=tags))
        for topic, tags in (topics or {"T": "*"}).items()
    ]
    subscription = wire.Subscription(group=resource(group), subscriptions=entries)
    made = wire.Settings(client_type=kind, subscription=subscription)
    made.request_timeout.FromMilliseconds(3000)
    return made


def producer(*topics: str) -> wire.Settings:
    publishing = wire.Publishing(topics=[resource(topic) for topic in topics])
    return wire.Settings(client_type=wire.PRODUCER, publishing=publishing)


def given(answers: list[wire.ReceiveMessageResponse]) -> list[wire.Message]:
    """The messages of a receive: a status comes before them, and a time after."""
    kinds = [one.WhichOneof("content") for one in answers]
    assert kinds == ["status", *["message"] * (len(kinds) - 2), "delivery_timestamp"], kinds
    return [one.message for one in answers if one.HasField("message")]

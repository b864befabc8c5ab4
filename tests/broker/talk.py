"""A client made of a socket: requests as stock clients send them, and whatever comes back."""

import json
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from flintmq.message import StoredMessage
from flintmq.remoting.client import split_address
from flintmq.remoting.frames import RemotingFrame, decode_frame, frame_size

KEYS = {"mappedFileSizeConsumeQueue": 2000}  # 100 units: an answer ends where a file of units does
LIMIT_S = 60.0  # from here on it hangs; the machine may be slow
PLAIN, LOOSE = (",", ":"), (", ", ": ")  # the first as Java's client writes requests, which kernels read
SEPARATORS = PLAIN


def request(
    code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"", *, opaque: int = 1, flag: int = 0
) -> bytes:
    """The bytes of a request as Java's client writes them, by the standard library."""
    head: dict[str, Any] = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 493}
    head |= {"serializeTypeCurrentRPC": "JSON"}
    if fields:
        head["extFields"] = {name: str(value) for name, value in fields.items()}
    written = partial(json.dumps, head, separators=SEPARATORS)
    try:
        text = written(ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair can be sent as an escape only
        text = written().encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


class Line:
    """One connection to a broker, closed at the end of a `with` block. What nobody asked for is in `told`."""

    def __init__(self, address: str, *, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(split_address(address))
        self.kept, self.opaque = bytearray(), 0
        self.told: list[RemotingFrame] = []

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def start(self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"", *, flag: int = 0) -> int:
        """Send a request; return its number."""
        self.opaque += 1
        self.send(request(code, fields, body, opaque=self.opaque, flag=flag))
        return self.opaque

    def frame(self, seconds: float = LIMIT_S) -> RemotingFrame | None:
        """The next frame; None: none came in time. EOFError: the broker hung up."""
        limit = time.monotonic() + seconds
        while True:
            size = frame_size(self.kept)
            if size is not None and len(self.kept) >= size:
                found = decode_frame(self.kept[:size])
                del self.kept[:size]
                return found
            self.socket.settimeout(max(limit - time.monotonic(), 0.001))
            try:
                got = self.socket.recv(1 << 20)
            except TimeoutError:
                return None
            except ConnectionError:
                got = b""
            if not got:
                raise EOFError
            self.kept += got

    def answer(self, number: int, seconds: float = LIMIT_S) -> RemotingFrame:
        """The answer to a request; the broker's own requests before it are kept in `told`."""
        while (found := self.frame(seconds)) is not None:
            if found.is_answer and found.opaque == number:
                return found
            self.told.append(found)
        raise TimeoutError(f"no answer to request {number}; {len(self.kept)} bytes of what comes next")

    def ask(self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"") -> RemotingFrame:
        return self.answer(self.start(code, fields, body))

    def hung_up(self, seconds: float = LIMIT_S) -> bool:
        """Whether the broker ends the connection in time; what it sends before is dropped."""
        try:
            while self.frame(seconds) is not None:
                pass
        except EOFError:
            return True
        return False

    def is_quiet(self, seconds: float) -> bool:
        """Whether nothing comes, not even an end."""
        return not self.kept and not select.select([self.socket], [], [], seconds)[0]

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pull(topic: str = "T", queue_id: int = 0, offset: int = 0, group: str = "G", **more: Any) -> dict[str, Any]:
    """The fields of a pull that brings its subscription, and does not wait."""
    usual = {"maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 1}
    place = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "queueOffset": offset}
    return {**place, **usual, "subscription": "*", "expressionType": "TAG", **more}


def pop(topic: str = "T", group: str = "G", **more: Any) -> dict[str, Any]:
    """The fields of a pop of any queue, of 32 messages for a minute, that does not wait."""
    usual = {"queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 0, "bornTime": 0, "initMode": 0}
    return {"consumerGroup": group, "topic": topic, **usual, "expType": "TAG", "exp": "*", "order": "false", **more}


@dataclass(frozen=True)
class PoppedMessage:
    """A popped message as Java's client has it: with a receipt that it makes itself, unless the broker gave one."""

    message: StoredMessage
    receipt: str

    def fields(self, topic: str = "T", group: str = "G", **more: Any) -> dict[str, Any]:
        """The fields by which the client names it; a retry is one of the topic of retries."""
        words = self.receipt.split(" ")
        place = {"topic": f"%RETRY%{group}_{topic}" if words[4] == "1" else topic, "queueId": words[6]}
        return {"consumerGroup": group, **place, "offset": words[7], "extraInfo": self.receipt, **more}


def popped(answer: RemotingFrame) -> list[PoppedMessage]:
    """The messages of a pop's answer, with receipts as MQClientAPIImpl.processPopResponse makes them."""
    found, fields = list[PoppedMessage](), answer.fields
    starts = dict(one.rsplit(" ", 1) for one in fields.get("startOffsetInfo", "").split(";") if one)
    offsets = dict(one.rsplit(" ", 1) for one in fields.get("msgOffsetInfo", "").split(";") if one)
    for raw in records(answer.body):
        message = StoredMessage(raw)
        receipt = message.properties.get("POP_CK")
        if receipt is None:
            kind = "1" if message.topic.startswith("%RETRY%") else "0"
            queue = f"{kind} {message.queue_id}"
            assert str(message.queue_offset) in offsets[queue].split(",")
            head = f"{starts[queue]} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} {kind}"
            receipt = f"{head} broker-a {message.queue_id} {message.queue_offset}"
        found.append(PoppedMessage(message, receipt))
    return found


def send(topic: str = "T", queue_id: int = 0, properties: str = "", **more: Any) -> dict[str, Any]:
    """The fields of a send in the short form (310, 320): a message of a client's default producer."""
    names = {
        "group": "a", "template": "c", "queues": "d", "sys_flag": "f", "born": "g", "flag": "h", "retried": "j",
        "most": "l", "batch": "m",
    }  # fmt: skip
    usual = {"a": "P", "c": "TBW102", "d": 4, "f": 0, "g": 1_700_000_000_000, "h": 0, "j": 0, "k": "false"}
    return {**usual, "b": topic, "e": queue_id, "i": properties, **{names[name]: value for name, value in more.items()}}


def batch(*messages: tuple[bytes, str]) -> bytes:
    """The body of a batch of messages: bodies and properties, as Java's MessageDecoder writes them."""
    parts = []
    for body, text in messages:
        raw = text.encode()
        size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(raw)
        parts.append(struct.pack(">iiiii", size, 0, 0, 7, len(body)) + body + struct.pack(">h", len(raw)) + raw)
    return b"".join(parts)


def heartbeat(
    client: str, *groups: str, topics: Mapping[str, str] | None = None, version: int = 1, kind: str = "TAG"
) -> bytes:
    """The body of a heartbeat of a client that is in these groups and subscribes to these topics."""
    wanted = [
        {
            "topic": topic, "subString": text, "tagsSet": [], "codeSet": [], "subVersion": version,
            "expressionType": kind, "classFilterMode": False,
        }
        for topic, text in (topics or {}).items()
    ]  # fmt: skip
    consumers = [
        {
            "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": wanted, "unitMode": False,
        }
        for group in groups
    ]  # fmt: skip
    return json.dumps({"clientID": client, "consumerDataSet": consumers, "producerDataSet": []}).encode()


def records(body: bytes) -> Iterator[bytes]:
    """The records of an answer, each by its own length."""
    at = 0
    while at < len(body):
        size = struct.unpack_from(">I", body, at)[0]
        assert 0 < size <= len(body) - at
        yield body[at : at + size]
        at += size

"""A broker or a name server of a few answers, written by hand: no code of the package makes its bytes."""

import base64
import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.compat.replication import FOLDER

LONGEST_S = 30.0


@dataclass
class Asked:
    """A request as it came."""

    code: int
    opaque: int
    fields: dict[str, str]
    body: bytes
    header: dict[str, Any] = field(default_factory=dict)


def reply(
    asked: Asked,
    body: bytes = b"",
    *,
    code: int = 0,
    fields: Mapping[str, str] | None = None,
    remark: str | None = None,
    opaque: int | None = None,
    version: int = 479,
) -> bytes:
    """The frame of an answer, as a broker writes it."""
    head: dict[str, Any] = {"code": code, "flag": 1, "language": "JAVA", "version": version}
    head |= {"opaque": asked.opaque if opaque is None else opaque, "serializeTypeCurrentRPC": "JSON"}
    head |= ({"extFields": dict(fields)} if fields is not None else {}) | ({"remark": remark} if remark else {})
    text = json.dumps(head).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


Answer = Callable[[Asked], bytes | None]


class RemotingPeer:
    """Listens on the loopback and answers each request with the bytes that `answer` gives; None: it hangs up."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.asked = answer, list[Asked]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self.lines: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or its thread would take one more
        self._listener.close()
        for line in self.lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def codes(self) -> list[int]:
        return [one.code for one in self.asked]

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            line.settimeout(LONGEST_S)
            self.lines.append(line)
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError, EOFError):
            while True:
                frame = _exactly(line, struct.unpack(">i", _exactly(line, 4))[0])
                size = int.from_bytes(frame[1:4], "big")
                head = json.loads(frame[4 : 4 + size])
                one = Asked(head["code"], head["opaque"], head.get("extFields", {}), frame[4 + size :], head)
                self.asked.append(one)
                answer = self.answer(one)
                if answer is None:
                    break
                line.sendall(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _exactly(line: socket.socket, count: int) -> bytes:
    kept = b""
    while len(kept) < count:
        got = line.recv(count - len(kept))
        if not got:
            raise EOFError
        kept += got
    return kept


def recorded(version: str) -> dict[int, bytes]:
    """The bodies of a real broker's answers, by code."""
    told = json.loads((FOLDER / f"metadata{version}.json").read_text(encoding="utf-8"))
    return {int(code): base64.b64decode(one["response_body"]) for code, one in told.items()}


def strict(body: bytes) -> dict[str, Any]:
    """An object with numbers as keys, by the standard library."""
    found: dict[str, Any] = json.loads(re.sub(r"([{,])\s*(-?\d+)\s*:", r'\1"\2":', body.decode()))
    return found


CONFIG = (
    b"brokerName=b\nmappedFileSizeCommitLog=65536\nbrokerRole=ASYNC_MASTER\nstoreType=default\n"
    b"enableControllerMode=false\n"
)
RUNTIME = b'{"table":{"commitLogMinOffset":"131072","commitLogMaxOffset":"200000","putTps":"0.1 0.2 0.3"}}'


def broker(bodies: Mapping[int, bytes], **rest: Any) -> Answer:
    """A broker with these bodies; code 3 for other requests."""

    def answer(asked: Asked) -> bytes:
        if asked.code in bodies:
            return reply(asked, bodies[asked.code], **rest)
        return reply(asked, code=3, remark=f" request type {asked.code} not supported")

    return answer

"""Asks brokers and name servers one thing at a time, and reads their addresses."""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, Self

from flintmq.errors import FormatError, RemotingError, UsageError
from flintmq.remoting.frames import RemotingFrame, decode_frame, encode_frame, frame_size
from flintmq.remoting.names import PASSING, SUCCESS

SHOWN: Final = 200  # characters of a peer's text in an error
_PIECE = 1 << 16
_HOST = re.compile(
    r"\[(?P<inner>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<bare>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:%\w+)?|[A-Za-z0-9._-]{1,255}"
)


def split_address(address: str) -> tuple[str, int]:
    """Split `HOST:PORT` at the last colon.

    An IPv6 host may be in brackets, which RocketMQ leaves out.
    """
    host, _, port = address.rpartition(":")
    found = _HOST.fullmatch(host)
    is_number = port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535
    if not found or not is_number or (found["bare"] and not is_ipv6(found["bare"])):
        raise UsageError(f"{address[:SHOWN]!a} is no address; give HOST:PORT")
    return found["inner"] or host, int(port)


def is_ipv6(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, host)
    except OSError:
        return False
    return True


def join_address(host: str, port: int) -> str:
    """Return `HOST:PORT`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RemotingWire(Protocol):
    def settimeout(self, value: float | None, /) -> None:
        """Bound the next calls, in seconds."""

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes."""

    def recv(self, size: int, /) -> bytes:
        """Receive up to `size` bytes; none at the end."""

    def close(self) -> None:
        """Close it."""


Connect = Callable[[tuple[str, int], float], RemotingWire]


class RemotingClient:
    """A connection to a broker or a name server, made at the first request and kept.

    Thread: one at a time.

    Args:
        timeout_s: seconds for each request with its answer, and for the connection.
        all_s: seconds for all requests together; None: no limit.
        connect: opens a connection to (host, port) within so many seconds.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 5.0,
        all_s: float | None = None,
        connect: Connect = socket.create_connection,
    ) -> None:
        self.address, self.timeout_s = address, timeout_s
        self._limit = math.inf if all_s is None else time.monotonic() + all_s
        self._place, self._connect = split_address(address), connect
        self._line: RemotingWire | None = None
        self._received = bytearray()
        self._opaque = 0
        self.peer_version = 0  # number in the last answer; 479 is 5.3.3, 493 is 5.4.0, 513 is 5.5.0

    def request(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> RemotingFrame:
        """Ask and wait for the answer, whatever its code; the connection is closed after an error."""
        self._opaque += 1
        frame = RemotingFrame(code, self._opaque, fields=fields or {}, body=body)
        data = encode_frame(frame)
        deadline = min(time.monotonic() + self.timeout_s, self._limit)
        try:
            if self._line is None:
                self._line = self._connect(self._place, self.timeout_s)
            self._line.settimeout(self.timeout_s)
            self._line.sendall(data)
            return self._answer(self._line, frame, deadline)
        except TimeoutError as error:
            self.close()
            raise TimeoutError(f"{self._where(code)}: no answer in {self.timeout_s:g} s") from error
        except OSError as error:
            self.close()
            raise ConnectionError(f"{self._where(code)}: {error.strerror or error}") from error
        except FormatError as error:
            self.close()
            raise RemotingError(f"{self._where(code)}: no remoting answer ({error})") from None
        except BaseException:
            self.close()
            raise

    def ask(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> RemotingFrame:
        """Ask and wait for an answer of success.

        Raises:
            RemotingError: a refusal, or no answer that can be read.
            OSError: as `request`; also a refusal that may pass, such as "system busy".
        """
        answer = self.request(code, fields, body)
        if answer.code != SUCCESS:
            raise self.refused(code, answer)
        return answer

    def refused(self, code: int, answer: RemotingFrame) -> RemotingError | ConnectionError:
        """Return the error of an answer that is no success; one that may pass is as good as none."""
        text = self.refusal(code, answer)
        passes = answer.code in PASSING or answer.code < 0
        return ConnectionError(text) if passes else RemotingError(text)

    def refusal(self, code: int, answer: RemotingFrame) -> str:
        said = f": {answer.remark[:SHOWN]!a}" if answer.remark else ""
        return f"{self._where(code)}: refused with code {answer.code}{said}"

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        if self._line is not None:
            self._line.close()
            self._line = None
        self._received.clear()

    def _where(self, code: int) -> str:
        return f"{self.address}: request {code}"

    def _answer(self, line: RemotingWire, asked: RemotingFrame, deadline: float) -> RemotingFrame:
        """Receive frames up to the answer; requests of the peer in between are left out."""
        received = self._received
        while True:
            size = frame_size(received)
            if size is not None and len(received) >= size:
                frame = decode_frame(received[:size])
                del received[:size]
                if frame.is_answer and frame.opaque == asked.opaque:
                    self.peer_version = frame.version
                    return frame
                if frame.is_answer:
                    raise FormatError(f"it answers request number {frame.opaque}, and {asked.opaque} was asked")
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            line.settimeout(left)
            got = line.recv(_PIECE)
            if not got:
                raise ConnectionError("the other side hung up")
            received += got

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

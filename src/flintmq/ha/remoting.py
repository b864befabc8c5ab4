"""Frames of RocketMQ's remoting protocol, and a client that asks one thing at a time.

    0  total int32       bytes that follow, 4 to 16 MiB
    4  kind uint8        of the header: 0 JSON, 1 ROCKETMQ
    5  header uint24     bytes of the header
    8  header, then the body to the end of the frame

A JSON header is an object: code, flag, language, opaque, serializeTypeCurrentRPC, version, and perhaps extFields (text
to text) and remark. A ROCKETMQ header is code int16, language int8, version int16, opaque int32, flag int32, remark
(length int32, text), fields (length int32; each: length int16, name, length int32, value). Bit 0 of the flag marks an
answer, bit 1 a request that wants none. The kind is taken from each frame: 5.3.3 to 5.5.0 answer in JSON whatever they
are asked in. The codec knows no socket. Upstream: RemotingCommand, RocketMQSerializable.
"""

from __future__ import annotations

import math
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, Self

from flintmq.errors import FormatError, ReplicationError, UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.text import java_decode, java_encode

JSON: Final = 0
ROCKETMQ: Final = 1
FRAME_MAX: Final = 16 * 1024 * 1024  # of what follows the first four bytes, as at the peer
HEADER_MAX: Final = FRAME_MAX - 4
VERSION: Final = 479  # of RocketMQ 5.3.3; a name server reads a registration by it
ANSWER: Final = 1  # bits of the flag
ONE_WAY: Final = 2
LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
    "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip

SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
NOT_SUPPORTED: Final = 3
PASSING: Final = (2, 14, 1500)
"""Codes that another attempt may not meet: busy (flow control), not available, about to stop. Codes below 0 are of a
broker's own requests to others, and pass too. 1 is any exception of it, one that stays as well."""
SHOWN: Final = 200  # characters of a peer's text in an error

_LENGTHS = struct.Struct(">II")
_HEADER = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, length of the remark
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_PIECE = 1 << 16
_HOST = re.compile(
    r"\[(?P<inner>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<bare>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:%\w+)?|[A-Za-z0-9._-]{1,255}"
)


@dataclass(frozen=True, slots=True)
class RemotingFrame:
    """A request or an answer.

    Attributes:
        code: what is asked; of an answer its outcome, 0 for success.
        opaque: number of the request, which its answer repeats.
        flag: bits ANSWER and ONE_WAY.
        remark: a text with the outcome.
        fields: names to values.
        body: bytes whose meaning depends on the code.
        language, version: of the program that sent it.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    language: str = "PYTHON"
    version: int = VERSION

    @property
    def is_answer(self) -> bool:
        """True if it answers a request."""
        return bool(self.flag & ANSWER)


def encode_frame(frame: RemotingFrame, kind: int = JSON) -> bytes:
    """Encode a frame with its length.

    Raises:
        UsageError: it is larger than 16 MiB, or a number or text does not fit its field.
    """
    try:
        header = _json_header(frame) if kind == JSON else _rocketmq_header(frame)
    except (struct.error, ValueError) as error:
        raise UsageError(f"request {frame.code}: {error}") from None
    total = 4 + len(header) + len(frame.body)
    if total > FRAME_MAX:
        raise UsageError(f"request {frame.code}: {total} bytes, more than the {FRAME_MAX} of a frame")
    return _LENGTHS.pack(total, kind << 24 | len(header)) + header + frame.body


def frame_size(data: bytes | bytearray) -> int | None:
    """Return the size of the frame with which bytes begin, its length included.

    None if there are fewer than four bytes.

    Raises:
        FormatError: a length below 4 or above 16 MiB.
    """
    if len(data) < 4:
        return None
    total = int.from_bytes(data[:4], "big")
    if not 4 <= total <= FRAME_MAX:
        raise FormatError(f"a frame of {total} bytes; 4 to {FRAME_MAX} are possible")
    return 4 + total


def decode_frame(data: bytes | bytearray) -> RemotingFrame:
    """Decode one whole frame, its length included.

    Raises:
        FormatError: lengths that contradict each other, a header of another kind, or one that cannot be read.
    """
    if frame_size(data) != len(data) or len(data) < 8:
        raise FormatError(f"{len(data)} bytes, which are not one frame")
    kind, length = data[4], int.from_bytes(data[5:8], "big")
    if 8 + length > len(data):
        raise FormatError(f"a header of {length} bytes in a frame of {len(data)}", 5)
    header, body = bytes(data[8 : 8 + length]), bytes(data[8 + length :])
    if kind == JSON:
        return _from_json(header, body)
    if kind == ROCKETMQ:
        return _from_rocketmq(header, body)
    raise FormatError(f"a header of kind {kind}; 0 (JSON) and 1 (ROCKETMQ) are known", 4)


def _json_header(frame: RemotingFrame) -> bytes:
    value: JsonObject = {"code": frame.code}
    if frame.fields:
        value["extFields"] = dict(frame.fields)
    value |= {"flag": frame.flag, "language": frame.language, "opaque": frame.opaque}
    if frame.remark is not None:
        value["remark"] = frame.remark
    value |= {"serializeTypeCurrentRPC": "JSON", "version": frame.version}
    return config_json.write(value, "5.4.0", compact=True)


def _from_json(header: bytes, body: bytes) -> RemotingFrame:
    value = config_json.parse(header)

    def number(name: str, default: int | None = None) -> int:
        found = config_json.integer(value.get(name, default))
        if found is None or not -(1 << 31) <= found < 1 << 31:
            raise FormatError(f"a header without a number {name}", 8)
        return found

    def text(name: str) -> str | None:
        found = value.get(name)
        return found if isinstance(found, str) else None

    given = value.get("extFields")
    fields = given if isinstance(given, dict) else {}
    return RemotingFrame(
        code=number("code"),
        opaque=number("opaque"),
        flag=number("flag", 0),
        remark=text("remark"),
        fields={str(name): str(told) for name, told in fields.items() if isinstance(told, (str, int))},
        body=body,
        language=text("language") or "OTHER",
        version=number("version", 0),
    )


def _rocketmq_header(frame: RemotingFrame) -> bytes:
    remark = java_encode(frame.remark or "")
    fields = b"".join(
        _INT16.pack(len(name)) + name + _INT32.pack(len(value)) + value
        for name, value in ((java_encode(name), java_encode(value)) for name, value in frame.fields.items())
    )
    language = LANGUAGES.index(frame.language)
    head = _HEADER.pack(frame.code, language, frame.version, frame.opaque, frame.flag, len(remark))
    return head + remark + _INT32.pack(len(fields)) + fields


def _from_rocketmq(header: bytes, body: bytes) -> RemotingFrame:
    at = _HEADER.size
    if len(header) < at:
        raise FormatError(f"a header of {len(header)} bytes; {at} are the least", 8)
    code, language, version, opaque, flag, size = _HEADER.unpack_from(header)

    def take(size: int) -> bytes:
        nonlocal at
        if not 0 <= size <= len(header) - at:
            raise FormatError(f"a length of {size} with {len(header) - at} bytes left", 8 + at)
        at += size
        return header[at - size : at]

    remark = java_decode(take(size))
    end = _INT32.unpack(take(4))[0]
    if end != len(header) - at:
        raise FormatError(f"fields of {end} bytes with {len(header) - at} left", 8 + at)
    fields = {}
    while at < len(header):
        name = java_decode(take(_INT16.unpack(take(2))[0]))
        fields[name] = java_decode(take(_INT32.unpack(take(4))[0]))
    return RemotingFrame(
        code=code,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        fields=fields,
        body=body,
        language=LANGUAGES[language] if language < len(LANGUAGES) else "OTHER",
        version=version,
    )


def split_address(address: str) -> tuple[str, int]:
    """Split `HOST:PORT` at the last colon.

    An IPv6 host may be in brackets, which RocketMQ leaves out.

    Raises:
        UsageError: there is no host or no port from 1 to 65535.
    """
    host, _, port = address.rpartition(":")
    found = _HOST.fullmatch(host)
    is_number = port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535
    if not found or not is_number or (found["bare"] and not _is_ipv6(found["bare"])):
        raise UsageError(f"{address[:SHOWN]!a} is no address; give HOST:PORT")
    return found["inner"] or host, int(port)


def _is_ipv6(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, host)
    except OSError:
        return False
    return True


def join_address(host: str, port: int) -> str:
    """Return `HOST:PORT`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RemotingWire(Protocol):
    """The part of a socket that the client uses."""

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

    Args:
        address: `HOST:PORT`.
        timeout_s: seconds for each request with its answer, and for the connection.
        all_s: seconds for all requests together; None: no limit.
        connect: opens a connection to (host, port) within so many seconds.

    Raises:
        UsageError: no address.

    Attributes:
        peer_version: number in the last answer; 479 is 5.3.3, 493 is 5.4.0, 513 is 5.5.0.

    Thread: one at a time.
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
        self.peer_version = 0

    def request(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> RemotingFrame:
        """Ask and wait for the answer, whatever its code; the connection is closed after an error.

        Raises:
            OSError: no connection, it was lost, or no answer came in time.
            ReplicationError: bytes that are no answer to this request.
            UsageError: the request does not fit a frame.
        """
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
            raise ReplicationError("config", f"{self._where(code)}: no remoting answer ({error})") from None
        except BaseException:
            self.close()
            raise

    def ask(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> RemotingFrame:
        """Ask and wait for an answer of success.

        Raises:
            OSError, UsageError: as `request`; also a refusal that may pass, such as "system busy".
            ReplicationError: as `request`, or it was refused; the text has the code and the remark.
        """
        answer = self.request(code, fields, body)
        if answer.code != SUCCESS:
            raise self.refused(code, answer)
        return answer

    def refused(self, code: int, answer: RemotingFrame) -> ReplicationError | ConnectionError:
        """Return the error of an answer that is no success; one that may pass is as good as none."""
        text = self.refusal(code, answer)
        passes = answer.code in PASSING or answer.code < 0
        return ConnectionError(text) if passes else ReplicationError("config", text)

    def refusal(self, code: int, answer: RemotingFrame) -> str:
        """Return one line about an answer that is no success."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""Frames of RocketMQ's remoting protocol.

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

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flintmq.errors import FormatError, UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.text import java_decode, java_encode

JSON: Final = 0
ROCKETMQ: Final = 1
FRAME_MAX: Final = 16 * 1024 * 1024  # of what follows the first four bytes, as at the peer
LOOSE_MAX: Final = 64 << 10  # of JSON that is not plain: a hostile megabyte would keep an event loop for seconds
FIELDS_MAX: Final = 1024  # of one header: 100,000 would keep an event loop for a fifth of a second
VERSION: Final = 479  # of RocketMQ 5.3.3; a name server reads a registration by it
_FOURTH: Final = 212  # of the first 4.0.0; each release has a snapshot before it
ANSWER: Final = 1  # bits of the flag
ONE_WAY: Final = 2
LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
    "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip

_LENGTHS = struct.Struct(">II")
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_HEADER = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, length of the remark
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class RemotingFrame:
    code: int  # what is asked; of an answer its outcome, 0 for success
    opaque: int = 0  # number of the request, which its answer repeats
    flag: int = 0  # bits ANSWER and ONE_WAY
    remark: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""  # bytes whose meaning depends on the code
    language: str = "PYTHON"
    version: int = VERSION

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & ANSWER)


def release_name(version: int) -> str:
    """Return the release that a frame's version names, such as V5_3_3.

    Upstream: MQVersion.getVersionDesc.
    """
    number, is_release = divmod(version - _FOURTH, 2)
    if not 0 <= number < 200:  # before, releases have no rule; after them there is one name for all
        return "HIGHER_VERSION" if number >= 200 else str(version)
    name = f"V{4 + number // 100}_{number // 10 % 10}_{number % 10}"
    return name if is_release else f"{name}_SNAPSHOT"


def encode_frame(frame: RemotingFrame, kind: int = JSON) -> bytes:
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
    """
    if len(data) < 4:
        return None
    total = int.from_bytes(data[:4], "big")
    if not 4 <= total <= FRAME_MAX:
        raise FormatError(f"a frame of {total} bytes; 4 to {FRAME_MAX} are possible")
    return 4 + total


def decode_frame(data: bytes | bytearray) -> RemotingFrame:
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
    plain = _encode(value)
    # The library and Java escape differently; text that needs no escape is the same.
    return plain.encode() if "\\" not in plain else config_json.write(value, "5.4.0", compact=True)


def _from_json(header: bytes, body: bytes) -> RemotingFrame:
    value = config_json.parse(header, LOOSE_MAX)

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
    if len(fields) > FIELDS_MAX:
        raise FormatError(f"a header with {len(fields)} fields; {FIELDS_MAX} are the most", 8)
    return RemotingFrame(
        code=number("code"),
        opaque=number("opaque"),
        flag=number("flag", 0),
        remark=text("remark"),
        fields={str(name): _text(told) for name, told in fields.items() if isinstance(told, (str, int))},
        body=body,
        language=text("language") or "OTHER",
        version=number("version", 0),
    )


def _text(told: str | int) -> str:
    return told if isinstance(told, str) else json.dumps(told)


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
    fields = dict[str, str]()
    while at < len(header):
        if len(fields) == FIELDS_MAX:
            raise FormatError(f"a header with more than {FIELDS_MAX} fields", 8 + at)
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

"""Remoting frames as Java writes them, and hostile ones."""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import FormatError, UsageError
from flintmq.remoting.frames import (
    FRAME_MAX,
    JSON,
    ROCKETMQ,
    RemotingFrame,
    decode_frame,
    encode_frame,
    frame_size,
    release_name,
)
from tests.compat.replication import FOLDER, VERSIONS


def recorded_frames() -> Iterator[tuple[str, bytes, bytes | None]]:
    """(name, frame, its body if that was recorded too) of all that brokers and slaves sent."""
    for version in VERSIONS:
        for code, one in json.loads((FOLDER / f"metadata{version}.json").read_text(encoding="utf-8")).items():
            yield f"{version} request {code}", base64.b64decode(one["request"]), b""
            yield f"{version} answer {code}", base64.b64decode(one["response"]), base64.b64decode(one["response_body"])
        for n, one in enumerate(json.loads((FOLDER / f"registration{version}.json").read_text(encoding="utf-8"))):
            yield f"{version} registration {n}", base64.b64decode(one["bytes"]), None


FRAMES = list(recorded_frames())


def header_of(data: bytes) -> dict[str, Any]:
    """The JSON header of a frame, by the standard library."""
    size = struct.unpack_from(">I", data, 4)[0]
    assert size >> 24 == 0
    found: dict[str, Any] = json.loads(data[8 : 8 + size])
    return found


@pytest.mark.parametrize(("name", "data", "body"), FRAMES, ids=[name for name, _, _ in FRAMES])
def test_frames_of_java(name: str, data: bytes, body: bytes | None):
    head, frame = header_of(data), decode_frame(data)
    assert frame_size(data) == len(data)
    assert (frame.code, frame.opaque, frame.flag) == (head["code"], head["opaque"], head["flag"])
    assert (frame.language, frame.version, frame.remark) == (head["language"], head["version"], head.get("remark"))
    assert dict(frame.fields) == head.get("extFields", {})
    assert frame.is_answer == ("answer" in name or name.endswith("registration 1"))
    assert body is None or frame.body == body


@pytest.mark.parametrize(
    ("name", "data"), [(name, data) for name, data, _ in FRAMES if "request" in name or "registration 0" in name]
)
def test_requests_are_encoded_as_java_encodes_them(name: str, data: bytes):
    head = header_of(data)
    frame = RemotingFrame(
        head["code"],
        head["opaque"],
        fields=head.get("extFields", {}),
        body=data[8 + struct.unpack_from(">I", data, 4)[0] :],
        language="JAVA",
        version=head["version"],
    )
    assert encode_frame(frame) == data


ROCKETMQ_BYTES = bytes.fromhex(
    "0000002d 01000027"  # 45 bytes follow; kind 1, header of 39
    "0015 00 01df 00000007 00000001"  # code 21, JAVA, version 479, opaque 7, an answer
    "00000002 6f6b"  # remark: ok
    "00000010 0001 61 00000002 6263 0001 64 00000000"  # fields: a=bc, d=
    "7b7d"  # body
)


def test_a_rocketmq_header_written_by_hand():
    frame = RemotingFrame(21, 7, 1, "ok", {"a": "bc", "d": ""}, b"{}", "JAVA", 479)
    assert decode_frame(ROCKETMQ_BYTES) == frame
    assert encode_frame(frame, ROCKETMQ) == ROCKETMQ_BYTES


def test_every_prefix_of_a_frame_is_refused():
    for data in (ROCKETMQ_BYTES, FRAMES[0][1]):
        for end in range(len(data)):
            with pytest.raises(FormatError):
                decode_frame(data[:end])
            inside = struct.pack(">I", max(end - 4, 0)) + data[4:end]  # the length agrees, the header's does not
            if 8 <= end < len(data) - 2:
                with pytest.raises(FormatError):
                    decode_frame(inside)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (struct.pack(">i", 2**31 - 1), "2147483647 bytes"),
        (struct.pack(">i", -5), "4294967291 bytes"),
        (struct.pack(">i", 3), "3 bytes"),
        (struct.pack(">i", FRAME_MAX + 1), f"{FRAME_MAX + 1} bytes"),
        (struct.pack(">iI", 4, 9), "a header of 9 bytes"),
        (struct.pack(">iI", 4, 0), "begins with"),
        (struct.pack(">iI", 4, 2 << 24), "kind 2"),
        (struct.pack(">iI", 6, 2) + b"{}", "number code"),
        (struct.pack(">iI", 26, 22) + b'{"code":1,"opaque":[]}', "number opaque"),
        (struct.pack(">iI", 36, 32) + b'{"code":99999999999,"opaque":12}', "number code"),
        (ROCKETMQ_BYTES.replace(b"\0\0\0\x02ok", b"\xff\xff\xff\xffok"), "length of -1"),
        (ROCKETMQ_BYTES.replace(b"\0\0\0\x02ok", b"\x7f\xff\xff\xffok"), "length of 2147483647"),
        (ROCKETMQ_BYTES.replace(b"\0\0\0\x10\0\x01a", b"\0\0\0\x0f\0\x01a"), "fields of 15 bytes"),
        (ROCKETMQ_BYTES.replace(b"\0\x01a", b"\xff\xffa"), "length of -1"),
        (ROCKETMQ_BYTES.replace(b"\0\0\0\x02bc", b"\0\0\0\x63bc"), "length of 99"),
    ],
)
def test_hostile_frames(data: bytes, text: str):
    with pytest.raises(FormatError, match=text):
        if frame_size(data) is not None:
            decode_frame(data)


@given(st.binary(max_size=200), st.sampled_from((JSON, ROCKETMQ)), st.integers(0, 250))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_frame_or_refused(tail: bytes, kind: int, size: int):
    try:
        frame = decode_frame(struct.pack(">II", 4 + len(tail), kind << 24 | size) + tail)
    except FormatError:
        return
    assert len(frame.body) == len(tail) - size


@given(st.binary(max_size=8), st.integers(0, len(ROCKETMQ_BYTES)))
@settings(max_examples=200, deadline=None)
def test_a_damaged_frame_is_a_frame_or_refused(damage: bytes, at: int):
    data = bytearray(ROCKETMQ_BYTES)
    data[at : at + len(damage)] = damage
    try:
        frame = decode_frame(data[: len(ROCKETMQ_BYTES)])
    except FormatError:
        return
    assert len(frame.body) < len(ROCKETMQ_BYTES)


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(
    st.builds(
        RemotingFrame,
        code=st.integers(-(1 << 15), (1 << 15) - 1),
        opaque=st.integers(-(1 << 31), (1 << 31) - 1),
        flag=st.integers(0, 3),
        remark=st.none() | TEXT.filter(bool),
        fields=st.dictionaries(TEXT, TEXT, max_size=4),
        body=st.binary(max_size=40),
        version=st.integers(0, 1000),
    ),
    st.sampled_from((JSON, ROCKETMQ)),
)
@settings(max_examples=200, deadline=None)
def test_a_frame_comes_back(frame: RemotingFrame, kind: int):
    assert decode_frame(encode_frame(frame, kind)) == frame


def test_requests_that_fit_no_frame():
    with pytest.raises(UsageError, match="more than the 16777216"):
        encode_frame(RemotingFrame(103, body=bytes(FRAME_MAX)))
    with pytest.raises(UsageError, match="request 70000"):
        encode_frame(RemotingFrame(70000), ROCKETMQ)


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
def test_a_header_has_so_many_fields_at_most(kind: int):
    fields = {str(number): "" for number in range(1024)}
    assert decode_frame(encode_frame(RemotingFrame(105, fields=fields), kind)).fields == fields
    with pytest.raises(FormatError, match="1024"):
        decode_frame(encode_frame(RemotingFrame(105, fields=fields | {"more": ""}), kind))


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (479, "V5_3_3"), (493, "V5_4_0"), (513, "V5_5_0"), (317, "V4_5_2"), (413, "V5_0_0"), (412, "V5_0_0_SNAPSHOT"),
        (213, "V4_0_0"), (611, "V5_9_9"), (612, "HIGHER_VERSION"), (1 << 30, "HIGHER_VERSION"), (211, "211"),
        (-1, "-1"),
    ],
)  # fmt: skip
def test_names_of_releases(version: int, name: str):
    """As the enumeration of MQVersion has them."""
    assert release_name(version) == name

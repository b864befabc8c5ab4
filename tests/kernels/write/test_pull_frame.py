"""kernels/write/pull_frame: a plain pull is what remoting/frames.py and PullRequest make of it."""

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.pull import PullRequest
from flintmq.broker.requests import INT32, INT64, Peer, Refused, Request
from flintmq.errors import FormatError
from flintmq.kernels.write import pull_frame
from flintmq.remoting.frames import FRAME_MAX, ROCKETMQ, RemotingFrame, decode_frame, encode_frame
from flintmq.remoting.pulls import FIELDS, answer_pieces, pull_answer
from tests.support.guarded_memory import guarded

DEFAULTS = tuple(FIELDS.values())
RECORDED = json.loads((Path(__file__).parents[2] / "remoting" / "pulls.json").read_text(encoding="utf-8"))
STOCK = [
    (f"{kind} {n}", base64.b64decode(one))
    for kind, frames in RECORDED.items()
    if kind != "about"
    for n, one in enumerate(frames)
]
PUSH = {
    "consumerGroup": "readers", "topic": "orders", "queueId": "1", "queueOffset": "320", "maxMsgNums": "32",
    "sysFlag": "3", "commitOffset": "288", "suspendTimeoutMillis": "15000", "subVersion": "1795990906159",
    "expressionType": "TAG", "bname": "broker-a", "maxMsgBytes": "2147483647",
}  # fmt: skip
"""The fields of a pull of Java's push consumer."""
REQUIRED = ("consumerGroup", "topic", "queueId", "queueOffset")
Asked = tuple[int, PullRequest]


def json_frame(fields: dict[str, Any], *, ascii: bool = False, at_once: str = "", **header: Any) -> bytes:
    """A pull as Java writes it, by the standard library; `at_once` is put before the end of the header."""
    head = {"code": 11, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7}
    head |= {"serializeTypeCurrentRPC": "JSON", "version": 513} | header
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=ascii)[:-1] + at_once + "}"
    return whole(text.encode())


def rocketmq_frame(fields: dict[str, str], code: int = 11, flag: int = 0, remark: str | None = None) -> bytes:
    return encode_frame(RemotingFrame(code, 7, flag, remark, fields, language="JAVA", version=513), ROCKETMQ)


def whole(header: bytes, kind: int = 0) -> bytes:
    return struct.pack(">II", 4 + len(header), kind << 24 | len(header)) + header


def reference(data: bytes) -> Asked:
    """What the general codec makes of a frame that is a pull."""
    return len(data), PullRequest.of(Request(decode_frame(data), cast(Peer, None), 513))


def read(data: bytes | memoryview, at: int = 0) -> Asked | None:
    found = pull_frame.read(data, at, DEFAULTS)
    return None if found is None else (found[0], PullRequest(*found[1]))


def check(data: bytes, plain: bool) -> None:
    """A frame is read as the reference reads it if it is plain; wherever it is, and whatever follows."""
    found = read(data)
    assert (found is not None) is plain
    if found is None:
        return
    wanted = reference(data)
    assert found == wanted and list(map(type, found[1])) == list(map(type, wanted[1]))
    behind = read(memoryview(bytearray(b"x" * 11 + data + data)), 11)
    assert behind == (11 + len(data), found[1])


@pytest.mark.parametrize(("name", "data"), STOCK, ids=[name for name, _ in STOCK])
def test_what_stock_consumers_sent(name: str, data: bytes):
    check(data, plain=True)


@pytest.mark.parametrize("frame", [json_frame, rocketmq_frame])
@pytest.mark.parametrize("code", [11, 361])
def test_a_pull_by_hand(frame: Any, code: int):
    fields = PUSH | {"subscription": "a || ä€", "expressionType": "SQL92"}
    assert read(frame(fields, code=code, flag=2)) == (
        len(frame(fields, code=code, flag=2)),
        (code, 7, 2, "readers", "orders", 1, 320, 32, 3, 288, 15000, "a || ä€", 1795990906159, "SQL92", 2147483647),
    )
    assert read(frame({"consumerGroup": "", "topic": "t", "queueId": "-1", "queueOffset": "0"}, code=code)) == (
        len(frame({"consumerGroup": "", "topic": "t", "queueId": "-1", "queueOffset": "0"}, code=code)),
        (code, 7, 0, "", "t", -1, 0, 32, 0, -1, 0, "*", 0, "TAG", 262144),
    )


def test_the_kernel_s_fields_are_the_table_s():
    """Each field alone changes the value that is at its place."""
    bare = dict.fromkeys(REQUIRED, "5")
    plain = read(json_frame(bare))
    assert plain is not None and plain[1][3:] == tuple(
        FIELDS[name] if name not in REQUIRED else "5" if name in ("consumerGroup", "topic") else 5 for name in FIELDS
    )
    for place, name in enumerate(FIELDS):
        other = read(json_frame(bare | {name: "6"}))
        assert other is not None
        assert [k for k in range(12) if other[1][3 + k] != plain[1][3 + k]] == [place]


PLAIN: list[dict[str, Any]] = [
    {}, {"consumerGroup": "组"}, {"topic": "%RETRY%readers"}, {"topic": ""}, {"queueId": "-1"}, {"queueId": "007"},
    {"queueOffset": "9" * 18}, {"queueOffset": "-" + "9" * 18}, {"maxMsgNums": str(-(1 << 31))}, {"sysFlag": "-1"},
    {"subscription": ""}, {"subscription": "t1 || 名\x7f"}, {"expressionType": ""}, {"maxMsgBytes": "-1"},
    {"bname": "any 名\x7f"}, {"requestSource": "0"}, {"": ""}, {"é": "x"}, {"topiC": "x"}, {"queueI": "x"},
]  # fmt: skip
LEFT: list[dict[str, Any]] = [
    {"topic": 'g"'}, {"consumerGroup": "t\\"}, {"subscription": "t\n"}, {"bname": "\t"}, {'b"': "x"}, {"b\\": "x"},
    {"queueId": ""}, {"queueId": "4 "}, {"queueId": "+4"}, {"queueId": "4.0"}, {"queueId": "2147483648"},
    {"maxMsgNums": "-2147483649"}, {"sysFlag": "1e3"}, {"queueId": 1}, {"queueOffset": "9" * 19}, {"queueOffset": "-"},
    {"commitOffset": "x"}, {"suspendTimeoutMillis": ""}, {"subVersion": "new"}, {"maxMsgBytes": "9" * 19},
    {"bname": None}, {"bname": 1}, {"bname": {}}, {"subscription": None}, {"queueId": "１"},
]  # fmt: skip


@pytest.mark.parametrize("change", PLAIN, ids=lambda change: repr(change)[:40])
def test_what_is_plain(change: dict[str, str]):
    for frame in (json_frame, rocketmq_frame):
        check(frame(PUSH | change), plain=True)
        for name in PUSH:
            check(frame({key: value for key, value in (PUSH | change).items() if key != name}), name not in REQUIRED)


@pytest.mark.parametrize("change", LEFT, ids=lambda change: repr(change)[:40])
def test_what_is_left_to_the_reference(change: dict[str, Any]):
    check(json_frame(PUSH | change), plain=False)


@pytest.mark.parametrize(
    ("header", "plain"),
    [
        ({"version": 0}, True), ({"language": ""}, True), ({"opaque": -(1 << 31)}, True), ({"flag": 2}, True),
        ({"remark": ""}, True), ({"remark": "any"}, True), ({"code": 361}, True), ({"ascii": True}, True),
        ({"code": 10}, False), ({"code": 1}, False), ({"code": 110}, False), ({"code": 3610}, False),
        ({"code": "11"}, False), ({"remark": None}, False), ({"remark": "\n"}, False),
        ({"flag": 1}, False), ({"flag": 3}, False), ({"flag": 4}, False), ({"flag": "0"}, False),
        ({"opaque": 1 << 31}, False), ({"opaque": 7.5}, False), ({"opaque": None}, False),
        ({"version": -(1 << 31) - 1}, False), ({"language": None}, False), ({"language": '"'}, False),
        ({"extFields": None}, False), ({"extFields": {}}, False), ({"extFields": []}, False), ({"other": 1}, False),
        ({"at_once": ","}, False), ({"at_once": ',"opaque":8'}, False), ({"at_once": " "}, False),
        ({"at_once": "}"}, False), ({"at_once": ',"flag":0'}, False), ({"at_once": ',"extFields":{"a":""}'}, False),
    ],
    ids=str,
)  # fmt: skip
def test_json_headers(header: dict[str, Any], plain: bool):
    check(json_frame(PUSH, **header), plain)


@pytest.mark.parametrize(
    ("before", "after", "plain"),
    [
        (b'"topic":"orders"', b'"topic":"\xff"', False), (b'"topic":"orders"', b'"topic":"\xed\xa0\xbd"', False),
        (b'"bname":"broker-a"', b'"bname":"\xff\xed\xa0\xbd\xc3"', True), (b'"bname"', b'"\xff"', True),
        (b'"topic":"orders"', b'"topic":"\\u006f"', False), (b'"topic":"orders"', b'"topic": "orders"', False),
        (b'"topic":"orders",', b'"topic":"x","topic":"y",', False), (b'"bname"', b'"topic"', False),
        (b'"bname":"broker-a",', b'"bname":"a","bname":"b",', True), (b'"flag":0', b'"flag": 0', False),
        (b'"flag":0', b'"flag":-0', True), (b'"flag":0', b'"flag":00', True), (b'"flag":0', b'"flag":', False),
        (b'"flag":0,', b"", True), (b'"opaque":7,', b"", False), (b'"2147483647"}', b'"2147483647",}', False),
        (b'"2147483647"}', b'"2147483647"', False), (b'{"code"', b'\xef\xbb\xbf{"code"', False),
        (b'{"code":11', b'{"code":11 ', False), (b'{"code":11', b'{"code":011', False),
        (b'"version":513}', b'"version":513} ', False), (b'"version":513}', b'"version":513', False),
        (b'"version":513}', b'"version":513,}', False), (b'"version":513}', b'"version":513,"extFields":{', False),
    ],
)  # fmt: skip
def test_json_headers_by_bytes(before: bytes, after: bytes, plain: bool):
    header = json_frame(PUSH)[8:]
    assert header.count(before) == 1
    check(whole(header.replace(before, after)), plain)


@pytest.mark.parametrize(
    ("frame", "plain"),
    [
        (rocketmq_frame(PUSH), True), (rocketmq_frame(PUSH, flag=2, remark="any"), True),
        (rocketmq_frame(PUSH, 10), False), (rocketmq_frame(PUSH, flag=1), False), (rocketmq_frame({}), False),
        (whole(rocketmq_frame(PUSH)[8:], kind=2), False), (whole(rocketmq_frame(PUSH)[8:-1], kind=1), False),
        (whole(rocketmq_frame(PUSH)[8:] + b"\0", kind=1), False), (whole(b"", kind=1), False),
        (whole(rocketmq_frame({**PUSH, "topid": "x"})[8:].replace(b"topid", b"topic"), kind=1), False),
        (whole(rocketmq_frame(PUSH)[8:].replace(b"orders", b"order\xff"), kind=1), False),
        (whole(rocketmq_frame(PUSH)[8:].replace(b"broker-a", b"broker-\xff"), kind=1), True),
        (whole(rocketmq_frame(PUSH | {"topic": '"\n\\'})[8:], kind=1), True),
    ],
)  # fmt: skip
def test_rocketmq_headers(frame: bytes, plain: bool):
    check(frame, plain)


@pytest.mark.parametrize("data", [json_frame(PUSH), rocketmq_frame(PUSH)])
def test_no_length_leads_out_of_the_bytes_at_hand(data: bytes):
    kind, size, total = data[4], int.from_bytes(data[5:8], "big"), len(data) - 4
    for end in range(len(data)):
        assert read(guarded(data[:end])) is None
    for at in (-1, -(1 << 63), 1, len(data) - 7, len(data), (1 << 63) - 1):
        assert read(guarded(data), at) is None
    impossible = (0, 1, 3, 4, 5, size - 1, size + 3, total + 1, FRAME_MAX, FRAME_MAX + 1, 1 << 31, (1 << 32) - 1)
    for wrong in impossible:
        assert read(guarded(struct.pack(">I", wrong) + data[4:])) is None
        assert read(guarded(data[:4] + struct.pack(">I", wrong) + data[8:])) is None
    for place in range(8, len(data) - 4 if kind else 8):  # each length of the header, and all else
        for wrong in (-1, -(1 << 31), 1, 5, size, (1 << 31) - 1):
            damaged = data[:place] + struct.pack(">i", wrong) + data[place + 4 :]
            found = read(guarded(damaged))
            assert found is None or found == reference(damaged)
    assert read(guarded(data)) == reference(data)


TEXT = st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace").decode())
NUMBER = st.integers(-(1 << 33), 1 << 33).map(str) | st.integers(0, 9).map(str) | TEXT
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        name: TEXT if name in ("consumerGroup", "topic", "subscription", "expressionType") else NUMBER
        for name in FIELDS
    } | {"bname": TEXT, "x": TEXT},
)  # fmt: skip
BOUNDS = {name: INT32 if name in ("queueId", "maxMsgNums", "sysFlag") else INT64 for name in FIELDS}


def is_plain(fields: dict[str, str], escapes: bool, is_json: bool) -> bool:
    """Whether a pull of these fields is plain, by the words of the kernel's docstring."""
    odd = r'["\\\x00-\x1f]' + (r"|[^ -~]" if escapes else "")
    if is_json and any(re.search(odd, value) for value in fields.values()):
        return False
    for name, value in fields.items():
        if name in BOUNDS and name not in ("consumerGroup", "topic", "subscription", "expressionType"):
            low, high = BOUNDS[name]
            if not re.fullmatch(r"-?[0-9]{1,18}", value) or not low <= int(value) <= high:
                return False
    return True


@given(CHANGES, st.booleans(), st.permutations(list(FIELDS)))
@settings(max_examples=400, deadline=None)
def test_a_pull_is_plain_or_left(changes: dict[str, str], escapes: bool, order: list[str]):
    fields = PUSH | changes
    fields = {name: fields[name] for name in [*order, "bname", "x"] if name in fields}
    check(json_frame(fields, ascii=escapes), is_plain(fields, escapes, is_json=True))
    check(rocketmq_frame(fields), is_plain(fields, escapes, is_json=False))


@given(
    st.sampled_from([data for _, data in STOCK] + [rocketmq_frame(PUSH)]),
    st.lists(
        st.tuples(st.integers(0, 500), st.binary(max_size=3) | st.sampled_from([b"\\", b'"', b"}", b",", b"\0\0\0\1"])),
        max_size=3,
    ),
)
@settings(max_examples=600, deadline=None)
def test_a_damaged_frame_is_read_as_the_reference_reads_it_or_left(stock: bytes, damage: list[tuple[int, bytes]]):
    data = bytearray(stock)
    for at, piece in damage:
        data[at : at + len(piece)] = piece
    found = read(guarded(bytes(data)))
    if found is not None:
        assert found[0] <= len(data) and found == reference(bytes(data[: found[0]]))


def test_a_frame_that_is_refused_by_the_reference_is_left_to_it():
    data = json_frame(PUSH)
    for damaged in (data[:8] + b"[" + data[9:], data[:4] + b"\x02" + data[5:]):
        assert read(damaged) is None
        with pytest.raises(FormatError):
            decode_frame(damaged)
    late = json_frame(PUSH | {"commitOffset": "soon"})
    assert read(late) is None
    with pytest.raises(Refused, match="commitOffset"):
        reference(late)


def test_defaults_of_another_number_are_refused():
    with pytest.raises(IndexError):
        pull_frame.read(json_frame(dict.fromkeys(REQUIRED, "5")), 0, DEFAULTS[:5])


# -- answers -----------------------------------------------------------------------------------------------------------

PIECES = answer_pieces(513, 0, "FOUND")


def test_an_answer_by_hand():
    header = (
        b'{"code":0,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"35","minOffset":"3","maxOffset":"90",'
        b'"topicSysFlag":"0","groupSysFlag":"0"},"flag":1,"language":"JAVA","opaque":7,"remark":"FOUND",'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    for data in (b"", b"records"):
        wanted = struct.pack(">II", 4 + len(header) + len(data), len(header)) + header + data
        assert pull_frame.answer(PIECES, 7, 35, 3, 90, data, 0) == wanted
        assert pull_frame.answer(PIECES, 7, 35, 3, 90, b"", len(data)) == wanted[: len(wanted) - len(data)]


SIGNED = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.integers(-(1 << 31), (1 << 31) - 1), SIGNED, SIGNED, SIGNED, st.binary(max_size=90),
    st.sampled_from([0, 19, 20, 21]), TEXT.filter(lambda text: not re.search(r"\?[123]|1000000007", text)),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_an_answer_is_the_reference_s(opaque, following, low, high, data, code, remark):
    wanted = encode_frame(pull_answer(opaque, 513, code, remark, following, low, high, data))
    pieces = answer_pieces(513, code, remark)
    assert pull_frame.answer(pieces, opaque, following, low, high, data, 0) == wanted
    head = pull_frame.answer(pieces, opaque, following, low, high, b"", len(data))
    assert head is not None and head + data == wanted


def test_what_is_no_answer_s():
    for pieces, more in ((PIECES[:4], 0), ((*PIECES, b""), 0), (PIECES, -1)):
        with pytest.raises(ValueError, match="five pieces"):
            pull_frame.answer(pieces, 7, 1, 0, 1, b"", more)
    with pytest.raises(TypeError):
        pull_frame.answer((*PIECES[:4], cast(bytes, None)), 7, 1, 0, 1, b"", 0)
    room = FRAME_MAX - 4 - (len(cast(bytes, pull_frame.answer(PIECES, 7, 1, 0, 1, b"", 0))) - 8)
    assert pull_frame.answer(PIECES, 7, 1, 0, 1, b"", room) is not None
    for more in (room + 1, FRAME_MAX, (1 << 63) - 1):
        assert pull_frame.answer(PIECES, 7, 1, 0, 1, b"", more) is None
    assert pull_frame.answer((b"x" * 70_000, *PIECES[1:]), 7, 1, 0, 1, b"", 0) is None

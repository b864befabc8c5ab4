"""kernels/write/send_frame: a plain send is what remoting/frames.py and the constructor of Message make of it."""

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import properties
from flintmq.format.text import java_encode
from flintmq.kernels.write import send_frame
from flintmq.message import Message, PutMessageStatus, PutResult
from flintmq.remoting.frames import FRAME_MAX, decode_frame, encode_frame, frame_size
from flintmq.remoting.sends import answer_pieces, send_answer
from flintmq.store.message_store import MessageStore
from tests.support.guarded_memory import guarded

HOST = "10.0.0.5:51234"
RECORDED = json.loads((Path(__file__).parents[2] / "remoting" / "sends.json").read_text(encoding="utf-8"))
JAVA = [
    (f"{version} {n}", base64.b64decode(one)) for version in ("533", "550") for n, one in enumerate(RECORDED[version])
]
NOT_PLAIN = (5, 7)  # the one with a delay level, and the batch
FIELDS = {
    "a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1795990906159", "h": "0",
    "i": "UNIQ_KEY\1FD00\2WAIT\1true\2", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip


def frame_of(
    fields: dict[str, Any], body: bytes = b"body", *, ascii: bool = False, at_once: str = "", **header: Any
) -> bytes:
    """A send as Java writes it, by the standard library; `at_once` is put before the end of the header."""
    head = {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7}
    head |= {"serializeTypeCurrentRPC": "JSON", "version": 513} | header
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=ascii)[:-1] + at_once + "}"
    data = text.encode()
    return struct.pack(">II", 4 + len(data) + len(body), len(data)) + data + body


def reference(data: bytes) -> tuple[int, int, int, str, str, int, Message]:
    """What remoting/frames.py makes of a frame that is a send."""
    frame = decode_frame(data)
    given = frame.fields
    message = Message(
        given["b"], frame.body, queue_id=int(given["e"]), sys_flag=int(given["f"]), born_timestamp=int(given["g"]),
        flag=int(given["h"]), properties_bytes=java_encode(given["i"]), reconsume_times=int(given.get("j", "0")),
        born_host=HOST,
    )  # fmt: skip
    return len(data), frame.opaque, frame.flag, given["a"], given["c"], int(given["d"]), message


def check(data: bytes, plain: bool) -> None:
    """A frame is read as the reference reads it if it is plain; wherever it is, and whatever follows."""
    found = send_frame.read(data, 0, HOST)
    assert (found is not None) is plain
    if found is None:
        return
    assert found == reference(data)
    assert [type(one) for one in found] == [int, int, int, str, str, int, Message]
    assert type(found[-1].body) is type(found[-1].properties_bytes) is bytes and found[-1].wait is True
    behind = send_frame.read(memoryview(bytearray(b"x" * 11 + data + data)), 11, HOST)
    assert behind is not None and behind[0] == 11 + len(data) and behind[1:] == found[1:]


@pytest.mark.parametrize(("name", "data"), JAVA, ids=[name for name, _ in JAVA])
def test_what_stock_producers_sent(name: str, data: bytes):
    check(data, plain=int(name.split()[1]) not in NOT_PLAIN)


def test_a_send_by_hand():
    data = frame_of(FIELDS | {"i": 'a\1"\\/ä\u20ac\2' + KEYED, "f": "769", "h": "-5", "j": "3"}, b"\x00\xff", flag=2)
    assert send_frame.read(data, 0, HOST) == (
        len(data), 7, 2, "producers", "TBW102", 4,
        Message("orders", b"\x00\xff", queue_id=1, sys_flag=0x301, born_timestamp=1795990906159, flag=-5,
                properties_bytes=('a\1"\\/ä€\2' + KEYED).encode(), reconsume_times=3, born_host=HOST),
    )  # fmt: skip


KEYED = "UNIQ_KEY\1k\2"
PLAIN: list[dict[str, Any]] = [
    {}, {"a": ""}, {"a": "组"}, {"b": "ns%orders"}, {"e": "-1"}, {"g": "-1"}, {"g": "9" * 18}, {"d": "007"},
    {"h": str(-(1 << 31))}, {"f": "3"}, {"i": KEYED}, {"i": "UNIQ_KEY\1\2"}, {"i": "a\1b\2" + KEYED},
    {"i": KEYED + "aWAIT\1false\2bDELAY\0013\2cREPLY_TO_CLIENT\1d\2dCLUSTER\1e\2"},
    {"i": "a\1" + "v" * 32_000 + "\2" + KEYED}, {"i": "😀\1\b\f\n\r\t\0\2" + KEYED}, {"j": "2147483647"},
    {"n": "any 名\x7f"},
]  # fmt: skip
LEFT: list[dict[str, Any]] = [
    {"b": "%RETRY%group"}, {"b": "%DLQ%group"}, {"a": 'g"'}, {"b": "t\\"}, {"b": "t\n"}, {"c": "\1"}, {"n": "\t"},
    {"d": ""}, {"d": "4 "}, {"d": "+4"}, {"d": "4.0"}, {"d": "2147483648"}, {"e": "-2147483649"}, {"e": "1e3"},
    {"e": 1}, {"f": "4"}, {"f": "8"}, {"f": "16"}, {"f": "128"}, {"f": "-1"}, {"g": "9" * 19}, {"g": "-"}, {"g": ""},
    {"h": "x"}, {"j": ""}, {"j": "2147483648"}, {"j": None}, {"k": "true"}, {"k": "False"}, {"m": "true"}, {"m": ""},
    {"l": "16"}, {"i": ""}, {"i": "\2"}, {"i": "a\1b\2"}, {"i": "MY_UNIQ_KEY\1k\2"}, {"i": "UNIQ_KEY\2"},
    *({"i": KEYED + text} for text in (
        "a\1b", "DELAY\0013\2", "a\1b\2TIMER_DELAY_MS\0015\2", "TRAN_MSG\1true\2", "INNER_NUM\0013\2", "WAIT\1false\2",
        "WAIT\1true", "WAIT\2", "WAIT\1TRUE\2", "REPLY_TO_CLIENT\1c\2", "a\1b\2CLUSTER\1c\2",
        "a\1" + "v" * 32_767 + "\2",
    )), {"o": ""}, {"aa": ""}, {"AccessKey": "x"}, {"": ""},
    {"é": "x"},
]  # fmt: skip


@pytest.mark.parametrize("change", PLAIN, ids=lambda change: repr(change)[:40])
def test_what_is_plain(change: dict[str, Any]):
    check(frame_of(FIELDS | change), plain=True)
    for name in FIELDS:
        check(frame_of({key: value for key, value in FIELDS.items() if key != name}), plain=name in "jkmn")


@pytest.mark.parametrize("change", LEFT, ids=lambda change: repr(change)[:40])
def test_what_is_left_to_the_reference(change: dict[str, Any]):
    check(frame_of(FIELDS | change), plain=False)


@pytest.mark.parametrize(
    ("header", "plain"),
    [
        ({"version": 0}, True), ({"language": ""}, True), ({"opaque": -(1 << 31)}, True), ({"flag": 2}, True),
        ({"code": 10}, False), ({"code": 311}, False), ({"code": 3100}, False), ({"code": "310"}, False),
        ({"flag": 1}, False), ({"flag": 3}, False), ({"flag": 4}, False), ({"flag": "0"}, False),
        ({"opaque": 1 << 31}, False), ({"opaque": 7.5}, False), ({"opaque": None}, False), ({"remark": "x"}, True),
        ({"version": -(1 << 31) - 1}, False), ({"language": None}, False), ({"language": '"'}, False),
        ({"extFields": None}, False), ({"extFields": {}}, False), ({"other": 1}, False),
        ({"at_once": ","}, False), ({"at_once": ',"opaque":8'}, False), ({"at_once": " "}, False),
        ({"at_once": "}"}, False), ({"at_once": ',"flag":0'}, False), ({"at_once": ',"extFields":{"a":""}'}, False),
    ],
    ids=str,
)  # fmt: skip
def test_headers(header: dict[str, Any], plain: bool):
    check(frame_of(FIELDS, **header) if "extFields" in header else frame_of(FIELDS, b"b", **header), plain)


@pytest.mark.parametrize(
    ("before", "after", "plain"),
    [
        (b'"a":"producers"', b'"a":"\xff"', False), (b'"b":"orders"', b'"b":"\xed\xa0\xbd"', False),
        (b"FD00", b"\xc0\x80", False), (b"FD00", b"\\ud83d\\ude00", False), (b"FD00", b"\\uDFFF", False),
        (b"FD00", b"\\u00E4\\u20ac\\uFfFf\\u007f\\u0080\\u07ff\\u0800\\ud7ff\\ue000", True),
        (b"FD00", rb'\b\f\n\r\t\/\\\"', True), (b"FD00", rb"\'", False), (b"FD00", rb"\x41", False),
        (b"FD00", rb"\u12", False), (b"FD00", rb"\u12g4", False), (b"FD00", b"\\\n", False), (b"FD00", b"\t", False),
        (b'"a":"producers",', b'"a":"x","a":"y",', False), (b'"flag":0', b'"flag": 0', False),
        (b'"flag":0', b'"flag":-0', True), (b'"flag":0', b'"flag":00', True), (b'"flag":0', b'"flag":', False),
        (b'"flag":0', b'"flag":-', False), (b'"flag":0,', b"", True), (b'"opaque":7,', b"", False),
        (b'"n":"broker-a"', b'"n":"broker-a",', False), (b'"n":"broker-a"}', b'"n":"broker-a"', False),
        (b'{"code"', b'\xef\xbb\xbf{"code"', False), (b'"version":513}', b'"version":513} ', False),
        (b'"version":513}', b'"version":513', False), (b'"version":513}', b'"version":513,}', False),
    ],
)  # fmt: skip
def test_headers_by_bytes(before: bytes, after: bytes, plain: bool):
    header = frame_of(FIELDS, b"")[8:]
    assert header.count(before) == 1
    header = header.replace(before, after)
    check(struct.pack(">II", 4 + len(header) + 1, len(header)) + header + b"b", plain)


def test_no_length_leads_out_of_the_bytes_at_hand():
    data = frame_of(FIELDS, b"some body")
    size, total = struct.unpack(">II", data[:8])[1], len(data) - 4
    for end in range(len(data)):
        assert send_frame.read(guarded(data[:end]), 0, HOST) is None
    for at in (-1, -(1 << 63), 1, len(data) - 7, len(data), (1 << 63) - 1):
        assert send_frame.read(guarded(data), at, HOST) is None
    impossible = (0, 1, 3, 4, 5, size - 1, size + 3, total + 1, FRAME_MAX, FRAME_MAX + 1, 1 << 31, (1 << 32) - 1)
    for wrong in impossible:
        assert send_frame.read(guarded(struct.pack(">I", wrong) + data[4:]), 0, HOST) is None
        assert send_frame.read(guarded(data[:4] + struct.pack(">I", wrong) + data[8:]), 0, HOST) is None
    shorter = struct.pack(">I", total - 3) + data[4:]
    assert send_frame.read(guarded(shorter), 0, HOST) == reference(shorter[:-3])
    assert send_frame.read(guarded(data[:4] + struct.pack(">I", 1 << 24 | size) + data[8:]), 0, HOST) is None
    assert send_frame.read(guarded(data), 0, HOST) == reference(data)


TEXT = st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace").decode())
PAIRS = st.lists(
    st.sampled_from(["UNIQ_KEY", KEYED, "WAIT", "DELAY", "TIME", "TRAN", "INNER_", "REPL", "CLUST", "TAGS", "W"]) | TEXT
    | st.sampled_from(["\1", "\2", "true", "\1true\2"]),
    max_size=6,
).map("".join)  # fmt: skip
NUMBER = st.integers(-(1 << 33), 1 << 33).map(str) | st.integers(0, 9).map(str) | TEXT
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "a": TEXT, "b": TEXT, "c": TEXT, "d": NUMBER, "e": NUMBER, "f": NUMBER, "g": NUMBER, "h": NUMBER,
        "i": PAIRS | PAIRS.map(lambda text: text + "\2"), "j": NUMBER, "k": TEXT | st.just("true"), "m": TEXT,
        "l": NUMBER, "n": TEXT, "x": TEXT,
    },
)  # fmt: skip


LEFT_NAMES = ("DELA", "TIME", "INNE", "TRAN", "REPL", "CLUS")


def is_plain(fields: dict[str, str], escapes: bool) -> bool:
    """Whether a send of these fields is plain, by the words of the kernel's docstring."""
    pairs = fields["i"]
    if any(
        re.search(r'["\\\x00-\x1f]' + (r"|[^ -~]" if escapes else ""), fields[name]) for name in fields.keys() - {"i"}
    ):
        return False
    if escapes and re.search(r"[^\x00-\uffff]", pairs):
        return False
    wide = (1 << 31) - 1
    for name, low, high in (("d", ~wide, wide), ("e", ~wide, wide), ("f", 0, 0x703), ("g", -(1 << 63), 1 << 62),
                            ("h", ~wide, wide), ("j", ~wide, wide)):  # fmt: skip
        if not re.fullmatch(r"-?[0-9]{1,18}", fields[name]) or not low <= int(fields[name]) <= high:
            return False
    names = re.split("\2", pairs)[:-1]
    return (
        fields.keys() <= set("abcdefghijkmn") and fields["k"] == fields["m"] == "false"
        and int(fields["f"]) & ~0x703 == 0 and not fields["b"].startswith("%")
        and pairs.endswith("\2") and not any(name.startswith(LEFT_NAMES) for name in names)
        and any(name.startswith("UNIQ_KEY\1") for name in names)
        and not any(name.startswith("WAIT") and name != "WAIT\1true" for name in names)
    )  # fmt: skip


@given(CHANGES, st.binary(max_size=20), st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_send_is_plain_or_left(changes: dict[str, str], body: bytes, escapes: bool):
    fields = FIELDS | changes
    check(frame_of(fields, body, ascii=escapes), plain=is_plain(fields, escapes))


@given(
    st.sampled_from([data for _, data in JAVA]),
    st.lists(
        st.tuples(st.integers(0, 400), st.binary(max_size=3) | st.sampled_from([b"\\", b'"', b"}", b","])), max_size=3
    ),
)
@settings(max_examples=400, deadline=None)
def test_a_damaged_frame_is_read_as_the_reference_reads_it_or_left(java: bytes, damage: list[tuple[int, bytes]]):
    data = bytearray(java)
    for at, piece in damage:
        data[at : at + len(piece)] = piece
    found = send_frame.read(guarded(bytes(data)), 0, HOST)
    if found is not None:
        assert found[0] <= len(data) and found == reference(bytes(data[: found[0]]))


PIECES = answer_pieces(513)


def put_result(
    key: Any, offset: int = 3, physical: int = 77, host: bytes = bytes([127, 0, 0, 1, 0, 0, 42, 159])
) -> PutResult:
    return PutResult(PutMessageStatus.PUT_OK, offset, physical, 100, 1, host, None, key)


def test_an_answer_by_hand():
    header = (
        b'{"code":0,"extFields":{"msgId":"7F00000100002A9F000000000000004D","queueId":"1","queueOffset":"3",'
        b'"transactionId":"FD00","MSG_REGION":"DefaultRegion","TRACE_ON":"true"},"flag":1,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    wanted = struct.pack(">II", 4 + len(header), len(header)) + header
    for key in ("FD00", b"UNIQ_KEY\1FD00\2", b"a\1b\2UNIQ_KEY\1FD00", b"UNIQ_KEY\1\2UNIQ_KEY\1FD00\2UNIQ_KEY2\1x\2"):
        assert send_frame.answer(PIECES, 7, 1, put_result(key)) == wanted
    assert frame_size(wanted) == len(wanted)


KEY = TEXT | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
SIGNED = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.none() | KEY | PAIRS.map(str.encode) | KEY.map(lambda key: f"UNIQ_KEY\1{key}\2".encode()),
    st.integers(-(1 << 31), (1 << 31) - 1), SIGNED, SIGNED, SIGNED, st.binary(min_size=8, max_size=8), TEXT,
)  # fmt: skip
@settings(max_examples=400, deadline=None)
def test_an_answer_is_the_reference_s_or_left(key, opaque, queue_id, offset, physical, host, region):
    result = put_result(key, offset, physical, host)
    found = send_frame.answer(answer_pieces(513, region), opaque, queue_id, result)
    told = result.msg_id
    if found is None:
        plain = told is not None and re.fullmatch(r"[ !#-\[\]-~]+", told) is not None
        assert not plain or physical < 0 or (isinstance(key, bytes) and key.count(b"UNIQ_KEY\1") > 1)
    else:
        assert found == encode_frame(send_answer(opaque, 513, result.offset_msg_id, queue_id, offset, told, region))


@pytest.mark.parametrize(
    "key", [None, "", 'a"', "a\\", "ä", "a\x7f", b"", b"UNIQ_KEY", b"UNIQ_KEY\1a\2UNIQ_KEY\1b\2"], ids=repr
)
def test_answers_that_are_left_to_the_reference(key: str | bytes | None):
    assert send_frame.answer(PIECES, 7, 1, put_result(key)) is None


def test_neither_an_ipv6_store_nor_what_is_not_stored_is_answered_here():
    assert send_frame.answer(PIECES, 7, 1, put_result("k", host=bytes(20))) is None
    assert send_frame.answer(PIECES, 7, 1, put_result("k", physical=-1)) is None
    for wrong in (PIECES[:5], (*PIECES, b"")):
        with pytest.raises(ValueError, match="six pieces"):
            send_frame.answer(wrong, 7, 1, put_result("k"))
    with pytest.raises(TypeError):
        send_frame.answer((*PIECES[:5], None), 7, 1, put_result("k"))


def test_sends_of_java_from_the_wire_into_the_store_and_back(tmp_path: Path):
    """Read, put and answered: what is stored is what a message made by hand is, and its answer is the reference's."""
    with MessageStore(tmp_path, dev=True) as store:
        for n, data in enumerate(data for name, data in JAVA if int(name.split()[1]) not in NOT_PLAIN):
            read = send_frame.read(data, 0, HOST)
            assert read is not None
            message = read[-1]
            result = store.put(message)
            frame = decode_frame(data)
            store.wait_dispatched()
            got = store.get(frame.fields["b"], int(frame.fields["e"]), result.queue_offset).messages[0]
            assert (got.body, got.topic, got.born_host) == (frame.body, frame.fields["b"], HOST)
            assert (got.born_timestamp, got.sys_flag) == (int(frame.fields["g"]), int(frame.fields["f"]))
            assert got.properties == properties.parse(frame.fields["i"])
            told = send_answer(n, 513, got.offset_msg_id, message.queue_id, result.queue_offset, got.msg_id)
            assert send_frame.answer(PIECES, n, message.queue_id, result) == encode_frame(told)


def test_a_frame_that_is_refused_by_the_reference_is_left_to_it():
    data = frame_of(FIELDS)
    for damaged in (data[:8] + b"[" + data[9:], data[:4] + b"\x02" + data[5:]):
        assert send_frame.read(damaged, 0, HOST) is None
        with pytest.raises(FormatError):
            decode_frame(damaged)

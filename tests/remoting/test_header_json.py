"""JSON headers of frames: what the standard library parses is what our own parser of RocketMQ's dialect parses."""

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import config_json
from flintmq.remoting.frames import RemotingFrame, decode_frame

JSON_TEXT = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["\\", '"', "'", "/", "\x00", "\x1f", "\x7f", "\u2028", "\ud800", "\udfff", "\U0001f600", "\\ud83d", "\ufeff"]
    ),
)
ESCAPES = st.sampled_from(
    [r"\n", r"\/", r"\'", r"\"", r"\\", r"\b", r"\u0041", r"\u00e4", r"\ud83d\ude00", r"\ud83d", r"\uDE00", r"\\ud83d",
     r"\u", r"\u12", r"\x41", "\\\n", "\\"]
)  # fmt: skip


def quoted(pieces: list[str]) -> str:
    return '"' + "".join(pieces) + '"'


STRINGS = st.builds(json.dumps, JSON_TEXT, ensure_ascii=st.booleans()) | st.builds(
    quoted, st.lists(ESCAPES | st.sampled_from(["a", "ä", "😀", "\t", "'"]), max_size=4)
)
NUMBERS = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.sampled_from(
        ["0", "-0", "00", "-", "+1", "1.5", "1e3", "1E-3", "-1.0e400", "NaN", "Infinity", "-Infinity", "0x1", "1_0",
         "9" * 17, "9" * 18, "-" + "9" * 17, "9" * 19, str((1 << 63) - 1), str(1 << 63), str(-(1 << 63)), "9" * 5000]
    ),
)  # fmt: skip


def nested(depth: int, kind: str) -> str:
    return "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "1" + "}" * depth


def object_of(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"


VALUES = st.recursive(
    STRINGS
    | NUMBERS
    | st.sampled_from(["true", "false", "null", "True", "{}", "[]", "[1,]", '{"a":1,}', "/**/1", "'x'", "a", ""])
    | st.builds(nested, st.sampled_from([1, 61, 62, 63, 64, 65, 200, 50_000]), st.sampled_from(["list", "object"])),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda all_: "[" + ",".join(all_) + "]")
        | st.lists(st.tuples(STRINGS, inner), max_size=3).map(object_of)
    ),
    max_leaves=6,
)


NAMES_OF_HEADERS = st.sampled_from(
    ['"code"', '"opaque"', '"flag"', '"version"', '"language"', '"remark"', '"extFields"', '"serializeTypeCurrentRPC"',
     "code", "5", "'code'", r'"\u0063ode"']
)  # fmt: skip
FIELDS = st.lists(st.tuples(STRINGS | st.sampled_from(["1", '"1"']), STRINGS | NUMBERS | VALUES), max_size=4)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A header that is nearly right, as text: names may come twice, and anything may be a value."""
    pairs = draw(
        st.sampled_from([[], [('"code"', "11"), ('"opaque"', "7")], [('"code"', '"11"'), ('"opaque"', '"7"')]])
    )
    pairs = pairs + draw(st.lists(st.tuples(NAMES_OF_HEADERS | STRINGS, VALUES), max_size=3))
    if draw(st.booleans()):
        pairs.append(('"extFields"', object_of(draw(FIELDS))))
    text = draw(st.sampled_from(["", " ", "\t\r\n", "\ufeff", "\x0b", "//c\n"])) + object_of(
        draw(st.permutations(pairs))
    )
    data = (text + draw(st.sampled_from(["", "", "", " ", "}", "\x00", ",", "1"]))).encode("utf-8", "surrogatepass")
    return data + draw(st.sampled_from([b"", b"", b"", b"\xff", b"\xc0\x80"]))


def outcome(header: bytes) -> RemotingFrame | str:
    """What a header becomes, or that it is refused."""
    try:
        return decode_frame(struct.pack(">II", 4 + len(header) + 2, len(header)) + header + b"xy")
    except FormatError as error:
        return f"{error.reason} at {error.position}"


def has_a_name_twice(header: bytes) -> bool:
    twice = list[str]()

    def take(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        twice.extend(name for name in names if names.count(name) > 1)

    json.loads(header.decode("utf-8", "replace"), object_pairs_hook=take)
    return bool(twice)


@given(headers())
@settings(max_examples=250, deadline=None)
def test_the_fast_way_through_json_gives_what_the_slow_one_gives(header: bytes):
    fast = outcome(header)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config_json, "_plain", lambda text: None)
        slow = outcome(header)
    # Of a name that comes twice the library keeps the last value alone, so it does not see how deep the others are.
    if slow != fast:
        assert isinstance(slow, str) and slow.startswith("deeper than") and has_a_name_twice(header)


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":1,"code":2,"opaque":3,"opaque":4}',
        b'{"code":11,"opaque":7,"extFields":{"a":"1","a":"2","b":1,"b":null}}',
        b'{"code":11,"opaque":7,"extFields":{"a":"\\ud83d\\ude00","b":"\\ud83d","c":"\xed\xa0\xbd"}}',
        b'{"code":11,"opaque":7,"extFields":{"n":9223372036854775807,"m":-9223372036854775808}}',
        b'{"code":11,"opaque":7,"extFields":{"n":9223372036854775808}}',
        b'{"code":11,"opaque":7,"x":' + nested(63, "list").encode() + b"}",
        b'{"code":11,"opaque":7,"x":' + nested(64, "list").encode() + b"}",
        b'{"code":11,"opaque":7,"x":' + nested(100_000, "object").encode() + b"}",
        b'{"code":1.0,"opaque":7}',
        b'{"code":true,"opaque":7}',
        b'{"code":11,"opaque":7,"remark":"\\u0000\x01"}',
    ],
)
def test_edges_of_the_fast_way(header: bytes, monkeypatch: pytest.MonkeyPatch):
    fast = outcome(header)
    monkeypatch.setattr(config_json, "_plain", lambda text: None)
    assert outcome(header) == fast

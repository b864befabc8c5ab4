"""Java's JSON: golden files byte for byte, what upstream takes and refuses, bounds; the standard library as oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import config_json as cj
from tests.compat.stores import Golden


def config_files(store: Golden) -> list[Path]:
    """The JSON files of a golden store; a bare store has only the compaction position."""
    found = [path for folder in ("config", "compaction") for path in sorted((store.path / folder).glob("*"))]
    return [path for path in found if path.name.split(".")[0] != "timercheck" and path.stat().st_size]


def test_golden_files_byte_for_byte(golden_store: Golden) -> None:
    peer = "5.4.0" if "540" in golden_store.name else "5.3.3"
    for path in config_files(golden_store):
        raw = path.read_bytes()
        assert cj.write(cj.parse(raw), peer, compact="etrics" in path.name) == raw, path.name


def test_golden_values(golden: Any) -> None:
    store = golden("config")
    topics = cj.parse((store.path / "config" / "topics.json").read_bytes())["topicConfigTable"]
    assert topics["Bulk"]["attributes"] == {"queue.type": "BatchCQ"} and topics["%RETRY%TxGroup"]["perm"] == 6
    offsets = cj.parse((store.path / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
    assert offsets["Audit@AuditGroup"] == {0: 14, 1: 14}


TAKEN = [
    ("{}", {}),
    (" \t\r\n{ } \n", {}),
    ("\ufeff{}", {}),
    ('{"a":1}', {"a": 1}),
    ("{0:1,-1:2}", {0: 1, -1: 2}),
    ('{"0":1}', {"0": 1}),
    ("{'a':'b\"c'}", {"a": 'b"c'}),
    ("{name:1,$x_9:2}", {"name": 1, "$x_9": 2}),
    ('{"a":1,}', {"a": 1}),
    ('{"a":[1,2,],"b":[]}', {"a": [1, 2], "b": []}),
    ('{/* one */"a"/**/:// two\n1}', {"a": 1}),
    ('{"a":"/* no */ // comment"}', {"a": "/* no */ // comment"}),
    ('{"a":true,"b":false,"c":null}', {"a": True, "b": False, "c": None}),
    ('{"a":-0.5,"b":1e3,"c":1.5E-2}', {"a": -0.5, "b": 1000.0, "c": 0.015}),
    ('{"a":9223372036854775807,"b":-9223372036854775808}', {"a": (1 << 63) - 1, "b": -(1 << 63)}),
    ('{"a":1,"a":2}', {"a": 2}),
    (r'{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}', {"a": '"\\/\b\f\n\r\té😀'}),
    (r'{"a":"\ud83d!"}', {"a": "?!"}),
    ('{"%RETRY%g@1":{0:1}}', {"%RETRY%g@1": {0: 1}}),
    ('{"a":"tab\there"}', {"a": "tab\there"}),
    ('{"a":{}}//end', {"a": {}}),
]


@pytest.mark.parametrize(("text", "value"), TAKEN)
def test_taken(text: str, value: Any) -> None:
    assert cj.parse(text.encode()) == value
    assert cj.parse(memoryview(text.encode())) == value


REFUSED = [
    ("", 0, "an object begins"),
    ("[]", 0, "an object begins"),
    ("null", 0, "an object begins"),
    ("{} x", 3, "text behind the object"),
    ("{}{}", 2, "text behind the object"),
    ("{", 1, "ends early"),
    ('{"a"', 4, "no :"),
    ('{"a":', 5, "ends early"),
    ('{"a":1', 6, "ends early"),
    ('{"a":[1', 7, "ends early"),
    ('{"é', 4, "string does not end"),
    ('{"a\\', 3, "unknown escape"),
    ('{"a":"\\x41"}', 6, "unknown escape"),
    ('{"a":"\\u12g4"}', 6, "unknown escape"),
    ('{"a" 1}', 5, "no :"),
    ('{"a":1 "b":2}', 7, "neither , nor }"),
    ('{"a":[1 2]}', 8, "neither , nor ]"),
    ("{,}", 1, "no key"),
    ('{"a":,}', 5, "no value"),
    ('{"a":NaN}', 5, "no value"),
    ('{"a":Infinity}', 5, "no value"),
    ('{"a":tru}', 5, "no value"),
    ('{"a":01x}', 7, "neither , nor }"),
    ("{1a:2}", 2, "no :"),
    ('{"a":9223372036854775808}', 5, "beyond 64 bits"),
    ("{9223372036854775808:1}", 1, "beyond 64 bits"),
    ('{"a":1e999}', 5, "out of range"),
    ('{"a":' + "9" * 100_000 + "}", 5, "beyond 64 bits"),
    ('{"a":1.' + "9" * 100_000 + "}", 5, "out of range"),
    ('{"a":1}/* open', 7, "text behind"),
    ('{"a":/* open', 5, "no value"),
]


@pytest.mark.parametrize(("text", "position", "words"), REFUSED)
def test_refused(text: str, position: int, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        cj.parse(text.encode())
    assert caught.value.position == position and len(str(caught.value)) < 200


def test_bounds() -> None:
    deep = lambda levels: b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)  # noqa: E731
    assert cj.parse(deep(64))
    for levels in (65, 100_000):
        with pytest.raises(FormatError, match="deeper than 64"):
            cj.parse(deep(levels))
        with pytest.raises(FormatError, match="deeper than 64"):
            cj.parse(b'{"a":' + b"[" * levels)
    with pytest.raises(FormatError, match="more than the 67108864"):
        cj.parse(bytes(cj.MAX_BYTES + 1))


def test_every_prefix_is_refused(golden: Any) -> None:
    """A file that a crash cut short never passes for a whole one."""
    raw = (golden("config").path / "config" / "consumerOffset.json").read_bytes()
    for length in range(len(raw)):
        with pytest.raises(FormatError):
            cj.parse(raw[:length])


def test_bytes_that_are_not_utf8() -> None:
    assert cj.parse(b'{"a\xff":"\xed\xa0\x80"}') == {"a\ufffd": "\ufffd"}


@pytest.mark.parametrize("text", ['{"a":"' + "\\n" * 300_000 + '"}', "{" + "/**/" * 300_000 + "}", "{" + " " * 10**6])
def test_time_is_linear(text: str) -> None:
    try:
        cj.parse(text.encode())
    except FormatError as error:
        assert "ends early" in error.reason


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), ("5", 5), ("-5", -5), (True, None), (None, None), ("x", None), (1.5, None), ([], None), ("9" * 19, None)],
)
def test_integer(value: Any, number: int | None) -> None:
    assert cj.integer(value) == number


KEYS = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, JSON, max_size=4), st.booleans(), st.sampled_from([None, 0, "\t"]))
def test_reads_what_the_standard_library_writes(value: dict[str, Any], ascii_only: bool, indent: Any) -> None:
    assert cj.parse(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == value


@given(
    st.dictionaries(KEYS, JSON | st.dictionaries(st.integers(-9, 99), st.integers(0, 99), max_size=3), max_size=4),
    st.sampled_from(["5.3.3", "5.4.0"]),
    st.booleans(),
)
def test_round_trip(value: dict[str, Any], peer: str, compact: bool) -> None:
    raw = cj.write(value, peer, compact)
    assert cj.parse(raw) == value
    assert not compact or (raw.isascii() and b"\n" not in raw)


@given(st.text(alphabet="{}[]:,\"'\\/* \n0-1.eEtrufalsn\ufeff", max_size=40))
def test_random_text(text: str) -> None:
    try:
        assert isinstance(cj.parse(text.encode()), dict)
    except FormatError as error:
        assert 0 <= error.position <= len(text.encode())


def test_what_cannot_be_written() -> None:
    with pytest.raises(FormatError, match="set cannot be written"):
        cj.write({"a": {1}})
    with pytest.raises(FormatError, match="bytes cannot be written"):
        cj.write({"a": b"1"})


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes of file are many of memory."""
    monkeypatch.setattr(cj, "MAX_VALUES", 1000)
    text = '{"a":[' + ",".join(["{}"] * 999) + "]}"
    assert len(cj.parse(text.encode())["a"]) == 999
    with pytest.raises(FormatError, match="more than 1000 values"):
        cj.parse(text.replace("[{}", "[1,{}").encode())


def test_members_have_the_places_of_the_text(golden_store: Golden) -> None:
    """Between a member's begin and the next one's stands its key; its value is the parser's."""
    for path in config_files(golden_store):
        data, members = path.read_bytes(), list[cj.Member]()
        value = cj.parse(data)
        assert cj.members(data, members.append) is None
        begins = [member.begin for member in members]
        assert begins == sorted(set(begins))
        for member in members:
            found: Any = value
            for step in member.path:
                found = found[step]
            key = str(member.path[-1]).encode()
            assert data[member.begin :].lstrip(b'"').startswith(key) or isinstance(member.path[-1], int), member.path
            assert member.known and (member.value == found or isinstance(found, (dict, list)))


@given(st.binary(max_size=60).map(lambda data: b'{"a":[1,' + data))
def test_members_of_anything(data: bytes) -> None:
    members: list[cj.Member] = []
    error = cj.members(data, members.append)
    assert [member.path for member in members[:2]] == [("a",), ("a", 0)]
    try:
        cj.parse(data)
    except FormatError:
        assert error is not None and 0 <= error.position <= len(data)
    else:
        assert error is None

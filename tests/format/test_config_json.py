"""Java's JSON: golden files byte for byte, what upstream takes and refuses, bounds; the standard library as oracle."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import config_json as cj
from tests.compat.stores import Golden


def config_files(store: Golden) -> list[Path]:
    """The JSON files of a golden store; a bare store has only the compaction position."""
    found = [path for folder in ("config", "compaction") for path in sorted((store.path / folder).glob("*"))]
    return [path for path in found if path.name.split(".")[0] != "timercheck" and path.stat().st_size]


def test_golden_files_byte_for_byte(golden_store: Golden) -> None:
    for path in config_files(golden_store):
        raw = path.read_bytes()
        assert cj.write(cj.parse(raw), golden_store.peer, compact="etrics" in path.name) == raw, path.name


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
    ('{"a":00000000000000000007}', {"a": 7}),
    ('{"a":0.' + "0" * 61 + "7}", {"a": 7e-62}),
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
    ("", 0, "an object begins with {"),
    ("[]", 0, "an object begins with {"),
    ("null", 0, "an object begins with {"),
    ("{} x", 3, "text after the object"),
    ("{}{}", 2, "text after the object"),
    ("{", 1, "the text ends early"),
    ('{"a"', 4, "no : after a key"),
    ('{"a":', 5, "the text ends early"),
    ('{"a":1', 6, "the text ends early"),
    ('{"a":[1', 7, "the text ends early"),
    ('{"é', 4, "a string does not end"),
    ('{"a\\', 3, "an unknown escape in a string"),
    ('{"a":"\\x41"}', 6, "an unknown escape in a string"),
    ('{"a":"\\u12g4"}', 6, "an unknown escape in a string"),
    ('{"a" 1}', 5, "no : after a key"),
    ('{"a":1 "b":2}', 7, "neither , nor } after a value"),
    ('{"a":[1 2]}', 8, "neither , nor ] after a value"),
    ("{,}", 1, "no key"),
    ('{"a":,}', 5, "no value"),
    ('{"a":NaN}', 5, "no value"),
    ('{"a":Infinity}', 5, "no value"),
    ('{"a":tru}', 5, "no value"),
    ('{"a":01x}', 7, "neither , nor } after a value"),
    ("{1a:2}", 2, "no : after a key"),
    ('{"a":9223372036854775808}', 5, "a number beyond 64 bits"),
    ("{9223372036854775808:1}", 1, "a number beyond 64 bits"),
    ('{"a":1e999}', 5, "a number out of range"),
    ('{"a":' + "9" * 100_000 + "}", 5, "a number beyond 64 bits"),
    ('{"a":1.' + "9" * 100_000 + "}", 5, "a number out of range"),
    ('{"a":1}/* open', 7, "text after the object"),
    ('{"a":/* open', 5, "no value"),
    ('{"a":-9223372036854775809}', 5, "a number beyond 64 bits"),
    ('{"a":000000000000000000007}', 5, "a number beyond 64 bits"),
    ('{"a":0.' + "0" * 62 + "7}", 5, "a number out of range"),
]


@pytest.mark.parametrize(("text", "position", "words"), REFUSED)
def test_refused(text: str, position: int, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        cj.parse(text.encode())
    assert (caught.value.reason, caught.value.position) == (words, position)


@given(st.text(alphabet="{}[]:,\"'\\/* \n0-1.eEtrufalsn\ufeff\x01\x0bé", max_size=40) | st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
).map(json.dumps))  # fmt: skip
@example('{"a":' + "9" * 18 + "}")
@example('{"a":[[1,{"b":[]}],2]}')
@example('{"a":-0,"a":"\\t\\/"}')
def test_what_the_standard_library_reads_is_what_is_read_without_it(text: str) -> None:
    """It takes most files, and must neither take nor read one in another way."""
    quick = cj._plain(text)
    if quick is not None:
        slow = cj._Reader(text).document()
        assert repr(quick) == repr(slow), "types and order too"


@pytest.mark.parametrize(("text", "position", "words"), REFUSED)
def test_the_standard_library_takes_nothing_that_is_refused(text: str, position: int, words: str) -> None:
    assert cj._plain(text) is None


def test_a_large_file_is_read_by_the_standard_library(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """topics.json as Java writes it: with thousands of topics the other reader takes a second."""
    data = (golden("config").path / "config" / "topics.json").read_bytes()
    expected = cj._Reader(data.decode()).document()
    monkeypatch.setattr(cj, "_Reader", None)
    assert cj.parse(data) == expected


def test_bounds() -> None:
    deep = lambda levels: b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)  # noqa: E731
    assert cj.parse(deep(64))
    for levels in (65, 100_000):
        with pytest.raises(FormatError, match="deeper than 64"):
            cj.parse(deep(levels))
        with pytest.raises(FormatError, match="deeper than 64"):
            cj.parse(b'{"a":' + b"[" * levels)
    assert cj.parse(b'{"a":' + b"[" * 63 + b"]" * 63 + b"}")
    with pytest.raises(FormatError, match="deeper than 64"):
        cj.parse(b'{"a":' + b"[" * 64 + b"]" * 64 + b"}")
    with pytest.raises(FormatError, match="more than the 67108864"):
        cj.parse(bytes(cj.MAX_BYTES + 1))


@pytest.mark.parametrize(("opening", "closing"), [("{'a':", "}"), ("[", "]")])
def test_64_levels_are_read_where_the_standard_library_reads_none(opening: str, closing: str) -> None:
    """Single quotes are not JSON."""
    deep = lambda levels: "{'a':" + opening * (levels - 1) + "1" + closing * (levels - 1) + "}"  # noqa: E731
    value = cj.parse(deep(64).encode())
    for _ in range(64):
        (value,) = value.values() if isinstance(value, dict) else value
    assert value == 1
    with pytest.raises(FormatError, match="deeper than 64") as caught:
        cj.parse(deep(65).encode())
    assert caught.value.position == len("{'a':") + 63 * len(opening)


def test_the_bound_of_bytes_is_itself_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cj, "MAX_BYTES", 7)
    assert cj.parse(b'{"a":1}') == {"a": 1}
    with pytest.raises(FormatError, match="8 bytes of JSON, more than the 7 that are read"):
        cj.parse(b'{"a":1} ')


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
    [
        (5, 5),
        ("5", 5),
        ("-5", -5),
        ("9223372036854775807", (1 << 63) - 1),
        ("9223372036854775808", None),
        (True, None),
        (None, None),
        ("x", None),
        (1.5, None),
        ([], None),
    ],
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
    st.sampled_from(["5.3.3", "5.4.0", "5.5.0"]),
    st.booleans(),
)
def test_round_trip(value: dict[str, Any], peer: str, compact: bool) -> None:
    raw = cj.write(value, peer, compact)
    assert cj.parse(raw) == value
    assert not compact or (b"\n" not in raw and (peer != "5.3.3" or raw.isascii()))


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


@pytest.mark.parametrize("text", ['{"a":1,"b":2,"c":3,"d":4}', '{"a":[[[[]]]]}', '{"a":{"a":{"a":{"a":1}}}}'])
def test_values_of_every_kind_count(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four values in each text; the standard library has no such bound."""
    monkeypatch.setattr(cj, "MAX_VALUES", 4)
    assert cj.parse(text.encode()) == json.loads(text)
    monkeypatch.setattr(cj, "MAX_VALUES", 3)
    with pytest.raises(FormatError, match="more than 3 values"):
        cj.parse(text.encode())


def test_members_have_the_places_of_the_text(golden_store: Golden) -> None:
    """Between a member's begin and the next one's stands its key; its value is the parser's."""
    for path in config_files(golden_store):
        data, members = path.read_bytes(), list[cj.JsonMember]()
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
    members: list[cj.JsonMember] = []
    error = cj.members(data, members.append)
    assert [member.path for member in members[:2]] == [("a",), ("a", 0)]
    try:
        cj.parse(data)
    except FormatError:
        assert error is not None and 0 <= error.position <= len(data)
    else:
        assert error is None


def test_members_while_damage_hides_their_values() -> None:
    """What was begun is told, where it begins and that its value is unknown; bytes are counted, not characters."""
    found: list[cj.JsonMember] = []
    error = cj.members("\ufeff{'\u00e9': {'b': 1 'c'}".encode(), found.append)
    assert [(one.path, one.begin, one.value, one.known) for one in found] == [
        (("\u00e9",), 4, None, False),
        (("\u00e9", "b"), 11, 1, True),
    ]
    assert error is not None
    assert (error.reason, error.position) == ("neither , nor } after a value", 18)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", "0 members"),
        ("{b:1}", "1 member"),
        ("{b:1,c:{}}", "2 members"),
        ("[]", "0 elements"),
        ("[0]", "1 element"),
        ("[0,0]", "2 elements"),
        ("'\u00e9'", "\u00e9"),
        ("7", 7),
    ],
)
@pytest.mark.parametrize("between", [":", " :", ": ", " /* : */ :\n"])
def test_values_of_members(text: str, value: Any, between: str) -> None:
    """Of an object or an array how many it has; blanks and comments around the colon change nothing."""
    found: list[cj.JsonMember] = []
    assert cj.members(f"{{ a{between}{text}}}".encode(), found.append) is None
    assert (found[0].path, found[0].value, found[0].known) == (("a",), value, True)


def test_elements_that_are_text() -> None:
    found: list[cj.JsonMember] = []
    assert cj.members(b'{"a":[":", "x" ]}', found.append) is None
    assert [(one.path, one.begin, one.value) for one in found[1:]] == [(("a", 0), 6, ":"), (("a", 1), 11, "x")]


# Characters and their bytes as the versions' own classes wrote them (5.5.0 as 5.4.0): pretty as 5.3.3 and as 5.4.0 have
# it, then on one line by each.
ESCAPED = [
    (" ", " ", " ", " ", " "),
    ("~", "~", "~", "~", "~"),
    ("/", "/", "/", "\\/", "/"),
    ("'", "'", "'", "'", "'"),
    ("\x00", "\\u0000", "\\u0000", "\\u0000", "\\u0000"),
    ("\x0b", "\\u000B", "\\u000b", "\\u000B", "\\u000b"),
    ("\x1f", "\\u001F", "\\u001f", "\\u001F", "\\u001f"),
    ("\x7f", "\\u007F", "\x7f", "\\u007F", "\x7f"),
    ("\x80", "\\u0080", "\x80", "\\u0080", "\x80"),
    ("\x9f", "\\u009F", "\x9f", "\\u009F", "\x9f"),
    ("\xa0", "\xa0", "\xa0", "\\u00A0", "\xa0"),
    ("\u2027", "\u2027", "\u2027", "\\u2027", "\u2027"),
    ("\u2028", "\\u2028", "\u2028", "\\u2028", "\u2028"),
    ("\u2029", "\\u2029", "\u2029", "\\u2029", "\u2029"),
    ("\u202a", "\u202a", "\u202a", "\\u202A", "\u202a"),
    ("\U0001f600", "\U0001f600", "\U0001f600", "\\uD83D\\uDE00", "\U0001f600"),
    ("\ud83d", "?", "?", "\\uD83D", "?"),
    ('\b\f\n\r\t"\\', *['\\b\\f\\n\\r\\t\\"\\\\'] * 4),
]


@pytest.mark.parametrize(("text", "pretty_533", "pretty_540", "line_533", "line_540"), ESCAPED)
def test_escapes_are_javas(text: str, pretty_533: str, pretty_540: str, line_533: str, line_540: str) -> None:
    later = [(peer, pretty_540, line_540) for peer in ("5.4.0", "5.5.0")]
    for peer, pretty, line in (("5.3.3", pretty_533, line_533), *later):
        assert cj.write({"k": text}, peer) == f'{{\n\t"k":"{pretty}"\n}}'.encode()
        assert cj.write({"k": text}, peer, compact=True) == f'{{"k":"{line}"}}'.encode()


def test_lists_of_objects_are_indented_as_javas() -> None:
    """As RemotingSerializable of 5.4.0 wrote it."""
    value = {"a": [{"p": 1, "q": ["x", "y"]}, {"p": 2}], "b": ["s"], "n": [["z", "w"]]}
    lines = ["{", '\t"a":[', "\t\t{", '\t\t\t"p":1,', '\t\t\t"q":[', '\t\t\t\t"x",', '\t\t\t\t"y"', "\t\t\t]", "\t\t},",
             "\t\t{", '\t\t\t"p":2', "\t\t}", "\t],", '\t"b":[', '\t\t"s"', "\t],",
             '\t"n":[', "\t\t[", '\t\t\t"z",', '\t\t\t"w"', "\t\t]", "\t]", "}"]  # fmt: skip
    assert cj.write(value, "5.4.0") == "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("value", "as_540", "as_550"),
    [
        ({}, b"{\n\t\n}", b"{}"),
        ({"b": {}}, b'{\n\t"b":{\n\t\t\n\t}\n}', b'{\n\t"b":{}\n}'),
        ({"b": []}, b'{\n\t"b":[\n\t\t\n\t]\n}', b'{\n\t"b":[]\n}'),
        (
            {"a": [{}, []]},
            b'{\n\t"a":[\n\t\t{\n\t\t\t\n\t\t},\n\t\t[\n\t\t\t\n\t\t]\n\t]\n}',
            b'{\n\t"a":[\n\t\t{},\n\t\t[]\n\t]\n}',
        ),
        ({"a": {0: 1, 1: 5}}, *[b'{\n\t"a":{\n\t\t0:1,\n\t\t1:5\n\t}\n}'] * 2),
        ({"a": ["x", "y"]}, *[b'{\n\t"a":[\n\t\t"x",\n\t\t"y"\n\t]\n}'] * 2),
    ],
)
def test_what_is_empty_is_written_as_each_version_writes_it(value: Any, as_540: bytes, as_550: bytes) -> None:
    """As RemotingSerializable of 5.4.0 (fastjson2 2.0.43) and 5.5.0 (2.0.59) wrote these."""
    assert cj.write(value, "5.4.0") == as_540
    assert cj.write(value, "5.5.0") == as_550


def test_how_it_is_written_unless_told() -> None:
    """As 5.3.3 does, with line breaks."""
    assert cj.write({"a": {0: 1}, "b": {}}) == b'{\n\t"a":{0:1\n\t},\n\t"b":{}\n}'

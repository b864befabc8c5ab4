"""Splitting property strings, against the slow reference and at every border of the sixty-four-byte windows."""

from array import array

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flintmq.format import properties
from flintmq.kernels.read import record_parts
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import LONG_WINDED, READ

MOST = 3 * record_parts.MOST_PAIRS


Split = tuple[list[tuple[bytes, bytes]] | None, bool, list[bytes]]


def split(data: bytes | memoryview, at: int = 0, end: int | None = None) -> Split:
    """(pairs or None, whether a name is there twice, values of TAGS, KEYS, UNIQ_KEY)."""
    found = array("q", bytes(8 * (MOST + 6)))
    count, doubled = record_parts.split_properties(data, at, len(data) if end is None else end, found)
    named = [bytes(data[found[i] : found[i + 1]]) for i in range(MOST, MOST + 6, 2)]
    if count < 0:
        return None, doubled, named
    spans = [found[3 * i : 3 * i + 3] for i in range(count)]
    return [(bytes(data[a:b]), bytes(data[b + 1 : c])) for a, b, c in spans], doubled, named


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_strings_are_split_as_java_does(text: bytes) -> None:
    pairs, doubled, _ = split(guarded(text))
    assert pairs is not None and not doubled
    assert {name.decode(): value.decode() for name, value in pairs} == properties.parse_bytes(text)


def test_java_rule_by_hand() -> None:
    """The table of the format page: what is dropped, what belongs to a value."""
    assert split(b"A\x01\x02B\x011\x02")[0] == [(b"B", b"1")]
    assert split(b"\x01v\x02")[0] == []
    assert split(b"A\x011")[0] == [(b"A", b"1")]
    assert split(b"A\x01b\x01c\x02")[0] == [(b"A", b"b\x01c")]
    assert split(b"AB\x02C\x01d\x02")[0] == [(b"C", b"d")]
    assert split(b"ABC")[0] == []
    assert split(b"A\x011\x02A\x012\x02") == ([(b"A", b"1"), (b"A", b"2")], True, [b"", b"", b""])


def test_named_values_are_the_last_ones() -> None:
    text = b"TAGS\x01x\x02KEYS\x01k\x02TAGS\x01y\x02UNIQ_KEY\x01u\x02"
    assert split(text)[2] == [b"y", b"k", b"u"]
    assert split(b"TAGS\x01\x02")[2] == [b"", b"", b""]


@pytest.mark.parametrize("name", ["33 pairs", "malformed", "encoded surrogate", "cut sequence", "malformed name"])
def test_what_is_left_to_python(name: str) -> None:
    assert split(guarded(LONG_WINDED[name])) == (None, False, [b"", b"", b""])


PIECES = [b"\x01", b"\x02", b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"bc", b"\x00", "é".encode(), "😀".encode(), b"x" * 61]
BAD = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xe0\x80\x80", b"\x80"]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))
def test_any_text_agrees_with_the_reference(text: bytes) -> None:
    pairs, doubled, named = split(text)
    expected = properties.parse_bytes(text)
    if pairs is None:
        assert text.count(b"\x01") > record_parts.MOST_PAIRS
        return
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name.decode()] = value.decode()
    assert list(found.items()) == list(expected.items())
    assert doubled == (len(found) < len(pairs))
    for key, value in zip(("TAGS", "KEYS", "UNIQ_KEY"), named, strict=True):
        assert (value.decode() or None) == expected.get(key)


@given(st.lists(st.sampled_from(PIECES + BAD), max_size=30).map(b"".join))
def test_exactly_what_is_not_utf8_is_refused(text: bytes) -> None:
    assume(text.count(b"\x01") <= record_parts.MOST_PAIRS)
    try:
        text.decode()
        well_formed = True
    except UnicodeDecodeError:
        well_formed = False
    assert (split(text)[0] is not None) == well_formed


def test_every_length_at_the_end_of_memory_and_before_it() -> None:
    for name in range(1, 140):
        text = b"n" * name + b"\x01v\x02K\x01" + b"w" * 3
        expected = [(b"n" * name, b"v"), (b"K", b"www")]
        assert split(guarded(text))[0] == expected
        surrounded = guarded(b"\x01\x02\xff" + text + b"\x01\x02\xff")
        assert split(surrounded, 3, 3 + len(text))[0] == expected


def test_bounds_are_checked() -> None:
    room = array("q", bytes(8 * (MOST + 6)))
    for at, end in ((-1, 1), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="within data"):
            record_parts.split_properties(b"abc", at, end, room)
    with pytest.raises(ValueError, match="room"):
        record_parts.split_properties(b"abc", 0, 3, array("q", bytes(8 * MOST)))
    assert record_parts.split_properties(b"", 0, 0, room) == (0, False)

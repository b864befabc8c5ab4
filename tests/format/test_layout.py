"""Codecs derived from declarations: sizes, both directions, and that bad bytes raise FormatError and nothing else."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format.consume_queue import UNIT
from flintmq.format.docs import LAYOUTS
from flintmq.format.layout import Bits, Counted, Int, Layout, Sized, Total, bit_names
from tests.format.strategies import values

ALL = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)

# Sizes as the format has them, written down apart from the declarations.
SIZES = {
    "Record": 91,
    "Blank record": 8,
    "Inner batch entry": 22,
    "Host": 8,
    "Offset message id": 16,
    "Client message id": 16,
    "Consume queue unit": 20,
    "Consume queue ext unit": 20,
    "Batch consume queue unit": 46,
    "Index header": 40,
    "Index slot": 4,
    "Index item": 20,
    "Checkpoint": 40,
    "Timer wheel slot": 32,
    "Timer log unit": 52,
    "Timer log end": 16,
    "Timer check": 56,
    "FlintMQ mark": 104,
}


class Sample(NamedTuple):
    number: Annotated[int, Total("size", "i32", "all of it"), Int("i16", "a number")]
    wide: Annotated[bytes, Sized("W", (1, 3), lambda fields: 3 if fields["number"] < 0 else 1, "one or three bytes")]
    text: Annotated[bytes, Counted("length", "n", ("u8",), "some text")]
    last: Annotated[int, Int("i64", "a number")]


SAMPLE = Layout("Sample", Sample)

SAMPLES = [  # value, its bytes
    (Sample(1, b"w", b"", 2), "00000010 0001 77 00 0000000000000002"),
    (Sample(-1, b"www", b"ab", -2), "00000014 ffff 777777 02 6162 fffffffffffffffe"),
]


@pytest.mark.parametrize(("value", "data"), SAMPLES)
def test_both_directions(value: Sample, data: str) -> None:
    raw = bytes.fromhex(data)
    assert SAMPLE.pack(value) == raw
    assert SAMPLE.unpack(b"??" + raw + b"!", 2) == value
    assert SAMPLE.unpack(memoryview(raw)) == SAMPLE.unpack(bytearray(raw)) == value
    assert SAMPLE.size_of(value) == len(raw)


@pytest.mark.parametrize(
    ("data", "position", "words"),
    [
        ("00000010 0001 77 00 00000000000000", 0, "needs 16 bytes, 15 are left"),
        ("00000011 0001 77 00 0000000000000002", 0, "size 17 is not in 16..16"),
        ("0000000f 0001 77 00 0000000000000002", 0, "size 15"),
        ("fffffff0 0001 77 00 0000000000000002", 0, "size -16"),
        ("00000010 0001 77 ff 0000000000000002", 8, "text needs 255 bytes, 8 are left"),
        ("00000010 0001 77 01 0000000000000002", 9, "last needs 8 bytes, 7 are left"),
        ("00000010 ffff 77 00 0000000000000002", 10, "last needs 8 bytes"),
        ("00000011 0001 77 00 0000000000000002 00", 0, "size is 17, the parts add up to 16"),
    ],
)
def test_lengths_are_bounded_before_use(data: str, position: int, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        SAMPLE.unpack(bytes.fromhex(data))
    assert caught.value.position == position


def test_limit_hides_what_lies_behind() -> None:
    raw = SAMPLE.pack(SAMPLES[0][0])
    assert SAMPLE.unpack(raw + raw, 16, 32) == SAMPLES[0][0]
    with pytest.raises(FormatError, match="15 are left"):
        SAMPLE.unpack(raw, 0, 15)
    with pytest.raises(FormatError):
        SAMPLE.unpack(raw, -1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Sample(1 << 15, b"w", b"", 0), "number 32768 does not fit i16"),
        (Sample(0, b"ww", b"", 0), "wide has 2 bytes where 1 are due"),
        (Sample(0, b"w", bytes(256), 0), "length 256 does not fit u8"),
        (Sample(0, b"w", b"", 10**500), "last 1000"),
    ],
)
def test_values_that_do_not_fit(value: Sample, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        SAMPLE.pack(value)


def test_iter_leaves_out_a_rest() -> None:
    class Pair(NamedTuple):
        one: Annotated[int, Int("u8", "one")]
        two: Annotated[int, Int("i8", "two")]

    pairs = Layout("Pair", Pair)
    assert pairs.size == 2
    assert list(pairs.iter(b"\x01\x02\xff\xff\x09")) == [(1, 2), (255, -1)]
    assert list(pairs.iter(b"\x01\x02\xff\xff\x09", 2, 4)) == [(255, -1)]
    assert list(pairs.iter(b"\x01\x02", 2)) == list(pairs.iter(b"", 5)) == []


def test_offsets_end_at_the_first_width_that_varies() -> None:
    assert SAMPLE.offset("number") == 4
    with pytest.raises(AssertionError, match="no fixed place"):
        SAMPLE.offset("last")
    with pytest.raises(KeyError):
        UNIT.offset("nothing")
    with pytest.raises(AssertionError, match="no fixed size"):
        print(SAMPLE.size)


def test_every_layout_has_its_size() -> None:
    assert {layout.name: layout.min_size for layout in LAYOUTS} == SIZES


@ALL
@given(data=st.data())
def test_random_values_round_trip(layout: Layout[Any], data: st.DataObject) -> None:
    value, given_ = data.draw(values(layout))
    raw = layout.pack(value, given_)
    assert len(raw) == layout.size_of(value)
    assert layout.unpack(raw, given=given_) == value
    assert layout.unpack(b"x" + raw + b"y", 1, given=given_) == value


@ALL
@given(raw=st.binary(max_size=200), at=st.integers(-3, 210), width=st.sampled_from([4, 16]), data=st.data())
def test_random_bytes_give_a_value_or_a_format_error(
    layout: Layout[Any], raw: bytes, at: int, width: int, data: st.DataObject
) -> None:
    limit = data.draw(st.none() | st.integers(0, 220))
    try:
        value = layout.unpack(raw, at, limit, {"address_width": width})
    except FormatError as error:
        assert len(str(error)) < 200
        return
    again = layout.pack(value, {"address_width": width})
    assert again == raw[at : at + len(again)] and at + len(again) <= min(len(raw), limit or len(raw))


@ALL
@given(data=st.data())
def test_a_damaged_value_gives_a_value_or_a_format_error(layout: Layout[Any], data: st.DataObject) -> None:
    value, given_ = data.draw(values(layout))
    raw = bytearray(layout.pack(value, given_))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]
    try:
        again = layout.pack(layout.unpack(raw, given=given_), given_)
    except FormatError as error:
        assert 0 <= error.position <= len(raw)
        return
    assert raw.startswith(again)


@ALL
@given(data=st.data())
def test_pieces_of_a_value_are_its_fields(layout: Layout[Any], data: st.DataObject) -> None:
    value, given_values = data.draw(values(layout))
    packed = layout.pack(value, given_values)
    pieces = list(layout.pieces(packed, given=given_values))
    assert [piece.at for piece in pieces] == [sum(p.size for p in pieces[:n]) for n in range(len(pieces))]
    assert sum(piece.size for piece in pieces) == len(packed) and not any(piece.error for piece in pieces)
    told = {piece.name: piece.value for piece in pieces}
    assert all(told[field] == got for field, got in zip(value._fields, value, strict=True))


@ALL
@given(data=st.binary(max_size=200), width=st.sampled_from([4, 16]))
def test_pieces_of_anything(layout: Layout[Any], data: bytes, width: int) -> None:
    """Nothing is raised, no byte comes twice, and only the last piece has an error."""
    pieces = list(layout.pieces(data, given={"address_width": width}))
    at = 0
    for piece in pieces:
        assert piece.at == at and piece.meaning
        assert not isinstance(piece.value, bytes) or piece.value == data[at : at + piece.size]
        at += piece.size
    assert at <= len(data) and not any(piece.error for piece in pieces[:-1])
    assert at == len(data) or not pieces[-1].error or "negative" in pieces[-1].error


def test_bits_by_name() -> None:
    bits = (Bits(1, "one", {1: "one"}), Bits(6, "two bits", {2: "low", 4: "high"}))
    assert bit_names(bits, 0) == []
    assert bit_names(bits, 5) == ["one", "high"]
    assert bit_names(bits, 6) == ["0x6 unknown"]
    assert bit_names(bits, -8) == ["0xFFFFFFF8 unknown"]

"""Codecs derived from declarations: sizes, both directions, and that bad bytes raise FormatError and nothing else."""

from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format.consume_queue import UNIT
from flintmq.format.layout import HEX, HOST, TIME, Bits, CountedBytes, FieldPiece, Int, Layout, Sized, Total, bit_names
from tests.support.layout_values import values
from tools.docs.format import LAYOUTS

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
    "Checkpoint": 48,
    "Timer wheel slot": 32,
    "Timer log unit": 52,
    "Timer log end": 16,
    "Timer check": 56,
    "FlintMQ mark": 104,
    "Zone map header": 36,
    "Zone of a zone map": 60,
}


def test_iter_leaves_out_a_rest() -> None:
    class Pair(NamedTuple):
        one: Annotated[int, Int("u8", "one")]
        two: Annotated[int, Int("i8", "two")]

    pairs = Layout("Pair", Pair)
    assert pairs.size == 2
    assert list(pairs.iter(b"\x01\x02\xff\xff\x09")) == [(1, 2), (255, -1)]
    assert list(pairs.iter(b"\x01\x02\xff\xff\x09", 2, 4)) == [(255, -1)]
    assert list(pairs.iter(b"\x01\x02\xff\xff\x09\x08", 0, 4)) == [(1, 2), (255, -1)], "ends where it is told"
    assert list(pairs.iter(b"\x01\x02", 2)) == list(pairs.iter(b"", 5)) == list(pairs.iter(b"\x01\x02", 2, 1)) == []


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


@pytest.mark.turn(2, of=["src/flintmq/format/", "src/flintmq/kernels/"])
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


@pytest.mark.turn(2, of=["src/flintmq/format/", "src/flintmq/kernels/"])
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


KIND = (Bits(3, "kind", {1: "one"}),)


class Message(NamedTuple):
    """All that a declaration can say; its size stands behind the first text, as no real layout has it."""

    kind: Annotated[int, Int("u8", "its kind", HEX, KIND)]
    note: Annotated[bytes, CountedBytes("note_length", "k", ("i8",), "a note")]
    time: Annotated[int, Total("size", "u16", "all of it"), Int("i32", "a time", TIME)]
    host: Annotated[bytes, Sized("H", (2, 4), lambda fields: 4 if fields["kind"] & 1 else 2, "a host", HOST)]
    text: Annotated[
        bytes, CountedBytes("text_length", "t", ("u8", "i16"), "text", lambda f: "i16" if f["kind"] & 2 else "u8")
    ]
    last: Annotated[int, Int("u16", "the last")]


# Messages, and their bytes by hand.
MESSAGES = [
    (Message(0, b"", 5, b"hh", b"", 6), "00 00 000d 00000005 6868 00 0006"),
    (Message(3, b"no", -1, b"host", b"te", 0xFFFF), "03 02 6e6f 0014 ffffffff 686f7374 0002 7465 ffff"),
]


def message() -> Layout[Message]:
    """Derived anew: what derives it is tested too."""
    return Layout("Message", Message)


@pytest.mark.parametrize(("value", "data"), MESSAGES)
def test_a_layout_of_all_kinds_of_parts(value: Message, data: str) -> None:
    layout, raw = message(), bytes.fromhex(data)
    assert layout.pack(value) == raw
    assert layout.unpack(raw) == layout.unpack(b"??" + raw + b"!", 2) == value
    assert layout.unpack(memoryview(raw)) == layout.unpack(bytearray(raw)) == value
    assert layout.size_of(value) == len(raw)
    assert (layout.min_size, layout.fixed, layout.total) == (13, False, "size")


def test_limit_hides_what_lies_behind() -> None:
    raw = message().pack(MESSAGES[0][0])
    assert message().unpack(raw + raw, 13, 26) == MESSAGES[0][0]
    with pytest.raises(FormatError, match="12 are left"):
        message().unpack(raw, 0, 12)
    with pytest.raises(FormatError):
        message().unpack(raw, -1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"last": 1 << 16}, "last 65536 does not fit u16"),
        ({"host": b"hhh"}, "host has 3 bytes where 2 are due"),
        ({"text": bytes(256)}, "text_length 256 does not fit u8"),
        ({"time": 10**500}, "time 1000"),
    ],
)
def test_values_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    with pytest.raises(FormatError, match=words):
        message().pack(MESSAGES[0][0]._replace(**change))


def test_what_is_fixed_and_what_it_begins_with() -> None:
    """Fixed is what has only numbers and no size of itself; `struct` is of the numbers in front, of none if there are
    none."""

    class Numbers(NamedTuple):
        a: Annotated[int, Int("u8", "a")]
        b: Annotated[int, Int("i64", "b")]

    class OwnSize(NamedTuple):
        a: Annotated[int, Total("n", "u16", "size"), Int("u8", "a")]

    class NumberFirst(NamedTuple):
        a: Annotated[int, Int("u8", "a")]
        b: Annotated[bytes, CountedBytes("n", "n", ("u8",), "b")]

    class BytesAlone(NamedTuple):
        a: Annotated[bytes, Sized("A", (3, 5), lambda fields: 5, "a")]

    found = [Layout("L", type_) for type_ in (Numbers, OwnSize, NumberFirst, BytesAlone)]
    assert [layout.fixed for layout in found] == [True, False, False, False]
    assert [layout.struct.size for layout in found] == [9, 3, 1, 0]
    assert [layout.min_size for layout in found] == [9, 3, 2, 3]
    assert [layout.total for layout in found] == [None, "n", None, None]
    assert found[0].pack(Numbers(1, -2)) == bytes.fromhex("01 fffffffffffffffe")
    assert found[0].offset("b") == 1


def test_offsets_add_up_to_the_first_width_that_varies() -> None:
    class Wide(NamedTuple):
        number: Annotated[int, Total("size", "i32", "all of it"), Int("i16", "a number")]
        wide: Annotated[bytes, Sized("W", (1, 3), lambda fields: 3 if fields["number"] < 0 else 1, "bytes")]
        text: Annotated[bytes, CountedBytes("length", "n", ("u8",), "some text")]
        last: Annotated[int, Int("i64", "a number")]

    assert [UNIT.offset(field) for field in UNIT.type._fields] == [0, 8, 12]
    with pytest.raises(KeyError, match="'nothing'"):
        UNIT.offset("nothing")
    wide = Layout("Wide", Wide)
    assert [wide.offset("text", {"number": number}) for number in (1, -1)] == [7, 9] and wide.offset("number") == 4
    with pytest.raises(AssertionError, match="no fixed place"):
        wide.offset("last")
    with pytest.raises(AssertionError, match="no fixed size"):
        print(wide.size)


def test_some_numbers_of_a_value_are_read_by_their_own_struct() -> None:
    """Numbers between them are skipped; docs/internals/format/consume-queue.md has the positions."""
    data = b"??" + bytes.fromhex("0000000000001000 0000006f fffffffffffffffe")
    for fields, size, expected in (
        (("physical_offset", "size"), 12, (0x1000, 111)),
        (("physical_offset", "tags_code"), 20, (0x1000, -2)),
        (("size",), 12, (111,)),
        (("tags_code",), 20, (-2,)),
    ):
        numbers = UNIT.numbers(*fields)
        assert (numbers.size, numbers.unpack_from(data, 2)) == (size, expected)
    with pytest.raises(AssertionError, match="out of order"):
        UNIT.numbers("size", "physical_offset")


def test_columns_are_big_endian_and_signed() -> None:
    assert UNIT.columns() == [("physical_offset", ">q"), ("size", ">i"), ("tags_code", ">q")]


@pytest.mark.parametrize(
    ("data", "reason", "position"),
    [
        ("", "Message needs 13 bytes, 0 are left", 3),
        ("00 00 000d 00000005 6868 00 00", "Message needs 13 bytes, 12 are left", 3),
        ("00 ff 000d 00000005 6868 00 0006", "note_length is negative: -1", 4),
        ("00 80 000d 00000005 6868 00 0006", "note_length is negative: -128", 4),
        ("00 0e 000d 00000005 6868 00 0006", "note needs 14 bytes, 11 are left", 5),
        ("00 08 0000000000000000 000d 00", "size needs 6 bytes, 3 are left", 13),
        ("00 00 000e 00000005 6868 00 0006", "size 14 is not in 13..13", 3),
        ("00 00 000c 00000005 6868 00 0006", "size 12 is not in 13..13", 3),
        ("00 00 000e 00000005 6868 00 0006 00", "size is 14, the parts add up to 13", 3),
        ("01 03 000000 000d 00000005 6868", "host needs 4 bytes, 2 are left", 14),
        ("03 03 000000 0010 00000005 68686868 00", "text_length needs 2 bytes, 1 are left", 18),
        ("03 03 000000 000f 00000005 68686868 00", "text_length needs 2 bytes, 0 are left", 18),
        ("02 00 0010 00000005 6868 ffff 0006 0000", "text_length is negative: -1", 13),
        ("00 00 000d 00000005 6868 03 0006", "text needs 3 bytes, 2 are left", 14),
        ("00 00 000d 00000005 6868 01 0006", "last needs 2 bytes, 1 are left", 15),
    ],
)
def test_what_is_wrong_and_where_is_told(data: str, reason: str, position: int) -> None:
    """The value begins at byte 3 of the buffer, and positions count from the buffer's."""
    layout, raw = message(), bytes.fromhex("aabbcc" + data)
    with pytest.raises(FormatError) as caught:
        layout.unpack(raw, 3)
    assert (caught.value.reason, caught.value.position) == (reason, position)


def test_a_tuple_that_is_too_long_is_refused() -> None:
    """And not cut: somebody thought of another layout."""
    longer: Any = (*MESSAGES[1][0], 7)
    with pytest.raises(ValueError, match="argument 2 is longer"):
        message().size_of(longer)
    longer = (*UNIT.type(1, 2, 3), 4)
    with pytest.raises(ValueError, match="argument 2 is longer"):
        UNIT.pack(longer)


def test_a_number_that_does_not_fit_is_named_with_its_first_digits() -> None:
    with pytest.raises(FormatError) as caught:
        message().pack(MESSAGES[0][0]._replace(last=10**60))
    assert caught.value.reason == "last 1" + "0" * 39 + " does not fit u16"


ALL_PIECES = [  # of MESSAGES[1], at byte 2 of a buffer
    FieldPiece("kind", 2, 1, 3, "its kind", HEX, KIND),
    FieldPiece("note_length", 3, 1, 2, "bytes of the note"),
    FieldPiece("note", 4, 2, b"no", "a note"),
    FieldPiece("size", 6, 2, 20, "all of it"),
    FieldPiece("time", 8, 4, -1, "a time", TIME),
    FieldPiece("host", 12, 4, b"host", "a host", HOST),
    FieldPiece("text_length", 16, 2, 2, "bytes of the text"),
    FieldPiece("text", 18, 2, b"te", "text"),
    FieldPiece("last", 20, 2, 0xFFFF, "the last"),
]


def test_pieces_of_all_kinds_of_parts() -> None:
    raw = b"??" + bytes.fromhex(MESSAGES[1][1])
    assert list(message().pieces(raw, 2)) == list(message().pieces(raw + b"more", 2, 22)) == ALL_PIECES
    assert list(message().pieces(raw, 2, 99)) == ALL_PIECES


@pytest.mark.parametrize(
    ("limit", "whole", "last"),
    [
        (2, 0, FieldPiece("kind", 2, 0, None, "its kind", HEX, KIND, "kind needs 1 bytes, 0 are left")),
        (
            3,
            1,
            FieldPiece("note_length", 3, 0, None, "bytes of the note", error="note_length needs 1 bytes, 0 are left"),
        ),
        (5, 2, FieldPiece("note", 4, 1, b"n", "a note", error="note needs 2 bytes, 1 are left")),
        (11, 4, FieldPiece("time", 8, 3, None, "a time", TIME, error="time needs 4 bytes, 3 are left")),
        (12, 5, FieldPiece("host", 12, 0, b"", "a host", HOST, error="host needs 4 bytes, 0 are left")),
        (
            17,
            6,
            FieldPiece("text_length", 16, 1, None, "bytes of the text", error="text_length needs 2 bytes, 1 are left"),
        ),
        (19, 7, FieldPiece("text", 18, 1, b"t", "text", error="text needs 2 bytes, 1 are left")),
        (21, 8, FieldPiece("last", 20, 1, None, "the last", error="last needs 2 bytes, 1 are left")),
    ],
)
def test_pieces_end_with_the_one_that_is_cut(limit: int, whole: int, last: FieldPiece) -> None:
    raw = b"??" + bytes.fromhex(MESSAGES[1][1])
    for pieces in (message().pieces(raw[:limit], 2), message().pieces(raw, 2, limit)):
        assert list(pieces) == [*ALL_PIECES[:whole], last]


def test_pieces_end_with_a_negative_length() -> None:
    pieces = list(message().pieces(bytes.fromhex("02 00 0010 00000005 6868 ffff 0006 0000")))
    assert pieces[-1] == FieldPiece("text_length", 10, 2, -1, "bytes of the text", error="text_length is negative: -1")

"""Text, hashes and numbers against what Java 17 gave for the same input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.format.text import iso, java_decode, java_encode, java_hash, java_int
from tests.compat.stores import Golden

R = "�"

# Bytes and what `new String(bytes, UTF_8)` of OpenJDK 17 makes of them.
DECODED = [
    ("", ""),
    ("41c3a9e282acf09f9880", "Aé€😀"),
    ("eda080", R),  # an encoded surrogate: Python alone makes three
    ("eda08041", R + "A"),
    ("eda0", R),
    ("eda041", R + "A"),
    ("edbfbfedb080", R + R),
    ("ed9fbf", "\ud7ff"),
    ("ed", R),
    ("ed41", R + "A"),
    ("c0af", R + R),
    ("e08080", R + R + R),
    ("e282", R),
    ("f08080", R + R + R),
    ("f09f98", R),
    ("f4908080", R + R + R + R),
    ("f5ff80", R + R + R),
    ("80bf", R + R),
]


@pytest.mark.parametrize(("data", "text"), DECODED)
def test_decode(data: str, text: str) -> None:
    assert java_decode(bytes.fromhex(data)) == text
    assert java_decode(memoryview(bytes.fromhex(data))) == text


@pytest.mark.parametrize(
    ("text", "data"),
    [("A\ud800B", b"A?B"), ("\udc00\ud83d", b"??"), ("\ud83d\ude00", "😀".encode()), ("é😀", "é😀".encode())],
)
def test_encode(text: str, data: bytes) -> None:
    assert java_encode(text) == data


# Well-known values of String.hashCode, and some that OpenJDK 17 gave.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("é", 233),
        ("😀", 1772899),
        ("\ufffd", 65533),
    ],
)
def test_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


@given(st.text())
def test_hash_is_the_polynomial_of_the_units(text: str) -> None:
    units = memoryview(text.encode("utf-16-le")).cast("H").tolist()
    expected = sum(unit * 31 ** (len(units) - 1 - place) for place, unit in enumerate(units)) & 0xFFFFFFFF
    assert java_hash(text) & 0xFFFFFFFF == expected and -(1 << 31) <= java_hash(text) < 1 << 31


@given(st.binary(max_size=40))
def test_decoding_anything_gives_text_without_surrogates(data: bytes) -> None:
    text = java_decode(data)
    assert not any("\ud800" <= char <= "\udfff" for char in text)
    assert java_decode(java_encode(text)) == text


@pytest.mark.parametrize(
    ("text", "bits", "value"),
    [
        ("0", 32, 0),
        ("+7", 32, 7),
        ("-7", 32, -7),
        ("007", 32, 7),
        ("٧", 32, 7),
        ("2147483647", 32, 2147483647),
        ("2147483648", 32, None),
        ("-2147483648", 32, -2147483648),
        ("32768", 16, None),
        ("9223372036854775807", 64, (1 << 63) - 1),
        ("9223372036854775808", 64, None),
        ("", 32, None),
        ("+", 32, None),
        ("+-1", 32, None),
        (" 1", 32, None),
        ("1_0", 32, None),
        ("1.0", 32, None),
        ("0x1", 32, None),
        ("𝟙", 32, None),  # a digit of two UTF-16 units
        ("9" * 100000, 64, None),
    ],
)
def test_java_int(text: str, bits: int, value: int | None) -> None:
    assert java_int(text, bits) == value


def test_golden_topics_survive(golden_store: Golden) -> None:
    for topic in {row["topic"] for row in golden_store.rows}:
        assert java_decode(java_encode(topic)) == topic


def test_hash_of_a_lone_surrogate_is_its_unit() -> None:
    assert java_hash("\ud800") == 0xD800
    assert java_hash("a\udc00") == 97 * 31 + 0xDC00


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_numbers_at_both_ends_of_each_width(bits: int) -> None:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    assert (java_int(str(least), bits), java_int(str(most), bits)) == (least, most)
    assert (java_int(str(least - 1), bits), java_int(str(most + 1), bits)) == (None, None)


def test_numbers_are_32_bits_wide_unless_told() -> None:
    assert (java_int("2147483647"), java_int("2147483648")) == (2147483647, None)


def test_long_digits_are_not_counted_for_ever() -> None:
    assert java_int("0" * 511 + "7") == 7
    assert java_int("0" * 512 + "7") is None


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_700_000_000_000, "2023-11-14T22:13:20.000Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (-62_135_596_800_001, "-62135596800001 ms"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 ms"),
    ],
)
def test_times(ms: int, text: str) -> None:
    """Milliseconds are always shown; what no calendar date can show stays a number."""
    assert iso(ms) == text

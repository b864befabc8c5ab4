"""What a terminal gets to see."""

from __future__ import annotations

import pytest

from flintmq.cli import text
from flintmq.errors import UsageError


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain text 42", "plain text 42"),
        ("库存", "库存"),
        ("é", "é"),
        ("wide\u3000space", "wide\u3000space"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[31mred", "\\x1b[31mred"),  # C0: an escape sequence
        ("\x9b31m", "\\x9b31m"),  # C1: the one-byte form of the same
        ("\x00\x7f", "\\x00\\x7f"),
        ("\u202eevil", "\\u202eevil"),  # right-to-left override
        ("\u2066\u2069\u200f\u061c", "\\u2066\\u2069\\u200f\\u061c"),
        ("\u2028\u2029\ufeff", "\\u2028\\u2029\\ufeff"),
        ("\U000e0041", "\\U000e0041"),  # an invisible tag character
        ("\udcff", "\\xff"),  # a byte of a file name that is no UTF-8
        ("\ud800", "\\ud800"),
    ],
)
def test_printable_escapes_what_a_terminal_may_obey_or_hide(given: str, shown: str) -> None:
    assert text.printable(given) == shown


def test_no_character_below_u3000_that_is_shown_raw_is_a_control_or_a_format() -> None:
    import unicodedata

    for code in range(0x3000):
        shown = text.printable(chr(code))
        if shown == chr(code):
            assert unicodedata.category(chr(code)) not in ("Cc", "Cf", "Cs", "Zl", "Zp"), hex(code)
        else:
            assert shown.isascii() and shown.startswith("\\")


def test_bytes_are_shown_as_utf8_or_escaped_one_by_one() -> None:
    assert text.printable_bytes(b"ok \xe5\xba\x93 \xff\xfe \x1b") == "ok 库 \\xff\\xfe \\x1b"
    assert text.printable_bytes(memoryview(b"\xe5\xba")) == "\\xe5\\xba"


def test_cut() -> None:
    assert text.shorten_text("abcdef", 6) == "abcdef"
    assert text.shorten_text("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_681_825_997, "2023-11-22T19:37:05.997Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 ms"),
        (-(1 << 63), "-9223372036854775808 ms"),
    ],
)
def test_iso(ms: int, shown: str) -> None:
    assert text.iso(ms) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1 << 30, "1.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (1 << 60, "1048576.0 TiB"),
    ],
)
def test_size(count: int, shown: str) -> None:
    assert text.size(count) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0 ms"),
        (80, "80 ms"),
        (65_000, "1 m 5 s"),
        (86_400_000 * 2 + 3_600_000 * 3 + 5, "2 d 3 h"),
        (-1500, "-1 s 500 ms"),
    ],
)
def test_duration(ms: int, shown: str) -> None:
    assert text.duration(ms) == shown


NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("now", NOW),
        ("0", 0),
        ("1700681825997", 1_700_681_825_997),
        ("9223372036854775807", (1 << 63) - 1),
        ("-15m", NOW - 900_000),
        ("-1h30m", NOW - 5_400_000),
        ("-250ms", NOW - 250),
        ("-2w", NOW - 1_209_600_000),
        ("2023-11-22", 1_700_611_200_000),
        ("2023-11-22T19:37:05.997Z", 1_700_681_825_997),
        ("2023-11-22 19:37", 1_700_681_820_000),
        ("2023-11-23T03:37:05.997+08:00", 1_700_681_825_997),
        ("1969-12-31T23:59:59.9999Z", -1),
    ],
)
def test_times(given: str, ms: int) -> None:
    assert text.parse_time(given, NOW) == ms


@pytest.mark.parametrize(
    "given",
    [
        "",
        "-",
        "yesterday",
        "-15",
        "15m",
        "-15 m",
        "-m",
        "2023-13-01",
        "٣",
        "9223372036854775808",
        "1e3",
        "-99999999999999999m",
    ],
)
def test_what_is_no_time_is_refused_in_one_line_that_says_what_is(given: str) -> None:
    with pytest.raises(UsageError, match=r"--since: .* is no time; write ISO 8601 .*-15m") as caught:
        text.parse_time(given, NOW, "--since")
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize(
    "given, count", [("1", 1), ("131072", 131072), ("64KiB", 65536), ("128 MiB", 128 << 20), (" 2GiB ", 2 << 30)]
)
def test_byte_counts(given: str, count: int) -> None:
    assert text.byte_count("--size", given) == count


@pytest.mark.parametrize("given", ["", "0", "0MiB", "-1", "1.5MiB", "128MB", "1e3", "MiB", "１", "1" * 16])
def test_what_is_no_byte_count(given: str) -> None:
    with pytest.raises(UsageError, match="--size: .* is no size"):
        text.byte_count("--size", given)

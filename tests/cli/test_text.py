"""What a terminal gets to see."""

from pathlib import Path

import pytest

from flintmq.cli import text


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


def test_notes_are_sentences_where_they_are_known() -> None:
    assert [
        *text.note_lines({"no-store": 1, "time_step": 9, "hole": 2}, {"no-store": ["/b: gone\x1b"], "time_step": ["x"]})
    ] == [
        "note     hole (2x)",
        "note     no-store: /b: gone\\x1b",
        "note     time-step: x",
        "note     time-step: 9 in all",
    ]


@pytest.mark.parametrize(
    ("words", "message", "line"),
    [
        (["nowhere"], "{here}/nowhere: does not exist", "nowhere: does not exist"),
        (["./a/../b/", "x"], "{here}/b/commitlog: damaged", "./a/../b/commitlog: damaged"),
        (["nowhere"], "{here}/nowhere2: does not exist", "{here}/nowhere2: does not exist"),
        (["{here}/nowhere"], "{here}/nowhere: does not exist", "{here}/nowhere: does not exist"),
        (["s3://b/x", "."], "{here}: no store; s3://b/x", "{here}: no store; s3://b/x"),
        (["b"], "log of /other{here}/b", "log of /other{here}/b"),
    ],
)
def test_an_error_names_paths_as_they_were_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], message: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    typed = [word.format(here=tmp_path) for word in words]
    assert text.as_typed(message.format(here=tmp_path), typed) == line.format(here=tmp_path)

"""Text, hashes and numbers as Java reads and writes them (docs/internals/format/text.md).

Topics, properties and keys are UTF-8 on disk. Where the bytes are malformed, Java's reading of them counts: index keys,
tags codes and topic names are derived from it. Upstream: java.lang.String, MessageDecoder, IndexFile.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from flintmq.errors import UsageError

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()
_DECIMAL = re.compile(r"[+-]?\d+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS = -62_135_596_800_000  # 0001-01-01: the first and last times that a calendar date can be shown for
END_MS = 253_402_300_800_000  # 10000-01-01

EARLIEST_MS = 631_152_000_000
"""1990-01-01. No store is so old; a smaller number is meant in seconds, or as a date (20241120)."""


def iso(ms: int) -> str:
    """Format a time in ms as ISO 8601 in UTC with milliseconds.

    A time outside the years 1 to 9999 is shown as the number itself.
    """
    when = utc(ms)
    return f"{ms} ms" if when is None else when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc(ms: int) -> datetime | None:
    """Return a time in ms since 1970 as a datetime in UTC; None outside the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=ms) if FIRST_MS <= ms < END_MS else None


def ms_of(time: datetime) -> int:
    """Return a time that has a zone in ms since 1970."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def shorten_text(text: str, limit: int) -> str:
    """Shorten a text to its first `limit - 1` characters and an ellipsis, if it is longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def brief(value: object, most: int = 40) -> str:
    """Return the repr of a value, cut if it is long.

    Of more than `most` bytes, and of a repr of four times as many characters, it is the begin and the length.
    """
    if isinstance(value, bytes) and len(value) > most:
        return f"{value[:most]!r}... ({len(value)} bytes)"
    text = repr(value)
    return text if len(text) <= 4 * most else f"{text[: 3 * most]}... ({len(text)} characters)"


def typed_ms(option: str, ms: int) -> int:
    """Return a time that someone wrote as digits, in ms since 1970; 0 is the beginning."""
    if 0 < ms < EARLIEST_MS:
        raise UsageError(
            f"{option}: {ms} ms since 1970 is {iso(ms)}; write 000 after a number of seconds, and a date as 2024-11-20"
        )
    return ms


def java_decode(data: bytes | bytearray | memoryview) -> str:
    """Decode bytes as Java's `new String(data, UTF_8)` does: malformed bytes become U+FFFD.

    Python replaces in the same places except for an encoded surrogate (ED A0..BF and its continuation byte): Java makes
    one U+FFFD of the sequence, Python one of each byte. ED never continues another sequence, so replacing these
    sequences first changes nothing else.
    """
    data = bytes(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def java_encode(text: str) -> bytes:
    """Encode text as Java's `text.getBytes(UTF_8)` does.

    A lone surrogate becomes `?`, a pair becomes one character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        paired = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
        return paired.encode(errors="replace")


def has_lone_surrogate(text: str) -> bool:
    """Return whether text holds half of a surrogate pair alone, which UTF-8 cannot say."""
    if text.isascii():
        return False
    try:
        text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError:
        return True
    return False


def java_hash(text: str) -> int:
    """Compute Java's `text.hashCode()` as a signed 32-bit number.

    That is 31*h + unit over the UTF-16 code units.
    """
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = value * 31 + unit & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = value * 31 + (high << 8 | low) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def java_int(text: str, bits: int = 32) -> int | None:
    """Parse a number as Java's parseInt (bits=32), parseShort (16) or parseLong (64) do.

    Returns None where they throw. A sign may come first; digits of any script count, as long as each is one UTF-16
    unit. Blanks are not skipped.
    """
    if len(text) > 512 or not _DECIMAL.fullmatch(text) or max(text) > "\uffff":
        return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None

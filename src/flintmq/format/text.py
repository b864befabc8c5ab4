"""Text, hashes and numbers as Java reads and writes them (docs/internals/format/text.md).

Topics, properties and keys are UTF-8 on disk, but what counts is what Java makes of bytes that are not: index keys,
tags codes and topic names are taken from its reading. Upstream: java.lang.String, MessageDecoder, IndexFile.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()
_DECIMAL = re.compile(r"[+-]?\d+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = -62_135_596_800_000  # 0001-01-01: the first and last times that a calendar date can be shown for
_END_MS = 253_402_300_800_000  # 10000-01-01


def iso(ms: int) -> str:
    """A time in ms as ISO 8601 in UTC with milliseconds; outside the years 1 to 9999 the number itself."""
    if not _FIRST_MS <= ms < _END_MS:
        return f"{ms} ms"
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def java_decode(data: bytes | bytearray | memoryview) -> str:
    """The text that Java's `new String(data, UTF_8)` gives: malformed bytes become U+FFFD.

    Python replaces in the same places but for encoded surrogates (ED A0..BF and what continues it): Java makes one
    U+FFFD of the sequence, Python one of each byte. ED never continues another sequence, so replacing these sequences
    first changes nothing else.
    """
    data = bytes(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def java_encode(text: str) -> bytes:
    """The bytes that Java's `text.getBytes(UTF_8)` gives: a lone surrogate becomes `?`, a pair one character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        paired = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
        return paired.encode(errors="replace")


def java_hash(text: str) -> int:
    """Java's `text.hashCode()`: 31*h + unit over the UTF-16 code units, as a signed 32-bit number."""
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
    """What `Integer.parseInt` (bits=32), `Short.parseShort` (16) or `Long.parseLong` (64) gives, None where they throw.

    A sign may lead; digits of any script count, as long as they are one UTF-16 unit each. Blanks do not.
    """
    if len(text) > 512 or not _DECIMAL.fullmatch(text) or max(text) > "\uffff":
        return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None

"""Formats values for a terminal: escaped text, times, sizes. Nothing here writes.

Store files are hostile input: a topic may hold an escape sequence that repaints the screen, a bidi control that
reverses the rest of the line, or bytes that are no UTF-8. Everything that came from a file, a path or an error text
passes through `printable` before a person sees it. The escapes are Python's: `\\n`, `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta

from flintmq.errors import UsageError
from flintmq.format.text import iso as iso

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_RELATIVE = re.compile(r"-(?:[0-9]{1,12}(?:ms|[smhdw]))+")
_RELATIVE_PART = re.compile(r"([0-9]+)(ms|[smhdw])")
_INT64_MAX = (1 << 63) - 1


def printable(text: str) -> str:
    """Escape everything in `text` that is not a visible character or a space.

    Escaped are the Unicode categories of controls (C0, C1, DEL), formats (bidi controls among them), surrogates,
    line and paragraph separators, and characters that Python's Unicode does not know. A byte that was no UTF-8 in a
    file name (a surrogate escape) is shown as that byte: `\\xff`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def printable_bytes(data: bytes | bytearray | memoryview) -> str:
    """Return bytes as escaped text: UTF-8, and `\\xNN` for every byte that is not."""
    return printable(bytes(data).decode("utf-8", "surrogateescape"))


def _escape(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if unicodedata.category(char) == "Zs":  # wide and no-break spaces are harmless
        return char
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def shorten_text(text: str, limit: int) -> str:
    """Shorten a text to its first `limit - 1` characters and an ellipsis, if it is longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def size(count: int) -> str:
    """Format a number of bytes for people: `512 B`, `1.4 KiB`, `3.0 GiB`."""
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if abs(value) < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def byte_count(option: str, text: str) -> int:
    """Parse a number of bytes: `131072`, `128KiB`, `128 MiB`, `1GiB`.

    Raises:
        UsageError: the text is none.
    """
    found = re.fullmatch(r"([0-9]{1,15}) ?(|KiB|MiB|GiB)", text.strip(), re.ASCII)
    if found is None or not int(found[1]):
        raise UsageError(f"{option}: {shorten_text(text, 60)!r} is no size; write bytes, or 64KiB, 128MiB, 1GiB")
    return int(found[1]) << {"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[found[2]]


def duration(ms: int) -> str:
    """Format a span of time for people, its two largest units: `2 d 3 h`, `1 m 5 s`, `80 ms`."""
    parts: list[str] = []
    rest = abs(ms)
    for unit in ("d", "h", "m", "s", "ms"):
        number, rest = divmod(rest, _UNITS_MS[unit])
        if number or (unit == "ms" and not parts):
            parts.append(f"{number} {unit}")
    return ("-" if ms < 0 else "") + " ".join(parts[:2])


def parse_time(text: str, now_ms: int, option: str = "time") -> int:
    """Parse a time into ms since 1970.

    Args:
        text: ISO 8601 (`2024-11-20`, `2024-11-20T11:24:33.5+08:00`; UTC if no zone is written), digits (ms since 1970),
            `now`, or an age: `-15m`, `-1h30m` (units ms, s, m, h, d, w).
        now_ms: the moment that an age counts from.
        option: the option's name, for the error.

    Raises:
        UsageError: the text is none of these.
    """
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _INT64_MAX:
        return int(text)
    if _RELATIVE.fullmatch(text):
        return now_ms - sum(int(n) * _UNITS_MS[unit] for n, unit in _RELATIVE_PART.findall(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        forms = "ISO 8601 (2024-11-20T11:24:33Z), ms since 1970, or an age such as -15m"
        raise UsageError(f"{option}: {shorten_text(text, 60)!r} is no time; write {forms}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)

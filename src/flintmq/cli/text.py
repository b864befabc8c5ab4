"""Formats values for a terminal: escaped text, times, sizes. Nothing here writes.

Store files are hostile input: a topic may hold an escape sequence that repaints the screen, a bidi control that
reverses the rest of the line, or bytes that are no UTF-8. Everything that came from a file, a path or an error text
passes through `printable` before a person sees it. The escapes are Python's: `\\n`, `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from flintmq.format.text import iso as iso
from flintmq.format.text import shorten_text as shorten_text

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def as_typed(text: str, words: Sequence[str]) -> str:
    """Name paths in a text as these words of the user name them: relative, not from the root on."""
    for word in words:
        if word.strip("./") and not os.path.isabs(word) and "://" not in word:
            whole = re.escape(os.path.abspath(word))
            text = re.sub(rf"(?<!\S){whole}(?=[\s:/,;)]|$)", word.rstrip("/").replace("\\", r"\\"), text)
    return text


def near(path: str) -> str:
    """Return a path as it is written in the working directory, if it lies below that."""
    here = os.path.join(os.getcwd(), "")
    return path.removeprefix(here)


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


def note_lines(notes: Mapping[str, int], texts: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Iterator[str]:
    """Yield lines about the notes of a job: known sentences, or else code and count.

    A code is written with dashes, as verify writes it, though walkers of logs name theirs with underscores.
    """
    for code, count in sorted(notes.items()):
        word, known = code.replace("_", "-"), texts.get(code, ())
        yield from (f"note     {word}: {printable(text)}" for text in known)
        if not known:
            yield f"note     {word} ({count}x)"
        elif count > len(known):
            yield f"note     {word}: {count} in all"


def duration(ms: int) -> str:
    """Format a span of time for people, its two largest units: `2 d 3 h`, `1 m 5 s`, `80 ms`."""
    from flintmq.config.text import UNIT_MS

    parts: list[str] = []
    rest = abs(ms)
    for unit in ("d", "h", "m", "s", "ms"):
        number, rest = divmod(rest, UNIT_MS[unit])
        if number or (unit == "ms" and not parts):
            parts.append(f"{number} {unit}")
    return ("-" if ms < 0 else "") + " ".join(parts[:2])

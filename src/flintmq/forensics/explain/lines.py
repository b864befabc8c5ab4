"""The lines of explain: a field of a layout, a whole unit, or many units in one line.

The lines of one file follow each other without gap or overlap, from its first byte to its last. Names, meanings and the
formatting of values come from the declarations in `format/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import HEX, HOST, TIME, FieldPiece, Layout, bit_names
from flintmq.format.message_id import host_text
from flintmq.format.text import iso, java_decode

SHOWN_BYTES: Final = 32  # bytes of its range that a line carries
TEXT_CHARS: Final = 200  # of a text in the file


@dataclass(frozen=True, slots=True)
class Line:
    """A range of bytes of the file, with its meaning."""

    offset: int
    length: int
    unit: str  # the unit it belongs to, such as `record at 1234`; empty if the file has no units
    name: str  # name of the field or of the range: `record`, `zeros`
    value: int | str | float | bool | None
    text: str  # the value for people, with notes on its target and correctness
    meaning: str
    problem: str | None = None
    data: bytes = b""  # its first bytes, cut to 32

    def __post_init__(self) -> None:
        if len(self.data) > SHOWN_BYTES:
            object.__setattr__(self, "data", bytes(self.data[:SHOWN_BYTES]))


class Remark(NamedTuple):
    text: str = ""
    problem: str | None = None


NOTHING: Final = Remark()


def same(found: int, right: int, what: str) -> Remark:
    """Remark on a number that a record gives: `what` it is, or what is right."""
    return Remark(f"is {what}") if found == right else Remark(f"{what} is {right}", f"{found} where {what} is {right}")


def text_of(data: bytes) -> str:
    text = java_decode(data[: 4 * TEXT_CHARS])
    return text if len(data) <= 4 * TEXT_CHARS and len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"


def shown(piece: FieldPiece) -> tuple[int | str | None, str]:
    """Return (value for programs, value for people) of a field."""
    value = piece.value
    if value is None:
        return None, "cut"
    if isinstance(value, bytes):
        try:
            text = host_text(value) if piece.shows == HOST else text_of(value)
        except FormatError:  # cut
            text = value.hex()
        return text, text
    if piece.shows == TIME:
        return value, f"{value} ({iso(value)})" if value else "0"
    mask = 0xFFFFFFFFFFFFFFFF if value > 0xFFFFFFFF else 0xFFFFFFFF
    text = f"0x{value & mask:X}" if piece.shows == HEX else str(value)
    names = bit_names(piece.bits, value) if piece.bits else []
    return value, f"{text} ({', '.join(names)})" if names else text


def field_lines(
    layout: Layout[Any],
    data: bytes,
    base: int,
    unit: str,
    remarks: Mapping[str, Remark] | None = None,
    inner: Mapping[str, Callable[[FieldPiece], Iterable[Line]]] | None = None,
    after: str = "after the last field",
    most: int | None = None,
) -> Iterator[Line]:
    """Yield lines for all of `data`: its fields, then a line `rest` for other bytes.

    Args:
        inner: by field name, what gives the lines of a field that is made of parts.
        most: number of fields to parse; None: all.
    """
    at, error = 0, ""
    for piece in islice(layout.pieces(data), most):
        line = field_line(piece, data, base, unit, (remarks or {}).get(piece.name, NOTHING))
        if piece.size and inner and piece.name in inner:
            yield from inner[piece.name](piece)
        elif line.length or line.problem:
            yield line
        at, error = piece.at + piece.size, piece.error
    if at < len(data):
        meaning = "not parsed, because an earlier field is wrong" if error else after
        rest = data[at : at + SHOWN_BYTES]
        yield Line(base + at, len(data) - at, unit, "rest", None, f"{len(data) - at} bytes", meaning, None, rest)


def field_line(piece: FieldPiece, data: bytes, base: int, unit: str, remark: Remark = NOTHING) -> Line:
    """Return a field's line; `data` is the buffer it was found in, `base` its position."""
    value, text = shown(piece)
    text = ": ".join(filter(None, (text, remark.text)))
    raw = data[piece.at : piece.at + min(piece.size, SHOWN_BYTES)]
    problem = "; ".join(filter(None, (remark.problem, piece.error))) or None
    return Line(base + piece.at, piece.size, unit, piece.name, value, text, piece.meaning, problem, raw)


def blame(lines: list[Line], position: int, problem: str) -> list[Line]:
    """Add a problem to the line that covers a position of the file, or to the first line."""
    if not lines:
        return lines
    number = next((n for n, line in enumerate(lines) if line.offset <= position < line.offset + line.length), 0)
    before = lines[number].problem
    joined = f"{before}; {problem}" if before and not problem.startswith(before) else problem
    return [*lines[:number], replace(lines[number], problem=joined), *lines[number + 1 :]]

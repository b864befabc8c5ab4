"""Lines: what explain says of a range of bytes. A field of a layout, a whole unit, or many units in one.

The lines of one file follow each other without a gap and without an overlap, from its first byte to its last. Names,
meanings and the way in which values are shown come from the declarations in `format/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import HEX, HOST, TIME, FieldPiece, Layout, Values, bit_names
from flintmq.format.message_id import host_text
from flintmq.format.text import iso, java_decode

SHOWN_BYTES: Final = 32  # a line carries so many of its first bytes
TEXT_CHARS: Final = 200  # of a text in the file


@dataclass(frozen=True, slots=True)
class Line:
    """What stands in a range of bytes of the file.

    Attributes:
        offset: position in the file.
        length: bytes.
        unit: what it is a part of, such as `record at 1234`; empty where the file has no units.
        name: of the field, or what the range is: `record`, `zeros`.
        value: for programs: number, text, or None.
        text: the value for people; may go on about where it leads and whether that is right.
        meaning: what such a field means.
        problem: what is wrong with it, None if nothing is.
        data: its first bytes, 32 at most; more that are given are left out.
    """

    offset: int
    length: int
    unit: str
    name: str
    value: int | str | float | bool | None
    text: str
    meaning: str
    problem: str | None = None
    data: bytes = b""

    def __post_init__(self) -> None:
        if len(self.data) > SHOWN_BYTES:
            object.__setattr__(self, "data", bytes(self.data[:SHOWN_BYTES]))


class Remark(NamedTuple):
    """What is said of a field besides its value.

    Attributes:
        text: joined to the value.
        problem: what is wrong.
    """

    text: str = ""
    problem: str | None = None


NOTHING: Final = Remark()


def text_of(data: bytes) -> str:
    """The text in some bytes, cut where it is long."""
    text = java_decode(data[: 4 * TEXT_CHARS])
    return text if len(data) <= 4 * TEXT_CHARS and len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"


def shown(piece: FieldPiece) -> tuple[int | str | None, str]:
    """(value for programs, value for people) of a field."""
    value = piece.value
    if value is None:
        return None, "cut"
    if isinstance(value, bytes):
        if piece.shows == HOST:
            try:
                return host_text(value), host_text(value)
            except FormatError:  # cut
                return value.hex(), value.hex()
        return text_of(value), text_of(value)
    if piece.shows == TIME:
        return value, f"{value} ({iso(value)})" if value else "0"
    text = (
        f"0x{value & 0xFFFFFFFFFFFFFFFF if value > 0xFFFFFFFF else value & 0xFFFFFFFF:X}"
        if piece.shows == HEX
        else str(value)
    )
    names = bit_names(piece.bits, value) if piece.bits else []
    return value, f"{text} ({', '.join(names)})" if names else text


def field_lines(
    layout: Layout[Any],
    data: bytes,
    base: int,
    unit: str,
    remarks: Mapping[str, Remark] | None = None,
    given: Values | None = None,
) -> Iterator[Line]:
    """The fields of whatever stands in `data`, which begins at position `base` of the file; all of `data`.

    What stands behind the last field that can be told apart is one line `rest`.
    """
    at, error = 0, ""
    for piece in layout.pieces(data, given=given):
        line = field_line(piece, data, base, unit, (remarks or {}).get(piece.name, NOTHING))
        if line.length or line.problem:
            yield line
        at, error = piece.at + piece.size, piece.error
    if at < len(data):
        text = f"{len(data) - at} bytes"
        meaning = "not told apart, since a field before is wrong" if error else "behind the last field"
        yield Line(base + at, len(data) - at, unit, "rest", None, text, meaning, None, data[at : at + SHOWN_BYTES])


def field_line(piece: FieldPiece, data: bytes, base: int, unit: str, remark: Remark = NOTHING) -> Line:
    """One field as a line; `data` is the buffer that it was found in, `base` the position of that in the file."""
    value, text = shown(piece)
    if remark.text:
        text = f"{text}: {remark.text}" if text else remark.text
    raw = data[piece.at : piece.at + min(piece.size, SHOWN_BYTES)]
    problem = "; ".join(filter(None, (remark.problem, piece.error))) or None
    return Line(base + piece.at, piece.size, unit, piece.name, value, text, piece.meaning, problem, raw)


def blame(lines: list[Line], position: int, problem: str) -> list[Line]:
    """The lines, with a problem told at the one that covers a position of the file; at the first one if none does."""
    if not lines:
        return lines
    number = next((n for n, line in enumerate(lines) if line.offset <= position < line.offset + line.length), 0)
    before = lines[number].problem
    told = f"{before}; {problem}" if before and not problem.startswith(before) else problem
    return [*lines[:number], replace(lines[number], problem=told), *lines[number + 1 :]]

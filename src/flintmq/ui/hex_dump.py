"""The bytes of a unit in rows, each byte with the number of its field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flintmq.forensics.explain.lines import Line

ROW = 16
COLOURS = 8


class FieldRun(NamedTuple):
    """Bytes of one field that lie side by side in a row; `colour` is 0 to 7, `field` the number of its line."""

    field: int
    colour: int
    hex: str
    text: str
    title: str


class DumpRow(NamedTuple):
    """A row of 16 bytes; `left` bytes from `end` on are not shown, `blank` cells before it hold other units."""

    offset: int
    blank: int
    runs: tuple[FieldRun, ...]
    left: int = 0
    end: int = 0


def dump(lines: Iterable[Line]) -> list[DumpRow]:
    """Make rows of the fields of one unit; of a long field the first bytes are shown."""
    rows: list[DumpRow] = []
    runs: list[FieldRun] = []
    begin = -1  # position of the first byte of the row at hand

    def close(left: int = 0, end: int = 0) -> None:
        nonlocal runs, begin
        if runs:
            rows.append(DumpRow(begin - begin % ROW, begin % ROW, tuple(runs), left, end))
        runs, begin = [], -1

    for number, line in enumerate(lines):
        title = f"{line.name}: {line.text}"[:200]
        data, at = line.data, line.offset
        while data:
            if begin < 0:
                begin = at
            part = data[: ROW - at % ROW]
            text = "".join(chr(b) if 32 <= b < 127 else "·" for b in part)
            runs.append(FieldRun(number, number % COLOURS, part.hex(" "), text, title))
            data, at = data[len(part) :], at + len(part)
            if at % ROW == 0 and (data or line.length == len(line.data)):
                close()
        if left := line.length - len(line.data):
            close(left, at)
    close()
    return rows

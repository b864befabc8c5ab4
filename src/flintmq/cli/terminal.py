"""Draws for a terminal: colours, tables, and the progress bar.

A pipe gets the same tables, without colours.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import threading
import time
import unicodedata
from collections.abc import Iterator
from datetime import timedelta
from itertools import zip_longest

BOLD, FAINT, RED, GREEN, YELLOW, CYAN = "1", "2", "1;31", "32", "33", "36"
GAP = "  "
"""Between two columns."""
NARROWEST = 20
"""Columns of a terminal that the widest column of a table keeps, however narrow that is."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CLEAR = "\r\x1b[2K"


def paint(colour: str, text: str) -> str:
    """Colour a text if stdout is a terminal with colours and NO_COLOR is unset (no-color.org)."""
    if not text or not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def verdict(text: str, good: bool) -> str:
    """Colour a text by what it says: green if it is good, else red."""
    return paint(GREEN if good else RED, text)


def width_of(text: str) -> int:
    """Return the columns that a text takes.

    A character of East Asia takes two, and one that joins the character before takes none.
    """
    if text.isascii() and "\x1b" not in text:
        return len(text)
    plain = _COLOUR.sub("", text)
    joined = sum(unicodedata.category(char) in ("Mn", "Me") for char in plain)
    return len(plain) + sum(unicodedata.east_asian_width(char) in "WF" for char in plain) - joined


def padded(text: str, width: int, right: bool = False) -> str:
    """Fill a text with blanks up to a width, on its left if it shall stand at the right."""
    blanks = " " * (width - width_of(text))
    return blanks + text if right else text + blanks


class TextTable:
    """A table without lines.

    `columns`: the names above the columns; one that ends with > is of numbers. Without any there is no head.
    """

    def __init__(self, *columns: str) -> None:
        self._right = [name.endswith(">") for name in columns]
        self._head = [name.rstrip(">") for name in columns]
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """Add a row; a cell may have several lines."""
        self._rows.append(cells)

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield the lines of the table; with a width, the widest column is folded so that they fit."""
        head = [[paint(BOLD, name)] for name in self._head]
        rows = [*([head] if head else []), *([cell.split("\n") for cell in row] for row in self._rows)]
        widths = [max(width_of(line) for cell in column for line in cell) for column in zip(*rows, strict=True)]
        excess = 0 if width is None else sum(widths) + len(GAP) * (len(widths) - 1) - width
        if excess > 0:
            at = widths.index(max(widths))
            widths[at] = max(widths[at] - excess, NARROWEST)
            for row in rows:
                row[at] = [part for line in row[at] for part in textwrap.wrap(line, widths[at]) or [""]]
        right = self._right or [False] * len(widths)
        for row in rows:
            for cells in zip_longest(*row, fillvalue=""):
                yield GAP.join(map(padded, cells, widths, right)).rstrip()


class Bar:
    """A progress bar on stderr, shown during work unless something else is printed."""

    WAIT_S = 0.5
    """Seconds before it appears, from the beginning or from the last printed line."""
    REDRAW_S = 0.1
    LENGTH = 40

    def __init__(self, title: str) -> None:
        self._title, self._began = title, time.monotonic()
        self._lock = threading.Lock()  # the thread that reports progress may differ from the one that prints
        self._shown, self._from = False, self._began + self.WAIT_S

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        with self._lock:
            if now >= self._from:
                self._shown, self._from = True, now + self.REDRAW_S
                _draw(_CLEAR + self._line(done, total, now - self._began))

    def _line(self, done: int, total: int, seconds: float) -> str:
        if total <= 0:
            return f"{self._title} ..."
        share = min(done / total, 1)
        left = timedelta(seconds=round(seconds * (1 - share) / share)) if share else "-:--:--"
        try:
            columns = os.get_terminal_size(2).columns
        except OSError:
            columns = 80
        text = f" {share:>4.0%} {left}"
        length = max(0, min(self.LENGTH, columns - len(self._title) - len(text) - 2))
        return f"{self._title} {'#' * round(share * length):.<{length}}{text}"

    def hide(self) -> None:
        with self._lock:
            if self._shown:
                self._shown = False
                _draw(_CLEAR)
            self._from = time.monotonic() + self.WAIT_S


def _draw(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()

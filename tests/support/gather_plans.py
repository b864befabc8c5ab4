"""Gathering columns without Arrow: a plan, plain arrays, and lists out of them."""

from __future__ import annotations

import itertools
from array import array
from dataclasses import dataclass, field
from typing import Any

from flintmq.kernels.read import gather as kernel

FILL = 0xA5  # stands in every byte that nobody wrote
NUMBERS = {kernel.INT32, kernel.INT64, kernel.UINT32, kernel.MICROSECONDS}
NULLABLE = {kernel.MICROSECONDS, kernel.TAGS, kernel.KEYS, kernel.UNIQ_KEY}
PAIRS_ROOM = 8000
GROUP = (kernel.PROPERTIES, kernel.NAMES, kernel.VALUES, kernel.TAGS, kernel.KEYS, kernel.UNIQ_KEY)

# Every column: the kernel's kind, and its number in the plan row.
EVERYTHING = [
    *((kernel.INT32, where) for where in (0, 12, 16, 36, 72)),
    *((kernel.INT64, where) for where in (20, 28, 40, 56, 76)),
    (kernel.UINT32, 8),
    (kernel.MICROSECONDS, 40),
    (kernel.MICROSECONDS, 56),
    (kernel.MAGIC, 0),
    (kernel.TOPIC, 0),
    (kernel.BODY, 0),
    (kernel.BORN_HOST, 0),
    (kernel.STORE_HOST, 0),
    (kernel.OFFSET_MSG_ID, 0),
    *((kind, PAIRS_ROOM if kind == kernel.PROPERTIES else 1) for kind in GROUP),
]


@dataclass
class Plan:
    """Sections for `rows` rows, with `room` bytes (or pairs: the PROPERTIES row's number) for each column of text."""

    columns: list[tuple[int, int]]
    rows: int
    room: int = 4000
    numbers: array[int] = field(default_factory=lambda: array("q"))
    row: int = 0

    def __post_init__(self) -> None:
        longs = ints = size = 0
        for kind, number in self.columns:
            pairs = next((n for k, n in self.columns if k == kernel.PROPERTIES), 0)
            entries = pairs if kind in (kernel.NAMES, kernel.VALUES) else self.rows
            text = 0 if kind in NUMBERS or kind == kernel.PROPERTIES else self.room + kernel.SLACK
            self.numbers.extend((kind, number, longs, ints, size, size + text, size + text))
            longs += entries
            ints += entries + 1
            size += text + (entries + 7) // 8
        self.longs = array("q", bytes(8 * max(1, longs)))
        self.ints = array("i", bytes(4 * max(1, ints)))
        self.out = bytearray([FILL]) * max(1, size)
        self.notes = array("q", bytes(8 * kernel.NOTES))

    def gather(self, data: Any, positions: array[int], first: int = 0, last: int | None = None) -> tuple[int, int]:
        """Call the kernel and keep count of the rows."""
        last = len(positions) if last is None else last
        taken, why = kernel.gather(
            data, positions, first, last, self.numbers, self.row, self.rows, self.longs, self.ints, self.out, self.notes
        )
        self.row += taken
        return taken, why

    @property
    def noted(self) -> list[tuple[int, int]]:
        """(index into positions, column) of what was left to Python."""
        numbers = list(self.notes[1 : 1 + self.notes[0]])
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def column(self, number: int, count: int | None = None) -> list[Any]:
        """The values of a column: numbers, bytes, or None."""
        kind, _, at_longs, at_ints, at_text, _, at_bits = self.numbers[7 * number : 7 * number + 7]
        count = self.row if count is None else count
        if kind == kernel.INT32:
            values: list[Any] = list(self.ints[at_ints : at_ints + count])
        elif kind in NUMBERS:
            values = list(self.longs[at_longs : at_longs + count])
        elif kind == kernel.PROPERTIES:
            ends = self.ints[at_ints : at_ints + count + 1]
            names, texts = self.column(number + 1, ends[-1]), self.column(number + 2, ends[-1])
            return [list(zip(names[a:b], texts[a:b], strict=True)) for a, b in itertools.pairwise(ends)]
        else:
            ends = self.ints[at_ints : at_ints + count + 1]
            values = [bytes(self.out[at_text + a : at_text + b]) for a, b in itertools.pairwise(ends)]
        if kind in NULLABLE:
            values = [v if self.out[at_bits + i // 8] >> i % 8 & 1 else None for i, v in enumerate(values)]
        return values

    def named(self) -> dict[tuple[int, int], list[Any]]:
        """(kind, number in the plan row) -> values."""
        inner = (kernel.NAMES, kernel.VALUES)
        return {key: self.column(i) for i, key in enumerate(self.columns) if key[0] not in inner}

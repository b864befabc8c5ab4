"""Pictures as SVG text, drawn by hand: counts over time as stacked areas."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#3b6ea5", "#d98032", "#4f9d69", "#b3506e", "#8467a8", "#9a8c3f", "#5aa7b5", "#777777")
WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 50, 50
BARS = "▁▂▃▄▅▆▇█"


def spark_line(values: Sequence[int]) -> str:
    """The values as a line of blocks for a terminal, the largest being full."""
    top = max(values, default=0) or 1
    return "".join(BARS[value * (len(BARS) - 1) // top] for value in values)


def _steps(top: int) -> list[int]:
    """A few round numbers from 0 to at least `top`: 1, 2 or 5 times a power of ten apart."""
    units = (factor * 10**power for power in itertools.count() for factor in (1, 2, 5))
    unit = next(unit for unit in units if top <= 5 * unit)
    return [unit * i for i in range(max(1, -(-top // unit)) + 1)]


def stacked_areas(title: str, labels: Sequence[str], series: Mapping[str, Sequence[int]]) -> str:
    """A picture of several series, one on top of the other.

    Args:
        title: stands above.
        labels: of the horizontal axis, one a value; about eight of them are shown.
        series: name -> a value for each label.

    Returns:
        An SVG document.
    """
    count = len(labels)
    sums = [sum(values[i] for values in series.values()) for i in range(count)]
    ticks = _steps(max(sums, default=1))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(i: float) -> float:
        return LEFT + width * i / max(count - 1, 1)

    def y(value: float) -> float:
        return TOP + height * (1 - value / max(ticks[-1], 1))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="16" fill="#222">{escape(title)}</text>',
    ]
    for tick in ticks:
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#555">{tick:,}</text>')
    for i in range(0, count, max(1, round(count / 8))):
        place = f'x="{x(i):.1f}" y="{HEIGHT - BOTTOM + 20}"'
        parts.append(f'<text {place} text-anchor="middle" fill="#555">{escape(labels[i])}</text>')
    below = [0] * count
    for number, (name, values) in enumerate(series.items()):
        above = [low + value for low, value in zip(below, values, strict=True)]
        edge = [f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(above)]
        edge += [f"{x(i):.1f},{y(below[i]):.1f}" for i in reversed(range(count))]
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polygon points="{" ".join(edge)}" fill="{colour}" fill-opacity="0.85"/>')
        line = HEIGHT - BOTTOM - 8 - 22 * number
        parts.append(f'<rect x="{WIDTH - RIGHT + 16}" y="{line - 11}" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 36}" y="{line}" fill="#222">{escape(name)}</text>')
        below = above
    return "\n".join([*parts, "</svg>", ""])

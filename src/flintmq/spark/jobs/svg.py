"""Plots as inline SVG text: stacked columns over time, lines over time, and a histogram.

Colours are CSS variables (`STYLE`), so a plot is light or dark with the page it stands in; `alone` makes a document of
one. Every text that comes from outside is escaped. Each column has a title, which browsers show under the pointer.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 920, 300
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 14, 34
SLOTS = 8  # a column takes no more than one part in so many
COLOURS = 8

_LIGHT = ("#3b6fb6", "#e08a3c", "#4a9c6d", "#c2577b", "#8468b0", "#b59a2c", "#3f9fb0", "#8b929c")
_DARK = ("#6ea3ec", "#f0a860", "#6cc493", "#e485a5", "#ab92dc", "#d9c05a", "#69c6d6", "#9aa2ad")


def _variables(colours: Sequence[str], plain: str) -> str:
    return plain + "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours))


LIGHT = _variables(
    _LIGHT, "--page:#f6f7f9;--card:#ffffff;--ink:#1d2430;--soft:#667085;--line:#e3e7ed;--warn:#b4540a;--good:#23734a;"
)
DARK = _variables(
    _DARK, "--page:#14181f;--card:#1c222c;--ink:#e8ecf2;--soft:#97a2b3;--line:#2f3846;--warn:#f2a65e;--good:#6cc493;"
)
STYLE = (
    f":root{{color-scheme:light dark;{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}"
    "svg text{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif;fill:var(--soft)}"
    "svg .grid{stroke:var(--line)}svg .base{stroke:var(--soft)}"
    + "".join(f".f{i}{{fill:var(--c{i})}}.l{i}{{stroke:var(--c{i});fill:none;stroke-width:2}}" for i in range(COLOURS))
)


def steps(top: float) -> list[float]:
    """A few round numbers from 0 to at least `top`: 1, 2 or 5 times a power of ten apart."""
    least = 10.0**-3
    units = (factor * least * 10**power for power in itertools.count() for factor in (1, 2, 5))
    unit = next(unit for unit in units if top <= 5 * unit)
    return [round(unit * i, 6) for i in range(max(1, -int(-top // unit)) + 1)]


def short(value: float) -> str:
    """A number for an axis: 1.5k, 20M."""
    for limit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{sign}"
    return f"{value:.3g}"


def clock(times: Sequence[int], width_ms: int) -> list[str]:
    """Texts of times (ms), as long as they must be to tell them apart."""
    span = times[-1] - times[0] + width_ms if times else 0
    form = "%H:%M:%S" if span < 600_000 else "%H:%M" if span <= 86_400_000 else "%d %b %H:%M"
    form = form if span <= 5 * 86_400_000 else "%Y-%m-%d"
    origin = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    texts = [(origin + datetime.timedelta(milliseconds=time)).strftime(form) for time in times]
    return [f"{text}.{time % 1000:03d}" for text, time in zip(texts, times, strict=True)] if span < 10_000 else texts


class _Plot:
    """The frame: axes, grid and texts."""

    def __init__(self, labels: Sequence[str], top: float, title: str, text: Callable[[float], str]) -> None:
        self.count, self.ticks = max(SLOTS, len(labels)), steps(top)
        self.slot = (WIDTH - LEFT - RIGHT) / self.count
        self.parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">']
        for tick in self.ticks:
            kind, y = "grid" if tick else "base", self.y(tick)
            self.parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text(tick))}</text>')
        for i in range(0, len(labels), max(1, -(-len(labels) // 9))):
            x, y = LEFT + self.slot * (i + 0.5), HEIGHT - BOTTOM + 20
            self.parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(labels[i])}</text>')

    def y(self, value: float) -> float:
        """Where a value stands."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / (self.ticks[-1] or 1))

    def column(self, i: int, low: float, high: float, colour: int) -> None:
        """A part of a column."""
        x, width = LEFT + self.slot * i, max(0.6, self.slot * (0.98 if self.count > 60 else 0.86))
        box = f'x="{x:.1f}" y="{self.y(high):.1f}" width="{width:.1f}" height="{self.y(low) - self.y(high):.1f}"'
        self.parts.append(f'<rect class="f{colour % COLOURS}" {box}/>')

    def hover(self, i: int, text: str) -> None:
        """What the pointer is told over a column."""
        x, height = LEFT + self.slot * i, HEIGHT - TOP - BOTTOM
        box = f'x="{x:.1f}" y="{TOP}" width="{self.slot:.1f}" height="{height}"'
        self.parts.append(f'<rect {box} fill="transparent"><title>{escape(text)}</title></rect>')

    def line(self, values: Sequence[float | None], colour: int) -> None:
        """A line with gaps where there is no value; a dot for one that has no neighbour."""
        run: list[str] = []
        for i, value in enumerate([*values, None]):
            if value is not None:
                run.append(f"{LEFT + self.slot * (i + 0.5):.1f},{self.y(value):.1f}")
            elif len(run) == 1:
                x, y = run[0].split(",")
                self.parts.append(f'<circle class="f{colour}" cx="{x}" cy="{y}" r="2.5"/>')
            elif run:
                self.parts.append(f'<polyline class="l{colour}" points="{" ".join(run)}"/>')
            run = run if value is not None else []

    def done(self) -> str:
        """The element."""
        return "".join([*self.parts, "</svg>"])


def stacked(
    title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], text: Callable[[float], str] = short
) -> str:
    """Columns of several series, one on top of the other.

    Args:
        title: for those who cannot see it.
        labels: one a column.
        series: name -> a value for each label.
        text: of a value.
    """
    sums = [sum(values) for values in zip(*series.values(), strict=True)]
    plot = _Plot(labels, max(sums, default=0), title, text)
    for i, label in enumerate(labels):
        low = 0.0
        for number, values in enumerate(series.values()):
            if values[i]:
                plot.column(i, low, low + values[i], number)
                low += values[i]
        told = [f"{name}: {text(values[i])}" for name, values in series.items() if values[i]]
        plot.hover(i, "\n".join([label, *(told if len(series) == 1 else [*told, f"all: {text(sums[i])}"])]))
    return plot.done()


def lines(
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    text: Callable[[float], str] = short,
) -> str:
    """Lines over the same labels; None is a gap. Arguments as for `stacked`."""
    top = max((value for values in series.values() for value in values if value is not None), default=0)
    plot = _Plot(labels, top, title, text)
    for number, values in enumerate(series.values()):
        plot.line(values, number)
    for i, label in enumerate(labels):
        told = [f"{name}: {text(value)}" for name, values in series.items() if (value := values[i]) is not None]
        plot.hover(i, "\n".join([label, *told]))
    return plot.done()


def legend(names: Sequence[str]) -> str:
    """The names of series with their colours, as HTML."""
    dots = "".join(
        f'<span><i style="background:var(--c{i % COLOURS})"></i>{escape(n)}</span>' for i, n in enumerate(names)
    )
    return f'<p class="legend">{dots}</p>'


def alone(title: str, plot: str, names: Sequence[str] = ()) -> str:
    """A plot as a document of its own, with a heading and the names of its series."""
    inner = plot.replace("<svg ", f'<svg y="46" width="{WIDTH}" height="{HEIGHT}" ', 1)
    keys, x = [], float(LEFT)
    for number, name in enumerate(names):
        keys.append(f'<rect class="f{number % COLOURS}" x="{x:.0f}" y="32" width="10" height="10" rx="2"/>')
        keys.append(f'<text x="{x + 15:.0f}" y="41">{escape(name)}</text>')
        x += 32 + 7.2 * len(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 50}"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" style="fill:var(--card)"/>'
        f'<text x="{LEFT}" y="20" style="font-size:16px;fill:var(--ink)">{escape(title)}</text>'
        f"{''.join(keys)}{inner}</svg>\n"
    )

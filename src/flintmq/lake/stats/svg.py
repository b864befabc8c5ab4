"""Draws plots as inline SVG: stacked columns over time, lines over time, and a histogram.

Shapes are made here; the template `plot.svg` writes them and escapes each text, since texts come from messages.
Colours are CSS variables (`STYLE`), so a plot is light or dark like its page; `document` makes a document of a plot.
Each column has a title, which browsers show under the pointer. A plot is drawn in two widths, of which a page shows
the one that fits: the letters of a wide plot made small cannot be read.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flintmq.errors import MissingExtraError
from flintmq.format.text import utc

if TYPE_CHECKING:
    import jinja2

SLOTS = 8  # least number of columns for which a plot has room
COLOURS = 8
LETTER = 7.0  # px, approximate width of a letter on an axis


@dataclass(frozen=True)
class Frame:
    width: int
    height: int
    left: int  # left, right, top, bottom: margins around the columns
    right: int = 12
    top: int = 14
    bottom: int = 34


WIDE, NARROW = Frame(920, 300, 72), Frame(340, 220, 64)

_LIGHT = ("#3b6fb6", "#e08a3c", "#4a9c6d", "#c2577b", "#8468b0", "#b59a2c", "#3f9fb0", "#8b929c")
_DARK = ("#6ea3ec", "#f0a860", "#6cc493", "#e485a5", "#ab92dc", "#d9c05a", "#69c6d6", "#9aa2ad")


def _variables(colours: Sequence[str], plain: str) -> str:
    return plain + "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours))


LIGHT = _variables(
    _LIGHT,
    "--page:#f6f7f9;--card:#ffffff;--ink:#1d2430;--soft:#5d687a;--line:#e3e7ed;--shade:#9aa5b5;--warn:#b4540a;"
    "--good:#23734a;",
)
DARK = _variables(
    _DARK,
    "--page:#14181f;--card:#1c222c;--ink:#e8ecf2;--soft:#a3aebd;--line:#2f3846;--shade:#000000;--warn:#f2a65e;"
    "--good:#6cc493;",
)
STYLE = (
    f":root{{color-scheme:light dark;{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}"
    f"@media print{{:root{{color-scheme:light;{LIGHT}--page:#ffffff;}}}}"  # paper is white
    "svg text{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif;fill:var(--soft)}"
    "svg .grid{stroke:var(--line)}svg .base{stroke:var(--soft)}"
    + "".join(f".f{i}{{fill:var(--c{i})}}.l{i}{{stroke:var(--c{i});fill:none;stroke-width:2}}" for i in range(COLOURS))
)


@cache
def templates() -> jinja2.Environment:
    """Return the templates of pages and plots, which escape all values."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("making a page needs jinja2; run: pip install 'flintmq[stats]'") from error
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def steps(top: float) -> list[float]:
    """Return a few round numbers from 0 to at least `top`: 1, 2 or 5 times a power of ten apart."""
    least = 10.0**-3
    units = (factor * least * 10**power for power in itertools.count() for factor in (1, 2, 5))
    unit = next(unit for unit in units if top <= 5 * unit)
    return [round(unit * i, 6) for i in range(max(1, -int(-top // unit)) + 1)]


def short(value: float) -> str:
    for limit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{sign}"
    return f"{value:.3g}"


def scale_of_bytes(top: float) -> tuple[int, str]:
    """Return the unit for bytes up to `top`: its size and its name."""
    power = 0
    while top >= 1024 and power < 4:
        top, power = top / 1024, power + 1
    return 1024**power, ("B", "KiB", "MiB", "GiB", "TiB")[power]


@dataclass(frozen=True)
class TimeAxis:
    labels: list[str]  # texts under the axis, without the part that all of them share
    full: list[str]
    about: str  # units of the labels, and the part that all share


def clock(times: Sequence[int], width_ms: int) -> TimeAxis:
    """Format times (ms), as long as needed to distinguish them."""
    first_of_all = datetime.datetime.min.replace(tzinfo=datetime.UTC)  # a step may begin before the year 1
    moments = [utc(time) or first_of_all for time in times]
    if not moments:
        return TimeAxis([], [], "")
    first, last = moments[0], moments[-1]
    digits = 0 if width_ms % 1000 == 0 else 3 if width_ms % 10 else 2 if width_ms % 100 else 1
    parts = [f".{moment.microsecond // 1000:03d}"[: 1 + digits] if digits else "" for moment in moments]
    full = [f"{moment:%Y-%m-%d %H:%M:%S}{part}" for moment, part in zip(moments, parts, strict=True)]
    day = f"{first:%Y-%m-%d}"
    if f"{first:%F %H:%M}" == f"{last:%F %H:%M}":
        labels = [f"{moment:%S}{part}" for moment, part in zip(moments, parts, strict=True)]
        return TimeAxis(labels, full, f"seconds of {day} {first:%H:%M} (UTC)")
    seconds = width_ms < 60_000
    if f"{first:%F %H}" == f"{last:%F %H}" and seconds:
        labels = [f"{moment:%M:%S}{part}" for moment, part in zip(moments, parts, strict=True)]
        return TimeAxis(labels, full, f"minutes:seconds of {day}, {first:%H} h (UTC)")
    hours = "%H:%M:%S" if seconds else "%H:%M"
    if first.date() == last.date():
        return TimeAxis([f"{moment:{hours}}" for moment in moments], full, f"time of {day} (UTC)")
    if last - first <= datetime.timedelta(days=1):
        return TimeAxis([f"{moment:{hours}}" for moment in moments], full, f"time, from {day} {first:%H:%M} on (UTC)")
    if last - first <= datetime.timedelta(days=5):
        return TimeAxis([f"{moment:%d %b %H:%M}" for moment in moments], full, f"from {day} on (UTC)")
    return TimeAxis([f"{moment:%Y-%m-%d}" for moment in moments], full, "days (UTC)")


class _Plot:
    """The frame: axes, grid and texts. A shape is its element, its attributes, and its text."""

    def __init__(
        self,
        labels: Sequence[str],
        top: float,
        title: str,
        text: Callable[[float], str],
        frame: Frame,
        unit: float = 1,
    ) -> None:
        self.frame, self.title = frame, title
        self.count, self.ticks = max(SLOTS, len(labels)), [step * unit for step in steps(top / unit)]
        self.room = frame.width - frame.left - frame.right
        self.slot = self.room / self.count
        self.shapes: list[tuple[str, dict[str, Any], str]] = []
        for tick in self.ticks:
            y = self.y(tick)
            ends = {"x1": frame.left, "x2": frame.width - frame.right, "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
            self.add("line", {"class": "grid" if tick else "base", **ends})
            self.add("text", {"x": frame.left - 8, "y": f"{y + 4:.1f}", "text-anchor": "end"}, text(tick))
        self._label(labels)

    def _label(self, labels: Sequence[str]) -> None:
        """Write texts under the axis: as many as fit side by side, none of them cut."""
        widest = LETTER * max(map(len, labels), default=0)
        last_end = 0.0
        for i in range(0, len(labels), max(1, -int(-(widest + 14) // self.slot))):
            half = LETTER * len(labels[i]) / 2
            x = max(half, min(self.frame.left + self.slot * (i + 0.5), self.frame.width - 2 - half))
            if x - half < last_end:  # the last label, moved to the left so that it is not cut
                continue
            last_end = x + half + 4
            y = self.frame.height - self.frame.bottom + 20
            self.add("text", {"x": f"{x:.1f}", "y": y, "text-anchor": "middle"}, labels[i])

    def add(self, element: str, attributes: dict[str, Any], text: str = "") -> None:
        self.shapes.append((element, attributes, text))

    def y(self, value: float) -> float:
        height = self.frame.height - self.frame.top - self.frame.bottom
        return self.frame.top + height * (1 - value / (self.ticks[-1] or 1))

    def column(self, i: int, low: float, high: float, colour: int) -> None:
        x, width = self.frame.left + self.slot * i, max(0.6, self.slot * (0.98 if self.count > 60 else 0.86))
        box = {"x": f"{x:.1f}", "y": f"{self.y(high):.1f}", "width": f"{width:.1f}"}
        self.add("rect", {"class": f"f{colour % COLOURS}", **box, "height": f"{self.y(low) - self.y(high):.1f}"})

    def hover(self, i: int, text: str) -> None:
        x, height = self.frame.left + self.slot * i, self.frame.height - self.frame.top - self.frame.bottom
        box = {"x": f"{x:.1f}", "y": self.frame.top, "width": f"{self.slot:.1f}", "height": height}
        self.add("rect", {**box, "fill": "transparent"}, text)

    def line(self, values: Sequence[float | None], colour: int) -> None:
        """Draw a line with gaps where there is no value; a dot for a value without neighbours."""
        run: list[str] = []
        for i, value in enumerate([*values, None]):
            if value is not None:
                run.append(f"{self.frame.left + self.slot * (i + 0.5):.1f},{self.y(value):.1f}")
            elif len(run) == 1:
                x, y = run[0].split(",")
                self.add("circle", {"class": f"f{colour}", "cx": x, "cy": y, "r": 2.5})
            elif run:
                self.add("polyline", {"class": f"l{colour}", "points": " ".join(run)})
            run = run if value is not None else []

    def done(self) -> str:
        """Return the element, safe to be included in a template."""
        made = templates().get_template("plot.svg").render(frame=self.frame, title=self.title, shapes=self.shapes)
        return safe(made)


def stacked(
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    text: Callable[[float], str] = short,
    frame: Frame = WIDE,
    *,
    full: Sequence[str] | None = None,
    unit: float = 1,
) -> str:
    """Draw columns of several series, one on top of the other; the axis has multiples of `unit`.

    `full`: labels for the pointer, if those are longer.
    """
    sums = [sum(values) for values in zip(*series.values(), strict=True)]
    plot = _Plot(labels, max(sums, default=0), title, text, frame, unit)
    for i, label in enumerate(full or labels):
        low = 0.0
        for number, values in enumerate(series.values()):
            if values[i]:
                plot.column(i, low, low + values[i], number)
                low += values[i]
        texts = [f"{name}: {text(values[i])}" for name, values in series.items() if values[i]]
        plot.hover(i, "\n".join([label, *(texts if len(series) == 1 else [*texts, f"all: {text(sums[i])}"])]))
    return plot.done()


def lines(
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    text: Callable[[float], str] = short,
    frame: Frame = WIDE,
    *,
    full: Sequence[str] | None = None,
) -> str:
    """Draw lines over the same labels; None is a gap. Arguments as for `stacked`."""
    top = max((value for values in series.values() for value in values if value is not None), default=0)
    plot = _Plot(labels, top, title, text, frame)
    for number, values in enumerate(series.values()):
        plot.line(values, number)
    for i, label in enumerate(full or labels):
        texts = [f"{name}: {text(value)}" for name, values in series.items() if (value := values[i]) is not None]
        plot.hover(i, "\n".join([label, *texts]))
    return plot.done()


def document(title: str, plot: str, names: Sequence[str] = ()) -> str:
    keys, x = [], float(WIDE.left)
    for number, name in enumerate(names):
        keys.append((number % COLOURS, f"{x:.0f}", f"{x + 15:.0f}", name))
        x += 32 + 7.2 * len(name)
    return (
        templates()
        .get_template("alone.svg")
        .render(frame=WIDE, style=safe(STYLE), title=title, keys=keys, plot=safe(plot))
    )


def safe(text: str) -> str:
    """Mark text that a template made as safe for another one."""
    from markupsafe import Markup

    return Markup(text)

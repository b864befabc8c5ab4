"""Writes the page of `flintmq spark stats`: one HTML file with its plots, without scripts.

The page needs no network. Names and keys come from messages, so they are hostile: text is made visible here, and
escaped by the templates (`templates/`, jinja2), and the page's own policy forbids scripts and all external content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flintmq.cluster.member import ONLY, broker_text
from flintmq.format.text import shorten_text
from flintmq.spark.jobs.stats import svg
from flintmq.spark.jobs.stats.statistics import Statistics, count_of, ms_text, time_text

MARK = "<!doctype html>\n<!-- flintmq spark stats -->\n"
NAME_CHARS = 80
COLUMNS_AT_NARROW = 3  # on a phone, a table with more columns scrolls sideways


@dataclass(frozen=True)
class Table:
    """Rows of texts; the last `numbers` columns are numbers, with `bars` (percent) under them."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int
    bars: Sequence[str] = ()
    about: str = ""
    kind: str = "table"

    @property
    def many(self) -> bool:
        """True if it is wider than a phone."""
        return len(self.heads) > COLUMNS_AT_NARROW


@dataclass(frozen=True)
class Plot:
    """A plot in both widths, the caption of its axis, and the names of its series."""

    wide: str
    narrow: str
    axis: str = ""
    legend: Sequence[str] = ()
    kind: str = "plot"


@dataclass(frozen=True)
class Words:
    """A heading, or a sentence ("text") between other parts."""

    text: str
    kind: str = "heading"


@dataclass(frozen=True)
class Card:
    title: str
    text: str
    parts: Sequence[Table | Plot | Words] = field(default_factory=tuple)


def page(found: Statistics) -> str:
    sections = []
    if found.messages:
        sections += [_brokers(found)] if found.brokers else []
        sections += [*_over_time(found), _sizes(found), _latency(found), _topics(found), _queues(found)]
        sections += [
            _producers(found),
            _values(found, "keys", "Keys", "key"),
            _values(found, "ids", "Message ids", "id"),
        ]
    said = found.verdict
    if not found.messages:
        word = "No messages in this range."
    else:
        word = f"{count_of(len(said), 'thing')} to look at." if said else "Nothing stands out."
    state = "while it was written" if found.live else "at rest"
    where = f"log offsets {found.begin:,} to {found.end:,}"
    if found.brokers:
        where = f"the stores of {count_of(len(found.brokers), 'broker')}"
    made: str = templates_page().render(
        title=f"Statistics of {_name(found.store.rpartition('/')[2] or found.store)}",
        style=svg.safe(svg.STYLE),
        word=word,
        times=f"{time_text(found.first_time)} to {time_text(found.last_time)} UTC" if found.messages else "",
        path=_sentence(found.store),
        counted=f"Counted {time_text(found.made, 0)} UTC, {where}, {state}.",
        verdict=[_sentence(line) for line in said],
        tiles=_tiles(found),
        sections=[*sections, _lag(found)],
        foot=_foot(found),
        colours=svg.COLOURS,
    )
    return MARK + made[made.index("<html") :]


def templates_page() -> Any:
    return svg.templates().get_template("stats.html")


def _name(text: str) -> str:
    return _visible(text, NAME_CHARS)


def _sentence(text: str) -> str:
    """Make a sentence with names in it visible."""
    return _visible(text, 1000)


def _visible(text: str, limit: int) -> str:
    """Escape invisible characters of a text from a message or a file, and cut it."""
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return shorten_text(shown, limit)


def _size(count: float | None) -> str:
    if count is None:
        return "–"
    unit, name = svg.scale_of_bytes(count)
    return f"{count / unit:,.4g} {name}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _ms(value: float | None) -> str:
    return "–" if value is None else ms_text(value)


def _tiles(found: Statistics) -> list[tuple[str, str]]:
    rate, behind = found.rate, sum(lag["behind"] for lag in found.lags)

    def more(table: str) -> str:
        return " or more" if table in found.missed else ""

    return [
        (f"{found.messages:,}", f"messages, {_size(found.bytes)}"),
        (f"{_number(rate['messages_per_s'])}/s", f"mean, {_size(rate['bytes_per_s'])}/s over {_ms(rate['span_ms'])}"),
        (f"{_number(rate['peak_messages_per_s'])}/s", f"peak, at {time_text(rate['peak_time'])[11:19]} UTC"),
        (f"{found.topic_count:,}{more('queues')}", f"topics, {count_of(found.queue_count, 'queue')}{more('queues')}"),
        (f"{found.producer_count:,}{more('producers')}", "producer hosts"),
        (_ms(found.latency["p50"]), f"median latency; 99th percentile {_ms(found.latency['p99'])}"),
        (f"{behind:,}", f"messages behind, {count_of(len({lag['group'] for lag in found.lags}), 'group')}"),
    ]


def _shares(values: Sequence[float]) -> list[str]:
    top = max(values, default=0) or 1
    return [f"{100 * value / top:.1f}" for value in values]


def _drawn(draw: Callable[..., str], *words: Any, axis: str = "", legend: Sequence[str] = (), **named: Any) -> Plot:
    wide, narrow = (draw(*words, frame=frame, **named) for frame in (svg.WIDE, svg.NARROW))
    return Plot(wide, narrow, axis, legend)


def _over_time(found: Statistics) -> list[Card]:
    axis = found.over_time
    if not axis["begin"]:
        return []
    times, seconds = svg.clock(axis["begin"], axis["width_ms"]), axis["width_ms"] / 1000
    rates: Mapping[str, list[float]] = {
        _visible(name or "all others", 40): [n / seconds for n in values] for name, values in axis["messages"].items()
    }
    sizes = [n / seconds for n in axis["bytes"]]
    unit, name = svg.scale_of_bytes(max(sizes, default=0))
    beside = f" {count_of(axis['outside'], 'message')} lie beside this axis." if axis["outside"] else ""
    by_topic = _drawn(
        svg.stacked,
        "Messages a second by topic",
        times.labels,
        rates,
        axis=times.about,
        legend=list(rates),
        full=times.full,
    )
    of_log = _drawn(
        svg.stacked,
        "Bytes of log a second",
        times.labels,
        {"log": sizes},
        lambda value: f"{value / unit:.4g} {name}",
        axis=times.about,
        full=times.full,
        unit=unit,
    )
    text = f"By store time, in steps of {ms_text(axis['width_ms'])}.{beside}"
    heads = Words("Messages a second, by topic"), Words("Bytes of log a second")
    return [Card("Over time", text, (heads[0], by_topic, heads[1], of_log))]


def _sizes(found: Statistics) -> Card:
    sizes = found.sizes
    labels = [_size(low) for low, _, _ in sizes["cells"]]
    records = {"records": [count for _, _, count in sizes["cells"]]}
    names = ("least", "p50", "p90", "p99", "largest", "mean")
    table = Table(
        ["smallest", "median", "90th percentile", "99th percentile", "largest", "mean"],
        [[_size(sizes[name]) for name in names]],
        6,
        about="Sizes of records",
    )
    plot = _drawn(svg.stacked, "Records by size", labels, records, axis="size of a record, from")
    return Card("Sizes", "Of records in the log, properties and header included.", (plot, table))


def _latency(found: Statistics) -> Card:
    spread, axis = found.latency, found.over_time
    table = Table(
        ["median", "90th percentile", "99th percentile", "largest", "mean", "born after stored"],
        [[*(_ms(spread[name]) for name in ("p50", "p90", "p99", "largest", "mean")), f"{spread['ahead']:,}"]],
        6,
        about="Latency",
    )
    times = svg.clock(axis["begin"], axis["width_ms"])
    mean = {"mean": axis["latency_mean"]}
    over = _drawn(svg.lines, "Mean latency over time", times.labels, mean, ms_text, axis=times.about, full=times.full)
    cells = spread["cells"]
    labels, messages = [_ms(low) for low, _, _ in cells], {"messages": [n for _, _, n in cells]}
    plot = _drawn(svg.stacked, "Messages by latency", labels, messages, axis="latency, from")
    return Card(
        "Latency, from producer to store",
        "From the producer's clock to the broker's: network, queueing and wrong clocks are in it.",
        (table, Words("Mean over time"), over, Words("Messages by latency"), plot),
    )


def _topics(found: Statistics) -> Card:
    rows = [
        [
            _name(one["topic"]),
            f"{one['queues']:,}",
            f"{one['messages']:,}",
            _size(one["bytes"]),
            f"{one['largest_queue']:,}",
            f"{one['skew']:.3g}×",
        ]
        for one in found.topics
    ]
    more = f" The {len(found.topics)} largest of {found.topic_count:,}." if found.topic_count > len(rows) else ""
    text = f"Skew: the fullest queue against the mean of the topic's queues that hold messages.{more}"
    heads = ["topic", "queues", "messages", "bytes", "fullest queue", "skew"]
    bars = _shares([one["messages"] for one in found.topics])
    return Card("Topics and skew", text, (Table(heads, rows, 5, bars, "Topics"),))


def _brokers(found: Statistics) -> Card:
    rows = [
        [_name(one["broker"]), _sentence(one["store"]), f"{one['messages']:,}", _size(one["bytes"])]
        for one in found.brokers
    ]
    bars = _shares([one["messages"] for one in found.brokers])
    heads = ["broker", "store", "messages", "bytes"]
    return Card("Brokers", "The stores that were counted.", (Table(heads, rows, 2, bars, "Brokers"),))


def _queues(found: Statistics) -> Card:
    rows = [
        [_name(one["topic"]), _place(one), f"{one['messages']:,}", _size(one["bytes"]), f"{one['share']:.1%}"]
        for one in found.hot_queues
    ]
    bars = _shares([one["messages"] for one in found.hot_queues])
    heads = ["topic", "queue", "messages", "bytes", "of its topic"]
    text = f"Those with most messages.{_missing(found, 'queues')}"
    return Card("Hot queues", text, (Table(heads, rows, 4, bars, "Hot queues"),))


def _place(queue: Mapping[str, Any]) -> str:
    """Return the number of a queue, of several stores after its broker."""
    return f"{broker_text('{}/', queue.get('broker', ONLY), _name)}{queue['queue_id']}"


def _producers(found: Statistics) -> Card:
    rows = [
        [
            _name(one["host"]),
            f"{one['messages']:,}",
            f"{one['messages'] / found.messages:.1%}",
            _size(one["bytes"]),
            _ms(one["latency_mean"]),
            _ms(one["latency_largest"]),
        ]
        for one in found.producers
    ]
    heads = ["host", "messages", "share", "bytes", "mean latency", "largest"]
    text = f"By the host that a message was born on, without its port.{_missing(found, 'producers')}"
    bars = _shares([one["messages"] for one in found.producers])
    return Card("Producers", text, (Table(heads, rows, 5, bars, "Producers"),))


def _missing(found: Statistics, name: str) -> str:
    if name not in found.missed:
        return ""
    return f" Too many to count each: a number may be up to {found.missed[name]:,} too small."


def _values(found: Statistics, name: str, title: str, noun: str) -> Card:
    values: dict[str, Any] = getattr(found, name)
    about = "" if values["exact"] else "≈ "
    counts = [f"{values['messages']:,}", *(f"{about}{values[kind]:,}" for kind in ("distinct", "repeated", "surplus"))]
    heads = [f"messages with {noun}", f"different {noun}s", "of them repeated", "messages beyond the first"]
    parts: list[Table | Words] = [Table(heads, [counts], 4, about=title)]
    sure = "Exact." if values["exact"] else f"An even sample by hash; standard error of the last {values['error']:,}."
    rows = [[_name(one["topic"]), _name(one["value"]), f"{one['messages']:,}"] for one in values["top"]]
    if rows:
        bars = _shares([one["messages"] for one in values["top"]])
        often = f"Those that come most often.{_missing(found, name)}"
        parts += [Words(often, "text"), Table(["topic", noun, "messages"], rows, 1, bars, f"{title} that come often")]
    return Card(title, f"Within a topic. {sure}", parts)


def _lag(found: Statistics) -> Card:
    if not found.lags:
        return Card("Consumer lag", "No consumer offsets can be read (config/consumerOffset.json).")
    rows = [
        [
            _name(lag["group"]),
            _name(lag["topic"]),
            str(lag["queues"]),
            f"{lag['behind']:,}",
            f"{lag['largest']:,}",
            f"{lag['expired']:,}",
            time_text(lag["waiting_since"], 0) if lag["waiting_since"] is not None else "–",
        ]
        for lag in found.lags
    ]
    heads = ["group", "topic", "queues", "behind", "worst queue", "expired", "oldest waiting (UTC)"]
    text = "Committed offsets of each group against the ends of the queues. Expired: deleted before they were consumed."
    bars = _shares([lag["behind"] for lag in found.lags])
    return Card("Consumer lag", text, (Table(heads, rows, 5, bars, "Consumer lag"),))


def _foot(found: Statistics) -> str:
    kinds = ", ".join(f"{_sentence(code)} {count}" for code, count in sorted(found.notes.items()))
    notes = f" Notes on the log: {kinds}." if kinds else ""
    return (
        "A record is a message here; an inner batch is one. Half of all are at most the median, 99 of 100 at most the "
        "99th percentile; both are at most 1/32 too large. Sizes are in powers of 1024 (1 MiB = 1024 KiB). Counts "
        f"are exact where nothing else is said.{notes} Made by flintmq spark stats."
    )

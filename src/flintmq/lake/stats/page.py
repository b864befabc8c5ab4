"""Writes the page of `flintmq stats`: one HTML file with its plots, without scripts.

The page needs no network. Names and keys come from messages, so they are hostile: text is made visible here, and
escaped by the templates (`templates/`, jinja2), and the page's own policy forbids scripts and all external content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flintmq.cluster.member import ONLY, broker_text
from flintmq.format.text import shorten_text
from flintmq.lake.stats import svg
from flintmq.lake.stats.commands import Commands
from flintmq.lake.stats.statistics import Statistics, count_of, ms_text, time_text

MARK = "<!doctype html>\n<!-- flintmq stats -->\n"
MARKS = (MARK, "<!doctype html>\n<!-- flintmq spark stats -->\n")  # the second one by versions up to 0.2
NAME_CHARS = 80
ROWS_A_SHEET = 40
COPY = "Open a name for the command that shows it."
COLUMNS_AT_NARROW = 3  # on a phone, a table with more columns scrolls sideways


@dataclass(frozen=True)
class Table:
    """Rows of texts; the last `numbers` columns are numbers, with `bars` (percent) under them.

    `commands`: of each row the command that shows it, under its first text; "" for none. `folded`: the words under
    which the table is folded away.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int
    bars: Sequence[str] = ()
    about: str = ""
    commands: Sequence[str] = ()
    folded: str = ""
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

    @property
    def long(self) -> bool:
        """True if it may be higher than a sheet of paper.

        It is then printed on several, with a whole frame on each.
        """
        return any(len(part.rows) > ROWS_A_SHEET for part in self.parts if isinstance(part, Table) and not part.folded)


def page(found: Statistics, stores: Sequence[str] = ()) -> str:
    """Return the page. `stores`: as the user named them, for commands."""
    asked = found.asked
    shown = Commands(stores or [found.store], asked["topics"] or (), asked["since"], asked["until"])
    sections = [_compared(found.compared)] if found.compared else []
    if found.messages:
        sections += [_brokers(found)] if found.brokers else []
        sections += [*_over_time(found, shown), _sizes(found), _latency(found), _topics(found, shown)]
        sections += [
            _queues(found, shown),
            _producers(found),
            _values(found, "keys", "Keys", "key", shown),
            _values(found, "ids", "Message ids", "id", shown),
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
        counted=f"Counted {time_text(found.made, 0)} UTC, {where}, {state}.{_asked(found)}",
        verdict=[_sentence(line) for line in said],
        tiles=_tiles(found),
        sections=[*sections, _lag(found, shown)],
        foot=_foot(found),
        colours=svg.COLOURS,
    )
    return MARK + made[made.index("<html") :]


def _asked(found: Statistics) -> str:
    """Say which messages were asked for, unless all were."""
    topics, since, until = (found.asked[name] for name in ("topics", "since", "until"))
    only = [f"of {count_of(len(topics), 'topic')}: {', '.join(topics)}"] if topics is not None else []
    only += [f"stored since {time_text(since)} UTC"] if since is not None else []
    only += [f"stored before {time_text(until)} UTC"] if until is not None else []
    return _sentence(f" Only messages {', '.join(only)}.") if only else ""


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
    rate = found.rate

    peak = f"peak, at {time_text(at)[11:19]} UTC" if (at := rate["peak_time"]) is not None else "peak, of a second"

    def more(table: str) -> str:
        return " or more" if table in found.missed else ""

    return [
        (f"{found.messages:,}", f"messages, {_size(found.bytes)}"),
        (f"{_number(rate['messages_per_s'])}/s", f"mean, {_size(rate['bytes_per_s'])}/s over {_ms(rate['span_ms'])}"),
        (f"{_number(rate['peak_messages_per_s'])}/s", peak),
        (f"{found.topic_count:,}{more('queues')}", f"topics, {count_of(found.queue_count, 'queue')}{more('queues')}"),
        (f"{found.producer_count:,}{more('producers')}", "producer hosts"),
        (_ms(found.latency["p50"]), f"median latency; 99th percentile {_ms(found.latency['p99'])}"),
        (f"{found.behind:,}", f"messages behind, {count_of(found.group_count, 'group')}"),
    ]


def _shares(values: Sequence[float]) -> list[str]:
    top = max(values, default=0) or 1
    return [f"{100 * value / top:.1f}" for value in values]


def _drawn(draw: Callable[..., str], *words: Any, axis: str = "", legend: Sequence[str] = (), **named: Any) -> Plot:
    wide, narrow = (draw(*words, frame=frame, **named) for frame in (svg.WIDE, svg.NARROW))
    return Plot(wide, narrow, axis, legend)


def _compared(earlier: Mapping[str, Any]) -> Card:
    """Make the card of what changed since an earlier count."""
    rows = [
        [FIGURES[one["figure"]][0], *_change(one, FIGURES[one["figure"]][1])]
        for one in earlier["figures"]
        if one["before"] is not None or one["now"] is not None
    ]
    heads = ["before", "now", "change"]
    parts: list[Table | Words] = [
        Words(_sentence(f"{note[0].upper()}{note[1:]}."), "text") for note in earlier["notes"]
    ]
    parts.append(Table(["figure", *heads], rows, 3, about="Figures of both counts"))
    for kind, names, number in (("topics", ["topic"], "messages"), ("groups", ["group", "topic"], "messages behind")):
        if earlier[kind]:
            count = earlier[f"{kind}_changed"]
            cut = f", the {len(earlier[kind])} largest changes of {count:,}" if count > len(earlier[kind]) else ""
            lines = [[*(_name(one[name]) for name in names), *_change(one, _number)] for one in earlier[kind]]
            title = f"{kind.capitalize()} with other {number}{cut}"
            parts += [Words(title), Table([*names, *heads], lines, 3, about=title)]
        else:
            parts.append(Words(f"The {number} of the {kind} did not change.", "text"))
    text = f"Since the count of {time_text(int(earlier['made']), 0)} UTC, {_sentence(earlier['path'])}."
    return Card("What changed", text, parts)


def _change(one: Mapping[str, Any], text: Callable[[float | None], str]) -> list[str]:
    before, now = one["before"], one["now"]
    if before is None or now is None:
        return [text(before), text(now), "gone" if now is None else "new"]
    share = f" ({(now - before) / before:+.1%})" if before and now != before else ""
    sign = "+" if now > before else "−" if now < before else ""
    return [text(before), text(now), f"{sign}{text(abs(now - before))}{share}" if sign else "the same"]


def _over_time(found: Statistics, shown: Commands) -> list[Card]:
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
    return [Card("Over time", text, (heads[0], by_topic, heads[1], of_log, _steps(found, shown)))]


def _steps(found: Statistics, shown: Commands) -> Table:
    """Make the table of the steps of time, each with the command that shows its messages."""
    axis = found.over_time
    totals = [sum(values) for values in zip(*axis["messages"].values(), strict=True)]
    used = [i for i, messages in enumerate(totals) if messages]
    begins, ends = ([axis["begin"][i] + more for i in used] for more in (0, axis["width_ms"]))
    asked = shown.since, shown.until
    commands = [
        shown.scan(
            since=begin if asked[0] is None else max(begin, asked[0]),
            until=end if asked[1] is None else min(end, asked[1]),
        )
        for begin, end in zip(begins, ends, strict=True)
    ]
    rows = [
        [time_text(begin), f"{totals[i]:,}", _size(axis["bytes"][i])] for begin, i in zip(begins, used, strict=True)
    ]
    return Table(
        ["from (UTC)", "messages", "bytes"], rows, 2, about="Steps of time", commands=commands,
        folded=f"Each step, with the command that shows its messages ({len(rows)})",
    )  # fmt: skip


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


def _topics(found: Statistics, shown: Commands) -> Card:
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
    some = " There are too many queues to count each: those of a topic may be more." if "queues" in found.missed else ""
    text = (
        "Skew: the fullest queue against the mean of the topic's queues that hold messages."
        f"{more}{some}{_missing(found, 'topics')} {COPY}"
    )
    heads = ["topic", "queues", "messages", "bytes", "fullest queue", "skew"]
    bars = _shares([one["messages"] for one in found.topics])
    commands = [shown.scan(one["topic"]) for one in found.topics]
    return Card("Topics and skew", text, (Table(heads, rows, 5, bars, "Topics", commands),))


FIGURES: Mapping[str, tuple[str, Callable[[float | None], str]]] = {
    "messages": ("messages", _number),
    "bytes": ("bytes", _size),
    "messages_per_s": ("messages a second, mean", _number),
    "peak_messages_per_s": ("messages a second, peak", _number),
    "topics": ("topics", _number),
    "queues": ("queues", _number),
    "producers": ("producer hosts", _number),
    "behind": ("messages behind", _number),
    "size_p50": ("size of a record, median", _size),
    "size_p99": ("size of a record, 99th percentile", _size),
    "latency_p50": ("latency, median", _ms),
    "latency_p99": ("latency, 99th percentile", _ms),
    "distinct_keys": ("different keys", _number),
    "repeated_ids": ("messages beyond the first of their id", _number),
    "damages": ("damaged places", _number),
}
"""Figure of a comparison -> its words, and how its numbers are written."""


def _brokers(found: Statistics) -> Card:
    rows = [
        [_name(one["broker"]), _sentence(one["store"]), f"{one['messages']:,}", _size(one["bytes"])]
        for one in found.brokers
    ]
    bars = _shares([one["messages"] for one in found.brokers])
    heads = ["broker", "store", "messages", "bytes"]
    return Card("Brokers", "The stores that were counted.", (Table(heads, rows, 2, bars, "Brokers"),))


def _queues(found: Statistics, shown: Commands) -> Card:
    rows = [
        [_name(one["topic"]), _place(one), f"{one['messages']:,}", _size(one["bytes"]), f"{one['share']:.1%}"]
        for one in found.hot_queues
    ]
    bars = _shares([one["messages"] for one in found.hot_queues])
    heads = ["topic", "queue", "messages", "bytes", "of its topic"]
    text = f"Those with most messages.{_missing(found, 'queues')} {COPY}"
    stores = {one["broker"]: [one["store"]] for one in found.brokers}  # a queue is one of a broker
    commands = [
        replace(shown, stores=stores.get(one.get("broker"), shown.stores)).scan(one["topic"], queue=one["queue_id"])
        for one in found.hot_queues
    ]
    return Card("Hot queues", text, (Table(heads, rows, 4, bars, "Hot queues", commands),))


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


def _values(found: Statistics, name: str, title: str, noun: str, shown: Commands) -> Card:
    values: dict[str, Any] = getattr(found, name)
    kinds = (("distinct", "distinct_error"), ("repeated", "repeated_error"), ("surplus", "error"))
    counts = [f"{values['messages']:,}"]
    counts += [
        f"{values[kind]:,}" if values["exact"] else f"≈ {values[kind]:,} ± {values[error]:,}" for kind, error in kinds
    ]
    heads = [f"messages with {noun}", f"different {noun}s", "of them repeated", "messages beyond the first"]
    parts: list[Table | Words] = [Table(heads, [counts], 4, about=title)]
    sure = "Exact." if values["exact"] else "≈: estimates from an even sample by hash; after ± their standard errors."
    rows = [[_name(one["value"]), _name(one["topic"]), f"{one['messages']:,}"] for one in values["top"]]
    if rows:
        bars = _shares([one["messages"] for one in values["top"]])
        often = f"Those that come most often.{_missing(found, name)}"
        commands = [shown.scan(one["topic"], key=one["value"]) for one in values["top"]]
        table = Table([noun, "topic", "messages"], rows, 1, bars, f"{title} that come often", commands)
        parts += [Words(f"{often} {COPY}", "text"), table]
    return Card(title, f"Within a topic. {sure}", parts)


def _lag(found: Statistics, shown: Commands) -> Card:
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
    more = f" The {len(rows)} largest of {found.lag_count:,}." if found.lag_count > len(rows) else ""
    heads = ["group", "topic", "queues", "behind", "worst queue", "expired", "oldest waiting (UTC)"]
    text = (
        "Committed offsets of each group against the ends of the queues. Expired: deleted before they were consumed."
        f"{more} {COPY}"
    )
    bars = _shares([lag["behind"] for lag in found.lags])
    plain = replace(shown, since=None, until=None)  # lag knows no times
    commands = [
        plain.scan(lag["topic"], since=lag["waiting_since"]) if lag["waiting_since"] is not None else plain.inspect()
        for lag in found.lags
    ]
    return Card("Consumer lag", text, (Table(heads, rows, 5, bars, "Consumer lag", commands),))


def _foot(found: Statistics) -> str:
    kinds = ", ".join(f"{_sentence(code)} {count}" for code, count in sorted(found.notes.items()))
    notes = f" Notes on the log: {kinds}." if kinds else ""
    return (
        "A record is a message here; an inner batch is one. Half of all are at most the median, 99 of 100 at most the "
        "99th percentile; both are at most 1/32 too large. Sizes are in powers of 1024 (1 MiB = 1024 KiB). Counts "
        f"are exact where nothing else is said.{notes} Made by flintmq stats, version {found.version}."
    )

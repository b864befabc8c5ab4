"""The page of `flintmq spark stats`: one HTML file with its plots in it, that needs no network and runs no script.

Names and keys come from messages, so they are hostile: whatever is text is made visible (`printable`) and escaped
(`html.escape`), here and in `svg.py`, and the page forbids scripts and everything from outside by its own policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from flintmq.spark.jobs import svg
from flintmq.spark.jobs.figures import Statistics, count_of, ms_text, time_text

MARK = "<!doctype html>\n<!-- flintmq spark stats -->\n"
NAME_CHARS = 80

STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0;letter-spacing:-.01em}h2{font-size:18px;margin:0 0 4px}
p{margin:4px 0}.soft,.legend{color:var(--soft)}
.path{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:13px;overflow-wrap:anywhere}
section,.verdict{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin:16px 0}
.verdict{border-left:6px solid var(--good)}.verdict.look{border-left-color:var(--warn)}.verdict b{font-size:17px}
.verdict ul{margin:8px 0 0;padding-left:20px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:12px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 16px}
.tile b{display:block;font-size:24px;line-height:1.25;letter-spacing:-.01em}.tile span{color:var(--soft);font-size:13px}
.legend span{margin-right:16px;white-space:nowrap;font-size:13px}
.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
svg{width:100%;height:auto;display:block}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px;margin-top:8px}
th{color:var(--soft);font-weight:500;text-align:left;padding:4px 10px;border-bottom:1px solid var(--line)}
td{padding:4px 10px;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{min-width:110px;width:22%}.bar i{display:block;height:10px;border-radius:3px;background:var(--c0);min-width:1px}
h3{font-size:15px;margin:14px 0 0;font-weight:600}
footer{color:var(--soft);font-size:13px}
"""


def page(found: Statistics) -> str:
    """The whole page."""
    title = f"Statistics of {_name(found.store.rpartition('/')[2] or found.store)}"
    parts = [_head(title), _verdict(found), _tiles(found)]
    if found.messages:
        parts += [_over_time(found), _sizes(found), _latency(found), _topics(found), _queues(found), _producers(found)]
        parts += [_values(found, "keys", "Keys", "key"), _values(found, "ids", "Message ids", "id")]
    parts += [_lag(found), _foot(found), "</main></body></html>\n"]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'{MARK}<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{title}</title>'
        f"<style>{svg.STYLE}{STYLE}</style></head><body><main>" + "\n".join(parts)
    )


def _name(text: str) -> str:
    """A name or key, for the page: cut and escaped."""
    return escape(_visible(text, NAME_CHARS))


def _visible(text: str, limit: int) -> str:
    """Text from a message or a file: what is not visible is written as its code, and what is too long is cut."""
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _size(count: float | None) -> str:
    """Bytes as people say them."""
    if count is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:,.4g} TiB"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _ms(value: float | None) -> str:
    return "–" if value is None else ms_text(value)


def _head(title: str) -> str:
    return f"<header><h1>{title}</h1></header>"


def _verdict(found: Statistics) -> str:
    said = found.verdict
    if not found.messages:
        word = "No messages in this range."
    elif said:
        word = f"{count_of(len(said), 'thing')} to look at."
    else:
        word = "Nothing stands out."
    times = f"{time_text(found.first_time)} to {time_text(found.last_time)} UTC"
    state = "while it was written" if found.live else "at rest"
    items = "".join(f"<li>{_sentence(line)}</li>" for line in said)
    return (
        f'<div class="verdict{" look" if said else ""}"><b>{word}</b>'
        f'<p class="soft">{times if found.messages else ""}</p>'
        f'<p class="path">{_sentence(found.store)}</p>'
        f'<p class="soft">Counted {time_text(found.made, 0)} UTC, log offsets {found.begin:,} to {found.end:,}, '
        f"{state}.</p>"
        f"{f'<ul>{items}</ul>' if items else ''}</div>"
    )


def _sentence(text: str) -> str:
    """A sentence with names in it."""
    return escape(_visible(text, 1000))


def _tiles(found: Statistics) -> str:
    rate, behind = found.rate, sum(lag["behind"] for lag in found.lags)

    def more(table: str) -> str:
        return " or more" if table in found.missed else ""

    tiles = [
        (f"{found.messages:,}", f"messages, {_size(found.bytes)}"),
        (f"{_number(rate['messages_per_s'])}/s", f"mean, {_size(rate['bytes_per_s'])}/s over {_ms(rate['span_ms'])}"),
        (f"{_number(rate['peak_messages_per_s'])}/s", f"peak, at {time_text(rate['peak_time'])[11:19]} UTC"),
        (f"{found.topic_count:,}{more('queues')}", f"topics, {count_of(found.queue_count, 'queue')}{more('queues')}"),
        (f"{found.producer_count:,}{more('producers')}", "producer hosts"),
        (_ms(found.latency["p50"]), f"born to stored, half; 99 %: {_ms(found.latency['p99'])}"),
        (f"{behind:,}", f"messages behind, {count_of(len({lag['group'] for lag in found.lags}), 'group')}"),
    ]
    boxes = "".join(f'<div class="tile"><b>{big}</b><span>{small}</span></div>' for big, small in tiles)
    return f'<div class="tiles">{boxes}</div>'


def _section(title: str, text: str, *parts: str) -> str:
    return f'<section><h2>{title}</h2><p class="soft">{text}</p>{"".join(parts)}</section>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int, bars: Sequence[float] = ()) -> str:
    """A table; the last `numbers` columns are numbers, and `bars` (0 to 1) are drawn behind them."""
    first = len(heads) - numbers
    cells = [f"<th{' class=n' if i >= first else ''}>{head}</th>" for i, head in enumerate(heads)]
    body = []
    for row_number, row in enumerate(rows):
        line = "".join(f"<td{' class=n' if i >= first else ''}>{cell}</td>" for i, cell in enumerate(row))
        bar = f'<td class="bar"><i style="width:{100 * bars[row_number]:.1f}%"></i></td>' if bars else ""
        body.append(f"<tr>{line}{bar}</tr>")
    return (
        f'<div class="wide"><table><thead><tr>{"".join(cells)}{"<th></th>" if bars else ""}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _shares(values: Sequence[float]) -> list[float]:
    top = max(values, default=0) or 1
    return [value / top for value in values]


def _over_time(found: Statistics) -> str:
    axis = found.over_time
    if not axis["begin"]:
        return ""
    labels, seconds = svg.clock(axis["begin"], axis["width_ms"]), axis["width_ms"] / 1000
    rates = {
        _visible(name or "all others", 40): [n / seconds for n in values] for name, values in axis["messages"].items()
    }
    sizes = {"log": [n / seconds for n in axis["bytes"]]}
    beside = f" {count_of(axis['outside'], 'message')} lie beside this axis." if axis["outside"] else ""
    return _section(
        "Over time",
        f"By store time, UTC, in steps of {ms_text(axis['width_ms'])}.{beside}",
        "<h3>Messages a second, by topic</h3>",
        svg.stacked("Messages a second by topic", labels, rates),
        svg.legend(list(rates)),
        "<h3>Bytes of log a second</h3>",
        svg.stacked("Bytes of log a second", labels, sizes, lambda value: f"{svg.short(value)}B"),
    )


def _sizes(found: Statistics) -> str:
    sizes = found.sizes
    labels = [_size(low) for low, _, _ in sizes["cells"]]
    plot = svg.stacked("Records by size", labels, {"records": [count for _, _, count in sizes["cells"]]})
    table = _table(
        ["least", "half", "90 %", "99 %", "largest", "mean"],
        [[_size(sizes[name]) for name in ("least", "p50", "p90", "p99", "largest", "mean")]],
        6,
    )
    return _section("Sizes", "Of records in the log, properties and header included.", plot, table)


def _latency(found: Statistics) -> str:
    spread, axis = found.latency, found.over_time
    table = _table(
        ["half", "90 %", "99 %", "largest", "mean", "born after stored"],
        [[*(_ms(spread[name]) for name in ("p50", "p90", "p99", "largest", "mean")), f"{spread['ahead']:,}"]],
        6,
    )
    labels = svg.clock(axis["begin"], axis["width_ms"]) if axis["begin"] else []
    over = svg.lines("Mean latency over time", labels, {"mean": axis["latency_mean"]}, ms_text)
    cells = spread["cells"]
    plot = svg.stacked("Messages by latency", [_ms(low) for low, _, _ in cells], {"messages": [n for _, _, n in cells]})
    return _section(
        "Latency, born to stored",
        "From the producer's clock to the broker's: network, queueing and wrong clocks are in it.",
        table,
        "<h3>Mean over time</h3>",
        over,
        "<h3>Messages by latency</h3>",
        plot,
    )


def _topics(found: Statistics) -> str:
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
    return _section(
        "Topics and skew",
        f"Skew: the fullest queue against the mean of the topic's queues that hold messages.{more}",
        _table(
            ["topic", "queues", "messages", "bytes", "fullest queue", "skew"],
            rows,
            5,
            _shares([one["messages"] for one in found.topics]),
        ),
    )


def _queues(found: Statistics) -> str:
    rows = [
        [_name(one["topic"]), str(one["queue_id"]), f"{one['messages']:,}", _size(one["bytes"]), f"{one['share']:.1%}"]
        for one in found.hot_queues
    ]
    bars = _shares([one["messages"] for one in found.hot_queues])
    heads = ["topic", "queue", "messages", "bytes", "of its topic"]
    return _section("Hot queues", f"Those with most messages.{_missing(found, 'queues')}", _table(heads, rows, 3, bars))


def _producers(found: Statistics) -> str:
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
    heads = ["host", "messages", "share", "bytes", "latency, mean", "largest"]
    text = f"By born host, without its port.{_missing(found, 'producers')}"
    return _section("Producers", text, _table(heads, rows, 5, _shares([one["messages"] for one in found.producers])))


def _missing(found: Statistics, name: str) -> str:
    """What to say of a table that had too many names."""
    if name not in found.missed:
        return ""
    return f" Too many to count each: a number may be up to {found.missed[name]:,} too small."


def _values(found: Statistics, name: str, title: str, noun: str) -> str:
    values: dict[str, Any] = getattr(found, name)
    about = "" if values["exact"] else "≈ "
    table = _table(
        [f"messages with {noun}", f"different {noun}s", "of them repeated", "messages beyond the first"],
        [[f"{values['messages']:,}", *(f"{about}{values[kind]:,}" for kind in ("distinct", "repeated", "surplus"))]],
        4,
    )
    sure = "Exact." if values["exact"] else f"An even sample by hash; standard error of the last {values['error']:,}."
    rows = [[_name(one["topic"]), _name(one["value"]), f"{one['messages']:,}"] for one in values["top"]]
    top = (
        _table(["topic", noun, "messages"], rows, 1, _shares([one["messages"] for one in values["top"]]))
        if rows
        else ""
    )
    often = f'<p class="soft">Those that come most often.{_missing(found, name)}</p>' if rows else ""
    return _section(title, f"Within a topic. {sure}", table, often, top)


def _lag(found: Statistics) -> str:
    if not found.lags:
        return _section("Consumer lag", "The store has no consumer offsets (config/consumerOffset.json).")
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
    text = "Committed offsets of each group against the ends of the queues. Expired: gone before they were consumed."
    return _section("Consumer lag", text, _table(heads, rows, 5, _shares([lag["behind"] for lag in found.lags])))


def _foot(found: Statistics) -> str:
    kinds = ", ".join(f"{escape(code)} {count}" for code, count in sorted(found.notes.items()))
    notes = f" Notes on the log: {kinds}." if kinds else ""
    return (
        "<footer><p>A record is a message here; an inner batch is one. Quantiles are at most 1/32 too large. "
        f"Counts are exact where nothing else is said.{notes} Made by flintmq spark stats.</p></footer>"
    )

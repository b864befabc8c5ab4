"""Makes statistics from a tally, and a verdict that names what is unusual."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from flintmq.cluster.member import broker_words
from flintmq.config.text import DAY_MS
from flintmq.format.group_topics import DEAD
from flintmq.format.text import utc
from flintmq.lake.stats.accumulate import SEPARATOR, Tally, Values, queue_of
from flintmq.lake.stats.lag import Lag
from flintmq.lake.stats.sketches import STEPS, WIDTHS, Histogram, Series, cell_begin
from flintmq.version import OURS

SHOWN = 20  # rows of a table of queues, producers, keys; topics and lags get MANY
MANY = 200
QUARTER, DRAWN = STEPS // 4, 24  # histogram cells per column of a plot, and most columns
BUCKETS = 120  # at most, on the axis of time
NAMED = 7  # topics with a separate colour
OUTLIERS = 0.001  # share of the messages that may be outside the axis, if it becomes TIMES shorter
TIMES = 10

SKEWED, SKEW_MESSAGES = 2.0, 1000  # a queue with this multiple of its topic's mean is named in the verdict
SLOW_MS = 1000
BEHIND_MESSAGES, BEHIND_MS = 1000, 60_000


@dataclass
class Statistics:
    """The content of the page and of `--json`.

    Attributes:
        store: path. live: whether a process writes it.
        verdict: sentences on unusual findings; empty if there are none.
        sizes, latency: of records in bytes, and from born to stored in ms: `count`, `mean`, `least`, `p50`, `p90`,
            `p99` (too large by at most the part `quantile_error` of them), `largest`, `cells` (least value, value to
            stop before, number); latency also `ahead` (born later than stored) and `undated`.
        over_time: `width_ms`, `begin` of each bucket, `messages` by topic ("": all others), `bytes`, `latency_mean`,
            `latency_largest`; `outside`: messages outside this axis of time.
        topics, hot_queues, producers, lags: tables, the largest first. `topic_count`, `queue_count`,
            `producer_count`: their numbers, or least numbers if the table is in `missed`.
        keys, ids: values within their topic: `messages` that have some, `distinct`, those `repeated`, the `surplus`
            beyond the first of each, `exact` or with standard errors (`distinct_error`, `repeated_error`, of the
            surplus `error`), the `top` ones.
        brokers: of several stores, `broker`, `store`, `live`, `begin`, `end` (log offsets), `messages` and `bytes` of
            each; begin and end are 0 then.
        asked: `topics` (None: all), `since`, `until` (ms) that were asked for.
        compared: what changed since an earlier count (`compare.py`); None if none was given.
    """

    messages: int  # messages, bytes: records (an inner batch is one), and their bytes in the log
    bytes: int
    first_time: int | None  # first_time, last_time: least and largest store time, ms; None without messages
    last_time: int | None
    rate: dict[str, Any]  # messages and bytes a second, mean and in the fullest bucket of time
    sizes: dict[str, Any]
    latency: dict[str, Any]
    over_time: dict[str, Any]
    topics: list[dict[str, Any]]
    hot_queues: list[dict[str, Any]]
    producers: list[dict[str, Any]]
    keys: dict[str, Any]
    ids: dict[str, Any]
    lags: list[dict[str, Any]]
    topic_count: int
    queue_count: int
    producer_count: int
    lag_count: int  # lag_count, group_count, and the next one: also of rows that the table leaves out
    group_count: int
    behind: int
    missed: dict[str, int]  # table -> how much a count in it may be too small; empty if all are exact
    store: str = ""
    live: bool = False
    made: int = field(default_factory=lambda: time.time_ns() // 1_000_000)  # when this was counted, ms since 1970
    begin: int = 0  # begin, end: log offsets that were counted
    end: int = 0
    damages: int = 0  # damages, lost_bytes, notes: the damage that was skipped
    lost_bytes: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    note_texts: dict[str, list[str]] = field(default_factory=dict)  # code -> the first sentences of these notes
    brokers: list[dict[str, Any]] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=lambda: {"topics": None, "since": None, "until": None})
    version: str = OURS  # of FlintMQ, which counted
    compared: dict[str, Any] | None = None

    @property
    def verdict(self) -> list[str]:
        """One sentence for each unusual finding, the most serious first."""
        return [*_losses(self), *_late(self), *_uneven(self), *_odd(self)]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def statistics(tally: Tally, lags: list[Lag]) -> Statistics:
    axis = _over_time(tally.series)
    topics, hot = _topics(tally)
    producers = [
        {
            "host": host,
            "messages": messages,
            "bytes": size,
            "latency_mean": round(total / known, 1) if known else None,
            "latency_largest": worst if known else None,
        }
        for host in tally.hosts.ordered()[:SHOWN]
        for messages, size, total, known, worst in [tally.hosts.rows[host]]
    ]
    missed = {
        "topics": tally.topics.missed,
        "queues": tally.queues.missed,
        "producers": tally.hosts.missed,
        "keys": tally.keys.top.missed,
        "ids": tally.ids.top.missed,
    }
    odd = [lag for lag in lags[MANY:] if lag.expired or lag.beyond]  # small, but the verdict names them
    return Statistics(
        messages=tally.messages,
        bytes=tally.bytes,
        first_time=tally.first,
        last_time=tally.last,
        rate=_rate(tally, axis),
        sizes=_spread(tally.sizes),
        latency=_spread(tally.latency) | {"ahead": tally.ahead, "undated": tally.undated},
        over_time=axis,
        topics=topics[:MANY],
        hot_queues=hot,
        producers=producers,
        keys=_values(tally.keys),
        ids=_values(tally.ids),
        lags=[asdict(lag) for lag in [*lags[:MANY], *odd[:SHOWN]]],
        topic_count=len(topics),
        queue_count=len(tally.queues.rows),
        producer_count=len(tally.hosts.rows),
        lag_count=len(lags),
        group_count=len({lag.group for lag in lags}),
        behind=sum(lag.behind for lag in lags),
        missed={name: count for name, count in missed.items() if count},
    )


def _spread(histogram: Histogram) -> dict[str, Any]:
    """Return quantiles, and cells to draw: a quarter of a power of two each.

    If there would be too many cells, each is a power of two.
    """
    fine: dict[int, int] = defaultdict(int)
    coarse: dict[int, int] = defaultdict(int)
    for cell, count in histogram.cells.items():
        fine[cell // QUARTER] += count
        coarse[cell_begin(cell).bit_length()] += count
    if fine and max(fine) - min(fine) < DRAWN:
        at = range(min(fine), max(fine) + 1)
        cells = [[cell_begin(QUARTER * i), cell_begin(QUARTER * (i + 1)), fine[i]] for i in at]
    else:
        at = range(min(coarse), max(coarse) + 1) if coarse else range(0)
        cells = [[1 << bits >> 1, 1 << bits, coarse[bits]] for bits in at]
    return histogram.answer() | {"cells": cells}


def _values(values: Values) -> dict[str, Any]:
    again = [name for name in values.top.ordered() if values.top.rows[name][0] > 1][:SHOWN]
    pairs = [(*name.rpartition(SEPARATOR)[::2], values.top.rows[name][0]) for name in again]
    top = [{"topic": topic, "value": value, "messages": count} for topic, value, count in pairs]
    return {**values.answer(), "top": top}


def _topics(tally: Tally) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    queues: dict[str, list[int]] = defaultdict(list)
    for name, row in tally.queues.rows.items():
        queues[queue_of(name)[0]].append(row[0])
    topics: list[dict[str, Any]] = []
    for topic in tally.topics.ordered():
        messages, size, latency = tally.topics.rows[topic]
        largest = max(queues[topic], default=0)  # none: its queues are among those that were too many
        topics.append(
            {
                "topic": topic,
                "queues": len(queues[topic]),
                "messages": messages,
                "bytes": size,
                "largest_queue": largest,
                "skew": round(largest * len(queues[topic]) / messages, 3),
                "latency_largest": latency if latency >= 0 else None,
            }
        )
    hot = []
    for name in tally.queues.ordered()[:SHOWN]:
        topic, queue, broker = queue_of(name)
        messages, size, last, _ = tally.queues.rows[name]
        hot.append(
            {
                "topic": topic,
                "queue_id": queue,
                "messages": messages,
                "bytes": size,
                "share": round(messages / tally.topics.rows.get(topic, [messages])[0], 4),
                "last_offset": last,
                **broker_words(broker),
            }
        )
    return topics, hot


def _over_time(series: Series) -> dict[str, Any]:
    """Convert the cells to lists over one axis of time."""
    if not series.cells:
        empty: list[Any] = []
        return {
            "width_ms": 0, "begin": empty, "messages": {}, "bytes": empty,
            "latency_mean": empty, "latency_largest": empty, "outside": 0,
        }  # fmt: skip
    low, high = _axis(series)
    first, last = low * series.width, (high + 1) * series.width - 1
    width = next((w for w in WIDTHS if w >= series.width and last // w - first // w < BUCKETS), WIDTHS[-1])
    origin, count = first // width, last // width - first // width + 1
    by_topic: dict[str, list[int]] = defaultdict(lambda: [0] * count)
    size, latency, known, worst = ([0] * count for _ in range(4))
    outside = 0
    for (bucket, topic), row in series.cells.items():
        if not low <= bucket <= high:
            outside += row[0]
            continue
        at = bucket * series.width // width - origin
        by_topic[topic][at] += row[0]
        size[at] += row[1]
        latency[at] += row[2]
        known[at] += row[3]
        worst[at] = max(worst[at], row[4])
    ordered = sorted((name for name in by_topic if name), key=lambda name: (-sum(by_topic[name]), name))
    for name in ordered[NAMED:]:
        by_topic[""] = [one + more for one, more in zip(by_topic[""], by_topic[name], strict=True)]
    shown = [*ordered[:NAMED], *([""] if "" in by_topic else [])]
    return {
        "width_ms": width,
        "begin": [(origin + i) * width for i in range(count)],
        "messages": {name: by_topic[name] for name in shown},
        "bytes": size,
        "latency_mean": [round(total / n, 1) if n else None for total, n in zip(latency, known, strict=True)],
        "latency_largest": [value if n else None for value, n in zip(worst, known, strict=True)],
        "outside": outside,
    }


def _axis(series: Series) -> tuple[int, int]:
    """Return the first and last bucket to draw: all, unless a few outliers would dwarf the rest."""
    counts: dict[int, int] = defaultdict(int)
    for (bucket, _), row in series.cells.items():
        counts[bucket] += row[0]
    buckets = sorted(counts)
    spare = sum(counts.values()) * OUTLIERS / 2
    ends = []
    for order in (buckets, buckets[::-1]):
        seen = 0
        for bucket in order:
            seen += counts[bucket]
            if seen > spare:
                ends.append(bucket)
                break
    first, last = ends
    span = last - first + 1
    near = [bucket for bucket in buckets if first - span <= bucket <= last + span]
    shorter = TIMES * span <= buckets[-1] - buckets[0] + 1
    return (near[0], near[-1]) if shorter else (buckets[0], buckets[-1])


def _together(values: list[int], count: int) -> list[int]:
    """Return the sum of each `count` values beside each other."""
    return [sum(values[at : at + count]) for at in range(max(1, len(values) - count + 1) if count else 0)]


def _rate(tally: Tally, axis: dict[str, Any]) -> dict[str, Any]:
    span = (tally.last or 0) - (tally.first or 0)
    if axis["outside"]:
        span = len(axis["begin"]) * axis["width_ms"]
    totals = [sum(values) for values in zip(*axis["messages"].values(), strict=True)]
    # Of a second at least: a few messages of one millisecond are no thousands a second.
    beside = -(-1000 // axis["width_ms"]) if totals and span >= 1000 else 0
    width_s = beside * axis["width_ms"] / 1000
    peaks, peak_bytes = _together(totals, beside), _together(axis["bytes"], beside)
    peak = max(range(len(peaks)), key=peaks.__getitem__) if peaks else None
    dated = sum(totals)
    return {
        "span_ms": span,
        "messages_per_s": round(dated * 1000 / span, 3) if span else None,
        "bytes_per_s": round(sum(axis["bytes"]) * 1000 / span, 1) if span else None,
        "peak_messages_per_s": round(peaks[peak] / width_s, 3) if peak is not None else None,
        "peak_bytes_per_s": round(max(peak_bytes) / width_s, 1) if peak_bytes else None,
        "peak_time": axis["begin"][peak] if peak is not None else None,
    }


# -- the verdict -------------------------------------------------------------------------------------------------------


def count_of(number: int, noun: str) -> str:
    """Format a number with its noun: `1 message`, `2,000 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ms_text(value: float) -> str:
    for limit, unit, size in (
        (1000, "ms", 1),
        (60_000, "s", 1000),
        (3_600_000, "min", 60_000),
        (172_800_000, "h", 3_600_000),
    ):
        if abs(value) < limit:
            return f"{value / size:.3g} {unit}"
    return f"{value / DAY_MS:,.1f} days"


def time_text(ms: int | None, digits: int = 3) -> str:
    """Format a time in UTC by ISO 8601, with or without milliseconds.

    One outside the years 1 to 9999 is shown as the number itself.
    """
    if ms is None:
        return "none"
    if (moment := utc(ms)) is None:
        return f"{ms} ms"
    text = moment.strftime("%Y-%m-%d %H:%M:%S") + f".{ms % 1000:03d}"
    return text if digits else text[:-4]


def _losses(found: Statistics) -> Iterator[str]:
    if found.damages:
        places, size = count_of(found.damages, "damaged place"), count_of(found.lost_bytes, "byte")
        yield f"Skipped {places} of the log, {size}: flintmq verify says where."
    dead = sum(one["messages"] for one in found.topics if one["topic"].startswith(DEAD))
    if dead:
        yield f"{count_of(dead, 'message')} in dead-letter topics: consumers gave up on them."
    expired = [lag for lag in found.lags if lag["expired"]]
    for lag in expired[:3]:
        lost = count_of(lag["expired"], "message")
        yield f"{lost} of {lag['topic']} left the log before group {lag['group']} consumed them."


def _late(found: Statistics) -> list[str]:
    said = []
    for lag in found.lags:
        since = lag["waiting_since"]
        age = (found.last_time or since) - since if since is not None else 0
        if lag["behind"] >= BEHIND_MESSAGES or age >= BEHIND_MS:
            old = f", the oldest stored {ms_text(age)} before the last message" if since is not None else ""
            said.append(f"Group {lag['group']} is {count_of(lag['behind'], 'message')} behind on {lag['topic']}{old}.")
    if (found.latency["p99"] or 0) >= SLOW_MS:
        slow = f"median {ms_text(found.latency['p50'])}, 99th percentile {ms_text(found.latency['p99'])}"
        said.append(f"Messages came late from producer to store: {slow}.")
    return [*said[:5], *([f"{len(said) - 5} more remarks on lag."] if len(said) > 5 else [])]


def _uneven(found: Statistics) -> Iterator[str]:
    skewed = [one for one in found.topics if one["skew"] >= SKEWED and one["messages"] >= SKEW_MESSAGES]
    for one in skewed[:3]:
        share = one["largest_queue"] / one["messages"]
        yield (
            f"{one['topic']} is uneven: one of its {one['queues']} queues has {share:.0%} of the messages, "
            f"{one['skew']:.3g} times the mean."
        )
    if len(skewed) > 3:
        yield f"The same holds for {count_of(len(skewed) - 3, 'more topic')}."


def _odd(found: Statistics) -> Iterator[str]:
    if found.ids["surplus"]:
        surplus = count_of(found.ids["surplus"], "message")
        about = surplus if found.ids["exact"] else f"about {surplus}"
        yield f"{about} under an id that its topic had before: sent again by a producer, or by the broker."
    if found.latency["ahead"]:
        yield f"{count_of(found.latency['ahead'], 'message')} born after being stored: a producer's clock is off."
    beyond = [lag for lag in found.lags if lag["beyond"]]
    for lag in beyond[:3]:
        yield (
            f"Group {lag['group']} has offsets beyond the end of {lag['topic']}: a queue lost messages or began anew."
        )
    odd = found.latency["undated"] + found.over_time["outside"]
    if odd:
        yield f"{count_of(odd, 'message')} with store times far from all others."

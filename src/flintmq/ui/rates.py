"""Rates over time from a few samples, drawn as bars.

Nothing counts a whole log for a page. A sample is a store time and how much was written before it: of a store bytes of
the log, of a topic messages of its queues. Between two samples the rate is taken as even.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.view import QueueInfo, StoreView

SAMPLES = 64
QUEUES_SAMPLED = 8  # the largest ones of a topic
BARS = 48
LEAST_MS = 10  # of a bar: store times are whole milliseconds
WIDTH, HEIGHT, GAP = 960, 110, 3

Samples = list[tuple[int, int]]
"""(store time in ms, amount before it), both rising."""


@dataclass(frozen=True)
class RateBar:
    x: float
    y: float
    width: float
    height: float
    begin_ms: int
    end_ms: int
    rate: float  # a second


@dataclass(frozen=True)
class Chart:
    bars: Sequence[RateBar]
    peak: float  # the largest rate, a second
    begin_ms: int
    end_ms: int
    width: int = WIDTH
    height: int = HEIGHT


def log_chart(snapshot: Snapshot) -> Chart | None:
    """Draw the bytes of the log a second."""
    begin, end = snapshot.log.min_offset, snapshot.end
    samples: Samples = []
    for number in range(SAMPLES + 1):
        at = next_record(snapshot.log, begin + (end - begin) * number // (SAMPLES + 1))
        message = None if at is None else record_at(snapshot.log, at, end)
        if message is not None:
            samples.append((message.store_timestamp, message.physical_offset))
    last = snapshot.log_end.last
    final = None if last is None else record_at(snapshot.log, last)
    if final is not None:
        samples.append((final.store_timestamp, end))
    return chart([_rising(samples)])


def topic_chart(view: StoreView, queues: Sequence[QueueInfo]) -> Chart | None:
    """Draw the messages a second of a topic's largest queues."""
    largest = sorted(queues, key=lambda one: one.min_offset - one.max_offset)[:QUEUES_SAMPLED]
    return chart([_rising(_queue_samples(view, one)) for one in largest])


def _queue_samples(view: StoreView, queue: QueueInfo) -> Samples:
    found: Samples = []
    count = queue.max_offset - queue.min_offset
    places = {queue.min_offset + max(count - 1, 0) * number // SAMPLES for number in range(SAMPLES + 1)}
    for offset in sorted(places) if count else ():
        for message in view.read(queue.topic, queue.queue_id, offset, 1):
            found.append((message.store_timestamp, message.queue_offset))
    return found


def _rising(samples: Samples) -> Samples:
    """Leave out samples whose time is not after the one before: a clock was set back."""
    kept: Samples = []
    for time, amount in samples:
        if not kept or (time > kept[-1][0] and amount > kept[-1][1]):
            kept.append((time, amount))
    return kept


def chart(series: Sequence[Samples]) -> Chart | None:
    """Draw the sum of series as bars of equal time; None where there is no time between samples."""
    series = [samples for samples in series if len(samples) > 1]
    if not series:
        return None
    begin, end = min(samples[0][0] for samples in series), max(samples[-1][0] for samples in series)
    count = min(BARS, max((end - begin) // LEAST_MS, 1))
    edges = [begin + (end - begin) * number // count for number in range(count + 1)]
    amounts = [sum(_amount(samples, edge) for samples in series) for edge in edges]
    rates = [
        1000 * (amounts[n + 1] - amounts[n]) / max(edges[n + 1] - edges[n], 1) for n in range(count)
    ]  # fmt: skip
    peak, step = max(rates), WIDTH / count
    bars = [
        RateBar(
            round(n * step, 1),
            round(HEIGHT - HEIGHT * rate / peak, 1),
            round(step - GAP, 1),
            round(HEIGHT * rate / peak, 1),
            edges[n],
            edges[n + 1],
            rate,
        )
        for n, rate in enumerate(rates)
        if peak and rate
    ]
    return Chart(bars, peak, begin, end)


def _amount(samples: Samples, ms: int) -> float:
    """Return how much was there at a time, by the samples around it."""
    after = bisect_right(samples, ms, key=lambda sample: sample[0])
    if after == 0:
        return samples[0][1]
    if after == len(samples):
        return samples[-1][1]
    (t0, a0), (t1, a1) = samples[after - 1], samples[after]
    return a0 + (a1 - a0) * (ms - t0) / (t1 - t0)

"""Limits a micro-batch: it ends at one place in the log, the same for all queues.

So the rows of a batch were all stored before those of the next one, and the log is read once, from one end to the
other, however many queues there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flintmq.lake.stream.offset_index import Places
from flintmq.store.layout.queue_name import QueueName

FIRST_STEP = 1 << 20  # bytes of log of the first step of the search for the end; each step doubles

Span = tuple[int, int]
"""Queue offsets [low, high) of a queue."""

Weigh = Callable[[QueueName, int, int], int]
"""Returns the weight of the messages [low, high) of a queue."""


def limited(
    places: Mapping[QueueName, Places], spans: Mapping[QueueName, Span], begin: int, end: int, weigh: Weigh, limit: int
) -> dict[QueueName, int]:
    """Return where each queue's part of a batch ends, so that the batch weighs at most `limit`.

    A batch has at least one record.

    `limit`: maximal weight, exceeded only by a single record.
    """
    lows = {name: low for name, (low, _) in spans.items()}
    highs = {name: high for name, (_, high) in spans.items()}
    position, stop, step, weight = begin, end + 1, FIRST_STEP, 0
    while position + 1 < stop and lows != highs:
        middle = min(position + step, stop - 1) if step else (position + stop) // 2
        at = _at(places, lows, highs, middle)
        more = sum(weigh(name, lows[name], at[name]) for name in at if at[name] > lows[name])
        if weight + more <= limit:
            position, weight, step, lows = middle, weight + more, 2 * step, at
        else:
            stop, step, highs = middle, 0, at
    assert all(low <= lows[name] <= high for name, (low, high) in spans.items())
    firsts = {name: low for name, (low, _) in spans.items()}
    if lows == firsts:
        ends = {name: high for name, (_, high) in spans.items()}
        lows = _at(places, firsts, ends, begin + 1)
        return ends if lows == firsts else lows
    return lows


def _at(
    places: Mapping[QueueName, Places], lows: Mapping[QueueName, int], highs: Mapping[QueueName, int], position: int
) -> dict[QueueName, int]:
    return {
        name: places[name].first_at(position, low, highs[name]) if low < highs[name] else low
        for name, low in lows.items()
    }

"""Figures and remarks made of tallies that were filled by hand."""

import json

import numpy as np
import pytest

from flintmq.lake.stats.accumulate import Tally
from flintmq.lake.stats.lag import Lag
from flintmq.lake.stats.statistics import BUCKETS, ms_text, statistics, time_text


def tally(*queues: tuple[str, int, int], times: tuple[int, ...] = (), late: int = 10) -> Tally:
    """A tally of queues with so many messages of 100 bytes; one message at each time."""
    found = Tally()
    for topic, queue, messages in queues:
        found.add_queue(topic, queue, [messages, 100 * messages, messages - 1, late])
        found.messages += messages
        found.bytes += 100 * messages
    for time in times:
        found.series.add(time // found.series.width, "T", [1, 100, late, 1, late])
        found.series.settle()
    found.first, found.last = min(times, default=None), max(times, default=None)
    found.latency.add(np.full(found.messages, late))
    return found


def test_topics_and_queues() -> None:
    found = statistics(tally(("A", 0, 30), ("A", 1, 10), ("B", 3, 50)), [])
    assert [(one["topic"], one["messages"], one["queues"], one["skew"]) for one in found.topics] == [
        ("B", 50, 1, 1.0), ("A", 40, 2, 1.5),
    ]  # fmt: skip
    assert [(one["topic"], one["queue_id"], one["share"]) for one in found.hot_queues] == [
        ("B", 3, 1.0), ("A", 0, 0.75), ("A", 1, 0.25),
    ]  # fmt: skip
    assert (found.topic_count, found.queue_count, found.verdict) == (2, 3, [])


@pytest.mark.parametrize("span", [0, 50, 801, 60_000, 3_600_000, 86_400_000 * 400])
def test_the_axis_has_enough_steps_and_not_too_many(span: int) -> None:
    times = tuple(1_700_000_000_000 + span * i // 99 for i in range(100))
    axis = statistics(tally(("T", 0, 100), times=times), []).over_time
    assert sum(axis["messages"]["T"]) == 100 and axis["outside"] == 0
    assert len(axis["begin"]) <= BUCKETS and (len(axis["begin"]) >= 20 or span < 100)
    assert axis["begin"][0] <= times[0] and times[-1] < axis["begin"][-1] + axis["width_ms"]


@pytest.mark.parametrize("sizes", [[200, 201, 250, 300], [0, 1, 5, 40], [3, 10**6, 10**9], [7]])
def test_columns_hold_every_value_once(sizes: list[int]) -> None:
    found = tally(("T", 0, 1))
    found.sizes.add(np.array(sizes))
    cells = statistics(found, []).sizes["cells"]
    assert [high for _, high, _ in cells[:-1]] == [low for low, _, _ in cells[1:]]
    assert [count for _, _, count in cells] == [sum(low <= size < high for size in sizes) for low, high, _ in cells]
    assert sum(count for _, _, count in cells) == len(sizes) and len(cells) <= 32


def test_rates_are_those_of_the_times() -> None:
    times = tuple(range(0, 100_000, 100))  # ten a second for 100 s
    found = statistics(tally(("T", 0, 1000), times=times), [])
    assert found.rate["messages_per_s"] == pytest.approx(10, rel=0.01)
    assert found.rate["peak_messages_per_s"] == 10
    assert found.rate["bytes_per_s"] == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(("span", "peak"), [(2, None), (999, None), (1000, 10), (9000, 10)])
def test_a_peak_is_of_a_second_at_least(span: int, peak: int | None) -> None:
    """Ten messages of one moment are ten a second, not thousands; and of less than a second no rate is known."""
    found = statistics(tally(("T", 0, 11), times=(*[0] * 10, span)), [])
    at = found.rate["peak_messages_per_s"]
    assert at is None if peak is None else at == pytest.approx(peak, abs=1)
    assert (found.rate["peak_time"] is None) is (found.rate["peak_bytes_per_s"] is None) is (peak is None)


def test_a_wild_clock_does_not_press_the_rest_into_a_corner() -> None:
    times = (*range(1_700_000_000_000, 1_700_000_600_000, 100), 4_000_000_000_000)
    found = statistics(tally(("T", 0, len(times)), times=times), [])
    assert found.over_time["outside"] == 1 and len(found.over_time["begin"]) > 10
    assert found.last_time == 4_000_000_000_000
    assert "1 message with store times far from all others." in found.verdict


def test_what_stands_out_is_said() -> None:
    counted = tally(("Orders", 0, 5000), ("Orders", 1, 500), ("Orders", 2, 500), ("%DLQ%g", 0, 3), late=2500)
    counted.ahead = 1
    counted.ids.repeats.add(np.array([1, 2], np.uint64), np.array([3, 1]))
    counted.last = 1_700_000_200_000
    lags = [Lag("Orders", "g", 3, 4000, 3000, 1_700_000_000_000), Lag("Orders", "lost", 1, 5, 5, None, 9, 1)]
    found = statistics(counted, lags)
    found.damages, found.lost_bytes = 2, 77
    assert found.verdict == [
        "Skipped 2 damaged places of the log, 77 bytes: flintmq verify says where.",
        "3 messages in dead-letter topics: consumers gave up on them.",
        "9 messages of Orders left the log before group lost consumed them.",
        "Group g is 4,000 messages behind on Orders, the oldest stored 3.33 min before the last message.",
        "Messages came late from producer to store: median 2.5 s, 99th percentile 2.5 s.",
        "Orders is uneven: one of its 3 queues has 83% of the messages, 2.5 times the mean.",
        "2 messages under an id that its topic had before: sent again by a producer, or by the broker.",
        "1 message born after being stored: a producer's clock is off.",
        "Group lost has offsets beyond the end of Orders: a queue lost messages or began anew.",
    ]
    assert json.loads(json.dumps(found.as_dict()))["verdict"] == found.verdict


def test_lengths_and_times_as_people_say_them() -> None:
    assert [ms_text(value) for value in (0, 999, 1500, 90_000, 7_200_000, 864_000_000)] == [
        "0 ms", "999 ms", "1.5 s", "1.5 min", "2 h", "10.0 days",
    ]  # fmt: skip
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert time_text(1_700_000_000_123, 0) == "2023-11-14 22:13:20"
    assert time_text(None) == "none"


def test_lags_that_a_table_leaves_out_are_counted() -> None:
    lags = [Lag("Orders", f"g{number}", 1, 500 - number, 1) for number in range(300)]
    lags += [Lag("Orders", "lost", 1, 0, 0, None, expired=7), Lag("Orders", "ahead", 1, 0, 0, beyond=1)]
    found = statistics(tally(("Orders", 0, 5)), lags)
    assert (found.lag_count, found.group_count) == (302, 302)
    assert found.behind == sum(lag.behind for lag in lags) and len(found.lags) == 202
    assert "7 messages of Orders left the log before group lost consumed them." in found.verdict

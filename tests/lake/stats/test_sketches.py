"""Summaries against plain counting, and against themselves put together from parts."""

import json
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from flintmq.lake.export.workers import packed, unpacked
from flintmq.lake.stats.sketches import WIDTHS, Histogram, Repeats, Series, Top, cell_begin, cell_of


def carried(sketch: Any) -> Any:
    """As the driver gets it."""
    return unpacked(json.loads(json.dumps(packed(sketch))))


def test_top_is_exact_until_there_are_too_many_names() -> None:
    names = [f"n{random.Random(1).randrange(50)}" for _ in range(1)] + [f"n{i % 37}" for i in range(1000)]
    parts = [Top(50, "+>"), Top(50, "+>")]
    for i, name in enumerate(names):
        parts[i % 2].add(name, [1, i])
    whole = carried(parts[0])
    whole.merge(parts[1])
    assert whole.missed == 0
    assert {name: row[0] for name, row in whole.rows.items()} == Counter(names)
    assert {name: row[1] for name, row in whole.rows.items()} == {name: i for i, name in enumerate(names)}


def test_top_says_how_much_it_missed() -> None:
    rng = random.Random(7)
    names = [f"n{min(int(rng.expovariate(0.02)), 400)}" for _ in range(5000)] + [f"once{i}" for i in range(500)]
    rng.shuffle(names)
    top = Top(60, "+")
    for name in names:
        top.add(name, [1])
    top = carried(top)
    true = Counter(names)
    assert len(top.rows) == 60 and top.missed > 0
    assert all(row[0] <= true[name] <= row[0] + top.missed for name, row in top.rows.items())
    assert all(count <= top.missed for name, count in true.items() if name not in top.rows)


def hashes_of(values: list[int]) -> object:
    rng = random.Random(3)
    table = {value: rng.getrandbits(64) for value in sorted(set(values))}
    return table


def test_repeats_are_exact_while_they_fit() -> None:
    values = [i % 300 if i % 3 else i for i in range(900)]
    table = hashes_of(values)
    halves = []
    for part in (values[:500], values[500:]):
        counts = Counter(part)
        half = Repeats(1000)
        half.add(np.array([table[v] for v in counts], np.uint64), np.array(list(counts.values())))
        halves.append(half)
    whole = carried(halves[0])
    whole.merge(halves[1])
    true = Counter(values)
    assert whole.answer() == {
        "distinct": len(true),
        "repeated": sum(count > 1 for count in true.values()),
        "surplus": len(values) - len(true),
        "exact": True,
        "error": 0,
        "distinct_error": 0,
        "repeated_error": 0,
    }


def test_repeats_are_a_sample_with_its_error_when_there_are_too_many() -> None:
    values = [i // 3 for i in range(30_000)] + list(range(20_000, 60_000))  # 10,000 three times, 40,000 once
    table = hashes_of(values)
    parts = [Repeats(2000), Repeats(2000)]
    for number, part in enumerate((values[:25_000], values[25_000:])):
        for at in range(0, len(part), 1000):
            counts = Counter(part[at : at + 1000])
            parts[number].add(np.array([table[v] for v in counts], np.uint64), np.array(list(counts.values())))
    parts[0].merge(parts[1])
    found = parts[0].answer()
    assert not found["exact"] and len(parts[0].counts) <= 2000
    assert abs(found["distinct"] - 50_000) < 5_000
    assert 0 < found["error"] < 4_000
    assert abs(found["surplus"] - 20_000) < 4 * found["error"]


def test_cells_hold_what_they_say() -> None:
    values = [0, 1, 31, 32, 63, 64, 65, 127, 128, 1000, 2**31, 2**45 - 1, 2**45, 2**53 + 1, 2**62 - 1]
    values += [random.Random(5).getrandbits(bits) for bits in range(1, 62)]
    for value, cell in zip(values, cell_of(np.array(values, np.int64)).tolist(), strict=True):
        assert cell_begin(cell) <= value < cell_begin(cell + 1)
        assert cell_begin(cell + 1) - cell_begin(cell) <= max(1, value / 32)


def test_quantiles_are_near_and_ends_exact() -> None:
    rng = random.Random(2)
    values = [int(rng.lognormvariate(6, 2)) for _ in range(5000)]
    parts = [Histogram(), Histogram()]
    parts[0].add(np.array(values[:1234], np.int64))
    parts[1].add(np.array(values[1234:], np.int64))
    whole = carried(parts[0])
    whole.merge(parts[1])
    found = whole.answer()
    assert (found["count"], found["least"], found["largest"]) == (5000, min(values), max(values))
    assert found["mean"] == pytest.approx(sum(values) / 5000, abs=0.001)
    for name, rank in (("p50", 2500), ("p90", 4500), ("p99", 4950)):
        true = sorted(values)[rank - 1]
        assert true <= found[name] <= true * 33 / 32 + 1


def test_no_values_have_no_quantiles() -> None:
    assert Histogram().answer() == {
        "count": 0, "mean": None, "least": None, "p50": None, "p90": None, "p99": None, "largest": None,
        "quantile_error": 1 / 32,
    }  # fmt: skip


def test_widths_divide_each_other() -> None:
    assert all(more % one == 0 and more > one for one, more in pairwise(WIDTHS))


def test_series_keeps_its_sums_while_its_buckets_grow() -> None:
    rng = random.Random(4)
    events = [(rng.randrange(10_000_000), f"t{rng.randrange(6)}") for _ in range(3000)]
    parts = [Series(200, 10, "+>"), Series(200, 10, "+>")]
    for i, (time, name) in enumerate(events):
        part = parts[i % 2]
        part.add(time // part.width, name, [1, time])
        part.settle()
    whole = carried(parts[0])
    whole.merge(parts[1])
    assert len(whole.cells) <= 200 and whole.width > 1000
    true = Counter((time // whole.width, name) for time, name in events)
    assert {key: row[0] for key, row in whole.cells.items()} == true
    assert max(row[1] for row in whole.cells.values()) == max(time for time, _ in events)


def test_series_counts_names_that_are_too_many_as_others() -> None:
    series = Series(1000, 3, "+")
    for i in range(10):
        series.add(0, f"t{i}", [1])
    assert series.cells == {(0, "t0"): [1], (0, "t1"): [1], (0, "t2"): [1], (0, ""): [7]}


def test_a_name_in_a_series_has_all_of_its_numbers() -> None:
    """One that a part could not keep apart is counted with the others, wherever it was kept apart."""
    parts = [Series(1000, 3, "+") for _ in range(3)]
    for part, names in zip(parts, (["a", "b", "c", "d"], ["d", "c", "b", "a", "e"], ["a", "b"]), strict=True):
        for name in names:
            part.add(0, name, [1])
    true = Counter("abcd" + "dcbae" + "ab")
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        whole = Series(1000, 3, "+")
        for number in order:
            whole.merge(carried(parts[number]))
        named = {name: row[0] for (_, name), row in whole.cells.items() if name}
        assert named == {name: true[name] for name in named} and {"b"} <= named.keys() <= {"b", "c"}
        assert whole.cells[0, ""][0] == true.total() - sum(named.values())

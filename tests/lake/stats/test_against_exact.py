"""What the figures promise, on 50 made stores, against a slow count that holds every value."""

import math
import random
import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.lake.export.workers import Threads
from flintmq.lake.stats import accumulate
from flintmq.lake.stats.accumulate import COLUMNS, Tally
from flintmq.lake.stats.run import stats
from flintmq.lake.stats.statistics import Statistics
from flintmq.testing import write_store

STORES = 50
Counts = Callable[[int], tuple[Statistics, dict[str, Any]]]


def made(path: Path, seed: int) -> Path:
    rng = random.Random(seed)
    return write_store(
        path, rng.randrange(1500, 6000), seed=seed, topics=rng.randrange(1, 9), queues=rng.randrange(1, 9),
        keys=rng.randrange(1, 4), kinds=rng.choice([(), "odd", "flags", "ipv6"]), waves=rng.randrange(3),
        body_bytes=(0, rng.choice([60, 900, 9000])), duration_ms=rng.choice([1, 5000, 10**7, 10**10]),
        commit_log_file_size=1 << 20, queues_and_index=False,
    ).path  # fmt: skip


def every_value(path: Path) -> dict[str, Any]:
    """Count with dicts and sorted lists, a row at a time."""
    with flintmq.open_store(path) as view:
        rows = [{name: getattr(message, name) for name in COLUMNS} for message in view.messages()]
    assert rows
    keys: Counter[tuple[str, str]] = Counter()
    for row in rows:
        keys.update((row["topic"], key) for key in {*(row["keys"] or "").split(" ")} - {""})
    waits = [row["store_timestamp"] - row["born_timestamp"] for row in rows]
    return {
        "messages": len(rows),
        "bytes": sum(row["size"] for row in rows),
        "first_time": min(row["store_timestamp"] for row in rows),
        "last_time": max(row["store_timestamp"] for row in rows),
        "topics": Counter(row["topic"] for row in rows),
        "queues": Counter((row["topic"], row["queue_id"]) for row in rows),
        "hosts": Counter(row["born_host"].rpartition(":")[0] for row in rows),
        "sizes": sorted(row["size"] for row in rows),
        "latency": sorted(wait for wait in waits if wait >= 0),
        "ahead": sum(wait < 0 for wait in waits),
        "keys": keys,
        "ids": Counter((row["topic"], row["msg_id"]) for row in rows if row["msg_id"]),
    }


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    """counts(seed): the statistics of a made store, and what is in it; each is counted once."""

    @cache
    def count(seed: int) -> tuple[Statistics, dict[str, Any]]:
        path = made(tmp_path_factory.mktemp("made") / "s", seed)
        with pytest.MonkeyPatch.context() as patch:
            if seed % 2:  # a sample so small that estimates are needed, though a store is not large
                patch.setattr(accumulate, "SAMPLE", 400)
            found = stats(path, workers=Threads(2)), every_value(path)
        shutil.rmtree(path)
        return found

    return count


@pytest.mark.parametrize("seed", range(STORES))
def test_a_made_store(counts: Counts, seed: int) -> None:
    found, true = counts(seed)
    for name in ("messages", "bytes", "first_time", "last_time"):
        assert getattr(found, name) == true[name], name
    assert {one["topic"]: one["messages"] for one in found.topics} == true["topics"]
    assert all(one["messages"] == true["queues"][one["topic"], one["queue_id"]] for one in found.hot_queues)
    assert found.queue_count == len(true["queues"]) and found.producer_count == len(true["hosts"])
    assert all(one["messages"] == true["hosts"][one["host"]] for one in found.producers)
    assert sum(map(sum, found.over_time["messages"].values())) + found.over_time["outside"] == true["messages"]
    assert found.latency["ahead"] == true["ahead"] and not found.missed.keys() - {"keys", "ids"}
    for name in ("sizes", "latency"):
        spread(getattr(found, name), true[name])
    for name in ("keys", "ids"):
        values(found, name, true[name])


def spread(found: dict[str, Any], true: list[int]) -> None:
    assert (found["count"], found["least"], found["largest"]) == (len(true), true[0], true[-1])
    assert found["mean"] == pytest.approx(sum(true) / len(true), abs=0.001)
    for name, part in (("p50", 50), ("p90", 90), ("p99", 99)):
        exact = true[-(-part * len(true) // 100) - 1]
        assert exact <= found[name] <= exact * (1 + found["quantile_error"]), name


def values(found: Statistics, name: str, true: "Counter[Any]") -> None:
    got = getattr(found, name)
    for one in got["top"]:
        count = true[one["topic"], one["value"]]
        assert one["messages"] <= count <= one["messages"] + found.missed.get(name, 0)
    for kind, (off, error) in off_by(got, true).items():
        assert (off, error) == (0, 0) if got["exact"] else error > 0 and abs(off) <= 4.5 * error, (name, kind)


def off_by(got: dict[str, Any], true: "Counter[Any]") -> dict[str, tuple[int, int]]:
    """Of each number of values: what it is off by, and the error that is named."""
    repeated = sum(count > 1 for count in true.values())
    return {
        "distinct": (got["distinct"] - len(true), got["distinct_error"]),
        "repeated": (got["repeated"] - repeated, got["repeated_error"]),
        "surplus": (got["surplus"] - (true.total() - len(true)), got["error"]),
    }


def test_errors_are_those_that_are_named(counts: Counts) -> None:
    """Of all estimates about two of three are within their standard error, and they err to both sides."""
    every = [
        pair
        for found, true in map(counts, range(1, STORES, 2))
        for name in ("keys", "ids")
        for pair in off_by(getattr(found, name), true[name]).values()
    ]
    all_of = [off / error for off, error in every if error]
    assert len(all_of) > 100
    assert sum(abs(off) <= 1 for off in all_of) / len(all_of) > 0.55
    assert sum(abs(off) <= 2 for off in all_of) / len(all_of) > 0.9
    assert abs(sum(all_of)) / len(all_of) < 0.35 and math.sqrt(sum(off * off for off in all_of) / len(all_of)) < 1.5


def test_one_key_that_most_messages_have_is_no_guess() -> None:
    """A sample lacks such a key in most cases; its messages are known all the same."""
    import numpy as np
    import pyarrow as pa

    rng = random.Random(8)
    keys = [f"k{number}" for number in range(60_000)] + ["hot"] * 50_000 + [f"k{number}" for number in range(2000)]
    rng.shuffle(keys)
    tally = Tally()
    for at in range(0, len(keys), 10_000):
        part = pa.array(keys[at : at + 10_000])
        Tally._add_values(tally.keys, pa.array(["T"] * len(part)).dictionary_encode(), part, several=True)
    got = tally.keys.answer()
    assert not got["exact"] and tally.keys.top.ordered()[0].endswith("hot")
    assert abs(got["surplus"] - (49_999 + 2000)) <= 4 * got["error"] < 10_000
    assert np.isfinite(got["error"])

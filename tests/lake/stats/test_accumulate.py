"""What is counted against the rows that Java read from the same stores."""

import ipaddress
from collections import Counter
from typing import Any

import pytest

from flintmq.cluster.member import ONLY, Member
from flintmq.lake.export.workers import unpacked
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import plan_scan
from flintmq.lake.read.splits import LogRange, equal_ranges
from flintmq.lake.stats.accumulate import LONGEST_MS, SEPARATOR, Tally, queue_key
from flintmq.lake.stats.run import StoreCount, count_task
from flintmq.store.commitlog.report import Report
from tests.compat.stores import Golden

FIRST_MS, END_MS = -62_135_596_800_000, 253_402_300_800_000  # the years 1 to 9999


def tally_of(golden: Golden, parts: int = 1) -> Tally:
    plan = plan_scan(ReadOptions(path=str(golden.path)), Report())
    whole = Tally()
    ranges = equal_ranges(plan.log, plan.begin, plan.end, parts) if parts > 1 else [LogRange(plan.begin, plan.end)]
    for part in ranges:
        whole.merge(unpacked(count_task((StoreCount(Member(plan.options.path, ONLY), plan), part))["tally"]))
    return whole


def expected_values(rows: list[dict[str, Any]], name: str) -> Counter[str]:
    """TOPIC SEPARATOR VALUE -> messages that have it."""
    found: Counter[str] = Counter()
    for row in rows:
        values = (row[name] or "").split(" ") if name == "keys" else [row[name] or ""]
        found.update(f"{row['topic']}{SEPARATOR}{value}" for value in {value for value in values if value})
    return found


def latency(row: dict[str, Any]) -> int | None:
    times = row["store_timestamp"], row["born_timestamp"]
    if not all(FIRST_MS <= time < END_MS for time in times) or times[0] < times[1]:
        return None
    return min(times[0] - times[1], LONGEST_MS)


@pytest.mark.parametrize("parts", [1, 7])
def test_as_java_has_it(golden_store: Golden, parts: int) -> None:
    if "beyond" in golden_store.expect:
        pytest.skip("Java cannot read all of it")
    rows, found = golden_store.live, tally_of(golden_store, parts)
    assert (found.messages, found.bytes) == (len(rows), sum(row["size"] for row in rows))
    assert {name: row[0] for name, row in found.queues.rows.items()} == Counter(
        queue_key(row["topic"], row["queue_id"]) for row in rows
    )
    ends: dict[str, int] = {}
    for row in rows:
        name = queue_key(row["topic"], row["queue_id"])
        ends[name] = max(ends.get(name, row["queue_offset"]), row["queue_offset"])
    assert {name: row[2] for name, row in found.queues.rows.items()} == ends
    hosts = Counter(ipaddress.ip_address(row["born_host"].rpartition(":")[0].strip("[]")) for row in rows)
    assert {ipaddress.ip_address(name.strip("[]")): row[0] for name, row in found.hosts.rows.items()} == hosts
    assert found.sizes.answer()["largest"] == max(row["size"] for row in rows)
    stored = [row["store_timestamp"] for row in rows if FIRST_MS <= row["store_timestamp"] < END_MS]
    assert (found.first, found.last, found.undated) == (min(stored), max(stored), len(rows) - len(stored))
    waits = [wait for row in rows if (wait := latency(row)) is not None]
    assert (found.latency.count, found.latency.sum) == (len(waits), sum(waits))
    for name, values in (("keys", found.keys), ("msg_id", found.ids)):
        true = expected_values(rows, name)
        assert values.answer()["distinct"] == len(true)
        assert values.answer()["surplus"] == sum(true.values()) - len(true)
        assert values.messages == sum(bool((row[name] or "").strip(" ")) for row in rows)
        assert all(true[text] == row[0] for text, row in values.top.rows.items())


def test_times_make_a_series(golden: Any) -> None:
    rows, found = golden("basic").live, tally_of(golden("basic"))
    width = found.series.width
    true = Counter((row["store_timestamp"] // width, row["topic"]) for row in rows)
    assert {key: row[0] for key, row in found.series.cells.items()} == true
    sizes: Counter[tuple[int, str]] = Counter()
    for row in rows:
        sizes[row["store_timestamp"] // width, row["topic"]] += row["size"]
    assert {key: row[1] for key, row in found.series.cells.items()} == sizes

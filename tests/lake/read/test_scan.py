"""Planning a read and scanning its ranges, without a session: what source and export do in their tasks."""

from pathlib import Path

import pytest

from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.errors import CorruptStoreError, LostLogError, NotAStoreError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import plan_scan, scan_bounds, scan_range
from flintmq.lake.read.splits import equal_ranges
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate
from flintmq.store.commitlog.report import Report
from tests.compat.stores import Golden
from tests.support.engine import FILE_SIZE, records, stored
from tests.support.makers import hurt_body, patch

OFFSETS = narrow(["physical_offset"], SPARK_SCHEMA)


def scanned(options: ReadOptions, splits: int, report: Report) -> list[int]:
    """Physical offsets of all ranges, in their order."""
    plan = plan_scan(options, report)
    found: list[int] = []
    for part in equal_ranges(plan.log, plan.begin, plan.end, splits):
        for batch in scan_range(plan, part, OFFSETS, report, batch_bytes=4096):
            found += batch.column(0).to_pylist()
    return found


@pytest.mark.parametrize("splits", [1, 7, 40])
def test_ranges_together_give_every_record_once(golden_store: Golden, splits: int) -> None:
    found = scanned(ReadOptions(str(golden_store.path)), splits, Report())
    expected = [row["physical_offset"] for row in golden_store.live]
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) + golden_store.expect.get("beyond", 0)


def test_a_range_gives_the_same_rows_again(golden) -> None:  # type: ignore[no-untyped-def]
    plan = plan_scan(ReadOptions(str(golden("basic").path)), Report())
    part = equal_ranges(plan.log, plan.begin, plan.end, 3)[1]
    one, other = (list(scan_range(plan, part, SPARK_SCHEMA, Report())) for _ in range(2))
    assert one == other and sum(batch.num_rows for batch in one) > 500


def test_damage_fails_or_is_passed_over(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    copy = store.copy(tmp_path)
    row = next(row for row in store.rows[1000:] if row["body_length"] > 8)
    file, position = hurt_body(copy, row["physical_offset"])
    with pytest.raises(CorruptStoreError, match=f"{file.name}, position {position}"):
        scanned(ReadOptions(str(copy)), 3, Report())
    report = Report()
    found = scanned(ReadOptions(str(copy), fail_on_data_loss=False), 3, report)
    assert sorted({r["physical_offset"] for r in store.rows} - set(found)) == [row["physical_offset"]]
    assert (report.damage_count, report.lost_bytes) == (1, row["size"])


@pytest.mark.parametrize("what", ["lost", "damaged"])
def test_a_log_that_ends_before_what_was_flushed(tmp_path: Path, what: str) -> None:
    """Its last file is missing; or is there and zeros, behind which nothing follows."""
    root = tmp_path / "store"
    stored(root, 30, size=300)
    *before, last = sorted((root / "commitlog").iterdir())
    kept = sum(r.physical_offset < int(last.name) for r in records(root))
    last.unlink() if what == "lost" else last.write_bytes(bytes(FILE_SIZE))
    with pytest.raises(LostLogError if what == "lost" else CorruptStoreError, match=last.name):
        scanned(ReadOptions(str(root)), 2, Report())
    report = Report()
    assert len(scanned(ReadOptions(str(root), fail_on_data_loss=False), 2, report)) == kept >= 20
    assert report.damage_count == 1 and len(before) > 1


def test_what_is_no_store_cannot_be_planned(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        plan_scan(ReadOptions(str(tmp_path)), Report())


def bounds(path, queues, offsets, end):
    log = LogFiles.discover([str(path / "commitlog")])
    return scan_bounds(str(path), log, Predicate(queues=frozenset(queues), offsets=tuple(offsets)), end)


@pytest.fixture
def queues(golden):
    """Two queues of `basic` with their records, and where the log ends."""
    rows = golden("basic").rows
    found = {}
    for row in rows:
        found.setdefault((row["topic"], row["queue_id"]), []).append((row["physical_offset"], row["size"]))
    one, other = sorted(found, key=lambda queue: -len(found[queue]))[:2]
    return (one, found[one]), (other, found[other]), rows[-1]["physical_offset"] + rows[-1]["size"]


def test_between_the_units(golden, queues):
    (one, first), (other, second), end = queues
    offsets = [(*one, 20, 30), (*other, 25, 40)]
    assert bounds(golden("basic").path, [one, other], offsets, end) == (
        min(first[20], second[25])[0],
        sum(max(first[30], second[40])),
    )


def test_every_queue_must_have_an_offset(golden, queues):
    (one, first), (other, _), end = queues
    path = golden("basic").path
    assert bounds(path, [one, other], [(*one, 20, 30)], end) == (0, end)
    assert bounds(path, [one], [(*one, LEAST, 30)], end) == (0, sum(first[30]))
    assert bounds(path, [one], [(*one, 20, MOST)], end) == (first[20][0], end)
    assert bounds(path, [], [], end) == (0, end)


def test_offsets_that_no_unit_has(golden, queues):
    (one, first), _, end = queues
    assert bounds(golden("basic").path, [one], [(*one, len(first), 10**9)], end) == (0, end)
    assert bounds(golden("basic").path, [("Nowhere", 0)], [("Nowhere", 0, 1, 2)], end) == (0, end)


def test_a_wrong_unit_is_not_believed(golden, queues, tmp_path):
    (one, first), _, end = queues
    path = golden("basic").copy(tmp_path)
    file = sorted((path / "consumequeue" / one[0] / str(one[1])).iterdir())[0]
    patch(file, 20 * 20, first[25][0].to_bytes(8, "big"))
    assert bounds(path, [one], [(*one, 20, MOST)], end) == (0, end)


def test_inside_an_inner_batch(golden):
    rows = golden("batch").rows
    row = next(r for r in rows if r["sys_flag"] & 128 and int(r["properties"]["INNER_NUM"]) > 3 and r["queue_offset"])
    queue = (row["topic"], row["queue_id"])
    end = rows[-1]["physical_offset"] + rows[-1]["size"]
    found = bounds(golden("batch").path, [queue], [(*queue, row["queue_offset"] + 2, MOST)], end)
    assert found == (row["physical_offset"], end)
    found = bounds(golden("batch").path, [queue], [(*queue, LEAST, row["queue_offset"] + 2)], end)
    assert found == (0, row["physical_offset"] + row["size"])

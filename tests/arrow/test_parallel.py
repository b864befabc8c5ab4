"""Several threads give the rows, errors, notes and damage of one walk, whatever the log holds, wherever it is cut."""

from pathlib import Path
from typing import Any

import pytest

from flintmq import scan_arrow
from flintmq.arrow.options import ScanOptions
from flintmq.arrow.parallel import own_bytes
from flintmq.arrow.scan import batches
from flintmq.arrow.schema import SCHEMA
from flintmq.errors import FlintError, UsageError
from flintmq.format import record
from flintmq.store.commitlog.end_of_log import StopFacts, read_facts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Report
from tests.compat.stores import Golden
from tests.support.arrow_rows import rows_of, store_of
from tests.support.kernel_records import COUNTING, records
from tests.support.makers import flip

Outcome = tuple[list[dict[str, Any]], str, Report]


def outcome(path: Path, threads: int, facts: StopFacts | None = None, **options: Any) -> Outcome:
    """(rows up to an error, the error, what was reported)."""
    log = LogFiles.discover([str(path / "commitlog")])
    report = Report()
    rows, error = [], ""
    source = batches(
        log,
        SCHEMA,
        options=ScanOptions(threads=threads, max_rows=10, **options),
        facts=facts or read_facts(str(path)),
        report=report,
    )
    try:
        for batch in source:
            rows += rows_of(batch)
    except FlintError as problem:
        error = f"{type(problem).__name__}: {problem}"
    return rows, error, report


def assert_same(path: Path, segment_bytes: int, **options: Any) -> Outcome:
    """Three threads give what one gives. Before an error a batch that is not full is not given out, so a few batches
    may be missing there."""
    plain = outcome(path, 1, **options)
    several = outcome(path, 3, segment_bytes=segment_bytes, **options)
    assert several[1:] == plain[1:]
    if plain[1]:
        shorter = min(len(plain[0]), len(several[0]))
        assert plain[0][:shorter] == several[0][:shorter]
        assert abs(len(plain[0]) - len(several[0])) < 10 * 3
    else:
        assert several[0] == plain[0]
    return plain


@pytest.mark.parametrize("segment_bytes", [900, 20_000])
def test_golden_stores(golden_store: Golden, segment_bytes: int) -> None:
    for strict in (True, False):
        assert_same(golden_store.path, segment_bytes, strict=strict)


def test_every_kind_of_access_and_range(golden: Any) -> None:
    store = golden("rolled")
    offsets = [row["physical_offset"] for row in store.rows]
    for access in ("pread", "map"):
        rows, error, _ = assert_same(store.path, 5000, access=access)
        assert (len(rows), error) == (374, "")
        for begin, end in (
            (offsets[10], offsets[300]),
            (0, offsets[5]),
            (offsets[200], None),
            (offsets[3], offsets[3]),
        ):
            assert_same(store.path, 700, access=access, begin=begin, end=end)
    wrong = assert_same(store.path, 700, end=offsets[-1] + 10_000)
    assert "CorruptStoreError" in wrong[1], "an end that the log does not reach"


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.99])
def test_damage(golden: Any, tmp_path: Path, at: float) -> None:
    path = golden("basic").copy(tmp_path)
    row = golden("basic").rows[int(at * 3000)]
    file = max(f for f in (path / "commitlog").iterdir() if int(f.name) <= row["physical_offset"])
    flip(file, row["physical_offset"] - int(file.name) + 5, 0x40)
    _, error, _ = assert_same(path, 10_000)
    assert str(file) in error
    rows, error, report = assert_same(path, 10_000, strict=False)
    assert (len(rows), error, report.damage_count) == (2999, "", 1)


def test_a_missing_file(golden: Any, tmp_path: Path) -> None:
    path = golden("basic").copy(tmp_path)
    sorted((path / "commitlog").iterdir())[2].unlink()
    assert "gap" in assert_same(path, 10_000)[1]
    assert assert_same(path, 10_000, strict=False)[2].damage_count == 1


def test_a_record_inside_a_body_is_no_boundary(tmp_path: Path) -> None:
    """A producer stored a record that carries the very offset at which it comes to lie."""
    plain, positions = records(*[{}] * 50)
    inner = record.encode(
        record.Record(physical_offset=len(plain) + 88 + 300, body_crc=record.crc(b"x"), body=b"x", topic=b"I")
    )
    store = store_of(tmp_path / "s", *[{}] * 50, {"body": bytes(300) + inner + bytes(5000)}, *[{}] * 50)
    for segment_bytes in (len(plain) + 100, len(plain) // 2 + 150, 400):
        rows, error, _ = assert_same(store, segment_bytes)
        assert (len(rows), error) == (101, "")


@pytest.mark.parametrize("step", [1, 20, 39])
def test_store_time_that_steps_back(tmp_path: Path, step: int) -> None:
    """At a clock that was set back the log goes on, whatever the checkpoint says; a proven stale tail ends it."""

    def store(name: str, repeated: int) -> Path:
        changes = [
            {
                "store_timestamp": 1000 + n - (500 if n >= step else 0),
                "queue_offset": 7 + n - (repeated if n >= step else 0),
                "body": b"x" * 100,
            }
            for n in range(40)
        ]
        return store_of(tmp_path / name, *changes)

    live, stale = store("live", 0), store("stale", 1)
    for segment_bytes in (1, 300, 3000):
        for path, facts in (
            (live, StopFacts(clean=True)),
            (live, StopFacts(clean=True, physic_time=10_000)),
            (stale, StopFacts(clean=True)),
        ):
            rows, _, report = assert_same(path, segment_bytes, facts=facts)
            assert len(rows) == 40 and report.note_counts["time_step"] == 1
        rows, _, report = assert_same(stale, segment_bytes, facts=StopFacts(clean=True, physic_time=10_000))
        assert len(rows) == step and report.note_counts["stale_tail"] == 1


def test_tails(tmp_path: Path) -> None:
    data, positions = records(*COUNTING * 3)
    for number, tail in enumerate((b"", b"\xff" * 5000, data[:100], bytes(600) + b"junk")):
        folder = tmp_path / str(number) / "commitlog"
        folder.mkdir(parents=True)
        (folder / ("0" * 20)).write_bytes((data + tail).ljust(1 << 18, b"\0"))
        for strict in (True, False):
            rows, _, _ = assert_same(folder.parent, 2000, strict=strict)
            assert len(rows) == len(positions) or strict


def test_a_body_that_cannot_be_decompressed_is_met_in_order(tmp_path: Path) -> None:
    changes = [{"body": b"%d" % n} for n in range(50)] + [{"body": b"junk", "sys_flag": 0x301}]
    store = store_of(tmp_path / "s", *changes)
    rows, error, _ = assert_same(store, 500, decompress=True)
    assert "cannot" in error or "ZLIB" in error
    assert [row["body"] for row in rows] == [b"%d" % n for n in range(len(rows))]


def test_a_reader_that_is_given_up(golden: Any) -> None:
    log = LogFiles.discover([str(golden("basic").path / "commitlog")])
    source = batches(log, SCHEMA, options=ScanOptions(threads=3, segment_bytes=1000, max_rows=5))
    assert next(source).num_rows == 5
    source.close()


def test_how_many_threads(golden: Any) -> None:
    for threads in (1, 2, 5):
        assert scan_arrow(golden("basic").path, threads=threads).read_all().num_rows == 3000
    with pytest.raises(UsageError, match="threads"):
        scan_arrow(golden("basic").path, threads=0)


def test_bytes_that_columns_share_count_once(golden: Any) -> None:
    (batch,) = scan_arrow(golden("basic").path, ["body", "keys", "msg_id"], views=True)
    held = sum(buffer.size for buffer in batch.column(0).buffers()[2:])
    bits = sum(buffer.size for column in batch.columns for buffer in column.buffers()[:1] if buffer is not None)
    assert own_bytes(batch) == held + 3 * 16 * batch.num_rows + bits
    (copied,) = scan_arrow(golden("basic").path, ["size", "queue_offset"])
    assert own_bytes(copied) == 12 * copied.num_rows

"""Cutting a log: every record in exactly one range, wherever the cuts are wanted."""

import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from flintmq.errors import CorruptStoreError
from flintmq.lake.read import splits
from flintmq.lake.read.splits import (
    SPLIT_BYTES_LEAST,
    SPLIT_BYTES_MOST,
    LogRange,
    check_end,
    equal_ranges,
    resolve_cuts,
    shares,
    split_count,
    walk_count,
    wanted_runs,
)
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.commitlog.zones import Skip
from tests.store.commitlog.test_log_end import Far
from tests.support.makers import hurt_body


def files_of(path):
    return LogFiles.discover([str(path / "commitlog")])


def offsets(log, part, **how):
    """Physical offsets of the records of one range, its end checked."""
    walk = LogWalk(log, begin=part.begin, end=part.end, **how)
    found = [piece.base + at for piece in walk for at in piece.positions[: piece.count]]
    return found, walk


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 61, 400])
@pytest.mark.parametrize("name", ["basic", "rolled", "flags", "batch"])
def test_each_record_is_in_one_range(golden, name, count):
    store = golden(name)
    log = files_of(store.path)
    end = find_end(log).offset
    parts = equal_ranges(log, 0, end, count)
    assert len(parts) == count
    assert parts[0].begin == log.min_offset and parts[-1].end == end
    assert all(one.end == other.begin for one, other in pairwise(parts))
    seen = []
    for part in parts:
        found, walk = offsets(log, part)
        check_end(walk, log, part.end, end)
        assert all(part.begin <= offset < part.end for offset in found)
        seen += found
    assert seen == [row["physical_offset"] for row in store.rows]


def test_ranges_have_about_equal_bytes(golden):
    log = files_of(golden("basic").path)
    end = find_end(log).offset
    spans = [part.end - part.begin for part in equal_ranges(log, 0, end, 4)]
    assert max(spans) - min(spans) < 4096


def test_a_log_without_records_has_empty_ranges(tmp_path):
    (tmp_path / "commitlog").mkdir()
    assert equal_ranges(files_of(tmp_path), 0, 0, 3) == [LogRange(0, 0)] * 3


def test_a_cut_in_a_missing_file_goes_to_the_next(golden, tmp_path):
    """Else the range would begin where no file is, and what follows would be lost without a word."""
    path = golden("basic").copy(tmp_path)
    files = sorted((path / "commitlog").iterdir())
    gone = int(files[2].name)
    files[2].unlink()
    log = files_of(path)
    end = find_end(log).offset
    parts = equal_ranges(log, 0, end, 40)
    assert not any(gone <= part.begin < int(files[3].name) for part in parts)
    report = Report()
    kept = [offset for part in parts for offset in offsets(log, part, strict=False, report=report)[0]]
    rows = [row["physical_offset"] for row in golden("basic").rows]
    assert kept == [offset for offset in rows if not gone <= offset < int(files[3].name)]
    assert [(damage.offset, damage.lost) for damage in report.damages] == [(gone, int(files[3].name) - gone)]


def test_damage_at_a_cut_is_met_by_one_range(golden, tmp_path):
    """Whatever record is bad, both neighbours agree on the next good one."""
    path = golden("basic").copy(tmp_path)
    rows = golden("basic").rows
    bad = next(row for row in rows[len(rows) // 2 :] if row["body_length"] > 8)
    hurt_body(path, bad["physical_offset"])
    log = files_of(path)
    end = find_end(log).offset
    report = Report()
    kept = []
    for part in equal_ranges(log, 0, end, 400):  # some cut falls into the bad record or just before it
        found, walk = offsets(log, part, strict=False, report=report)
        check_end(walk, log, part.end, end)
        kept += found
    assert kept == [row["physical_offset"] for row in rows if row is not bad]
    assert [damage.offset for damage in report.damages] == [bad["physical_offset"]]


def test_a_record_inside_a_body_does_not_pass(golden, tmp_path):
    """A body that holds a record made for just its place: the range before the cut finds out."""
    path = golden("flags").copy(tmp_path)
    log = files_of(path)
    end = find_end(log).offset
    rows = golden("flags").rows
    outer = next(row for row in rows if row["body_length"] > 1000 and row["sys_flag"] == 0)["physical_offset"]
    file = log.find(outer)
    data = bytearray(Path(file.path).read_bytes())
    start, size = outer - file.start, next(row["body_length"] for row in rows if row["physical_offset"] == outer)
    hidden = start + 88 + 200
    small = min((row for row in rows if log.find(row["physical_offset"]) == file), key=lambda row: row["size"])
    at = small["physical_offset"] - file.start
    inner = data[at : at + small["size"]]
    inner[28:36] = (file.start + hidden).to_bytes(8, "big")
    data[hidden : hidden + len(inner)] = inner
    body_crc = zlib.crc32(data[start + 88 : start + 88 + size]) & 0x7FFFFFFF
    data[start + 8 : start + 12] = body_crc.to_bytes(4, "big")
    Path(file.path).write_bytes(data)

    assert first_record(log, file.start + hidden - 5) == file.start + hidden
    found, walk = offsets(log, LogRange(log.min_offset, file.start + hidden))
    assert found[-1] == outer
    with pytest.raises(CorruptStoreError, match="looks like a record of its own"):
        check_end(walk, log, file.start + hidden, end)


@pytest.mark.parametrize(
    "span, cores, least, count",
    [
        (0, 2, 1, 1),
        (1, 2, 7, 7),
        (2 * SPLIT_BYTES_LEAST, 2, 1, 2),
        (100 << 20, 2, 1, 4),
        (10 << 30, 2, 1, 80),
        (SPLIT_BYTES_MOST * 8 + 1, 2, 1, 10),  # not nine: one core would wait for the other
        (10 << 30, 64, 1, 128),
        (10 << 30, 2, 1000, 1000),
    ],
)
def test_split_count(span, cores, least, count):
    assert split_count(span, cores, least) == count


@pytest.mark.parametrize(
    ("span", "cores", "count"), [(4 << 30, 2, 4), (1, 2, 1), (16 << 20, 2, 2), (10 << 30, 2, 10), (10 << 30, 16, 32)]
)
def test_walk_count(span, cores, count):
    assert walk_count(span, cores) == count


@pytest.mark.parametrize("count", [1, 2, 7, 61])
@pytest.mark.parametrize("name", ["basic", "rolled", "flags", "batch"])
def test_from_afar_tasks_make_the_same_cuts(golden, name, count):
    """Each with the files alone that it needs, and planning reads nothing."""
    near = files_of(golden(name).path)
    end, far = find_end(near).offset, Far()
    log = replace(near, effects=far)
    parts = shares(log, 0, end, count)
    assert far.read == 0
    made = [resolve_cuts(splits.files_of(log, part), part, end) for part in parts]
    assert made == equal_ranges(near, 0, end, count)
    assert shares(near, 0, end, count) == made and resolve_cuts(near, made[0], end) is made[0]


def test_a_gap_between_files_is_seen_by_the_task_before_it(golden, tmp_path):
    path = golden("basic").copy(tmp_path)
    (path / "commitlog" / "00000000000000131072").unlink()
    log = replace(files_of(path), effects=Far())
    parts = shares(log, 0, find_end(files_of(path)).offset, 40)
    with pytest.raises(CorruptStoreError, match="gap of 131072 bytes"):
        for part in parts:
            narrow = splits.files_of(log, part)
            offsets(narrow, resolve_cuts(narrow, part, parts[-1].end))


SKIPS = [Skip(0, 10, 0, 0), Skip(20, 80, 0, 0), Skip(90, 95, 0, 0), Skip(97, 120, 0, 0)]


@pytest.mark.parametrize(
    ("begin", "end", "most", "runs"),
    [
        (0, 130, 9, [(10, 20), (80, 90), (95, 97), (120, 130)]),
        (0, 120, 9, [(10, 20), (80, 90), (95, 97)]),
        (0, 130, 2, [(0, 20), (80, 130)]),
        (0, 130, 1, [(0, 130)]),
        (5, 100, 9, [(5, 20), (80, 90), (95, 100)]),
        (20, 80, 9, [(80, 80)]),
        (20, 80, 1, [(20, 80)]),
        (7, 7, 9, [(7, 7)]),
    ],
)
def test_runs_between_skips(begin, end, most, runs):
    """What is skipped must lie within the range; the longest skips count."""
    assert wanted_runs(begin, end, SKIPS, most) == runs

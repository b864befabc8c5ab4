"""Cuts a log into ranges for tasks, at record starts, so that neighbouring tasks agree.

A cut is wanted at some byte position, and made at the first valid record there or later in the same file
(`resync.first_record`). A range owns the records that start in it. The end of the log is found once, when the
ranges are made: records written later are not read.

The body of a message may contain bytes that look like a record at exactly that position. The range before such a cut
reveals it: its walk does not end at the cut but after it. So each walk checks where it ends (`check_end`), and by
induction every cut is right or the job fails.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from flintmq.arrow.vanished import has_vanished
from flintmq.errors import CorruptStoreError
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.commitlog.zones import Skip

SPLIT_BYTES_LEAST = 8 << 20  # a task for less costs more than its read
SAMPLES, SAMPLE_BYTES = 4, 64 << 10  # of the log, to estimate the size of records
SPLIT_BYTES_MOST = 128 << 20  # as spark.sql.files.maxPartitionBytes
# Of a task that walks the log and gives Spark no rows, some 0.2 s from memory: what Spark adds to a task, 10 ms, was a
# third of a rebuild with the size above (experiments/2026-11-25-tasks-that-walk.md).
WALK_BYTES_MOST = 1 << 30


@dataclass(frozen=True, slots=True)
class LogRange:
    """A range of log offsets [begin, end). Empty if begin == end.

    `wanted`: begin and end are wanted positions; the task that reads the range makes the cuts (`resolve_cuts`).
    """

    begin: int  # log offset of the first byte of a record, unless `wanted`
    end: int
    wanted: bool = False


def split_count(span: int, cores: int, least: int = 1, most_bytes: int = SPLIT_BYTES_MOST) -> int:
    """Return how many ranges to make: as many for each core, none tiny, none huge, or `least`."""
    a_core = max(2, -(-span // (most_bytes * cores)))  # one range more, and all cores but one wait for it
    wanted = cores * a_core
    return max(least, min(wanted, span // SPLIT_BYTES_LEAST), 1)


def walk_count(span: int, cores: int) -> int:
    """Return how many ranges to make for tasks that walk them and give Spark no rows."""
    return split_count(span, cores, most_bytes=WALK_BYTES_MOST)


def estimated_records(log: LogFiles, begin: int, end: int) -> int:
    """Estimate how many records start in [begin, end), from samples at four places."""
    records = size = 0
    for part in equal_ranges(log, begin, end, SAMPLES):
        stop = min(part.end, part.begin + SAMPLE_BYTES)
        for piece in LogWalk(log, begin=part.begin, end=stop, strict=False) if stop > part.begin else ():
            records, size = records + piece.count, size + piece.end - piece.positions[0]
    return -(-(end - begin) * records // size) if size else 0


def equal_ranges(log: LogFiles, begin: int, end: int, count: int) -> list[LogRange]:
    """Cut [begin, end) into exactly `count` ranges of similar size, some of them perhaps empty.

    `begin`: log offset of the first byte of a record, or the log's minimum.
    """
    assert count > 0
    begin = min(max(begin, log.min_offset), end)
    cuts = [begin]
    for number in range(1, count):
        wanted = begin + (end - begin) * number // count
        # A record that is larger than a range contains several wanted cuts: they become one.
        cuts.append(cuts[-1] if wanted <= cuts[-1] else min(_record_start(log, wanted), end))
    cuts.append(end)
    assert len(cuts) == count + 1 and cuts == sorted(cuts)  # exactly `count` ranges, none of them backwards
    return [LogRange(one, other) for one, other in pairwise(cuts)]


def shares(log: LogFiles, begin: int, end: int, count: int) -> list[LogRange]:
    """Cut [begin, end) like `equal_ranges`, but leave the cuts of a remote log to the tasks.

    Planning then reads nothing of the log, however many ranges there are. Each task makes its two cuts by
    `resolve_cuts`; a cut depends on the log alone, so neighbours agree on it.
    """
    if not log.effects.remote:
        return equal_ranges(log, begin, end, count)
    begin = min(max(begin, log.min_offset), end)
    cuts = [begin + (end - begin) * number // count for number in range(count + 1)]
    return [LogRange(one, other, wanted=True) for one, other in pairwise(cuts)]


def wanted_runs(begin: int, end: int, skips: Sequence[Skip], most: int) -> list[tuple[int, int]]:
    """Return [begin, end) without the longest ranges to skip, as runs."""
    inside = [skip for skip in skips if begin <= skip.begin and skip.end <= end]
    longest = sorted(inside, key=lambda skip: skip.begin - skip.end)[: max(most - 1, 0)]
    runs = []
    for skip in sorted(longest, key=lambda skip: skip.begin):
        if begin < skip.begin:
            runs.append((begin, skip.begin))
        begin = skip.end
    return [*runs, (begin, end)] if begin < end or not runs else runs


def resolve_cuts(log: LogFiles, part: LogRange, log_end: int) -> LogRange:
    """Replace the wanted positions of a range by the cuts made there."""
    if not part.wanted:
        return part
    known = (log.min_offset, log_end)
    begin, end = (at if at in known else min(_record_start(log, at), log_end) for at in (part.begin, part.end))
    return LogRange(begin, end)


def deleted_before(log: LogFiles, wanted: LogRange, made: LogRange) -> LogFile | None:
    """Return the deleted file in which a range was wanted to begin, or None.

    The cut is after it then. The task before may have made the same cut while the file was there, so it does not answer
    for the rest.
    """
    file = log.find(wanted.begin) if wanted.wanted else None
    if file is None or made.begin < file.start + file.size or log.effects.size(file.path) is not None:
        return None
    return file


def files_of(log: LogFiles, part: LogRange) -> LogFiles:
    """Reduce the log to the files of a range and the next one, which shows a gap in between.

    A task then receives a small value, however long the log is.
    """
    first = bisect_right(log.files, part.begin, key=lambda file: file.start)
    after = bisect_right(log.files, part.end, key=lambda file: file.start)
    return replace(log, files=log.files[max(first - 1, 0) : after + 1])


def check_end(walk: LogWalk, log: LogFiles, cut_at: int, log_end: int) -> None:
    """Compare where a walk over a range ended with the cut at the end of the range.

    A walk goes on after a file that was deleted; the cut in it says nothing then.

    Raises CorruptStoreError: the walk passed the cut, so the next range begins inside a record.
    """
    if walk.position <= cut_at or cut_at >= log_end:
        return
    file = log.find(cut_at)
    if file is None or file.start == cut_at or has_vanished(walk.report, file):
        return
    raise CorruptStoreError(
        file.path,
        cut_at - file.start,
        "part of a record looks like a record of its own, and the log was split there",
        "read with other splits (minPartitions)",
    )


def _record_start(log: LogFiles, offset: int) -> int:
    """Return where a range begins that is wanted from this offset on: never between two files."""
    found = first_record(log, offset)
    if log.find(found) is not None:
        return found
    return next((file.start for file in log.files if file.start > found), found)


def cores() -> int:
    """Count the processors that this process may use; planning does not know the cluster's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

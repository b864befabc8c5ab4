"""Cut a log into ranges for tasks, at record starts, so that neighbouring tasks agree on who reads what.

A cut is wanted at some byte position, and made at the first record that counts there or later in the same file
(`resync.first_record`). A range owns the records that start in it. The end of the log is found once, when the
ranges are made: what is written afterwards is not read.

A body may hold bytes that pass for a record of just this place. The range before the cut sees through it: its walk
does not end at the cut but behind it. So each walk checks where it ends (`check_end`), and by induction every cut is
right or the job fails.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

from flintmq.errors import CorruptStoreError
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.walk import LogWalk

SPLIT_BYTES_LEAST = 8 << 20  # below that a task costs more than what it reads
SAMPLES, SAMPLE_BYTES = 4, 64 << 10  # of the log, to learn how large records are
SPLIT_BYTES_MOST = 128 << 20  # as spark.sql.files.maxPartitionBytes


@dataclass(frozen=True, slots=True)
class LogRange:
    """Log offsets [begin, end); begin is a record's first byte. Empty where begin == end.

    Attributes:
        wanted: the cuts are wanted here, and made where the range is read (`resolve_cuts`).
    """

    begin: int
    end: int
    wanted: bool = False


def split_count(span: int, cores: int, least: int = 1) -> int:
    """How many ranges a span of bytes should have: two a core, none tiny, none huge, and at least `least`."""
    wanted = max(2 * cores, -(-span // SPLIT_BYTES_MOST))
    return max(least, min(wanted, span // SPLIT_BYTES_LEAST), 1)


def estimated_records(log: LogFiles, begin: int, end: int) -> int:
    """About how many records start in [begin, end): by the sizes of some at four places.

    Raises:
        StoreAccessError: a file may not be read.
    """
    records = size = 0
    for part in equal_ranges(log, begin, end, SAMPLES):
        stop = min(part.end, part.begin + SAMPLE_BYTES)
        for piece in LogWalk(log, None, part.begin, stop, strict=False) if stop > part.begin else ():
            records, size = records + piece.count, size + piece.end - piece.positions[0]
    return -(-(end - begin) * records // size) if size else 0


def equal_ranges(log: LogFiles, begin: int, end: int, count: int) -> list[LogRange]:
    """Exactly `count` ranges that together are [begin, end), of about equal bytes; some are empty in a small log.

    Args:
        log: the files.
        begin: first byte of a record, or the log's minimum.
        end: where the log ends for this job.
        count: at least 1.

    Raises:
        StoreAccessError: a file may not be read.
    """
    begin = min(max(begin, log.min_offset), end)
    cuts = [begin]
    for number in range(1, count):
        wanted = begin + (end - begin) * number // count
        # A record that is larger than a range holds several wanted cuts: they fall together.
        cuts.append(cuts[-1] if wanted <= cuts[-1] else min(_record_start(log, wanted), end))
    cuts.append(end)
    return [LogRange(one, other) for one, other in pairwise(cuts)]


def shares(log: LogFiles, begin: int, end: int, count: int) -> list[LogRange]:
    """The same ranges; but of a log on object storage each task makes its two cuts itself, by `resolve_cuts`.

    So planning reads nothing of the log, however many ranges there are; a cut is a function of the log alone, and
    neighbours agree on it.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if not log.effects.remote:
        return equal_ranges(log, begin, end, count)
    begin = min(max(begin, log.min_offset), end)
    cuts = [begin + (end - begin) * number // count for number in range(count + 1)]
    return [LogRange(one, other, wanted=True) for one, other in pairwise(cuts)]


def resolve_cuts(log: LogFiles, part: LogRange, log_end: int) -> LogRange:
    """The range between the cuts that were wanted at the ends of a range.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if not part.wanted:
        return part
    known = (log.min_offset, log_end)
    begin, end = (at if at in known else min(_record_start(log, at), log_end) for at in (part.begin, part.end))
    return LogRange(begin, end)


def files_of(log: LogFiles, part: LogRange) -> LogFiles:
    """The log with the files alone that a range needs, and the next one, which shows a gap behind it.

    What goes to a task stays small so, however long the log is.
    """
    first = bisect_right(log.files, part.begin, key=lambda file: file.start)
    behind = bisect_right(log.files, part.end, key=lambda file: file.start)
    return replace(log, files=log.files[max(first - 1, 0) : behind + 1])


def check_end(walk: LogWalk, log: LogFiles, cut_at: int, log_end: int) -> None:
    """Compare where a walk over a range ended with the cut behind it.

    Raises:
        CorruptStoreError: the walk passed over the cut, so what the next range begins with is part of a record.
    """
    if walk.position <= cut_at or cut_at >= log_end:
        return
    file = log.find(cut_at)
    if file is None or file.start == cut_at:
        return
    raise CorruptStoreError(
        file.path,
        cut_at - file.start,
        "part of a record looks like a record of its own, and the log was split there",
        "read with other splits (minPartitions)",
    )


def _record_start(log: LogFiles, offset: int) -> int:
    """Where a range begins that is wanted from this offset on: never between two files."""
    found = first_record(log, offset)
    if log.find(found) is not None:
        return found
    return next((file.start for file in log.files if file.start > found), found)


def cores() -> int:
    """Processors that this process may use; planning knows nothing of the cluster's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

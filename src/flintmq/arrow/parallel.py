"""One scan on several threads, with the rows, notes and errors of a single walk.

Goal: use the processor's cores; the kernels hold no lock of the interpreter. Plan: cut the log into segments at records
(the boundary on which neighbouring splits agree), read each on a thread, and give out their batches in order. A segment
counts only if its walk went from its begin exactly to its end with nothing to judge on the way. At the first that did
not (the log's end, damage, a body that holds something like a record, a store time that steps back), everything
from there on is read again by one plain walk, which judges as it always does. So nothing is decided twice.

What is given out holds back at most a few segments; bodies that expand when decompressed are not read this way.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from flintmq.errors import FlintError
from flintmq.kernels.walk import CHECK_TIME
from flintmq.store.log import LogWalk, Piece
from flintmq.store.log_files import LogFiles
from flintmq.store.report import Report
from flintmq.store.search import first_record, store_times

SEGMENT_BYTES = 8 << 20
MOST_THREADS = 4

Walk = Callable[[int, int | None, Report], LogWalk]
"""Makes a walk over a range of the log: begin, end, what takes damage and notes."""

Gather = Callable[[Iterable[Piece], Report], Iterator[pa.RecordBatch]]
"""Makes batches of pieces."""


def usable_threads() -> int:
    """How many threads a scan uses unless it is told."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


@dataclass
class _Segment:
    """What one thread read.

    Attributes:
        begin, end: log offsets.
        batches: its rows.
        report: what was noted on the way.
        first_time, last_time: store times in ms of its first and last record; None without records.
        whole: whether there was nothing to judge.
    """

    begin: int
    end: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    first_time: int | None = None
    last_time: int | None = None
    whole: bool = False


def parallel_batches(
    log: LogFiles,
    begin: int,
    end: int | None,
    walk: Walk,
    gather: Gather,
    *,
    threads: int,
    report: Report,
    segment_bytes: int = SEGMENT_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Batches of the records that begin in [begin, end), as `gather(walk(begin, end, report), report)` gives them.

    Args:
        log: the files.
        begin: log offset of a record, or at or below the log's minimum.
        end: log offset to stop before; None for the log's end.
        walk, gather: how a range is read. Called on several threads at once.
        threads: how many.
        report: takes notes and damage.
        segment_bytes: about how long a segment is.

    Raises:
        Whatever `walk` and `gather` raise, at the row where they would.
    """
    begin = max(begin, log.min_offset)
    timed = end is None  # as a walk does, store times are compared where the log's end is to be found
    done, last_time = begin, 0
    segments = _segments(log, begin, log.limit if end is None else end, segment_bytes)
    pending: deque[Future[_Segment]] = deque()
    with ThreadPoolExecutor(threads, "flintmq-scan") as pool:
        try:
            while True:
                for segment in segments:
                    pending.append(pool.submit(_read, segment, walk, gather, timed))
                    if len(pending) > threads:
                        break
                if not pending:
                    break
                read = pending.popleft().result()
                if not read.whole or (timed and read.first_time is not None and read.first_time < last_time):
                    break
                yield from read.batches
                done, last_time = read.end, last_time if read.last_time is None else read.last_time
        finally:
            for future in pending:
                future.cancel()
    if end is None or done < end:
        rest = walk(done, end, report)
        rest.last_time = last_time
        yield from gather(rest, report)


def _segments(log: LogFiles, begin: int, end: int, segment_bytes: int) -> Iterator[_Segment]:
    """Ranges from `begin` on, each within one file. They end before a file behind which one is missing."""
    for number, file in enumerate(log.files):
        stop = file.start + max(file.size, log.file_size)
        following = log.files[number + 1].start if number + 1 < len(log.files) else stop
        if stop <= begin:
            continue
        if file.start > begin or following > stop or begin >= end:
            return
        while begin < min(stop, end):
            cut = first_record(log, begin + segment_bytes) if begin + segment_bytes < stop else stop
            segment = _Segment(begin, min(cut, stop, end))
            yield segment
            begin = segment.end


def _read(segment: _Segment, walk: Walk, gather: Gather, timed: bool) -> _Segment:
    """Read a segment on its own. Errors are left to the plain walk that follows."""
    source = walk(segment.begin, segment.end, segment.report)
    if timed:
        source.flags |= CHECK_TIME
    try:
        with closing(_watched(source, segment)) as pieces:
            segment.batches = list(gather(pieces, segment.report))
    except FlintError:
        return segment
    segment.whole = source.position == segment.end and not segment.report.notes and not segment.report.damage_count
    return segment


def _watched(source: LogWalk, segment: _Segment) -> Generator[Piece, None, None]:
    """The pieces of a walk, with the store times of its first and last record taken down."""
    for piece in source:
        if segment.first_time is None:
            segment.first_time = next(store_times(piece.data, piece.positions, 1))
        yield piece
    if segment.first_time is not None:
        segment.last_time = source.last_time

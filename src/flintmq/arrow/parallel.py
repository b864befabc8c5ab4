"""Scans a log on several threads, with the rows, notes and errors of a single walk.

Goal: use all cores; the kernels release the GIL. Plan: cut the log into segments at records (at the boundaries on
which neighbouring splits agree), read each on a thread, and yield their batches in order. A segment is used only if its
walk went from its begin exactly to its end with nothing to judge on the way. From the first segment that did not (the
log's end, damage, a body that contains something like a record, a store time that decreases), everything is read again
by one plain walk, which judges as it always does. So there is only one place that decides.

Segments are cut so that each yields about one batch: one per thread and one more are held. Bodies that expand when
decompressed are not read this way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from flintmq.arrow.batches import joined
from flintmq.arrow.options import ScanOptions
from flintmq.arrow.vanished import accounted
from flintmq.errors import FlintError
from flintmq.format.record_view import store_times
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.walk import LogWalk, Piece

SHORTEST = 1 << 20
ENOUGH_ROWS = 8192  # for a separate batch

Walk = Callable[[int, int | None, Report], LogWalk]
"""Makes a walk over a range of the log: begin, end, report for damage and notes."""

Gather = Callable[[Iterable[Piece], Report], Iterator[pa.RecordBatch]]
"""Makes batches from pieces."""


@dataclass
class _Segment:
    """A range of the log that one thread reads, and its result.

    `first_time`, `last_time`: store times in ms of its first and last record; None without records.
    """

    begin: int
    end: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    first_time: int | None = None
    last_time: int | None = None
    whole: bool = False  # whether its walk had nothing to judge


def parallel_batches(
    log: LogFiles, walk: Walk, gather: Gather, options: ScanOptions, report: Report
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the records that begin in [begin, end), read on several threads.

    The rows are those of `gather(walk(begin, end, report), report)`.

    `walk`, `gather`: read a range. Called on several threads at once.
    """
    begin, end = max(options.begin, log.min_offset), options.end
    batch_bytes, longest, threads = options.batch_bytes, options.segment_bytes, options.threads
    assert threads > 0 < longest
    timed = end is None  # like a walk, compare store times where the log's end is to be found
    done, last_time = begin, 0
    cut = _Cut(min(longest, SHORTEST))
    segments = _segments(log, begin, log.limit if end is None else end, cut)
    pending: deque[Future[_Segment]] = deque()
    held: list[pa.RecordBatch] = []
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
                assert read.begin == done  # segments follow each other, without a record between them
                done, last_time = read.end, last_time if read.last_time is None else read.last_time
                taken = sum(map(own_bytes, read.batches))
                cut.length = _length(read.end - read.begin, taken, batch_bytes, longest)
                for batch in read.batches:
                    rows = sum(part.num_rows for part in held)
                    if rows >= ENOUGH_ROWS or rows + batch.num_rows > options.max_rows or 2 * taken >= batch_bytes:
                        yield from joined(held)
                        held = []
                    held.append(batch)
                del read
        finally:
            for future in pending:
                future.cancel()
    yield from joined(held)
    if end is None or done < end:
        rest = walk(done, end, report)
        rest.continue_at(rest.position, last_time)
        yield from gather(rest if options.strict else accounted(rest), report)


@dataclass
class _Cut:
    """The length of the next segment, in bytes of log."""

    length: int


def _length(log_bytes: int, batch_bytes: int, wanted: int, longest: int) -> int:
    """Estimate the length of log for a batch of the wanted size, from that of the last segment."""
    length = int(0.9 * wanted * log_bytes / max(1, batch_bytes))
    return min(max(length, SHORTEST), longest)


def own_bytes(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch's buffers.

    `nbytes` counts a buffer that columns of views share once for each of them.
    """
    buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]
    return sum({(buffer.address, buffer.size): buffer.size for buffer in buffers}.values())


def _segments(log: LogFiles, begin: int, end: int, cut: _Cut) -> Iterator[_Segment]:
    """Yield ranges from `begin` on, each within one file, until a file is missing."""
    for number, file in enumerate(log.files):
        stop = file.start + max(file.size, log.file_size)
        following = log.files[number + 1].start if number + 1 < len(log.files) else stop
        if stop <= begin:
            continue
        if file.start > begin or following > stop or begin >= end:
            return
        while begin < min(stop, end):
            following = first_record(log, begin + cut.length) if begin + cut.length < stop else stop
            segment = _Segment(begin, min(following, stop, end))
            yield segment
            begin = segment.end


def _read(segment: _Segment, walk: Walk, gather: Gather, timed: bool) -> _Segment:
    """Read a segment on its own. Errors are left to the plain walk that follows."""
    source = walk(segment.begin, segment.end, segment.report)
    if timed:
        source.check_times()
    try:
        with closing(_watched(source, segment)) as pieces:
            segment.batches = list(gather(pieces, segment.report))
    except FlintError:
        return segment
    segment.whole = source.position == segment.end and not segment.report.notes and not segment.report.damage_count
    return segment


def _watched(source: LogWalk, segment: _Segment) -> Generator[Piece, None, None]:
    """Yield the pieces of a walk, and record the store times of its first and last record."""
    for piece in source:
        if segment.first_time is None:
            segment.first_time = next(store_times(piece.data, piece.positions, 1))
        yield piece
    if segment.first_time is not None:
        segment.last_time = source.last_time

"""Scans the log of a store, or of several, into Arrow batches.

Both use the one walker, so their batches hold exactly the valid records, and stop at the end of the log.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from operator import index
from typing import Any

import pyarrow as pa

from flintmq.arrow.batches import record_batches
from flintmq.arrow.column_layout import Rates
from flintmq.arrow.members import rows_of_members
from flintmq.arrow.options import ScanOptions
from flintmq.arrow.parallel import parallel_batches
from flintmq.arrow.schema import has_views
from flintmq.arrow.vanished import accounted, refuse_vanished
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_integer
from flintmq.errors import UsageError
from flintmq.format.text import ms_of
from flintmq.storage.threads.mutex import Lock
from flintmq.store.commitlog.end_of_log import NO_FACTS, StopFacts
from flintmq.store.commitlog.files import MAX_RECORD, LogFiles
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import VANISHED, Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.commitlog.zones import skips_of, zones_for

WHOLE = ScanOptions()
Progress = Callable[[int, int], None]
"""Called with bytes of log done and in all."""

Queue = int | tuple[str, int] | tuple[str, int, int, int | None]
"""A queue id of any topic; a topic and a queue id; or these, the least queue offset and the one to stop before."""


def read_members(
    members: Sequence[Member],
    schema: pa.Schema,
    predicate: Predicate,
    options: ScanOptions,
    config: StoreConfig,
    report: Report | None = None,
    progress: Progress | None = None,
) -> pa.RecordBatchReader:
    """Read the logs of stores as one stream, as scan_arrow does, by a schema and a predicate.

    All stores are opened before the first row, so one that cannot be read fails the call. `progress` is called from
    time to time with the bytes of log done and in all, where one thread reads.
    """
    opened = {member: Snapshot.open(member.path, config) for member in members}
    for snapshot in opened.values():
        _check_begin(snapshot, options.begin)
    total = sum(map(_span, opened.values()))
    before = dict(zip(opened, accumulate((_span(one) for one in opened.values()), initial=0), strict=False))

    def rows_of(member: Member, inner: pa.Schema) -> Iterator[pa.RecordBatch]:
        done = None if progress is None else lambda read, _: progress(before[member] + read, total)
        snapshot = opened[member]
        return batches(snapshot.log, inner, predicate, options, facts=snapshot.facts, report=report, progress=done)

    return pa.RecordBatchReader.from_batches(schema, rows_of_members(members, schema, rows_of))


def _check_begin(snapshot: Snapshot, begin: int) -> None:
    """Check that a log offset to begin at is not within a record: it would look like damage."""
    log = snapshot.log
    file = log.find(begin)
    if begin <= log.min_offset or file is None or record_at(log, begin) is not None:
        return
    for width in _BEFORE:
        at = first_record(log, max(file.start, log.min_offset, begin - width))
        if at < begin:
            break
    while at < begin and (record := record_at(log, at)) is not None:
        after = at + record.size
        if after > begin:
            raise UsageError(
                f"begin {begin} is within a record of {snapshot.root}; the nearest records begin at {at} and {after}"
            )
        at = after


_BEFORE = (1 << 16, 1 << 20, MAX_RECORD)  # bytes of the log before an offset in which a record is looked for


def _span(snapshot: Snapshot) -> int:
    """Return the bytes from the begin of a log to the end of its files."""
    return snapshot.log.limit - snapshot.log.min_offset


def batches(
    log: LogFiles,
    schema: pa.Schema,
    predicate: Predicate | None = None,
    options: ScanOptions = WHOLE,
    *,
    facts: StopFacts = NO_FACTS,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the records that begin in the range of a log that the options name.

    Args:
        predicate: selects records; None for all.
        facts: contents of the store's small files; needed to find the log's end where the options have no `end`.
        progress: called from time to time with the bytes of log done and in all, where one thread reads.
    """
    report = report if report is not None else Report()
    rates, memory = Rates(), PieceMemory()
    zones = zones_for(log, predicate) if predicate is not None and options.zone_maps else None

    def walk(begin: int, end: int | None, report: Report) -> LogWalk:
        source = LogWalk(
            log,
            facts,
            begin,
            end,
            access=options.access,
            strict=options.strict,
            report=report,
            check_crc=options.check_crc,
        )
        if has_views(schema):
            source.keep_pieces(memory)
        return source

    def gather(pieces: Iterable[Piece], report: Report) -> Iterator[pa.RecordBatch]:
        return record_batches(pieces, schema, predicate, options, report, rates)

    if options.threads == 1 or options.decompress or (zones is not None and _skips_most(log, predicate)):
        one = walk(options.begin, options.end, report)
        one.use_zones(zones)
        pieces: Iterable[Piece] = one if options.strict else accounted(one)
        found = gather(pieces if progress is None else _watched(pieces, log, progress), report)
    else:
        found = parallel_batches(log, walk, gather, options, report)
    return _all_or_none(found, report) if options.strict else found


def _all_or_none(found: Iterator[pa.RecordBatch], report: Report) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, and fail after the last one if a log file was deleted meanwhile."""
    before = report.note_counts[VANISHED]
    yield from found
    if report.note_counts[VANISHED] > before:
        refuse_vanished(report, "read it again, or with strict=False (--skip-damage), which goes on without them")


def _skips_most(log: LogFiles, predicate: Predicate | None) -> bool:
    """Return whether one thread that skips reads less than half of the log."""
    skipped = sum(skip.end - skip.begin for skip in skips_of(log, predicate)) if predicate is not None else 0
    return 2 * skipped > log.limit - log.min_offset


def _watched(pieces: Iterable[Piece], log: LogFiles, progress: Progress) -> Iterator[Piece]:
    """Yield the same pieces, and after each report how far the log is read."""
    for piece in pieces:
        yield piece
        progress(piece.base + piece.end - log.min_offset, log.limit - log.min_offset)


def predicate_of(
    topics: str | Iterable[str] | None = None,
    queues: Iterable[Queue] | None = None,
    since: int | datetime | None = None,
    until: int | datetime | None = None,
    tags: str | Iterable[str] | None = None,
) -> Predicate:
    ids: list[int] = []
    pairs: list[tuple[str, int]] = []
    offsets = []
    for queue in _listed("queues", queues, "a list of ids, (topic, id) or (topic, id, first, stop)"):
        if not isinstance(queue, tuple):
            ids.append(_queue_id(queue, queue))
            continue
        if len(queue) not in (2, 4) or not isinstance(queue[0], str):
            raise UsageError(f"{queue!r:.60} is not a queue; {_QUEUE}")
        topic, queue_id = queue[0], _queue_id(queue[1], queue)
        pairs.append((topic, queue_id))
        if len(queue) == 4:
            first = _offset(queue[2], f"the first offset of {queue!r:.60}")
            offsets.append((topic, queue_id, first, MOST if queue[3] is None else _offset(queue[3], _stop_of(queue))))
    if ids and pairs:
        raise UsageError("queues are either all ids, or all of named topics")
    return Predicate(
        topics=_names("topics", topics),
        queue_ids=frozenset(ids) if queues is not None and not pairs else None,
        queues=frozenset(pairs) if pairs else None,
        offsets=tuple(offsets),
        since=_ms("since", since),
        until=_ms("until", until),
        tags=_names("tags", tags),
    )


_TEXTS = "a list of texts, or one text"
_QUEUE = "give an id, (topic, id) or (topic, id, first, stop)"


def _queue_id(value: object, queue: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UsageError(f"{queue!r:.60} is not a queue; {_QUEUE}")
    if not -(2**31) <= index(value) < 2**31:
        raise UsageError(f"{queue!r:.60} is not a queue: ids are below 2**31")
    return index(value)


def _offset(value: object, what: str) -> int:
    found = check_integer(what, value, "give a queue offset")
    if not LEAST <= found <= MOST:
        raise UsageError(f"{what} is {found}, which no queue has; give one below 2**63")
    return found


def _stop_of(queue: object) -> str:
    return f"the offset to stop before of {queue!r:.60}"


def _listed(what: str, values: Iterable[Any] | None, advice: str) -> list[Any]:
    if values is None:
        return []
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{what} is {values!r:.60}, of type {type(values).__name__}; give {advice}")
    return list(values)


def _names(what: str, names: str | Iterable[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    found = [names] if isinstance(names, str) else _listed(what, names, _TEXTS)
    for name in found:
        if not isinstance(name, str):
            raise UsageError(f"{what} has {name!r:.60}, of type {type(name).__name__}; give {_TEXTS}")
    return frozenset(found)


def _ms(what: str, time: int | datetime | None) -> int | None:
    if time is None:
        return None
    if not isinstance(time, datetime):
        found = check_integer(what, time, "give ms since 1970 or a datetime with a time zone")
        if not LEAST <= found <= MOST:
            raise UsageError(f"{what} is {found!r:.40}, which is no number of ms since 1970")
        return found
    if time.tzinfo is None:
        raise UsageError(f"{what} is {time}, which has no time zone; give one, such as datetime.UTC")
    return ms_of(time)


MOST_WATCHED = 64 << 20  # bytes of memory that is watched; what is beyond goes back to Arrow by itself


class PieceMemory:
    """Memory for the pieces of one scan; call it with a number of bytes. Thread: any.

    New memory costs page faults, so the next pieces get that of batches which their consumer has dropped. Each call
    wraps the memory in an object of its own, which every view of these bytes keeps alive, so the memory is free when
    that object is gone.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._watched: list[tuple[pa.Buffer, weakref.ref[pa.Buffer]]] = []  # the oldest first
        self._bytes = 0

    def __call__(self, size: int) -> memoryview:
        """Return writable memory of this many bytes, with any content."""
        with self._lock:
            memory = self._free(size)
            if memory is None:
                memory = pa.allocate_buffer(size)
                self._bytes += size
            lent = pa.py_buffer(memoryview(memory)[:size])
            self._watched.append((memory, weakref.ref(lent)))
            self._let_go()
        return memoryview(lent).cast("B")

    def _let_go(self) -> None:
        """Watch the oldest memory no longer where it is too much. The caller has the lock."""
        while self._bytes > MOST_WATCHED:
            self._bytes -= self._watched.pop(0)[0].size

    def _free(self, size: int) -> pa.Buffer | None:
        """Take memory of this size, or up to twice, that nothing refers to from the list."""
        for at, (memory, lent) in enumerate(self._watched):
            if size <= memory.size <= 2 * size and lent() is None:
                del self._watched[at]
                return memory
        return None

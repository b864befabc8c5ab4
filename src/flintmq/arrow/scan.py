"""Scans a store's log into Arrow batches, for users and for Spark's tasks.

Both use the one walker, so their batches hold exactly the valid records, and stop at the end of the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pyarrow as pa

from flintmq.arrow.batches import record_batches
from flintmq.arrow.column_layout import Rates
from flintmq.arrow.members import rows_of_members
from flintmq.arrow.options import BATCH_BYTES, ScanOptions
from flintmq.arrow.parallel import parallel_batches
from flintmq.arrow.piece_memory import PieceMemory
from flintmq.arrow.schema import SCHEMA, has_views, narrow, of_many, view_schema
from flintmq.cluster.member import Member
from flintmq.cluster.members import Stores, find_members
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.store.commitlog.end_of_log import NO_FACTS, StopFacts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk, Piece

WHOLE = ScanOptions()
Progress = Callable[[int, int], None]
"""Called with bytes of log done and in all."""

Queue = int | tuple[str, int] | tuple[str, int, int, int | None]
"""A queue id of any topic; a topic and a queue id; or these, the least queue offset and the one to stop before."""


def scan_arrow(
    path: Stores,
    columns: Sequence[str] | None = None,
    topics: str | Iterable[str] | None = None,
    queues: Iterable[Queue] | None = None,
    since: int | datetime | None = None,
    until: int | datetime | None = None,
    tags: str | Iterable[str] | None = None,
    *,
    decompress: bool = False,
    access: str = "pread",
    config: StoreConfig | str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    begin: int | None = None,
    end: int | None = None,
    strict: bool = True,
    report: Report | None = None,
    batch_bytes: int = BATCH_BYTES,
    threads: int = 1,
    views: bool = False,
) -> pa.RecordBatchReader:
    """Read a store's log as a stream of Arrow record batches, in physical order.

    Only the wanted columns of the wanted records are decoded and copied, one batch at a time, so a log of any size
    takes the memory of a few batches. Zeros or a torn or stale tail at the end of the log end the stream; see `strict`
    for damage before it.

    Args:
        path: the store's directory, with `commitlog/` in it; or a URL: `s3://bucket/store`, `file:///store`. Or
            several stores: a list of these, a pattern (`/data/{broker}/store`, `/data/*/store`), or a manifest
            (`cluster.toml`). Their rows come store by store, in the order of the brokers' names.
        columns: names of columns, in the order wanted; None for all (flintmq.COLUMNS; of several stores also broker and
            store).
        topics: only messages of this topic or these.
        queues: only messages of these: queue ids, (topic, queue id), or (topic, queue id, least queue offset, queue
            offset to stop before or None).
        since: least store time: ms since 1970, or a datetime with a time zone.
        until: store time to stop before.
        tags: only messages whose property TAGS is this or one of these.
        decompress: bodies as the producer gave them (up to 64 MiB each) instead of as stored.
        access: "pread", or "map": about twice as fast, but a file that another process shrinks kills this one.
        config: a StoreConfig or the path of a broker.conf, for settings that the files do not show.
        set: single RocketMQ keys, which override it.
        begin: log offset to begin at, that of a record.
        end: log offset to stop before; the log must reach it. Both are of one store.
        strict: fail at damage, at a body that cannot be decompressed, and where one of several named stores is not
            there; otherwise go on and report it.
        report: receives damage and notes.
        batch_bytes: approximate size of the columns of a batch; views hold up to twice as much of the log.
        threads: how many threads read. More than one takes more processor time in total, and some 30 MiB each; it can
            pay off if cores are idle. Bodies to decompress are read by one thread.
        views: bodies, tags, keys, msg_id and properties as views of the bytes read, topic, hosts and magic as
            dictionaries (the types of VIEW_SCHEMA), instead of copies. A batch, and each slice of one, then holds the
            part of the log that its rows came from; with access="map" that part stays mapped as long.

    Returns:
        A pyarrow.RecordBatchReader; it can be read once. Its schema is flintmq.arrow.schema.narrow(columns), with views
        that of VIEW_SCHEMA.

    Raises:
        UsageError: an unknown column, an impossible time, access, batch size or number of threads; this pyarrow makes
            no views; one name for two brokers, a manifest that is not understood, log offsets of several stores.
        ConfigError: an unknown RocketMQ key, or an impossible value.
        NotAStoreError, UnsupportedFormatError: the path is not a store that FlintMQ reads.
        StoreAccessError: a file may not be read (also while reading).
        CorruptStoreError: (while reading, strict) damage, with file and position.
        MissingExtraError: (while reading) a body needs a decompressor that is not installed.

    Thread: a reader belongs to one thread at a time.
    """
    checked, report = StoreConfig.of(config, set), report if report is not None else Report()
    whole = view_schema() if views else SCHEMA
    predicate = predicate_of(topics, queues, since, until, tags)
    options = ScanOptions(
        decompress=decompress,
        strict=strict,
        batch_bytes=batch_bytes,
        begin=begin or 0,
        end=end,
        access=access,
        threads=threads,
    )
    members = find_members(path, checked, strict=strict, report=report)
    if members is None:
        assert isinstance(path, (str, os.PathLike)), "a list is never a single store"
        return open_reader(path, narrow(columns, whole), predicate, options, checked, report)
    if begin is not None or end is not None:
        raise UsageError("begin and end are log offsets of one store; read several by since and until")
    return read_members(members, narrow(columns, of_many(whole)), predicate, options, checked, report)


def open_reader(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    predicate: Predicate,
    options: ScanOptions,
    config: StoreConfig,
    report: Report | None = None,
    progress: Progress | None = None,
) -> pa.RecordBatchReader:
    """Read a store's log as scan_arrow does, by a schema and a predicate.

    `progress` is called from time to time with the bytes of log done and in all, where one thread reads.
    """
    found = _batches_of(Snapshot.open(path, config), schema, predicate, options, report, progress)
    return pa.RecordBatchReader.from_batches(schema, found)


def read_members(
    members: Sequence[Member],
    schema: pa.Schema,
    predicate: Predicate,
    options: ScanOptions,
    config: StoreConfig,
    report: Report | None = None,
    progress: Progress | None = None,
) -> pa.RecordBatchReader:
    """Read the logs of several stores as one stream, as open_reader reads one.

    All stores are opened before the first row, so one that cannot be read fails the call.
    """
    opened = {member: Snapshot.open(member.path, config) for member in members}
    total = sum(map(_span, opened.values()))
    before = dict(zip(opened, accumulate((_span(one) for one in opened.values()), initial=0), strict=False))

    def rows_of(member: Member, inner: pa.Schema) -> Iterator[pa.RecordBatch]:
        done = None if progress is None else lambda read, _: progress(before[member] + read, total)
        return _batches_of(opened[member], inner, predicate, options, report, done)

    return pa.RecordBatchReader.from_batches(schema, rows_of_members(members, schema, rows_of))


def _span(snapshot: Snapshot) -> int:
    """Return the bytes from the begin of a log to the end of its files."""
    return snapshot.log.limit - snapshot.log.min_offset


def _batches_of(
    snapshot: Snapshot,
    schema: pa.Schema,
    predicate: Predicate,
    options: ScanOptions,
    report: Report | None,
    progress: Progress | None,
) -> Iterator[pa.RecordBatch]:
    return batches(snapshot.log, schema, predicate, options, facts=snapshot.facts, report=report, progress=progress)


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
        log: files of the log.
        schema: columns, from flintmq.arrow.schema.narrow of SCHEMA, VIEW_SCHEMA or SPARK_SCHEMA.
        predicate: selects records; None for all.
        options: how to read.
        facts: contents of the store's small files; needed to find the log's end where the options have no `end`.
        report: receives damage and notes.
        progress: called from time to time with the bytes of log done and in all, where one thread reads.

    Raises:
        As scan_arrow does while reading.
    """
    report = report if report is not None else Report()
    rates, memory = Rates(), PieceMemory()

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

    if options.threads == 1 or options.decompress:
        pieces: Iterable[Piece] = walk(options.begin, options.end, report)
        return gather(pieces if progress is None else _watched(pieces, log, progress), report)
    return parallel_batches(log, walk, gather, options, report)


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
    """Make the predicate from the arguments of scan_arrow that select messages.

    Raises:
        UsageError: a queue or a time is not valid.
    """
    ids: list[int] = []
    pairs: list[tuple[str, int]] = []
    offsets = []
    for queue in queues if queues is not None else ():
        if isinstance(queue, int):
            ids.append(queue)
            continue
        if not isinstance(queue, tuple) or len(queue) not in (2, 4):
            raise UsageError(f"{queue!r:.60} is not a queue; give an id, (topic, id) or (topic, id, first, stop)")
        pairs.append((queue[0], queue[1]))
        if len(queue) == 4:
            offsets.append((queue[0], queue[1], queue[2], MOST if queue[3] is None else queue[3]))
    if ids and pairs:
        raise UsageError("queues are either all ids, or all of named topics")
    return Predicate(
        topics=_names(topics),
        queue_ids=frozenset(ids) if queues is not None and not pairs else None,
        queues=frozenset(pairs) if pairs else None,
        offsets=tuple(offsets),
        since=_ms(since),
        until=_ms(until),
        tags=_names(tags),
    )


def _names(names: str | Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset([names] if isinstance(names, str) else names)


def _ms(time: int | datetime | None) -> int | None:
    if not isinstance(time, datetime):
        if time is not None and not LEAST <= time <= MOST:
            raise UsageError(f"time {time!r:.40} is not a number of ms since 1970")
        return time
    if time.tzinfo is None:
        raise UsageError(f"time {time} has no time zone; give one, such as datetime.UTC")
    return (time - _EPOCH) // timedelta(milliseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

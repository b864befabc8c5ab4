"""Plans a read of a store, and scans one range of it into record batches.

The Spark source and the export both use it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from flintmq.arrow.batches import record_batches
from flintmq.arrow.by_topic import topics_apart
from flintmq.arrow.options import BatchOptions
from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.arrow.vanished import accounted, note_vanished, refuse_vanished
from flintmq.errors import CorruptStoreError, FlintError
from flintmq.lake.read.asked import as_the_store_has
from flintmq.lake.read.explode import before_exploding, exploded, with_needed
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.splits import LogRange, check_end, deleted_before, resolve_cuts
from flintmq.message import StoredMessage
from flintmq.storage.files.store_url import absolute
from flintmq.store.commitlog.anchor import KnownLog
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.log_end import refuse_damaged_ends
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate
from flintmq.store.commitlog.pushdown import Comparison, narrowed
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import LOST, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.consumequeue.reader import batch_queue, plain_queue
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.log_map import is_at_queue_offset

BATCH_BYTES = 4 << 20  # fastest in Spark: 1 MiB takes a sixth more time, 32 MiB twice as much


@dataclass(frozen=True)
class ScanPlan:
    """A planned read: options, files, and log offsets of its begin and end. Sent to every task."""

    options: ReadOptions
    log: LogFiles
    begin: int
    end: int
    log_end: int
    last: int | None  # log offset of the log's last record; None if there is none

    @property
    def known(self) -> KnownLog:
        return KnownLog(self.log, self.log_end)


def plan_scan(
    options: ReadOptions,
    report: Report,
    narrow_to: Callable[[Predicate], Predicate] = lambda predicate: predicate,
    missing: dict[str, FlintError] | None = None,
) -> ScanPlan:
    """Find the log, its end, and the log offsets between which the wanted records are.

    Where the end of the log of a stopped store is damaged or missing, a read that skips damage gets a note `lost`.

    `narrow_to`: adds the filters that Spark pushes to the predicate (spark/source.py, `_narrowed`). They may name
    topics that do not exist.
    """
    snapshot = Snapshot.open(absolute(options.path), options.config)  # workers may run in other directories
    end = snapshot.find_end(report, late=True)  # of damage before it the ranges report
    try:
        refuse_damaged_ends(snapshot.log, snapshot.facts, end)
    except CorruptStoreError as error:
        if options.fail_on_data_loss:
            raise
        if not snapshot.facts.live:
            report.note(LOST, error.without_advice)
    options = as_the_store_has(options, snapshot, report, missing)
    options = replace(options, predicate=narrow_to(options.predicate))
    bounds = scan_bounds(snapshot.root, snapshot.log, options.predicate, end.offset)
    return ScanPlan(options, snapshot.log, *bounds, end.offset, end.last)


def narrowed_plan(plan: ScanPlan, limits: Iterable[Comparison]) -> ScanPlan:
    """Return a plan without some rows that comparisons exclude; their giver applies them too."""
    return replace(plan, options=replace(plan.options, predicate=narrowed(plan.options.predicate, limits)))


def scan_range(
    plan: ScanPlan,
    part: LogRange,
    schema: pa.Schema,
    report: Report,
    batch_bytes: int = BATCH_BYTES,
    apart: bool = False,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of one range as batches, in log order (but see `apart`).

    Every scan of the range yields the same rows.

    Args:
        report: receives notes, and the damage that was skipped; files that were deleted during the scan count as such.
        apart: give frequent topics batches of their own; rows are then in log order within each topic.
    """
    if part.begin >= part.end:
        return
    options = plan.options
    wanted, part = part, resolve_cuts(plan.log, part, plan.end)
    if (gone := deleted_before(plan.log, wanted, part)) is not None:
        note_vanished(report, gone, wanted.begin, min(wanted.end, gone.start + gone.size))
        check_vanished(options, report)
    walk = LogWalk(
        plan.log,
        begin=part.begin,
        end=part.end,
        access=options.access,
        strict=options.fail_on_data_loss,
        report=report,
    )
    # Neighbours answer for what is beyond a wanted end, also where a file that is gone has moved the cut.
    pieces = walk if options.fail_on_data_loss else accounted(walk, min(wanted.end, part.end))
    yield from rows_of(pieces, options, schema, options.predicate, report, batch_bytes, apart)
    check_vanished(options, report)
    check_end(walk, plan.log, part.end, plan.end)


def rows_of(
    pieces: Iterable[Piece],
    options: ReadOptions,
    schema: pa.Schema,
    predicate: Predicate,
    report: Report,
    batch_bytes: int = BATCH_BYTES,
    apart: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of pieces of the log as batches.

    `options`: only decompress, explode and failOnDataLoss are used.
    """
    ours = narrow(schema.names, SPARK_SCHEMA)
    batches = (topics_apart if apart else record_batches)(
        pieces,
        with_needed(ours) if options.explode else ours,
        before_exploding(predicate) if options.explode else predicate,
        BatchOptions(options.decompress, options.fail_on_data_loss, batch_bytes),
        report,
    )
    for batch in batches:
        parts = exploded(batch, ours, predicate, options.decompress) if options.explode else iter((batch,))
        for rows in parts:
            yield rows if ours.equals(schema) else pa.RecordBatch.from_arrays(rows.columns, schema=schema)


def check_vanished(options: ReadOptions, report: Report) -> None:
    """Raise StoreError if failOnDataLoss is set and a file was deleted during the walk."""
    if options.fail_on_data_loss:
        refuse_vanished(report, f"plan it again, or set {options.skip_option}")


def scan_bounds(root: str, log: LogFiles, predicate: Predicate, end: int) -> tuple[int, int]:
    """Find log offsets [begin, end) between which all records of the wanted queue offsets are.

    This is only an optimization. It applies where the option `assign` names the queues and each of them has an offset
    whose unit points to the right record of the log. Otherwise the whole log is scanned, and the rows are the same.
    """
    begin = min(log.min_offset, end)
    if not predicate.queues:
        return begin, end
    ranges = {(topic, queue): (least, stop) for topic, queue, least, stop in predicate.offsets}
    firsts, stops = [], []
    for topic, queue in predicate.queues:
        least, stop = ranges.get((topic, queue), (LEAST, MOST))
        first = _record_of_unit(root, log, QueueName(topic, queue), least) if least > LEAST else None
        last = _record_of_unit(root, log, QueueName(topic, queue), stop) if stop < MOST else None
        firsts += [first.physical_offset] if first is not None else []
        # An inner batch that contains the bound has wanted messages too: it is read, and the scan selects among them.
        stops += [last.physical_offset + last.size] if last is not None else []
    if len(firsts) == len(predicate.queues):
        begin = max(begin, min(firsts))
    if len(stops) == len(predicate.queues):
        end = max(begin, min(end, max(stops)))
    return begin, end


def _record_of_unit(root: str, log: LogFiles, name: QueueName, offset: int) -> StoredMessage | None:
    batch = log.effects.is_dir(os.path.join(root, directories.BATCH_QUEUES, name.topic))
    units = (batch_queue if batch else plain_queue)(root, name, log.effects)
    unit = units.unit(units.number_of(offset))
    if unit is None or not units.points_to_record(unit):
        return None
    message = record_at(log, unit.physical_offset)
    return message if message is not None and is_at_queue_offset(message, name, offset) else None

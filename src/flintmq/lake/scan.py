"""What source and export have in common: plan a read of a store, and scan one range of it into record batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from flintmq.arrow.batches import record_batches
from flintmq.arrow.by_topic import topics_apart
from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.errors import StoreError
from flintmq.lake.asked import as_the_store_has
from flintmq.lake.explode import before_exploding, exploded, with_needed
from flintmq.lake.options import ReadOptions
from flintmq.lake.scan_bounds import scan_bounds
from flintmq.lake.splits import LogRange, check_end, resolve_cuts
from flintmq.storage.store_url import absolute, effects_for
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk, Piece, refuse_damaged_ends
from flintmq.store.layout import directories

BATCH_BYTES = 4 << 20  # what Spark takes best: of 1 MiB a sixth more time, of 32 MiB twice as much


@dataclass(frozen=True)
class ScanPlan:
    """A read, fixed: what was asked for, of which files, between which log offsets. Goes to every task."""

    options: ReadOptions
    log: LogFiles
    begin: int
    end: int


def plan_scan(
    options: ReadOptions, report: Report, narrow_to: Callable[[Predicate], Predicate] = lambda predicate: predicate
) -> ScanPlan:
    """Find the log and its end, and between which offsets the wanted records lie.

    Args:
        options: what is asked for.
        report: takes notes on how the log ends, and of a lenient read on what is not there.
        narrow_to: what filters that Spark pushes make of the predicate. They may name what is not there.

    Raises:
        NotAStoreError, UnsupportedFormatError: there is no store that can be read.
        UsageError, StoreError: (failOnDataLoss) something that is asked for by name is not there; see asked.py.
        CorruptStoreError: (failOnDataLoss) files of the log are missing, or it ends with damage.
        StoreAccessError: a file may not be read.
    """
    effects = effects_for(options.path, options.config.s3)
    root = directories.open_root(
        absolute(options.path), options.config, effects
    )  # workers may run in other directories
    snapshot = Snapshot(root, options.config, None, effects)
    end = snapshot.find_end(report)
    if options.fail_on_data_loss:
        refuse_damaged_ends(snapshot.log, snapshot.facts, end)
    options = as_the_store_has(options, snapshot, report)
    options = replace(options, predicate=narrow_to(options.predicate))
    return ScanPlan(options, snapshot.log, *scan_bounds(root, snapshot.log, options.predicate, end.offset))


def scan_range(
    plan: ScanPlan,
    part: LogRange,
    schema: pa.Schema,
    report: Report,
    batch_bytes: int = BATCH_BYTES,
    apart: bool = False,
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of one range in log order (but see `apart`), in batches. Gives the same rows every time.

    Args:
        plan: the read.
        part: one of its ranges.
        schema: the columns wanted, all of SPARK_SCHEMA; they may be declared not nullable.
        report: takes damage that was passed over, and notes.
        batch_bytes: about how many bytes the columns of a batch take.
        apart: frequent topics in batches of their own; rows are then in log order within each topic.

    Raises:
        CorruptStoreError: (failOnDataLoss) damage, with file and position.
        StoreError: (failOnDataLoss) a file was deleted meanwhile.
        StoreAccessError: a file may not be read.
    """
    if part.begin >= part.end:
        return
    options = plan.options
    part = resolve_cuts(plan.log, part, plan.end)
    walk = LogWalk(
        plan.log,
        begin=part.begin,
        end=part.end,
        access=options.access,
        strict=options.fail_on_data_loss,
        report=report,
    )
    yield from rows_of(walk, options, schema, options.predicate, report, batch_bytes, apart)
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
    """The rows of pieces of the log, in batches.

    Args:
        pieces: of a walk.
        options: decompress, explode and failOnDataLoss are heeded.
        predicate: which records.
        schema, report, batch_bytes, apart: as for scan_range.

    Raises:
        CorruptStoreError: (failOnDataLoss) a body that cannot be decompressed; and whatever taking a piece raises.
    """
    ours = narrow(schema.names, SPARK_SCHEMA)
    batches = (topics_apart if apart else record_batches)(
        pieces,
        with_needed(ours) if options.explode else ours,
        before_exploding(predicate) if options.explode else predicate,
        decompress=options.decompress,
        strict=options.fail_on_data_loss,
        report=report,
        batch_bytes=batch_bytes,
    )
    for batch in batches:
        parts = exploded(batch, ours, predicate, options.decompress) if options.explode else iter((batch,))
        for rows in parts:
            yield rows if ours.equals(schema) else pa.RecordBatch.from_arrays(rows.columns, schema=schema)


def check_vanished(options: ReadOptions, report: Report) -> None:
    """Raise StoreError if a file was deleted during a walk (and failOnDataLoss)."""
    if report.note_counts["vanished"] and options.fail_on_data_loss:
        gone = next(note.text for note in report.notes if note.code == "vanished")
        raise StoreError(f"{gone}; its messages are lost to this read: plan it again, or set failOnDataLoss=false")

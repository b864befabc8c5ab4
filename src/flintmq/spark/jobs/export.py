"""Export a store's messages to Parquet, by topic and store date; again and again, each time what is new.

A task scans a range of the log and writes Parquet files with Arrow: no value passes through Java. The driver brings
what the tasks wrote in with one rename (`target.py`), so an export is there as a whole or not at all; what attempts of
a task wrote that did not win is never brought in. The next export begins where the last one ended in the log.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.spark.jobs.parquet import PartitionedWriter
from flintmq.spark.jobs.run import Progress, parallelism, run_tasks
from flintmq.spark.jobs.target import Anchor, Manifest, StagedFile, Target, locked, now
from flintmq.spark.options import ReadOptions
from flintmq.spark.scan import Plan, plan_scan, scan_range
from flintmq.spark.splits import LogRange, cut, split_count
from flintmq.store.log_files import LogFiles
from flintmq.store.predicate import Predicate
from flintmq.store.records import record_at
from flintmq.store.report import Report

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

COMPRESSION = ("snappy", "zstd", "lz4", "gzip", "none")
SCAN_BYTES = 8 << 20  # of a batch of many topics: large ones are cheaper to sort by topic
CHOICES = ("topics", "decompress", "explode", "stream")


@dataclass
class Exported:
    """What an export added.

    Attributes:
        number: of the export in its directory; 0 if there was nothing new.
        begin, end: log offsets; what starts in [begin, end) is now exported.
        rows, files, bytes: added.
        damages, lost_bytes: places of the log that were passed over.
        notes: code -> how often (tails).
    """

    number: int = 0
    begin: int = 0
    end: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    damages: int = 0
    lost_bytes: int = 0
    notes: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def export(
    spark: SparkSession,
    root: str,
    out: str,
    config: StoreConfig | None = None,
    *,
    topics: Sequence[str] | None = None,
    decompress: bool = False,
    explode: bool = False,
    fail_on_data_loss: bool = True,
    to: str = "parquet",
    compression: str = "snappy",
    access: str = "pread",
    progress: Progress | None = None,
) -> Exported:
    """Write the store's messages to Parquet below a directory; a later call adds what is new since.

    The files have the columns of the one schema, with times in microseconds (null outside the years 1 to 9999), below
    `export=N/topic_name=T/date=YYYY-MM-DD/`. `topic_name` is the topic escaped for a directory, `date` the day of the
    store time in UTC.

    Args:
        spark: the session. Workers must see `root` and `out` under the same paths as the driver.
        root: the store.
        out: the directory; made if it is not there.
        config: RocketMQ's keys for what the files do not tell.
        topics: only these.
        decompress: bodies as the producer gave them.
        explode: each message of an inner batch as a row of its own.
        fail_on_data_loss: damage in the log is an error; else it is passed over and counted.
        to: "parquet"; or "delta": a Delta table partitioned by topic_name and date.
        compression: a Parquet codec.
        access: "pread" or "map".
        progress: called now and then with tasks done and in all.

    Raises:
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store or the directory cannot be used.
        UsageError: `out` has exports of another store or another choice, or another export runs there.
        CorruptStoreError: damage in the log.
        StoreError: messages have expired since the last export (and fail_on_data_loss); or Spark gave up.
    """
    if compression not in COMPRESSION:
        raise UsageError(f"compression {compression[:40]!r} is not one of: {', '.join(COMPRESSION)}")
    options = ReadOptions(
        path=os.path.abspath(root),
        predicate=Predicate(topics=None if topics is None else frozenset(topics)),
        fail_on_data_loss=fail_on_data_loss,
        decompress=decompress,
        explode=explode,
        access=access,
        config=config or StoreConfig(),
    )
    report = Report()
    plan = plan_scan(options, report)
    with locked(os.path.abspath(out), target_kind(to)) as target:
        last = target.last()
        choice = {
            "topics": None if topics is None else sorted(set(topics)),
            "decompress": decompress,
            "explode": explode,
            "stream": False,
        }
        begin = next_begin(target, last, plan, choice)
        done = Exported(begin=begin, end=max(begin, plan.end), notes=dict(report.note_counts))
        ranges = cut(plan.log, begin, plan.end, split_count(plan.end - begin, parallelism(spark)))
        tasks = str(target.stage())
        work = [part for part in ranges if part.begin < part.end]
        answers = run_tasks(spark, partial(export_range, plan, tasks, compression), work, progress)
        done.rows = sum(answer["rows"] for answer in answers)
        done.damages = sum(answer["damages"] for answer in answers)
        done.lost_bytes = sum(answer["lost_bytes"] for answer in answers)
        if done.rows:
            publish(target, last, done, choice, answers)
    return done


def target_kind(to: str) -> type[Target]:
    """What exports go to.

    Raises:
        UsageError: neither "parquet" nor "delta".
    """
    if to == "delta":
        from flintmq.spark.jobs.delta import DeltaTarget

        return DeltaTarget
    if to != "parquet":
        raise UsageError(f"to {to[:40]!r} is not one of: parquet, delta")
    return Target


def next_begin(target: Target, last: Manifest | None, plan: Plan, choice: Mapping[str, Any]) -> int:
    """Log offset from which an export goes on.

    Raises:
        UsageError: the directory has exports of another store, or with other choices.
        StoreError: what would come next has expired, and the user did not say that this is fine.
    """
    log = plan.log
    if last is None:
        return log.min_offset
    check_same(target, last, log, choice)
    if last.end < log.min_offset and plan.options.fail_on_data_loss:
        raise StoreError(
            f"the log begins at offset {log.min_offset}, the last export ended at {last.end}: what was between has "
            "expired; failOnDataLoss=false (--skip-damage) goes on without it"
        )
    return max(last.end, log.min_offset)


def check_same(target: Target, last: Manifest, log: LogFiles, choice: Mapping[str, Any]) -> None:
    """Raise UsageError unless the last export was of this log, with the same choices."""
    other = [name for name in CHOICES if last.choice.get(name, False) != choice[name]]
    if other:
        raise UsageError(
            f"{target.root} has exports with other {' and '.join(other)}; export with the same, or into a new directory"
        )
    if not is_same_log(log, last):
        raise UsageError(f"{target.root} has exports of another store, or of one that was cut; give a new directory")


def is_same_log(log: LogFiles, last: Manifest) -> bool:
    """Whether the record that the last export ended with still stands in the log, or has expired."""
    anchor = last.anchor
    if anchor.physical_offset < log.min_offset:
        return True
    found = record_at(log, anchor.physical_offset)
    if found is None:
        return False
    return anchor == Anchor(found.physical_offset, found.size, found.store_timestamp, found.body_crc)


def export_range(plan: Plan, tasks: str, compression: str, part: LogRange) -> dict[str, Any]:
    """One task: the messages of one range as Parquet files in a directory of the attempt's own.

    Raises:
        CorruptStoreError: damage in the range, unless the plan passes over it.
        OSError: the disk is full or fails.
    """
    report = Report()
    batches = scan_range(plan, part, SPARK_SCHEMA, report, SCAN_BYTES, apart=True)
    return write_files(batches, plan.log, tasks, compression, part.begin, report)


def write_files(
    batches: Iterable[pa.RecordBatch], log: LogFiles, tasks: str, compression: str, begin: int, report: Report
) -> dict[str, Any]:
    """Write the rows of a task into a directory of the attempt's own; what the driver is told of it.

    Raises:
        StoreError: the last record went away meanwhile.
        OSError: the disk is full or fails; and whatever taking a batch raises.
    """
    folder = os.path.join(tasks, f"{begin:020d}-{uuid.uuid4().hex}")
    os.mkdir(folder)
    writer = PartitionedWriter(folder, SPARK_SCHEMA, compression)
    rows, last = 0, None
    for batch in batches:
        if batch.num_rows:
            writer.write(batch)
            rows += batch.num_rows
            last = max(last or 0, batch.column("physical_offset")[-1].as_py())
    writer.close()
    anchor = None
    if last is not None:
        found = record_at(log, last)
        if found is None:
            raise StoreError(f"the record at log offset {last} went away while it was exported; try again")
        anchor = (found.physical_offset, found.size, found.store_timestamp, found.body_crc)
    files = [(file.path, file.folder, file.size, file.rows) for file in writer.files]
    damage = {"damages": report.damage_count, "lost_bytes": report.lost_bytes}
    return {"rows": rows, "begin": begin, "files": files, "anchor": anchor, **damage}


def publish(
    target: Target,
    last: Manifest | None,
    done: Exported,
    choice: dict[str, Any],
    answers: list[dict[str, Any]],
    offsets: dict[str, int] | None = None,
) -> Manifest:
    """Bring in what the winning attempts wrote; the manifest that it goes by now."""
    moves = []
    for answer in answers:
        for path, folder, size, rows in answer["files"]:
            number = os.path.basename(path).removesuffix(".part")
            place = os.path.join(folder, f"{answer['begin']:020d}-{number}.parquet")
            moves.append(StagedFile(path, place, size, rows))
            done.bytes += size
    anchor = next(answer["anchor"] for answer in reversed(answers) if answer["anchor"])
    done.number = 1 if last is None else last.number + 1
    done.files = len(moves)
    manifest = Manifest(
        number=done.number,
        begin=done.begin,
        end=done.end,
        rows=done.rows,
        files=[file.place for file in moves],
        bytes=done.bytes,
        anchor=Anchor(*anchor),
        choice=choice,
        lost_bytes=done.lost_bytes,
        made=now(),
        offsets=offsets,
    )
    target.publish(manifest, moves)
    return manifest

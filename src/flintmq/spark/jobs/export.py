"""Export a store's messages to Parquet, by topic and store date; again and again, each time what is new.

A task scans a range of the log and writes Parquet files with Arrow: no value passes through Java. The driver brings
what the tasks wrote in with one rename (`target.py`), so an export is there as a whole or not at all; what attempts of
a task wrote that did not win is never brought in. The next export begins where the last one ended in the log.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.spark.jobs.checkpoint import Checkpoint
from flintmq.spark.jobs.combine import FileOptions, Part, combined, parts_of
from flintmq.spark.jobs.parquet import PARTITIONS
from flintmq.spark.jobs.run import Progress, parallelism, run_tasks
from flintmq.spark.jobs.shape import Shape
from flintmq.spark.jobs.target import NAMES, Anchor, Manifest, StagedFile, Target, locked, now
from flintmq.spark.options import ReadOptions
from flintmq.spark.scan import Plan, plan_scan, scan_range
from flintmq.spark.splits import LogRange, shares, split_count
from flintmq.storage.where import absolute, local_only, outside_store
from flintmq.store.log_files import LogFiles
from flintmq.store.predicate import Predicate
from flintmq.store.records import record_at
from flintmq.store.report import Report

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SCAN_BYTES = 8 << 20  # of a batch of many topics: large ones are cheaper to sort by topic
# What all exports of a directory agree in, and what a manifest means that does not name it.
CHOICES: dict[str, Any] = {
    "topics": None,
    "decompress": False,
    "explode": False,
    "stream": False,
    "properties": None,
    "body": "bytes",
    "body_schema": None,
    "partition_by": list(PARTITIONS),
}


@dataclass
class Exported:
    """What an export added.

    Attributes:
        number: of the export in its directory; 0 if there was nothing new.
        begin, end: log offsets; what starts in [begin, end) is now exported.
        rows, files, bytes: added.
        damages, lost_bytes: places of the log that were passed over.
        bad_bodies: bodies that are no text or JSON as was asked for; they stand in `body_raw`.
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
    bad_bodies: int = 0
    notes: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def count(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Add what tasks tell."""
        for name in ("rows", "damages", "lost_bytes", "bad_bodies"):
            setattr(self, name, getattr(self, name) + sum(answer[name] for answer in answers))


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
    target_file_size: int | None = None,
    properties: Sequence[str] | None = None,
    body: str = "bytes",
    body_schema: str | None = None,
    partition_by: Sequence[str] = PARTITIONS,
    checkpoint: str | None = None,
    access: str = "pread",
    progress: Progress | None = None,
) -> Exported:
    """Write the store's messages to Parquet below a directory; a later call adds what is new since.

    The files have the columns of the one schema (or of what `properties` and `body` make of it), with times in
    microseconds (null outside the years 1 to 9999), below `export=N/topic_name=T/date=YYYY-MM-DD/`. `topic_name` is
    `parquet.partition_value` of the topic (in a Delta table the topic), `date` the day of the store time in UTC.

    Args:
        spark: the session. Workers must see `root` and `out` under the same paths as the driver.
        root: the store.
        out: the directory; made if it is not there.
        config: RocketMQ's keys for what the files do not tell.
        topics: only these.
        decompress: bodies as the producer gave them; always so unless `body` is "bytes".
        explode: each message of an inner batch as a row of its own.
        fail_on_data_loss: damage in the log is an error; else it is passed over and counted.
        to: "parquet"; or "delta": a Delta table.
        compression: a Parquet codec.
        target_file_size: in bytes: files of one topic and date become about so large; None: as it comes.
        properties: NAME or NAME:COLUMN, each a column of text instead of the map `properties`.
        body: "bytes", "text", or "json" with `body_schema`: DDL, or a file with Spark's JSON form of a schema.
        partition_by: what the rows of a directory have in common: "topic_name", "date", both or neither. Where it is
            neither or the date, many topics share a file.
        checkpoint: a directory that gets a copy of where the export stands, see `checkpoint.py`.
        access: "pread" or "map".
        progress: called now and then with tasks done and in all.

    Raises:
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store or the directory cannot be used.
        UsageError: `out` has exports of another store or another choice, or another export runs there.
        CorruptStoreError: damage in the log.
        StoreError: messages have expired since the last export (and fail_on_data_loss); or Spark gave up.
    """
    files = FileOptions(compression, target_file_size, Shape.parse(properties, body, body_schema), tuple(partition_by))
    options = ReadOptions(
        path=absolute(root),
        predicate=Predicate(topics=None if topics is None else frozenset(topics)),
        fail_on_data_loss=fail_on_data_loss,
        decompress=decompress or files.shape.decompresses,
        explode=explode,
        access=access,
        config=config or StoreConfig(),
    )
    report = Report()
    plan = plan_scan(options, report)
    for place in filter(None, (out, checkpoint)):
        outside_store(place, root, config)
    with locked(os.path.abspath(local_only(out)), target_kind(to)) as target:
        last, copy = target.last(), Checkpoint.at(checkpoint, target.root)
        choice = choice_of(options, files, stream=False)
        begin = next_begin(target, last, plan, choice)
        copy.check(last)
        target.check(last, files.shape.schema(), files.partition_by)
        done = Exported(begin=begin, end=max(begin, plan.end), notes={**report.note_counts, **target.notes})
        ranges = shares(plan.log, begin, plan.end, split_count(plan.end - begin, parallelism(spark)))
        tasks = str(target.stage())
        work = [part for part in ranges if part.begin < part.end]
        answers = run_tasks(spark, partial(export_range, plan, tasks, files), work, progress)
        done.count(answers)
        if done.rows:
            parts = [Part(*part) for answer in answers for part in answer["files"]]
            parts = combined(parts, files, tasks, parallelism(spark), partial(run_tasks, spark, progress=None))
            last = publish(target, last, done, choice, answers, parts, files.shape)
        copy.keep(last)
    return done


def choice_of(options: ReadOptions, files: FileOptions, stream: bool) -> dict[str, Any]:
    """What a manifest says was asked for."""
    topics = options.predicate.topics
    return {
        "topics": None if topics is None else sorted(topics),
        "decompress": options.decompress,
        "explode": options.explode,
        "stream": stream,
        **files.shape.choice(),
        "partition_by": list(files.partition_by),
    }


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
    there = {name: last.choice.get(name, default) for name, default in CHOICES.items()}
    other = [
        f"{name} ({shown(there[name])} there, {shown(choice[name])} now)"
        for name in CHOICES
        if there[name] != choice[name] and not (name == "properties" and only_adds(there[name], choice[name]))
    ]
    if other:
        raise UsageError(
            f"{target.root} has exports with other {' and '.join(other)}; export with the same, or into a new directory"
        )
    if not is_same_log(log, last):
        raise UsageError(f"{target.root} has exports of another store, or of one that was cut; give a new directory")


def only_adds(there: Sequence[Sequence[str]] | None, now: Sequence[Sequence[str]] | None) -> bool:
    """Whether the properties that are columns are those of before and more: rows of before have null there."""
    return there is not None and now is not None and {tuple(pair) for pair in there} <= {tuple(pair) for pair in now}


def shown(value: Any) -> str:
    """A choice in an error, in few words."""
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:80]}... of {len(text)} characters"


def is_same_log(log: LogFiles, last: Manifest) -> bool:
    """Whether the record that the last export ended with still stands in the log, or has expired."""
    anchor = last.anchor
    if anchor.physical_offset < log.min_offset:
        return True
    found = record_at(log, anchor.physical_offset)
    if found is None:
        return False
    return anchor == Anchor(found.physical_offset, found.size, found.store_timestamp, found.body_crc)


def export_range(plan: Plan, tasks: str, files: FileOptions, part: LogRange) -> dict[str, Any]:
    """One task: the messages of one range as Parquet files in a directory of the attempt's own.

    Raises:
        CorruptStoreError: damage in the range, unless the plan passes over it.
        OSError: the disk is full or fails.
    """
    report = Report()
    batches = scan_range(plan, part, SPARK_SCHEMA, report, SCAN_BYTES, apart=True)
    return write_files(batches, plan.log, tasks, files, part.begin, report)


def write_files(
    batches: Iterable[pa.RecordBatch], log: LogFiles, tasks: str, files: FileOptions, begin: int, report: Report
) -> dict[str, Any]:
    """Write the rows of a task into a directory of the attempt's own; what the driver is told of it.

    Raises:
        StoreError: the last record went away meanwhile.
        OSError: the disk is full or fails; and whatever taking a batch raises.
    """
    folder = os.path.join(tasks, f"{begin:020d}-{uuid.uuid4().hex}")
    os.mkdir(folder)
    writer = files.writer(folder)
    rows, bad_bodies, last = 0, 0, None
    for batch in batches:
        if batch.num_rows:
            shaped, bad = files.shape.shaped(batch)
            writer.write(shaped)
            rows, bad_bodies = rows + batch.num_rows, bad_bodies + bad
            last = max(last or 0, batch.column("physical_offset")[-1].as_py())
    writer.close()
    anchor = None
    if last is not None:
        record = record_at(log, last)
        if record is None:
            raise StoreError(f"the record at log offset {last} went away while it was exported; try again")
        anchor = (record.physical_offset, record.size, record.store_timestamp, record.body_crc)
    found = {"damages": report.damage_count, "lost_bytes": report.lost_bytes, "bad_bodies": bad_bodies}
    return {"rows": rows, "files": parts_of(writer, f"{begin:020d}"), "anchor": anchor, **found}


def publish(
    target: Target,
    last: Manifest | None,
    done: Exported,
    choice: dict[str, Any],
    answers: list[dict[str, Any]],
    parts: Sequence[Part],
    shape: Shape,
    offsets: dict[str, int] | None = None,
) -> Manifest:
    """Bring in what the winning attempts wrote; the manifest that it goes by now."""
    moves = [
        StagedFile(p.path, os.path.join(p.folder, f"{p.name}.parquet"), p.size, p.rows, p.partition, p.stats)
        for p in parts
    ]
    moves += target.hints(moves, shape.schema())
    done.bytes = sum(file.size for file in moves)
    anchor = next(answer["anchor"] for answer in reversed(answers) if answer["anchor"])
    done.number = target.number_after(last)
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
        names=NAMES,
    )
    target.publish(manifest, moves, shape.schema())
    return manifest

"""The parts of an export that need no Spark: its begin, what its tasks write, how it is published."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.errors import StoreError, UsageError
from flintmq.lake.columns import ExportColumns
from flintmq.lake.compact import FileOptions, PartFile, parts_of
from flintmq.lake.options import ReadOptions
from flintmq.lake.parquet import PARTITIONS
from flintmq.lake.scan import ScanPlan, scan_range
from flintmq.lake.splits import LogRange
from flintmq.lake.target import NAMES, ExportAnchor, ExportTarget, Manifest, StagedFile, now
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import Report

if TYPE_CHECKING:
    import pyarrow as pa

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


def target_kind(to: str) -> type[ExportTarget]:
    """What exports go to.

    Raises:
        UsageError: neither "parquet" nor "delta".
    """
    if to == "delta":
        from flintmq.lake.delta import DeltaTarget

        return DeltaTarget
    if to != "parquet":
        raise UsageError(f"to {to[:40]!r} is not one of: parquet, delta")
    return ExportTarget


def next_begin(target: ExportTarget, last: Manifest | None, plan: ScanPlan, choice: Mapping[str, Any]) -> int:
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


def check_same(target: ExportTarget, last: Manifest, log: LogFiles, choice: Mapping[str, Any]) -> None:
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
    return anchor == ExportAnchor(found.physical_offset, found.size, found.store_timestamp, found.body_crc)


def export_range(plan: ScanPlan, tasks: str, files: FileOptions, part: LogRange) -> dict[str, Any]:
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
    target: ExportTarget,
    last: Manifest | None,
    done: Exported,
    choice: dict[str, Any],
    answers: list[dict[str, Any]],
    parts: Sequence[PartFile],
    shape: ExportColumns,
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
        anchor=ExportAnchor(*anchor),
        choice=choice,
        lost_bytes=done.lost_bytes,
        made=now(),
        offsets=offsets,
        names=NAMES,
    )
    target.publish(manifest, moves, shape.schema())
    return manifest

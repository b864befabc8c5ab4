"""Begins an export, writes the files of its tasks, and publishes them, all without Spark."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.cluster.member import ONLY, Member, broker_text
from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_choice, short
from flintmq.errors import CorruptStoreError, StoreError, UsageError
from flintmq.lake.bodies.failure import INNER_BATCH
from flintmq.lake.bodies.form import BodyForm
from flintmq.lake.export.choices import ExportChoices, complete, option_of
from flintmq.lake.export.compact import FileOptions, parts_of
from flintmq.lake.export.upsert import merge
from flintmq.lake.files.table_folder import folder_at
from flintmq.lake.files.task_folders import TaskFolders
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import ScanPlan, scan_range
from flintmq.lake.read.splits import LogRange
from flintmq.lake.shape.changes import COPIES, DDL, TOMBSTONES, ChangeForm
from flintmq.lake.shape.columns import ExportColumns
from flintmq.lake.shape.dead_letters import DeadLetters, DeadLetterWriter
from flintmq.lake.shape.parquet import PARTITIONS
from flintmq.lake.table.formats import target_at
from flintmq.lake.table.iceberg_catalog import TableName
from flintmq.lake.table.row_files import is_missing
from flintmq.lake.table.target import CHOICES, NAMES, Manifest, StagedFile, StoreProgress, Target, now
from flintmq.lake.table.transactional_target import TransactionalTarget
from flintmq.store.commitlog.anchor import KnownLog, LogAnchor, why_lost
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import LOST, VANISHED, Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.tabular import Summary

if TYPE_CHECKING:
    import pyarrow as pa

    from flintmq.lake.stream.members import StoresStream
    from flintmq.lake.stream.plan import StreamTask

REPEATED = (VANISHED, LOST, DDL, TOMBSTONES, COPIES)  # notes of a task that the answer repeats
ABSENT = "missing_exports"  # code of the note on directories of earlier exports that are gone
TEXTS_KEPT = 3  # sentences of notes, of each code
UNCHECKED = "unchecked"  # code of the note on a progress that does not show whether the log is its own
KINDS = {
    False: ("one store", "one is", ""),
    True: ("several stores", "several are", "; give a list, a pattern or a manifest of these"),
}
"""What a table or an export is of, by the choice `many`: in words."""
SCAN_BYTES = 8 << 20  # of a batch of many topics: sorting by topic is cheaper in large batches


@dataclass(frozen=True)
class ExportOptions:
    read: ReadOptions
    files: FileOptions
    to: str  # "parquet", "delta" or "iceberg"
    checkpoint: str | None  # a directory for a copy of the state; None for none
    catalog: str | None  # catalog, dead_letters: see ExportChoices
    dead_letters: str | None

    @classmethod
    def of(cls, root: Stores, config: StoreConfig | None, choices: ExportChoices) -> ExportOptions:
        """Check the keywords of an export, and fill in the defaults.

        Raises:
            UsageError, ConfigError: an impossible value.
            StoreAccessError, MissingExtraError: as BodyForm.parse.
            TypeError: an unknown keyword.
        """
        given = complete(choices)
        topics, dead_letters = given["topics"], given["dead_letters"]
        body = BodyForm.parse(
            given["body"],
            given["body_schema"],
            message=given["body_message"],
            head=given["body_head"],
            registry=given["schema_registry"],
        )
        if dead_letters is not None and body is None:
            raise UsageError("dead letters are bodies that do not decode; give --body text, json, avro or protobuf")
        read = ReadOptions.of_stores(
            root,
            config,
            predicate=Predicate(topics=None if topics is None else frozenset(topics)),
            fail_on_data_loss=given["fail_on_data_loss"],
            skip_option="--skip-damage",
            decompress=given["decompress"] or body is not None,
            explode=given["explode"],
            access=given["access"],
        )
        changes = _changes_of(given, body, read.many)
        files = FileOptions(
            given["compression"],
            given["target_file_size"],
            replace(ExportColumns.parse(given["properties"], body, read.many), changes=changes),
            tuple(given["partition_by"]) if changes is None else (),
            dead_letters is not None,
        )
        return cls(read, files, given["to"], given["checkpoint"], given["catalog"], dead_letters)


def _changes_of(given: ExportChoices, body: BodyForm | None, many: bool) -> ChangeForm | None:
    """Return what makes rows from changes; None if the table is one of messages.

    Raises UsageError: as ChangeForm.parse; or other keywords do not fit.
    """
    changes = ChangeForm.parse(given["upsert_key"], given["delete_when"], body, many)
    if changes is None:
        return None
    if given["to"] not in ("delta", "iceberg"):
        raise UsageError(f"--upsert-key is for --to delta and iceberg; {given['to']} replaces no rows")
    if given["properties"] is not None:
        raise UsageError("--property is for tables of messages; one of --upsert-key has the columns of the bodies")
    if tuple(given["partition_by"]) not in (PARTITIONS, ()):
        raise UsageError("--partition-by is for tables of messages; one of --upsert-key has no partitions")
    return changes


@dataclass
class Exported(Summary):
    """The result of an export.

    Attributes:
        bad_reasons: reason (`lake/bodies/failure.py`) -> number of these.
        notes: code -> number of occurrences (tails, stores that were left out, messages that are lost, earlier exports
            that are gone).
        note_texts: code -> the first sentences of these notes, with their paths; a code may have none.
        brokers: of several stores, (begin, end) of each broker that had something new; begin and end are 0 then.
    """

    number: int = 0  # number of the export in its directory; 0 if there was nothing new
    begin: int = 0  # begin, end: log offsets; records that start in [begin, end) are now exported
    end: int = 0
    rows: int = 0  # rows, files, bytes: added
    files: int = 0
    bytes: int = 0
    damages: int = 0  # damages, lost_bytes: damaged places of the log that were skipped
    lost_bytes: int = 0
    bad_bodies: int = 0  # bodies that do not decode; they are kept in `body_raw`
    bad_reasons: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    note_texts: dict[str, list[str]] = field(default_factory=dict)
    brokers: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 if nothing was left out, and no earlier export is gone; else 1."""
        return 1 if self.damages or self.notes.get(LOST) or self.notes.get(ABSENT) else 0

    def count(self, answers: Sequence[Mapping[str, Any]]) -> None:
        for name in ("rows", "damages", "lost_bytes", "bad_bodies"):
            setattr(self, name, getattr(self, name) + sum(answer[name] for answer in answers))
        self.bad_reasons = dict(sum((Counter(answer["bad_reasons"]) for answer in answers), Counter(self.bad_reasons)))
        for code, count, texts in (found for answer in answers for found in answer["losses"]):
            self.add_note(code, count, texts)

    def add_note(self, code: str, count: int, texts: Sequence[str]) -> None:
        """Add notes of a code; of their sentences the first few are kept."""
        self.notes[code] = self.notes.get(code, 0) + count
        kept = [*self.note_texts.get(code, ()), *texts]
        self.note_texts[code] = list(dict.fromkeys(kept))[:TEXTS_KEPT]

    def set_spans(self, stores: Mapping[str, StoreProgress]) -> None:
        """Set the log offsets: those of an only store are `begin` and `end`."""
        self.brokers = {broker: (one.begin, one.end) for broker, one in stores.items()}
        self.begin, self.end = self.brokers.pop(ONLY, (0, 0))


def note_absent(done: Exported, target: Target, last: Manifest | None) -> None:
    """Add a note on earlier exports whose directories are gone; no data file is looked at."""
    absent = () if last is None else target.absent_at(last.number)
    if absent:
        done.add_note(ABSENT, len(absent), [str(is_missing(absent[0], "directory", target.where))])


def choice_of(options: ReadOptions, files: FileOptions, stream: bool) -> dict[str, Any]:
    topics = options.predicate.topics
    return {
        "topics": None if topics is None else sorted(topics),
        "decompress": options.decompress,
        "explode": options.explode,
        "stream": stream,
        **files.shape.choice(),
        "partition_by": list(files.partition_by),
        "many": options.many,
    }


def target_of(options: ExportOptions, out: str) -> Target:
    """Return the target of an export into this directory (an absolute path, or a URL).

    Raises UsageError: there is no format of this name, or a catalog is given for another one than Iceberg; or the
    format cannot have a table there.
    """
    check_choice("to", options.to, ("parquet", "delta", "iceberg"))
    if options.catalog is not None and options.to != "iceberg":
        raise UsageError(f"--catalog is for --to iceberg; an export to {options.to} has none")
    return target_at(folder_at(out, options.read.config.s3), options.to, TableName.parse(options.catalog))


def next_begin(root: object, last: StoreProgress | None, plan: ScanPlan, report: Report, broker: str = ONLY) -> int:
    """Return the log offset at which the next export of a store begins; `last` None: the first.

    If the next messages to export have expired, `report` receives a note `lost`, or with failOnDataLoss it is an error.
    """
    log = plan.log
    if last is None:
        return log.min_offset
    check_log(root, last, plan.known, report, broker)
    if last.end < log.min_offset:
        what = (
            f"{plan.options.path}: the log begins at offset {log.min_offset}, the last export ended at {last.end}: the "
            "messages in between have expired"
        )
        if plan.options.fail_on_data_loss:
            raise StoreError(f"{what}; {plan.options.skip_option} continues without them")
        report.note(LOST, f"{what}, and no export has them")
    return max(last.next, log.min_offset)


def check_kind(table: str, choice: Mapping[str, Any], read: ReadOptions) -> None:
    """Refuse to read a table of one store with several, or the reverse.

    Raises UsageError: `read` is of the other kind than the table, whose options are `choice`.
    """
    if read.many != choice["many"]:
        held, _, how = KINDS[choice["many"]]
        raise UsageError(f"{table} is a table of {held}{how}")


def check_same(target: Target, last: Manifest, choice: Mapping[str, Any]) -> None:
    """Raise UsageError unless the last export was with the same options.

    The text has the words of the user.
    """
    there, choice = CHOICES | last.choice, CHOICES | dict(choice)
    if there["many"] != choice["many"]:
        before, now = KINDS[there["many"]][0], KINDS[choice["many"]][1]
        raise UsageError(
            f"{target.where} has exports of {before}, and {now} given now; the columns differ: name {before} again, or "
            "export into a new directory"
        )
    if there["stream"] != choice["stream"]:
        before, now = ("with", "without") if there["stream"] else ("without", "with")
        raise UsageError(
            f"{target.where} has exports made {before} --follow, and this one is {now} it; export "
            f"{before} it again, or into a new directory"
        )
    other = [
        f"{option_of(name)} ({shown(there[name])} there, {shown(choice[name])} now)"
        for name in CHOICES
        if there[name] != choice[name]
        and name not in target.changeable
        and not (name == "properties" and only_adds(there[name], choice[name]))
        and not (name == "body_schema" and choice["upsert_key"])  # columns come and go: `Target.check`, upsert.py
    ]
    if other:
        raise UsageError(
            f"{target.where} has exports with other {' and '.join(other)}; export with the same, or into a new "
            "directory"
        )


def check_log(
    root: object, last: StoreProgress, log: KnownLog, report: Report | None = None, broker: str = ONLY
) -> None:
    """Check that the last export was of this log, by all that its progress holds.

    `report`: receives a note `unchecked` where the progress does not tell. Raises UsageError: it was of another log, or
    the log was cut and written again since.
    """
    anchor, streamed = last.anchor, last.offsets is not None
    of = broker_text(" of broker {}", broker)
    why = "" if anchor is None else why_lost(log, anchor)
    if not why and not last.at_end and not streamed:
        why = _why_no_begin(log, last.end)
    if why:
        raise UsageError(
            f"{root}: {broker_text('broker {}: ', broker)}{why}; it is not the log of the table's last export, up to "
            f"offset {last.end}: bring that log back, "
            f"{broker_text('leave the broker out, or give its store the name of a new one, ', broker)}"
            "or export into a new directory"
        )
    if report is None or last.end < log.files.min_offset:  # that loss is reported
        return
    if anchor is not None and log.has_expired(anchor):
        report.note(UNCHECKED, f"{root}: the record at the end of the last export{of} has expired: nothing else shows")
    elif not last.at_end and not streamed and last.end > log.files.min_offset:
        report.note(
            UNCHECKED,
            f"{root}: the last export{of} names no record at its end, as FlintMQ 0.1 did; what it names was found, and "
            "the next export with messages names one",
        )


def check_logs(root: object, last: Manifest, logs: Mapping[str, KnownLog], report: Report) -> None:
    """Check that stores are those of the last export, as `check_log` and `check_renamed` do."""
    for broker, log in logs.items():
        if broker in last.stores:
            check_log(root, last.stores[broker], log, report, broker)
    check_renamed(root, last, logs)


def _why_no_begin(log: KnownLog, offset: int) -> str:
    """Return why a log cannot be continued at an offset where one ended; empty if it can."""
    if offset > log.end:
        return (
            f"the log ends at offset {log.end}, before {offset}: it lost its tail, was put back, or is another store's"
        )
    if log.files.min_offset < offset < log.end:
        try:
            next(iter(LogWalk(log.files, begin=offset, end=log.end)), None)
        except CorruptStoreError:
            return f"no record begins at log offset {offset}: the log was truncated, is another store's, or is damaged"
    return ""


def check_renamed(root: object, last: Manifest, logs: Mapping[str, KnownLog]) -> None:
    """Refuse a store that the table knows by the name of a broker which is not given now.

    All of its messages would come again, as those of another broker. Only brokers that are new to the table are looked
    at, and of a broker that is gone only the record that identifies its log.
    """
    known = last.stores
    gone = [(name, one.anchor) for name, one in sorted(known.items()) if name not in logs and one.anchor is not None]
    for broker, log in logs.items():
        if broker in known:
            continue
        for name, anchor in gone:
            if not log.has_expired(anchor) and not why_lost(log, anchor):
                raise UsageError(
                    f"{root}: the table knows the store of broker {short(broker)} as broker {short(name)}, and would "
                    "get its messages again; give it the old name, or export into a new directory"
                )


def only_adds(there: Sequence[Sequence[str]] | None, now: Sequence[Sequence[str]] | None) -> bool:
    """Return whether the property columns contain all earlier ones; earlier rows have nulls."""
    return there is not None and now is not None and {tuple(pair) for pair in there} <= {tuple(pair) for pair in now}


def shown(value: Any) -> str:
    words = {None: "nothing", True: "given", False: "not given"}
    text = words[value] if value is None or isinstance(value, bool) else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:80]}... of {len(text)} characters"


def advanced(
    last: StoreProgress | None,
    begin: int,
    end: int,
    anchor: LogAnchor | None,
    offsets: Mapping[str, int] | None = None,
) -> StoreProgress:
    """Return the progress of a store after tasks that read from log offset `begin` to `end`.

    `anchor`: the record at the end; None: there is none, or none could be read. `offsets`: of a streaming export.
    """
    if anchor is None and last is not None:  # an earlier record is better than none
        return StoreProgress(begin, end, last.anchor, None if offsets is None else dict(offsets))
    return StoreProgress(begin, end, anchor, None if offsets is None else dict(offsets), at_end=True)


@dataclass(frozen=True)
class RangeTask:
    name: str  # begins the names of its files; unique in an export, in the order of the rows
    member: Member
    plan: ScanPlan
    part: LogRange


@dataclass(frozen=True)
class PartTask:
    name: str  # name, member: as in RangeTask
    member: Member
    part: StreamTask


def task_name(store: int, member: Member, begin: int) -> str:
    """Return the beginning of the names of a task's files.

    Args:
        store: number of the store among those of the export.
        member: the store; files of an only one do not say which it is.
        begin: log offset.
    """
    return f"{store:05d}-{begin:020d}" if member.broker else f"{begin:020d}"


def part_tasks(stream: StoresStream, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[PartTask]:
    """Plan the tasks of a micro-batch.

    Raises:
        As StoresStream.tasks.
    """
    numbers = {broker: number for number, broker in enumerate(sorted(stream.by_broker(end)))}
    return [
        PartTask(task_name(numbers[one.broker], one, part.begin), one, part) for one, part in stream.tasks(start, end)
    ]


def with_news(stores: Mapping[str, StoreProgress], tasks: Iterable[RangeTask | PartTask]) -> dict[str, StoreProgress]:
    """Return the progress of the stores that tasks read, and always that of an only store."""
    told = {ONLY, *(task.member.broker for task in tasks)}
    return {broker: progress for broker, progress in stores.items() if broker in told}


def export_range(tasks: TaskFolders, files: FileOptions, task: RangeTask) -> dict[str, Any]:
    """Run one task: write the messages of one range as Parquet files.

    The files are in a directory of this attempt; other attempts at the same range have their own.
    """
    report = Report()
    batches = scan_range(task.plan, task.part, SPARK_SCHEMA, report, SCAN_BYTES, apart=True)
    return write_files(files.shape.named(batches, task.member), tasks, files, task.name, report)


def write_files(
    batches: Iterable[pa.RecordBatch],
    tasks: TaskFolders,
    files: FileOptions,
    name: str,
    report: Report,
) -> dict[str, Any]:
    """Write the rows of a task into a new directory, and return the answer for the driver."""
    with ExitStack() as stack:
        attempt = stack.enter_context(tasks.attempt(name))
        writer, dead = stack.enter_context(files.writer(attempt)), None  # lake/shape/parquet.py
        if files.dead_letters:
            dead = stack.enter_context(DeadLetterWriter(attempt.folder, files.shape.many))
        files.shape.keep_undecoded(report)
        rows = 0
        reasons: Counter[str] = Counter()
        for batch in batches:
            if batch.num_rows:
                shaped, bad = files.shape.shaped(batch, report)
                if bad and dead is None and files.shape.changes is not None:
                    raise _unread(batch, *bad[0])
                writer.write(shaped)
                rows += batch.num_rows
                reasons.update(reason for _, reason in bad)
                if dead is not None and bad:
                    dead.write(batch, bad)
        writer.close()
        letters = None if dead is None else dead.close()
        kept = [
            part._replace(path=attempt.keep(part.path, *os.path.split(part.place))) for part in parts_of(writer, name)
        ]
        letters = None if letters is None else attempt.keep(letters)
    found = {"damages": report.damage_count, "lost_bytes": report.lost_bytes, "bad_bodies": reasons.total()}
    more = {"bad_reasons": dict(reasons), "dead_letters": None if letters is None else [letters, name]}
    texts = report.texts(TEXTS_KEPT)
    losses = [[code, count, texts.get(code, [])] for code, count in report.note_counts.items() if code in REPEATED]
    return {"rows": rows, "files": kept, "losses": losses, **found, **more}


def _unread(batch: pa.RecordBatch, row: int, reason: str) -> StoreError:
    """Return the error about a change that cannot be read, where no directory is given for it."""
    topic, queue, offset = (batch.column(name)[row].as_py() for name in ("topic", "queue_id", "queue_offset"))
    kept = "; --dead-letters DIR keeps such messages there, and the export goes on without them"
    more = "" if reason == INNER_BATCH else kept
    return StoreError(
        f"topic {short(topic)}, queue {queue}, offset {offset}: the change cannot be read: {reason}{more}"
    )


def publish(
    target: Target,
    last: Manifest | None,
    done: Exported,
    choice: dict[str, Any],
    stores: Mapping[str, StoreProgress],
    parts: Sequence[StagedFile],
    options: FileOptions,
    letters: DeadLetters,
) -> Manifest:
    """Publish the files of the winning attempts, and return the new manifest.

    `done` receives number, files and bytes; `letters` the dead letters of the tasks, before the files are published.
    """
    shape, merged = options.shape, None
    done.number = target.number_after(last)
    assert done.begin <= done.end and (last is None or done.number > last.number)
    only = stores.get(ONLY, StoreProgress(0, 0, None))
    manifest = Manifest(
        number=done.number,
        begin=only.begin,
        end=only.end,
        rows=done.rows,
        files=[],
        bytes=0,
        anchor=only.anchor,
        at_end=only.at_end,
        choice=choice,
        lost_bytes=done.lost_bytes,
        made=now(),
        offsets=only.offsets,
        names=NAMES,
        members=None if ONLY in stores else {**(last.stores if last is not None else {}), **stores},
        body_source=None if shape.body is None else shape.body.source_kept(),
        added=None if last is None else last.with_columns(_property_columns(choice), _property_columns(last.choice)),
    )
    if shape.changes is not None:
        assert isinstance(target, TransactionalTarget)  # of the other targets they were refused
        merged = merge(target, last, manifest, parts, options)
        parts, manifest = merged.files, replace(manifest, changes=merged.state)
    moves = [*parts, *target.hints(parts, shape.schema(), choice["partition_by"])]
    assert len({file.place for file in moves}) == len(moves)  # one would replace another
    done.files, done.bytes = len(moves), sum(file.size for file in moves)
    manifest = replace(manifest, files=[file.place for file in moves], bytes=done.bytes)
    letters.publish(0 if last is None else last.number, manifest.number)
    more = {} if merged is None else {"old": merged.old}
    target.publish(manifest, moves, shape.schema(), **more)
    return manifest


def _property_columns(choice: Mapping[str, Any]) -> list[str]:
    return [column for _, column in choice.get("properties") or ()]

"""Compares stores with the table that their messages were exported into.

A range of the log is read and shaped as the export did, and the table is asked for the rows of this range; both have to
be equal. A message that is not exported yet is no difference, and neither is a row whose message has expired, nor a
column without a value that was added after the row was exported (of a property or of the schema), nor, of a table that
streams made, a record without a queue: a prepared or rolled-back one, or one of a topic that was deleted before the
stream came to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.schema import FIRST_COLUMNS, SPARK_SCHEMA
from flintmq.cluster.member import Member
from flintmq.cluster.members import Stores, find_members
from flintmq.config.keys import StoreConfig
from flintmq.forensics.diff.differences import Difference, Differences, Kind
from flintmq.format.record import TRANSACTION_PREPARED
from flintmq.lake.export.export import check_kind, check_log, check_renamed
from flintmq.lake.export.workers import Progress, Threads, Workers
from flintmq.lake.read.members import logs_of, plan_members
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import ScanPlan, scan_range
from flintmq.lake.read.splits import LogRange, shares
from flintmq.lake.shape.columns import ExportColumns, columns_of
from flintmq.lake.table.parquet_target import stray_text
from flintmq.lake.table.row_files import below, is_exported
from flintmq.lake.table.table_rows import TableVersion, keys, milliseconds, open_table
from flintmq.lake.table.target import CHOICES, Manifest, StoreProgress
from flintmq.store.commitlog.predicate import MOST, Predicate
from flintmq.store.commitlog.report import VANISHED, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup

RANGE_BYTES = 16 << 20  # of log that a task compares; both sides are in memory
NO_PLACE = frozenset({"store"})  # columns that tell where a store was read, not what it holds


@dataclass
class TableComparison:
    """The result of a comparison of stores with a table.

    Attributes:
        strangers: rows that name no message: without a log or queue offset, or of a broker that was never exported.
        unqueued: records that are in no queue, so a stream exports none of them: prepared and rolled-back ones, and
            those of topics that were deleted, and perhaps made again, as far as the table does not have them.
        stray_files: of a Parquet table, files that no export made, and that its readers count; they are not compared.
    """

    table: str  # directory of the table, or its URL
    format: str  # "parquet", "delta" or "iceberg"
    number: int  # of the table's newest export
    messages: int = 0  # of the stores that are exported, and so were compared
    rows: int = 0  # of the table that were compared
    waiting: int = 0  # messages that are not exported yet
    expired: int = 0  # rows of messages that the stores no longer have
    strangers: int = 0
    left_alone: int = 0  # rows of brokers that are not among the stores; they are not compared
    unfilled: int = 0  # rows that have no value in a column which was added after they were exported
    unqueued: int = 0
    lost_files: int = 0  # data files, and directories of exports, that are not there; their rows count as missing
    stray_files: int = 0
    differences: Differences = field(default_factory=Differences)  # what differs; A is the store, B the table
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return 0 if self.equal else 1

    @property
    def equal(self) -> bool:
        """True if nothing differs, and the table has all of its files, and no others."""
        return not (self.differences.run_count or self.strangers or self.lost_files or self.stray_files)

    def as_dict(self) -> dict[str, Any]:
        found, own = self.differences, {**vars(self)}
        notes = own.pop("notes")
        return {
            **own,
            "differences": sum(found.counts.values()),
            "counts": {str(kind): count for kind, count in found.counts.items()},
            "runs": found.run_count,
            "first_store_timestamp": found.first_timestamp,
            "equal": self.equal,
            "notes": notes,
        }


def compare_table(
    stores: Stores,
    table: str,
    config: StoreConfig | None = None,
    *,
    catalog: str | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> TableComparison:
    """Compare stores with the table that their messages were exported into.

    Args:
        stores: the store; or, of a table of several, these (a list, a pattern, a manifest).
        table: directory of the table, or its URL.
        config: RocketMQ's keys, for settings that the files do not show.
        catalog: of an Iceberg table, NAME:NAMESPACE.TABLE; None: its own.
        workers: run the tasks; None for threads of this process.
        progress: called from time to time with tasks done and in all.

    Raises:
        UsageError: there is no such table; it is of other stores.
        NotAStoreError: a store that a list or a manifest names is not there, or none is.
        UnsupportedFormatError, StoreAccessError: a store or the table cannot be read.
        OSError: a file of the table cannot be read.
    """
    manifest, version = open_table(table, catalog, (config or StoreConfig()).s3, whole=False)
    choice, report = CHOICES | manifest.choice, Report()
    plans = plans_of(table, manifest, stores, config, report)
    columns, left_out = columns_of(choice, manifest.body_source)
    version = version.without_lost()
    found = TableComparison(table, version.to, manifest.number, lost_files=len(version.lost))
    if version.lost:
        others = f" (and {len(version.lost) - 1} others)" if len(version.lost) > 1 else ""
        lost = version.missing(min(version.lost))
        found.notes.append(f"{lost.place}{others}: {lost.cause}; {lost.advice}")
    strays = version.target().strays_at(version.version)
    if strays:
        found.stray_files = len(strays)
        found.notes.append(stray_text(strays, table))
    if left_out is not None:
        found.notes.append(f"bodies were exported as {left_out}: they are not compared")
    workers = workers or Threads()
    lots = list(_lots(table, manifest, plans, found, report))
    tasks = [
        task
        for member, plan, there in lots
        for task in _tasks(member, plan, there, left_out is None, _added(manifest, member.broker), choice["stream"])
    ]
    for answer in workers.run(partial(compare_range, version, columns), tasks, progress):
        _add(found, answer)
    for member, plan, _ in lots:
        found.expired += version.count_before(plan.log.min_offset, member.broker)
    absent = manifest.stores.keys() - {member.broker for member, _, _ in lots}
    found.left_alone = sum(version.count_before(MOST, broker) for broker in absent)
    found.strangers = version.count() - found.rows - found.expired - found.left_alone
    found.notes += [note.text for note in report.notes]
    return found


def plans_of(
    table: str, manifest: Manifest, stores: Stores, config: StoreConfig | None, report: Report
) -> list[tuple[Member, ScanPlan]]:
    """Plan a read of all stores that are named for a table; damage in them is skipped."""
    choice = CHOICES | manifest.choice
    topics = choice["topics"]
    read = ReadOptions.of_stores(
        stores,
        config,
        predicate=Predicate(topics=None if topics is None else frozenset(topics)),
        fail_on_data_loss=False,
        decompress=choice["decompress"],
        explode=choice["explode"],
    )
    check_kind(table, choice, read)
    find_members(stores, config)  # strict: a comparison without one of the named stores would say that all is equal
    plans = plan_members(read, report)
    check_renamed(table, manifest, logs_of(plans))
    return plans


@dataclass(frozen=True)
class DiffTask:
    """A range of a log to compare with its rows.

    Attributes:
        added: columns that were added later, and the log offset up to which rows may have no value in them.
        begins: if streams made the table (all of its exports, as one in another way is refused): the log offset of the
            first message of each queue. Otherwise None.
    """

    member: Member
    plan: ScanPlan
    part: LogRange
    last: bool  # whether it is the last one of the log; rows after it are compared as well
    progress: StoreProgress
    bodies: bool
    added: Mapping[str, int]
    begins: Mapping[QueueName, int] | None


Lot = tuple[Member, ScanPlan, StoreProgress]
_Places = dict[tuple[int, int], list[int]]  # numbers of the rows of a message


def _lots(
    table: str,
    manifest: Manifest,
    plans: Sequence[tuple[Member, ScanPlan]],
    found: TableComparison,
    report: Report,
) -> Iterator[Lot]:
    for member, plan in plans:
        there = manifest.stores.get(member.broker)
        if there is None:
            found.notes.append(f"nothing of {plan.options.path} is exported yet")
        else:
            check_log(table, there, plan.known, report, member.broker)
            yield member, plan, there
    found.notes += [
        f"broker {broker} is in the table and not among the stores: its rows are not compared"
        for broker in sorted(manifest.stores.keys() - logs_of(plans).keys())
    ]


def _added(manifest: Manifest, broker: str) -> dict[str, int]:
    """Return the columns that early rows of a store lack, and up to which log offset.

    No manifest says since when an export has a column that was added to the schema.
    """
    later = {name: MOST for name in SPARK_SCHEMA.names if name not in FIRST_COLUMNS}
    return later | {column: ends[broker] for column, ends in (manifest.added or {}).items() if broker in ends}


def _tasks(
    member: Member, plan: ScanPlan, there: StoreProgress, bodies: bool, added: Mapping[str, int], streamed: bool
) -> list[DiffTask]:
    begins = _begins(plan) if streamed else None
    begin, end = plan.log.min_offset, max(plan.end, plan.log.min_offset)
    parts = shares(plan.log, begin, end, max(1, -(-(end - begin) // RANGE_BYTES)))
    return [DiffTask(member, plan, part, part is parts[-1], there, bodies, added, begins) for part in parts]


def _begins(plan: ScanPlan) -> dict[QueueName, int]:
    """Return the log offset of the first message of each queue of a store that has messages.

    What lies before is of an earlier queue of that name, whose topic was deleted: no unit leads to it, and its queue
    offset says nothing of the queue that there is now.
    """
    lookup = QueueLookup(Snapshot.open(plan.options.path, plan.options.config))
    begins = dict.fromkeys(lookup.without_files(), 0)  # its files are lost: damage, no deletion
    for name in lookup.names():
        bounds = lookup.bounds(name)
        if bounds.min < bounds.max:
            first = lookup.message(name, bounds.min)
            begins[name] = 0 if first is None else first.physical_offset
    return begins


def compare_range(table: TableVersion, columns: ExportColumns, task: DiffTask) -> dict[str, Any]:
    """Run one task: compare the messages of one range with their rows."""
    report = Report()
    whole = _messages(columns, task, report)
    end = None if task.last else task.part.end
    rows = table.rows(whole.schema, task.part.begin, end, task.member.broker)
    rows = rows.filter(pc.is_valid(rows["queue_offset"]))  # the others are strangers
    wanted, exported = whole, is_exported(whole, task.progress)
    if task.begins is not None:
        earlier = _is_of_earlier_queue(whole, task.begins)
        there = _are_among(whole, rows)
        kept = pc.and_(_is_queued(whole), pc.or_(there, pc.invert(earlier)))
        exported = pc.if_else(earlier, there, exported).filter(kept)
        wanted = whole.filter(kept)
    exported = wanted.filter(exported)
    answer: dict[str, Any] = {
        "messages": exported.num_rows,
        "rows": rows.num_rows,
        "waiting": wanted.num_rows - exported.num_rows,
        "damages": report.damage_count,
        "vanished": bool(report.note_counts[VANISHED]),
        "unfilled": 0,
        "unqueued": whole.num_rows - wanted.num_rows,
        "differences": [],
    }
    if answer["vanished"] or exported.equals(rows):
        return answer
    if keys(exported) == keys(rows):
        rows, answer["unfilled"] = _filled(exported, rows, task.added)
    if not exported.equals(rows):
        differences, unfilled = _differences(exported, rows, task.added)
        answer |= {"differences": differences, "unfilled": answer["unfilled"] + unfilled}
    return answer


def _messages(columns: ExportColumns, task: DiffTask, report: Report) -> pa.Table:
    """Read the messages of a range as the export shaped them, without what cannot be compared."""
    columns.keep_undecoded(report)
    batches = columns.named(scan_range(task.plan, task.part, SPARK_SCHEMA, report), task.member)
    shaped = [columns.shaped(batch, report).rows for batch in batches]
    table = pa.Table.from_batches(shaped, columns.schema())
    left_out = [*NO_PLACE, *(() if task.bodies else ("body",))]
    table = table.select([name for name in table.schema.names if name not in left_out])
    return table.sort_by([("physical_offset", "ascending"), ("queue_offset", "ascending")])


def _is_queued(messages: pa.Table) -> Any:
    """Return which messages are in a queue, as a mask: not prepared or rolled-back records."""
    flags: Any = messages["sys_flag"].to_numpy()
    return pa.array(flags & TRANSACTION_PREPARED == 0)


def _is_of_earlier_queue(messages: pa.Table, begins: Mapping[QueueName, int]) -> Any:
    """Return which messages are of a topic that was deleted since, as a mask."""
    queues: Any = zip(messages["topic"].to_pylist(), messages["queue_id"].to_pylist(), strict=True)
    first = [begins.get(QueueName(*queue), MOST) for queue in queues]  # of a queue that is gone all are
    return below(messages["physical_offset"], pa.array(first, pa.int64()))


def _are_among(messages: pa.Table, rows: pa.Table) -> Any:
    known = set(keys(rows))
    return pa.array([key in known for key in keys(messages)], pa.bool_())


def _filled(messages: pa.Table, rows: pa.Table, added: Mapping[str, int]) -> tuple[pa.Table, int]:
    """Give rows the values of columns that were added later; return them, and how many got one."""
    got: Any = pa.scalar(False)
    for name, end in added.items():
        lacks = pc.and_(pc.is_null(rows[name]), below(messages["physical_offset"], end))
        got = pc.or_(got, pc.and_(lacks, pc.is_valid(messages[name])))
        filled = pc.if_else(lacks, messages[name], rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), filled)
    return rows, pc.sum(got).as_py() or 0


def _differences(messages: pa.Table, rows: pa.Table, added: Mapping[str, int]) -> tuple[list[tuple[Any, ...]], int]:
    """Return the differences in the order of the log, and how many rows `_filled` gave a value."""
    ours, theirs = _by_key(messages), _by_key(rows)
    both = sorted(ours.keys() & theirs.keys())
    one = messages.take(pa.array([ours[key][0] for key in both], pa.int64()))
    other = rows.take(pa.array([theirs[key][0] for key in both], pa.int64()))
    other, unfilled = _filled(one, other, added)
    fields = _columns_that_differ(one, other)
    altered = {both[number]: names for number, names in fields.items()}
    return list(_each_difference(messages, rows, ours, theirs, altered)), unfilled


def _each_difference(
    messages: pa.Table, rows: pa.Table, ours: _Places, theirs: _Places, altered: Mapping[tuple[int, int], list[str]]
) -> Iterator[tuple[Any, ...]]:
    for key in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(key, []), theirs.get(key, [])
        if key in altered:
            yield _told(Kind.ALTERED, messages, mine[0], altered[key])
        if len(other) < len(mine):
            yield _told(Kind.ONLY_A, messages, mine[0])
        elif len(other) > len(mine):
            yield _told(Kind.TWICE_B if mine else Kind.ONLY_B, rows, other[0])


def _by_key(table: pa.Table) -> _Places:
    found: _Places = {}
    for number, key in enumerate(keys(table)):
        found.setdefault(key, []).append(number)
    return found


def _columns_that_differ(messages: pa.Table, rows: pa.Table) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in messages.schema.names:
        if messages[name].equals(rows[name]):
            continue
        pairs = zip(messages[name].to_pylist(), rows[name].to_pylist(), strict=True)
        for number, (one, other) in enumerate(pairs):
            if one != other and repr(one) != repr(other):  # NaN is not equal to itself, also within a struct
                found.setdefault(number, []).append(name)
    return found


def _told(kind: Kind, table: pa.Table, row: int, fields: Sequence[str] = ()) -> tuple[Any, ...]:
    one = table.slice(row, 1)
    place = [one[name][0].as_py() for name in ("topic", "queue_id", "queue_offset", "physical_offset")]
    time = milliseconds(one["store_timestamp"])[0].as_py()
    return str(kind), *place, time, list(fields), one["size"][0].as_py()


def _add(found: TableComparison, answer: Mapping[str, Any]) -> None:
    for name in ("messages", "rows", "waiting", "unfilled", "unqueued"):
        setattr(found, name, getattr(found, name) + answer[name])
    if answer["damages"] and not answer["vanished"]:
        found.notes.append(f"{answer['damages']} damaged places of a log have no messages to compare")
    if answer["vanished"]:
        found.notes.append("messages expired during the comparison; their range was left out")
    for kind, topic, queue, offset, place, time, fields, size in answer["differences"]:
        a, b = (None if kind in (Kind.ONLY_B, Kind.TWICE_B) else place), (None if kind == Kind.ONLY_A else place)
        found.differences.add(Difference(Kind(kind), topic, queue, offset, a, b, time, tuple(fields), size))

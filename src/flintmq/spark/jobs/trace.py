"""Tells what became of every message of stores: `forensics/answers/trace.py` as Spark tasks.

1.  A task scans a range of a log, without bodies. Most records were stored at once and never came again: they stay
    columns. `step_of` makes a step of each other one. Both are packed by a hash of the message, for few, large rows:
    Spark then moves bytes, and converts no row on the way. An outcome goes where its half message goes.
2.  A task gets all records of some messages. Records that are in the company of a retry or a dead letter become steps
    too; steps are joined by `lives_of`. A row of the others differs from the next in columns of the record alone, if
    queue, file of the log and the groups that have passed it are the same: one row is made for all of those.
"""

from __future__ import annotations

import logging
import pickle
import re
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from flintmq.arrow.answers import schema_of, table
from flintmq.arrow.schema import SPARK_SCHEMA, US, narrow
from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.errors import MessageNotFoundError
from flintmq.forensics.answers.answer import Answer
from flintmq.forensics.answers.collect import WAITING_TOPICS, Collected, PlacedStep, TraceAsked, is_sent_to
from flintmq.forensics.answers.steps import AFTER, MessageStep, StepKind, company_of, step_of
from flintmq.forensics.answers.trace import Facts, Life, Trace, lives_of
from flintmq.format import properties
from flintmq.format.group_topics import HALF_TOPIC, OF_GROUPS, OUTCOME_TOPIC
from flintmq.format.record import TRANSACTION_MASK
from flintmq.format.text import java_encode
from flintmq.lake.read.members import plan_members
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import ScanPlan, scan_range
from flintmq.lake.read.splits import LogRange, files_of, shares, split_count
from flintmq.message import StoredMessage
from flintmq.spark.failing import rows_from_one_frame
from flintmq.spark.jobs.tasks import parallelism
from flintmq.spark.stream import lines_of
from flintmq.spark.worker import damage_in, freeze_once
from flintmq.store.append.half_message import ended_by
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.records import RecordReader
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.view import StoreView, open_store

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("flintmq.spark")

GROUP_BYTES = 256 << 20  # of log, whose records one task of the second stage has at once
SPREAD = 16  # parts for each of these tasks: Spark places parts by a hash, unevenly if they are few
PIECE_ROWS = 1 << 18  # that a task packs at once
ROWS_AT_ONCE = 1 << 15
KEPT = narrow(
    ("topic", "queue_id", "queue_offset", "keys", "msg_id", "offset_msg_id", "born_timestamp", "store_timestamp",
     "physical_offset"), SPARK_SCHEMA,
)  # fmt: skip
READ = narrow((*KEPT.names, "properties", "born_host", "sys_flag", "reconsume_times", "body_crc"), SPARK_SCHEMA)
_PACKED: Any = [pa.field("part", pa.int32()), pa.field("plain", pa.binary()), pa.field("steps", pa.binary())]
PACKED: pa.Schema = pa.schema(_PACKED)
PLAIN: pa.Schema = KEPT.append(pa.field("member", pa.int32()))
TIMES = ("born_timestamp", "store_timestamp")
OF_RECORD = {
    "queue_offset": "queue_offset", "physical_offset": "physical_offset", "keys": "keys", "msg_id": "msg_id",
    "offset_msg_id": "offset_msg_id", "first_ms": "store_timestamp", "born_ms": "born_timestamp",
    "stored_ms": "store_timestamp",
}  # fmt: skip
"""Columns of a row that differ from message to message where none came again."""
MARKS = pa.array([properties.REAL_TOPIC, properties.TIMER_DEQUEUE_MS, properties.INNER_NUM])
TURNS = (*WAITING_TOPICS, OUTCOME_TOPIC)
DROPPED, STEP, SENT = range(3)


class Ended(NamedTuple):
    """Says when the half message at an offset was ended."""

    store: int
    offset: int
    ended_ms: int


Packed: TypeAlias = "PlacedStep | Ended"


@dataclass(frozen=True)
class TraceTask:
    """Names what one task of the first stage reads: a range of the log of a store.

    `topics`: those asked for; None: all that messages are sent to. `parts`: into so many parts it packs them.
    """

    member: int
    plan: ScanPlan
    part: LogRange
    topics: frozenset[str] | None
    deleted: frozenset[bytes]
    parts: int

    def wants(self, topic: str) -> bool:
        return topic != "" and (is_sent_to(topic) if self.topics is None else topic in self.topics)

    def sort_of(self, topic: str) -> int:
        if topic in TURNS or topic.startswith(OF_GROUPS):
            return STEP
        return DROPPED if not self.wants(topic) else STEP if java_encode(topic) in self.deleted else SENT


def trace(
    spark: SparkSession,
    root: Stores,
    config: StoreConfig | None = None,
    *,
    topics: Sequence[str] | None = None,
    fail_on_data_loss: bool = True,
    access: str = "pread",
    damage: Accumulator[int] | None = None,
) -> DataFrame:
    """Return what became of every message, one row each, as a DataFrame.

    Columns and values are those of `flintmq trace`; those that end in `_ms` are timestamps, null outside the years 1
    to 9999. For SQL: `.createOrReplaceTempView("trace")`. Nothing is read before an action, and each action reads the
    logs once, to the end that they had in this call; offsets of groups are of this call, too.

    Rows are those of `trace` for each topic. So a retry or dead letter that names no topic is left out; of a message
    with more than 1,000 records those are kept that were stored at once.

    Args:
        spark: the session. Workers must see `root` under the same path as the driver.
        root: directory or URL of the store, or several stores.
        config: RocketMQ's keys, for settings that the files do not show: when logs expire, delay levels.
        topics: that consumers ask for; None: all.
        fail_on_data_loss: damage in a log fails the action; otherwise it is skipped, and reported on standard error.
        access: "pread" or "map".
        damage: each damaged place that hides rows is added to it; a place that a task reads twice counts twice.

    Raises:
        UsageError: a topic that nobody sends to.
        UnknownTopicError: no store has one of the topics.
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store cannot be read.
        CorruptStoreError: the end of a log is damaged or missing.
    """
    for topic in topics or ():
        TraceAsked(topic=topic).check()
    wanted, report, answer = None if topics is None else frozenset(topics), Report(), Answer[Trace](Trace)
    options = ReadOptions.of_stores(
        root, config, predicate=Predicate(topics=wanted), fail_on_data_loss=fail_on_data_loss,
        skip_option="fail_on_data_loss=False", access=access,
    )  # fmt: skip
    plans, stores = plan_members(options, report), []
    for member, plan in plans:
        snapshot = Snapshot.open(plan.options.path, plan.options.config, last=plan.last)
        stores.append(Facts(member, QueueLookup(snapshot), answer))
        stores[-1].end = plan.end
        if not fail_on_data_loss:
            answer.note_end(snapshot)
    for line in (*lines_of(report), *answer.notes):
        log.warning("%s", line)
    _count(answer.report, damage)
    whole = sum(plan.end - plan.begin for _, plan in plans)
    groups = max(2 * parallelism(spark), -(-whole // GROUP_BYTES))
    count, tasks = split_count(whole, parallelism(spark)), []
    for number, (_, plan) in enumerate(plans):
        read = replace(plan.options, predicate=_with_company(wanted))
        deleted = frozenset(stores[number].deletions)
        for part in shares(plan.log, plan.begin, plan.end, max(1, count * (plan.end - plan.begin) // max(whole, 1))):
            own = replace(plan, options=read, log=files_of(plan.log, part))
            tasks.append(TraceTask(number, own, part, wanted, deleted, SPREAD * groups))
    packed = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
        partial(_first_stage, tasks, damage), "part int, plain binary, steps binary"
    )
    rows = from_arrow_schema(schema_of(Trace, US))
    second: Any = partial(_second_stage, stores)
    return packed.repartition(groups, "part").mapInArrow(second, rows)


def _with_company(topics: frozenset[str] | None) -> Predicate:
    """Return a predicate on what may be of messages of these topics."""
    if topics is None:
        return Predicate()
    names = "|".join(map(re.escape, (*topics, *TURNS)))
    return Predicate(topic_pattern=f"(?s:{names}|({'|'.join(OF_GROUPS)}).*)")


def _count(report: Report, damage: Accumulator[int] | None) -> None:
    if damage is not None:
        damage.add(report.damage_count)


@rows_from_one_frame
def _first_stage(
    tasks: Sequence[TraceTask], damage: Accumulator[int] | None, batches: Iterator[pa.RecordBatch]
) -> Generator[pa.RecordBatch, None, None]:
    freeze_once()
    for task in (tasks[int(number.as_py())] for batch in batches for number in batch.column(0)):
        report = Report()
        with ExitStack() as stack:
            yield from _read(task, _Outcomes(task, stack), report)
        for line in damage_in(report):
            log.warning("%s", line)
        _count(report, damage)


def _read(task: TraceTask, outcomes: _Outcomes, report: Report) -> Iterator[pa.RecordBatch]:
    rows, plain = 0, list[pa.RecordBatch]()
    steps: defaultdict[int, list[Packed]] = defaultdict(list)
    for batch in scan_range(task.plan, task.part, READ, report):
        sorts = _sorts_of(task, batch)
        plain.append(batch.select(KEPT.names).filter(pa.array(sorts == SENT)))
        found = list(_steps(task, batch.filter(pa.array(sorts == STEP)), outcomes))
        for part, (_, step) in zip(_parts_of([one for one, _ in found], task.parts), found, strict=True):
            steps[part].append(step)
        rows += batch.num_rows
        if rows >= PIECE_ROWS:
            yield from _packed(task, plain, steps)
            rows, plain, steps = 0, [], defaultdict(list)
    yield from _packed(task, plain, steps)


def _sorts_of(task: TraceTask, batch: pa.RecordBatch) -> Any:
    """Return DROPPED, STEP or SENT (stored at once, with the sender's id) for each record."""
    topics: Any = batch["topic"].dictionary_encode()
    sorts = np.array([task.sort_of(str(name)) for name in topics.dictionary.to_pylist()], np.int8)[
        topics.indices.to_numpy()
    ]
    pairs: Any = batch["properties"]
    has_mark: Any = pc.is_in(pairs.keys, MARKS)
    marks = np.flatnonzero(has_mark.to_numpy(zero_copy_only=False))
    other = batch["sys_flag"].to_numpy() & TRANSACTION_MASK != 0
    other[np.searchsorted(pairs.offsets.to_numpy(), marks, "right") - 1] = True
    for name in ("msg_id", *TIMES):
        other |= batch[name].is_null().to_numpy(zero_copy_only=False)
    return np.where(other & (sorts == SENT), STEP, sorts)


class _Outcomes:
    """Finds the messages that outcomes end: their half messages mostly came shortly before."""

    def __init__(self, task: TraceTask, stack: ExitStack) -> None:
        self.task, self.stack, self.seen = task, stack, dict[int, str]()
        self.records = stack.enter_context(RecordReader(task.plan.log))
        self.view: StoreView | None = None

    def note(self, step: MessageStep, company: str) -> None:
        if step.kind is StepKind.HALF:
            self.seen[step.stored_offset] = company

    def ended_by(self, outcome: StoredMessage | None) -> Iterator[tuple[str, Ended]]:
        if outcome is None:
            return
        for offset in ended_by(outcome):
            if company := self.seen.pop(offset, None) or self._company_at(offset):
                yield company, Ended(self.task.member, offset, outcome.store_timestamp)

    def _company_at(self, offset: int) -> str | None:
        """Read a half message that another task has."""
        if self.view is None:
            read = self.task.plan.options
            self.view = self.stack.enter_context(open_store(read.path, config=read.config))
        try:
            half = self.view.get(HALF_TOPIC, 0, offset)
        except MessageNotFoundError:  # it has expired, or is damaged: it is no step either
            return None
        step = step_of(half)
        return company_of(half, step) if step is not None and self.task.wants(step.topic) else None


def _steps(task: TraceTask, batch: pa.RecordBatch, outcomes: _Outcomes) -> Iterator[tuple[str, Packed]]:
    """Yield the steps of records, with what they have in common with others of their message."""
    pairs: Any = batch["properties"]
    names, values, bounds = (part.to_pylist() for part in (pairs.keys, pairs.items, pairs.offsets))
    columns = READ.remove(READ.get_field_index("properties")).names
    rows = _in_ms(batch.select(columns))
    for number, row in enumerate(zip(*(rows[name].to_pylist() for name in columns), strict=True)):
        own = slice(bounds[number], bounds[number + 1])
        named = dict(zip(names[own], values[own], strict=True))
        record: Any = SimpleNamespace(**dict(zip(columns, row, strict=True)), properties=named)
        is_outcome = record.topic == OUTCOME_TOPIC  # whose body says it
        if is_outcome or None in (record.born_timestamp, record.store_timestamp):  # no time that Arrow's column has
            record = outcomes.records.at(record.physical_offset)
        if is_outcome:
            yield from outcomes.ended_by(record)
            continue
        step = step_of(record, task.plan.options.config.delay_ms)
        if step is not None and task.wants(step.topic):
            company = company_of(record, step)
            outcomes.note(step, company)
            yield company, PlacedStep(task.member, step)


def _in_ms(rows: Any) -> Any:
    """Return rows whose times are numbers, in ms."""
    for name in TIMES:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pc.divide(rows[name].cast(pa.int64()), 1000))
    return rows


def _parts_of(messages: Sequence[str] | Any, parts: int) -> Any:
    from pandas.util import hash_array

    return (hash_array(np.asarray(messages, object), categorize=False) % parts).astype(np.int64)


def _packed(task: TraceTask, plain: list[pa.RecordBatch], steps: dict[int, list[Packed]]) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(plain, KEPT)
    parts = _parts_of(rows["msg_id"].to_numpy(), task.parts)
    rows = rows.append_column("member", pa.repeat(pa.scalar(task.member, pa.int32()), rows.num_rows))
    rows = rows.take(np.argsort(parts, kind="stable"))
    bounds = np.searchsorted(np.sort(parts), np.arange(task.parts + 1))
    for part, (begin, end) in enumerate(pairwise(bounds)):
        if begin < end or part in steps:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, PLAIN) as stream:
                stream.write_table(rows.slice(begin, end - begin))
            row = {"part": part, "plain": sink.getvalue().to_pybytes(), "steps": pickle.dumps(steps.get(part, []))}
            yield pa.RecordBatch.from_pylist([row], PACKED)


@rows_from_one_frame
def _second_stage(stores: list[Facts], batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    freeze_once()
    steps: list[PlacedStep] = []
    tables = [PLAIN.empty_table()]
    for batch in batches:
        for _, plain, packed in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            tables.append(pa.ipc.open_stream(plain).read_all())
            for one in pickle.loads(packed):  # noqa: S301 - a task of the first stage packed it
                if isinstance(one, Ended):
                    ends = stores[one.store].ended
                    ends[one.offset] = min(one.ended_ms, ends.get(one.offset, one.ended_ms))
                else:
                    steps.append(one)
    rows = pa.concat_tables(tables)
    again = pa.array({one.step.message for one in steps if one.step.kind in AFTER}, pa.string())
    in_company = pc.is_in(rows["msg_id"], again)
    steps += map(_placed, _in_ms(rows.filter(in_company)).to_pylist())
    yield from _joined(steps, stores)
    yield from _alone(rows.filter(pc.invert(in_company)).combine_chunks(), stores)


def _placed(row: dict[str, Any]) -> PlacedStep:
    """Return the step of a record that was stored at once.

    `step_of` returns the same, but for how often it came, which of those counts for nothing.
    """
    place = row["topic"], row["queue_id"]
    return PlacedStep(row["member"], MessageStep(
        StepKind.STORED, row["msg_id"], *place, None, False, None, 0, "", "", False, *place, row["queue_offset"], 1,
        row["physical_offset"], row["store_timestamp"], row["born_timestamp"], row["keys"], row["msg_id"],
        row["offset_msg_id"],
    ))  # fmt: skip


def _joined(steps: list[PlacedStep], stores: list[Facts]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of messages that came again."""
    found, answer = dict[str, Collected](), Answer[Trace](Trace)
    for one in sorted(steps, key=lambda one: (one.store, one.step.physical_offset)):
        topic = one.step.topic
        found.setdefault(topic, Collected(TraceAsked(topic=topic), answer)).add(*one)  # type: ignore[arg-type]
    lives = [life for each in found.values() for life in lives_of(each)]
    for line in answer.notes:
        log.warning("%s", line)
    for begin in range(0, len(lives), ROWS_AT_ONCE):
        some = lives[begin : begin + ROWS_AT_ONCE]
        yield from table([stores[life.last.store].row(life) for life in some], Trace, times=US).to_batches()


def _alone(rows: pa.Table, stores: list[Facts]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of messages that were stored at once, and never came again."""
    numbers = rows.select(["member", "topic", "queue_id", "queue_offset", "physical_offset"]).to_pandas()
    offsets, physical = numbers["queue_offset"].to_numpy(), numbers["physical_offset"].to_numpy()
    like, firsts = np.zeros(len(numbers), np.int64), list[int]()
    for (member, topic, queue), at in numbers.groupby(["member", "topic", "queue_id"], sort=False).indices.items():
        facts = stores[member]
        files = np.searchsorted([fate.start for fate in facts.fates], physical[at], "right")
        places = facts.offsets_in(topic, int(queue))
        kinds = files * (len(places) + 1) + np.searchsorted(places, offsets[at], "right")
        _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
        like[at] = len(firsts) + kind
        firsts += at[first].tolist()
    alike = [_placed(row) for row in _in_ms(rows.take(pa.array(firsts, pa.int64()))).to_pylist()]
    made = table([stores[one.store].row(Life(stored=one)) for one in alike], Trace, times=US)
    for begin in range(0, rows.num_rows, ROWS_AT_ONCE):
        own = rows.slice(begin, ROWS_AT_ONCE)
        same = made.take(like[begin : begin + ROWS_AT_ONCE])
        for name, column in OF_RECORD.items():
            same = same.set_column(same.schema.get_field_index(name), name, own[column])
        yield from same.combine_chunks().to_batches()

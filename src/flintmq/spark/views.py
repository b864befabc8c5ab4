"""Offers queues, consumer groups, index items and what waits or died in a store as tables.

Spark reads every column of a Python source for `count()`. The ends of the queues, which their files contain, answer
most such queries without the log. Lag comes from the same function as that of `flintmq inspect` and the metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, get_type_hints

from pyspark.sql.datasource import DataSourceReader, InputPartition

from flintmq.cluster.member import ONLY, Member
from flintmq.errors import CorruptStoreError, FlintError, StoreError, UsageError
from flintmq.forensics.answers.answer import Answer
from flintmq.forensics.answers.dead import DeadMessage, dead
from flintmq.forensics.answers.halves import HalfMessage, halves
from flintmq.forensics.answers.timers import WaitingMessage, timers
from flintmq.format.text import utc
from flintmq.message import MEMBER_COLUMNS
from flintmq.spark.failing import rows_from_one_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flintmq.lake.read.options import ReadOptions
    from flintmq.store.index.reader import IndexFileReader
    from flintmq.store.read.queue_lookup import QueueLookup

    Rows = Iterator[dict[str, Any]]

log = logging.getLogger("flintmq.spark")

COLUMNS = {
    "queues": "topic string, queue_id int, min_offset bigint, max_offset bigint, messages bigint",
    "groups": "consumer_group string, topic string, queue_id int, next_offset bigint, max_offset bigint, lag bigint",
    "index": "key_hash int, physical_offset bigint, store_timestamp timestamp",
}
"""Columns of each view, as DDL: max_offset is the offset after the last message; messages and lag count messages."""
ROWS_AT_ONCE = 8192
DEAD_MAX = 100_000
"""Dead letters of one group that the view `dead` has."""
ANSWERS: dict[str, tuple[type[Any], Callable[..., Answer[Any]]]] = {
    "halves": (HalfMessage, halves),
    "timers": (WaitingMessage, timers),
    "dead": (DeadMessage, partial(dead, limit=DEAD_MAX)),
}


def _ddl(kind: type[Any]) -> str:
    """Return the columns of an answer's rows but for those that name the store."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in MEMBER_COLUMNS}
    words = {name: "timestamp" if name.endswith("_ms") else _WORDS[hint] for name, hint in hints.items()}
    return ", ".join(f"{name} {word}" for name, word in words.items())


_WORDS: dict[Any, str] = {int: "bigint", int | None: "bigint", str: "string", str | None: "string", bool: "boolean"}
COLUMNS |= {view: _ddl(kind) for view, (kind, _) in ANSWERS.items()}


def view_schema(view: str, many: bool = False) -> StructType:
    """Return the schema of a view; of several stores with the columns broker and store."""
    from pyspark.sql.types import (
        BooleanType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    from flintmq.arrow.schema import member_columns

    types = {
        "string": StringType, "int": IntegerType, "bigint": LongType, "timestamp": TimestampType,
        "boolean": BooleanType,
    }  # fmt: skip
    columns = ", ".join([COLUMNS[view], *(f"{name} string" for name in member_columns(many))])
    return StructType([StructField(name, types[kind]()) for name, kind in map(str.split, columns.split(", "))])


class ViewReader(DataSourceReader):
    """Yields the rows of a view of the topics and queues that the options select."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if not set(schema) <= set(view_schema(options.view, options.many)):  # the JVM asks for some of them
            raise UsageError(
                f"view {options.view} has the columns {COLUMNS[options.view]}; leave .schema(...) and the option "
                "columns out"
            )
        self.options, self.wanted = options, schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        import pyarrow as pa

        from flintmq.lake.read.asked import go_on
        from flintmq.lake.read.members import broker_members, lacked_by_all
        from flintmq.spark.schema import arrow_schema
        from flintmq.store.commitlog.report import Report
        from flintmq.store.read.known_topics import unknown_topics

        found: list[tuple[Rows, dict[str, str]]] = []
        lacking: list[dict[str, UsageError]] = []
        for member in broker_members(self.options, Report()):
            own = self.options.of(member)
            lookup, rows = VIEWS[own.view](own)
            found.append((rows, member.words))
            lacking.append(unknown_topics(lookup, own.predicate, go_on(own)))
        for error, _ in lacked_by_all(lacking) if self.options.fail_on_data_loss else ():
            raise error
        schema = arrow_schema(self.wanted)
        for rows, words in found:
            while some := [{**row, **words} for row in islice(rows, ROWS_AT_ONCE)]:
                yield pa.RecordBatch.from_pylist(some, schema=schema)


def _queues(options: ReadOptions) -> tuple[QueueLookup, Rows]:
    from flintmq.lake.stream.queues import StreamQueues

    queues = StreamQueues(options)
    rows = (
        {
            "topic": name.topic,
            "queue_id": name.queue_id,
            "min_offset": low,
            "max_offset": high,
            "messages": high - low,
        }
        for name, (low, high) in sorted(queues.bounds.items())
    )
    return queues.lookup, rows


def _groups(options: ReadOptions) -> tuple[QueueLookup, Rows]:
    from flintmq.forensics.inspect import inspect_messages
    from flintmq.store.layout.config_reader import LMQ_OFFSETS, OFFSETS
    from flintmq.store.layout.queue_name import QueueName

    lookup = _lookup(options)

    def rows() -> Rows:
        for problem in lookup.snapshot.broker.problems_of(OFFSETS, LMQ_OFFSETS):
            _missing(options, CorruptStoreError(problem.file, problem.position, f"{problem.reason}; {problem.instead}"))
        content = inspect_messages(lookup)
        for note in content.notes:
            if note.code in ("offset-ahead", "offset-absent"):  # where the lag says nothing
                log.warning("%s", note.text)
        known = {QueueName(topic.name, queue.queue_id) for topic in content.topics for queue in topic.queues}
        for group in content.groups:
            for one in group.offsets:
                name = QueueName(one.topic, one.queue_id)
                if not _wants(options, *name):
                    continue
                try:
                    # There is no such queue, or its end cannot be read, which is no lag of zero.
                    if name not in known and lookup.bounds(name).max:
                        raise StoreError("its end could not be read a moment ago; ask again")
                except (FlintError, OSError) as error:
                    place = f"{one.topic}/{one.queue_id}"
                    _missing(options, StoreError(f"the lag of group {group.name} is not known: {place}: {error}"))
                    continue
                yield {
                    "consumer_group": group.name,
                    "topic": one.topic,
                    "queue_id": one.queue_id,
                    "next_offset": one.offset,
                    "max_offset": one.max_offset,
                    "lag": one.lag,
                }

    return lookup, rows()


def _index(options: ReadOptions) -> tuple[QueueLookup, Rows]:
    """Return the items; of topics or queues that are asked for, those of their records."""
    from flintmq.store.commitlog.records import RecordReader
    from flintmq.store.index.reader import discover

    lookup, which = _lookup(options), options.predicate
    snapshot = lookup.snapshot

    def rows() -> Rows:
        with RecordReader(snapshot.log) as records:
            for file in discover(snapshot.root, snapshot.config, snapshot.effects):
                for row in _items(options, file):
                    message = None if which.everything else records.at(row["physical_offset"])
                    if which.everything or (message and _wants(options, message.topic, message.queue_id)):
                        yield row

    return lookup, rows()


def _items(options: ReadOptions, file: IndexFileReader) -> Iterator[dict[str, Any]]:
    """Yield the items of one file, and tell if it has fewer than its header says."""
    number = 0
    try:
        with file.open() as opened:
            header = opened.header()
            for _, item in opened.items(stop=header.next_item):
                if not any(item):  # zeros are what was never written
                    break
                number += 1
                yield {
                    "key_hash": item.key_hash,
                    "physical_offset": item.physical_offset,
                    "store_timestamp": utc(header.begin_timestamp + item.seconds * 1000),
                }
        if number < header.next_item - 1:
            reason = f"the header says {header.next_item - 1} items, the file has {number}"
            raise CorruptStoreError(file.path, 0, reason, "rebuild the index")
    except (FlintError, OSError) as error:
        _missing(options, error)


def _answered(options: ReadOptions) -> tuple[QueueLookup, Rows]:
    """Return the rows of an answer of one store, whose topic is one that the options select."""

    def rows() -> Rows:
        answer = ANSWERS[options.view][1]([Member(options.path, ONLY)], options.config)
        for row in answer.rows:
            place = (row.first_topic, row.first_queue) if isinstance(row, DeadMessage) else (row.topic, row.queue_id)
            if options.predicate.everything or _wants(options, *place):
                yield {name: utc(value) if name.endswith("_ms") and value is not None else value
                       for name, value in asdict(row).items()}  # fmt: skip
        for text in answer.notes:
            log.warning("%s", text)
        if answer.is_cut:
            _missing(options, StoreError(f"{options.path}: more than {DEAD_MAX} in one topic; read %DLQ% as messages"))
        if answer.report.damage_count:
            _missing(options, StoreError(f"{options.path}: records cannot be read; run `flintmq verify`"))

    return _lookup(options), rows()


def _lookup(options: ReadOptions) -> QueueLookup:
    from flintmq.storage.files.store_url import absolute
    from flintmq.store.commitlog.snapshot import Snapshot
    from flintmq.store.read.queue_lookup import QueueLookup

    return QueueLookup(Snapshot.open(absolute(options.path), options.config))


def _wants(options: ReadOptions, topic: str, queue_id: int) -> bool:
    from flintmq.kernels.read.select import ANY_QUEUE

    rules = options.predicate.rules(topic)
    return rules is not None and any(queue in (queue_id, ANY_QUEUE) for queue, _, _ in rules)


def _missing(options: ReadOptions, error: Exception) -> None:
    """Fail for rows that cannot be read or, with failOnDataLoss=false, tell it."""
    from flintmq.lake.read.asked import go_on

    if options.fail_on_data_loss:
        raise StoreError(f"{error}; {go_on(options)}") from error
    log.warning("%s", error)


VIEWS: dict[str, Callable[[ReadOptions], tuple[QueueLookup, Rows]]] = {
    "queues": _queues,
    "groups": _groups,
    "index": _index,
    **dict.fromkeys(ANSWERS, _answered),
}

"""Counts the record batches of one task of a statistics job into one small summary.

Goal: statistics of a log of any size in one pass, without bodies and in bounded memory. Plan: Arrow and NumPy reduce a
batch to a row for each queue, host, topic and bucket of time, and only these rows reach Python and the summaries of
`sketches`. So tasks on threads of one process wait little for each other: Arrow and NumPy work without the GIL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from flintmq.cluster.member import ONLY
from flintmq.lake.stats.hashes import hashes
from flintmq.lake.stats.sketches import WIDTHS, Hashes, Histogram, Numbers, Repeats, Series, Top

pc: Any = pyarrow.compute  # its stubs know one array type a call

COLUMNS = (
    *("topic", "queue_id", "queue_offset", "keys", "msg_id"),
    *("born_timestamp", "born_host", "store_timestamp", "size"),
)
TOPICS, QUEUES, HOSTS, VALUES, SAMPLE = 8192, 8192, 8192, 1024, 16_384
CELLS, SERIES_NAMES, BATCH_BUCKETS = 8192, 64, 160
LONGEST_MS = 1 << 45  # a thousand years: the limit of a latency
SEPARATOR = "\x02"  # separates a topic from its queue or value: it cannot be in a property

TOPIC_FOLDS = "++>"  # messages, bytes, largest latency
QUEUE_FOLDS = "++>>"  # messages, bytes, largest queue offset, largest latency
HOST_FOLDS = "++++>"  # messages, bytes, sum and number of latencies, largest latency
CELL_FOLDS = "++++>"  # messages, bytes, sum and number of latencies, largest latency
NO_LATENCY = -1
FEW = 10  # halves of hashes that may be alike by chance


def queue_key(topic: str, queue: int, broker: str = ONLY) -> str:
    return f"{topic}{SEPARATOR}{broker}/{queue}"


def queue_of(key: str) -> tuple[str, int, str]:
    topic, _, place = key.rpartition(SEPARATOR)
    broker, _, queue = place.rpartition("/")
    return topic, int(queue), broker


class _Counts:
    """Sums and sketches of a task."""

    SUMS: ClassVar[tuple[str, ...]]
    PARTS: ClassVar[tuple[str, ...]]

    def merge(self, other: Self) -> None:
        for name in self.SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in self.PARTS:
            getattr(self, name).merge(getattr(other, name))


class Values(_Counts):
    """Counts values of one kind that messages of a topic have: keys, or message ids."""

    SUMS, PARTS = ("messages",), ("repeats", "top")

    def __init__(self) -> None:
        self.messages = 0
        self.repeats = Repeats(SAMPLE)  # number of values, and of those that occur again
        self.top = Top(VALUES, "+")

    def add(self, found: Hashes, counts: Numbers, names_of: Callable[[Numbers], Iterable[str]]) -> None:
        """Count values, each given once.

        `names_of`: returns the values, TOPIC SEPARATOR VALUE, that have these numbers among those given.
        """
        self.repeats.add(found, counts)
        least = 1 if len(self.top.rows) >= VALUES else 0  # a value that occurs once could only displace frequent ones
        frequent = np.flatnonzero(counts > least)
        order = frequent[np.argsort(-counts[frequent], kind="stable")]
        kept = order[:VALUES]
        if len(kept) < len(counts):
            self.top.missed += int(counts[order[VALUES]]) if len(order) > VALUES else least
        for name, count in zip(names_of(kept), counts[kept].tolist(), strict=True):
            self.top.add(name, [count])

    def answer(self) -> dict[str, Any]:
        largest = max((row[0] for row in self.top.rows.values()), default=1)
        return {"messages": self.messages, **self.repeats.answer(largest)}


class Tally(_Counts):
    """All counts of a task.

    Attributes:
        messages, bytes: records, and their bytes in the log.
        ahead: records that were born later than they were stored, by the two clocks.
        undated: records with a time outside the years 1 to 9999; they are not on the axis of time and have no latency.
    """

    SUMS = ("messages", "bytes", "ahead", "undated")
    PARTS = ("topics", "queues", "hosts", "keys", "ids", "sizes", "latency", "series")

    def __init__(self, broker: str = ONLY) -> None:
        """Begin with nothing; `broker` is that of the queues."""
        self._broker = broker
        self.messages = self.bytes = self.ahead = self.undated = 0
        self.first: int | None = None  # first, last: least and largest store time, ms
        self.last: int | None = None
        self.topics, self.queues = Top(TOPICS, TOPIC_FOLDS), Top(QUEUES, QUEUE_FOLDS)
        self.hosts = Top(HOSTS, HOST_FOLDS)
        self.keys, self.ids = Values(), Values()
        self.sizes, self.latency = Histogram(), Histogram()
        self.series = Series(CELLS, SERIES_NAMES, CELL_FOLDS)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with COLUMNS, in the types of the Spark schema."""
        if not batch.num_rows:
            return
        size = batch.column("size").to_numpy()
        self.messages += batch.num_rows
        self.bytes += int(size.sum(dtype=np.int64))
        self.sizes.add(size.astype(np.int64))
        (stored, known), (born, also) = (_ms(batch.column(name)) for name in ("store_timestamp", "born_timestamp"))
        ahead = known & also & (stored < born)
        latency = np.where(known & also & ~ahead, np.minimum(stored - born, LONGEST_MS), NO_LATENCY)
        self.ahead += int(ahead.sum())
        self.undated += int((~known).sum())
        self.latency.add(latency[latency >= 0])
        if known.any():
            self._ends(int(stored[known].min()), int(stored[known].max()))
        topic = batch.column("topic").dictionary_encode()
        table = pa.table(
            {
                "topic": topic,
                "queue": batch.column("queue_id"),
                "offset": batch.column("queue_offset"),
                "size": pa.array(size, pa.int64()),
                "latency": pa.array(latency),
                "known": pa.array((latency >= 0).astype(np.int64)),
                "counted": pa.array(np.maximum(latency, 0)),
            }
        )
        self._add_queues(table)
        self._add_hosts(table, batch.column("born_host"))
        self._add_moments(table, stored, known)
        self._add_values(self.keys, topic, batch.column("keys"), several=True)
        self._add_values(self.ids, topic, batch.column("msg_id"), several=False)

    def _add_queues(self, table: pa.Table) -> None:
        sums = [([], "count_all"), ("size", "sum"), ("offset", "max"), ("latency", "max")]
        for topic, queue, *row in _grouped(table, ["topic", "queue"], sums):
            self.add_queue(topic, queue, row)

    def add_queue(self, topic: str, queue: int, row: list[int]) -> None:
        """Count messages of a queue, a row of QUEUE_FOLDS, for it and for its topic."""
        self.queues.add(queue_key(topic, queue, self._broker), row)
        self.topics.add(topic, [row[0], row[1], row[3]])

    def _add_hosts(self, table: pa.Table, hosts: pa.Array[Any]) -> None:
        encoded = hosts.dictionary_encode()
        names = pc.replace_substring_regex(encoded.dictionary, r":[0-9]+$", "").dictionary_encode()
        named = table.append_column("host", names.indices.take(encoded.indices))
        sums = [([], "count_all"), ("size", "sum"), ("counted", "sum"), ("known", "sum"), ("latency", "max")]
        texts = names.dictionary.to_pylist()
        for host, *row in _grouped(named, ["host"], sums):
            self.hosts.add(texts[host], row)

    def _add_moments(self, table: pa.Table, stored: Numbers, known: npt.NDArray[np.bool_]) -> None:
        """Count by buckets of time, so wide that this batch fills no more than some hundred of them."""
        if not known.all():
            table, stored = table.filter(pa.array(known)), stored[known]
        span = int(stored.max()) - int(stored.min()) if len(stored) else 0
        while (
            self.series.step < len(WIDTHS) - 1
            and span // self.series.width >= BATCH_BUCKETS  # else it fills fewer, wherever its times lie
            and len(np.unique(stored // self.series.width)) > BATCH_BUCKETS
        ):
            self.series.widen(self.series.step + 1)
        buckets = stored // self.series.width
        dated = table.append_column("bucket", pa.array(buckets))
        sums = [([], "count_all"), ("size", "sum"), ("counted", "sum"), ("known", "sum"), ("latency", "max")]
        rows = _grouped(dated, ["topic", "bucket"], sums)
        if not self.series.full:  # the first names are kept apart: those of the topics with most messages
            counts: Counter[str] = Counter()
            for topic, _, messages, *_ in rows:
                counts[topic] += messages
            rows.sort(key=lambda row: (-counts[row[0]], row[0]))
        for topic, bucket, *row in rows:
            self.series.add(bucket, topic, row)
        self.series.settle()

    @staticmethod
    def _add_values(values: Values, topic: Any, column: Any, several: bool) -> None:
        """Count the values of a column; a value that a message has several times counts once."""
        there = pc.fill_null(pc.not_equal(column, ""), False)
        if not pc.all(there).as_py():
            topic, column = topic.filter(there), column.filter(there)
        message = None
        if several and _has_space(column):
            parts = pc.split_pattern(column, " ")
            parent, column = pc.list_parent_indices(parts), pc.list_flatten(parts)
            there = pc.not_equal(column, "")
            parent, column = parent.filter(there), column.filter(there)
            topic, message = topic.take(parent), parent.to_numpy().astype(np.int64)
        if not len(column):
            return
        # The two hashes are independent of each other, so their sum is as even as each.
        found = hashes(column) + np.uint64(3) * hashes(topic.dictionary)[topic.indices]
        if message is None and _differ(found):  # as ids do
            rows, counts = np.arange(len(column)), np.ones(len(column), np.int64)
            values.messages += len(column)
        else:
            encoded = column.dictionary_encode()
            texts, among = len(encoded.dictionary), len(topic.dictionary) * len(encoded.dictionary)
            pairs = topic.indices.to_numpy().astype(np.int64) * texts + encoded.indices.to_numpy()
            once = np.arange(len(pairs)) if message is None else _runs(message * among + pairs)[0]
            values.messages += len(once) if message is None else len(_runs(message)[0])
            rows, counts = _runs(pairs[once])
            rows = once[rows]

        def names_of(numbers: Numbers) -> Iterator[str]:
            at = pa.array(rows[numbers])
            pairs = zip(_values(topic.take(at)), _values(column.take(at)), strict=True)
            return (f"{name}{SEPARATOR}{text}" for name, text in pairs)

        values.add(found[rows], counts, names_of)

    def merge(self, other: Tally) -> None:
        super().merge(other)
        self._ends(other.first, other.last)

    def _ends(self, *times: int | None) -> None:
        """Widen the span of store times."""
        known = [time for time in (self.first, self.last, *times) if time is not None]
        self.first, self.last = min(known, default=None), max(known, default=None)


def _ms(column: Any) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return times as ms since 1970, rounded down, and which of them are known."""
    known = column.is_valid().to_numpy(zero_copy_only=False)
    return column.view(pa.int64()).fill_null(0).to_numpy() // 1000, known


def _runs(values: Numbers) -> tuple[Numbers, Numbers]:
    """Return where each value is first, in their order, and how often it occurs.

    There is at least one value.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return order[begins], np.diff(begins, append=len(values))


def _has_space(column: Any) -> bool:
    """Return True if some text may have a space.

    A look at all texts at once, 20 times as fast as match_substring.
    """
    data = column.buffers()[2]
    return data is not None and bool((np.frombuffer(data, np.uint8) == ord(" ")).any())


def _differ(found: Hashes) -> bool:
    """Return True if all values are different, by their hashes; halves of those sort faster.

    False may be wrong: where more than a few halves are alike, nobody looks at the hashes.
    """
    half = (found >> np.uint64(32)).astype(np.uint32)
    ordered = np.sort(half)
    alike = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(alike) >= FEW:
        return False
    some = found[np.isin(half, alike)]
    return len(np.unique(some)) == len(some)


def _grouped(table: pa.Table, by: list[str], sums: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows of the groups: the keys, then the sums in their order."""
    grouped = table.group_by(by, use_threads=False).aggregate(sums)
    names = ["count_all" if not name else f"{name}_{fold}" for name, fold in sums]
    return list(zip(*(_values(grouped.column(name)) for name in [*by, *names]), strict=True))


def _values(column: Any) -> list[Any]:
    """Return a column's values, not code by code, which takes 20 times as long."""
    coded = pa.types.is_dictionary(column.type)
    return list((column.cast(column.type.value_type) if coded else column).to_pylist())

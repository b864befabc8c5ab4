"""Plans a bulk load: counts a source's chunks in tasks, and gives each a place in the log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy

from flintmq.config.keys import StoreConfig
from flintmq.format.record import BLANK_SIZE
from flintmq.spark.jobs.replay.refusals import checked
from flintmq.spark.jobs.replay.rows import Queues, Records, RowRules, SourceRow, rows_after
from flintmq.spark.jobs.replay.source import Chunk, Source
from flintmq.spark.jobs.replay.tasks import run_over_rows
from flintmq.spark.jobs.tasks import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ChunkCount:
    chunk: Chunk
    rows: int
    bytes: int
    files: int  # log files that they need if they begin with a new one
    last_time: int  # largest store time in ms
    queues: Queues
    left_out: Counter[str]  # records that are not messages, by reason
    damages: int = 0  # damages, lost_bytes: damaged places of a store's log that were skipped
    lost_bytes: int = 0


@dataclass
class ReplayTask:
    """The work of one task: chunks to write from a log offset on into a number of files."""

    chunks: list[Chunk]
    begin: int  # log offset of its first file
    files: int
    rows: int
    bytes: int
    queues: Queues
    last_time: int  # store time of the record before, in ms
    last: bool = False

    def to_json(self) -> str:
        return json.dumps({**vars(self), "queues": [[*name, offset] for name, offset in self.queues.items()]})

    @classmethod
    def from_json(cls, text: str) -> ReplayTask:
        value = json.loads(text)
        value["queues"] = {(topic, queue_id): offset for topic, queue_id, offset in value["queues"]}
        value["chunks"] = [Chunk(begin, end, tuple(files)) for begin, end, files in value["chunks"]]
        return cls(**value)


@dataclass
class Packer:
    """Counts the log files that records need if they are written one after the other.

    The first record is at the beginning of a file.
    """

    file_size: int
    files: int = 1
    used: int = 0

    def add(self, sizes: Any) -> None:
        """Add the sizes of records, none of them larger than a file can hold."""
        while len(sizes):
            ends = numpy.cumsum(sizes) + self.used
            fit = int(numpy.searchsorted(ends, self.file_size - BLANK_SIZE, "right"))
            assert fit or self.used  # a record that no file holds would be tried in one after another
            if fit == len(sizes):
                self.used = int(ends[-1])
                return
            sizes, self.used, self.files = sizes[fit:], 0, self.files + 1


def rules_of(config: StoreConfig, system_topics: bool, skip_refused: bool = False) -> RowRules:
    return RowRules(
        config.mapped_file_size_commit_log,
        config.max_record_size,
        config.enabled_append_prop_crc,
        system_topics,
        skip_refused=skip_refused,
    )


def count(
    spark: SparkSession,
    source: Source,
    chunks: Sequence[Chunk],
    where: str | None,
    rules: RowRules,
    after: SourceRow | None = None,
    progress: Progress | None = None,
) -> list[ChunkCount]:
    """Count every chunk, in tasks; only rows after `after`."""
    answers = run_over_rows(
        spark, source, [[chunk] for chunk in chunks], where, partial(count_rows, rules, after), progress
    )
    for chunk, answer in zip(chunks, answers, strict=True):
        queues = {(topic, queue_id): number for topic, queue_id, number in answer["queues"]}
        answer |= {"chunk": chunk, "queues": queues, "left_out": Counter(answer["left_out"])}
    return [ChunkCount(**answer) for answer in answers]


def count_rows(
    rules: RowRules, after: SourceRow | None, number: int, batches: Iterator[pa.RecordBatch]
) -> dict[str, Any]:
    packer, left_out, queues = Packer(rules.file_size), Counter[str](), dict[tuple[str, int], int]()
    rows, size, last = 0, 0, 0
    for batch in rows_after(batches, after):
        found = checked(batch, rules, left_out)
        if not found.num_rows:
            continue
        records = Records(found)
        sizes, _ = records.sizes(rules)
        packer.add(sizes)
        records.count(queues)
        last = records.rise(last)
        rows, size = rows + records.rows, size + int(sizes.sum())
    return {
        "rows": rows,
        "bytes": size,
        "files": packer.files,
        "last_time": last,
        "queues": [[*name, count] for name, count in queues.items()],
        "left_out": dict(left_out),
    }


def share_out(counted: Iterable[ChunkCount], file_size: int) -> list[ReplayTask]:
    """Give every chunk with messages its place in the log."""
    shares: list[ReplayTask] = []
    queues: Queues = {}
    last_time = 0
    for chunk in counted:
        if not chunk.rows:
            continue
        before = shares[-1] if shares else None
        if before is not None and before.bytes + chunk.bytes <= file_size - BLANK_SIZE:
            before.chunks.append(chunk.chunk)
            before.bytes, before.rows = before.bytes + chunk.bytes, before.rows + chunk.rows
        else:
            begin = before.begin + before.files * file_size if before is not None else 0
            shares.append(
                ReplayTask([chunk.chunk], begin, chunk.files, chunk.rows, chunk.bytes, dict(queues), last_time)
            )
        for name, number in chunk.queues.items():
            queues[name] = queues.get(name, 0) + number
        last_time = max(last_time, chunk.last_time)
    if shares:
        shares[-1].last = True
    return shares

"""Loads a source into a new store directory: Spark tasks write complete files of its log.

1.  a task counts a chunk of the source: records, bytes, and messages of each queue;
2.  from the counts the driver gives each chunk its log files, its first queue offsets, and its least store time. Chunks
    that fit into one file together share it, a larger chunk has its own files. The last file of each share ends with
    a filler record, as every full file does, so no two tasks write one file;
3.  a task encodes its share into its files and syncs them;
4.  the driver moves the files of the winning attempts to their places; the job `rebuild` makes queues and index
    from them; topics and checkpoint are written. Then one rename publishes the directory.

Everything before the rename happens in a directory beside the target, so a run that dies leaves no store; the next one
removes its remains (storage/files/staging.py).
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError
from flintmq.forensics.rebuild import indexed_time
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.text import java_encode
from flintmq.kernels.write import encode
from flintmq.spark.jobs.rebuild import rebuild
from flintmq.spark.jobs.replay.plan import ChunkCount, ReplayTask, share_out
from flintmq.spark.jobs.replay.refusals import checked
from flintmq.spark.jobs.replay.rows import Queues, Records, RowRules, SourceRow
from flintmq.spark.jobs.replay.source import Source
from flintmq.spark.jobs.replay.tasks import run_over_rows
from flintmq.spark.jobs.tasks import Progress
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.whole_file import sync_folder
from flintmq.store.commitlog.bulk_writer import LogWriter
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_writer import ConfigFile, save
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.services.topics import MOST_QUEUES, TABLE, Topics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass
class Loaded:
    """The result of a bulk load: end and number of files of its log, and last row of the source."""

    end: int
    files: int
    last_row: SourceRow


class NewStore(NamedTuple):
    staging: str
    config: StoreConfig  # RocketMQ's keys of its files
    peer: str  # the version of RocketMQ whose habits it follows

    @property
    def root(self) -> str:
        """Its root, below staging."""
        return os.path.join(self.staging, "store")


def load(
    spark: SparkSession,
    source: Source,
    counted: Sequence[ChunkCount],
    where: str | None,
    rules: RowRules,
    store: NewStore,
    progress: Progress | None,
) -> Loaded:
    """Write the store of counted chunks into its staging directory, complete and synced."""
    shares = share_out(counted, rules.file_size)
    plans, tasks = os.path.join(store.staging, "plans"), os.path.join(store.staging, "tasks")
    root = store.root
    log = os.path.join(root, "commitlog")
    for folder in (plans, tasks, log):
        os.makedirs(folder)
    for number, share in enumerate(shares):
        with open(os.path.join(plans, str(number)), "w", encoding="utf-8") as file:
            file.write(share.to_json())
    write = partial(write_share, rules, plans, tasks)
    answers = run_over_rows(spark, source, [share.chunks for share in shares], where, write, progress)
    for share, answer in zip(shares, answers, strict=True):
        if (answer["rows"], len(answer["files"])) != (share.rows, share.files):
            raise StoreError(
                f"the source has {answer['rows']} messages at log offsets {share.chunks[0].begin} to "
                f"{share.chunks[-1].end} where it had {share.rows} before; replay again, with a condition that always "
                "selects the same messages"
            )
        for name in answer["files"]:
            os.rename(os.path.join(answer["path"], name), os.path.join(log, name))
    sync_folder(log)
    last = answers[-1]
    rebuild(spark, root, root, store.config, store.peer)
    queues = {name: number for chunk in counted for name, number in chunk.queues.items()}
    write_topics(root, queues, source.queue_counts(), store.config, store.peer)
    known = Checkpoint(
        last["last_time"], last["last_time"], indexed_time(root, store.config.max_index_num, last["last_time"])
    )
    StoreFiles(root, REAL).write(last["end"], known)
    return Loaded(last["end"], sum(share.files for share in shares), SourceRow(*last["last_row"]))


def write_share(
    rules: RowRules, plans: str, tasks: str, number: int, batches: Iterator[pa.RecordBatch]
) -> dict[str, Any]:
    """Run one task of `load`: write log files into a new directory."""
    with open(os.path.join(plans, str(number)), encoding="utf-8") as file:
        share = ReplayTask.from_json(file.read())
    folder = os.path.join(tasks, f"{number:06d}-{uuid.uuid4().hex}")
    flags = encode.CRC_PROPERTY if rules.crc_property else 0
    log = LogWriter([folder], rules.file_size, share.begin, rules.max_size, flags, sync=True)
    rows, last, last_row = 0, share.last_time, None
    for batch in batches:
        batch = checked(batch, rules, Counter())
        if not batch.num_rows:
            continue
        records = Records(batch)
        records.count(share.queues)
        last = records.rise(last)
        log.append(records, 0, records.rows)
        rows += records.rows
        last_row = SourceRow.of(batch, -1)
    end = log.end
    log.close(full=not share.last)
    sync_folder(folder)
    names = sorted(os.listdir(folder))
    return {"rows": rows, "path": folder, "files": names, "end": end, "last_time": last, "last_row": last_row}


# -- other files of the store ------------------------------------------------------------------------------------------


def write_topics(root: str, queues: Queues, known: dict[str, int], config: StoreConfig, peer: str) -> None:
    """Write config/topics.json: all topics with messages, and their numbers of queues.

    A topic has as many queues as in the source's settings, or as it uses.
    """
    file = ConfigFile(root, config_reader.TOPICS, (TABLE,), REAL, peer)
    topics = Topics(file, config.default_topic_queue_nums, len(config.delay_ms))
    for topic in {topic for topic, _ in queues} & known.keys():
        if 1 <= known[topic] <= MOST_QUEUES:
            topics.create(topic, known[topic])
    topics.learn([(java_encode(topic), queue_id) for topic, queue_id in sorted(queues)], ())
    save([file], lambda: True)

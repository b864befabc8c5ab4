"""A stream without Spark: the reader's methods in the order in which Spark calls them."""

import json
import random

import pyarrow as pa

from flintmq import Message, MessageStore
from flintmq.spark.source import FlintMQSource

FIELDS = "topic,queue_id,queue_offset,physical_offset,sys_flag"


class Query:
    """One query. `reader` is made anew for each life; `checkpoint` is what survives: planned batches, done ones."""

    def __init__(self, path, columns=FIELDS, available_now=False, **options):
        self.options = {"path": str(path), "columns": columns, **{k: str(v) for k, v in options.items()}}
        self.batches = []  # (start, end) as planned
        self.done = 0
        self.available_now = available_now
        self.restart()

    def restart(self):
        """A new process that goes on from the checkpoint."""
        source = FlintMQSource(self.options)
        self.schema = source.schema()
        self.reader = source.streamReader(self.schema)
        if self.available_now:
            self.reader.prepareForTriggerAvailableNow()
        self.limit = self.reader.getDefaultReadLimit()
        if not self.batches:
            self.initial = through_json(self.reader.initialOffset())

    @property
    def offset(self):
        return self.batches[-1][1] if self.batches else self.initial

    def plan(self):
        """Plan the next batch and write it down; False if there is nothing to read."""
        end = through_json(self.reader.latestOffset(dict(self.offset), self.limit))
        self.reported = self.reader.reportLatestOffset()
        if json.dumps(end) == json.dumps(self.offset):
            return False
        self.batches.append((self.offset, end))
        return True

    def run(self):
        """Read what is planned and not done; gives its rows."""
        rows = []
        for start, end in self.batches[self.done :]:
            for partition in self.reader.partitions(start, end):
                task = FlintMQSource(self.options).streamReader(self.schema)
                for batch in task.read(partition):
                    rows += pa.Table.from_batches([batch]).to_pylist()
        self.done = len(self.batches)
        return rows

    def bites(self):
        """The rows of each batch until there is nothing more."""
        while self.plan():
            yield self.run()


def through_json(offset):
    return json.loads(json.dumps(offset))


def place(row):
    return row["topic"], row["queue_id"], row["queue_offset"]


def keys_of(store):
    return {k: str(v).lower() if isinstance(v, bool) else v for k, v in store.config.items() if isinstance(v, int)}


def in_queues(rows):
    """Log offsets of the records that have a queue unit."""
    return sorted(row["physical_offset"] for row in rows if row["sys_flag"] & 12 in (0, 8))


def numbers(rows):
    return [int(row["body"].split(b".")[0]) for row in rows]


class Writer:
    """The engine, putting numbered messages."""

    def __init__(self, path, seed=1):
        self.path, self.random, self.count = path, random.Random(seed), 0
        self.store = MessageStore(path, mapped_file_size_commit_log=64 * 1024)
        self.store.__enter__()

    def put(self, count, topics=("A", "B"), queues=3):
        for _ in range(count):
            topic, queue = self.random.choice(topics), self.random.randrange(queues)
            body = b"%d" % self.count + b"." * self.random.randrange(300)
            assert self.store.put(Message(topic, body, queue_id=queue)).outcome.name == "OK"
            self.count += 1

    def put_all(self, count, *where):
        """Put, and wait until the queues have it."""
        self.put(count, *where)
        assert self.store.wait_dispatched(60)

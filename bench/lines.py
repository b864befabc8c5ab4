"""The lines of the bench: all that is said of each before it is measured.

`number` is the line's in the list of 46 that the bench holds; some have several bars, and so several ids. An id's part
before its first dot is its *family*, which is measured at once. Ids are older than the numbers and stay, so that
figures of years can be compared.
"""

from __future__ import annotations

from typing import NamedTuple

from provenance import code


class Line(NamedTuple):
    """A line.

    Attributes:
        id: such as "P9b.map.100B".
        number: its place in the list.
        bar: "<= 0.25" or ">= 10"; "": none, the figure stands beside another one.
        moonshot: where it could go.
        peer: what it is compared with; "seconds" and the like: a figure in units of its own.
        module: the module whose FAMILIES has a function for its family. Imported when it is needed.
        layer: the highest layer of the package that it measures.
        what: the comparison in words.
        bound: what bounds it.
    """

    id: str
    number: int
    bar: str
    moonshot: float | None
    peer: str
    module: str
    layer: str
    what: str
    bound: str

    @property
    def family(self) -> str:
        head = self.id.partition(".")[0]
        return TOGETHER.get(head, head)

    @property
    def at_most(self) -> bool:
        """The figure must not exceed the bar; else it must reach it."""
        return not self.bar.startswith(">=")

    @property
    def limit(self) -> float | None:
        """The bar as a number."""
        return float(self.bar[3:]) if self.bar else None

    def holds(self, figure: float) -> bool | None:
        """Whether the bar holds; None if there is none."""
        if self.limit is None:
            return None
        return figure <= self.limit if self.at_most else figure >= self.limit

    @property
    def code(self) -> tuple[str, ...]:
        """The paths of the code that it measures, the measuring module too."""
        return (*code(self.layer), f"bench/{self.module}.py")


TOGETHER = {"HA2": "HA1"}  # a cost of what the other times

# fmt: off
LINES = (
    Line("P1.mapped", 1, "<= 0.25", 0.1, "Java's store", "put_lines", "store",
         "put 100 B, one at a time: processor time / Java's", "new pages of the kernel; calls of Python"),
    Line("P1.pool", 2, "<= 0.125", 0.08, "Java's store", "put_lines", "store",
         "the same with the transient pool, of both", "new pages of the kernel; calls of Python"),
    Line("P22", 3, "<= 1.5", 1.2, "puts without", "put_lines", "store",
         "put 100 B with a `born_host`, of 64 hosts in turn: processor time / without", "a text to eight bytes"),
    Line("P3.mapped", 4, ">= 4", 10, "Java's store", "put_lines", "store",
         "put 1 GiB of 1 KB, dispatch included: speed / Java's", "new pages of the kernel"),
    Line("P4", 5, ">= 5", 15, "Java's store", "put_lines", "store",
         "put 100 B in four threads: speed / Java's", "the interpreter's lock: four threads put as one"),
    Line("P6.mapped.p999", 6, "<= 0.5", 0.1, "Java's store", "put_lines", "store",
         "the longest of a thousand puts while the log is flushed: time / Java's", "page supply and write-back"),
    Line("P8.caller", 7, "<= 1.15", 1.05, "pwrite, fdatasync", "flush_lines", "store",
         "SYNC_FLUSH, one put at a time, `sync_in_caller`: time / a bare loop's", "the sync"),
    Line("P8.bare", 7, "", None, "pwrite, fdatasync", "flush_lines", "store",
         "the same without the option: the flusher syncs", "the sync, and waking the flusher and back"),
    Line("P8.java", 8, ">= 1.5", 1.7, "Java's store", "flush_lines", "store",
         "the same, with the option if there is one: Java's time / ours", "the sync"),
    Line("P7.64.bare", 9, "<= 2", 1.6, "pwrite, fdatasync", "flush_lines", "store",
         "SYNC_FLUSH, 64 puts under way by an event loop: time / a bare group's share", "the event loop's tasks"),
    Line("P7t.64.java", 10, ">= 1.3", 2, "Java's store", "flush_lines", "store",
         "SYNC_FLUSH, 64 threads that put: Java's time / ours", "handing the GIL from thread to thread"),
    Line("P18.1", 11, ">= 1.2", 1.35, "SQLite, LMDB, RocksDB", "peer_lines", "store",
         "durable, one a sync, 100 B: time of the best of them / ours, with `sync_in_caller` if there", "the disk"),
    Line("P18.64", 11, ">= 0.85", 0.95, "SQLite, LMDB, RocksDB", "peer_lines", "store",
         "the same, 64 a sync", "the disk"),
    Line("P17.lmdb", 12, ">= 2.5", 5, "LMDB", "peer_lines", "store",
         "one message a call, 100 B, not synced: LMDB's time / ours, dispatch included", "new pages; calls of Python"),
    Line("P9k", 13, ">= 10", 20, "Java's store", "start_lines", "store",
         "start after kill -9, 1 GiB of 1 KB, queues, index and our mark there, whole process: Java's time / ours",
         "the start of Python"),
    Line("P9a.bare.100B", 14, ">= 10", 16, "Java's store", "start_lines", "store",
         "start on 1 GiB of log alone, no mark of ours, 100 B, until dispatched: Java's time / ours, starts taken off",
         "reading the log again from the disk, validation, index insertion"),
    Line("P9a.bare.1KB", 14, ">= 8", 16, "Java's store", "start_lines", "store",
         "the same, 1 KB", "reading the log again from the disk, validation"),
    Line("P9a.100B", 14, "", None, "Java's store", "start_lines", "store",
         "the same with our mark, which spares the log its way to the disk and back, 100 B",
         "validation, then cache misses of index insertion"),
    Line("P9a.1KB", 14, "", None, "Java's store", "start_lines", "store",
         "the same with our mark, 1 KB", "validation"),
    Line("P20.killed.wall", 15, "<= 2.5", 1, "seconds", "start_lines", "store",
         "opening and closing a killed store of 10,000 queues that all changed, whole process, seconds",
         "some ten system calls a queue, and syncs"),
    Line("P20.clean", 16, "<= 1", 0.3, "seconds", "start_lines", "store",
         "opening and closing a clean store of 10,000 queues, processor seconds", "some ten system calls a queue"),
    Line("P10.cpu.100B", 17, ">= 10", 25, "Java's store", "start_lines", "forensics",
         "rebuild of queues and index, 100 B: Java's processor time / ours, starts taken off",
         "cache misses of index insertion"),
    Line("P10.cpu.1KB", 17, ">= 10", 25, "Java's store", "start_lines", "forensics",
         "the same, 1 KB", "reading the log"),
    Line("P9b.map.100B", 18, ">= 1", 1.2, "memcpy", "read_lines", "store",
         "validate with CRC, mapped, 100 B: speed / memcpy that maps too", "work for each record"),
    Line("P9b.map.1KB", 18, ">= 1.5", 1.8, "memcpy", "read_lines", "store", "the same, 1 KB", "memory"),
    Line("P11.parquet.100B", 19, ">= 3", 6, "pyarrow", "read_lines", "arrow",
         "scan_arrow of all columns, 100 B: speed / pyarrow's on uncompressed Parquet of the same rows",
         "validation, then 30 arrays for 21 columns"),
    Line("P11.parquet.1KB", 19, ">= 3", 6, "pyarrow", "read_lines", "arrow", "the same, 1 KB", "copying bodies"),
    Line("P12.duckdb.map.100B", 20, ">= 0.5", 0.8, "memcpy", "read_lines", "arrow",
         "group-by over 4 columns of the log in DuckDB, mapped, 100 B: speed / memcpy that maps too",
         "validation of every record; the aggregate"),
    Line("P12.duckdb.map.1KB", 20, ">= 0.9", 1.2, "memcpy", "read_lines", "arrow",
         "the same, 1 KB", "validation of every record"),
    Line("P23.store", 21, "<= 1.5", 0.8, "microseconds", "consumer_lines", "store",
         "a consumer's `poll(32)` over 8 queues, 100 B: processor us a message", "making an object of each record"),
    Line("P23.view", 21, "<= 2.5", 0.8, "microseconds", "consumer_lines", "store",
         "the same of `open_store`", "a read of the log for each batch"),
    Line("P23.queues", 22, "<= 1.5", 1.1, "8 queues", "consumer_lines", "store",
         "a consumer's `poll(32)` with 1,000 queues, 8 of them with news: processor time / with 8",
         "looking at queues that have nothing"),
    Line("P24", 23, "<= 3", 1.5, "milliseconds", "consumer_lines", "store",
         "`commit()` in a store with 10,000 groups, ms", "a sync, and the offsets of all groups in one file"),
    Line("P13.get", 24, "<= 0.5", 0.3, "microseconds", "consumer_lines", "store",
         "`get` of 1,024 messages of 100 B, their bodies taken: processor us a message", "making objects"),
    Line("P19.cached", 24, "<= 2.5", 1.5, "microseconds", "consumer_lines", "store",
         "`get` of one message of 4 KiB that is cached: processor us", "bytes, checks and an object"),
    Line("P19.java", 24, ">= 1.3", 2.5, "Java's store", "consumer_lines", "store",
         "random get of a 4 KiB message by queue offset, cold cache: Java's time / ours",
         "one read of the disk for the message, now and then one for its unit"),
    Line("U1.wall", 25, "<= 2", 1.2, "grep", "command_lines", "cli",
         "`scan --grep`, 1 GiB of 1 KB, whole process: time / that of grep, or of ripgrep where it is faster",
         "start of the process, then validation of every record"),
    Line("U6", 26, "<= 3", 0.8, "microseconds", "command_lines", "cli",
         "`scan --json` of 1 M messages of JSON, whole process: us a message", "text of 20 fields a message"),
    Line("U3.wall", 27, "<= 0.6", 0.2, "sha256sum", "command_lines", "cli",
         "`verify`, 1 GiB of 1 KB, whole process: time / sha256sum's of the log", "every record, unit and index item"),
    Line("U7", 28, "<= 0.45", 0.3, "seconds", "command_lines", "cli",
         "`sql`, a group-by over 1 M messages, whole process: seconds until it answered", "imports"),
    Line("P21.get", 29, "<= 0.12", None, "seconds", "command_lines", "cli",
         "`get`, whole process: processor seconds", "imports"),
    Line("P21.query", 29, "<= 0.12", None, "seconds", "command_lines", "cli",
         "`query`, whole process: processor seconds", "imports"),
    Line("P21.version", 29, "<= 0.05", None, "seconds", "command_lines", "cli",
         "`--version`, whole process: processor seconds", "the start of Python"),
    Line("P21.inspect", 29, "<= 0.7", None, "seconds", "command_lines", "cli",
         "`inspect` of 10,000 queues, whole process: processor seconds", "a few system calls a queue"),
    Line("Z1.key", 30, ">= 20", 60, "no maps", "zone_lines", "cli",
         "`scan --key` in 10 GiB: speed with zone maps / without", "8 MiB of zone"),
    Line("Z1.since", 30, ">= 20", 60, "no maps", "zone_lines", "cli",
         "`scan --since` for the newest thousandth of 10 GiB: speed with zone maps / without", "8 MiB of zone"),
    Line("S4.all.100B", 31, ">= 0.9", 1.1, "Spark's Parquet reader", "spark_lines", "spark",
         "Spark source without an option, all columns, 100 B: speed / Parquet's of the same rows; of three sessions",
         "the way through the socket; validation"),
    Line("S4.all.1KB", 31, ">= 0.85", 1, "Spark's Parquet reader", "spark_lines", "spark",
         "the same, 1 KB", "the way through the socket; validation"),
    Line("S4.two.100B", 32, ">= 0.65", 1, "Spark's Parquet reader", "spark_lines", "spark",
         "the same, `.select(\"topic\", \"body\")`, 100 B", "validation of every record"),
    Line("S4.two.1KB", 32, ">= 0.8", 1, "Spark's Parquet reader", "spark_lines", "spark",
         "the same, 1 KB", "validation of every record"),
    Line("S4.group.100B", 32, ">= 0.45", 1, "Spark's Parquet reader", "spark_lines", "spark",
         "the same, `.groupBy(\"topic\").count()`, 100 B", "validation of every record"),
    Line("S4.group.1KB", 32, ">= 0.5", 1, "Spark's Parquet reader", "spark_lines", "spark",
         "the same, 1 KB", "validation of every record"),
    Line("S4.json", 33, ">= 0.8", 1, "Spark's Parquet reader", "spark_lines", "spark",
         "the same, 1 M messages of JSON: `where` on the topic, `from_json`, a group-by", "Spark's from_json"),
    Line("S3.100B", 34, ">= 2", 2.5, "Spark's Kafka source", "kafka_lines", "spark",
         "Spark source, the 6 columns that Kafka has, 100 B: speed / Spark's Kafka source, tuned; of three sessions",
         "the way through the socket and into JVM rows"),
    Line("S3.1KB", 34, ">= 1.6", 2, "Spark's Kafka source", "kafka_lines", "spark",
         "the same, 1 KB", "the way through the socket and into JVM rows"),
    Line("C3.command", 35, ">= 5", 10, "`spark export`", "export_lines", "spark",
         "`export` to Parquet, 1 GiB of 1 KB, whole processes: speed / `spark export` on local[2]",
         "Parquet's encoding on two cores; start of Spark"),
    Line("C7", 35, "<= 1.8", 1, "microseconds", "export_lines", "cli",
         "`export` of 1 M messages of JSON to Delta, whole process: processor us a row",
         "imports, then Parquet's encoding"),
    Line("C8", 36, ">= 150000", 400_000, "messages a second", "export_lines", "cli",
         "`export --follow` to Delta beside a writer: highest rate with a lag <= 1 s and <= 2 versions an interval",
         "Parquet's encoding beside the writer on two cores"),
    Line("HA1", 37, ">= 1.5", 3, "Java's slave", "replication_lines", "ha",
         "catch-up of an empty follower, queues and index included: Java slave's time / ours",
         "frames of 32 KiB, two processors"),
    Line("HA2", 37, "<= 0.4", 0.2, "Java's slave", "replication_lines", "ha",
         "the same: our processor seconds / Java slave's", "receiving, checksums, index insertion"),
    Line("HA4", 37, "<= 10", 5, "milliseconds", "replication_lines", "ha",
         "put on a FlintMQ master until read on the follower, 1,000 a second: ms, 99 %", "wake-ups of five threads"),
    Line("HA7.1", 37, "<= 1", 0.5, "Java's master", "replication_lines", "ha",
         "SYNC_MASTER with one FlintMQ follower, one put under way: our time / Java's", "wake-ups of both ends"),
    Line("HA7.200", 37, "<= 1", 0.5, "Java's master", "replication_lines", "ha",
         "the same, 200 under way", "wake-ups of both ends"),
    Line("P16.idle", 38, "<= 32", None, "MiB", "memory_lines", "store",
         "memory of a process with a store, idle, mapped files left out, MiB", "Python itself"),
    Line("P16.load", 38, "<= 32", None, "MiB", "memory_lines", "store", "the same while it puts", "Python itself"),
    Line("M1.sql", 38, "<= 256", None, "MiB", "memory_lines", "cli",
         "memory of `sql`, a group-by over 16 GiB, MiB", "the interpreter, DuckDB, a batch a thread"),
    Line("M1.export", 38, "<= 512", None, "MiB", "memory_lines", "cli",
         "memory of `export` of 16 GiB, MiB", "Parquet's row groups, one a thread"),
    Line("B1.async.100B", 39, "<= 0.25", 0.2, "Java's broker", "broker_lines", "broker",
         "`flintmq broker`, a stock Java producer, 256 sends under way, 100 B: the broker's processor time a message / "
         "Java's", "reading a request and writing its answer in Python"),
    Line("B1.async.1KB", 39, "<= 0.4", 0.3, "Java's broker", "broker_lines", "broker",
         "the same, 1 KB", "the same, and new pages of the kernel"),
    Line("B1.sync", 39, "<= 0.55", 0.3, "Java's broker", "broker_lines", "broker",
         "the same, 100 B, one at a time", "a wake-up, a read and a write of the socket for each message"),
    Line("B2.cpu", 40, "<= 0.3", 0.15, "Java's broker", "broker_lines", "broker",
         "`flintmq broker`, one stock Java push consumer of 200,000 messages of 100 B: the broker's processor time a "
         "message / Java's", "a request for 32 messages"),
    Line("B2.rate", 41, ">= 1", 2, "Java's broker", "broker_lines", "broker",
         "the same: messages a second / Java's", "the client"),
    Line("B2.readonly", 41, ">= 1", 2, "Java's broker", "broker_lines", "broker",
         "the same with `--read-only`", "a read of the log for each request"),
    Line("B3", 42, "<= 1", None, "Java's broker", "broker_lines", "broker",
         "`flintmq broker`, idle but for a message each 10 ms, from before its send until a push consumer has it: ms, "
         "99 % / Java's", "wake-ups of both ends"),
    Line("B4", 43, "<= 0.6", 0.15, "seconds", "broker_lines", "cli",
         "`flintmq broker` of an empty store, from its start until it is ready: seconds", "imports"),
    Line("B5", 44, "<= 90", 60, "MiB", "broker_lines", "broker",
         "memory of `flintmq broker` after 1,000,000 messages of a stock Java producer, files left out, MiB",
         "Python itself"),
    Line("B6", 45, "<= 0.15", 0.05, "seconds", "broker_lines", "broker",
         "the fixture `flintmq_broker`, its start and its stop: seconds", "syncs, and ends of threads"),
    Line("B7", 46, "<= 1", 0.14, "Java's proxy", "broker_lines", "broker",
         "`flintmq broker`, 4,000 messages of 100 B that one client sends at once by gRPC: processor time a message / "
         "that of Java's proxy with its broker", "frames of HTTP/2 in Python"),
)
# fmt: on
FAMILIES = {line.family: line for line in LINES}  # any line of a family: all have its module

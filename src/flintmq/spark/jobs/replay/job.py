"""Replays messages into a store: from a store, or from Parquet or Delta made by an export.

Into a new directory: bulk load by Spark tasks (`bulk.py`); the store appears complete, by one rename. Into an existing
store: puts in order by the driver (`live.py`). Either way the store's ledger records the progress, so the same replay
run again adds only messages that are new in the source.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.format.index import PEER_533, checked_peer
from flintmq.spark.jobs.replay.bulk import NewStore, load
from flintmq.spark.jobs.replay.carried import carry_offsets
from flintmq.spark.jobs.replay.exactly_once import WriterIds, noted
from flintmq.spark.jobs.replay.live import Pace, Position, put_rows
from flintmq.spark.jobs.replay.plan import count, count_rows, rules_of, share_out
from flintmq.spark.jobs.replay.refusals import batches_of, target_config
from flintmq.spark.jobs.replay.rows import OTHER, RowRules, SourceRow
from flintmq.spark.jobs.replay.source import CHUNK_BYTES, Chunk, ReplaySource, Source, open_source, rows_of
from flintmq.spark.jobs.replay.tasks import matching
from flintmq.spark.jobs.tasks import Progress, parallelism, scaled
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.staging import bring_in, staging_for, sweep
from flintmq.storage.files.store_url import absolute, is_remote, local_only, outside_store
from flintmq.store import arguments
from flintmq.store.commitlog.anchor import anchor_at
from flintmq.store.commitlog.report import LOST, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.given_sizes import refuse_other_sizes
from flintmq.store.message_store import MessageStore
from flintmq.tabular import Summary

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LEAST_CHUNK = 1 << 20
BULK, LIVE = "bulk", "live"
LOOKING = 0.3  # share of checks in the progress of puts: all messages are checked before the first is put
_REPLAY = "replay of "  # begins the writer ids of replays
STAGING = "replay"  # of a bulk load, beside its place


@dataclass
class Replayed(Summary):
    """The result of a replay, or of a dry run the result that it would have.

    Attributes:
        mode: "bulk" or "live".
        source: "store", "parquet" or "delta".
        dry_run: nothing was written.
        rows: messages put into the store.
        bytes: of their records; 0 if they were put one by one.
        topics, queues: numbers of those with these messages; 0 if they were put one by one.
        files: of the log of a bulk load.
        found: messages of an earlier run, which died, that were in the store already.
        total: messages that all runs of this replay have put into the store.
        left_out: records that are not messages, by reason.
        damages, lost_bytes: damaged places of the source's log that were skipped.
        notes, note_texts: as of an export: of a store code -> number of notes, and their first sentences.
        offsets: offsets of groups that were carried over.
        offsets_left: sentences on those that were not.
    """

    mode: str
    source: str
    dry_run: bool = False
    rows: int = 0
    bytes: int = 0
    topics: int = 0
    queues: int = 0
    files: int = 0
    found: int = 0
    total: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    damages: int = 0
    lost_bytes: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    note_texts: dict[str, list[str]] = field(default_factory=dict)
    offsets: int = 0
    offsets_left: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if nothing was skipped, refused or is lost; else 1."""
        return int(bool(self.damages or self.notes.get(LOST) or self.left_out.get("refused_messages")))


def replay(
    spark: SparkSession | None,
    source: str,
    into: str,
    config: StoreConfig | None = None,
    *,
    where: str | None = None,
    live: bool = False,
    speed: str = "max",
    dry_run: bool = False,
    system_topics: bool = False,
    fail_on_data_loss: bool = True,
    skip_refused: bool = False,
    with_offsets: bool = False,
    access: str = "pread",
    peer: str = PEER_533,
    progress: Progress | None = None,
) -> Replayed:
    """Put the messages of a source into a store, each queue's in its order.

    Args:
        spark: the session. Workers must see `source` and `into` under the same paths as the driver. None is enough to
            put messages of a store one by one without a condition: then this process does all of it.
        source: a store, a Delta table or a directory of exports to Parquet; or the URL of one.
        into: a directory that is empty or does not exist: it becomes a new store, by a bulk load. Or a store that no
            process has open: messages are put after those that it has.
        config: RocketMQ's keys for the target store. The source uses only maxMessageSize and those of object
            storage of them.
        where: only messages that meet this condition in Spark's SQL on the columns of the schema.
        live: put one by one also into a new store, with the present store times.
        speed: "max"; of puts one by one also "original": with the time between them that was between their store times,
            or "xN": N times as fast.
        dry_run: count, and write nothing.
        system_topics: include the broker's own topics, which it would process again.
        fail_on_data_loss: damage in a source's log is an error; otherwise it is skipped and counted,
            and a missing end is noted.
        skip_refused: messages that the store would refuse are left out and counted; otherwise the first of them is an
            error, and nothing is written.
        with_offsets: carry the offsets of the groups of a source store over (`carried.py`).
        access: "pread" or "map".
        peer: the RocketMQ version to write for, "5.3.3", "5.4.0" or "5.5.0".
        progress: called from time to time with tasks done and in all.

    Raises:
        TypeError: a switch that is neither True nor False; nothing was done.
        UsageError: an impossible option; `into` is inside the source, or contains other files; another replay makes the
            same store; the store would refuse a message (and not skip_refused).
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the source or the directory cannot be used.
        StoreLockedError: another process has the store open.
        CorruptStoreError: damage in the source's log.
        StoreError: Spark gave up, the store refused a message, or messages of the source have expired since the last
            run (and fail_on_data_loss).

    Durability: everything, on return.
    """
    arguments.flags(
        live=live,
        dry_run=dry_run,
        system_topics=system_topics,
        fail_on_data_loss=fail_on_data_loss,
        skip_refused=skip_refused,
        with_offsets=with_offsets,
    )
    config, into, source = config or StoreConfig(), os.path.abspath(local_only(into)), absolute(source)
    pace = Pace.parse(speed)
    checked_peer(peer)
    if where is not None and not where.strip():
        raise UsageError("the condition is empty; leave it out for all messages")
    if where is not None and not fail_on_data_loss:  # losses are not counted for rows that pass through Spark
        raise UsageError("damage cannot be counted with a condition; replay all messages, or repair the source first")
    if os.path.realpath(source) == os.path.realpath(into):
        raise UsageError(f"{into}: source and target are the same; give another directory")
    outside_store(into, source)
    exists = _is_store(into)
    refuse_other_sizes(into, config, REAL)  # before anything is swept or staged there
    if speed != "max" and not (live or exists):
        raise UsageError(f"speed {speed} is for messages that are put one by one; add live (--live), or leave it out")
    if not (live or exists) and config.store_path_commit_log:
        raise UsageError(f"storePathCommitLog: a new store gets its log in {into}/commitlog; leave the key out")
    sizes = {"maxMessageSize": config.max_message_size} if "maxMessageSize" in config.given else {}
    read = open_source(source, StoreConfig(s3=config.s3).with_keys(sizes), fail_on_data_loss, access)
    how = (" with system topics" if system_topics else "") + (f" where {where.strip()}" if where else "")
    job = _Job(
        spark=spark,
        source=read,
        into=into,
        config=config,
        where=where,
        system_topics=system_topics,
        strict=fail_on_data_loss,
        skip_refused=skip_refused,
        peer=peer,
        writer_id=_writer_id(into, source, how),
        progress=progress,
    )
    if with_offsets and not isinstance(read, ReplaySource):
        raise UsageError(f"{source}: a table has no offsets of groups; leave with_offsets (--with-offsets) out")
    mode = LIVE if live or exists else BULK
    done = job.dry(mode) if dry_run else job.live(pace) if mode == LIVE else job.bulk()
    if isinstance(read, ReplaySource):
        done.notes, done.note_texts = dict(read.report.note_counts), read.report.texts()
    if with_offsets and isinstance(read, ReplaySource) and not dry_run and _is_store(into):
        source_store = Snapshot.open(source, read.plan.options.config)
        done.offsets, done.offsets_left = carry_offsets(source_store, read.plan.end, into, config)
    return done


@dataclass(frozen=True)
class _Job:
    spark: Any
    source: Source
    into: str
    config: StoreConfig
    where: str | None
    system_topics: bool
    strict: bool
    skip_refused: bool
    peer: str
    writer_id: str
    progress: Progress | None

    def dry(self, mode: str) -> Replayed:
        at = Position.read(WriterIds(self.into), self.writer_id)
        after = at.after if at is not None else None
        rules = self._puts(target_config(self.into, self.config)) if mode == LIVE else self._bulk()
        counted = count(self.spark, self.source, self._chunks(after), self.where, rules, after, self.progress)
        done = self._counts(Replayed(mode, self.source.kind, dry_run=True), counted)
        done.files = sum(share.files for share in share_out(counted, rules.file_size)) if mode == BULK else 0
        return done

    def bulk(self) -> Replayed:
        rules = self._bulk()
        with staging_for(self.into, STAGING) as staging:
            counted = count(self.spark, self.source, self._chunks(None), self.where, rules, None, self._stage(0, 0.4))
            done = self._counts(Replayed(BULK, self.source.kind), counted)
            if done.rows:
                progress = self._stage(0.4, 1)
                store = NewStore(staging, self.config, self.peer)
                loaded = load(self.spark, self.source, counted, self.where, rules, store, progress)
                done.files, done.total = loaded.files, done.rows
                last = Snapshot(store.root, store.config).log_end.last
                at = Position(loaded.last_row, loaded.end, done.rows, anchor=noted(store.root, store.config, last))
                at.write(WriterIds(store.root), self.writer_id)
                bring_in(staging, self.into)
        return done

    def live(self, pace: Pace) -> Replayed:
        left_out, report = Counter[str](), Report()
        sweep(self.into, STAGING)
        if not _is_store(self.into):  # check first, so that a refusal leaves no empty store
            self._look(self._puts(self.config), None)
        with MessageStore(
            self.into, self.config, peer=self.peer, unique_keys=False
        ) as store:  # copies keep the unique keys they have, or none
            rules = self._puts(store.config)
            ledger = WriterIds(self.into)
            at = Position.read(ledger, self.writer_id)
            after = at.after if at is not None else None
            if store.recovered.state.end:
                self._look(rules, after)
            batches = self._batches(self._chunks(after), report)
            kept = after is not None and self.source.begin <= after.physical_offset
            at, put, found = put_rows(store, ledger, self.writer_id, batches, rules, pace, left_out, kept)
        return Replayed(
            LIVE,
            self.source.kind,
            rows=put,
            found=found,
            total=at.rows,
            left_out=_left_out_answer(left_out),
            damages=report.damage_count,
            lost_bytes=report.lost_bytes,
        )

    def _look(self, rules: RowRules, after: SourceRow | None) -> None:
        chunks = self._chunks(after)
        if self.spark is not None:
            count(self.spark, self.source, chunks, self.where, rules, after, self._stage(0, LOOKING))
            return
        for number, chunk in enumerate(chunks):
            count_rows(rules, after, number, rows_of(self.source, chunk, Report()))

    def _bulk(self) -> RowRules:
        return rules_of(self.config, self.system_topics, self.skip_refused)

    def _puts(self, config: StoreConfig) -> RowRules:
        rules = rules_of(config, self.system_topics, self.skip_refused)
        return replace(rules, puts=config, inner_topics=batches_of(self.into))

    def _chunks(self, after: SourceRow | None) -> list[Chunk]:
        if after is not None and isinstance(self.source, ReplaySource) and self.source.begin <= after.physical_offset:
            # A walk from there would call it damage. Which row it is, `rows_after` compares.
            plan = self.source.plan
            if anchor_at(plan.log, after.physical_offset, plan.log_end) is None:
                raise UsageError(OTHER.format(after.physical_offset))
        begin = self.source.begin if after is None else after.physical_offset
        of_log = self.strict and isinstance(self.source, ReplaySource)
        if after is not None and of_log and self.source.begin > after.physical_offset + after.size:
            raise StoreError(
                f"the source's log begins at offset {self.source.begin}, the last replay ended at "
                f"{after.physical_offset + after.size}: the messages in between have expired; --skip-damage "
                "continues without them"
            )
        span = self.config.mapped_file_size_commit_log
        size = max(LEAST_CHUNK, min(CHUNK_BYTES, span // 8))
        if isinstance(self.source, ReplaySource):  # at least one for each core
            left = self.source.plan.end - begin
            size = max(LEAST_CHUNK, min(size, left // (2 * parallelism(self.spark)) + 1))
        return self.source.chunks(begin, size)

    def _batches(self, chunks: list[Chunk], report: Report) -> Iterator[pa.RecordBatch]:
        """Yield the rows of chunks in order, read here; with a condition, read by one task each."""
        progress = self._stage(LOOKING, 1)
        for number, chunk in enumerate(chunks):
            if self.where is None:
                yield from rows_of(self.source, chunk, report)
            else:
                table = matching(self.spark, self.source, [[chunk]], self.where).toArrow()
                yield from table.cast(SPARK_SCHEMA).to_batches()
            if progress:
                progress(number + 1, len(chunks))

    def _counts(self, done: Replayed, counted: Any) -> Replayed:
        left_out = Counter[str]()
        queues = set()
        for chunk in counted:
            done.rows, done.bytes = done.rows + chunk.rows, done.bytes + chunk.bytes
            done.damages, done.lost_bytes = done.damages + chunk.damages, done.lost_bytes + chunk.lost_bytes
            left_out += chunk.left_out
            queues |= chunk.queues.keys()
        done.queues, done.topics = len(queues), len({topic for topic, _ in queues})
        done.left_out = _left_out_answer(left_out)
        return done

    def _stage(self, begin: float, end: float) -> Progress | None:
        return scaled(self.progress, 1000, begin, end)


def _writer_id(into: str, source: str, how: str) -> str:
    """Return the name of a replay in the ledger: the same by every path of its source.

    An earlier FlintMQ recorded the path as it was given; the target keeps that name, so its progress counts.
    """
    real = source if is_remote(source) else os.path.realpath(source)
    name, given = f"{_REPLAY}{real}{how}", f"{_REPLAY}{source}{how}"
    ledger = WriterIds(into)
    if ledger.get(name) is not None:
        return name
    if ledger.get(given) is not None:
        return given
    return next((old for old in ledger.of(_REPLAY) if _names(old, real, how)), name)


def _names(writer_id: str, real: str, how: str) -> bool:
    """Return whether a recorded replay has these options, and its path leads to this directory."""
    path = writer_id.removeprefix(_REPLAY).removesuffix(how)
    return writer_id == f"{_REPLAY}{path}{how}" and not is_remote(path) and os.path.realpath(path) == real


def _left_out_answer(left_out: Counter[str]) -> dict[str, int]:
    return {why: number for why, number in sorted(left_out.items()) if number}


def _is_store(into: str) -> bool:
    """Return whether `into` is a store; otherwise it has to be empty or not exist."""
    if os.path.isdir(os.path.join(into, "commitlog")):
        return True
    if os.path.exists(into) and (not os.path.isdir(into) or os.listdir(into)):
        raise UsageError(f"{into}: neither a store nor empty; give a directory that does not exist yet, or a store")
    return False

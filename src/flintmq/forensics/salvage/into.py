"""Salvages every intact record, in log order, into a new, dense and valid store.

The lenient walker reads the log and resyncs after damage. Each record gets the next physical offset and the next offset
of its queue (`records.py`), configuration and offsets follow (`config.py`), queues and index are rebuilt.
`salvage.jsonl` in the new store records the fate of every record and file.

The old store is only read. The new one is made in a staging directory and brought in by one rename.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError, StoreLockedError, UsageError
from flintmq.forensics import rebuild
from flintmq.forensics.rebuild import Progress, RebuildPlan
from flintmq.forensics.salvage.config import carry_config
from flintmq.forensics.salvage.queues import QueueMaps
from flintmq.forensics.salvage.records import Renumber
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.index import PEER_533
from flintmq.format.record import BLANK_SIZE, encode_blank
from flintmq.format.record_view import size_at, store_time_at
from flintmq.kernels.write import encode
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.staging import bring_in, staging_for
from flintmq.storage.files.store_url import local_only, outside_store
from flintmq.store.commitlog.bulk_writer import LogRoom, LogWriter
from flintmq.store.commitlog.end_of_log import NO_FACTS, Verdict
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.report import Damage, Report
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.layout import directories
from flintmq.store.layout.small_files import StoreFiles
from flintmq.tabular import Summary

STAGING = "salvage"
REPORT = "salvage.jsonl"
CONFIG_LOST = "config-lost"  # code of the note on files of config/ that cannot be read
PAGE = 4096
# Files in a store's root that refer to old offsets, with the consequence of leaving each out.
LEFT_OUT = {
    "timerwheel": "RocketMQ recreates wheel and log from the timer topic; messages whose time has come fire again",
    "timerlog": "as for timerwheel",
    "compaction": "RocketMQ recreates the compacted copies",
    "epochFileCheckpoint": "belongs to the replication of the old log",
    "flintmq.deleted": "says up to where in the old log records of deleted topics count for nothing; they are back",
    "flintmq.puts": "says up to where a job put messages into the old log; run such a job into a new store",
}


@dataclass
class Salvaged(Summary):
    """The result of a salvage into a new store.

    Attributes:
        into: the new store.
        records, log_bytes: records and bytes written.
        lost_ranges, lost_bytes: damaged ranges of the old log.
        dropped: intact records that cannot be rewritten.
        queues, units, keys, index_files: as for a rebuild.
        offsets: committed offsets that changed.
        ending: the reason why the old log ended there.
        report: path of salvage.jsonl.
    """

    into: str
    records: int = 0
    log_bytes: int = 0
    lost_ranges: int = 0
    lost_bytes: int = 0
    dropped: int = 0
    queues: int = 0
    units: int = 0
    keys: int = 0
    index_files: int = 0
    offsets: int = 0
    ending: str = Verdict.END.value
    report: str = ""
    notes: dict[str, int] = field(default_factory=dict)


def salvage_into(
    root: str,
    into: str,
    config: StoreConfig | None = None,
    peer: str = PEER_533,
    progress: Progress | None = None,
) -> Salvaged:
    """Write all intact records of a store into a new one.

    `into`: the new store's directory; it must be missing or empty.

    Raises OSError: the disk is full or fails; nothing is at `into` then.
    """
    into = os.path.normpath(os.path.abspath(local_only(into)))
    outside_store(into, root, config)
    plan = rebuild.plan_of(root, into, config, peer)
    if plan.facts.live:
        raise StoreLockedError(f"{root}: a running store holds its lock; stop it first, or salvage a copy")
    check_target(into)
    with staging_for(into, STAGING) as staging:
        done = Salvage(plan, os.path.join(staging, "store"), config or StoreConfig(), progress).run()
        bring_in(staging, into)
    done.into, done.report = into, os.path.join(into, REPORT)
    return done


def check_target(into: str) -> None:
    """Check that a new store may be made at `into`."""
    if os.path.lexists(into) and (not os.path.isdir(into) or os.listdir(into)):
        raise UsageError(f"{into}: something is there already; give a directory that is missing or empty")


@dataclass(eq=False)
class Salvage:
    """Makes one salvage, or a filtered copy (forensics/copy.py), in the directory `out`."""

    plan: RebuildPlan
    out: str
    config: StoreConfig
    progress: Progress | None
    predicate: Predicate | None = None
    strict: bool = False
    report: str = REPORT

    def __post_init__(self) -> None:
        self.done, self.lines = Salvaged(self.out), Lines(os.path.join(self.out, self.report))
        self.queues = QueueMaps(self.lines.emit)
        self.renumber = Renumber(self.plan.rules, self.queues)

    def run(self) -> Salvaged:
        os.makedirs(self.out)
        self.lines.open()
        try:
            file_size = self._file_size()
            end, last_time = self._log(file_size)
            self.queues.finish()
            self._derived(file_size, end)
            self._beside()
        finally:
            self.lines.close(self.done.as_dict())
        indexed = rebuild.indexed_time(self.out, self.plan.sizes.items, last_time)
        StoreFiles(self.out, REAL).write(end, Checkpoint(last_time, last_time, indexed))
        return self.done

    def _file_size(self) -> int:
        """Return the size of a log file: the old size, in whole pages if a lone file was cut."""
        log = self.plan.log
        size = log.file_size or self.config.mapped_file_size_commit_log
        if len(log.files) == 1 and "mappedFileSizeCommitLog" not in self.config.given:
            size = -(-size // PAGE) * PAGE
        return size

    def _log(self, file_size: int) -> tuple[int, int]:
        """Write the log; return its end and the store time in ms of its last record."""
        report, selector = LostReport(self.lines), Selector(self.predicate or Predicate())
        walk = LogWalk(self.plan.log, self.plan.facts, strict=self.strict, report=report)
        folder = os.path.join(self.out, directories.LOG)
        writer = LogWriter([folder], file_size, 0, self.plan.log.max_record, 0, sync=True)
        total = sum(file.size for file in self.plan.log.files)
        rows, last_time = PieceRows(self.renumber, self.lines, file_size - BLANK_SIZE), 0
        for piece in walk:
            rows.take(piece)
            writer.append(rows, 0, selector.select(piece))
            if self.progress:
                self.progress(piece.base + piece.end - self.plan.log.min_offset, total)
        end, last_time = writer.end, rows.last_time
        rows.finish()
        writer.close()
        REAL.sync_dir(folder)
        done = self.done
        done.records, done.log_bytes, done.dropped = rows.records, end, rows.dropped
        done.lost_ranges, done.lost_bytes = report.damage_count, report.lost_bytes
        done.ending, done.notes = (walk.verdict or Verdict.END).value, dict(report.note_counts)
        return end, last_time

    def _derived(self, file_size: int, end: int) -> None:
        log = LogFiles.discover([os.path.join(self.out, directories.LOG)], file_size)
        log = replace(log, max_record=self.plan.log.max_record)
        made = rebuild.run(replace(self.plan, root=self.out, into=self.out, log=log, facts=NO_FACTS))
        done = self.done
        done.queues, done.units, done.keys, done.index_files = made.queues, made.units, made.keys, made.index_files
        done.notes |= made.notes

    def _beside(self) -> None:
        """Carry over the configuration, and report the files left out."""
        before = self.lines.counts["offset"]
        effects = self.plan.log.effects
        rest = self.queues.next_of, self.plan.rules.peer, effects, self.lines.emit
        if lost := carry_config(self.plan.root, self.out, *rest):
            self.done.notes[CONFIG_LOST] = lost
        self.done.offsets = self.lines.counts["offset"] - before
        for name in sorted(LEFT_OUT.keys() & set(effects.listdir(self.plan.root))):
            self.lines.emit({"kind": "left-out", "what": name, "why": LEFT_OUT[name]})


class Lines:
    """Writes salvage.jsonl: one JSON object a line, `kind` first."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()

    def open(self) -> None:
        self._file = open(self.path, "x", encoding="ascii")  # noqa: SIM115  (closed by close)

    def emit(self, line: dict[str, Any]) -> None:
        self.counts[line["kind"]] += 1
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def close(self, summary: dict[str, Any]) -> None:
        kept = {name: value for name, value in summary.items() if name not in ("into", "report")}
        self.emit({"kind": "summary", **kept})
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class LostReport(Report):
    """Writes every damaged range and every note of the walker to salvage.jsonl."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self.lines = lines

    def damage(self, damage: Damage) -> None:
        super().damage(damage)
        self.lines.emit({"kind": "lost", "file": os.path.basename(damage.file), "position": damage.position,
                         "offset": damage.offset, "bytes": damage.lost, "why": damage.reason})  # fmt: skip

    def note(self, code: str, text: str, path: str | None = None) -> None:
        """Report a note of the walker, such as a tail that is no part of the log."""
        super().note(code, text, path)
        self.lines.emit({"kind": "note", "code": code.replace("_", "-"), "text": text})


class PieceRows:
    """The records of a piece, with the interface of the kernel that LogWriter expects."""

    def __init__(self, renumber: Renumber, lines: Lines, largest: int) -> None:
        self.renumber, self.lines, self.largest = renumber, lines, largest
        self.records = self.dropped = self.last_time = 0
        self._run = MovedRun(lines)
        self._row, self._made = -1, bytearray()

    def take(self, piece: Piece) -> None:
        self.piece, self._row = piece, -1

    def finish(self) -> None:
        self._run.finish()

    def append(self, room: LogRoom, first: int, last: int, reserve: int) -> tuple[int, int, int]:
        """Append rows first..last-1; return (row, position, reason to stop)."""
        out, at = room.out, room.at
        for row in range(first, last):
            data, old = self._record(row)
            size = len(data)
            if not size:
                continue
            if at + size > len(out):
                return row, at, encode.ROOM
            if at + size + BLANK_SIZE > room.file_end:
                out[at : at + BLANK_SIZE] = encode_blank(room.file_end - at)
                return row, at + BLANK_SIZE, encode.ROLL
            self.renumber.place(data, old, room.base + at)
            out[at : at + size] = data
            self._run.take(old, room.base + at, size)
            self.records += 1
            at += size
        return last, at, encode.DONE

    def _record(self, row: int) -> tuple[bytearray, int]:
        """Return a rewritten row (empty if it cannot be written) and its old log offset."""
        piece = self.piece
        at = piece.positions[row]
        if row != self._row:
            self._row = row
            raw = bytes(piece.data[at : at + size_at(piece.data, at)])
            try:
                self._made = self.renumber.record(raw)
                if len(self._made) > self.largest:
                    raise FormatError(f"its {len(self._made)} bytes do not fit a log file")
                self.last_time = store_time_at(raw)
            except FormatError as error:
                self._made = bytearray()
                self.dropped += 1
                self.lines.emit({"kind": "dropped", "offset": piece.base + at, "bytes": len(raw), "why": error.reason})
        return self._made, piece.base + at


@dataclass
class MovedRun:
    """A run of records that moved by the same distance, reported as one line."""

    lines: Lines
    old: int = -1
    new: int = -1
    size: int = 0
    records: int = 0

    def take(self, old: int, new: int, size: int) -> None:
        if (old, new) != (self.old + self.size, self.new + self.size):
            self.finish()
            self.old, self.new = old, new
        self.size += size
        self.records += 1

    def finish(self) -> None:
        if self.records:
            self.lines.emit({"kind": "log", "old": self.old, "new": self.new, "bytes": self.size,
                             "records": self.records})  # fmt: skip
        self.size = self.records = 0

"""Walks a commit log: validated records in pieces, and a verdict where the walk stops.

All who read a range of a log use this module: recovery, verify, rebuild, Arrow and Spark. The kernel decides whether
bytes are a record; `store/commitlog/end_of_log.py` decides what a stop means; this module supplies the bytes and acts:

*   strict readers get CorruptStoreError at damage and at unordered write-back;
*   lenient readers resynchronise there, report it, and continue;
*   both stop quietly, with a note, at the end, at a torn tail and at a stale tail;
*   a last record whose bytes may not all be there yet (`store/commitlog/arrivals.py`) is the end, too.

There are two ways to read. `pread` (the default) copies pieces into one buffer, and tolerates files that shrink, grow
or disappear. `map` maps whole files: faster, but a file that another process shrinks kills the reader.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from flintmq.config.text import check_choice
from flintmq.errors import CorruptStoreError, LostLogError
from flintmq.format.record import MAGIC_BLANK
from flintmq.format.record_view import (
    HEAD_SIZE,
    HEADER_SIZE_MAX,
    SIZE,
    STORE_TIME_END_MAX,
    magic_at,
    size_at,
    store_time_at,
    store_times,
)
from flintmq.kernels.read import walk as kernel
from flintmq.storage.files.libc_memory import zeros
from flintmq.store.commitlog.arrivals import Arrivals
from flintmq.store.commitlog.end_of_log import (
    GO_ON,
    LOST,
    LOST_ADVICE,
    NO_FACTS,
    READ_ON,
    SECTOR,
    Follows,
    StopFacts,
    Verdict,
    decide,
    evidence_beyond,
    last_named,
    zeros_to_sector,
)
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFile, LogFiles
from flintmq.store.commitlog.former_life import FormerLife
from flintmq.store.commitlog.queue_evidence import queues_beyond
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import Damage, DamageKind, Report
from flintmq.store.commitlog.resync import WINDOW, ResyncBudget, next_record
from flintmq.store.commitlog.sources import FIRST_PIECE, OWN, SOURCES, Mapped, Own, Pieces
from flintmq.store.commitlog.zones import Skip, Zones, is_in_use

PIECE_BYTES = 1 << 20
LEAST_TIME = -(1 << 63)
MAX_ROWS = 65_536
ACCESS = ("pread", "map")
_AFTER_WHOLE_RECORDS = (kernel.FULL, kernel.MORE, kernel.END, kernel.BLANK)
"""Where a walk stops for these reasons, a writer has gone on after the last record before."""
DOUBT = "a zero byte in the topic or properties of the last record"
DELETED = "the file was deleted while the log was read"
NO_FILE = "a link, or something that is not a regular file, has the name of a log file"
SALVAGE = "`flintmq salvage` saves the rest; --skip-damage (failOnDataLoss=false) reads around it"
REFUSED = (
    "nothing was changed; `flintmq verify` lists all damage, `flintmq salvage` repairs the store or saves the rest"
)
"""The advice if a store is opened for writing."""


class AfterStop(Enum):
    """The way a walk goes on after it stopped at a position without a record."""

    READ_AGAIN = "read the same position again, because a writer may be completing it"
    GO_ON = "read on at `position`"
    OVER = "the walk is over, and `verdict` says why"


@dataclass(slots=True)
class Piece:
    """Some validated records of one file. Valid until the next piece is taken.

    The buffer is then used again (but see LogWalk.keep_pieces).
    """

    data: memoryview
    base: int
    positions: memoryview  # int64 array; record i starts at data[positions[i]]
    count: int  # number of valid entries in positions
    end: int  # position in data after the last record
    file: LogFile


class LogWalk:
    """One walk over [begin, end) of a log; after the iteration it has the verdict on its end.

    Thread: one walk belongs to one thread.

    Args:
        begin: log offset of a record's first byte, or at or below the log's minimum for everything.
        end: stop before the first record that starts here or later; None for the log's end. With an `end`, every
            other stop before it is damage: the caller knows that the log goes on to there.
        access: "pread", "map", or OWN for the holder of the store's lock.
        cut_unordered: end the walk quietly at unordered write-back, as the engine does, which truncates there.
        ask_queues: a unit after the end, and a second fact, say that the log's end is missing, also where a file ends
            with zeros, after a clean stop without a mark of our own. For who writes, who would cut such units, and who
            looks for defects; others come too often, and note what the newest index file names.

    Attributes:
        position: log offset after the last record yielded (after a blank: the next file's start).
        left_out: log offset of a last record that is not written completely, and not yielded; None: there is none.
        deleted: what was not read of files that were deleted meanwhile; without those that were gone before the first
            record was yielded, as were all before them: they might have expired before the walk.
    """

    def __init__(
        self,
        log: LogFiles,
        facts: StopFacts = NO_FACTS,
        begin: int = 0,
        end: int | None = None,
        *,
        access: str = "pread",
        strict: bool = True,
        report: Report | None = None,
        check_crc: bool = True,
        cut_unordered: bool = False,
        ask_queues: bool = False,
        max_rows: int = MAX_ROWS,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        if access != OWN:
            check_choice("access", access, ACCESS)
        self.log, self.facts, self.end = log, facts, end
        self.cut_unordered, self.ask_queues = cut_unordered, ask_queues
        self.access, self.strict, self.report = access, strict, report if report is not None else Report()
        self.flags = (kernel.CHECK_CRC if check_crc else 0) | (0 if end is not None else kernel.CHECK_TIME)
        self.piece_bytes = piece_bytes
        self.positions = zeros("q", max_rows)
        self._begin, self.position = begin, max(begin, log.min_offset)
        self.last_time = 0
        self.allocate: Callable[[int], memoryview] | None = None
        self.zones: Zones | None = None
        self._effort = ResyncBudget()
        self._former = FormerLife(log, facts.root)
        self.verdict: Verdict | None = None  # why the walk ended; None before it has
        self.left_out: int | None = None
        self.deleted: list[Damage] = []
        self._begun = False  # a record was yielded
        self._arrivals: Arrivals | None = None
        if facts is not NO_FACTS and access != OWN and not cut_unordered:  # else no other process writes
            self._arrivals = Arrivals(log, facts, self._effort, ends=end is not None)
        self._not_older_at = -1  # a record at or after this offset ...
        self._not_older_time = -1  # ... has this store time
        self._read_twice = self._completed = -1  # the last positions that were read again, and why

    def continue_at(self, position: int, last_time: int | None = None) -> None:
        """Continue where another walk of this log ended; not amid an iteration.

        `last_time`: store time in ms of the record before; None: it does not change.
        """
        self.position = position
        if last_time is not None:
            self.last_time = last_time

    def keep_pieces(self, allocate: Callable[[int], memoryview]) -> None:
        """Leave a piece as it is when the next one is taken; call it before iterating.

        `allocate`: returns a writable buffer of this many bytes, for a piece that is read by pread. Mapped bytes stay
        without it.
        """
        self.allocate = allocate

    def use_zones(self, zones: Zones | None) -> None:
        """Skip zones without wanted records, and sum up the others; call it before iterating.

        Damage in a zone that is skipped is not seen.
        """
        self.zones = zones if self.flags & kernel.CHECK_CRC else None

    def check_times(self) -> None:
        """Stop at decreasing store times, as a walk without `end` does; call it before iterating."""
        self.flags |= kernel.CHECK_TIME

    def __iter__(self) -> Iterator[Piece]:
        """Yield pieces in log order. Files that appear after the walk was made are not seen."""
        if self.zones is None:
            yield from self._files()
            return
        try:
            yield from self._files()
        finally:
            self.zones.leave()

    def _files(self) -> Iterator[Piece]:
        self.look_for_odd()
        number = self.log.index_of(self.position)
        if number is None:  # in a gap between files, or after all files
            number = bisect_left(self.log.files, self.position, key=lambda file: file.start)
        for file in self.log.files[number:]:
            if self.verdict is not None or (self.end is not None and self.position >= self.end):
                break
            if file.start > self.position:
                self._gap(file)
            yield from self._file(file)
        if self.verdict is None:
            self._ran_out()

    def _ran_out(self) -> None:
        """End a walk that used up all files: at the log's end, unless the small files name more."""
        self.verdict = Verdict.END
        if self.end is not None or self.facts.live:
            return
        evidence = evidence_beyond(self.facts, self.position, self.last_time)
        if evidence and self.facts.mark.flushed is None:
            evidence = self._confirmed()
        if not evidence and self.facts.clean and self.facts.mark.flushed is None and self._has_queues():
            evidence = next(queues_beyond(self.facts.root, self.position, self.log.effects), "")
        odd = next((file for file in self.log.odd if file.start >= self.position), None)
        if odd is not None:
            self._not_a_file(odd, max(self.facts.mark.flushed or 0, odd.start) - self.position)
            self.verdict = Verdict.DAMAGE
        elif evidence and not self.log.came_since(self.position):
            self._end_is_missing(evidence, self.log.path_of(self.position), 0)

    def _end_is_missing(self, evidence: str, path: str, position: int) -> None:
        """Report that the log went on, or raise it if the walk is strict."""
        if self.strict:
            raise LostLogError(
                path, position, f"{LOST}: {evidence}", LOST_ADVICE + (GO_ON if self.cut_unordered else READ_ON)
            )
        lost = max((self.facts.mark.flushed or 0) - self.position, 0)
        self.report.damage(Damage(path, position, self.position, lost, f"{LOST}: {evidence}", DamageKind.END))
        self.verdict = Verdict.DAMAGE

    def _named_after(self, position: int) -> str:
        """Return what names a record at an offset or later though the store stopped cleanly.

        To who asks the queues two facts must say so: one unit may be odd itself.
        """
        facts, effects = self.facts, self.log.effects
        if self.end is not None or not facts.clean or facts.live or not self._has_queues():
            return ""
        if self.ask_queues and facts.mark.flushed is not None:  # a mark of our own is exact
            return ""
        named = last_named(facts.root, effects)
        index = f"the newest index file names a record at offset {named}" if (named or 0) >= position > 0 else ""
        if not self.ask_queues:
            return index
        queues = queues_beyond(facts.root, position, effects)
        first = next(queues, "")
        second = first and (index or next(queues, "") or self._flushed_beyond(position))
        return f"{first}, and {second}" if second else ""

    def _flushed_beyond(self, position: int) -> str:
        """Return what the checkpoint's time says; empty: a record is as young."""
        time = self.facts.physic_time  # the last record's may be lower: the clock was set back
        return evidence_beyond(self.facts, position, youngest(self.log, time)) if time > self.last_time else ""

    def _has_queues(self) -> bool:
        """Return whether the log is of a store on a disk, whose queues are a few small reads away."""
        return bool(self.facts.root) and bool(self.log.files) and not self.log.effects.remote

    def _confirmed(self) -> str:
        """Return the evidence of the checkpoint's time if another fact says the same.

        A time alone is enough where the log has no record at all. Else it may be of a clock that ran ahead: it stays
        when the clock was set back and its records expired.
        """
        facts, position = self.facts, self.position
        beyond = next(queues_beyond(facts.root, position, self.log.effects), "") if facts.root else ""
        if not beyond and (facts.named or 0) >= position > 0:
            beyond = f"the newest index file names a record at offset {facts.named}"
        newest = self.last_time  # which need not be the youngest
        if beyond or not newest:
            newest = youngest(self.log, facts.physic_time)
        evidence = evidence_beyond(facts, position, newest)
        if evidence and newest and not beyond:
            self.report.note("time_step", f"offset {position}: {evidence}; nothing else tells of records after the end")
            return ""
        return f"{evidence}, and {beyond}" if evidence and beyond else evidence

    def look_for_odd(self) -> None:
        """Check that files before the first one have expired, and are not links or odd files."""
        for odd in self.log.odd:
            if self._begin <= odd.start < self.log.min_offset:
                self._not_a_file(odd, self.log.min_offset - odd.start)

    def _not_a_file(self, odd: LogFile, lost: int) -> None:
        """Report a link or odd file named like a log file: its part of the log has not expired."""
        if self.strict:
            raise CorruptStoreError(odd.path, 0, NO_FILE, "put the log file itself there")
        self.report.damage(Damage(odd.path, 0, odd.start, lost, NO_FILE, DamageKind.GAP))

    def _gap(self, file: LogFile) -> None:
        lost = file.start - self.position
        if self.strict:
            raise CorruptStoreError(
                file.path,
                0,
                f"the log's files have a gap of {lost} bytes before this one",
                "bring the missing file back",
            )
        self.report.damage(Damage(file.path, 0, self.position, lost, "missing file", DamageKind.GAP))
        self.position = file.start

    def _file(self, file: LogFile) -> Iterator[Piece]:
        try:
            fd = self.log.effects.open_read(file.path)
        except FileNotFoundError:
            self._vanished(file)
            return
        source: Mapped | Pieces | None = None
        try:
            size = self._own(file, self.log.effects.size_of(fd))
            skips = self.zones.of(file, size, is_in_use(self.log, file)) if self.zones is not None else []
            kind = SOURCES[self.access] if size else Pieces
            source = kind(self, file, fd, size)
            if isinstance(source, Own) and not source.can:
                source.close()
                source = Pieces(self, file, fd, size)
            if skips and isinstance(source, Mapped):
                source.ahead.stop()  # it would touch what is skipped
            yield from self._walk(file, fd, source, skips)
        except FileNotFoundError:  # object storage cannot read on in a file that was deleted
            self._vanished(file)
        finally:
            if source is not None:
                source.close()
            self.log.effects.close(fd)

    def _own(self, file: LogFile, size: int) -> int:
        """Return the size of a file's own part of the log, if it overlaps with the next file."""
        behind = bisect_right(self.log.files, file.start, key=lambda other: other.start)
        if file.size <= self.log.file_size or behind == len(self.log.files):
            return size
        return min(size, max(self.log.file_size, self.log.files[behind].start - file.start))

    def _vanished(self, file: LogFile) -> None:
        self.report.vanished(file.path)
        if self._begun or self._has_file_before(file):
            self.deleted.append(deleted(file, max(self.position, file.start), file.start + file.size))
        self.position = file.start + file.size

    def _has_file_before(self, file: LogFile) -> bool:
        """Return whether a file before this one is still there, so that this one has not expired."""
        before = (other for other in self.log.files if other.start < file.start)
        return any(self.log.effects.size(other.path) is not None for other in before)

    def _skip(self, skips: list[Skip]) -> int:
        """Leave the range to skip that holds the position; return the begin of the next one."""
        for skip in skips:
            if self.position < skip.begin:
                return skip.begin
            if self.position < skip.end and self.last_time <= skip.first_time:  # else the step back must be judged
                self.position = skip.end if self.end is None else min(skip.end, self.end)
                self.last_time = skip.last_time
        return LARGEST_OFFSET

    def _walk(self, file: LogFile, fd: int, source: Mapped | Pieces, skips: list[Skip]) -> Iterator[Piece]:
        """Walk one open file until its blank record, `end`, or a stop that ends the walk."""
        arrivals = self._arrivals if is_in_use(self.log, file) else None
        need = 0
        next_skip = LARGEST_OFFSET
        while self.verdict is None:
            if skips and not need:
                next_skip = self._skip(skips)
            at = self.position - file.start
            until = source.size if self.end is None else min(source.size, self.end - file.start)
            if at >= until:
                if until == source.size:
                    self.position = max(self.position, file.start + source.size)
                return
            if arrivals is not None:
                arrivals.look(file, fd, at + max(self.piece_bytes, need))
            data, origin, filled = source.bytes_at(at, need)
            if not filled:
                continue  # the file has become shorter; source.size is updated
            time = self.last_time
            count, stop, reason, self.last_time = kernel.walk(
                data,
                at - origin,
                filled,
                source.size - origin,
                min(until, at + self.piece_bytes, next_skip - file.start) - origin,
                file.start + origin,
                self.last_time,
                self._effort.largest(self.log.max_record),
                self.flags,
                self.positions,
            )
            assert at - origin <= stop <= filled  # or the walk would go back, or past the bytes it has
            piece = Piece(data, file.start + origin, self.positions, count, stop, file)
            if arrivals is not None and self._without_doubtful(piece, arrivals, fd, time, isinstance(source, Pieces)):
                reason = kernel.END
            self.position = piece.base + piece.end
            self._effort.passed(origin + piece.end - at)
            if piece.count:
                self._begun = True
                if self.zones is not None:
                    over = self.facts.clean and not self.facts.live
                    self.zones.take(piece, over or reason in _AFTER_WHOLE_RECORDS)
                yield piece
            if reason == kernel.BLANK:
                if self.zones is not None:
                    self.zones.leave(complete=True)
                self.position = file.start + max(source.size, self.log.file_size)
                return
            if reason == kernel.MORE:
                need = 0 if count else self._needed(data, stop, filled)
                continue
            if reason not in (kernel.END, kernel.FULL):
                if not count:
                    self._effort.failed(need)
                source.near_stop()
                zeros = not any(data[stop : min(stop + HEAD_SIZE, filled)])
                if self._judge_stop(file, self.position, reason, zeros) is AfterStop.OVER:
                    assert self.verdict is not None  # or `__iter__` would read the next file
                    return
                # else the loop reads at `position`: again, or further on
            need = 0

    def _without_doubtful(self, piece: Piece, arrivals: Arrivals, fd: int, time: int, copied: bool) -> bool:
        """Drop a piece's records from the first doubtful one on; return False if all are whole.

        They are read again, or the log ends there.

        `time`: store time in ms of the record before the piece.
        """
        positions, count = piece.positions, piece.count
        sure = arrivals.sure(piece.data, piece.base, positions, count, piece.end, copied)
        if sure == count:
            return False
        doubtful, last = piece.base + positions[sure], piece.base + positions[count - 1]
        if not arrivals.settle(piece.file, fd, doubtful, last, piece.base + piece.end):
            self.verdict, self.left_out = Verdict.END if self.facts.live else Verdict.TORN_TAIL, doubtful
            if not self.facts.live:
                text = f"{piece.file.path}, position {doubtful - piece.file.start}: {Verdict.TORN_TAIL.value} ({DOUBT})"
                self.report.note("torn_tail", text)
        piece.count, piece.end = sure, positions[sure]
        self.last_time = next(store_times(piece.data, positions[sure - 1 : sure], 1)) if sure else time
        return True

    @staticmethod
    def _needed(data: memoryview, at: int, filled: int) -> int:
        """Return the bytes that the record at `at` needs; the kernel has bounded its size."""
        return max(HEADER_SIZE_MAX, size_at(data, at)) if filled - at >= SIZE.size else HEADER_SIZE_MAX

    # -- what a stop means --------------------------------------------------------------------------------------

    def _judge_stop(self, file: LogFile, p: int, reason: int, zeros: bool) -> AfterStop:
        """Judge the stop at p: set the verdict, or move the position, or raise."""
        if zeros and self.facts.zeros_end is not None and p >= self.facts.zeros_end:
            self.verdict = Verdict.END
            return AfterStop.OVER
        if (not self.facts.clean or self.facts.live) and self._read_twice != p:
            self._read_twice = p  # for readers: another process may be writing. In a start it costs one more look
            return AfterStop.READ_AGAIN
        if reason == kernel.TIME:
            return self._judge_step_back(p)
        where = f"{kernel.REASONS[reason]}"
        own = self.facts.mark.flushed is not None
        below = own and p < (self.facts.mark.flushed or 0)
        follower, follows, proof = self._what_follows(p, whatever_its_time=below)
        if follower is not None and self._completed != p and self._is_complete_now(p):
            self._completed = p  # a writer completed the record between the two reads
            return AfterStop.READ_AGAIN
        if not own and follower is not None and follows is Follows.NOT_OLDER and not self.facts.clean:
            below = self._time_at(follower) < self.facts.physic_time and not self._has_flushed_before(p)
        verdict = Verdict.DAMAGE
        if self.end is None:
            verdict = decide(
                follows,
                clean=self.facts.clean,
                below_mark=below,
                own_mark=own,
                zeros=zeros,
                lost=self.facts.power_cut or self._zero_sector(file, p, follower),
            )
        if verdict is Verdict.DAMAGE or (verdict is Verdict.UNORDERED and not self.cut_unordered):
            return self._pass_damage(file, p, where, verdict, follower)
        self.verdict = verdict
        if follows is Follows.NOTHING and (named := self._named_after(p)):
            if self.ask_queues:
                self._end_is_missing(f"{named}, after the log's end", file.path, p - file.start)
                return AfterStop.OVER
            text = f"{named}, after the log's end: bytes may be missing"
            self.report.note("named_after", f"{file.path}, position {p - file.start}: {text}")
        if verdict is not Verdict.END:
            why = f"{where}; {proof}" if proof else where
            self.report.note(verdict.name.lower(), f"{file.path}, position {p - file.start}: {verdict.value} ({why})")
        return AfterStop.OVER

    def _pass_damage(self, file: LogFile, p: int, where: str, verdict: Verdict, follower: int | None) -> AfterStop:
        """Report damage at p, and continue at the record that follows; raise if the walk is strict."""
        text = where if verdict is Verdict.DAMAGE else f"{verdict.value}: {where}"
        if self.strict:
            behind = "no valid record follows" if follower is None else f"records go on at offset {follower}"
            advice = REFUSED if self.cut_unordered else SALVAGE
            raise CorruptStoreError(file.path, p - file.start, f"{text}; {behind}", advice)
        limit = max(self.log.limit, self.facts.mark.flushed or 0) if self.end is None else self.end
        resume = limit if follower is None or follower >= limit else follower
        kind = DamageKind.UNORDERED if verdict is Verdict.UNORDERED else DamageKind.RECORD
        self.report.damage(Damage(file.path, p - file.start, p, resume - p, text, kind))
        assert resume > p or follower is None  # or the walk would stop here for ever
        self.position = resume
        if follower is not None or self.end is not None:
            return AfterStop.GO_ON
        self.verdict = verdict
        return AfterStop.OVER

    def _judge_step_back(self, p: int) -> AfterStop:
        """Judge a decreasing store time: the clock was set back, or a stale tail is proven."""
        last = self.last_time
        # FlintMQ zeroes what it truncates, so where its mark is only the clock can be the reason.
        if self.facts.mark.flushed is None and self.facts.physic_time >= last > 0:
            proof = self._former.proof(p, p, self._pieces)
            if proof and not self._not_older_after(p, last):
                self.verdict = Verdict.STALE_TAIL
                self.report.note("stale_tail", f"offset {p}: store time steps back, nothing newer follows; {proof}")
                return AfterStop.OVER
        self.report.note("time_step", f"offset {p}: store time steps back below {last} ms; the records count")
        self.last_time = self._time_at(p)  # with which the kernel takes the record at p
        return AfterStop.GO_ON

    def _what_follows(self, p: int, whatever_its_time: bool) -> tuple[int | None, Follows, str]:
        """Find the next valid record after a stop at p, its kind, and the proof that it is older.

        If the table does not need times they are not compared, because that could read all the rest of the log.
        """
        first = next_record(self.log, p + 1, self.end, self._effort)
        if first is None:
            return None, Follows.NOTHING, ""
        if self.end is None and not whatever_its_time and self._time_at(first) < self.last_time:
            proof = self._former.proof(p, first, self._pieces)
            if proof and not self._not_older_after(first, self.last_time):
                return first, Follows.OLDER, proof
        return first, Follows.NOT_OLDER, ""

    def _has_flushed_before(self, p: int) -> bool:
        """Return whether a record before p is as young as the checkpoint's time, by few reads.

        Then that was the one flushed, before the clock was set back, and nothing is known of p.
        """
        time = self.facts.physic_time
        for file in self.log.files:
            if file.start < p <= file.start + file.size:
                for piece in self._pieces(file.start, p):
                    if max(store_times(piece.data, piece.positions, piece.count)) >= time:
                        return True
            elif file.start < p and (first := record_at(self.log, file.start)) and first.store_timestamp >= time:
                return True
        return False

    def _not_older_after(self, offset: int, time: int) -> bool:
        """Return whether a valid record at `offset` or later has at least this store time."""
        if offset <= self._not_older_at and time <= self._not_older_time:
            return True
        for piece in self._pieces(offset, self.log.limit):
            for at, stored in zip(piece.positions, store_times(piece.data, piece.positions, piece.count), strict=False):
                if stored >= time:
                    self._not_older_at, self._not_older_time = piece.base + at, stored
                    return True
        return False

    def _pieces(self, begin: int, end: int) -> LogWalk:
        """Walk a range leniently; mostly the first record decides, so pieces are small."""
        walk = LogWalk(self.log, begin=begin, end=end, strict=False, max_rows=1024, piece_bytes=FIRST_PIECE)
        walk._effort = self._effort
        return walk

    def _is_complete_now(self, p: int) -> bool:
        """Return whether p holds a valid record or a blank by now; a writer may be faster."""
        return magic_at(self._bytes(p, HEAD_SIZE)) == MAGIC_BLANK or next_record(self.log, p, p + 1) == p

    def _time_at(self, offset: int) -> int:
        """Read the store time of the valid record at this offset; the least number if it is gone."""
        head = self._bytes(offset, STORE_TIME_END_MAX)
        return LEAST_TIME if len(head) < STORE_TIME_END_MAX else store_time_at(head)

    def _zero_sector(self, file: LogFile, p: int, follower: int | None) -> bool:
        if self.facts.clean or follower is None:
            return False
        end = min(follower, max(file.start + file.size, p))  # the file may have grown since it was listed
        return zeros_to_sector(self._bytes(p, min(end - p, WINDOW) + SECTOR), p - file.start)

    def _bytes(self, offset: int, count: int) -> bytes:
        file = self.log.find(offset)
        if file is None:
            return b""
        with suppress(FileNotFoundError), self.log.effects.reading(file.path) as fd:
            return self.log.effects.pread(fd, count, offset - file.start)
        return b""


def deleted(file: LogFile, first: int, last: int) -> Damage:
    """Return the loss of [first, last), log offsets of a file that was deleted meanwhile."""
    return Damage(file.path, first - file.start, first, max(0, last - first), DELETED, DamageKind.DELETED)


def youngest(log: LogFiles, enough: int) -> int:
    """Return the largest store time of the log, reading files backwards until one is `enough`."""
    found = 0
    for file in reversed(log.files):
        for piece in LogWalk(log, begin=file.start, end=file.start + file.size, strict=False, check_crc=False):
            found = max(found, *store_times(piece.data, piece.positions, piece.count))
        if found >= enough:
            break
    return found

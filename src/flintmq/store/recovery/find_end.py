"""Finds the end of a log that is to be written, and refuses a log that must not be.

The decision is the table of `store/commitlog/end_of_log.py`; above the durable mark `torn_record` asks more of each
record. How much is read grows with what was not yet flushed, not with the log: the walk begins in the file that holds
the durable mark.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import NamedTuple

from flintmq.errors import CorruptStoreError, LostLogError
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.record_view import store_times
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.records import last_file_begun_by, record_at
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.sources import OWN
from flintmq.store.commitlog.walk import NO_FILE, REFUSED, LogWalk, Piece
from flintmq.store.layout import deleted_topics
from flintmq.store.layout.small_files import fsync_and_drop_cache
from flintmq.store.recovery.decisions import Decisions
from flintmq.store.recovery.lost_log import refuse_without_log
from flintmq.store.recovery.torn_record import TORN, TornRecordSearch

PAGE = 4096
MARGIN_MS = 3000  # upstream begins this much before the checkpoint's time


class FoundEnd(NamedTuple):
    offset: int  # log offset after the last record that counts
    last_time: int  # its store time in ms; 0 without records
    verdict: Verdict


class EndSearch:
    """Finds the end of a log for a writer, comparing all checksums from the durable mark on.

    `followed`: the log is a copy of a master's.

    Attributes:
        compared: log offset from which on all checksums were compared.
        lost: the log's end is missing, and the user said to go on without it.
    """

    def __init__(
        self,
        root: str,
        files: LogFiles,
        facts: StopFacts,
        checkpoint: Checkpoint,
        effects: Effects,
        decisions: Decisions,
        *,
        followed: bool = False,
    ) -> None:
        self.root, self.files, self.effects, self.decisions = root, files, effects, decisions
        self.followed = followed
        self.facts = replace(facts, live=False)  # the lock is ours
        self.checkpoint = checkpoint
        self.compared, self.lost = 0, False

    def find(self, *, reread: bool = True, accept_lost: bool = False) -> FoundEnd:
        """Find the end.

        `reread`: after an unclean stop read from the disk what the page cache may show wrongly, which opens files for
        writing.
        """
        try:
            # Before anything is read: a log without files would pass for an empty one, and the next put begin at 0.
            refuse_without_log(self.root, self.files, self.facts)
        except LostLogError as error:
            self._accept(error, accept_lost)
        begin = self.compared = recovery_scan_start(self.files, self.facts, self.checkpoint)
        # Before the walk, which must judge what the disk has, not what the page cache shows.
        from_disk = reread and not self.facts.clean
        if from_disk:
            self._reread(begin)
        # Mapped, another thread reads ahead while this one compares. After a clean stop little is read, and a thread
        # that reads ahead would only fill the page cache with the zeros after the end.
        access = OWN if from_disk else "pread"
        walk = LogWalk(self.files, self.facts, begin, access=access, cut_unordered=True, ask_queues=True)
        end, last_time = begin, 0
        # Only a store whose records FlintMQ alone has made is known to have no such records anywhere.
        torn = None
        if not self.facts.clean and self.facts.mark.flushed is not None:
            alone = not self.followed and self.facts.abort_is_ours
            torn = TornRecordSearch(
                self.facts.mark.flushed,
                alone=alone,
                power_cut=self.facts.power_cut,
                comes_again=self.followed,
                deletions=deleted_topics.read(self.root, self.effects),
            )
        try:
            for piece in walk:
                # A zero byte in topic or properties, or not the next offset of its queue.
                bad = torn.first_bad(piece) if torn is not None else None
                if bad is not None:
                    return self._bad(*bad)
                end = piece.base + piece.end
                last_time = _last_time(piece)
        except LostLogError as error:
            self._accept(error, accept_lost)
        except CorruptStoreError as error:
            if not self.followed or self.facts.mark.flushed is None or walk.position < self.facts.mark.flushed:
                raise
            # Of a transfer that had not arrived whole; records after it are of the same transfer, and come again.
            self.decisions.add(f"recovery: the log ends at {end}; what follows comes again from the master ({error})")
            return FoundEnd(end, last_time, Verdict.TORN_TAIL)
        # After a blank record the end is the next file's first byte, if that file exists, if its loss was accepted, or
        # if the mark covers the blank. Then the blank must stay: were it zeroed, a kill before the new mark is written
        # would leave zeros below the old mark, which the next start calls damage. The next file of a followed log may
        # have been made ahead while the rest of the blank was still to come.
        covered = (self.facts.mark.flushed or 0) >= walk.position
        there = not self.followed and self.files.find(walk.position) is not None
        if walk.position > end and (self.lost or covered or there):
            end = walk.position
        verdict = walk.verdict or Verdict.END
        stop = "clean" if self.facts.clean else "unclean"
        self.decisions.add(f"recovery after {stop} stop: read from {begin}, the log ends at {end} ({verdict.value})")
        return FoundEnd(end, last_time, verdict)

    def cut(self, end: int) -> FoundEnd:
        """Return the end that the user chose: nothing is judged."""
        self.compared = end
        # Nothing is judged here; so at least later reads come from the disk, not from pages that never reached it.
        self._reread(self.files.min_offset)
        self.decisions.add(f"recovery: the log is cut at {end}, as was asked")
        return FoundEnd(end, self._time_before(end), Verdict.END)

    def _accept(self, error: LostLogError, accept: bool) -> None:
        """Continue without the lost part, if the user accepted it."""
        if not accept:
            raise error
        if not self.lost:
            self.decisions.add(f"accepted as lost: {error.file}: {error.reason}")
        self.lost = True

    def _bad(self, end: int, reason: str) -> FoundEnd:
        """End the log at a bad record above the mark.

        Raises CorruptStoreError: the record is whole and others follow, so that this is no tail.
        """
        follower = next_record(self.files, end + 1)
        file = self.files.find(end)
        if reason != TORN and follower is not None and file is not None and not self.facts.power_cut:
            raise CorruptStoreError(
                file.path, end - file.start, f"{reason}; records go on at offset {follower}", REFUSED
            )
        verdict = Verdict.TORN_TAIL if follower is None else Verdict.UNORDERED
        self.decisions.add(f"recovery after unclean stop: the log ends at {end} ({verdict.value}: {reason})")
        return FoundEnd(end, self._time_before(end), verdict)

    def _time_before(self, end: int) -> int:
        """Return the store time of the last record before an offset, 0 if none is near.

        Its file and the one before are searched.
        """
        time, size = 0, self.files.file_size
        for begin in (end - end % size - size, end - end % size):
            for piece in LogWalk(self.files, begin=max(begin, self.files.min_offset), end=min(end, begin + size)):
                time = _last_time(piece)
        return time

    def _reread(self, begin: int) -> None:
        """Sync all files and drop their cached pages after the durable mark.

        The page cache may show bytes there that never reached the disk. What the walk then sees is on disk, also after
        a plain kill: so the start may raise the mark to the end that it finds.
        """
        mark = max(self.facts.mark.flushed or 0, begin)
        for file in self.files.files:
            if file.start + file.size <= begin:
                continue
            # Below the mark the disk has what the page cache shows. From there on, by whole pages, the disk is asked.
            durable = max(mark - file.start, 0) // PAGE * PAGE
            fsync_and_drop_cache(file.path, durable, max(file.size - durable, 0), self.effects)
        for folder in sorted({os.path.dirname(file.path) for file in self.files.files}):
            self.effects.sync_dir(folder)  # the stop may have come between the creation of a file and this fsync


def _last_time(piece: Piece) -> int:
    *_, time = store_times(piece.data, piece.positions[piece.count - 1 :], 1)
    return time


def recovery_scan_start(files: LogFiles, facts: StopFacts, checkpoint: Checkpoint) -> int:
    """Return the log offset from which recovery reads.

    It is the start of the file that holds the mark. Without a mark: of the last file whose first record is surely older
    than the last flush, by the checkpoint's times.
    """
    if facts.mark.flushed is not None:
        file = files.find(min(facts.mark.flushed, max(files.limit - 1, 0)))
        return file.start if file is not None else files.min_offset
    if facts.clean:
        return next((file.start for file in reversed(files.files) if record_at(files, file.start)), files.min_offset)
    found = last_file_begun_by(files, min(checkpoint.physic_timestamp, checkpoint.logics_timestamp) - MARGIN_MS)
    return files.min_offset if found is None else found.start


def without_empty_last(files: LogFiles) -> LogFiles:
    """Return the files without an empty last one, left by an interrupted creation."""
    return replace(files, files=files.files[:-1]) if files.files and files.files[-1].size == 0 else files


def check_files(files: LogFiles, file_size: int) -> None:
    """Check that all files have the same size, and none is missing or too many."""
    before: LogFile | None = None
    if files.odd:
        raise CorruptStoreError(files.odd[0].path, 0, NO_FILE, "put the log file itself there")
    for file in files.files:
        if before is not None and file.start < before.start + file_size:
            raise CorruptStoreError(file.path, 0, f"it begins inside {before.path}: one file is too many",
                                    "move away the one that is not the log's")  # fmt: skip
        if file.size != file_size:
            raise CorruptStoreError(
                file.path, min(file.size, file_size), f"the file has {file.size} bytes, not {file_size}",
                "set mappedFileSizeCommitLog to the store's own size, or bring the whole file back",
            )  # fmt: skip
        if before is not None and file.start != before.start + file_size:
            raise CorruptStoreError(file.path, 0, f"the file before it is missing: {before.path} ends elsewhere",
                                    "bring the missing file back")  # fmt: skip
        before = file

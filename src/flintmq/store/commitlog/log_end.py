"""Finds the end of a log by reading only its last file with data.

On a local disk the last file is walked, whose holes cost nothing; after a clean stop, by who needs no report of its
damage, only from a record on that is surely before the end. From a server that would be up to a gigabyte for each plan,
so the search begins late there for all.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.store.commitlog.end_of_log import NO_FACTS, StopFacts, Verdict, last_named
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.walk import LogWalk


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log.

    Attributes:
        last: log offset of that last record, or of one that is not written completely and begins at `offset`; None
            if there is none. A later search can begin there.
    """

    offset: int  # log offset after the last valid record (or after the blank record of the last file)
    verdict: Verdict
    last: int | None = None


def find_end(
    log: LogFiles,
    facts: StopFacts = NO_FACTS,
    report: Report | None = None,
    begin: int | None = None,
    *,
    ask_queues: bool = False,
    late: bool = False,
) -> LogEnd:
    """Find the log's end by reading only the last file with data.

    Files begin with records, and a stale tail can only be in the last file that was written. Damage inside that file is
    skipped; readers of that range meet it themselves. A last record that is not written completely is not before the
    end (`store/commitlog/arrivals.py`).

    Args:
        begin: log offset of a record known to be before the end, to begin there; None to search for a file.
        late: begin late where that is possible: the report needs only what is noted of the end itself.
    """
    if begin is None and log.effects.remote:
        begin = late_begin(log, facts)
    elif begin is None:
        begin = log.min_offset
        for file in reversed(log.files):
            if next_record(log, file.start, file.start + max(file.size, 1)) is not None:
                begin = file.start
                break
        begin = max(begin, _named_before_end(log, facts)) if late or report is None else begin
    walk = LogWalk(log, facts, begin, strict=False, report=report, ask_queues=ask_queues)
    end, last = begin, None
    for piece in walk:
        end, last = piece.base + piece.end, piece.base + piece.positions[piece.count - 1]
    last = walk.left_out if last is None else last
    assert last is None or begin <= last <= end
    verdict = walk.verdict or Verdict.END
    return LogEnd(end, verdict, last)


def _named_before_end(log: LogFiles, facts: StopFacts) -> int:
    """Return the log offset of a record before the log's end; 0 if none is known.

    It is the last record in the newest index file of a store that stopped cleanly. It is below FlintMQ's own mark: no
    log ends there (end_of_log.decide), so what comes before it cannot change the answer. Or the checkpoint has no later
    time: then it is not part of a stale tail, which is older than the last record that was dispatched.
    """
    if not facts.clean or facts.live:
        return 0
    named = facts.named if log.effects.remote or not facts.root else last_named(facts.root, log.effects)
    found = None if named is None else record_at(log, named)
    if named is None or found is None:
        return 0
    return named if named < (facts.mark.flushed or 0) or found.store_timestamp >= facts.latest > 0 else 0


def refuse_damaged_ends(log: LogFiles, facts: StopFacts, end: LogEnd) -> None:
    """Raise what a strict walk would raise at the end of a log that is read in ranges."""
    if end.verdict in (Verdict.DAMAGE, Verdict.UNORDERED):
        for _ in LogWalk(log, facts, end.offset if end.last is None else end.last):
            pass
    if log.odd:
        LogWalk(log, facts, end=log.min_offset).look_for_odd()


def late_begin(log: LogFiles, facts: StopFacts) -> int:
    """Return the log offset of a record before the log's end, as late as small reads can prove.

    Where that is not the one above it is the first record of the last file that begins with one: for a store that was
    copied while it was written, one file must be walked.
    """
    starts = (file.start for file in reversed(log.files) if record_at(log, file.start) is not None)
    return _named_before_end(log, facts) or next(starts, log.min_offset)

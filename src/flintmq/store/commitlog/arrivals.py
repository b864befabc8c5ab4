"""Decides whether all bytes of a log's last record are there.

A copy of a master's log grows by pieces that end anywhere, and any writer stores a record's bytes one after another. A
record's checksum covers its body alone: where the bytes of its topic or properties have not come yet there are zeros,
and it looks like a record all the same. Neither text has a zero byte as a rule. So a record with one is doubtful, and
is taken only if

*   bytes after it were seen before it was read: a writer stores in order, so its own were there by then;
*   or it is below the durable mark;
*   or nobody writes the log, and the last writer stopped cleanly: then no more will come.

Else it is the end of the log for now, and comes at a later look. Only the last record before the log's zeros can be
left out like this. Records that hold no zero byte there are whole, whoever writes.

What it costs: in the files in use a few bytes are read ahead of the pieces. Where the log goes on there, nothing before
can change any more; only the last pieces of a log have their records looked at.
"""

from __future__ import annotations

from bisect import bisect_right

from flintmq.format.record_view import HEAD_SIZE, texts_at
from flintmq.kernels.read import fetch
from flintmq.store.commitlog.end_of_log import StopFacts, read_facts
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.resync import ResyncBudget, next_record

PROBE = 64  # bytes that are looked at; a body may have so many zeros there, then a piece's records are looked at
AHEAD = (16 << 20, 1 << 14)
"""Distances after a piece at which bytes are looked for, the first of which spares the looks of many pieces."""


class Arrivals:
    """Finds the doubtful records of one walk.

    `ends`: the walk has an `end`: the caller knows that the log goes on to there, so no record is left out.
    """

    def __init__(self, log: LogFiles, facts: StopFacts, effort: ResyncBudget, *, ends: bool) -> None:
        self.log, self.facts, self.effort, self.ends = log, facts, effort, ends
        self.final = facts.mark.flushed or 0  # log offset below which no byte changes any more

    def look(self, file: LogFile, fd: int, position: int) -> None:
        """Look for bytes after a file position, before the bytes up to there are read.

        Nothing is asked of a server: an object does not change while it is read.
        """
        effects, offset = self.log.effects, file.start + position
        if offset > self.final and not effects.remote:
            found = (offset + ahead for ahead in AHEAD if any(effects.pread(fd, PROBE, position + ahead)))
            self.final = max(self.final, next(found, 0))

    def sure(self, data: memoryview, base: int, positions: memoryview, count: int, end: int, copied: bool) -> int:
        """Return how many records come before the first doubtful one.

        `copied`: data was copied from the file, and a writer may have gone on meanwhile; else each byte is read where
        the writer stores it, and only the last record can be doubtful.
        """
        if not count or base + end <= self.final:
            return count
        at = max(bisect_right(positions, self.final - base, 0, count) - 1, 0)
        if not copied or self.log.effects.remote:
            at = count - 1
        while at < count:
            at += fetch.whole(data, positions[at:count], count - at) if copied else 0
            if at == count or _has_zero(data, positions[at], positions[at + 1] if at + 1 < count else end):
                break
            at += 1  # an inner batch
        return at

    def settle(self, file: LogFile, fd: int, doubtful: int, last: int, end: int) -> bool:
        """Return whether a doubtful record counts once it is read again; else the log ends there."""
        followed = self._is_followed(file, fd, end)
        self.final = max(self.final, end if followed else last)
        return followed or doubtful < last

    def _is_followed(self, file: LogFile, fd: int, end: int) -> bool:
        """Return whether the record before `end` is whole by now."""
        if self.ends:
            return True
        head = self.log.effects.pread(fd, HEAD_SIZE, end - file.start)
        if not head or any(head) or not self._more_may_come():
            return True
        searched = self.facts.zeros_end is not None and end >= self.facts.zeros_end
        return not searched and next_record(self.log, end, effort=self.effort) is not None

    def _more_may_come(self) -> bool:
        """Return whether the log is being written, or was when its writer was killed."""
        facts = self.facts
        if facts.clean and not facts.live and facts.root:  # a writer may have begun since
            facts = read_facts(facts.root, self.log.effects)
        return facts.live or not facts.clean


def _has_zero(data: memoryview, at: int, end: int) -> bool:
    """Return whether the topic or the properties of a record have a zero byte, or it is gone."""
    try:
        topic, topic_end, properties = texts_at(data, at)
    except IndexError:
        return True  # a writer took back mapped bytes that had been seen
    return b"\0" in bytes(data[topic:topic_end]) or b"\0" in bytes(data[properties:end])

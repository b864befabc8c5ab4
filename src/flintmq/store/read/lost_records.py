"""Tells records that cannot be read from places that never were records.

A queue unit or an index item may point to no record because the log is damaged there, or because it is left over from a
truncation, after which others were written over its place. In the first case an answer lacks a message. The log itself
decides: the file of the place is walked once.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.report import Damage, DamageKind, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk

MISSING = "missing file"
SHORT = "the file ends before"


def in_its_file(log: LogFiles, damage: Damage) -> Damage:
    """Return damage under its own file's name; a walk names a missing file by the next one."""
    path, position = log.path_at(damage.offset)
    return replace(damage, file=path, position=position)


class LostRecords:
    """The damaged and missing ranges of a log, searched for in the files that are asked about.

    Thread: any.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._damages: dict[int, list[Damage]] = {}  # by the file's start, in order

    def at(self, offset: int, size: int = 0) -> Damage | None:
        """Return the loss of a record of this size at a log offset; None if nothing is damaged.

        What is before the log's begin has expired, and what is after its end was truncated.
        """
        log = self._snapshot.log
        if not log.min_offset <= offset < self._snapshot.end:
            return None
        path, position = log.path_at(offset)
        file = log.find(offset)
        if file is None:
            present = any(known.path == path for known in log.files)
            return Damage(path, position, offset, size, SHORT if present else MISSING, DamageKind.GAP)
        damages = self._of(file)
        number = bisect_right(damages, offset, key=lambda damage: damage.offset) - 1
        if number < 0 or offset >= damages[number].offset + damages[number].lost:
            return None
        return replace(damages[number], file=path, position=position, offset=offset, lost=size)

    def _of(self, file: LogFile) -> list[Damage]:
        found = self._damages.get(file.start)
        if found is None:
            log, report = self._snapshot.log, Report()
            end = min(file.start + file.size, self._snapshot.end)
            walk = LogWalk(log, begin=file.start, end=end, strict=False, report=report)
            for _ in walk:
                pass
            self._damages[file.start] = found = [*report.damages, *walk.deleted]
        return found

"""Accounts for log files that were deleted while a walk read them, as retention does.

The walk notes such a file and goes on after it. A reader that answers for all of a range must not leave it at that: a
lenient one counts the rest of the file as lost, like damage, and a strict one fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.errors import StoreError
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.report import VANISHED, Report
from flintmq.store.commitlog.walk import LogWalk, Piece, deleted


def accounted(walk: LogWalk, end: int | None = None) -> Iterator[Piece]:
    """Yield the pieces of a lenient walk; report what it missed of deleted files.

    It is reported as damage, after the last piece; a walk that is left early did not have to read the rest. `end`: log
    offset up to which its caller answers; None: that of the walk.
    """
    begin, end = walk.position, walk.end if end is None else end
    reached: dict[int, int] = {}
    for piece in walk:
        reached[piece.file.start] = piece.base + piece.end
        yield piece
    for file in walk.log.files if walk.report.note_counts[VANISHED] else ():
        stop = file.start + file.size
        first = max(begin, reached.get(file.start, file.start))
        last = stop if end is None else min(stop, end)
        if first < last and has_vanished(walk.report, file):
            walk.report.damage(deleted(file, first, last))


def has_vanished(report: Report, file: LogFile) -> bool:
    return any(note.code == VANISHED and note.path == file.path for note in report.notes)


def note_vanished(report: Report, file: LogFile, first: int, last: int) -> None:
    """Report a deleted file that no walk came to, and [first, last) as lost."""
    report.vanished(file.path)
    report.damage(deleted(file, first, last))


def refuse_vanished(report: Report, advice: str) -> None:
    if report.note_counts[VANISHED]:
        text = next((note.text for note in report.notes if note.code == VANISHED), "a log file was deleted")
        raise StoreError(f"{text}; its messages are lost to this read: {advice}")

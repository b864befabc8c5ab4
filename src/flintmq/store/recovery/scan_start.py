"""Determines where recovery begins to read the log, and to rewrite units."""

from __future__ import annotations

from flintmq.format.checkpoint import Checkpoint
from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import last_file_begun_by, record_at

MARGIN_MS = 3000  # upstream begins this much before the checkpoint's time


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


def begin_of_dispatch(files: LogFiles, facts: StopFacts, checkpoint: Checkpoint, listed: bool = False) -> int:
    """Return the log offset from which units are rewritten; queues before it are durable.

    - Where the mark says how far the log was dispatched to queues on disk: from there. After a clean stop the mark
      alone is not enough: `listed` says that the list of queues' ends is there too, by which queues that lost their
      files since are found.
    - Else, after a clean stop whose queues do not lag: the last file.
    - Else the last file whose first record was stored before the checkpoint's time of queues (D10: the log may have
      been flushed further than they were). Of queues that lag nobody knows whether all that is there was synced.
    """
    begin = recovery_scan_start(files, facts, checkpoint)
    marked = files.min_offset <= facts.mark.dispatched <= (facts.mark.flushed or 0)
    if facts.whole and not (marked and listed):
        return begin
    if marked:
        return facts.mark.dispatched
    found = last_file_begun_by(files, checkpoint.logics_timestamp - MARGIN_MS)
    return files.min_offset if found is None else min(found.start, begin)

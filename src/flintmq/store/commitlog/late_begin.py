"""Chooses where the search for the end of a remote log begins, by a few small reads.

On a local disk the last file is walked, whose holes cost nothing. From a server that would be up to a gigabyte for each
plan.
"""

from __future__ import annotations

from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import record_at


def late_begin(log: LogFiles, facts: StopFacts) -> int:
    """Return the log offset of a record before the log's end, as late as small reads can prove.

    That is the last record in the newest index file, if the store stopped cleanly and the checkpoint has no later time:
    then it is not part of a stale tail, which is older than the log's last record. Otherwise it is the first record of
    the last file that begins with one: for a store that was copied while it was written, one file must be walked.


    Raises:
        StoreAccessError: a file may not be read.
    """
    if facts.named is not None and facts.clean and not facts.live:
        named = record_at(log, facts.named)
        if named is not None and named.store_timestamp >= facts.latest > 0:
            return facts.named
    starts = (file.start for file in reversed(log.files))
    return next((start for start in starts if record_at(log, start) is not None), log.min_offset)

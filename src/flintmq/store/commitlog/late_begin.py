"""Where the search for the end of a log on object storage begins, by a few small reads.

On a disk the last file is walked, whose holes cost nothing. From a server that would be up to a gigabyte for each plan.
"""

from __future__ import annotations

from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import record_at


def late_begin(log: LogFiles, facts: StopFacts) -> int:
    """Log offset of a record before the log's end, as late as small reads can tell.

    That is the record that the newest index file names last, if the store stopped cleanly and nothing that the
    checkpoint knows of is younger: so it is none of a stale tail, which is older than the log's last record. Else it is
    the first record of the last file that begins with one: of a store that was copied while it was written one file has
    to be walked.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if facts.named is not None and facts.clean and not facts.live:
        named = record_at(log, facts.named)
        if named is not None and named.store_timestamp >= facts.latest > 0:
            return facts.named
    starts = (file.start for file in reversed(log.files))
    return next((start for start in starts if record_at(log, start) is not None), log.min_offset)

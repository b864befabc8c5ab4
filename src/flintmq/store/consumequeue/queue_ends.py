"""Next queue offsets of a master, for a copy that has no record to know them by.

A queue whose messages have all expired goes on at its old offset: RocketMQ never deletes its last file. A copy of the
log alone would begin it again at 0, and groups that have read it would miss what comes. The other way round, a topic
that was deleted, and perhaps made again, begins at 0 on the master while the copy still has its old queue. So the
master is asked, and the answer is brought to the copy's queues once all that it counts is dispatched here
(`DispatchService.agree`): a queue without a record since then must end where the master's does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """Ends of a master's queues, asked for between two moments.

    `next`: (topic, queue id) to the offset of its next message; 0 for a queue without any.
    """

    since: int  # log offset; all records below it were in the master's queues before it was asked for the first of them
    until: int  # where its log ended after it was asked for the last
    begin: int
    next: Mapping[tuple[bytes, int], int]

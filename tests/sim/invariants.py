"""Asserts what must always hold in a running store, in each of its parts and between them.

Tests and simulations call it after each step. Each part asserts what holds within it (its `check_invariants`); this
module adds what holds between the log and the files derived from it.
"""

from __future__ import annotations

from flintmq.store.message_store import MessageStore


def check_invariants(store: MessageStore) -> None:
    """Assert what holds in an open store between two of its steps.

    Thread: any. Puts and dispatch wait meanwhile, each while its part is looked at.
    """
    parts = store._parts
    log, queues, index, dispatch = parts.log, parts.queues, parts.index, parts.dispatch
    log.locked(log.check_invariants, None)
    with dispatch._step:
        # A block may be half written; and after a failed sync a map may show what is on disk, not what was stored.
        if dispatch.waits_for is None and dispatch.stopped_at is None and not parts.failure:
            queues.check_invariants()
            if index is not None:
                index.check_invariants()
        if index is not None:
            assert index.end_offset < log.end, f"the index has a record at {index.end_offset}, after {log.end}"
        assert dispatch.position <= log.end, f"dispatched up to {dispatch.position}, past the log's end {log.end}"
        assert dispatch.reached.position <= dispatch.position, f"{dispatch.reached} is beyond {dispatch.position}"
        ends = queues.next_offsets()
    following = log.next_offsets
    for (topic, queue_id), end in ends.items():
        due = following.get((topic, queue_id), 0)
        assert end <= due, f"{topic!r}/{queue_id}: units up to {end}, and the next message gets offset {due}"
    if parts.housekeeping.timers is not None:
        parts.housekeeping.timers.check_invariants()
    if parts.commits is not None:
        flushed, committed = parts.files.flushed_where, parts.commits.done[1]
        assert flushed <= committed <= log.end, f"flushed {flushed}, committed {committed}, put {log.end}"

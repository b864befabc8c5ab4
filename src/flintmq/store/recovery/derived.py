"""Recovers queues and index so that they match the log (the log itself: `apply.py`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping

from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import RecordReader, record_at
from flintmq.store.commitlog.sources import OWN
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock, each_block
from flintmq.store.dispatch.queue_positions import places
from flintmq.store.index.index_service import KeyIndex

log = logging.getLogger("flintmq.recovery")

BESIDE_BYTES = 32 << 20  # of log: for less a thread is not worth it
PIECE_BYTES = 4 << 20  # of log at a time: each one costs a call that makes its pages present


def load_derived(
    files: LogFiles,
    queues: ConsumeQueues,
    index: KeyIndex | None,
    dispatcher: Dispatcher,
    end: int,
    begin: int,
    *,
    clean: bool = False,
    compared: int = 0,
    ends: Mapping[tuple[bytes, int], int] | None = None,
    report: Callable[[str], None] = log.info,
    lower: Callable[[int], None] = lambda position: None,
) -> int:
    """Recover queues and index so that they match the log.

    Args:
        files: the truncated log.
        queues: not yet loaded.
        index: recovered.
        dispatcher: makes units and keys.
        end: log offset of the log's end.
        begin: log offset from which every unit is rewritten.
        clean: the stop was clean.
        compared: log offset from which on all checksums were compared just now.
        ends: end offset per queue at the last clean stop. A queue that now ends earlier has lost files.
        report: receives decisions.
        lower: called before units are rewritten, with the log offset up to which queues are known to be complete: the
            mark must claim no more.

    Returns:
        The number of records dispatched.
    """

    with RecordReader(files) as read:

        def has_record(topic: bytes, queue_id: int, offset: int, physical_offset: int) -> bool:
            message = read.at(physical_offset, end)
            return message is not None and any(
                os.fsencode(place.topic) == topic and place.queue_id == queue_id and place.offset == offset
                for place in places(message)
            )

        dispatched = queues.load(files.min_offset, end, has_record, unsure=not clean)
    start = min(dispatched, begin)
    lost = known_ends.lost(ends or {}, queues.next_offsets())
    if lost:
        report(f"{len(lost)} queues lost files ({', '.join(lost[:3])}); units are made again from the log's begin")
        start = files.min_offset
    lower(files.min_offset if lost else dispatched)
    if index is not None:
        if not clean or not index.was_there:  # a clean stop leaves an index that says all there is
            start = min(start, max(_next_indexed(files, index.end_offset, end), index.known_to))
        elif index.taken_back is not None:
            start = min(start, max(index.taken_back, files.min_offset))
    assert start >= files.min_offset  # nobody could make units of records that have expired
    records = _dispatch(files, queues, index, dispatcher, start, end, start < compared)
    if records is None:  # a queue lost more than what was read: everything anew
        start = files.min_offset
        lower(start)
        records = _dispatch(files, queues, index, dispatcher, start, end, start < compared)
    assert records is not None
    queues.finish_loading(files.min_offset)
    if index is not None:  # after a clean stop nothing was checked, so only a mark proves it
        index.complete = index.mark.indexed is not None or not clean or not index.was_there
    return records


def _dispatch(
    files: LogFiles,
    queues: ConsumeQueues,
    index: KeyIndex | None,
    dispatcher: Dispatcher,
    start: int,
    end: int,
    check_crc: bool,
) -> int | None:
    """Dispatch records again; return their number, or None if earlier units are missing."""
    walk = LogWalk(files, begin=start, end=end, access=OWN, piece_bytes=PIECE_BYTES, check_crc=check_crc)
    records = 0

    def blocks() -> Iterator[UnitBlock]:
        nonlocal records
        for piece in walk:
            yield from dispatcher.blocks(piece, hold=True)
            records += piece.count
        yield from dispatcher.rest()

    def take(block: UnitBlock) -> bool:
        if queues.replay_from(block, dispatcher) and start > files.min_offset:
            return False
        queues.take(block, dispatcher)
        if index is not None:
            index.insert(block.key_hashes, block.key_offsets, block.key_times, block.keys)
            index.begin(block.last_time)
        return True

    return records if each_block(blocks(), take, beside=end - start >= BESIDE_BYTES) else None


def _next_indexed(files: LogFiles, last: int, end: int) -> int:
    """Return the log offset after the last indexed record."""
    if last < files.min_offset:
        return files.min_offset
    message = record_at(files, last, end)
    return last if message is None else last + message.size

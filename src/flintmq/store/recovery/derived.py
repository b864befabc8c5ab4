"""Recovers queues and index so that they match the log (the log itself: `apply.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from flintmq.format.checkpoint import Checkpoint
from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import RecordReader, last_file_begun_by, record_at
from flintmq.store.commitlog.sources import OWN
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.live_queue import RunningQueue
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.load_queues import QueueLoader
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock, each_block
from flintmq.store.dispatch.queue_positions import is_at
from flintmq.store.index.index_service import KeyIndex, RecoveredIndex
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.recovery.find_end import MARGIN_MS, recovery_scan_start

BESIDE_BYTES = 32 << 20  # of log: for less a thread is not worth it
PIECE_BYTES = 4 << 20  # of log at a time: each one costs a call that makes its pages present


class DerivedLoader:
    """Recovers queues and index so that they match the log.

    `small`: checkpoint and mark; they claim no more than is there before anything is rewritten.
    """

    def __init__(
        self,
        files: LogFiles,
        queues: ConsumeQueues,
        index: KeyIndex | None,
        dispatcher: Dispatcher,
        small: StoreFiles,
        report: Callable[[str], None],
    ) -> None:
        self.files, self.queues, self.index, self.dispatcher = files, queues, index, dispatcher
        self.small, self.report = small, report

    def load(
        self,
        end: int,
        begin: int,
        *,
        clean: bool = False,
        compared: int = 0,
        ends: Mapping[tuple[bytes, int], int] | None = None,
    ) -> int:
        """Load queues and index, and dispatch the records again that they lack.

        Args:
            begin: log offset from which every unit is rewritten.
            compared: log offset from which on all checksums were compared just now.
            ends: end offset per queue at the last clean stop. A queue that now ends earlier has lost files.
        """
        log_begin = self.files.min_offset
        # The index comes first: where dispatch starts depends on how far it came. It loses half-made items and those
        # after the end; what the small files say of them is lowered before, for a power cut may undo the removal.
        indexed = self.index.recover(end, self.small, log_begin) if self.index is not None else None
        with RecordReader(self.files) as read:

            def has_record(topic: bytes, queue_id: int, offset: int, physical_offset: int) -> bool:
                data = read.bytes_at(physical_offset, end)
                return data is not None and is_at(data, topic, queue_id, offset)

            # Each queue ends at its last unit whose record the log has.
            deletions = self.dispatcher.rules.deletions
            loader = QueueLoader(self.queues, log_begin, has_record, deletions=deletions, unsure=not clean)
            dispatched = loader.load(end)
        lost = known_ends.lost(ends or {}, self.queues.next_offsets())
        if lost:
            shown = ", ".join(lost[:3])
            self.report(f"{len(lost)} queues lost files ({shown}); their units are rebuilt from the log")
        # On disk before a unit is written again: a power cut amid that may take any sector of the queue's files.
        self._lower_mark(log_begin if lost else dispatched)
        keys_to = None if indexed is None else self._keys_to(indexed, end, clean)
        start = dispatch_start(log_begin, dispatched, begin, lost=bool(lost), keys_to=keys_to)
        records = self._dispatch(start, end, loader.rewound, check_crc=start < compared)
        if records is None:  # a queue lost more than what was read: everything anew
            self._lower_mark(log_begin)
            records = self._dispatch(log_begin, end, loader.rewound, check_crc=log_begin < compared)
        assert records is not None
        # Only now: until here units on disk may be torn, and smallest offsets found among them wrong.
        loader.finish()
        if indexed is not None and (indexed.marked or not clean or not indexed.had_files):
            assert self.index is not None
            self.index.confirm_complete()  # not after a clean stop without a mark: then nothing was checked
        return records

    def _lower_mark(self, position: int) -> None:
        """Make the mark claim no queue units from this log offset on, before they are rewritten."""
        self.small.retreat(self.small.mark.with_units_below(position))

    def _keys_to(self, indexed: RecoveredIndex, end: int, clean: bool) -> int | None:
        """Return the log offset below which the index has every key; None if it lacks none."""
        if clean and indexed.had_files:  # a clean stop leaves an index that lacks nothing but what was just removed
            return indexed.removed_from
        # After the last record that has an item; the mark says more where the records after that one have no keys.
        return max(_next_indexed(self.files, indexed.end_offset, end), indexed.known_to)

    def _dispatch(self, start: int, end: int, rewound: dict[str, RunningQueue], *, check_crc: bool) -> int | None:
        """Dispatch records again; return their number, or None if earlier units are missing."""
        files, queues, index, dispatcher = self.files, self.queues, self.index, self.dispatcher
        walk = LogWalk(files, begin=start, end=end, access=OWN, piece_bytes=PIECE_BYTES, check_crc=check_crc)
        records, met = 0, set[int]()

        def blocks() -> Iterator[UnitBlock]:
            nonlocal records
            for piece in walk:
                yield from dispatcher.blocks(piece, hold=True)
                records += piece.count
            yield from dispatcher.rest()

        def take(block: UnitBlock) -> bool:
            # First each queue goes back to the first of these units: they are written over themselves.
            if queues.replay_from(block, dispatcher, met, rewound) and start > files.min_offset:
                return False  # a queue lacks units of earlier records
            # Unlike dispatch's, this order does not matter: the store answers nobody before both are done.
            queues.take(block, dispatcher)
            if index is not None:
                index.insert(block.key_hashes, block.key_offsets, block.key_times, block.keys)
                index.begin(block.last_time)
            return True

        return records if each_block(blocks(), take, beside=end - start >= BESIDE_BYTES) else None


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


def dispatch_start(log_begin: int, queues_to: int, rewrite_from: int, *, lost: bool, keys_to: int | None) -> int:
    """Return the log offset from which records are dispatched again.

    Args:
        queues_to: log offset up to which the queues that are there have their units.
        rewrite_from: log offset from which every unit is rewritten.
        keys_to: log offset below which the index has every key; None if it lacks none.
    """
    start = log_begin if lost else min(queues_to, rewrite_from)
    if keys_to is not None:
        start = min(start, max(keys_to, log_begin))
    assert start >= log_begin  # nobody could make units of records that have expired
    return start


def _next_indexed(files: LogFiles, last: int, end: int) -> int:
    if last < files.min_offset:
        return files.min_offset
    message = record_at(files, last, end)
    return last if message is None else last + message.size

"""Follows the log: writes queue units and index items of every new record.

Dispatch never passes the confirmed position: the flushed end under SYNC_FLUSH, the committed end with the transient
pool, otherwise the written end. Damage stops dispatch with an error in the log, and stops nothing else. Upstream:
ReputMessageService.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from flintmq.kernels.threads.handoff import Signal
from flintmq.storage.files.filesystem import PASSING
from flintmq.storage.files.full_disk import FULL
from flintmq.storage.threads.mutex import Lock
from flintmq.storage.threads.service_thread import ServiceThread
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.disk_failure import DiskFailure, reason_of
from flintmq.store.commitlog.own_log import LogTail
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.queue_ends import QueueEnds
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock
from flintmq.store.dispatch.handover import HandedOver
from flintmq.store.index.durable_point import DispatchPoint
from flintmq.store.index.index_service import KeyIndex
from flintmq.store.layout.deleted_topics import Deletions

log = logging.getLogger("flintmq.dispatch")

IDLE_S = 0.05  # how long an idle dispatcher sleeps without a wake-up
LINGER_S = 0.001  # interval of checking while puts come, so that they need not wake it
LINGERS = 20  # checks without new records before it sleeps
RETRY_S = 1.0  # how long dispatch waits after an error that may pass
PASSES = (*FULL, *PASSING)  # errors that may pass
FAR = 32 << 20  # bytes of lag before puts wait for dispatch: a thread that only puts keeps the GIL
YIELD_S = 0.0005  # how long such a put waits


class DispatchService(AfterPut):
    """Dispatches one store's log.

    Args:
        confirmed: log offset up to which records may be dispatched: what no crash takes back. Under SYNC_FLUSH it is
            `flushed_where`, which kernels/threads/flusher.py moves (store/assembly.py, `_confirmed`).
        handed_over: notes of rows put as columns; None: there are none.

    Attributes:
        position: log offset up to which everything is dispatched.
        last_time: store time in ms of the last dispatched record.
        reached: progress of queues and index for `flintmq.mark`; at most `position`.
        stopped_at: the error that stopped dispatch for good: damage, or a failed disk; None.
        waits_for: the error that may pass, such as a full disk or no memory, retried every second; None.
        on_records: called before new records are dispatched; None: nobody is to know of them. Set before `start`
            (store/assembly.py, `_connect`).
    """

    def __init__(
        self,
        log: LogTail,
        confirmed: Callable[[], int],
        queues: ConsumeQueues,
        index: KeyIndex | None,
        dispatcher: Dispatcher,
        begin: int,
        handed_over: HandedOver | None = None,
    ) -> None:
        self.log, self.confirmed = log, confirmed
        self.queues, self.index, self.dispatcher, self.handed_over = queues, index, dispatcher, handed_over
        self.position, self.last_time = begin, 0
        self._note_reached()
        self.stopped_at: Exception | None = None
        self.waits_for: BaseException | None = None
        self._retry_at = 0.0
        self._is_cut_short = False  # the last step left a block half written
        self.needs_wake = self._far = False  # needs_wake: a putter must call `wake`; it sleeps, or lags far
        self.on_records: Callable[[], None] | None = None
        self._wake = Signal()  # has no lock that a signal handler could wait for
        self._is_stopped = False
        self._service = ServiceThread("flintmq-dispatch", self._run, self._wake.set)
        self._step = Lock()

    def dispatch_once(self) -> bool:
        """Dispatch the records confirmed so far; return whether there were any.

        Thread: any; one at a time. Durability: the kernel has the units and items on return.
        """
        with self._step:
            end, before = self.confirmed(), self.position
            if self.position >= end or self.stopped_at is not None:
                return False
            if self.waits_for is not None and time.monotonic() < self._retry_at:
                return False
            if self.on_records is not None:
                self.on_records()
            try:
                self._dispatch(end)
            except Exception as error:  # of any kind: a thread that ends silently would be worse (upstream defect D29)
                self._is_cut_short = True
                self._halt(error)
                return False
            except BaseException:
                self._is_cut_short = True
                raise
            with self.queues.changed:
                self.queues.changed.notify_all()
            return self.position > before

    def agree(self, ends: QueueEnds) -> list[str] | None:
        """Have queues without a record go on where the master's do; see `ConsumeQueues.agree`.

        Returns None while not everything below `ends.until` is dispatched. Thread: any. Durability: on return. Raises
        OSError: the disk refused; call it again.
        """
        with self._step:
            if self.position < ends.until or self.stopped_at is not None:
                return None
            return self.queues.agree(ends, self.dispatcher.rules.batch_topics)

    def remove_topic(self, topic: bytes, decide: Callable[[], Deletions]) -> None:
        """Remove the queues of a topic, and make no units of its records so far.

        `decide`: called before anything is changed; returns the deletions that hold from then on.

        Thread: any. Durability: on return. Raises OSError: the disk refused; if `decide` had returned, the topic is
        deleted, and the next call removes what is left.
        """
        with self._step:
            self.dispatcher.remove_topic(topic, decide())
            try:
                self.queues.remove_topic(topic)
            finally:
                self.queues.wake()  # a held get finds no queue

    @property
    def held(self) -> bool:
        """True while the next record waits until the type of its topic is known."""
        return self.dispatcher.held_at is not None

    def _dispatch(self, end: int) -> None:
        """Dispatch the records up to this log offset, as far as they can be read."""
        before = -1
        while before < self.position < end:
            before = self.position
            if not self._take_handed_over(end):
                self._read(self.handed_over.before(end) if self.handed_over is not None else end)

    def begin_at(self, position: int) -> None:
        """Begin at this log offset, before which an empty log never had anything.

        Thread: any, while the log is empty.
        """
        with self._step:
            assert position >= self.position  # nothing is dispatched twice
            self.position = position
            self._note_reached()

    def _halt(self, error: Exception) -> None:
        """Stop at `position`, for a while if the error may pass, else for good; log each change.

        A block that was half written may be written again: the log decides the place of each unit and item.
        """
        self.needs_wake = self._far = False
        refused = error.__cause__ or error  # our own errors are raised from the system's
        if isinstance(refused, MemoryError) or (isinstance(refused, OSError) and refused.errno in PASSES):
            if self.waits_for is None:
                text = "%s: dispatch waits at log offset %d and tries again: %s"
                log.warning(text, self.queues.root, self.position, reason_of(error))
            self.waits_for, self._retry_at = refused, time.monotonic() + RETRY_S
        else:
            self.stopped_at = error
            log.error("%s: dispatch has stopped at log offset %d: %s", self.queues.root, self.position, error)
            self.queues.wake()

    def halt(self, error: Exception) -> None:
        """Stop for good after the current step."""
        if self.stopped_at is None:
            self.stopped_at = error
        self.queues.wake()

    def _take_handed_over(self, end: int) -> bool:
        """Dispatch the next rows if the put side still has them as columns."""
        rows = self.handed_over.take(self.position, end) if self.handed_over is not None else None
        block = self.dispatcher.handed_over(rows) if rows is not None else None
        if rows is None or block is None:
            return False
        self._write(block)
        self._reached(rows.end)
        return True

    def _read(self, end: int) -> None:
        self.dispatcher.held_at = None
        self._take(self.log.pieces(self.position, end))
        if self.held:
            return
        self.position = max(self.position, min(self.log.position, end))
        if self.position < end:  # something is odd there: let the walk judge that judges for everybody
            walk = LogWalk(self.log.listed(), begin=self.position, end=end, check_crc=False)
            self._take(walk)
            if not self.held:
                self.position = max(self.position, min(walk.position, end))

    def _take(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            for block in self.dispatcher.blocks(piece):
                self._write(block)
            if (held := self.dispatcher.held_at) is not None:
                self._reached(held)
                return
            self._reached(piece.base + piece.end)

    def _write(self, block: UnitBlock) -> None:
        """Write one block, again if it was interrupted."""
        if self._is_cut_short:
            self.queues.replay_from(block, self.dispatcher, set(), {})
        # Items before units (consumequeue/live_queue.py, W1): what a reader can get, he can find by its key.
        if self.index is not None:
            self.index.insert(block.key_hashes, block.key_offsets, block.key_times, block.keys)
            self.index.begin(block.last_time)
        self.queues.take(block, self.dispatcher)
        self.last_time = block.last_time

    def _reached(self, position: int) -> None:
        assert position >= self.position  # units and items below are written, and would be written twice
        # After the units are written, and before the mark is: what `reached` names, a checkpoint syncs and vouches for.
        self.position = position
        self._note_reached()
        self._is_cut_short = False
        if self.waits_for is not None:
            log.info("%s: dispatch continues at log offset %d", self.queues.root, self.position)
            self.waits_for = None
        self.needs_wake = self._far = self.behind > FAR

    def _note_reached(self) -> None:
        self.reached = DispatchPoint(self.position) if self.index is None else self.index.reached(self.position)

    @property
    def behind(self) -> int:
        return max(0, self.confirmed() - self.position)

    def wake(self, size: int = 0) -> None:
        """Wake dispatch after a put; if it lags far, the putter waits for each MiB of `size`.

        A thread that only puts keeps the GIL for milliseconds at a time; dispatch needs it between two kernel calls.
        """
        for _ in range(1 + (size >> 20)):
            if not self._far:
                break
            time.sleep(YIELD_S)
        self._wake.set()

    def wait(self, end: int, seconds: float, failure: DiskFailure | None = None) -> bool:
        """Wait until everything below `end` is dispatched; return False if that fails.

        It fails after `seconds`, if dispatch has stopped, or if a store with a failed disk will never confirm that
        much.
        """

        def is_over() -> bool:
            hopeless = bool(failure) and self.confirmed() < end
            return self.position >= end or self.stopped_at is not None or self._is_stopped or hopeless

        self.wake()
        with self.queues.changed:
            self.queues.changed.wait_for(is_over, seconds)
            return self.position >= end

    def start(self) -> None:
        self._service.start()

    def stop(self) -> None:
        """Stop the thread after everything confirmed is dispatched."""
        self._service.stop()
        self._retry_at = 0.0  # what it waited for may be there by now
        while self.dispatch_once():
            pass
        # After the last step, and before the wake-up: who waits for dispatch looks at both.
        self._is_stopped = True
        self.queues.wake()

    def _run(self) -> None:
        """Check each millisecond while puts come: one check takes many, and no put pays a wake-up.

        Waking a thread costs a put more than storing the record.
        """
        looks = 0
        while not self._service.stopping:
            looks = 0 if self.dispatch_once() else looks + 1
            if looks < LINGERS:
                self._wake.wait(LINGER_S)
            else:
                # The flag, then the look (kernels/write/fast_append.py, W7; kernels/threads/flusher.py, R9): a put
                # before the look is seen by it, and one after it sees the flag.
                self.needs_wake = True
                if self.confirmed() <= self.position or self.held or self.stopped_at is not None:
                    self._wake.wait(IDLE_S)
                self.needs_wake = False

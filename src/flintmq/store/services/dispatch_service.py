"""Follow the log: give every new record its queue units and index items. Source: upstream ReputMessageService; store
behaviour 8.

Dispatch never passes the confirmed position: what is flushed under SYNC_FLUSH, what is written otherwise. Damage met on
the way stops it there, loudly, and stops nothing else.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterable

from flintmq.kernels.fast_append import PutListener
from flintmq.kernels.handoff import Signal
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.own_log import LogTail
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock
from flintmq.store.dispatch.handover import HandedOver
from flintmq.store.index.durable_point import DispatchPoint
from flintmq.store.index.index_service import KeyIndex

log = logging.getLogger("flintmq.dispatch")

IDLE_S = 0.05  # how long an idle dispatcher sleeps when nobody wakes it
LINGER_S = 0.001  # how often it looks by itself while puts come, so that they need not wake it
LINGERS = 20  # so many times without anything new, then it sleeps
RETRY_S = 1.0  # how long dispatch waits before it tries again where there was no space
PASSES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # what may be over in a moment
FAR = 32 << 20  # bytes that dispatch may be behind before puts wait for it
YIELD_S = 0.0005  # how long such a put waits


class DispatchService(PutListener):
    """Dispatches one store's log.

    Args:
        log: the log's files.
        confirmed: log offset up to which records may be dispatched.
        queues, index, dispatcher: of the store; this service is their only writer from now on.
        begin: log offset up to which everything is dispatched.
        handed_over: rows put as columns; None: nobody hands any over.

    Attributes:
        position: log offset up to which everything is dispatched.
        last_time: store time in ms of the last dispatched record.
        reached: how far queues and index came, as `flintmq.mark` wants to know it; at most `position`.
        stopped_at: what stopped dispatch for good: damage, or a disk that refuses; None.
        waits_for: what it lacks at the moment, space for instance, and tries again for every second; None.
        needs_wake: whether somebody who puts has to call `wake`: it sleeps, or is far behind.
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
        self.waits_for: OSError | None = None
        self._retry_at = 0.0
        self.needs_wake = self._far = False
        self._wake = Signal()  # has no lock that a signal handler could wait for
        self._stop = self._is_stopped = False
        self._step = threading.Lock()
        self._thread: threading.Thread | None = None

    def dispatch_once(self) -> bool:
        """Dispatch what is confirmed by now; True if there was anything.

        Thread: any; one at a time. Durability: the kernel has the units and items on return.
        """
        with self._step:
            end = self.confirmed()
            if self.position >= end or self.stopped_at is not None:
                return False
            if self.waits_for is not None and time.monotonic() < self._retry_at:
                return False
            try:
                before = -1
                while before < self.position < end:
                    before = self.position
                    if not self._take_handed_over(end):
                        self._read(self.handed_over.before(end) if self.handed_over is not None else end)
            except Exception as error:  # of any kind: a thread that is gone without a word would be worse (D29)
                self._halt(error)
                return False
            with self.queues.changed:
                self.queues.changed.notify_all()
            return True

    def _halt(self, error: Exception) -> None:
        """Stand still at `position`: for a while where that may help, else for good. Said once each time it changes."""
        self.needs_wake = self._far = False
        refused = error if isinstance(error, OSError) else error.__cause__  # an error of ours says of which it was made
        if isinstance(refused, OSError) and refused.errno in PASSES:
            if self.waits_for is None:
                log.warning("dispatch waits at log offset %d and tries again: %s", self.position, error)
            self.waits_for, self._retry_at = refused, time.monotonic() + RETRY_S
        else:
            self.stopped_at = error
            log.error("dispatch stands still at log offset %d: %s", self.position, error)
            self.queues.wake()

    def halt(self, error: Exception) -> None:
        """Stand still for good, after the step that runs."""
        if self.stopped_at is None:
            self.stopped_at = error
        self.queues.wake()

    def _take_handed_over(self, end: int) -> bool:
        """Dispatch rows that the put side still has as columns, if such are next."""
        rows = self.handed_over.take(self.position, end) if self.handed_over is not None else None
        block = self.dispatcher.handed_over(rows) if rows is not None else None
        if rows is None or block is None:
            return False
        self._write(block)
        self._reached(rows.end)
        return True

    def _read(self, end: int) -> None:
        """Dispatch the records up to this log offset."""
        self._take(self.log.pieces(self.position, end))
        self.position = max(self.position, min(self.log.position, end))
        if self.position < end:  # something is odd there: let the walk judge that judges for everybody
            walk = LogWalk(self.log.listed(), StopFacts(), self.position, end, check_crc=False)
            self._take(walk)
            self.position = max(self.position, min(walk.position, end))

    def _take(self, pieces: Iterable[Piece]) -> None:
        """Write the units and items of these records."""
        for piece in pieces:
            for block in self.dispatcher.blocks(piece):
                self._write(block)
            self._reached(piece.base + piece.end)

    def _write(self, block: UnitBlock) -> None:
        """Write one block; again, if it was broken off."""
        if self.waits_for is not None:
            self.queues.replay_from(block, self.dispatcher)
        if self.index is not None:
            self.index.insert(block.key_hashes, block.key_offsets, block.key_times, block.keys)
            self.index.begin(block.last_time)
        self.queues.take(block, self.dispatcher)
        self.last_time = block.last_time

    def _reached(self, position: int) -> None:
        assert position >= self.position  # units and items below are written, and would be written twice
        self.position = position
        self._note_reached()
        if self.waits_for is not None:
            log.info("dispatch goes on at log offset %d", self.position)
            self.waits_for = None
        self.needs_wake = self._far = self.behind > FAR

    def _note_reached(self) -> None:
        self.reached = DispatchPoint(self.position) if self.index is None else self.index.reached(self.position)

    @property
    def behind(self) -> int:
        """Bytes of confirmed log that are not dispatched."""
        return max(0, self.confirmed() - self.position)

    def wake(self, size: int = 0) -> None:
        """Something was put. Whoever puts faster than can be dispatched waits a moment here, for each MiB of `size`.

        (A thread that only puts keeps the GIL for milliseconds at a time; dispatch needs it between two kernel calls.)
        """
        for _ in range(1 + (size >> 20)):
            if not self._far:
                break
            time.sleep(YIELD_S)
        self._wake.set()

    def wait(self, end: int, seconds: float, failure: DiskFailure | None = None) -> bool:
        """Wait until everything below `end` is dispatched; False if it takes longer, or will never be: dispatch stands
        still or is stopped, or a store whose disk failed will not confirm so much."""

        def is_over() -> bool:
            hopeless = bool(failure) and self.confirmed() < end
            return self.position >= end or self.stopped_at is not None or self._is_stopped or hopeless

        self.wake()
        with self.queues.changed:
            self.queues.changed.wait_for(is_over, seconds)
            return self.position >= end

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="flintmq-dispatch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, after everything that is confirmed was dispatched."""
        self._stop = True
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self._retry_at = 0.0  # what it waited for may be there by now
        while self.dispatch_once():
            pass
        self._is_stopped = True
        self.queues.wake()

    def _run(self) -> None:
        """While puts come, one look a millisecond takes many of them at once, and none of them pays for a wake-up."""
        looks = 0
        while not self._stop:
            looks = 0 if self.dispatch_once() else looks + 1
            if looks < LINGERS:
                self._wake.wait(LINGER_S)
            else:
                self.needs_wake = True
                if self.confirmed() <= self.position or self.stopped_at is not None:
                    self._wake.wait(IDLE_S)
                self.needs_wake = False

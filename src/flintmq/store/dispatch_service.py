"""Follow the log: give every new record its queue units and index items. Source: upstream ReputMessageService; store
behaviour 8.

Dispatch never passes the confirmed position: what is flushed under SYNC_FLUSH, what is written otherwise. Damage met on
the way stops it there, loudly, and poisons nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from flintmq.errors import CorruptStoreError
from flintmq.store.consume_queues import ConsumeQueues
from flintmq.store.dispatch import Dispatcher
from flintmq.store.key_index import KeyIndex
from flintmq.store.log import LogWalk
from flintmq.store.log_files import LogFiles
from flintmq.store.recovery import Facts

log = logging.getLogger("flintmq.dispatch")

IDLE_S = 0.05  # how long an idle dispatcher sleeps when nobody wakes it
LINGER_S = 0.001  # how often it looks by itself while puts come, so that they need not wake it
LINGERS = 20  # so many times without anything new, then it sleeps


class DispatchService:
    """Dispatches one store's log.

    Args:
        files: lists the log's files as they are now.
        confirmed: log offset up to which records may be dispatched.
        queues, index, dispatcher: of the store; this service is their only writer from now on.
        begin: log offset up to which everything is dispatched.

    Attributes:
        position: log offset up to which everything is dispatched.
        last_time: store time in ms of the last dispatched record.
        stopped_at: the damage that stopped dispatch, or None.
        sleeps: whether somebody who puts has to `wake` it.
    """

    def __init__(
        self,
        files: Callable[[], LogFiles],
        confirmed: Callable[[], int],
        queues: ConsumeQueues,
        index: KeyIndex | None,
        dispatcher: Dispatcher,
        begin: int,
    ) -> None:
        self.files, self.confirmed = files, confirmed
        self.queues, self.index, self.dispatcher = queues, index, dispatcher
        self.position, self.last_time = begin, 0
        self.stopped_at: Exception | None = None
        self.sleeps = False
        self._wake = threading.Event()
        self._stop = False
        self._step = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="flintmq-dispatch", daemon=True)

    def dispatch_once(self) -> bool:
        """Dispatch what is confirmed by now; True if there was anything.

        Thread: any; one at a time. Durability: the kernel has the units and items on return.
        """
        with self._step:
            end = self.confirmed()
            if self.position >= end or self.stopped_at is not None:
                return False
            try:
                walk = LogWalk(self.files(), Facts(), self.position, end, check_crc=False)
                for piece in walk:
                    for block in self.dispatcher.blocks(piece):
                        if self.index is not None:
                            self.index.insert(block.key_hashes, block.key_offsets, block.key_times, block.keys)
                            self.index.begin(block.last_time)
                        self.queues.take(block, self.dispatcher)
                        self.last_time = block.last_time
                    self.position = piece.base + piece.end
                self.position = max(self.position, min(walk.position, end))
            except (CorruptStoreError, OSError) as error:
                self.stopped_at = error
                log.error("dispatch stands still at log offset %d: %s", self.position, error)
                return False
            with self.queues.changed:
                self.queues.changed.notify_all()
            return True

    @property
    def behind(self) -> int:
        """Bytes of confirmed log that are not dispatched."""
        return max(0, self.confirmed() - self.position)

    def wake(self) -> None:
        """Something was put."""
        if not self._wake.is_set():
            self._wake.set()

    def wait(self, end: int, seconds: float) -> bool:
        """Wait until everything below `end` is dispatched; False if it takes longer or dispatch stands still."""
        self.wake()
        with self.queues.changed:
            return self.queues.changed.wait_for(
                lambda: self.position >= end or self.stopped_at is not None, seconds
            ) and (self.position >= end)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, after everything that is confirmed was dispatched."""
        self._stop = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        while self.dispatch_once():
            pass

    def _run(self) -> None:
        """While puts come, one look a millisecond takes many of them at once, and none of them pays for a wake-up."""
        looks = 0
        while not self._stop:
            looks = 0 if self.dispatch_once() else looks + 1
            if looks < LINGERS:
                self._wake.wait(LINGER_S)
            else:
                self.sleeps = True
                if self.confirmed() <= self.position or self.stopped_at is not None:
                    self._wake.wait(IDLE_S)
                self.sleeps = False
            self._wake.clear()

"""Makes log files before the writer needs them.

A writer that needs a file requests it and the one after it. It waits for the first; the second is made meanwhile, so
that the next roll-over finds it ready. One thread makes files, lowest offset first: a crash may leave unused files
after the end of the log (recovery removes them, as RocketMQ does), but never a gap: no file is made after one that
failed. A file has no blocks until it is used. Upstream: AllocateMappedFileService.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Final

from flintmq.kernels.threads.handoff import INTERRUPTED, Latch, Signal
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.transient_pool import TransientStorePool
from flintmq.storage.memory.warm_up import Ahead, WarmUp
from flintmq.storage.threads.mutex import Lock
from flintmq.storage.threads.service_thread import ServiceThread

log = logging.getLogger("flintmq.allocation")

WAIT_S = 5.0  # how long a put waits for a file
IDLE_S: Final = 60.0
"""Seconds for which the thread sleeps at most; whoever has work for it wakes it."""


class AllocateRequest:
    """A request for a file.

    `window`: bytes of it to allocate at once; None for the window of a file in use.
    """

    def __init__(self, start: int, window: int | None) -> None:
        self.start, self.window = start, window
        self.done = Latch()  # opened once `file` or `error` is set
        self.file: MappedFile | None = None
        self.error: OSError | None = None


class AllocationService:
    """Makes the files of one log in advance.

    Thread: `file_at` and `used` under the put lock; the steps one at a time; the rest any.

    Args:
        warm: prepares each new file; None: warmMapedFileEnable is off.
        ahead: follows the writer; None: pages are not prepared.
        pool: takes the records of new files first; None: transientStorePoolEnable is off.
    """

    def __init__(
        self,
        make: Callable[[int, int | None], MappedFile],
        file_size: int,
        effects: Effects,
        *,
        warm: WarmUp | None = None,
        ahead: Ahead | None = None,
        pool: TransientStorePool | None = None,
        wait_s: float = WAIT_S,
        place: str = "",
    ) -> None:
        self.make, self.file_size, self.effects = make, file_size, effects
        self.warm, self.ahead, self.pool = warm, ahead, pool
        self.wait_s, self.place = wait_s, place
        self._lock = Lock()
        # By start: requested and not yet in use. One change adds a request: an interrupt leaves none half added.
        self._table: dict[int, AllocateRequest] = {}
        self._full: list[MappedFile] = []
        # No Event of `threading`: a handler that raises may leave its lock taken, and all puts would wait for ever.
        self._wake = Signal()
        # leaves_spares: keep files that were made and never used when it stops.
        self.leaves_spares = self._failing = False
        self._service = ServiceThread("flintmq-allocation", self._run, self._wake.set)

    def leave_spares(self) -> None:
        self.leaves_spares = True

    # -- the writer's side ------------------------------------------------------------------------------------------

    def file_at(self, start: int) -> MappedFile:
        """Return the file that begins at this log offset, and request the one after it.

        The request stays in the table until `used`, so that an exception in between loses nothing.

        Raises OSError: it could not be made (a later call tries again), or took longer than wait_s (a later call may
        find it).
        """
        with self._lock:
            request = self._table.get(start) or self._submit(start, None)
            # Asked for now, so that it is there when this one is full.
            if start + self.file_size not in self._table:
                self._submit(start + self.file_size, 0)
        if not self._service.is_started:
            while not request.done.is_open and self.allocate_once():
                pass
        self._wake.set()  # also where this file is there: the next one is to be made
        until, left = self.effects.monotonic() + self.wait_s, self.wait_s
        while not request.done.is_open and self._wake.set_and_wait(request.done, left) == INTERRUPTED:
            left = until - self.effects.monotonic()
        if not request.done.is_open:
            raise OSError(errno.ETIMEDOUT, f"not there after {self.wait_s:g} s")
        if request.error is not None:
            raise request.error
        assert request.file is not None
        return request.file

    def used(self, below: int) -> None:
        """Drop the requests of files below this log offset: they belong to the log now."""
        with self._lock:
            self._drop(below)

    def _drop(self, below: int) -> None:
        """Do what `used` says. The caller has the lock."""
        for start in [start for start in self._table if start < below]:
            del self._table[start]

    def asked(self, file: MappedFile, position: int) -> None:
        if self.ahead is not None and self.ahead.asked(file, position):
            self._wake.set()

    def full(self, file: MappedFile) -> None:
        """Take a full file, to be unlocked from memory."""
        if self.warm is not None and file.hold():
            with self._lock:
                self._full.append(file)
            self._wake.set()

    def _submit(self, start: int, window: int | None) -> AllocateRequest:
        assert start not in self._table, "a second request would remove the file of the first"
        request = self._table[start] = AllocateRequest(start, window)
        return request

    def _waiting(self) -> list[AllocateRequest]:
        """Return the requests whose files are to be made, lowest first. The caller has the lock."""
        return sorted((one for one in self._table.values() if not one.done.is_open), key=lambda one: one.start)

    # -- steps ------------------------------------------------------------------------------------------------------

    def allocate_once(self) -> bool:
        """Make one requested file; return whether there was a request.

        A failure fails all open requests: a file after one that could not be made would leave a gap.

        Thread: one at a time. Durability: the file exists after power loss.
        """
        with self._lock:
            waiting = self._waiting()
        if not waiting:
            return False
        request = waiting[0]
        began = self.effects.monotonic()
        try:
            file = self._made(request) if request.file is None else request.file  # an interrupt came after it was made
        except OSError as error:
            self._fail(request, error)
            return True
        except Exception as error:  # the writer must get the error, and the thread must live for the next request
            self._fail(request, OSError(errno.EIO, f"{type(error).__name__}: {error}"))
            return True
        log.info("made %s in %d ms", file.path, (self.effects.monotonic() - began) * 1000)
        self._failing = False
        # The file before the latch: who is woken looks for it.
        with self._lock:
            request.file = file
        request.done.open()
        return True

    def _made(self, request: AllocateRequest) -> MappedFile:
        """Make the file, warmed up and in the ring where that is configured."""
        file = self.make(request.start, request.window)
        try:
            if self.warm is not None:
                self.warm.warm_up(file)
            if self.pool is not None:
                file.enter_ring(self.pool)
        except OSError:
            # Removed at once: a later try makes it under the same name.
            file.close()
            self.effects.unlink(file.path)
            raise
        return file

    def _fail(self, request: AllocateRequest, error: OSError) -> None:
        if not self._failing:  # once; until a file can be made again, the writers report the failure themselves
            log.warning("%s: the log file at offset %d cannot be made (%s)", self.place, request.start, error.strerror)
        self._failing = True
        with self._lock:
            failed = self._waiting()
            for one in failed:
                del self._table[one.start]
            if request not in failed:  # nobody asks for it any more
                failed.append(request)
        # Out of the table first, so that a writer who asks again makes a new request.
        for one in failed:
            one.error = error
            one.done.open()

    def step(self) -> bool:
        """Do one piece of work: a file, a step ahead of the writer, a full file.

        Returns whether there was any.
        """
        if self.allocate_once():
            return True
        with self._lock:
            full = self._full.pop() if self._full else None
        if full is not None:
            assert self.warm is not None
            self.warm.retire(full)
            full.release()
            return True
        return self.ahead is not None and self.ahead.ahead_once()

    # -- thread -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread. Without it `file_at` makes files itself."""
        self._service.start()

    def stop(self) -> None:
        """Stop the thread and remove files that were never used, the last one first.

        May be called again.
        """
        self._service.stop()
        while self._full:
            self._full.pop().release()
        with self._lock:
            # The last one first: a kill amid this leaves no gap.
            left = sorted(self._table.values(), key=lambda request: -request.start)
            self._table = {}
        for request in left:
            if request.file is not None:
                self._remove(request.file)

    def _remove(self, file: MappedFile) -> None:
        try:
            mine = self.effects.is_named(file.fd, file.path)  # a RocketMQ started beside this may have made another
            if mine and not self.leaves_spares:
                self.effects.unlink(file.path)
        except OSError as error:
            log.warning("%s was made ahead and cannot be removed (%s)", file.path, error.strerror)
        file.close()

    def _run(self) -> None:
        while not self._service.stopping:
            self._wake.wait(IDLE_S)
            try:
                while not self._service.stopping and self.step():
                    pass
            except Exception:  # of a step ahead of the writer, who can do without it; his own files are handled above
                log.exception("%s: preparing log files ahead of the writer failed", self.place)

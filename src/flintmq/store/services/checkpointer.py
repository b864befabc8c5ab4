"""Writes `checkpoint` and `flintmq.mark`: how far log, queues and index are on disk.

It runs each flushIntervalConsumeQueue. Upstream: FlushConsumeQueueService, StoreCheckpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError
from flintmq.format.checkpoint import Checkpoint
from flintmq.storage.files.dispatch_lock import was_dispatched
from flintmq.storage.files.filesystem import NotOpened
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.storage.threads.service_thread import ServiceThread
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.index.index_service import sync_all
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.services.dispatch_service import DispatchService
from flintmq.store.services.ownership import Ownership

log = logging.getLogger("flintmq.store")

LEAST_PAUSE_MS = 10  # minimum time between two checkpoints, whatever flushIntervalConsumeQueue says


class Checkpointer:
    """Syncs queues and index that `dispatch` writes, then records what is on disk.

    `flushed_time` returns the store time in ms of the last record that is on disk. `external`: another process writes
    queues and index, so the mark does not cover them. Thread: `write` any, one at a time.
    """

    def __init__(
        self,
        *,
        config: StoreConfig,
        small: StoreFiles,
        files: MappedFileQueue,
        dispatch: DispatchService,
        failure: DiskFailure,
        ownership: Ownership,
        flushed_time: Callable[[], int],
        external: bool,
    ) -> None:
        self._small, self._files = small, files
        self._dispatch, self._queues, self._index = dispatch, dispatch.queues, dispatch.index
        self._failure, self._ownership, self._external = failure, ownership, external
        self._flushed_time = flushed_time
        self._pause_s = max(config.flush_interval_consume_queue, LEAST_PAUSE_MS) / 1000
        self._service = ServiceThread("flintmq-checkpoint", self._run)

    def write(self, closing: bool = False) -> None:
        """Sync queues and index, then write checkpoint and mark with what was synced before.

        `closing`: the store stops, so the index's last file is synced to its end. Durability: on return.

        Raises:
            NotOpened: a file could not be opened; the next call tries again.
            OSError: an fsync failed; the store accepts no more puts.
        """
        # All four before the syncs: what is dispatched or flushed while they run need not be on disk when they end.
        dispatched, reached = self._dispatch.last_time, self._dispatch.reached
        flushed, time = self._files.flushed_where, self._flushed_time()
        try:
            self._queues.flush()
            full = 0 if self._index is None else self._index.sync_full()
            if closing and self._external:  # for RocketMQ, which throws younger files away where `abort` stays (D2)
                full = sync_all(self._small.root, self._small.effects)
            if self._index is not None:
                self._index.mark.settle(reached, flushed, closing=closing)
        except NotOpened:  # no fsync failed: the next interval tries again
            raise
        except OSError as error:
            self._failure.set(f"the consume queues or the index could not be flushed ({error.strerror})")
            raise
        # Written only now that all of it is on disk: a mark that came earlier could outlive what it vouches for.
        before = self._small.checkpoint
        logics = min(dispatched, time) if dispatched else before.logics_timestamp
        if self._external and was_dispatched(self._small.root):  # by a process that cut queues at its start, perhaps
            logics = 0
        self._small.write(
            flushed,
            Checkpoint(time, logics, full or before.index_timestamp, *before[3:]),
            -1 if self._external else min(reached.position, flushed),
            self._index.mark.indexed if self._index is not None else None,
        )

    def _covered(self) -> tuple[int, int]:
        """Return the log offsets up to which records are on disk, and dispatched records are.

        Both, since dispatch may reach the end of the log after its last flush was recorded.
        """
        flushed = self._files.flushed_where
        return flushed, min(self._dispatch.reached.position, flushed)

    def start(self) -> None:
        self._service.start()

    def stop(self) -> None:
        """Stop the thread after the checkpoint that it is writing."""
        self._service.stop()

    def _run(self) -> None:
        """Write a checkpoint at each interval if more is on disk or dispatched than before."""
        written = (-1, -1)
        while not self._service.pause(self._pause_s):
            now = self._covered()
            if not self._ownership.is_ours() or now == written or self._failure:
                continue
            try:
                self.write()
                written = now  # only now: a failed attempt is repeated
            except (OSError, FlintError) as error:
                log.error("%s: the checkpoint could not be written (%s)", self._small.root, error)
            except Exception:  # without a mark the next start takes longer; without the thread there are no more marks
                log.exception("%s: the checkpoint could not be written", self._small.root)

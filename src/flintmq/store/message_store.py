"""The message store: wires its parts together and starts and stops them in order. Source: upstream DefaultMessageStore.

    from flintmq import Message, MessageStore
    with MessageStore("store") as store:
        result = store.put(Message("orders", b"hello", tags="paid", keys="order-1"))

ARCHITECTURE.md tells the way of a message.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from flintmq.config.key_effects import refuse_to_write, without_effect
from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, StoreError, StoreLockedError, UsageError
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.index import checked_peer
from flintmq.kernels.fast_append import Putter
from flintmq.message import GetResult, Message, PutResult
from flintmq.storage.dispatch_lock import ExternalClaim, holder
from flintmq.storage.filesystem import REAL, Effects, NotOpened
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.storage.store_url import local_only
from flintmq.store import arguments
from flintmq.store.answers import Answers
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import Poison
from flintmq.store.append.flush import FlushService, unflushed
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.service import Puts
from flintmq.store.append.stats import Counters, StoreStats
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.own_log import LogTail
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumer.group import ConsumerGroup
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.dispatch.handover import HandedOver
from flintmq.store.index.index_service import KeyIndex
from flintmq.store.layout import directories
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.layout.store_config import batch_topics, given_config, with_queue_size
from flintmq.store.put_store import PutStore
from flintmq.store.read.get import LiveReader
from flintmq.store.recovery.lost_log import lost_directory
from flintmq.store.recovery.recover import recover, without_empty_last
from flintmq.store.reentry import in_handler, reentered, refuse_handler
from flintmq.store.services.consumer_offsets import bring_back
from flintmq.store.services.dispatch_service import DispatchService
from flintmq.store.services.expire_derived import Expiry
from flintmq.store.services.housekeeping import Housekeeping, KeptStore
from flintmq.store.services.retention import Retention

if TYPE_CHECKING:
    from typing import Unpack

    from flintmq.config.typed import Settings

log = logging.getLogger("flintmq.store")

LEAST_PAUSE_MS = 10  # between two checkpoints, whatever flushIntervalConsumeQueue says


class MessageStore(Putter, PutStore, KeptStore, Answers):
    """A store that is open for writing. Use it in a `with` block, or `close` it.

    Args:
        path: the store's root; made if it is missing.
        config: RocketMQ's keys (`{"flushDiskType": "SYNC_FLUSH"}`) or a StoreConfig.
        dev: small files, for trying things.
        peer: whose habits to follow on disk, "5.3.3", "5.4.0" or "5.5.0".
        dispatch: "thread": a thread of this store writes queues and index. "external": nobody here does, another
            process makes them from the log (`flintmq spark dispatch`); `get`, `wait_dispatched` and delivery after a
            delay are not to be had.
        accept_lost_log: a log whose last files are missing ends where its files end, and one without files begins anew,
            although mark, checkpoint or queues tell of more; queues, index and consumer offsets come back to that end.
            Without it such a store is refused: mostly a disk is not mounted, or a path is wrong.
        effects: the disk and the clock.
        services: False starts no thread: flushing, dispatching and the rest happen when their steps are called, or when
            a put or `close` needs them. For simulations (`flintmq.testing`), in which everything has one order.
        unique_keys: give each message that has none a unique key (property UNIQ_KEY), as RocketMQ's client does: its
            `PutResult.msg_id`, by which `query` finds it. False stores each message as it is: for copies.
        keys: the same keys in snake case (`flush_disk_type="SYNC_FLUSH"`).

    Raises:
        StoreLockedError: another process has it open, or dispatches it while `dispatch` is "thread".
        LostLogError: log files are missing that were flushed once; nothing was touched.
        CorruptStoreError: damage that is no tail; nothing was touched.
        ConfigError: an unknown key or an impossible value, or one that would break a promise
        (docs/operations/configuration.md).
        UnsupportedFormatError: a DLedger log, or consume queues in RocksDB.
        UsageError: `dispatch` is neither, or `peer` is none of these.
        OSError: the disk refused.

    Thread: every method any thread. After `close`, and in a child made by fork, every method raises UsageError; so
    does each one but `close` in a signal handler that came amid another of the same store.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: StoreConfig | Mapping[str, object] | None = None,
        *,
        dev: bool = False,
        peer: str = "5.3.3",
        dispatch: str = "thread",
        accept_lost_log: bool = False,
        effects: Effects = REAL,
        services: bool = True,
        unique_keys: bool = True,
        **keys: Unpack[Settings],
    ) -> None:
        self.root = os.path.abspath(local_only(path))
        self.effects = effects
        self.config = given_config(config, dev, keys)
        if dispatch not in ("thread", "external"):
            raise UsageError(f'dispatch={dispatch!r}; give "thread" or "external"')
        checked_peer(peer)
        refuse_to_write(self.config)
        self._external, self._services = dispatch == "external", services
        self._unique = UniqueKeys(effects) if unique_keys else None
        lost_directory(self.root, self.config, effects, accept=accept_lost_log)
        effects.make_folder(os.path.join(self.root, directories.LOG))
        if effects.size(os.path.join(self.root, "checkpoint")) is None:  # or a kill came before the name was on disk
            effects.sync_dir(os.path.dirname(self.root))
        directories.open_root(self.root, self.config, effects)
        directories.refuse_rocksdb_queues(self.root, effects)
        self._lock = effects.lock_store(self.root)
        self._closing = False
        self._closed = threading.Event()
        self._closer: threading.Thread | None = None
        self._claim: ExternalClaim | None = None
        self._index: KeyIndex | None = None
        effects.guard(self.root)
        try:
            self._settle_dispatch()
            self._open(peer, accept_lost_log)
        except BaseException:
            self._let_go()
            raise

    def _settle_dispatch(self) -> None:
        """Leave queues and index to others, or see that nobody else writes them. The store's lock is held."""
        if self._external:
            self._claim = ExternalClaim(self.root)
        elif (by := holder(self.root)) is not None:
            raise StoreLockedError(
                f'{self.root}: {by} writes its queues and index; stop that one, or open with dispatch="external"'
            )

    def _let_go(self) -> None:
        """Give back descriptors, maps and locks: what there is of them, if opening stopped halfway."""
        if self._index is not None:
            self._index.close_without_flush()
        for opened in (getattr(self, name, None) for name in ("_queues", "_files", "_small")):
            if opened is not None:
                opened.close()
        self._lock.release()
        self.effects.unguard(self.root)
        if self._claim is not None:
            self._claim.release()

    def _open(self, peer: str, accept_lost: bool) -> None:
        """Load, recover and start. The lock is held."""
        effects = self.effects
        self._places = [p.path for p in directories.log_directories(self.root, self.config, effects) if p.writable]
        files = without_empty_last(LogFiles.discover(self._places, effects=effects))
        if files.files and "mappedFileSizeCommitLog" not in self.config.given:
            self.config = self.config.with_keys({"mappedFileSizeCommitLog": files.file_size})
        self.config = with_queue_size(self.root, self.config, effects)
        facts = replace(read_facts(self.root, effects), live=False)
        self._small = StoreFiles(self.root, effects)
        self._report = Report()
        self._queues = ConsumeQueues(self.root, self.config, effects, self._report)
        indexed = self.config.message_index_enable and not self._external
        index = self._index = KeyIndex(self.root, self.config, effects) if indexed else None
        batches = batch_topics(self.root, effects)
        dispatcher = Dispatcher(DispatchRules.of(self.config, batches, peer))
        # Where others write queues, or wrote them, the list of where they ended says nothing.
        ends = {} if self._external or facts.mark is None else known_ends.read(self.root, effects)
        self.recovered = recover(
            self.root, files, facts, self._small, self.config, None if self._external else self._queues, index,
            dispatcher, effects, ends, accept_lost=accept_lost,
        )  # fmt: skip
        state = self.recovered.state
        if self.recovered.lost:  # before the mark says that nothing is missing
            bring_back(self.root, state.next_offsets, self.config, effects, peer)
        self._files = MappedFileQueue.of(self._places, self.config, effects)
        kept = [f for n, f in enumerate(self._list().files) if n == 0 or f.start <= state.end]
        self._files.load([(f.path, f.start) for f in kept], state.end)
        self._log = CommitLog(
            self._files, self.config, state, effects, batch_topics=batches, ours=self._is_ours, unique=self._unique
        )
        self._log.handed_over = None if self._external else HandedOver()
        self._poison = Poison(self._poisoned)
        self._counters = Counters(state.next_offsets, state.end, effects)
        self._flushed_time = state.last_time or self._small.known.physic_timestamp
        marked = index.mark.indexed if index is not None else None
        if facts.mark != state.end or self._small.indexed != marked:  # everything that recovery kept is on disk
            known = self._small.known._replace(physic_timestamp=self._flushed_time)
            self._small.write(state.end, known, min(self._small.dispatched, state.end), marked)
        words = self._files, self._log, self.config, self._poison, effects
        self._commits = CommitService(*words, self._note_committed) if self._files.pool is not None else None
        self._flush = FlushService(*words, self._note_flushed, self._commits, self._is_ours)
        self._dispatch = DispatchService(
            LogTail(self._files), self._confirmed, self._queues, index, dispatcher, state.end, self._log.handed_over
        )
        self._puts = Puts(
            self.config,
            self._log,
            self._flush,
            self._commits,
            self._dispatch,
            self._poison,
            self._counters,
            peer,
        )
        self.waits = self._flush.sync
        self.follower = self._flush if self._flush.sync else self._commits or self._dispatch
        slow = self.config.wake_flush_when_put_message or self.config.broker_role == "SLAVE"
        self.quick = None if slow else self._log.appender
        self._groups: dict[tuple[str, str], ConsumerGroup] = {}
        self._reader = LiveReader(self._files, self._queues, self.config, self._check_open)
        self._retention = Retention(
            self._files,
            self._log.lock,
            lambda: self._log.end if self._external else self._small.queued,
            self._places,
            self.root,
            self._nothing if self._external else Expiry(self.root, self.config, self._queues, effects).follow,
            self.config,
            effects,
            self._log.refuse,
        )
        self._keeping = Housekeeping(
            self.root,
            self.config,
            peer,
            effects,
            lambda: list(self._log.next_offsets),
            batches,
            dispatcher.learn_batch_topic,
            self._flushed_all,
            self._queues,
            self._reader.record,
            self._puts.put,
            self._retention,
        )
        self._tell_what_has_no_effect()
        self._keeper = threading.Thread(target=self._keep_house, name="flintmq-housekeeping", daemon=True)
        if self._services:
            self._start()
        else:
            self._flush.serve_itself()

    def _start(self) -> None:
        """Start the threads."""
        self._files.start()
        if self._commits is not None:
            self._commits.start()
        self._flush.start()
        if not self._external:
            self._dispatch.start()
        self._keeping.start()
        self._keeper.start()

    @staticmethod
    def _nothing(log_begin: int) -> None:
        """Queues and index follow the log by whoever writes them."""

    def _list(self) -> LogFiles:
        """The log's files as they are on disk; an empty last one, left by a kill amid its creation, is removed."""
        files = LogFiles.discover(self._places, effects=self.effects)
        if files.files and files.files[-1].size == 0:
            self.effects.unlink(files.files[-1].path)
            files = LogFiles.discover(self._places, effects=self.effects)
        return files

    def _tell_what_has_no_effect(self) -> None:
        if idle := without_effect(self.config):
            log.warning("%s: keys that have no effect in FlintMQ: %s", self.root, ", ".join(idle))
        for folder, what in directories.in_rocksdb(self.root, self.effects).items():
            log.warning("%s: %s, which FlintMQ neither reads nor writes", os.path.join(self.root, folder), what)

    def _confirmed(self) -> int:
        if self._external:
            return 0  # nothing is ever dispatched here
        if self._flush.sync:
            return self._files.flushed_where
        return self._log.end if self._commits is None else self._commits.done[1]

    def _note_committed(self) -> None:
        if self._dispatch.needs_wake:
            self._dispatch.wake()
        if not self.config.flush_commit_log_timed:
            self._flush.wake()

    def _note_flushed(self, store_time: int) -> None:
        self._flushed_time = store_time
        if self._flush.sync and self._dispatch.needs_wake:
            self._dispatch.wake()

    # -- writing ----------------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        """Whether this process is still the only one that may write the store, and what it writes can be found again.
        If not, nothing is written from now on: somebody removed `lock`, and another process may have made it anew and
        write; or a log file in use, whose records nobody can open any more."""
        if not self._lock.stands():
            reason = f"{self._lock.path} was removed or replaced, so that another process may write this store"
        elif (gone := self._files.gone()) is not None:
            reason = f"{gone} was removed or replaced while the store writes it"
        else:
            return True
        self._poison.set(reason)
        self._dispatch.halt(StoreLockedError(reason))
        self._keeping.halt()
        self._files.leave_spares()
        return False

    def _poisoned(self) -> None:
        self.quick = None
        self._small.distrust_page_cache()
        self._queues.wake()

    def _put_slowly(self, message: Message) -> PutResult:
        self._check_open()
        return self._puts.put(message)

    def _wait_flushed(self, result: PutResult) -> PutResult:
        if in_handler(self.root):  # what the signal came amid may be the flush
            return unflushed(result)
        return self._puts.wait_flushed(result)

    def flush(self) -> None:
        """Make everything that was put so far durable.

        Raises:
            StoreError: the disk refused, now or before.
            UsageError: the store is closed.

        Durability: on return.
        """
        self._check_open()
        self._flush.flush_once()
        if self._poison:
            raise StoreError(f"{self.root}: {self._poison.reason}; restart the store to see what is on disk")

    # -- reading ----------------------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        wait_ms: int = 0,
    ) -> GetResult:
        """Messages of a queue from an offset on.

        Args:
            topic, queue_id, offset: from where.
            max_messages: at most so many.
            tags: only messages with one of these tags (`a || b`); hash collisions pass, as in RocketMQ.
            wait_ms: if the queue has nothing there yet, wait so long for it (RocketMQ's clients wait up to 30000).

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed, or its dispatch is left to another process.

        Thread: any.
        """
        self._check_dispatched("get")
        arguments.texts(topic=topic)
        arguments.numbers(queue_id=queue_id, offset=offset, max_messages=max_messages, wait_ms=wait_ms)
        arguments.given_text("tags", tags)
        found = self._reader.get(topic, queue_id, offset, max_messages, tags, wait_ms)
        self._counters.got(len(found.messages))
        return found

    def stats(self) -> StoreStats:
        """What the store did since it was opened, and how far disk, queues and index are behind.

        Raises:
            UsageError: the store is closed.

        Thread: any.
        """
        self._check_open()
        return self._counters.read(
            self._log.next_offsets,
            self._log.end,
            self._flush.times,
            longest_in_lock_ms=self._log.slow.longest_ms,
            committed=self._log.end if self._commits is None else self._commits.done[1],
            flushed=self._files.flushed_where,
            dispatch_behind=self._dispatch.behind,
            log_begin=self._files.min_offset,
            pool_buffers_free=self._files.pool.available if self._files.pool is not None else -1,
            mapped=(len(files := self._files.files), sum(file.size for file in files)),
        )

    def wait_dispatched(self, timeout: float | None = None) -> bool:
        """Wait until everything put so far can be read; False if `timeout` seconds were not enough.

        Raises:
            UsageError: the store is closed, or its dispatch is left to another process.
        """
        self._check_dispatched("wait_dispatched")
        end = self._log.end
        if self._flush.sync:
            self._flush.flush_once()
        elif self._commits is not None:
            self._commits.commit_once()
        while not self._services and self._dispatch.dispatch_once():
            pass
        return self._dispatch.wait(end, 1e9 if timeout is None else timeout, self._poison)

    def _flushed_all(self) -> bool:
        self._flush.flush_once()
        return not self._poison

    # -- closing ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop: everything is flushed and dispatched, then the store counts as stopped cleanly.

        After a failed sync the store stays marked as stopped uncleanly. May be called again. A child made by fork may
        call it, and nothing happens. In a signal handler it does not wait for what the signal came amid: if that is a
        call of this store, another thread closes it when that call is over, and a later `close`, or the interpreter's
        end, waits for it.

        Thread: any. Durability: everything that was put.
        """
        if not self._lock.held:
            return
        amid = reentered(self.root)
        if amid and not self._closing:
            self._closing, self.quick = True, None
            self._closer = threading.Thread(target=self._close, name="flintmq-close")
            self._closer.start()  # no daemon: the interpreter waits for it
        elif not amid and self._closer is not None:
            self._closer.join()
        elif not amid:
            self._close()

    def _close(self) -> None:
        with self._log.lock:
            if self._closed.is_set():
                return
            self._closing = True
            self._closed.set()
            self._log.close()
        self._queues.wake()
        if self._keeper.is_alive():
            self._keeper.join()
        self._keeping.stop()
        if self._commits is not None:
            self._commits.stop()
        self._flush.stop()
        self._dispatch.stop()
        try:
            behind = self._dispatch.stopped_at or self._dispatch.waits_for  # then the next start has to see to it
            if not self._poison and behind is None:
                if self._index is not None:
                    self._index.close()
                self._checkpoint(closing=True)
                if not self._external:
                    known_ends.write(self.root, self._queues.next_offsets(), self.effects)
                self._keeping.save_once()
                self._small.remove_abort()
        except OSError as error:
            self._small.distrust_page_cache()
            log.error("%s: could not be stopped cleanly (%s)", self.root, error)
        finally:
            self._let_go()

    def _checkpoint(self, closing: bool = False) -> None:
        """Write what is on disk: the log first, then queues and index; times only of what was synced before."""
        dispatched, reached = self._dispatch.last_time, self._dispatch.reached
        flushed, time = self._files.flushed_where, self._flushed_time
        try:
            self._queues.flush()
            full = 0 if self._index is None else self._index.sync_full()
            if self._index is not None:
                self._index.mark.settle(reached, flushed, closing=closing)
        except NotOpened:  # no sync failed: the next look tries again
            raise
        except OSError as error:
            self._poison.set(f"the consume queues or the index could not be flushed ({error.strerror})")
            raise
        known = self._small.known
        logics = min(dispatched, time) if dispatched else known.logics_timestamp
        self._small.write(
            flushed,
            Checkpoint(time, logics, full or known.index_timestamp, *known[3:]),
            -1 if self._external else min(reached.position, flushed),
            self._index.mark.indexed if self._index is not None else None,
        )

    def _keep_house(self) -> None:
        """Each flushIntervalConsumeQueue: queues, checkpoint and mark, if the log was flushed since."""
        written = -1
        pause = max(self.config.flush_interval_consume_queue, LEAST_PAUSE_MS) / 1000
        while not self._closed.wait(pause):
            if not self._is_ours() or self._files.flushed_where == written or self._poison:
                continue
            try:
                flushed = self._files.flushed_where
                self._checkpoint()
                written = flushed  # not before: what failed is tried again
            except (OSError, FlintError) as error:
                log.error("the checkpoint could not be written (%s)", error)
            except Exception:  # a mark that stays behind costs the next start time; a thread that is gone, all marks
                log.exception("the checkpoint could not be written")

    def _check_open(self) -> None:
        if self._closing or not self._lock.held:
            why = "is closed" if self._closing else "was opened by the process that forked this one"
            raise UsageError(f"{self.root}: this store {why}; open it again")
        refuse_handler(self.root)

    def _check_dispatched(self, method: str) -> None:
        self._check_open()
        if self._external:
            raise UsageError(f'{self.root}: {method} needs queues, which dispatch="external" leaves out; use view()')

    def __repr__(self) -> str:
        """Where it is, and whether it is open."""
        state = "closed" if self._closed.is_set() else "open" if self._lock.held else "of another process"
        return f"<flintmq.MessageStore {self.root!r}, {state}>"

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

"""Makes, connects, starts and stops the parts of a store; no other module knows them all.

Each part gets the parts that it needs when it is made. Parts that must be notified by another one (a failed disk, a
store taken over by another process) are registered in `_connect`, once all parts exist.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from flintmq import hooks
from flintmq.config.key_effects import without_effect
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, StoreLockedError, UsageError
from flintmq.storage.files.dispatch_lock import ExternalClaim, holder, work_folder
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.lock import StoreLock
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.after_put import AfterPut, DispatchAndFlush
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure, reason_of
from flintmq.store.append.flush import PythonFlush
from flintmq.store.append.native_flush import native_if_possible
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.raw_log import RawLog
from flintmq.store.append.service import PutService
from flintmq.store.append.stats import Counters
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.commitlog.files import LogFiles, largest_record
from flintmq.store.commitlog.own_log import LogTail
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.dispatch.handover import HandedOver
from flintmq.store.index.index_service import KeyIndex
from flintmq.store.layout import deleted_topics, directories, followed
from flintmq.store.layout.given_sizes import refuse_other_sizes
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.layout.store_config import batch_topics, with_queue_size
from flintmq.store.listening import Listener, ListenOptions, LogPart
from flintmq.store.read.get import LiveReader
from flintmq.store.read.undelivered import at_opening
from flintmq.store.recovery.apply import Recovery
from flintmq.store.recovery.find_end import without_empty_last
from flintmq.store.recovery.lost_log import lost_directory, new_log_directories
from flintmq.store.reentry import refuse_handler
from flintmq.store.services.checkpointer import Checkpointer
from flintmq.store.services.consumer_offsets import bring_back
from flintmq.store.services.copied_queues import CopiedQueues
from flintmq.store.services.delay import DelayService
from flintmq.store.services.dispatch_service import DispatchService
from flintmq.store.services.expire_derived import Expiry
from flintmq.store.services.housekeeping import ConfigTables, Housekeeping, KnownTopics
from flintmq.store.services.ownership import Ownership
from flintmq.store.services.retention import Retention
from flintmq.store.services.timer_log import TimerLog
from flintmq.store.services.timers import RAW_TOPIC, AtStart, TimerService
from flintmq.store.services.topic_deletion import TopicDeletion
from flintmq.store.services.transactions import RAW_HALF, RAW_OUTCOME, Transactions
from flintmq.store.services.zone_mapping import ZoneMapping

log = logging.getLogger("flintmq.store")


class OpenState:
    """The check at the beginning of every call of one store.

    `lock`: its lock, held while it is open; a forked child does not hold it. Thread: any.

    Attributes:
        closing: whether `close` has begun; set before `closed`, even if another thread does the rest.
        closed: whether no further put can come.
    """

    def __init__(self, root: str, lock: StoreLock) -> None:
        self.root, self.lock = root, lock
        self.closing = self.closed = False

    def check(self) -> None:
        if self.closing or not self.lock.held:
            why = "is closed" if self.closing else "was opened by the process that forked this one"
            raise UsageError(f"{self.root}: this store {why}; open it again")
        refuse_handler(self.root)

    def begin_closing(self) -> None:
        """Refuse every later call; the rest of `close` is left to another thread."""
        self.closing = True

    def close(self) -> None:
        """Note that no further put can come."""
        self.closing = True
        self.closed = True

    def __str__(self) -> str:
        return "closed" if self.closed else "open" if self.lock.held else "of another process"


class OwnLog:
    """The log that this process writes.

    Thread: any.

    Args:
        readable: returns the log offset below which the files have all bytes, and no crash of this process takes one.
        durable_only: nothing is sent before it is on disk.
    """

    def __init__(self, files: MappedFileQueue, readable: Callable[[], int], *, durable_only: bool) -> None:
        self._files, self._readable, self._durable_only = files, readable, durable_only
        self.file_size = files.file_size

    def begin(self) -> int:
        """Return the log offset of the first file; of the next one if there is none."""
        files, end = self._files.files, self._readable()
        return files[0].start if files else end - end % self.file_size

    def end(self) -> int:
        """Return the log offset below which the log may be sent."""
        end = self._readable()
        return min(end, self._files.flushed_where) if self._durable_only else end

    def open(self, offset: int) -> LogPart | None:
        """Return the file with this log offset, held until its release.

        None: retention has removed it.
        """
        file = self._files.find(offset)
        if file is None or not file.hold():
            return None
        return LogPart(file.fd, file.start, file.size, file.release)


@dataclass(frozen=True)
class Opening:
    """Arguments of MessageStore beside RocketMQ's keys; it explains them."""

    peer: str
    external: bool  # another process makes queues and index
    accept_lost_log: bool
    unique_keys: bool
    sync_in_caller: bool
    listen: ListenOptions | None  # how followers may have the log; None: they may not
    cut_at: int | None


class StoreParts:
    """The parts of one open store.

    To make it locks, recovers and loads the store, in this order, and starts no thread. If that fails, all is released.

    Attributes:
        config: with the sizes that its files have.
        small: `checkpoint`, `flintmq.mark`, `abort`.
        report: damage found in its queues.
        index: None: none is kept, or another process keeps it.
        failure: set once its disk failed.
    """

    index: KeyIndex | None = None
    commits: CommitService | None = None  # of the transient pool; None: there is none
    raw: RawLog | None = None  # appends a master's log, in role SLAVE; None: in any other
    copied: CopiedQueues | None = None  # its queues, likewise
    ha: Listener | None = None  # lets followers have the log; None: it does not listen

    def __init__(self, root: str, config: StoreConfig, effects: Effects, opening: Opening) -> None:
        self.root, self.config, self.effects, self.opening = root, config, effects, opening
        self._is_slave = config.broker_role == "SLAVE"
        self._is_sync = config.flush_disk_type == "SYNC_FLUSH"
        self.opened = ExitStack()  # releases locks, descriptors and maps
        try:
            self._take_lock()
            self._list_log()
            self._open_derived()
            self._recover()
            self._map_log()
            self._make_append()
            self._make_flush()
            self._make_listener()
            self._make_puts()
            self._make_services()
            self._warn()
            self._connect()
        except BaseException as error:  # of any kind, a signal too: nothing may stay locked or mapped
            self.opened.close()
            if isinstance(error, OSError) and error.filename is None:  # of a call by descriptor
                error.filename = root
            raise

    def _take_lock(self) -> None:
        """Take the lock of a store that may be opened and that no other process dispatches."""
        root, config, effects = self.root, self.config, self.effects
        # A refused opening leaves the directory as it was, so nothing is made before these checks.
        lost_directory(root, config, effects, accept=self.opening.accept_lost_log)
        directories.refuse_other_kinds(root, effects)
        new = new_log_directories(root, config, effects)
        refuse_other_sizes(root, config, effects)
        for folder in (os.path.join(root, directories.LOG), *new):
            effects.make_folder(folder)
        if effects.size(os.path.join(root, "checkpoint")) is None:  # or a kill came before the name was on disk
            effects.sync_dir(os.path.dirname(root))
        directories.find_root(root, config, effects)
        self.lock = effects.lock_store(root)
        self.opened.callback(self.lock.release)
        effects.guard(root)
        self.opened.callback(effects.unguard, root)
        if self.opening.external:
            self.opened.callback(ExternalClaim(root).release)
        elif (by := holder(root)) is not None:
            raise StoreLockedError(
                f'{root}: {by} writes its queues and index; stop that one, or open with dispatch="external"'
            )

    def _list_log(self) -> None:
        root, config, effects = self.root, self.config, self.effects
        self._places = [p.path for p in directories.log_directories(root, config, effects) if p.writable]
        listed = without_empty_last(LogFiles.discover(self._places, None, largest_record(config), effects))
        if listed.files and "mappedFileSizeCommitLog" not in config.given:
            config = config.with_keys({"mappedFileSizeCommitLog": listed.file_size})
        self.config, self._listed = with_queue_size(root, config, effects), listed

    def _open_derived(self) -> None:
        """Open what recovery compares with the log: small files, queues, index."""
        root, config, effects = self.root, self.config, self.effects
        self.stopped = replace(read_facts(root, effects), live=False)
        self.small = StoreFiles(root, effects)
        self.opened.callback(self.small.close)
        self.report = Report()
        self.queues = ConsumeQueues(root, config, effects, self.report)
        self.opened.callback(self.queues.close)
        if config.message_index_enable and not self.opening.external:
            self.index = KeyIndex(root, config, effects)
            self.opened.callback(self.index.close_without_flush)
        self._batches = batch_topics(root, effects)
        deletions = self._deletions = deleted_topics.read(root, effects)
        self._dispatcher = Dispatcher(DispatchRules.of(config, self._batches, self.opening.peer, deletions))
        if self._is_slave:
            self._dispatcher.batch_found = self._batches.add

    def _recover(self) -> None:
        """Recover the store after any stop.

        No byte of log, queues or index is changed before the log's end is known.
        """
        root, config, effects, facts = self.root, self.config, self.effects, self.stopped
        if followed.is_followed(root, effects) and not facts.clean and not facts.page_cache_lasted:
            followed.note_unsure(root, facts.mark.flushed or 0, effects)
        recovery = Recovery(
            config,
            files=self._listed,
            facts=facts,
            small=self.small,
            queues=None if self.opening.external else self.queues,
            index=self.index,
            dispatcher=self._dispatcher,
            # If another process writes queues, or wrote them, the list of their ends says nothing.
            ends={} if self.opening.external or facts.mark.flushed is None else known_ends.read(root, effects),
        )
        try:
            self.recovered = recovery.run(accept_lost=self.opening.accept_lost_log, cut_at=self.opening.cut_at)
        except OSError:  # of a sync, perhaps: the page cache shows what was truncated, and the disk has it still
            self.small.distrust_page_cache()
            raise
        if self.recovered.lost:  # before the mark says that nothing is missing
            bring_back(root, self.recovered.state.next_offsets, config, effects, self.opening.peer)
        self._deletions = deleted_topics.within(self._deletions, self._listed.min_offset, self.recovered.state.end)
        if self._deletions != self._dispatcher.rules.deletions:  # before a record comes that it would hide
            deleted_topics.write(root, self._deletions, effects)
            self._dispatcher.rules = replace(self._dispatcher.rules, deletions=self._deletions)

    def _map_log(self) -> None:
        """Map the log as recovery left it, without an empty last file of an interrupted creation."""
        effects, end = self.effects, self.recovered.state.end
        self.files = MappedFileQueue.of(self._places, self.config, effects)
        self.opened.callback(self.files.close)
        left = LogFiles.discover(self._places, effects=effects).files
        if left and left[-1].size == 0:
            effects.unlink(left[-1].path)
            left = LogFiles.discover(self._places, effects=effects).files
        there = [(f.path, f.start) for f in left]
        used = [one for n, one in enumerate(there) if n == 0 or one[1] <= end]
        self.files.load(used, end, unused=there[len(used) :])

    def _make_append(self) -> None:
        """Make what appends to the log; write mark and checkpoint unless they say the same already.

        Everything that recovery kept is on disk: after an unclean stop it has synced what it read (`EndSearch`).
        """
        root, files, effects, small, state = self.root, self.files, self.effects, self.small, self.recovered.state
        self.failure = DiskFailure(root=root)
        self._ownership = Ownership(self.lock, files, self.failure)
        self._handed_over = None if self.opening.external else HandedOver()
        self.log = CommitLog(
            files,
            self.config,
            state,
            f"{self.config.broker_ip1}:{self.config.listen_port}",
            batch_topics=self._batches,
            ours=self._ownership.is_ours,
            unique=UniqueKeys(effects) if self.opening.unique_keys else None,
            handed_over=self._handed_over,
        )
        self.counters = Counters(state.next_offsets, state.end, effects)
        self._last_time = state.last_time or small.checkpoint.physic_timestamp
        indexed = self.index.mark.indexed if self.index is not None else None
        if self.stopped.mark.flushed != state.end or small.mark.indexed != indexed:
            numbers = small.checkpoint._replace(physic_timestamp=self._last_time)
            small.write(state.end, numbers, min(small.mark.dispatched, state.end), indexed)
        if files.pool is not None:
            self.commits = CommitService(files, self.log, self.config, self.failure, effects)

    def _readable(self) -> int:
        """Return the log offset below which the files have all bytes.

        No crash of this process takes one.
        """
        return self.log.end if self.commits is None else self.commits.committed

    def _confirmed(self) -> int:
        """Return the log offset up to which records may be dispatched.

        No crash of this process can undo a record below it; under SYNC_FLUSH no power cut can either.
        """
        if self.opening.external:
            return 0  # nothing is ever dispatched here
        return self.files.flushed_where if self._is_sync else self._readable()

    def _make_flush(self) -> None:
        """Make dispatch, and then the flusher, which wakes it under SYNC_FLUSH."""
        self.dispatch = DispatchService(
            LogTail(self.files),
            confirmed=self._confirmed,
            queues=self.queues,
            index=self.index,
            dispatcher=self._dispatcher,
            begin=self.recovered.state.end,
            handed_over=self._handed_over,
        )
        flush = PythonFlush(
            self.files,
            self.log,
            self.config,
            self.failure,
            self.effects,
            commits=self.commits,
            in_caller=self.opening.sync_in_caller,
            ours=self._ownership.is_ours,
            after_flush=self.dispatch if self._is_sync else None,
        )
        self.flush = native_if_possible(flush, self.lock)

    def _make_listener(self) -> None:
        """Make the listener of the store's followers, bound to its address.

        Raises UsageError: the address cannot be used, or an option has another value.
        """
        options = self.opening.listen
        if options is not None:
            source = OwnLog(self.files, self._readable, durable_only=options.durable_only)
            self.ha = hooks.load("make_listener")(options, source, self.config, self.effects)
            self.opened.callback(self.ha.close)

    def _woken_by_puts(self) -> AfterPut:
        """Return the service that a put wakes if it does not wait for the disk.

        Under SYNC_FLUSH that is the flush service, with the transient pool the commit service; `_connect` says whom
        these wake next. Otherwise it is dispatch.
        """
        if self._is_sync:
            return self.flush
        if self.commits is not None:
            return self.commits
        both = self.config.wake_flush_when_put_message
        return DispatchAndFlush(self.dispatch, self.flush) if both else self.dispatch

    def _make_puts(self) -> None:
        """Make the entry of puts, and that of a master's log if this is a slave."""
        after_put = self._woken_by_puts()
        if self._is_slave:
            self.raw = RawLog(
                self.log,
                self.flush,
                after_put=after_put,
                dispatched_from=self.dispatch.begin_at,
                next_offsets=self.queues.next_offsets,
                failure=self.failure,
            )
            self.copied = CopiedQueues(self.queues, self.dispatch)
        else:
            followed.note_master(self.root, self.recovered.state.end, self.effects)
        self.puts = PutService(
            self.config,
            log=self.log,
            flush=self.flush,
            after_put=after_put,
            failure=self.failure,
            counters=self.counters,
            peer=self.opening.peer,
            replicas=self.ha.replicas if self.ha is not None else None,
        )

    def _make_services(self) -> None:
        root, config, effects, log, small = self.root, self.config, self.effects, self.log, self.small
        external, queues = self.opening.external, self.queues
        self.state = OpenState(root, self.lock)
        self.reader = LiveReader(self.files, queues, config, self.state.check)
        self.counters.fast = self.reader.fast
        self.retention = Retention(
            log,
            dispatched=(lambda: log.end) if external else (lambda: small.mark.dispatched),
            paths=self._places,
            root=root,
            # Another process expires its queues and index itself.
            follow=(lambda log_begin: None) if external else Expiry(root, config, queues, effects).follow,
            config=config,
            effects=effects,
        )
        tables = ConfigTables.of(root, config, effects, self.opening.peer)
        self.housekeeping = Housekeeping(
            config,
            effects,
            tables=tables,
            known=KnownTopics(
                # A slave's appends are bytes, so its queues are known once they are dispatched.
                queues=queues.places if self._is_slave else lambda: list(log.next_offsets),
                batch=self._batches,
                new_batch=self._dispatcher.learn_batch_topic,
            ),
            flush=self._flush_all,
            delay=DelayService(queues, self.reader.record, self.puts.put, tables.delays, config, effects),
            timers=self._timers(),
            retention=self.retention,
            mapping=ZoneMapping(LogTail(self.files).listed),
        )
        self.deletion = TopicDeletion(
            root,
            log,
            self.dispatch,
            self.housekeeping,
            deletions=self._deletions,
            counters=self.counters,
            flush=self._flush_all,
            effects=effects,
        )
        self.deletion.finish()
        self.transactions = Transactions(
            root,
            config,
            effects,
            self.opening.peer,
            queues=queues,
            reader=self.reader,
            puts=self.puts,
            offsets=self.housekeeping.offsets,
            check=self.state.check,
            make_readable=(lambda: None) if self.commits is None else self.commits.commit_once,
            first=self.recovered.state.next_offsets.get((RAW_HALF, 0), 0),
            first_outcome=self.recovered.state.next_offsets.get((RAW_OUTCOME, 0), 0),
        )
        self.checkpointer = Checkpointer(
            config=config,
            small=small,
            files=self.files,
            dispatch=self.dispatch,
            failure=self.failure,
            ownership=self._ownership,
            flushed_time=lambda: self.flush.flushed_time or self._last_time,
            external=external,
        )

    def _timers(self) -> TimerService | None:
        """Return the service of timers; None if it is switched off, or nobody makes queues here."""
        if self.opening.external or self._is_slave or not self.config.timer_wheel_enable:
            return None
        state = self.recovered.state
        return TimerService(
            self.queues,
            self.reader,
            self.puts.put,
            TimerLog(self.root, self.config, self.effects),
            flush=self._flush_all,
            log_bounds=lambda: (self.files.min_offset, self.log.end),
            found=AtStart(
                state.end, state.next_offsets.get((RAW_TOPIC, 0), 0), 0 if self.stopped.clean else state.last_time
            ),
            config=self.config,
            effects=self.effects,
        )

    def _flush_all(self) -> bool:
        self.flush.flush_once()
        return not self.failure

    def _warn(self) -> None:
        """Log what has no effect, of the configuration and the directory, and what is undelivered."""
        root, config, effects = self.root, self.config, self.effects
        if idle := without_effect(config):
            log.warning("%s: keys that have no effect in FlintMQ: %s", root, ", ".join(idle))
        for folder, what in directories.in_rocksdb(root, effects).items():
            log.warning("%s: %s, which FlintMQ neither reads nor writes", os.path.join(root, folder), what)
        if not self._is_slave:  # whose master delivers
            for text in at_opening(root, config, effects, self.recovered.state.next_offsets, self.stopped.clean):
                log.warning("%s: %s", root, text)

    def _connect(self) -> None:
        """Register parts as listeners of others. The order is that of their notification."""
        failure, ownership, dispatch = self.failure, self._ownership, self.dispatch
        failure.on_set(self.log.refuse_for_good)
        failure.on_set(self.small.distrust_page_cache)  # before any waiting put learns that the fsync failed
        failure.on_set(self.queues.wake)
        ownership.on_lost(dispatch.halt)
        ownership.on_lost(lambda error: self.housekeeping.halt())
        ownership.on_lost(lambda error: self.transactions.halt())
        ownership.on_lost(lambda error: self.files.leave_spares())

        def wake_dispatch() -> None:
            if dispatch.needs_wake:
                dispatch.wake()

        if self.ha is not None:
            dispatch.on_records = self.ha.wake
            if self.ha.replicas is not None and not self._is_sync:
                self.ha.on_turn = wake_dispatch  # after the frame of a put that waits, and not before it
        if self.commits is not None:
            self.commits.on_committed(wake_dispatch)
            if not self.config.flush_commit_log_timed:
                self.commits.on_committed(self.flush.wake)

    def start(self) -> None:
        """Start the threads: allocation first, consumers of records before their checkpointer."""
        self.files.start()
        if self.commits is not None:
            self.commits.start()
        self.flush.start()
        if not self.opening.external:
            self.dispatch.start()
        self.housekeeping.start()
        self.transactions.start()
        self.checkpointer.start()
        if self.ha is not None:
            self.ha.start()

    def _queues_lag(self) -> bool:
        """Return whether queues or index, which another process makes, may lack records of the log.

        They may while that process runs, or if it was killed amid a round: nobody but itself knows what of the round is
        on disk, and it removes `abort` when it ends (`settle` in spark/jobs/dispatch/preflight.py). They may after an
        unclean stop, which no start has mended: units that were not synced may be lost, and the last ones be there.
        """
        root, effects = self.root, self.effects
        try:
            # Records of a master (`raw`) count in no queue before they are dispatched.
            return (
                self.raw is not None
                or not self.stopped.clean
                or holder(root) is not None
                or bool(effects.listdir(work_folder(root)))
                or bool(known_ends.lost(self.log.next_offsets, known_ends.on_disk(root, effects)))
            )
        except (OSError, StoreError):  # files of that process, which this one may not read
            return True

    def stop(self) -> None:
        """Stop the threads and write the files for the next start. No put comes any more.

        Each step needs the one before: the pool is committed before the log is flushed, the log is flushed before it is
        dispatched to its end, and only then is their progress written. `abort` is removed last: as long as it exists, a
        start knows that a step may be missing. With `external` it stays, and says so, while the queues lag.

        Raises StoreError: all is stopped and closed, and the disk refused, now or before: what was put last may not be
        on it.
        """
        if self.ha is not None:  # first: puts that wait for replicas are answered
            self.ha.close()
        self.queues.wake()
        self.checkpointer.stop()
        self.transactions.stop()
        self.housekeeping.stop()
        if self.commits is not None:
            self.commits.stop()
        self.flush.stop()
        self.dispatch.stop()
        refused = ""
        try:
            undispatched = self.dispatch.stopped_at or self.dispatch.waits_for  # the next start dispatches the rest
            clean = not self.failure and undispatched is None and not self.dispatch.held
            if clean:
                if self.index is not None:
                    self.index.close()
                self.checkpointer.write(closing=True)
                if not self.opening.external:
                    known_ends.write(self.root, self.queues.next_offsets(), self.effects)
            if not self.failure:  # offsets need the log, and no queues
                self.housekeeping.save_once()
            if clean and self.opening.external and self._queues_lag():
                self.small.note_lag()
            elif clean:
                self.small.remove_abort()
        except OSError as error:
            self.small.distrust_page_cache()
            refused = reason_of(error)
        finally:
            self.opened.close()
        if self.failure or refused:
            reason = self.failure.reason or refused
            text = (
                f"{self.root}: could not be stopped cleanly ({reason}), so the last puts and offsets may not be on "
                "disk; mend that and open the store again, which recovers what is"
            )
            if refused:  # a failed sync is in the log already
                log.error("%s", text)
            raise StoreError(text)

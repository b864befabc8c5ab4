"""Makes, connects, starts and stops the parts of a store; no other module knows them all.

Each part gets the parts that it needs when it is made. Parts that must be notified by another one (a failed disk, a
flush, a store taken over by another process) are registered in `_connect`, once all parts exist.
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
from flintmq.errors import StoreError, StoreLockedError
from flintmq.storage.dispatch_lock import ExternalClaim, holder, work_folder
from flintmq.storage.filesystem import Effects
from flintmq.storage.lock import StoreLock
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.store.append.after_put import AfterPut, DispatchAndFlush
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure, reason_of
from flintmq.store.append.flush import FlushService, PythonFlush
from flintmq.store.append.native_flush import NativeFlush, native_if_possible
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.raw_log import RawLog
from flintmq.store.append.service import PutService
from flintmq.store.append.stats import Counters
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.commitlog.end_of_log import StopFacts, read_facts
from flintmq.store.commitlog.files import LogFiles, largest_record
from flintmq.store.commitlog.own_log import LogTail
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.dispatch.handover import HandedOver
from flintmq.store.index.index_service import KeyIndex
from flintmq.store.layout import directories, followed
from flintmq.store.layout.given_sizes import refuse_other_sizes
from flintmq.store.layout.small_files import StoreFiles, page_cache_lasted
from flintmq.store.layout.store_config import batch_topics, with_queue_size
from flintmq.store.listening import Listener, ListenOptions
from flintmq.store.open_state import OpenState
from flintmq.store.read.get import LiveReader
from flintmq.store.read.undelivered import at_opening
from flintmq.store.recovery.apply import Recovered, Recovery
from flintmq.store.recovery.find_end import without_empty_last
from flintmq.store.recovery.lost_log import lost_directory, new_log_directories
from flintmq.store.services.checkpointer import Checkpointer
from flintmq.store.services.consumer_offsets import bring_back
from flintmq.store.services.copied_queues import CopiedQueues
from flintmq.store.services.delay import DelayService
from flintmq.store.services.dispatch_service import DispatchService
from flintmq.store.services.expire_derived import Expiry
from flintmq.store.services.housekeeping import ConfigTables, Housekeeping, KnownTopics
from flintmq.store.services.own_source import OwnLog
from flintmq.store.services.ownership import Ownership
from flintmq.store.services.retention import Retention
from flintmq.store.services.zone_mapping import ZoneMapping

log = logging.getLogger("flintmq.store")


@dataclass(frozen=True, slots=True)
class Choices:
    """Options with which a store is opened.

    Attributes:
        root: absolute path.
        config: its keys as given; sizes that the files have are not in it yet.
        effects: the disk and the clock.
        peer: version to follow on disk.
        external: another process makes queues and index.
        accept_lost_log: see MessageStore.
        unique_keys: see MessageStore.
        listen: how followers may have the log; None: they may not.
        cut_at: see MessageStore.
    """

    root: str
    config: StoreConfig
    effects: Effects
    peer: str
    external: bool
    accept_lost_log: bool
    unique_keys: bool
    listen: ListenOptions | None = None
    cut_at: int | None = None


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of one open store.

    Attributes:
        config: with the sizes that its files have.
        state: whether it may be called.
        stopped: how it stopped before.
        recovered: the results of its recovery.
        small: `checkpoint`, `flintmq.mark`, `abort`.
        report: damage found in its queues.
        files: the mapped files of the log.
        log: appends to them.
        queues, index: the derived files; index None: none is kept, or another process keeps it.
        failure: set once its disk failed.
        counters: for `stats`.
        commits: of the transient pool; None: there is none.
        raw: appends a master's log, in role SLAVE; None: in any other.
        copied: its queues, likewise.
        flush, dispatch, puts, reader, retention, housekeeping, checkpointer: the services of these names.
        opened: releases locks, descriptors and maps.
        ha: lets followers have the log; None: it does not listen.
    """

    config: StoreConfig
    state: OpenState
    stopped: StopFacts
    recovered: Recovered
    small: StoreFiles
    report: Report
    files: MappedFileQueue
    log: CommitLog
    queues: ConsumeQueues
    index: KeyIndex | None
    failure: DiskFailure
    counters: Counters
    commits: CommitService | None
    raw: RawLog | None
    copied: CopiedQueues | None
    flush: FlushService
    dispatch: DispatchService
    puts: PutService
    reader: LiveReader
    retention: Retention
    housekeeping: Housekeeping
    checkpointer: Checkpointer
    opened: ExitStack
    ha: Listener | None = None


def assemble(choices: Choices) -> StoreParts:
    """Lock, recover and load a store without starting threads; release all if this fails.

    Raises:
        As MessageStore.
    """
    opened = ExitStack()
    try:
        return _parts(choices, _locked(choices, opened), opened)
    except BaseException as error:  # of any kind, a signal too: nothing may stay locked or mapped
        opened.close()
        if isinstance(error, OSError) and error.filename is None:  # of a call by descriptor
            error.filename = choices.root
        raise


def _locked(choices: Choices, opened: ExitStack) -> StoreLock:
    """Take the lock of a store that may be opened and that no other process dispatches."""
    root, config, effects = choices.root, choices.config, choices.effects
    # A refused opening leaves the directory as it was, so nothing is made before these checks.
    lost_directory(root, config, effects, accept=choices.accept_lost_log)
    directories.refuse_other_kinds(root, effects)
    new = new_log_directories(root, config, effects)
    refuse_other_sizes(root, config, effects)
    for folder in (os.path.join(root, directories.LOG), *new):
        effects.make_folder(folder)
    if effects.size(os.path.join(root, "checkpoint")) is None:  # or a kill came before the name was on disk
        effects.sync_dir(os.path.dirname(root))
    directories.find_root(root, config, effects)
    lock = effects.lock_store(root)
    opened.callback(lock.release)
    effects.guard(root)
    opened.callback(effects.unguard, root)
    if choices.external:
        opened.callback(ExternalClaim(root).release)
    elif (by := holder(root)) is not None:
        raise StoreLockedError(
            f'{root}: {by} writes its queues and index; stop that one, or open with dispatch="external"'
        )
    return lock


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A recovered store, before anything writes to it.

    Attributes:
        config: with the sizes that its files have.
        places: directories of the log that may be written.
        facts: of the last stop.
        small, report, queues, index, files, recovered: as StoreParts has them.
        batches: topics of type BatchCQ; may grow.
        dispatcher: knows the queues.
    """

    config: StoreConfig
    places: list[str]
    facts: StopFacts
    small: StoreFiles
    report: Report
    queues: ConsumeQueues
    index: KeyIndex | None
    batches: set[str]
    dispatcher: Dispatcher
    recovered: Recovered
    files: MappedFileQueue


def _load(choices: Choices, opened: ExitStack) -> _Loaded:
    """Recover the store and map its log."""
    root, effects = choices.root, choices.effects
    places = [p.path for p in directories.log_directories(root, choices.config, effects) if p.writable]
    listed = without_empty_last(LogFiles.discover(places, None, largest_record(choices.config), effects))
    config = _with_sizes(choices, listed)
    facts = replace(read_facts(root, effects), live=False)
    small = StoreFiles(root, effects)
    opened.callback(small.close)
    report = Report()
    queues = ConsumeQueues(root, config, effects, report)
    opened.callback(queues.close)
    index = KeyIndex(root, config, effects) if config.message_index_enable and not choices.external else None
    if index is not None:
        opened.callback(index.close_without_flush)
    batches = batch_topics(root, effects)
    dispatcher = Dispatcher(DispatchRules.of(config, batches, choices.peer))
    if config.broker_role == "SLAVE":
        dispatcher.batch_found = batches.add
    if followed.is_followed(root, effects) and not facts.clean and not page_cache_lasted(root, effects):
        followed.note_unsure(root, facts.mark.flushed or 0, effects)
    recovered = _recovered(choices, config, listed, facts, small, queues, index, dispatcher)
    end = recovered.state.end
    files = MappedFileQueue.of(places, config, effects)
    opened.callback(files.close)
    there = [(f.path, f.start) for f in _listed(places, effects).files]
    used = [one for n, one in enumerate(there) if n == 0 or one[1] <= end]
    files.load(used, end, unused=there[len(used) :])
    return _Loaded(
        config=config,
        places=places,
        facts=facts,
        small=small,
        report=report,
        queues=queues,
        index=index,
        batches=batches,
        dispatcher=dispatcher,
        recovered=recovered,
        files=files,
    )


def _parts(choices: Choices, lock: StoreLock, opened: ExitStack) -> StoreParts:
    """Make all parts in the order of their dependencies."""
    root, effects, external, peer = choices.root, choices.effects, choices.external, choices.peer
    loaded = _load(choices, opened)
    config, files, queues, index, small = loaded.config, loaded.files, loaded.queues, loaded.index, loaded.small
    state = loaded.recovered.state
    failure = DiskFailure(root=root)
    ownership = Ownership(lock, files, failure)
    handed_over = None if external else HandedOver()
    commit_log = CommitLog(
        files,
        config,
        state,
        effects,
        batch_topics=loaded.batches,
        ours=ownership.is_ours,
        unique=UniqueKeys(effects) if choices.unique_keys else None,
        handed_over=handed_over,
    )
    counters = Counters(state.next_offsets, state.end, effects)
    flushed_time = state.last_time or small.checkpoint.physic_timestamp
    _write_mark_if_changed(loaded, flushed_time)
    commits = CommitService(files, commit_log, config, failure, effects) if files.pool is not None else None
    sync = config.flush_disk_type == "SYNC_FLUSH"
    dispatch = DispatchService(
        LogTail(files),
        confirmed=_confirmed(external, sync, files, commit_log, commits),
        queues=queues,
        index=index,
        dispatcher=loaded.dispatcher,
        begin=state.end,
        handed_over=handed_over,
    )
    flusher = PythonFlush(
        files,
        commit_log,
        config,
        failure,
        effects,
        commits=commits,
        ours=ownership.is_ours,
        after_flush=dispatch if sync else None,
    )
    flush = native_if_possible(flusher, lock)
    ha = _listener(choices, loaded, commit_log, commits, opened)
    after_put = _woken_by_puts(config, flush, commits, dispatch)
    raw = copied = None
    if config.broker_role == "SLAVE":
        raw = RawLog(
            commit_log,
            flush,
            after_put=after_put,
            dispatched_from=dispatch.begin_at,
            next_offsets=queues.next_offsets,
            failure=failure,
        )
        copied = CopiedQueues(queues, dispatch)
    else:
        followed.note_master(root, state.end, effects)
    puts = PutService(
        config,
        log=commit_log,
        flush=flush,
        after_put=after_put,
        failure=failure,
        counters=counters,
        peer=peer,
        replicas=ha.replicas if ha is not None else None,
    )
    open_state = OpenState(root, lock)
    reader = LiveReader(files, queues, config, open_state.check)
    counters.fast = reader.fast
    retention = _retention(choices, loaded, commit_log)
    housekeeping = _housekeeping(
        choices,
        loaded,
        commit_log=commit_log,
        flush=flush,
        failure=failure,
        puts=puts,
        reader=reader,
        retention=retention,
    )
    checkpointer = Checkpointer(
        config=config,
        small=small,
        files=files,
        queues=queues,
        index=index,
        dispatch=dispatch,
        failure=failure,
        ownership=ownership,
        flushed_time=lambda: flush.flushed_time or flushed_time,
        external=external,
    )
    _warn_of_what_has_no_effect(root, config, effects)
    if config.broker_role != "SLAVE":  # whose master delivers
        for text in at_opening(root, config, effects, state.next_offsets, loaded.facts.clean):
            log.warning("%s: %s", root, text)
    parts = StoreParts(
        config=config,
        state=open_state,
        stopped=loaded.facts,
        recovered=loaded.recovered,
        small=small,
        report=loaded.report,
        files=files,
        log=commit_log,
        queues=queues,
        index=index,
        failure=failure,
        counters=counters,
        commits=commits,
        raw=raw,
        copied=copied,
        flush=flush,
        dispatch=dispatch,
        puts=puts,
        reader=reader,
        retention=retention,
        housekeeping=housekeeping,
        checkpointer=checkpointer,
        opened=opened,
        ha=ha,
    )
    _connect(parts, ownership)
    return parts


def _write_mark_if_changed(loaded: _Loaded, flushed_time: int) -> None:
    """Write checkpoint and mark after recovery, unless they say the same already.

    Everything that recovery kept is on disk.

    Args:
        loaded: the recovered store.
        flushed_time: store time in ms of the log's last record.
    """
    small, index, end = loaded.small, loaded.index, loaded.recovered.state.end
    indexed = index.mark.indexed if index is not None else None
    if loaded.facts.mark.flushed != end or small.mark.indexed != indexed:
        numbers = small.checkpoint._replace(physic_timestamp=flushed_time)
        small.write(end, numbers, min(small.mark.dispatched, end), indexed)


def _retention(choices: Choices, loaded: _Loaded, commit_log: CommitLog) -> Retention:
    """Make the service that deletes old log files; what is derived from them follows."""
    root, effects, config, small = choices.root, choices.effects, loaded.config, loaded.small
    return Retention(
        commit_log,
        dispatched=(lambda: commit_log.end) if choices.external else (lambda: small.mark.dispatched),
        paths=loaded.places,
        root=root,
        follow=_nothing if choices.external else Expiry(root, config, loaded.queues, effects).follow,
        config=config,
        effects=effects,
    )


def _housekeeping(
    choices: Choices,
    loaded: _Loaded,
    *,
    commit_log: CommitLog,
    flush: FlushService,
    failure: DiskFailure,
    puts: PutService,
    reader: LiveReader,
    retention: Retention,
) -> Housekeeping:
    """Make the service that keeps config/, delivers delayed messages and runs retention."""

    def flushed_all() -> bool:
        flush.flush_once()
        return not failure

    config, effects = loaded.config, choices.effects
    tables = ConfigTables.of(choices.root, config, effects, choices.peer)
    return Housekeeping(
        config,
        effects,
        tables=tables,
        known=KnownTopics(
            # A slave's appends are bytes, so its queues are known once they are dispatched.
            queues=loaded.queues.places if config.broker_role == "SLAVE" else lambda: list(commit_log.next_offsets),
            batch=loaded.batches,
            new_batch=loaded.dispatcher.learn_batch_topic,
        ),
        flush=flushed_all,
        delay=DelayService(loaded.queues, reader.record, puts.put, tables.delays, config, effects),
        retention=retention,
        mapping=ZoneMapping(LogTail(commit_log.files).listed),
    )


def _with_sizes(choices: Choices, listed: LogFiles) -> StoreConfig:
    """Complete the configuration with the sizes of existing files, unless they were given."""
    config = choices.config
    if listed.files and "mappedFileSizeCommitLog" not in config.given:
        config = config.with_keys({"mappedFileSizeCommitLog": listed.file_size})
    return with_queue_size(choices.root, config, choices.effects)


def _recovered(
    choices: Choices,
    config: StoreConfig,
    listed: LogFiles,
    facts: StopFacts,
    small: StoreFiles,
    queues: ConsumeQueues,
    index: KeyIndex | None,
    dispatcher: Dispatcher,
) -> Recovered:
    """Recover the store after any stop."""
    root, effects, external = choices.root, choices.effects, choices.external
    # If another process writes queues, or wrote them, the list of their ends says nothing.
    ends = {} if external or facts.mark.flushed is None else known_ends.read(root, effects)
    recovery = Recovery(
        config,
        files=listed,
        facts=facts,
        small=small,
        queues=None if external else queues,
        index=index,
        dispatcher=dispatcher,
        ends=ends,
        followed=followed.is_followed(root, effects),
    )
    recovered = recovery.run(accept_lost=choices.accept_lost_log, cut_at=choices.cut_at)
    if recovered.lost:  # before the mark says that nothing is missing
        bring_back(root, recovered.state.next_offsets, config, effects, choices.peer)
    return recovered


def _listed(places: list[str], effects: Effects) -> LogFiles:
    """List the log's files on disk, removing an empty last one of an interrupted creation."""
    files = LogFiles.discover(places, effects=effects)
    if files.files and files.files[-1].size == 0:
        effects.unlink(files.files[-1].path)
        files = LogFiles.discover(places, effects=effects)
    return files


def _confirmed(
    external: bool, sync: bool, files: MappedFileQueue, commit_log: CommitLog, commits: CommitService | None
) -> Callable[[], int]:
    """Return the function for the log offset up to which records may be dispatched.

    No crash of this process can undo a record below it; under SYNC_FLUSH no power cut can either.
    """
    if external:
        return lambda: 0  # nothing is ever dispatched here
    if sync:
        return lambda: files.flushed_where
    return (lambda: commit_log.end) if commits is None else (lambda: commits.committed)


def _listener(
    choices: Choices, loaded: _Loaded, commit_log: CommitLog, commits: CommitService | None, opened: ExitStack
) -> Listener | None:
    """Make the listener of the store's followers, bound to its address.

    Raises:
        UsageError: the address cannot be used, or an option has another value.
    """
    options = choices.listen
    if options is None:
        return None
    readable = (lambda: commit_log.end) if commits is None else (lambda: commits.committed)
    source = OwnLog(loaded.files, readable, durable_only=options.durable_only)
    listener: Listener = hooks.load("make_listener")(options, source, loaded.config, choices.effects)
    opened.callback(listener.close)
    return listener


def _nothing(log_begin: int) -> None:
    """Do nothing: another process expires queues and index."""


def _woken_by_puts(
    config: StoreConfig, flush: PythonFlush | NativeFlush, commits: CommitService | None, dispatch: DispatchService
) -> AfterPut:
    """Return the service that a put wakes if it does not wait for the disk.

    Under SYNC_FLUSH that is the flush service, with the transient pool the commit service; `_connect` says whom these
    wake next. Otherwise it is dispatch.
    """
    if flush.sync:
        return flush
    if commits is not None:
        return commits
    return DispatchAndFlush(dispatch, flush) if config.wake_flush_when_put_message else dispatch


def _connect(parts: StoreParts, ownership: Ownership) -> None:
    """Register parts as listeners of others. The order is that of their notification."""
    failure, dispatch, flush = parts.failure, parts.dispatch, parts.flush
    failure.on_set(parts.log.refuse_for_good)
    failure.on_set(parts.small.distrust_page_cache)  # before any waiting put learns that the fsync failed
    failure.on_set(parts.queues.wake)
    ownership.on_lost(dispatch.halt)
    ownership.on_lost(lambda error: parts.housekeeping.halt())
    ownership.on_lost(lambda error: parts.files.leave_spares())

    def wake_dispatch() -> None:
        if dispatch.needs_wake:
            dispatch.wake()

    if parts.ha is not None:
        dispatch.on_records = parts.ha.wake
        if parts.ha.replicas is not None and not flush.sync:
            parts.ha.on_turn = wake_dispatch  # after the frame of a put that waits, and not before it
    if parts.commits is not None:
        parts.commits.on_committed(wake_dispatch)
        if not parts.config.flush_commit_log_timed:
            parts.commits.on_committed(flush.wake)


def _warn_of_what_has_no_effect(root: str, config: StoreConfig, effects: Effects) -> None:
    if idle := without_effect(config):
        log.warning("%s: keys that have no effect in FlintMQ: %s", root, ", ".join(idle))
    for folder, what in directories.in_rocksdb(root, effects).items():
        log.warning("%s: %s, which FlintMQ neither reads nor writes", os.path.join(root, folder), what)


def start(parts: StoreParts, external: bool) -> None:
    """Start the threads: allocation first, consumers of records before their checkpointer."""
    parts.files.start()
    if parts.commits is not None:
        parts.commits.start()
    parts.flush.start()
    if not external:
        parts.dispatch.start()
    parts.housekeeping.start()
    parts.checkpointer.start()
    if parts.ha is not None:
        parts.ha.start()


def _queues_lag(parts: StoreParts) -> bool:
    """Return whether queues or index, which another process makes, may lack records of the log.

    They may while that process runs, or if it was killed amid a round: nobody but itself knows what of the round is on
    disk, and it removes `abort` when it ends (`settle` in spark/jobs/dispatch/preflight.py). They may after an unclean
    stop, which no start has mended: units that were not synced may be lost, and the last ones be there.
    """
    root, effects = parts.small.root, parts.small.effects
    try:
        # Records of a master (`raw`) count in no queue before they are dispatched.
        return (
            parts.raw is not None
            or not parts.stopped.clean
            or holder(root) is not None
            or bool(effects.listdir(work_folder(root)))
            or bool(known_ends.lost(parts.log.next_offsets, known_ends.on_disk(root, effects)))
        )
    except (OSError, StoreError):  # files of that process, which this one may not read
        return True


def stop(parts: StoreParts, external: bool) -> None:
    """Stop the threads and write the files for the next start. No put comes any more.

    Each step needs the one before: the pool is committed before the log is flushed, the log is flushed before it is
    dispatched to its end, and only then is their progress written. `abort` is removed last: as long as it exists, a
    start knows that a step may be missing. With `external` it stays, and says so, while the queues lag.

    Raises:
        StoreError: all is stopped and closed, and the disk refused, now or before: what was put last may not be on it.
    """
    if parts.ha is not None:  # first: puts that wait for replicas are answered
        parts.ha.close()
    parts.queues.wake()
    parts.checkpointer.stop()
    parts.housekeeping.stop()
    if parts.commits is not None:
        parts.commits.stop()
    parts.flush.stop()
    parts.dispatch.stop()
    refused = ""
    try:
        undispatched = parts.dispatch.stopped_at or parts.dispatch.waits_for  # the next start dispatches the rest
        clean = not parts.failure and undispatched is None and not parts.dispatch.held
        if clean:
            if parts.index is not None:
                parts.index.close()
            parts.checkpointer.write(closing=True)
            if not external:
                known_ends.write(parts.small.root, parts.queues.next_offsets(), parts.small.effects)
        if not parts.failure:  # offsets need the log, and no queues
            parts.housekeeping.save_once()
        if clean and external and _queues_lag(parts):
            parts.small.note_lag()
        elif clean:
            parts.small.remove_abort()
    except OSError as error:
        parts.small.distrust_page_cache()
        refused = reason_of(error)
    finally:
        parts.opened.close()
    if parts.failure or refused:
        reason = parts.failure.reason or refused
        text = (
            f"{parts.small.root}: could not be stopped cleanly ({reason}), so the last puts and offsets may not be on "
            "disk; mend that and open the store again, which recovers what is"
        )
        if refused:  # a failed sync is in the log already
            log.error("%s", text)
        raise StoreError(text)

"""Checks before each round of a dispatch that it may write and that the log is the same.

At the start of a dispatch uncommitted data is truncated or removed: queue files, files of unknown queues, index files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreLockedError, UsageError
from flintmq.forensics.rebuild import RESULTS, RebuildPlan, plan_of
from flintmq.format.batch_queue import BATCH_UNIT_SIZE
from flintmq.format.consume_queue import Unit
from flintmq.format.text import java_encode
from flintmq.spark.jobs.dispatch.index import index_path
from flintmq.spark.jobs.dispatch.state import DispatchSettings, DispatchState, check_shape, commit, load, state_path
from flintmq.spark.jobs.dispatch.tasks import end_work, index_count
from flintmq.storage.files.dispatch_lock import at_rest, dispatches_itself, work_folder
from flintmq.store.commitlog.anchor import KnownLog, why_lost
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.reader import ExtQueue, batch_queue, plain_queue
from flintmq.store.consumequeue.writer import UNIT_SIZE, zero_after
from flintmq.store.index import reader
from flintmq.store.layout import directories
from flintmq.store.layout.file_geometry import FileGeometry
from flintmq.store.layout.queue_name import QueueName, queue_names
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.services.expire_derived import expired_ext, expired_index, expired_units, remove

ANEW = "--anew makes everything again"


def checked(root: str, into: str, config: StoreConfig, peer: str) -> RebuildPlan:
    """Plan a dispatch, and check and create its target directory."""
    plan = plan_of(root, into, config, peer)
    os.makedirs(into, exist_ok=True)
    if not plan.log.effects.remote and os.path.samefile(plan.root, into):
        plan = replace(plan, into=plan.root)
    elif os.path.isdir(os.path.join(into, directories.LOG)):
        raise UsageError(f"{into} is another store; give an empty directory, or {root} itself")
    return plan


def begun(plan: RebuildPlan, config: StoreConfig, anew: bool) -> tuple[RebuildPlan, DispatchState]:
    """Return the plan and the committed state, or a first state. The lock must be held."""
    check_writer(plan)
    folder = work_folder(plan.into)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        end_work(os.path.join(folder, name))
    if anew:
        _remove(plan)
    state = load(plan.into)
    if state is None:
        taken = [name for name in RESULTS if plan.disk.listdir(os.path.join(plan.into, name))]
        if taken:
            raise UsageError(
                f"{plan.into}: {', '.join(taken)} exist there and were not made by dispatch; give an empty directory, "
                "or --anew to make them again"
            )
        state = DispatchState(DispatchSettings.of(plan), plan.log.min_offset, plan.log.min_offset, clean=True)
        commit(plan.into, plan, state)
    check_shape(plan.into, state.shape, DispatchSettings.of(plan), config.given)
    shape = state.shape
    sizes = FileGeometry(shape.queue_file, shape.ext_file, shape.batch_file, shape.slots, shape.items)
    plan = replace(plan, sizes=sizes)
    check_log(plan, state)
    plan.disk.guard(plan.into)
    return plan, state


def _remove(plan: RebuildPlan) -> None:
    """Remove the results of a dispatch, the state file first."""
    effects = plan.disk
    _note_lag(plan)
    if effects.size(state_path(plan.into)) is not None:
        effects.unlink(state_path(plan.into))
        effects.sync_dir(os.path.dirname(state_path(plan.into)))
    for name in RESULTS:
        if effects.is_dir(os.path.join(plan.into, name)):
            shutil.rmtree(os.path.join(plan.into, name))


def check_writer(plan: RebuildPlan) -> None:
    """Raise if the engine that writes the store dispatches there itself."""
    if plan.into == plan.root and dispatches_itself(plan.root):
        raise StoreLockedError(
            f'{plan.root}: the process that writes this store dispatches itself; open it with dispatch="external", or '
            "give another directory"
        )


def raw_topics(topics: Iterable[str]) -> frozenset[bytes]:
    return frozenset(java_encode(topic) for topic in topics)


def check_log(plan: RebuildPlan, state: DispatchState, end: int | None = None) -> None:
    """Raise unless the last dispatched record is still in the log, or has expired.

    `end`: log offset where the log ends; None: as far as its files reach.
    """
    known = KnownLog(plan.log, plan.log.limit if end is None else end)
    why = "" if state.anchor is None else why_lost(known, state.anchor)
    if why:
        raise UsageError(
            f"{plan.root}: not the log that {plan.into} was dispatched from up to offset {state.position}: {why}; "
            f"bring that log back, give an empty directory, or {ANEW}"
        )


def cut_queues(plan: RebuildPlan, state: DispatchState) -> None:
    """Truncate every queue to its committed end. Every start does it again."""
    effects, into = plan.disk, plan.into
    _note_lag(plan)
    for kind, size in ((directories.QUEUES, UNIT_SIZE), (directories.BATCH_QUEUES, BATCH_UNIT_SIZE)):
        for name in queue_names(into, kind, effects):
            path = f"{kind}/{name.topic}/{name.queue_id}"
            files = (plain_queue if size == UNIT_SIZE else batch_queue)(into, name, effects).files
            if kind == directories.QUEUES and path in state.queues:
                zero_after(files, UNIT_SIZE * state.queues[path].next, effects)
            elif kind == directories.BATCH_QUEUES and path in state.batches:
                zero_after(files, state.batches[path], effects)
            else:
                _remove_queue(into, path)
    for name in queue_names(into, directories.EXT_QUEUES, effects):
        known = state.queues.get(f"{directories.QUEUES}/{name.topic}/{name.queue_id}")
        if known is None or known.ext < 0:
            _remove_queue(into, f"{directories.EXT_QUEUES}/{name.topic}/{name.queue_id}")
        else:
            zero_after(ExtQueue.of(into, name, effects).files, known.ext, effects)


def _note_lag(plan: RebuildPlan) -> None:
    """Write an `abort` that says that queues lag, into a store that stopped cleanly.

    Call it before queues are cut: a job that is killed then leaves no store that RocketMQ takes for a whole one.

    Durability: on return.
    """
    if plan.into == plan.root:
        with at_rest(plan.root) as resting:
            facts, files = read_facts(plan.root), StoreFiles(plan.root, plan.disk)
            if resting and facts.clean:
                files.disown_queues(facts.mark)
                known_ends.forget(plan.root, plan.disk)
                files.note_lag()


def settle(plan: RebuildPlan, state: DispatchState, look: Callable[[], int]) -> None:
    """Remove an `abort` that says that queues lag, if all of the log is dispatched.

    `look`: finds the log's end. It is asked here, where nobody writes: an engine may have written after the last round.

    Durability: on return.
    """
    if plan.into == plan.root:
        with at_rest(plan.root) as resting:
            if resting and read_facts(plan.root).lagging and look() <= state.position:
                StoreFiles(plan.root, plan.disk).remove_abort()


def _remove_queue(into: str, path: str) -> None:
    """Remove a queue's directory, and its topic's if that was the last one."""
    shutil.rmtree(os.path.join(into, path))
    topic = os.path.dirname(os.path.join(into, path))
    if not os.listdir(topic):
        os.rmdir(topic)


def index_is_whole(plan: RebuildPlan, state: DispatchState) -> bool:
    """Return whether the index files are as a job that stopped by itself committed them."""
    index = state.index
    if not plan.rules.index:
        return True
    wanted = [*index.names, *([index.empty] if index.empty is not None else [])]
    if not state.clean or plan.disk.listdir(os.path.join(plan.into, "index")) != sorted(wanted):
        return False
    return not index.keys or index_count(index_path(plan, index.names[-1])) == (index.keys, index.end[0])


def expire(plan: RebuildPlan, state: DispatchState, config: StoreConfig) -> None:
    """Remove files that refer only to expired records, except the last of each kind.

    The rules are those of the engine (`store/services/expire_derived.py`).

    Durability: none; files that come back after a power cut are deleted when the log's begin moves again.
    """
    effects, into, log_begin = plan.disk, plan.into, plan.log.min_offset
    rule = f"its messages were before log offset {log_begin}"
    for path, known in state.queues.items():
        name = _name(path)
        units = plain_queue(into, name, effects)
        first = units.unit(units.first_kept(log_begin, known.next))
        expired = [*expired_units(units, log_begin)]
        if known.ext >= 0 and isinstance(first, Unit):
            expired += expired_ext(ExtQueue.of(into, name, effects), first)
        for file in expired:
            remove(file.path, rule, effects)
    for path in state.batches:
        for file in expired_units(batch_queue(into, _name(path), effects), log_begin):
            remove(file.path, rule, effects)
    files = reader.discover(into, config, effects)
    for index_file in expired_index(files, log_begin):
        remove(index_file.path, rule, effects)
        state.index.names.remove(os.path.basename(index_file.path))


def _name(path: str) -> QueueName:
    _, topic, queue_id = path.split("/")
    return QueueName(topic, int(queue_id))

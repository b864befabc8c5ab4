"""Plans the index files of a dispatch round, publishes them, and rebuilds the last one."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from flintmq.errors import StoreError
from flintmq.forensics.rebuild import RebuildPlan
from flintmq.spark.jobs import staged
from flintmq.spark.jobs.dispatch.state import DispatchState, IndexState
from flintmq.spark.jobs.dispatch.tasks import Round, remake_index_file
from flintmq.spark.jobs.rebuild import IndexTail, PlannedIndexFile, index_files, key_place
from flintmq.spark.jobs.staged import Stage
from flintmq.spark.jobs.tasks import run_tasks
from flintmq.storage.files.whole_file import sync_file
from flintmq.store.dispatch.dispatcher import MOST_OF_ONE
from flintmq.store.index.builder import IndexFileBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def planned(
    plan: RebuildPlan, stages: list[Stage], last: tuple[int, int], before: IndexState
) -> tuple[list[PlannedIndexFile], IndexState]:
    """Plan the index files that a round makes or continues, and the state after the round."""
    if not plan.rules.index or last[0] < 0:
        return [], before
    files = index_files(plan, stages, last, IndexTail(before.names, before.keys, *before.end))
    after = replace(before, names=list(before.names), empty=None)
    capacity = plan.sizes.items - 1
    for file in files:
        if not file.keys:
            after.empty = file.name
            continue
        number, first, _ = file.keys[0]
        count = sum(end - begin for _, begin, end in file.keys)
        if before.keys and file.name == before.names[-1]:
            after.keys += count
        else:
            after.names.append(file.name)
            after.keys, after.before = count, (file.begin_offset, file.begin_time)
            after.begin, after.skip = _begin(stages[number].path, first)
        number, _, end = file.keys[-1]
        after.end = key_place(stages[number].path, end - 1)
        if after.keys == capacity:
            after.keys = 0
    assert 0 <= after.keys < capacity and (after.names or not after.keys)
    return files, after


def _begin(path: str, number: int) -> tuple[int, int]:
    """Return the log offset of a staged key's record, and how many of its keys precede it."""
    offset = key_place(path, number)[0]
    skip = 0
    for _, offsets, _ in staged.keys(path, max(0, number - MOST_OF_ONE), number):
        skip = sum(other == offset for other in offsets)
    return offset, skip


def index_path(plan: RebuildPlan, name: str) -> str:
    return os.path.join(plan.into, "index", name)


def brought_in(
    plan: RebuildPlan, before: IndexState, after: IndexState, files: list[PlannedIndexFile], made: list[str | None]
) -> None:
    """Move the files of a round into place, and remove the empty file that they replace.

    Durability: on return.
    """
    effects = plan.disk
    if not plan.rules.index:
        return
    effects.mkdirs(os.path.join(plan.into, "index"))
    for file, path in zip(files, made, strict=True):
        if path is not None:
            effects.rename(path, index_path(plan, file.name))
    replaced = before.empty is not None and before.empty not in (*after.names, after.empty)
    if replaced and effects.size(index_path(plan, str(before.empty))) is not None:
        effects.unlink(index_path(plan, str(before.empty)))
    effects.sync_dir(os.path.join(plan.into, "index"))
    effects.sync_dir(plan.into)


def remade(spark: SparkSession, plan: RebuildPlan, state: DispatchState, job: Round | None) -> None:
    """Rebuild the last index file as it was committed, and remove uncommitted ones.

    If the log's begin moved past some keys, the state has fewer afterwards. `job` has the keys from the last file's
    first on; None if no file has room.
    """
    index, effects = state.index, plan.disk
    if not plan.rules.index:
        return
    folder = os.path.join(plan.into, "index")
    effects.mkdirs(folder)
    if job is not None:
        begin_moved = plan.log.min_offset > index.begin
        skip = 0 if begin_moved else index.skip
        keys = sum(stage.keys for stage in job.stages) - skip
        if keys != index.keys and not (begin_moved and keys < index.keys):
            raise StoreError(
                f"{plan.root}: the log has {keys} keys from offset {index.begin} on, where it had {index.keys}; "
                "--anew makes everything again"
            )
        if keys:
            file = PlannedIndexFile(index.names[-1], *index.before, [])
            [answer] = run_tasks(spark, partial(remake_index_file, job, skip), [file])
            effects.rename(answer["made"], index_path(plan, file.name))
        else:
            index.names.pop()
        if begin_moved:
            index.keys, index.begin, index.skip = keys, plan.log.min_offset, 0
    if index.empty is not None:
        _make_empty(plan, index, index.empty)
    for name in effects.listdir(folder):
        if name not in (*index.names, index.empty):
            effects.unlink(os.path.join(folder, name))
    there = set(effects.listdir(folder))
    index.names[:] = [name for name in index.names if name in there]  # the others expired with the log's begin
    effects.sync_dir(folder)


def _make_empty(plan: RebuildPlan, index: IndexState, name: str) -> None:
    """Make the file without keys that follows a full one."""
    effects, path = plan.disk, index_path(plan, name)
    if effects.size(path) is not None:
        effects.unlink(path)
    builder = IndexFileBuilder(path, plan.sizes.slots, plan.sizes.items, *index.end, effects)
    builder.close()
    sync_file(path, effects)

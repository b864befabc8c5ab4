"""Places queue units and index keys of a dispatch round, in tasks.

A share is some queues, or one index file. Attempts of a share may follow each other (a worker was killed) or overlap
(Spark lost contact to one, or a driver was killed and its successor already works). So a share has a lock file, and one
attempt at a time works on it under the lock; an attempt that finds it done returns the first one's answer; an attempt
that finds the lock file removed gives up. The driver takes every lock once before it commits, and before it begins
after a killed driver.

Placing starts again at the committed state of the queue, over the remains of an attempt, and writes the same bytes. An
index file that has keys cannot be continued twice: a second attempt reports that, and the driver rebuilds it.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import dataclass
from typing import Any

from flintmq.errors import StoreLockedError
from flintmq.forensics.rebuild import RebuildPlan
from flintmq.spark.jobs.rebuild import PlannedIndexFile, insert_keys, make_index_file, place_staged
from flintmq.spark.jobs.staged import Stage
from flintmq.storage.files.dispatch_lock import exclusive, retire, work_folder
from flintmq.storage.files.whole_file import sync_file
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.writer import BatchQueueWriter, OpenFiles, QueueWriter, WriterState
from flintmq.store.index.writer import IndexFileWriter
from flintmq.store.layout.file_geometry import index_header

RETIRE_S = 120.0  # how long the driver waits for attempts that it no longer needs


@dataclass(frozen=True, slots=True)
class DispatchTask:
    """The work of one task.

    `queues`, `batches`: path of each queue -> state of its writer; None for a new one.
    """

    number: int  # number of its lock
    queues: dict[str, WriterState | None]
    batches: dict[str, int]
    index: PlannedIndexFile | None = None
    begun: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    plan: RebuildPlan  # plan of the dispatch; `into` is the directory of queues and index
    work: str  # directory of the round: stages, lock files, unfinished files
    stages: list[Stage]


def begin_work(into: str) -> str:
    """Make a new directory for one round, and return it."""
    path = os.path.join(work_folder(into), uuid.uuid4().hex)
    os.makedirs(os.path.join(path, "stages"))
    os.mkdir(os.path.join(path, "locks"))
    return path


def stages_path(work: str) -> str:
    return os.path.join(work, "stages")


def lock_path(work: str, number: int) -> str:
    return os.path.join(work, "locks", str(number))


def make_locks(work: str, shares: list[DispatchTask]) -> None:
    for share in shares:
        with open(lock_path(work, share.number), "xb"):
            pass


def end_work(work: str) -> None:
    """Wait for all attempts that still work in a round's directory, and remove it."""
    locks = os.path.join(work, "locks")
    for name in os.listdir(locks) if os.path.isdir(locks) else ():
        if not retire(os.path.join(locks, name), RETIRE_S):
            raise StoreLockedError(f"{work}: a task of an earlier run still writes there; end its worker process")
    shutil.rmtree(work, ignore_errors=True)


def do_share(job: Round, share: DispatchTask) -> dict[str, Any]:
    """Run one task: write a share. Its files are synced when it returns.

    Returns:
        `queues`: path -> state of its writer; `batches`: path -> end of its last unit in bytes; `notes`: code -> count;
        `made`: an index file to be moved into place; `again`: the index file has to be rebuilt.
    """
    done = os.path.join(job.work, f"done-{share.number}")
    with exclusive(lock_path(job.work, share.number)):
        try:
            with open(done, encoding="ascii") as file:
                answer: dict[str, Any] = json.load(file)
                return answer
        except (FileNotFoundError, ValueError):
            pass
        if share.index is not None:
            answer = _index(job, share, share.index)
        else:
            answer = _queues(job, share)
        with open(done, "w", encoding="ascii") as file:
            json.dump(answer, file)
    return answer


def _queues(job: Round, share: DispatchTask) -> dict[str, Any]:
    plan, report = job.plan, Report()
    plan.disk.guard(plan.into)
    files = OpenFiles(plan.disk)

    def plain(path: str, light: bool) -> QueueWriter:
        state = share.queues[path]
        has_ext = plan.sizes.ext_file and (not light if state is None else state.ext >= 0)
        writer = QueueWriter(
            files, plan.into, path, plan.sizes.queue_file, plan.sizes.ext_file if has_ext else 0, report
        )
        if state is not None:
            writer.resume(state)
        return writer

    def batch(path: str) -> BatchQueueWriter:
        writer = BatchQueueWriter(files, plan.into, path, plan.sizes.batch_file)
        writer.continue_at(share.batches[path])
        return writer

    paths = share.queues.keys() | share.batches.keys()
    plains, batches = place_staged(job.stages, paths, bool(plan.sizes.ext_file), plain, batch)
    files.flush()
    files.close()
    return {
        "queues": {path: writer.state for path, writer in plains.items()},
        "batches": {path: writer.position for path, writer in batches.items()},
        "notes": dict(report.note_counts),
    }


def _index(job: Round, share: DispatchTask, file: PlannedIndexFile) -> dict[str, Any]:
    if not share.begun:
        return {"made": new_index_file(job.plan, job.work, job.stages, file)}
    begun = os.path.join(job.work, f"begun-{share.number}")
    if os.path.exists(begun):
        return {"again": True}
    with open(begun, "xb"):
        pass
    path = os.path.join(job.plan.into, "index", file.name)
    writer = IndexFileWriter.open(path, job.plan.sizes.slots, job.plan.sizes.items, job.plan.disk)
    if writer.count != share.begun + 1:
        writer.close()
        return {"again": True}
    insert_keys(writer, job.stages, file)
    job.plan.disk.sync(writer.fd)
    writer.close()
    return {}


def new_index_file(plan: RebuildPlan, work: str, stages: list[Stage], file: PlannedIndexFile) -> str:
    """Make an index file in a new directory, sync it, and return its path."""
    folder = os.path.join(work, uuid.uuid4().hex)
    os.mkdir(folder)
    path = os.path.join(folder, file.name)
    make_index_file(plan, stages, file, path)
    sync_file(path, plan.disk)
    return path


def remake_index_file(job: Round, skip: int, file: PlannedIndexFile) -> dict[str, Any]:
    """Run one task: rebuild the last index file from all staged keys after the first `skip`."""
    keys, left = [], skip
    for number, stage in enumerate(job.stages):
        first = min(left, stage.keys)
        left -= first
        if first < stage.keys:
            keys.append((number, first, stage.keys))
    assert left == 0  # the keys of the file before were staged
    made = PlannedIndexFile(file.name, file.begin_offset, file.begin_time, keys)
    return {"made": new_index_file(job.plan, job.work, job.stages, made)}


def index_count(path: str) -> tuple[int, int]:
    """Return the number of keys and the log offset of the last one from an index file's header.

    The result is (-1, -1) if the file does not exist.
    """
    header = index_header(path)
    return (-1, -1) if header is None else (header.next_item - 1, header.end_physical_offset)

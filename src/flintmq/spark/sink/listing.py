"""Lists the writers recorded in a store's `flintmq.puts`, and gives up a stuck batch."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field

from flintmq.errors import NotAStoreError, UsageError
from flintmq.spark.jobs.replay.exactly_once import WriterIds
from flintmq.spark.sink.commit import STAGED, named_files
from flintmq.spark.sink.query import PREFIX
from flintmq.storage.files.lock import StoreLock
from flintmq.storage.files.store_url import local_only
from flintmq.tabular import Summary

DONE, RUNNING, STUCK = "done", "running", "stuck"


@dataclass
class RecordedWriter:
    query: str  # name of the query, as `forget` takes it
    kind: str
    state: str  # "done"; "running": a batch was begun, and the next commit of its query finishes it; "stuck": it cannot
    batch: int | None  # the last one that was put or begun; None for a write without a name, or a replay
    rows: int | None  # number of rows that a replay has put in total
    log_end: int  # end of the store's log before a running batch, or after a finished one
    checkpoint: str = ""  # the query's checkpointLocation, if known
    staged_files: int = 0
    staged_bytes: int = 0
    why: str = ""


@dataclass
class RecordedPuts(Summary):
    """The content of a store's `flintmq.puts`.

    `unowned_files`, `unowned_bytes`: staged files that no begun batch needs: of running or dead jobs.
    """

    givers: list[RecordedWriter] = field(default_factory=list)
    unowned_files: int = 0
    unowned_bytes: int = 0


def read_puts(root: str) -> RecordedPuts:
    root = _store(root)
    ledger, found = WriterIds(root), RecordedPuts()
    for name, value in ledger.of("").items():
        of_sink = name.startswith(PREFIX)
        writer = RecordedWriter(
            name.removeprefix(PREFIX),
            "sink" if of_sink else "replay",
            STUCK if value.get("stuck") else RUNNING if value.get("running") else DONE,
            value.get("batch"),
            value.get("rows"),
            value.get("log_end", 0),
            value.get("checkpoint", ""),
            why=value.get("stuck", ""),
        )
        for file in (*value.get("files", ()), *value.get("bad", ())):
            writer.staged_files += 1
            with suppress(OSError):
                writer.staged_bytes += os.stat(os.path.join(root, STAGED, file)).st_size
        found.givers.append(writer)
    folder, needed = os.path.join(root, STAGED), named_files(ledger)
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        with suppress(OSError):
            if file not in needed:
                found.unowned_bytes += os.stat(os.path.join(folder, file)).st_size
                found.unowned_files += 1
    return found


def forget(root: str, query: str) -> RecordedWriter:
    """Remove a query from `flintmq.puts`, with the staged files of a batch that it has begun.

    Messages of a begun batch that are in the store stay there; if the batch runs again, all of its rows are put.
    """
    root = _store(root)
    lock = StoreLock(root)
    try:
        found = next((writer for writer in read_puts(root).givers if writer.query == query), None)
        ledger = WriterIds(root)
        if found is None:
            names = ", ".join(sorted(writer.query for writer in read_puts(root).givers)) or "none"
            raise UsageError(f"{root}: no record of query {query[:100]!r}; there are records of: {names[:300]}")
        name = (PREFIX if found.kind == "sink" else "") + query
        value = ledger.get(name) or {}
        ledger.set(name, None)
        for file in (*value.get("files", ()), *value.get("bad", ())):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(root, STAGED, file))
        return found
    finally:
        lock.release()


def _store(root: str) -> str:
    path = os.path.abspath(local_only(root))
    if not os.path.isdir(os.path.join(path, "commitlog")):
        raise NotAStoreError(f"{path}: no store (it has no commitlog/); give the directory that the sink writes to")
    return path

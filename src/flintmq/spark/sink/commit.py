"""Bring staged rows into a store, in one ordered go, each batch once.

The ledger names the staged files before the first of their messages is put (`jobs/once.py`). So a commit that died is
finished from these very files by the next one, even if Spark has computed the batch anew and in another order since.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from flintmq.errors import StoreAccessError
from flintmq.spark.jobs.once import Ledger, Tail, messages_of, put_all
from flintmq.spark.jobs.target import sync_folder
from flintmq.spark.sink.options import SinkOptions
from flintmq.store.message_store import MessageStore

STAGED = "flintmq.staged"
PREFIX = "sink "
ROWS_AT_ONCE = 1000
ORPHAN_S = 7 * 86_400  # of staged files that nobody names: their job is long dead


def commit(options: SinkOptions, batch: int | None, files: Sequence[str]) -> None:
    """Put the rows of staged files, unless this batch of the query was put before.

    Args:
        options: of the write.
        batch: its number; None if the write has no name.
        files: names of files in the store's directory STAGED, in order.

    Raises:
        StoreLockedError: somebody has the store open.
        StoreError: the store refused a message, or the disk failed; the next commit goes on there.

    Durability: all messages, on return.
    """
    giver = PREFIX + (options.query if options.query is not None else f"unnamed {uuid.uuid4().hex}")
    with MessageStore(options.path, options.config, peer=options.peer) as store:
        ledger = Ledger(options.path)
        end = store.recovered.state.end
        for name, value in ledger.of(PREFIX).items():
            if value["running"]:
                end = _put(store, ledger, name, value, end)
        known = ledger.get(giver)
        if known is None or batch is None or known["batch"] < batch:
            if files:
                sync_folder(Path(options.path, STAGED))
            value = {"batch": batch, "files": list(files), "log_end": end, "running": True}
            ledger.set(giver, value)
            _put(store, ledger, giver, value, end)
        named = {file for value in ledger.of(PREFIX).values() for file in value["files"]}
        _sweep(options.path, {*files} - named)


def discard(path: str, files: Sequence[str]) -> None:
    """Remove staged files, but for those that a commit has begun to put."""
    with suppress(StoreAccessError):  # then the ledger cannot tell, and they stay
        named = {file for value in Ledger(path).of(PREFIX).values() for file in value["files"]}
        for file in {*files} - named:
            _remove(os.path.join(path, STAGED, file))


def stage(path: str, batches: Iterator[pa.RecordBatch]) -> tuple[str, int]:
    """Write rows into a staged file, durable; its name, and how many there are. No file for no rows: the name is empty.

    Raises:
        OSError: the disk is full or fails; and whatever taking a batch raises.
    """
    folder = os.path.join(path, STAGED)
    name, rows, sink = f"{uuid.uuid4().hex}.arrow", 0, None
    try:
        for batch in batches:
            if sink is None:
                os.makedirs(folder, exist_ok=True)
                file = open(os.path.join(folder, name), "xb")  # noqa: SIM115 closed below
                sink = file, pa.ipc.new_file(file, batch.schema)
            sink[1].write_batch(batch)
            rows += batch.num_rows
        if sink is None:
            return "", 0
        sink[1].close()
        sink[0].flush()
        os.fsync(sink[0].fileno())
    except BaseException:
        _remove(os.path.join(folder, name))
        raise
    finally:
        if sink is not None:
            sink[0].close()
    return name, rows


def _put(store: MessageStore, ledger: Ledger, giver: str, value: dict[str, Any], end: int) -> int:
    """Put what of a commit is not in the store yet; where the log ends then."""
    tail = Tail(store.root, value["log_end"], end, store.config)
    for file in value["files"]:
        with pa.memory_map(os.path.join(store.root, STAGED, file)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                given = messages_of(reader.get_batch(number))
                begin = 0
                while begin < len(given) and not tail.over and tail.holds(given[begin]):
                    begin += 1
                for first in range(begin, len(given), ROWS_AT_ONCE):
                    rows = given[first : first + ROWS_AT_ONCE]
                    names = (f"topic {m.topic!a:.100}, queue {m.queue_id}, a row of {file}" for m in rows)
                    last = put_all(store, rows, names)
                    end = last.physical_offset + last.size
    store.flush()
    done = {"batch": value["batch"], "files": [], "log_end": end, "running": False}
    ledger.set(giver, None if value["batch"] is None else done)
    for file in value["files"]:
        _remove(os.path.join(store.root, STAGED, file))
    return end


def _sweep(path: str, files: set[str]) -> None:
    """Remove staged files that are not needed, and old ones that nobody names."""
    folder = os.path.join(path, STAGED)
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        place = os.path.join(folder, file)
        if file in files or os.stat(place).st_mtime < time.time() - ORPHAN_S:
            _remove(place)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)

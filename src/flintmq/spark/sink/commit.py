"""Puts staged rows into a store, in order and in one go, each batch once.

The ledger names the staged files before the first of their messages is put (`jobs/replay/exactly_once.py`). So a commit
that died is finished by the next one from these same files, even if Spark has since computed the batch again and in
another order. All rows are checked before that: a commit with a row that the store would refuse fails, and leaves
nothing in the store. A batch that cannot be finished (of a store of version 0.1, or whose staged files were removed) is
recorded as stuck, and stops only its own query.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.message import Message
from flintmq.spark.jobs.replay.exactly_once import WriterIds, WriterTail, alike, messages_of, noted, put_all
from flintmq.spark.jobs.replay.refusals import batches_of, why_refused
from flintmq.spark.sink.options import SinkOptions
from flintmq.spark.sink.query import PREFIX, id_in, tag, take_over
from flintmq.storage.files.whole_file import sync_folder
from flintmq.store.message_store import MessageStore

log = logging.getLogger("flintmq.spark")

STAGED = "flintmq.staged"
ROWS_AT_ONCE = 1000
ORPHAN_S = 86_400  # age of unnamed staged files that no commit needs; their job died long ago
CHECKED = b"flintmq.checked"  # in a staged file's schema: the rules by which its rows were checked


@dataclass
class _Work:
    store: MessageStore
    ledger: WriterIds
    end: int


class _CannotFinish(StoreError):
    """A batch was begun, and no later attempt can finish it from its staged files."""


def commit(
    options: SinkOptions,
    batch: int | None,
    files: Sequence[str],
    bad: Sequence[str] = (),
    query: str | None = None,
) -> None:
    """Put the rows of staged files, unless this batch of the query was put before.

    `batch`: number of the batch; None if the write has no name. Durability: all messages, on return.

    Raises:
        UsageError: the store would refuse a row, and nothing was put; or the query cannot be identified.
        StoreError: the store refused a message, or the disk failed; the next commit continues there. Or a batch that
            was begun cannot be finished; or the query's checkpoint, or the store's log, was put back.
    """
    writer_id = _writer_id(options, batch, query, bool(files or bad))
    if writer_id is None:
        return
    # After a kill, stored messages are compared with staged rows, which got their unique keys when they were staged.
    with MessageStore(options.path, options.config, peer=options.peer, unique_keys=False) as store:
        work = _Work(store, WriterIds(options.path), store.recovered.state.end)
        if options.stream and batch is not None and options.query is None:
            take_over(work.ledger, writer_id, options.checkpoint, batch)
        for name, noted in work.ledger.of(PREFIX).items():
            if noted["running"] and name != writer_id and not noted.get("stuck"):
                _finish_of_another(work, name, noted)
        # Before our rows are put: of a log that was put back nobody knows which of them it has.
        work.ledger.check(writer_id, work.end, store.config)
        known, skip, spent = work.ledger.get(writer_id), 0, {*files, *bad}
        if known is not None and known["running"]:
            begun = known
            try:
                _put(work, writer_id, begun)
                known = work.ledger.get(writer_id)
            except _CannotFinish as error:
                there = _stored(work, begun) if begun["batch"] == batch else None
                if there is None or not _begin_with(store.root, files, there):
                    raise StoreError(f"{error}; {_way_out(options.path, writer_id)}") from error
                spent |= {*begun["files"], *begun.get("bad", ())}
                known, skip = None, len(there)  # the batch was computed again, and begins with the stored rows
        if known is not None and batch is not None and batch < known["batch"]:
            # Spark repeats the last batch alone. One before it holds other rows: the query began again.
            raise StoreError(
                f"{store.root}: batch {batch} of {writer_id.removeprefix(PREFIX)} comes after batch {known['batch']}: "
                "its checkpoint was removed, or put back to an earlier copy, so what its batches hold is not known; "
                f"bring the checkpoint back, or {_way_out(options.path, writer_id)} and its rows are put again"
            )
        if known is None or batch is None or known["batch"] < batch:
            value: dict[str, Any] = {"batch": batch, "files": list(files), "log_end": work.end, "running": True}
            if known is not None and known.get("anchor"):
                value["anchor"] = known["anchor"]
            if skip:
                value["skip"] = skip
            if options.checkpoint:
                value["checkpoint"] = options.checkpoint
            if bad:
                value |= {"bad": list(bad), "bad_path": options.bad_rows}
            # All rows are checked before the ledger has the batch: later a refused row would make it stuck.
            _look(store, files)
            # The names of the staged files are durable before the ledger refers to them.
            if files or bad:
                sync_folder(os.path.join(options.path, STAGED))
            # The ledger has the batch before its first put: only so can the next commit finish it after a crash.
            work.ledger.set(writer_id, value)
            _put(work, writer_id, value, looked=True)
        _sweep(options.path, spent, writer_id, work.ledger)


def discard(path: str, files: Sequence[str]) -> None:
    """Remove staged files, except those that a commit has begun to put."""
    with suppress(StoreAccessError):  # without a readable ledger the files stay
        for file in {*files} - named_files(WriterIds(path)):
            _remove(os.path.join(path, STAGED, file))


def stage(path: str, batches: Iterator[pa.RecordBatch], mark: str = "", checked: str = "") -> tuple[str, int]:
    """Write rows into a staged file and fsync it; return its name and the number of rows.

    Without rows no file is made, and the name is empty. `mark` begins the file's name, and identifies its query;
    `checked` are the rules by which the rows were checked, from `checked_by`.
    """
    folder = os.path.join(path, STAGED)
    name, rows, sink = f"{mark}{uuid.uuid4().hex}.arrow", 0, None
    try:
        for batch in batches:
            if sink is None:
                os.makedirs(folder, exist_ok=True)
                file = open(os.path.join(folder, name), "xb")  # noqa: SIM115 closed below
                sink = file, pa.ipc.new_file(file, batch.schema.with_metadata({CHECKED: checked.encode()}))
            sink[1].write_batch(batch)
            rows += batch.num_rows
        if sink is None:
            return "", 0
        # Durable before the driver hears of it: the ledger will name the file.
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


class BadFile:
    """A staged file of JSON lines, for rows of a task that make no message.

    The file is made with the first row; before, its name is empty.
    """

    def __init__(self, path: str, mark: str) -> None:
        self.folder, self.name, self._mark = os.path.join(path, STAGED), "", mark
        self._file: Any = None

    def write(self, line: str) -> None:
        if self._file is None:
            os.makedirs(self.folder, exist_ok=True)
            self.name = f"{self._mark}{uuid.uuid4().hex}.jsonl"
            self._file = open(os.path.join(self.folder, self.name), "x", encoding="utf-8")  # noqa: SIM115 see __exit__
        self._file.write(line)

    def __enter__(self) -> BadFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Fsync the file; or remove it, if the task failed."""
        if self._file is None:
            return
        try:
            if kind is None:
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()
            if kind is not None:
                _remove(os.path.join(self.folder, self.name))


def checked_by(config: StoreConfig, inner_topics: Collection[str]) -> str:
    """Return as text everything on which it depends whether a store accepts a row."""
    return json.dumps([
        config.mapped_file_size_commit_log, config.max_message_size, config.enabled_append_prop_crc,
        config.enable_multi_dispatch, config.enable_lmq, sorted(inner_topics),
    ])  # fmt: skip


# -- one commit --------------------------------------------------------------------------------------------------------


def _writer_id(options: SinkOptions, batch: int | None, query: str | None, rows: bool) -> str | None:
    """Return the writer id of the batch; None if it has no rows and no known query."""
    if options.query is not None:
        return PREFIX + options.query
    if not options.stream:
        return f"{PREFIX}unnamed {uuid.uuid4().hex}"
    query = query or id_in(options.checkpoint)
    if query is not None:
        return PREFIX + query
    if not rows:
        return None
    raise UsageError(
        f"Spark does not report which query writes, and {short(options.checkpoint) or 'its checkpoint'} has no id that "
        "can be read; give the option queryId: a name that stays the same"
    )


def _look(store: MessageStore, files: Sequence[str]) -> None:
    """Check all rows of staged files, unless that was done by the rules of this very store."""
    inner = batches_of(store.root)
    rules = checked_by(store.config, inner).encode()
    for file in files:
        row = 0
        for messages, checked in _rows(store.root, file):
            for message in messages if checked != rules else ():
                why = why_refused(message, store.config, inner)
                if why:
                    raise UsageError(
                        f"{store.root}: row {row} of staged file {file}, topic {short(message.topic)}, queue "
                        f"{message.queue_id}: {why}; nothing of the batch was put: correct the row, or leave it out"
                    )
                row += 1


def _put(work: _Work, writer_id: str, value: dict[str, Any], *, looked: bool = False) -> None:
    """Put the messages of a commit that are not yet in the store.

    Raises:
        _CannotFinish: its files are missing, or contain a row that the store refuses; nothing was put.
        StoreError: the store refused a message, or the disk failed; the next attempt continues there.
    """
    store = work.store
    tail = WriterTail(store.root, value["log_end"], work.end, store.config)
    if not looked:
        _check(store, writer_id, value, tail)
    skip, end = value.get("skip", 0), None
    for file in value["files"]:
        for given, _ in _rows(store.root, file):
            begin = min(skip, len(given))
            skip -= begin
            while begin < len(given) and not tail.over and tail.holds(given[begin]):
                begin += 1
            for first in range(begin, len(given), ROWS_AT_ONCE):
                rows = given[first : first + ROWS_AT_ONCE]
                names = (f"topic {m.topic!a:.100}, queue {m.queue_id}, a row of {file}" for m in rows)
                last = put_all(store, rows, names)
                work.end, end = last.physical_offset + last.size, last.physical_offset
    assert skip == 0  # the files begin with the stored rows
    # The messages are on disk before the ledger says that the batch is done, or a power cut would lose them.
    store.flush()
    # Rows that make no message have their place before the batch is done: nobody looks for them later.
    _publish(store.root, writer_id, value)
    kept = {"checkpoint": value["checkpoint"]} if "checkpoint" in value else {}
    anchor = noted(store.root, store.config, end) or value.get("anchor")
    done = {
        "batch": value["batch"], "files": [], "log_end": work.end, "running": False, "anchor": anchor, **kept,
    }  # fmt: skip
    work.ledger.set(writer_id, None if value["batch"] is None else done)
    # Last: until the ledger calls the batch done, the next commit needs them.
    for file in [*value["files"], *value.get("bad", ())]:
        _remove(os.path.join(store.root, STAGED, file))


def _check(store: MessageStore, writer_id: str, value: dict[str, Any], tail: WriterTail) -> None:
    why = tail.expired
    if not why:
        try:
            _look(store, value["files"])
            for file in value.get("bad", ()):
                os.stat(os.path.join(store.root, STAGED, file))
            return
        except (StoreError, UsageError) as error:
            why = str(error)
        except OSError as error:
            why = f"the staged file {error.filename} is missing; bring it back"
    raise _CannotFinish(f"{_begun(writer_id, value)} and cannot be finished: {why}")


def _finish_of_another(work: _Work, name: str, value: dict[str, Any]) -> None:
    """Finish a batch that another query or write has begun.

    A failure concerns only that query, so it is printed and not raised.
    """
    try:
        _put(work, name, value)
    except _CannotFinish as error:
        work.ledger.set(name, {**value, "stuck": str(error)})
        log.warning(
            "%s", f"{work.store.root}: {error}; this write goes on without it: {_way_out(work.store.root, name)}"
        )
    except StoreError as error:
        log.warning("%s", f"{work.store.root}: {_begun(name, value)} and is not finished yet: {error}")


def _stored(work: _Work, value: dict[str, Any]) -> list[Message] | None:
    """Return the rows of a batch that are already in the store; None if that is not known."""
    store = work.store
    tail, inner = WriterTail(store.root, value["log_end"], work.end, store.config), batches_of(store.root)
    found, skip = list[Message](), value.get("skip", 0)
    try:
        for file in value["files"]:
            for messages, _ in _rows(store.root, file):
                for message in messages:
                    if skip:
                        skip -= 1
                    elif why_refused(message, store.config, inner):
                        continue  # version 0.1 skipped such a row
                    elif tail.over or not tail.holds(message):
                        return found
                    found.append(message)
    except (StoreError, UsageError):
        return None
    return found


def _begin_with(root: str, files: Sequence[str], there: Sequence[Message]) -> bool:
    rows = (message for file in files for messages, _ in _rows(root, file) for message in messages)
    return all((other := next(rows, None)) is not None and alike(message, other) for message in there)


def _rows(root: str, file: str) -> Iterator[tuple[list[Message], bytes]]:
    """Yield the messages of a staged file in batches, with the rules by which they were checked."""
    place = os.path.join(root, STAGED, file)
    try:
        with pa.memory_map(place) as source:
            reader = pa.ipc.open_file(source)
            checked = (reader.schema.metadata or {}).get(CHECKED, b"")
            for number in range(reader.num_record_batches):
                yield messages_of(reader.get_batch(number)), checked
    except FileNotFoundError as error:
        raise StoreError(f"the staged file {place} is missing; bring it back") from error
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(f"the staged file {place} cannot be read ({error})") from error


def _publish(root: str, writer_id: str, value: dict[str, Any]) -> None:
    """Move the files of bad rows into their directory, under names that are always the same."""
    if not value.get("bad"):
        return
    folder, batch = value["bad_path"], value["batch"]
    query = writer_id.removeprefix(PREFIX)
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", query)[:60] + "-" + hashlib.sha256(query.encode()).hexdigest()[:8]
    try:
        os.makedirs(folder, exist_ok=True)
        for number, file in enumerate(value["bad"]):
            final = os.path.join(folder, f"{name}-{'' if batch is None else f'batch{batch}-'}{number}.jsonl")
            part = os.path.join(folder, f".{os.path.basename(final)}.part")
            with open(os.path.join(root, STAGED, file), "rb") as source, open(part, "wb") as sink:
                shutil.copyfileobj(source, sink)
                sink.flush()
                os.fsync(sink.fileno())
            os.replace(part, final)
        sync_folder(folder)
    except OSError as error:
        raise StoreError(
            f"{folder}: bad rows cannot be written ({error.strerror}); the messages are in the store, and the next "
            "commit of this batch goes on when that is fixed"
        ) from error


# -- staged files ------------------------------------------------------------------------------------------------------


def named_files(ledger: WriterIds) -> set[str]:
    """Return the staged files that the ledger names, and which are therefore needed."""
    return {file for value in ledger.of(PREFIX).values() for file in (*value["files"], *value.get("bad", ()))}


def _sweep(path: str, files: set[str], writer_id: str, ledger: WriterIds) -> None:
    """Remove unneeded staged files: of this commit, of dead attempts of its query, and old ones."""
    folder, named = os.path.join(path, STAGED), named_files(ledger)
    own = tag(writer_id.removeprefix(PREFIX))
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        place = os.path.join(folder, file)
        with suppress(FileNotFoundError):
            old = os.stat(place).st_mtime < time.time() - ORPHAN_S
            if file not in named and (file in files or file.startswith(own) or old):
                _remove(place)


def _begun(writer_id: str, value: dict[str, Any]) -> str:
    query = writer_id.removeprefix(PREFIX)
    return f"the write {query} was begun" if value["batch"] is None else f"batch {value['batch']} of {query} was begun"


def _way_out(root: str, writer_id: str) -> str:
    query = writer_id.removeprefix(PREFIX)
    return f"`flintmq spark sink {root}` lists it, `--forget {query}` drops it"


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)

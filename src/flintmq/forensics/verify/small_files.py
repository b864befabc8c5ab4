"""Checks the checkpoint, configuration files, committed offsets, and other root files.

The syntax of both a JSON file and its `.bak` is checked; values are checked as the engine reads them, so those of
`.bak` count where the file itself cannot be read. `format.config_json.members` gives the positions of keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError, StoreAccessError
from flintmq.forensics.verify.findings import Findings
from flintmq.format import checkpoint, config_json, flintmq_mark
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout import config_reader, deleted_topics, directories
from flintmq.store.layout.config_reader import TABLES, BrokerConfig, absent_text, offsets_outside
from flintmq.store.layout.root_names import NOT_CHECKED, is_of_a_store
from flintmq.store.layout.small_files import read_abort

JSON_NAME: Final = re.compile(r"[A-Za-z]+\.json|timermetrics|transactionMetrics")
COMPACTION_PARTS: Final = ("compactionLog", "compactionCq")


def read_checkpoint(root: str, findings: Findings, effects: Effects) -> checkpoint.Checkpoint:
    """Read the checkpoint; if it is missing or unusable, report it and return zeros."""
    path = os.path.join(root, "checkpoint")
    try:
        data = effects.read_file(path, checkpoint.FILE_SIZE + 1)
    except (StoreAccessError, OSError) as error:
        findings.defect("checkpoint-bad", path, None, "a file that can be read", str(error))
        return checkpoint.Checkpoint()
    if data is None:
        findings.note("checkpoint-missing", "there is no checkpoint", path)
        return checkpoint.Checkpoint()
    if len(data) != checkpoint.FILE_SIZE:
        size = f"{len(data)} bytes" if len(data) < checkpoint.FILE_SIZE else f"more than {checkpoint.FILE_SIZE} bytes"
        findings.defect("checkpoint-bad", path, None, f"{checkpoint.FILE_SIZE} bytes", size)
    try:
        found = checkpoint.decode(data)
    except FormatError:
        return checkpoint.Checkpoint()
    for field, value in found._asdict().items():
        if value < 0:
            at = checkpoint.CHECKPOINT.offset(field)
            findings.defect("checkpoint-bad", path, at, f"{field} not negative", str(value))
    rest = data[checkpoint.CHECKPOINT.size : checkpoint.FILE_SIZE]
    if any(rest):
        findings.note("checkpoint-rest", "bytes after the six numbers are not zero", path)
    return found


def check_checkpoint(
    root: str, found: checkpoint.Checkpoint, log_end: int, latest_time: int, findings: Findings
) -> None:
    """Compare the checkpoint with the log: it may lag, but never be ahead.

    `latest_time`: latest store time in ms of the log's records; 0 without records.
    """
    path = os.path.join(root, "checkpoint")
    last = f"up to {latest_time}, when the last record was stored" if latest_time else "0, since the log has no record"
    limits = dict.fromkeys(("physic_timestamp", "logics_timestamp", "index_timestamp"), (latest_time, last))
    offsets = "confirm_physical_offset", "logics_physical_offset"
    for field, (most, text) in (limits | dict.fromkeys(offsets, (log_end, f"up to {log_end}"))).items():
        value, at = getattr(found, field), checkpoint.CHECKPOINT.offset(field)
        if value > most:
            findings.defect("checkpoint-ahead", path, at, f"{field} {text}", str(value))


def check_mark(root: str, findings: Findings, effects: Effects) -> None:
    """Check FlintMQ's own durable mark, if there is one; its checksum covers every bit."""
    path = os.path.join(root, flintmq_mark.FILE_NAME)
    try:
        data = effects.read_file(path, 4096)
        if data is not None:
            flintmq_mark.decode(data)
    except (FormatError, StoreAccessError, OSError) as error:
        findings.defect("mark-bad", path, None, "a mark with its checksum", str(error))


def check_deleted(root: str, findings: Findings, effects: Effects) -> None:
    """Check FlintMQ's own note of deleted topics, if there is one."""
    missed = deleted_topics.readable(root, effects)[1]
    if missed:
        path = os.path.join(root, deleted_topics.FILE_NAME)
        findings.defect("deleted-bad", path, None, "topics, and places in the log", missed)


def check_config(root: str, findings: Findings, effects: Effects) -> None:
    """Check that every JSON file of config/ and its `.bak` can be parsed and has its tables."""
    folder = os.path.join(root, directories.CONFIG)
    places = [(folder, name) for name in effects.listdir(folder)]
    places += [(os.path.join(root, "compaction"), name) for name in effects.listdir(os.path.join(root, "compaction"))]
    for directory, name in places:
        plain = name.removesuffix(".bak")
        path = os.path.join(directory, name)
        if not JSON_NAME.fullmatch(plain) and plain != "position-checkpoint":
            if effects.size(path) is not None and plain != "timercheck":
                findings.note("unknown-file", f"{path} is not known", path)
            continue
        _check_json(path, plain, findings, effects)


def _check_json(path: str, name: str, findings: Findings, effects: Effects) -> None:
    try:
        data = effects.read_file(path, config_json.MAX_BYTES + 1)
        if data is None:
            return
        value = config_json.parse(data)
    except FormatError as error:
        empty = "the file is empty" if not data else error.reason
        findings.defect("config-bad", path, error.position, "a JSON object", empty)
        return
    except (StoreAccessError, OSError) as error:
        findings.defect("config-bad", path, None, "a file that can be read", str(error))
        return
    for table in TABLES.get(name, ()):
        entries = value.get(table)
        if entries is None and table != TABLES[name][0]:
            continue
        if not isinstance(entries, dict):
            findings.defect("config-bad", path, None, f"{table} to be an object", type(entries).__name__)
        elif name == config_reader.TOPICS and not all(isinstance(entry, dict) for entry in entries.values()):
            findings.defect("config-bad", path, None, "an object for each topic", "something else")


def check_offsets(
    root: str, broker: BrokerConfig, end_of: Callable[[str, int], int | None], findings: Findings
) -> None:
    """Check that no committed offset is after the end of its queue, or negative.

    `end_of`: queue offset after the last message of a queue, None for a queue that does not exist.
    """
    folder = os.path.join(root, directories.CONFIG)
    found, absent = offsets_outside(broker, end_of)
    for name, owner, topic, queue_id, offset, end in found:
        wanted = f"up to {end}" if offset > 0 else f"from 0 to {end} (-1: none yet)"
        expected = f"{owner}, queue {topic}/{queue_id}: an offset {wanted}"
        findings.defect("offset-ahead", os.path.join(folder, name), None, expected, str(offset))
    if absent:
        findings.note("offset-absent", absent_text(absent), folder)


def check_root(root: str, config: StoreConfig, findings: Findings, effects: Effects) -> None:
    log_elsewhere = {
        os.path.normpath(directory.path) for directory in directories.log_directories(root, config, effects)
    }
    for name in effects.listdir(root):
        path = os.path.join(root, name)
        if name in NOT_CHECKED:
            findings.note("not-checked", f"{name}/: {NOT_CHECKED[name]}", path)
        elif name == "abort":
            lagging = read_abort(root, effects).lagging
            text = "the queues lag the log" if lagging else "the store is in use, or did not stop cleanly"
            findings.note("abort", text, path)
        elif not is_of_a_store(name) and os.path.normpath(path) not in log_elsewhere:
            findings.note("unknown-file", f"{path} is not known", path)
    for folder, what in directories.in_rocksdb(root, effects).items():
        findings.note("not-checked", f"{folder}/: {what}", os.path.join(root, folder))
    for part in COMPACTION_PARTS:
        if effects.listdir(os.path.join(root, "compaction", part)):
            findings.note(
                "not-checked", f"compaction/{part}: logs of compaction topics", os.path.join(root, "compaction")
            )

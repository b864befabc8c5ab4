"""The store around a file: the records that its units point to."""

from __future__ import annotations

import os
from functools import cached_property
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, FormatError
from flintmq.forensics.explain.file_kinds import COMPACTION_LOG, COMPACTION_QUEUE, FilePlace
from flintmq.forensics.explain.lines import Remark
from flintmq.format import consume_queue, consume_queue_ext, record
from flintmq.format.consume_queue import Unit
from flintmq.format.consume_queue_ext import ExtUnit
from flintmq.format.index import PEER_540, key_hash, keys_of
from flintmq.format.record_view import size_at
from flintmq.format.text import iso, shorten_text
from flintmq.message import StoredMessage
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.files import LogFile, LogFiles, largest_record
from flintmq.store.commitlog.records import record_at
from flintmq.store.consumequeue.reader import ExtQueue, plain_queue
from flintmq.store.dispatch.queue_positions import tags_code_of
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName


class Found(NamedTuple):
    """The record at a log offset, or the reason why there is none."""

    message: StoredMessage | None
    text: str  # the record in a few words, or why there is none
    problem: bool = False  # whether that is wrong: the log has that place, and no intact record is there

    @property
    def remark(self) -> Remark:
        return Remark(self.text, self.text if self.problem else None)


def unit_at_place(root: str, message: StoredMessage, effects: Effects) -> tuple[str, int, Unit] | None:
    """Return file, position and content of the unit at a record's queue offset; None: not known."""
    try:
        units = plain_queue(root, QueueName(message.topic, message.queue_id), effects)
        file, unit = units.file_of(message.queue_offset), units.unit(message.queue_offset)
    except (FlintError, OSError, ValueError):
        return None
    if file is None or not isinstance(unit, Unit):
        return None
    return file.path, message.queue_offset * consume_queue.UNIT_SIZE - file.start, unit


class Around:
    """The store that a file is in, as far as it exists. Reads only on request."""

    def __init__(self, place: FilePlace, config: StoreConfig, effects: Effects) -> None:
        self.place, self.config, self.effects = place, config, effects

    @cached_property
    def log(self) -> LogFiles | None:
        root = self.place.root
        if root is None:
            return None
        queue = self.place.topic or "", str(self.place.queue_id)
        folders = [os.path.join(root, "compaction", "compactionLog", *queue)]
        try:
            if self.place.kind not in (COMPACTION_LOG, COMPACTION_QUEUE):
                folders = [place.path for place in directories.log_directories(root, self.config, self.effects)]
            log = LogFiles.discover(folders, None, largest_record(self.config), self.effects)
        except FlintError:
            return None
        return log if log.files else None

    def record(self, offset: int) -> Found:
        log = self.log
        if log is None:
            return Found(None, "there is no log beside this file")
        if offset < 0:
            return Found(None, "no place in a log", True)
        if offset < log.min_offset:
            return Found(None, f"before the log's first file ({log.min_offset}): expired")
        file = log.find(offset)
        if file is None:
            return Found(None, "in no file of the log" if offset < log.limit else "after the log's last file", True)
        try:
            message = record_at(log, offset)
            if message is not None:
                return Found(message, describe(message))
            return Found(None, f"there is no intact record: {self._why(file, offset)}", True)
        except (FlintError, OSError) as error:
            return Found(None, f"cannot be read: {error}", True)

    def _why(self, file: LogFile, offset: int) -> str:
        at, most = offset - file.start, largest_record(self.config)
        with self.effects.reading(file.path) as fd:
            head = self.effects.pread(fd, record.BLANK_SIZE, at)
            count = min(max(size_at(head), record.BLANK_SIZE), file.size - at, most)
            data = self.effects.pread(fd, count, at)
        try:
            record.check(data, 0, offset, len(data), file.size - at, most)
        except record.RecordError as error:
            return error.reason
        return "somebody writes it now"

    def ext(self, position: int) -> ExtUnit | str:
        """Return the unit at a byte of this queue's extension, or why there is none."""
        root, topic, queue_id = self.place.root, self.place.topic, self.place.queue_id
        if root is None or topic is None or queue_id is None:
            return "there is no extension beside this file"
        try:
            data = ExtQueue.of(root, QueueName(topic, queue_id), self.effects).unit_bytes(position)
            if data is None:
                return "no file of the extension has that place"
            return consume_queue_ext.decode(data) or "there is no unit"
        except FormatError as error:
            return f"there is no unit: {error.reason}"
        except (FlintError, OSError) as error:
            return f"cannot be read: {error}"

    def queue_unit(self, message: StoredMessage) -> str:
        """Describe a record's unit in its consume queue and its target; empty if not known."""
        if self.place.root is None or message.sys_flag & record.TRANSACTION_MASK in (
            record.TRANSACTION_PREPARED,
            record.TRANSACTION_ROLLBACK,
        ):
            return ""
        found = unit_at_place(self.place.root, message, self.effects)
        if found is None:
            return ""
        file, position, unit = found
        where = f"{os.path.relpath(file, self.place.root)}, position {position}"
        if (unit.physical_offset, unit.size) == (message.physical_offset, message.size):
            return f"{where}: points here"
        return f"{where}: does not point here, but to {unit.physical_offset} ({unit.size} bytes)"

    def tags_code(self, message: StoredMessage) -> int:
        return tags_code_of(message, self.config.delay_ms)


def describe(message: StoredMessage) -> str:
    """Describe a record in a few words: queue and offset, bytes, time, tags and keys."""
    place = f"{message.topic}/{message.queue_id}/{message.queue_offset}"
    parts = [place, f"{message.size} bytes", iso(message.store_timestamp)]
    parts += [f"tags {shorten_text(message.tags, 60)}"] if message.tags else []
    parts += [f"keys {shorten_text(message.keys, 60)}"] if message.keys else []
    return ", ".join(parts)


def key_of(message: StoredMessage, hashed: int) -> str | None:
    keys = keys_of(message.properties, record.TRANSACTION_NONE, PEER_540)
    return next((key for key in keys if key_hash(message.topic, key) == hashed), None)

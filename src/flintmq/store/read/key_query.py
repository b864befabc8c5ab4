"""Finds messages by key, newest first: the index is a hint, the log is the truth.

A key is found if the log holds it. In the part of the log that index files cover it is looked up by hash, and each
record is read again and its keys compared. The rest is walked: before the first and after the last covered record,
between files, all of it if there is no index, and the part of a file that cannot be used (unknown division, broken
chain).

One case stays hidden: after the log was truncated RocketMQ continues in the same index file and leaves out new records
below the file's old end offset. Nothing in the file shows it; `verify` finds it and `rebuild` repairs it.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from flintmq.errors import ConfigError, CorruptStoreError
from flintmq.format.index import PEER_540, key_hash, keys_of
from flintmq.format.text import java_decode, java_encode
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.index.reader import IndexFileReader, discover, log_range_of
from flintmq.store.read.log_map import records_with
from flintmq.store.read.lost_records import LostRecords, in_its_file

log = logging.getLogger("flintmq.index")

STRANGERS_MAX = 10_000  # records read without a match, before the log is walked instead
STALE_ITEMS_MAX = 1000  # items at a file's end that point nowhere, before the file is not used


class LogSpan(NamedTuple):
    """A part of the log, and the index file that covers it (None: no file does)."""

    begin: int
    end: int
    file: IndexFileReader | None


class KeyQuery:
    """A search for one key.

    Args:
        begin, end: store times in ms, both included; None for no bound.
        report: receives what cannot be read and may have the key: records that the index names, and damage in the part
            of the log that is walked.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        topic: str,
        key: str,
        begin: int | None,
        end: int | None,
        limit: int,
        report: Report | None = None,
    ) -> None:
        self.snapshot, self.topic, self.key, self.limit = snapshot, topic, key, limit
        self.begin = -(1 << 63) if begin is None else begin
        self.end = (1 << 63) - 1 if end is None else end
        self.hash = key_hash(topic, key)
        self.report, self._lost = report, LostRecords(snapshot)

    def run(self) -> list[StoredMessage]:
        """Return the newest `limit` messages with the key, in the order of the log; each once."""
        if not self.key or self.limit <= 0:
            return []
        found: dict[int, StoredMessage] = {}
        for span in reversed(self._spans()):
            if len(found) >= self.limit:
                break
            messages = self._walk(span.begin, span.end) if span.file is None else self._indexed(span, span.file)
            found |= {message.physical_offset: message for message in messages}
        return [found[offset] for offset in sorted(found)[-self.limit :]]

    def matches(self, message: StoredMessage) -> bool:
        return (
            message.topic == self.topic
            and self.begin <= message.store_timestamp <= self.end
            and self.key in keys_of(message.properties, message.sys_flag, PEER_540)
        )

    # -- through the index ------------------------------------------------------------------------------------------

    def _spans(self) -> list[LogSpan]:
        """Split the log, in order, into parts covered by each index file and by none."""
        snapshot = self.snapshot
        spans, at = [], snapshot.log.min_offset
        files = discover(snapshot.root, snapshot.config, snapshot.effects)
        for number, file in enumerate(files):
            part = log_range_of(file)
            if part is None or part[0] >= snapshot.end:
                continue
            if number == len(files) - 1:
                part = part[0], self._true_end(file, part[1])
            begin, end = max(part[0], at), min(part[1], snapshot.end)
            spans += [LogSpan(at, begin, None), LogSpan(begin, end, file)]
            at = max(at, end)  # include the record at `end` again: its other keys may be in no file
        spans.append(LogSpan(at, snapshot.end, None))
        return [span for span in spans if span.begin < span.end or span.file]

    def _true_end(self, file: IndexFileReader, end: int) -> int:
        """Return the offset of the last record that the newest file really points to.

        After the log was truncated, items beyond its end may remain.
        """
        try:
            with file.open() as index:
                for _, item in islice(index.newest(), STALE_ITEMS_MAX):
                    if self._has_item(item.physical_offset, item.key_hash):
                        return item.physical_offset
        except (FileNotFoundError, ConfigError, CorruptStoreError):
            return end  # this part is walked, see _indexed
        return self.snapshot.log.min_offset

    def _has_item(self, physical_offset: int, hash_: int) -> bool:
        message = self.snapshot.record(physical_offset)
        if message is None:
            return False
        keys = keys_of(message.properties, message.sys_flag, PEER_540)
        return any(key_hash(message.topic, key) == hash_ for key in keys)

    def _indexed(self, span: LogSpan, file: IndexFileReader) -> Iterator[StoredMessage]:
        """Yield at most `limit` matching records of a file, newest first; walk if it is unusable."""
        seen: set[int] = set()
        given = 0
        try:
            with file.open() as index:
                for offset in index.find(self.hash):
                    if offset in seen:
                        continue
                    seen.add(offset)
                    message = self.snapshot.record(offset)
                    if message is not None and self.matches(message):
                        yield message
                        given += 1
                        if given >= self.limit:
                            return
                        continue
                    if message is None:
                        self._note_lost(offset)
                    if len(seen) - given > STRANGERS_MAX:
                        break
                else:
                    return
        except FileNotFoundError:
            pass
        except (ConfigError, CorruptStoreError) as error:
            if self.snapshot.first_time(f"{file.path} is not used"):
                log.warning("%s; the log is searched instead", error)
        yield from self._walk(span.begin, span.end)

    def _note_lost(self, offset: int) -> None:
        """Report the record of an index item if it is damaged or missing, once."""
        if self.report is None or any(known.offset <= offset < known.end for known in self.report.damages):
            return
        lost = self._lost.at(offset)
        if lost is not None:
            self.report.damage(lost)

    # -- through the log ----------------------------------------------------------------------------------------------

    def _walk(self, begin: int, end: int) -> Iterator[StoredMessage]:
        """Yield the last `limit` matching records in [begin, end) of the log."""
        newest: deque[StoredMessage] = deque(maxlen=self.limit)
        snapshot = self.snapshot
        report = Report()
        walk = LogWalk(
            snapshot.log, snapshot.facts, first_record(snapshot.log, begin), end, strict=False, report=report
        )
        for piece in walk:
            for at in records_with(self._bytes, piece):
                message = stored_message(piece.data, at)
                if self.matches(message):
                    newest.append(message)
        if self.report is not None:
            for lost in (*report.damages, *walk.deleted):
                self.report.damage(in_its_file(snapshot.log, lost))
        return iter(newest)

    @property
    def _bytes(self) -> re.Pattern[bytes]:
        """Bytes that every record with the key contains; empty for a key with malformed text."""
        text = self.key.removeprefix("T#")
        exact = "\ufffd" not in text and java_decode(java_encode(text)) == text
        return re.compile(re.escape(java_encode(text)) if exact else b"")

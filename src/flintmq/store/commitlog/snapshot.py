"""A store's log at one moment: its files, the facts of its small files, and its end.

Views hold a snapshot and replace it when they are refreshed; it is not changed. Expensive parts are computed when first
used.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError
from flintmq.format import checkpoint
from flintmq.format.record_view import size_at
from flintmq.message import StoredMessage, stored_message
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import effects_for
from flintmq.storage.threads.mutex import Lock
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict, read_facts
from flintmq.store.commitlog.files import LogFiles, largest_record
from flintmq.store.commitlog.log_end import LogEnd, find_end, refuse_damaged_ends
from flintmq.store.commitlog.records import RecordReader, last_file_begun_by, record_at
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.layout import deleted_topics
from flintmq.store.layout import directories as store_directories
from flintmq.store.layout.config_reader import BrokerConfig, ConfigProblem, read_config
from flintmq.store.layout.deleted_topics import Deletions
from flintmq.store.layout.given_sizes import open_root

Stamp = tuple[tuple[int, int], ...]
"""Time of the last change in ms, and size, of each file of config/."""

FRESH_MS = 2000  # a file changed this recently may change again without a trace in its time and size
REPLAY_MARGIN_MS = 3000  # an abnormal start of RocketMQ begins this much before the checkpoint's time


def list_log(root: str, config: StoreConfig, effects: Effects = REAL) -> LogFiles:
    """List the files of a store's log in all its directories, with the configured sizes."""
    directories = [directory.path for directory in store_directories.log_directories(root, config, effects)]
    given = config.given
    return LogFiles.discover(
        directories,
        config.mapped_file_size_commit_log if "mappedFileSizeCommitLog" in given else None,
        largest_record(config),
        effects,
    )


class Snapshot:
    """The log of the store at `root` now.

    `Snapshot.open` makes one for a path that a user gave, `again` makes the next one of the same store.

    `before`: an earlier snapshot of the same store; the search for the log's end continues from its end. Thread: any.
    """

    def __init__(self, root: str, config: StoreConfig, effects: Effects = REAL, before: Snapshot | None = None) -> None:
        self.root, self.config, self.effects = root, config, effects
        self.facts = read_facts(root, effects)
        self.log = list_log(root, config, effects)
        self._begin = before._last if before is not None else None
        self._quiet = before._searched if before is not None and self.facts.live else None
        self._broker_known: tuple[Stamp | None, BrokerConfig] | None = None
        self._broker_before: tuple[Stamp | None, BrokerConfig] | None = (
            (before._broker_known or before._broker_before) if before is not None else None
        )
        self._end: LogEnd | None = None
        self._lock = Lock()
        self._told: set[str] = set()
        self._own = threading.local()  # .reader: see `held`

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        config: StoreConfig | None = None,
        effects: Effects | None = None,
        last: int | None = None,
    ) -> Snapshot:
        """Open a store for reading: check that FlintMQ can read it, and list its log.

        `effects`: the disk; None for what the path means. `last`: log offset of the record at which an earlier search
        for the log's end ended; the next one continues there, if it is still one.
        """
        config = config or StoreConfig()
        effects = effects or effects_for(path, config.s3)
        found = cls(open_root(path, config, effects), config, effects)
        found._begin = last
        return found

    def again(self) -> Snapshot:
        return Snapshot(self.root, self.config, self.effects, self)

    @property
    def _last(self) -> int | None:
        """Where a later search for the end can begin."""
        return self._end.last if self._end is not None else self._begin

    @property
    def _searched(self) -> int | None:
        """Log offset after which a look saw zeros and no record; see `facts_after`."""
        if self._end is None or not self.facts.live:
            return self._quiet
        return self._end.offset if self._end.verdict is Verdict.END else None

    def first_time(self, text: str) -> bool:
        """Return True the first time `text` is seen; used to log each warning once per snapshot."""
        with self._lock:
            new = text not in self._told
            self._told.add(text)
            return new

    @property
    def log_end(self) -> LogEnd:
        """The end of the log, what is there, and the last record."""
        return self.find_end()

    def find_end(self, report: Report | None = None, *, late: bool = False) -> LogEnd:
        """Find the log's end; `report` receives notes on it if the end was not known before.

        `late`: see `log_end.find_end`.
        """
        with self._lock:
            if self._end is None:
                known = self._begin is not None and record_at(self.log, self._begin) is not None
                facts = self.facts_after(self._begin, self._quiet)
                self._end = find_end(self.log, facts, report, self._begin if known else None, late=late)
            return self._end

    def facts_after(self, last: int | None, searched: int | None) -> StopFacts:
        """Return the facts for a walk that continues where an earlier look at the live store ended.

        A live store's records come after each other, so this walk need not look beyond zeros where the earlier one saw
        zeros and no record (from log offset `searched` on; None: it did not): the writer allocates tens of MiB ahead,
        and to read so many zeros is most of a look. If the last record that it saw, at log offset `last`, is gone, the
        log was truncated, and nothing is known.
        """
        if last is None or searched is None or not self.facts.live or record_at(self.log, last) is None:
            return self.facts
        return replace(self.facts, zeros_end=searched)

    @property
    def end(self) -> int:
        """Log offset after the last valid record."""
        return self.log_end.offset

    def check_end(self) -> None:
        """Check that the log ends where it was written to, and begins where it expired to.

        As `verify` and a start do: units beyond the end, and a second fact, show that it was elsewhere.

        Raises CorruptStoreError: damage at the end (LostLogError: it is missing), or no file at the begin.
        """
        end = self.log_end
        refuse_damaged_ends(self.log, self.facts, end)
        if end.verdict in (Verdict.END, Verdict.TORN_TAIL) and end.last is not None:
            for _ in LogWalk(self.log, self.facts, end.last, ask_queues=True):
                pass

    @cached_property
    def _floor(self) -> int:
        """Return a log offset below which every record is before the end.

        It is the start of the last file that begins with a record, or where the log was flushed to if that is known: no
        log ends before that (end_of_log.decide).
        """
        starts = (file.start for file in reversed(self.log.files))
        begun = next((start for start in starts if record_at(self.log, start) is not None), self.log.min_offset)
        return max(begun, self.facts.mark.flushed or 0)

    @property
    def deletions(self) -> Deletions:
        """Topics that were deleted, whose earlier records are in no queue."""
        return self._deleted[0]

    @cached_property
    def _deleted(self) -> tuple[Deletions, str]:
        return deleted_topics.readable(self.root, self.effects)

    @cached_property
    def broker(self) -> BrokerConfig:
        """Content of config/. Its problems have flintmq.deleted, too, if that cannot be used."""
        found, reason = self._read_broker(), self._deleted[1]
        if not reason:
            return found
        file = os.path.join(self.root, deleted_topics.FILE_NAME)
        problem = ConfigProblem(file, 0, reason, "deleted topics may show their messages again")
        return replace(found, problems=(*found.problems, problem))

    def _read_broker(self) -> BrokerConfig:
        stamp = self._broker_stamp()
        before = self._broker_before
        self._broker_before = None
        if before is not None and stamp is not None and before[0] == stamp:
            self._broker_known = before
        else:
            fresh = stamp is None or time.time() * 1000 - max(ms for ms, _ in stamp) < FRESH_MS
            self._broker_known = (None if fresh else stamp, read_config(self.root, self.effects))
        return self._broker_known[1]

    def _broker_stamp(self) -> Stamp | None:
        """Return times and sizes of the files of config/; None if there are none."""
        found = []
        folder = os.path.join(self.root, store_directories.CONFIG)
        for name in self.effects.listdir(folder):
            path = os.path.join(folder, name)
            found.append((self.effects.modified_ms(path) or 0, self.effects.size(path) or 0))
        return tuple(found) or None

    def record(self, physical_offset: int) -> StoredMessage | None:
        """Read the valid record at this log offset and before the log's end, or return None."""
        data = self.record_bytes(physical_offset)
        return None if data is None else stored_message(data, 0)

    def record_bytes(self, physical_offset: int) -> bytes | None:
        """Return bytes that begin with the record at this log offset, as `record` finds it, or None."""
        reader: RecordReader | None = getattr(self._own, "reader", None)
        if reader is None:
            with self.held():
                return self.record_bytes(physical_offset)
        data = reader.bytes_at(physical_offset)
        if data is None or physical_offset + size_at(data) <= self._floor:
            return data
        return data if physical_offset + size_at(data) <= self.end else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the log file open that this thread reads, for the length of a `with` block."""
        with RecordReader(self.log) as self._own.reader:
            try:
                yield
            finally:
                self._own.reader = None

    @cached_property
    def replay_start(self) -> int | None:
        """Log offset after which queues may lack units before later ones; None if they cannot.

        After an unclean stop pages of queue files may be lost. The checkpoint says up to which time they were flushed,
        with the margin of upstream's own rule (docs/internals/format/checkpoint.md).
        """
        if self.facts.live or self.facts.whole:
            return None
        data = self.effects.read_file(os.path.join(self.root, "checkpoint"), checkpoint.FILE_SIZE)
        try:
            known = checkpoint.decode(data or b"")
        except FormatError:
            known = checkpoint.Checkpoint()
        file = last_file_begun_by(self.log, min(known.physic_timestamp, known.logics_timestamp) - REPLAY_MARGIN_MS)
        return self.log.min_offset if file is None else file.start

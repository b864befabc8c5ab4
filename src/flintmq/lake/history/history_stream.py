"""Streams a table of exports, and then the stores that it is made from.

While the table is read, an offset says which version it is, and how many of its files are done; it contains the offset
of the stores at which the stream goes on. That one is chosen with the version, at the table's own progress, so no row
comes twice and none is missing:

    {"@history": {"version": 7, "after": null, "files": 12}, "@then": {"Orders/0": 185, ...}}

Where the stores have lost messages meanwhile that later exports have, the files that the table got since are read too:
those of the version that are not in the one of `after`. After the last file the offset is that of a stream of the
stores alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flintmq.config.text import short
from flintmq.errors import NotAStoreError, StoreError, UsageError
from flintmq.lake.export.export import check_logs, part_tasks
from flintmq.lake.history.history import FilesTask, History, HistoryTask
from flintmq.lake.stream.members import Offset, StoresStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.lake.stream.reader import log_line
from flintmq.lake.table.table_rows import TableVersion
from flintmq.lake.table.target import CHOICES
from flintmq.store.commitlog.report import Report

HISTORY, THEN = "@history", "@then"
"""Keys of an offset of the backfill; no queue and no broker has such a name beside the other."""


@dataclass(frozen=True)
class Backfill:
    """A place in a table, as an offset says it.

    `after`: the version whose files are left out, since they are done; None for none (0 is a version of Delta).
    """

    version: int
    after: int | None
    files: int
    then: Offset

    @classmethod
    def of(cls, offset: Offset) -> Backfill | None:
        """Return the place that an offset names; None if it is one of the stores alone."""
        if HISTORY not in offset or THEN not in offset:
            return None
        place, then = offset[HISTORY], offset[THEN]
        place = place if isinstance(place, Mapping) else {}
        numbers = [place.get(name) for name in ("version", "files")]
        before = place.get("after")
        known = all(type(number) is int for number in numbers) and (before is None or type(before) is int)
        if not known or not isinstance(then, Mapping):
            what = f"{HISTORY} names no place in a table"
            raise UsageError(f"the query's checkpoint: {what}; begin with a new checkpoint")
        return cls(place["version"], before, place["files"], then)

    def offset(self) -> dict[str, Any]:
        place = {"version": self.version, "after": self.after, "files": self.files}
        return {HISTORY: place, THEN: dict(self.then)}


class HistoryStream:
    """Plans the micro-batches of a table and its stores. Thread: one at a time."""

    def __init__(self, options: StreamOptions, tell: Callable[[str], None] = log_line) -> None:
        self.options = options
        self.history = History.of_options(options.read)
        live = live_options(options, self.history)
        self.stream = StoresStream(live, tell)
        strict = replace(live, read=replace(live.read, fail_on_data_loss=True))
        self._strict = StoresStream(strict, tell)  # shows a loss that a later version may make up for

    def initial(self) -> dict[str, Any]:
        """Return the offset at which a new stream begins: before the first file."""
        self.history, then = self._open(self.history)
        return Backfill(self.history.version.version, None, 0, then).offset()

    def tell_unknown(self) -> None:
        """Do nothing: the table may have rows of a topic that its stores have no more."""

    def end_now(self) -> None:
        """Set the target of the stream to the present ends of the stores."""
        self.stream.end_now()

    def next_end(self, start: Offset, limits: bool = True) -> Offset:
        """Return the end of the next micro-batch; `start` itself if there is not enough to read.

        `limits`: whether the options' limits apply. Of a table, maxBytesPerTrigger counts the bytes of its files.
        """
        at = Backfill.of(start)
        if at is None:
            return self.stream.next_end(start, limits)
        files = self._files(at)
        admitted = self._admitted(self._version(at.version), files[at.files :]) if limits else len(files) - at.files
        if at.files + admitted < len(files):
            return replace(at, files=at.files + admitted).offset()
        return self._after_table(at)

    def present_end(self) -> Offset:
        """Return the end of all that there is: of the stores, after the table."""
        end: Offset = self.initial()
        while Backfill.of(end) is not None:
            end = self.next_end(end, limits=False)
        return self.next_end(end, limits=False)

    def progress(self) -> dict[str, Any]:
        return self.stream.progress()

    def tasks(self, start: Offset, end: Offset) -> list[HistoryTask]:
        at, stop = Backfill.of(start), Backfill.of(end)
        if at is None:
            return [*part_tasks(self.stream, start, end)]
        files, last = self._files(at), None
        if stop is not None and (stop.version, stop.after) == (at.version, at.after):
            last = stop.files
        version = self._version(at.version)
        found: list[HistoryTask] = [FilesTask(version, (file,)) for file in files[at.files : last]]
        if stop is None and end != at.then:  # one batch of everything, as `present_end` is for
            found += part_tasks(self.stream, at.then, end)
        return found

    def _version(self, number: int) -> TableVersion:
        return replace(self.history.version, version=number)

    def _files(self, at: Backfill) -> tuple[str, ...]:
        files = self._version(at.version).files
        done = frozenset(self._version(at.after).files) if at.after is not None else frozenset()
        if not done <= set(files):
            raise StoreError(f"{self.history.table}: the table was rewritten while it was read; begin the stream anew")
        return tuple(file for file in files if file not in done)

    def _admitted(self, version: TableVersion, files: tuple[str, ...]) -> int:
        """Return how many of these files make one micro-batch: one at least."""
        most, most_bytes = self.options.max_offsets, self.options.max_bytes
        rows = size = 0
        for number, file in enumerate(files if most or most_bytes else ()):
            one = version.size(file)
            rows, size = rows + one.rows, size + one.bytes
            if number and ((most and rows > most) or (most_bytes and size > most_bytes)):
                return number
        return len(files)

    def _after_table(self, at: Backfill) -> Offset:
        """Return the offset after the last file: in the stores, or in a later version of the table."""
        try:
            self._strict.next_end(at.then)
        except StoreError:
            newer = self.history.newest()
            if newer.version.version != at.version:
                self.history, then = self._open(newer)
                return Backfill(self.history.version.version, at.version, 0, then).offset()
            if self.options.read.fail_on_data_loss:
                raise
        return at.then

    def _open(self, history: History) -> tuple[History, Offset]:
        """Return a version of the table, and the offset of the stores where it ends.

        Where the stores lost messages after it, the present version is tried.
        """
        try:
            return history, _then(self._strict, history)
        except StoreError:
            newer = history.newest()
            if newer.manifest.number > history.manifest.number:
                return self._open(newer)
            if self.options.read.fail_on_data_loss:
                raise
            return history, _then(self.stream, history)


def _then(stream: StoresStream, history: History) -> Offset:
    """Return the offset of the stores where a version of the table ends."""
    manifest, report = history.manifest, Report()
    logs = stream.logs()
    check_logs(history.table, manifest, logs, report)
    for note in report.notes:
        stream.tell(note.text)
    if (CHOICES | manifest.choice)["stream"]:
        known = stream.selected(stream.offset_of(manifest.ends))
        stream.next_end(known)  # raises if messages after it are gone
    else:
        _check_there(history, logs)
        known = stream.initial_at({broker: one.next for broker, one in manifest.stores.items()})
    return stream.with_others(known)


def _check_there(history: History, there: Mapping[str, object]) -> None:
    """Refuse to begin without a store of the table.

    Its log offset does not say how far its queues were exported.
    """
    absent = sorted(history.manifest.stores.keys() - there.keys())
    if absent:
        raise NotAStoreError(
            f"{history.table} has rows of broker {short(absent[0])}, whose store is not there; begin when it is"
        )


def live_options(options: StreamOptions, history: History) -> StreamOptions:
    own = history.read
    read = replace(options.read, history=None, catalog=None, decompress=own.decompress, explode=own.explode)
    return replace(options, read=replace(read, predicate=history.predicate))

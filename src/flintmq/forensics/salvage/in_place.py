"""Salvages a store in place: the least change after which a broker serves all that is left.

1.  The log. Files get their proper size, missing ones are created without messages, and each damaged range is covered
    by fillers (`filler.py`). All of this is planned on an Overlay: nothing is written to the store.
2.  Everything else. Verify reads through the overlay, and its findings are replaced: queues and index by those rebuilt
    from the mended log, checkpoint and configuration by their plausible values. Verify runs again until it finds
    nothing.
3.  The journal (`journal.py`) holds all changes with the bytes before them. Once committed it is carried out, also
    after a kill, and it can be undone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, StoreLockedError, UsageError
from flintmq.forensics.rebuild import Progress
from flintmq.forensics.salvage import journal as journals
from flintmq.forensics.salvage.derived import Derived
from flintmq.forensics.salvage.filler import LEAST, Range, filler_records
from flintmq.forensics.salvage.journal import SalvageJournal
from flintmq.forensics.salvage.queues import Emit
from flintmq.format.consume_queue import UNIT, UNIT_SIZE
from flintmq.format.index import PEER_533
from flintmq.format.record_view import HEAD_SIZE, size_at, store_time_at, store_times
from flintmq.format.start_fields import WrongField, disarmed
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.lock import StoreLock, is_live
from flintmq.storage.files.overlay import Overlay
from flintmq.storage.files.store_url import local_only
from flintmq.storage.files.tree import walk_tree
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.commitlog.files import LogFile, LogFiles, has_data
from flintmq.store.commitlog.report import Damage, DamageKind, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.start_records import wrong_records
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue.writer import OpenFiles, QueueWriter
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules, UnitBlock
from flintmq.store.layout import deleted_topics, directories
from flintmq.store.layout.given_sizes import open_root
from flintmq.store.layout.store_config import batch_topics
from flintmq.store.recovery.lost_log import refuse_without_log
from flintmq.tabular import Summary

_PIECE = 1 << 20
_WITHOUT_LINKS = (
    directories.LOG, directories.QUEUES, directories.EXT_QUEUES, directories.BATCH_QUEUES, directories.INDEX,
    directories.CONFIG,
)  # fmt: skip


@dataclass
class Mended(Summary):
    """The result of a salvage in place, or of its dry run.

    `ranges`: damaged ranges that are covered, as lines for people and programs.
    """

    journal: str = ""  # the directory with the old bytes; empty for a dry run or if there is nothing to do
    dry_run: bool = False
    ranges: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)  # defects that it cannot mend, by code
    finished: list[str] = field(default_factory=list)  # journals of killed runs that were carried out first


def plan_in_place(
    root: str,
    config: StoreConfig | None = None,
    peer: str = PEER_533,
    progress: Progress | None = None,
    effects: Effects = REAL,
    dry_run: bool = False,
) -> Mending:
    """Plan a salvage; take the store's lock and hold it until the returned object is closed.

    If a killed run left a journal half carried out, that is finished first. A dry run does not do so, takes no lock and
    writes nothing into the store: its plan is in the system's temporary directory until the returned object is closed.

    Raises UsageError: damage that must be cleared by hand; the text says how. In a dry run also: a killed run has to be
    finished first.
    """
    config = config or StoreConfig()
    root = open_root(local_only(root), config, effects)
    directories.refuse_rocksdb_queues(root, effects)
    _refuse_links(root)
    if dry_run and is_live(root):
        raise StoreLockedError(f"{root}: another process writes this store; stop it first")
    # Held from the plan to its last change: what was planned is true of a store that nobody else writes.
    lock = None if dry_run else _taken(root, effects)
    try:
        half_done = [one for one in SalvageJournal.all(root, effects) if one.state in (journals.APPLY, journals.UNDO)]
        # Before anything is planned: changes that are half made would look like damage.
        for journal in half_done:
            if dry_run:
                raise UsageError(f"{journal.folder}: a killed run was half done; finish it first, without --dry-run")
            (journal.apply if journal.state == journals.APPLY else journal.undo)()
        mending = Mending(root, config, peer, effects, lock, progress)
        mending.mended.finished = [journal.folder for journal in half_done]
        mending.plan()
        return mending
    except BaseException:
        _let_go(lock, root, effects)
        raise


def _refuse_links(root: str) -> None:
    """Refuse a store with a symbolic link inside it, before anything is planned.

    A link is no damage, and no repair may follow it.
    """
    for name in _WITHOUT_LINKS:
        for folder, folders, files in walk_tree(os.path.join(root, name)):
            for path in (os.path.join(folder, inside) for inside in sorted(folders + files)):
                if os.path.islink(path):
                    raise StoreAccessError(
                        f"{path}: is a symbolic link, which a store does not hold; put the data itself there, or name "
                        "the place by a storePath key; nothing was changed"
                    )


def _taken(root: str, effects: Effects) -> StoreLock:
    """Take the store's lock; from now on no link below the store is followed."""
    lock = StoreLock(root)
    effects.guard(root)
    return lock


def _let_go(lock: StoreLock | None, root: str, effects: Effects) -> None:
    if lock is not None and lock.held:
        lock.release()
        effects.unguard(root)


def undo_in_place(root: str, config: StoreConfig | None = None, effects: Effects = REAL) -> list[str]:
    """Restore a store as it was before its first salvage in place; return undone journals.

    Raises UsageError: there is nothing to undo, or the store was written since.
    """
    root = open_root(local_only(root), config or StoreConfig(), effects)
    lock = _taken(root, effects)
    try:
        undone = []
        # The last one first: each has the bytes that were there before it.
        for journal in reversed(SalvageJournal.all(root, effects)):
            if journal.state != journals.UNDONE:
                journal.undo()
                undone.append(journal.folder)
        if not undone:
            raise UsageError(f"{root}: there is no salvage in place to undo")
        return undone
    finally:
        _let_go(lock, root, effects)


@dataclass(eq=False)
class Mending:
    """Plans one salvage in place and carries it out. Close it."""

    root: str
    config: StoreConfig
    peer: str
    effects: Effects
    lock: StoreLock | None  # the store's; None for a dry run
    progress: Progress | None

    def __post_init__(self) -> None:
        self.overlay, self._lost_end, self._open = Overlay(), False, True
        self.journal = journals.begin(self.root, self.effects, dry_run=self.lock is None)
        self.mended = Mended(dry_run=self.lock is None)
        self._wrong: list[tuple[LogFile, int, bytes, WrongField]] = []

    def __enter__(self) -> Mending:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock and drop a plan that was not carried out."""
        if self._open:
            self._open = False
            if self.journal.folder.endswith(".new"):
                journals.drop(self.journal)
            _let_go(self.lock, self.root, self.effects)

    def plan(self) -> None:
        """Fill the journal; the store stays as it is."""
        try:
            damaged = sorted(self._damaged(self._shape()), key=lambda range_: range_.begin)
            for range_ in damaged:
                self._fill_damage(range_)
            self._disarm()
            derived = Derived(
                self.root, self.config, self.peer, self.overlay, self.journal, self._add_change, self._write
            )
            self.mended.left = derived.mend(damaged, self._lost_end)
        except BaseException:
            self.close()
            raise

    @property
    def needed(self) -> bool:
        return bool(self.journal.changes)

    def carry_out(self) -> Mended:
        """Carry out the plan.

        Raises OSError: the disk refused; the next run finishes the work, `undo_in_place` reverts it.
        """
        if self.lock is None:
            raise UsageError(f"{self.root}: this was planned as a dry run; plan again without dry_run")
        assert self._open  # the store's lock is held since the plan was made
        self.journal.planned = {"ranges": self.mended.ranges, "changes": self.mended.changes}
        # Durable before the first byte of the store changes: it has the old bytes.
        self.journal.commit()
        self.mended.journal = self.journal.folder
        self.journal.apply()
        return self.mended

    @property
    def _add_change(self) -> Emit:
        return self.mended.changes.append

    # -- the log ------------------------------------------------------------------------------------------------------

    def _change(self, op: str, path: str, **more: Any) -> None:
        inside = os.path.relpath(path, self.root) if path.startswith(self.root + os.sep) else os.path.abspath(path)
        self.journal.changes.append({"op": op, "file": inside, **more})

    def _shape(self) -> LogFiles:
        """Give the log's files one size and fill gaps between them, in the overlay."""
        now = Snapshot(self.root, self.config, self.effects)
        log = now.log
        refuse_without_log(self.root, log, now.facts)
        if log.doubled:
            raise UsageError(f"{log.doubled[0]}: another log directory has a file of this name; move one of them away")
        size = log.file_size
        files: list[LogFile] = []
        for number, file in enumerate(log.files):
            last = number + 1 == len(log.files)
            if last and not file.size:
                break  # RocketMQ deletes an empty last file
            if file.start % size:
                raise UsageError(f"{file.path}: no file of {size} bytes begins there; give mappedFileSizeCommitLog, or "
                                 "move it away")  # fmt: skip
            if files:
                self._missing(files, file.start, size)
            if file.size != size:
                self._resize(file, size)
            files.append(LogFile(file.path, file.start, size))
        return LogFiles(tuple(files), size, log.max_record, (), self.overlay, log.directories)

    def _missing(self, files: list[LogFile], start: int, size: int) -> None:
        """Add empty files for a gap of the log after the files there are."""
        while files[-1].start + size < start:
            begin = files[-1].start + size
            path = os.path.join(os.path.dirname(files[-1].path), f"{begin:020d}")
            place = os.path.join(self.journal.folder, journals.SCRATCH, "missing", f"{begin:020d}")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.truncate(size)
            self.overlay.places[path] = place
            self._change("create", path, size=size)
            self._add_change({"what": "create", "file": path, "why": "a file of the log is missing here"})
            files.append(LogFile(path, begin, size))

    def _resize(self, file: LogFile, size: int) -> None:
        name = f"{journals.BEFORE}/{file.start:020d}.excess"
        self.overlay.sizes[file.path] = size
        if file.size > size:
            self._keep(file.path, size, file.size - size, name)
        self._change("resize", file.path, old=file.size, new=size, before=name)
        self._add_change({"what": "resize", "file": file.path, "why": f"it has {file.size} bytes, not {size}"})

    def _damaged(self, log: LogFiles) -> Iterator[Range]:
        """Yield the damaged ranges, each within one file."""
        facts = read_facts(self.root, self.overlay)
        report = _Ranges()
        walk = LogWalk(log, facts, strict=False, report=report, ask_queues=True)
        total = sum(file.size for file in log.files)
        far = FarRecords()
        batches, deletions = batch_topics(self.root, self.overlay), deleted_topics.read(self.root, self.overlay)
        dispatcher = Dispatcher(DispatchRules.of(self.config, batches, self.peer, deletions))
        for piece in walk:
            for block in dispatcher.blocks(piece):
                far.take(block, dispatcher)
            for row, wrong in wrong_records(piece):
                at = piece.positions[row]
                self._wrong.append(
                    (piece.file, piece.base + at, bytes(piece.data[at : at + size_at(piece.data, at)]), wrong)
                )
            *_, report.time = store_times(piece.data, piece.positions[piece.count - 1 :], 1)
            report.first_time = report.first_time or report.time
            if self.progress:
                self.progress(piece.base + piece.end - log.min_offset, total)
        self._lost_end = any(damage.kind is DamageKind.END for damage, _ in report.found)
        ends = [damage.offset + damage.lost for damage, _ in report.found]
        for (damage, time), end in zip(report.found, ends, strict=True):
            begin = damage.offset
            while begin < end:
                file = log.find(begin)
                if file is None:
                    break
                mark = (facts.mark.flushed or 0) if walk.position >= log.limit else None
                stop = self._stop(log, file, begin, min(end, file.start + file.size), mark)
                if stop > begin:
                    yield Range.of(file, begin, stop, damage.reason, time or report.first_time)
                begin = file.start + file.size if stop == file.start + file.size else max(stop, end)

        for begin, size, time in far.found:
            file = log.find(begin)
            if file is not None:
                yield Range.of(file, begin, begin + size, "its queue offset is implausible", time)

        for file, begin, record, wrong in self._wrong:
            if not wrong.field.is_renamed and begin not in {offset for offset, *_ in far.found}:
                yield Range.of(file, begin, begin + len(record), str(wrong), store_time_at(record))

    def _disarm(self) -> None:
        """Take the properties that a start of RocketMQ cannot bear their effect; the messages stay."""
        for file, offset, record, wrong in self._wrong:
            if wrong.field.is_renamed:
                self._write(file.path, offset - file.start, disarmed(record))
                why = f"{wrong}: RocketMQ cannot start with it; the property is _{wrong.field.name[1:]} now"
                self._add_change({"what": "write", "file": file.path, "why": why})

    def _stop(self, log: LogFiles, file: LogFile, begin: int, end: int, mark: int | None) -> int:
        """Return the end of a range, usually the reported one.

        If nothing follows the range (`mark` is not None) it ends after all bytes that were flushed or are not zero. If
        it is too short for a record it ends after the record that follows.
        """
        if mark is not None and end == log.limit:
            used = max(_last_byte(file, self.overlay) + file.start, min(mark, end))
            end = begin if used <= begin else min(max(used, begin + LEAST), end)
            return file.start + file.size if end > file.start + file.size - HEAD_SIZE else end
        with self.overlay.reading(file.path) as fd:
            while end < file.start + file.size and end - begin < LEAST:
                end += max(size_at(self.overlay.pread(fd, HEAD_SIZE, end - file.start)), HEAD_SIZE)
        return end

    def _write(self, path: str, position: int, data: bytes) -> None:
        assert self._open and data  # a plan that was dropped is carried out by nobody
        name = f"{os.path.basename(path)}-{position}"
        before, after = f"{journals.BEFORE}/{name}", f"{journals.AFTER}/{name}"
        self._keep(path, position, len(data), before)
        self.journal.keep(after, data)
        self._change("write", path, position=position, length=len(data), before=before, after=after)
        self.overlay.patch(path, position, data)

    def _keep(self, path: str, position: int, length: int, name: str) -> None:
        """Copy a range of a file, as it is now, into the journal, without zeros at its end."""
        os.makedirs(os.path.dirname(os.path.join(self.journal.folder, name)), exist_ok=True)
        with open(os.path.join(self.journal.folder, name), "wb") as out:
            if self.effects.size(path) is None:
                return
            with self.effects.reading(path) as fd:
                for at, piece in self.effects.data_pieces(fd, position, position + length, _PIECE):
                    if any(piece):
                        out.seek(at - position)
                        out.write(piece)

    def _fill_damage(self, damaged: Range) -> None:
        position, length = damaged.begin - damaged.start, damaged.end - damaged.begin
        name = f"{journals.RANGES}/{damaged.begin:020d}-{length}"
        self._keep(damaged.file, position, length, name)
        for offset, data in filler_records(damaged):
            self._write(damaged.file, offset - damaged.start, data)
        self.mended.ranges.append({"file": damaged.file, "position": position, "offset": damaged.begin,
                                   "bytes": length, "why": damaged.why})  # fmt: skip


class _Ranges(Report):
    """Keeps every damaged range, with the store time of the record before it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Damage, int]] = []
        # Store times in ms: of the last record before the walk's position; of the last one of the first piece.
        self.time = self.first_time = 0

    def damage(self, damage: Damage) -> None:
        super().damage(damage)
        self.found.append((damage, self.time))


def _last_byte(file: LogFile, effects: Effects) -> int:
    if not has_data(file, effects):
        return 0
    with effects.reading(file.path) as fd:
        for start in range((file.size - 1) // _PIECE * _PIECE, -1, -_PIECE):
            data = effects.pread(fd, _PIECE, start).rstrip(b"\0")
            if data:
                return start + len(data)
    return 0


class _Nowhere(OpenFiles):
    def write(self, path: str, file_size: int, data: bytes | memoryview, position: int) -> None:
        """Discard the data."""


class _Places(QueueWriter):
    """Discards units, and keeps the log offsets of those that a queue writer would skip."""

    far: list[int]

    def _is_far(self, offset: int, run: int, physical_offset: int) -> bool:
        found = super()._is_far(offset, run, physical_offset)
        if found:
            self.far.append(physical_offset)
        return found

    def _deny(self, offset: int, physical_offset: int) -> None:
        super()._deny(offset, physical_offset)
        if 0 <= self.next < offset:  # a smaller one repeats an offset, or begins the queue again: nothing to cover
            self.far.append(physical_offset)


class FarRecords:
    """Finds records with an implausible queue offset, block by block in log order.

    Such an offset is too far away, or contradicted later. Only the appended checksum property protects that field.
    QueueWriter applies the same rule: such a record gets no unit, so that no broker would serve it.
    """

    def __init__(self) -> None:
        self.found: list[tuple[int, int, int]] = []  # log offset, size and store time in ms of each
        self._queues: dict[int, _Places] = {}
        self._files = _Nowhere()

    def take(self, block: UnitBlock, dispatcher: Dispatcher) -> None:
        for number, first, end in block.queues:
            if number not in self._queues:
                path = dispatcher.queues.keys[number].path
                self._queues[number] = _Places(self._files, os.devnull, path or "", UNIT_SIZE, 0, Report())
            queue = self._queues[number]
            queue.far = []
            queue.place(block.offsets, block.times, block.units, first, end)
            for at in range(first, end) if queue.far and number not in dispatcher.lmq_numbers else ():
                unit = UNIT.unpack(block.units, at * UNIT_SIZE)
                if unit.physical_offset in queue.far:
                    self.found.append((unit.physical_offset, unit.size, block.times[at]))

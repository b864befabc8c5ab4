"""Writes consume queues: each unit at the position of its queue offset.

RocketMQ appends units and drops or misplaces those that do not fit. Here a unit is written at its own queue offset or
not at all:

*   the first unit of a queue at offset q > 0: the units before it in its file are pre-blank, as RocketMQ makes them;
*   an offset after the next one leaves a hole, which is filled with pre-blank units, so that no unit is misaligned;
*   a hole larger than the log could have filled is impossible: the record is wrong and gets no unit;
*   an offset before the next one repeats a unit: the first one stays;
*   except offset 0, where the queue was deleted and started again: its earlier units are removed;
*   a record whose queue offset is implausible given the next record of its queue is skipped (`offset_is_implausible`).

Page: docs/internals/format/consume-queue.md.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flintmq.format import batch_queue, consume_queue, consume_queue_ext, record
from flintmq.format.consume_queue import record_offset_at
from flintmq.kernels.read import group_units
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.threads.mutex import Condition
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.reader import UnitFile

PRE_BLANK = consume_queue.UNIT.pack(consume_queue.PRE_BLANK)
EXPIRED = consume_queue.UNIT.pack(consume_queue.EXPIRED)
UNIT_SIZE = consume_queue.UNIT_SIZE
BLANKS_AT_ONCE = 1 << 16
LARGEST_OFFSET = (1 << 63) // UNIT_SIZE - 1  # a larger one's unit would be beyond 64 bits
FEWEST = 8  # files that stay open even if descriptors are scarce
SPARE_HOLES = 1024  # units of holes that a queue may have without room for their records in the log
_ZERO_BYTES = 1 << 20  # looked at and zeroed at once
MANY_FILES = 256  # changed files from which on the file system starts writing all of them before each is synced
KNOWN_BYTES = 16 << 20  # of files' begins that are kept while a store is recovered


def offset_is_implausible(offsets: Sequence[int], first: int, end: int, expected: int) -> bool:
    """Return whether the next records of a queue contradict the offset of offsets[first].

    No checksum covers topic, queue id and queue offset. With one flipped bit there, a record would displace others. It
    is wrong if its queue continues after it as if it were missing, or as if it had the offset that was due. No queue
    does that by itself: offsets increase, some may be left out, and a queue that is started again continues from 0. (A
    queue that after its new 0 left out exactly the offsets of its earlier life would look the same. No program writes
    that.)

    Args:
        offsets: queue offsets in log order; offsets[first:end] are those of the records at hand.
        expected: the offset that is due; -1 if it is not known. Then offsets[first] is implausible only if the next
            offset is smaller but not 0, and the one after continues from that.
    """
    here, following = offsets[first], offsets[first + 1] if first + 1 < end else -1
    if following < 0 or here in (expected, following - 1):
        return False
    if expected >= 0:
        return following in (expected, expected + 1)
    return 0 < following < here and first + 2 < end and offsets[first + 2] == following + 1


def zero_after(files: Iterable[UnitFile], end: int, effects: Effects = REAL, zeros: int | None = None) -> None:
    """Clear everything after a queue's last unit: remove whole files, zero the rest of the last.

    A stale unit there would become valid again (upstream defects D4, D12). That may also be long afterwards: once
    retention has removed the records after which the unit was, nothing tells it from one that has expired. So no later
    flush is waited for.

    `zeros`: byte of the queue after which all files are known to hold zeros; None: not known. Durability: on return.

    Raises OSError: the disk refused; the next start must ask the disk, not the page cache.
    """
    for file in files:
        keep = min(max(end - file.start, 0), file.size)
        if keep == 0 and file.start > 0:
            effects.unlink(file.path)
            effects.sync_dir(os.path.dirname(file.path))
        elif keep < file.size and (zeros is None or file.start + keep < zeros):
            _zero_file_after(file, keep, effects)


def _zero_file_after(file: UnitFile, position: int, effects: Effects) -> None:
    """Zero a file from this position on; holes stay holes."""
    with effects.writing(file.path) as fd:
        zeroed = False
        for at, rest in effects.data_pieces(fd, position, file.size, _ZERO_BYTES):
            if rest.count(0) != len(rest):
                effects.pwrite(fd, bytes(len(rest)), at)
                zeroed = True
        if zeroed:
            effects.sync(fd)


class OpenFiles:
    """The files that writers have open: the 128 most recently used, to save descriptors.

    Attributes:
        unsure: names of existing files may not be on disk; `flush` then syncs the directories of those written to.
        known: path -> the first bytes of a file of full size, as they were read; while `unsure`. What is written there
            again with the same bytes is written by the next flush, with many others.

    Thread: any; one lock serialises the calls. `flush` syncs without it, so that writers do not wait for the disk.
    """

    def __init__(self, effects: Effects = REAL, most: int = 128) -> None:
        self.effects, self.most = effects, most
        self.open: OrderedDict[str, int] = OrderedDict()
        self.dirty: set[str] = set()  # written since the last flush, open or not
        self.grown: set[str] = set()  # directories that got a new name since the last flush
        self.unsure = False
        self._disk: int | None = None  # see Effects.open_disk: opened before files are written, for the next flush
        self.known: dict[str, bytes] = {}
        self._known_bytes = 0
        self._again: dict[str, bytes] = {}  # path -> its first bytes, which the next flush writes once more
        self._lock = Condition()  # one that nobody but its owner can release
        self._syncing = ""  # the path whose descriptor `flush` uses without the lock; it must not be closed

    def write(self, path: str, file_size: int, data: bytes | memoryview, position: int) -> None:
        """Write to a file of full size, created if it is missing."""
        assert position + len(data) <= file_size, f"{path} would grow: {len(data)} bytes at {position}"
        with self._lock:
            if path in self.known and self._is_there(path, data, position):
                return
            fd = self.open.pop(path, -1)
            if fd < 0:
                self._close_down_to(self.most - 1)
                try:
                    fd = self._open(path, file_size)
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE) or not self.open:
                        raise
                    self.most = max(FEWEST, len(self.open) // 2)  # other parts of the process need descriptors too
                    self._close_down_to(self.most - 1)
                    fd = self._open(path, file_size)
            self.open[path] = fd
            self.dirty.add(path)
            # All of the old bytes first, so that the next sync covers what another process may have failed to sync.
            known = self._again.pop(path, None)
            if known is not None:
                self.effects.pwrite(fd, known, 0)
            self.effects.pwrite(fd, data, position)

    def is_known(self, path: str) -> bool:
        """Return whether a file still holds the bytes that `know` noted."""
        return path in self.known

    def _is_there(self, path: str, data: bytes | memoryview, position: int) -> bool:
        """Return whether a file is known to hold these bytes there; else it is no longer known.

        The file, whose bytes and name another process wrote, is written and synced as if nothing were there: if that
        process met a failed sync, the kernel may have the bytes, take them for written, and not have them on disk.
        """
        if self.known[path][position : position + len(data)] != data:
            del self.known[path]
            return False
        self._again[path] = self.known[path]
        self.dirty.add(path)
        self._grew(os.path.dirname(path))
        return True

    def _close_down_to(self, count: int) -> None:
        """Close the least recently used files except the one that is being synced."""
        # Closed without a sync: `dirty` remembers it, and `flush` opens it again.
        for path in [path for path in self.open if path != self._syncing][: max(len(self.open) - count, 0)]:
            self.effects.close(self.open.pop(path))

    def _open(self, path: str, file_size: int) -> int:
        try:
            fd = self.effects.open_write(path)
            if self.effects.size_of(fd) < file_size:  # the process was killed while it created the file
                self.effects.truncate(fd, file_size)
            if self.unsure:
                self._grew(os.path.dirname(path))
            return fd
        except FileNotFoundError:
            folder = os.path.dirname(path)
            self.effects.mkdirs(folder)
            self._grew(folder)
            return self.effects.create(path, file_size)

    def _grew(self, folder: str) -> None:
        """Note the directories that may be new: the queue's, its topic's, and the one above."""
        self.grown |= {folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))}

    def doubt_names(self, folder: str = "") -> None:
        """Take names of existing files as not on disk until `trust_names`.

        `folder`: the directory of all queues, whose file system the next flush may sync as a whole; "": file by file.
        """
        self.unsure = True
        if folder and self._disk is None:
            self._disk = self.effects.open_disk(folder)

    def trust_names(self) -> None:
        """Take names of existing files as on disk from now on, unless they were noted before."""
        self.unsure = False
        self.known.clear()
        self._known_bytes = 0

    def know(self, path: str, data: bytes) -> None:
        """Note the first bytes of a file of full size that were just read, while names are doubted.

        Nobody else writes the file, and it is written through `write` alone from now on.
        """
        assert self.unsure, "after a clean stop nothing is written again"
        if path not in self.known and self._known_bytes + len(data) <= KNOWN_BYTES:
            self.known[path] = data
            self._known_bytes += len(data)

    def flush(self) -> None:
        """Make everything that was written durable, including the names of new files.

        An open file is synced by its descriptor; only a file that was closed since it was written is opened again.
        Files are taken topic by topic, each with its directories, so that a topic's directory is opened once. After a
        kill the sync of each of many files would wait for the disk. So where the kernel tells all errors
        (Effects.open_disk), one sync of the file system replaces those of its files and directories. Elsewhere the
        file system writes all of them first, which promises nothing, and each sync then finds its file written.

        Thread: one at a time.

        Raises:
            NotOpened: a file could not be opened now; a later flush can sync it.
            OSError: the disk refused; bytes written since the last flush may be lost.
        """
        with self._lock:
            paths = sorted(self.dirty)
            again = sorted(self._again)
            disk, self._disk = self._disk, None
        try:
            if again:
                self._write_again(again)
            if again and len(paths) >= MANY_FILES:
                if disk is not None:
                    paths = self._flush_disk(disk, paths)
                else:
                    self.effects.start_sync_all(_topic_folder(paths[0]))
        finally:
            if disk is not None:
                self.effects.close(disk)
        for topic, files in itertools.groupby(paths, _topic_folder):
            with self.effects.entered(topic, os.path.dirname(topic)):
                folders = []
                for path in files:
                    self._flush_file(path)
                    folders.append(os.path.dirname(path))
                for folder in (*dict.fromkeys(folders), topic):
                    self._flush_folder(folder)
        with self._lock:
            rest = sorted(self.grown)
        for folder in rest:
            self._flush_folder(folder)

    def _write_again(self, paths: list[str]) -> None:
        """Write the bytes that files had when read, unless some were written there since."""
        for topic, files in itertools.groupby(paths, _topic_folder):
            with self.effects.entered(topic, os.path.dirname(topic)):
                for path in files:
                    with self._lock:
                        if path in self._again:
                            with self.effects.writing(path) as fd:
                                self.effects.pwrite(fd, self._again[path], 0)
                            del self._again[path]

    def _flush_disk(self, disk: int, paths: list[str]) -> list[str]:
        """Sync a file system; return the files that lie on another one, and are not synced."""
        with self._lock:
            grown = sorted(self.grown)
        here = {path for path in (*paths, *grown) if self.effects.is_on_disk(disk, path)}
        with self._lock:  # clean before the sync, as in `_flush_file`; a name that is made meanwhile is noted anew
            files, folders = self.dirty & here, self.grown & here
            self.dirty -= files
            self.grown -= folders
        try:
            self.effects.sync_disk(disk)
        except BaseException:
            with self._lock:
                self.dirty |= files
                self.grown |= folders
            raise
        return [path for path in paths if path not in files]

    def _flush_folder(self, folder: str) -> None:
        with self._lock:  # a name that is made meanwhile must not be taken for one that was synced
            if folder in self.grown:
                self.effects.sync_dir(folder)
                self.grown.discard(folder)

    def _flush_file(self, path: str) -> None:
        with self._lock:
            if path not in self.dirty:
                return
            kept = self.open.get(path, -1)
            fd = kept if kept >= 0 else self.effects.open_write(path)
            # Clean before the sync, not after: a write while it runs makes the file dirty again, for the next flush.
            self.dirty.discard(path)
            self._syncing = path
        try:  # without the lock: a write meanwhile marks the file dirty again, so no bytes are missed
            self.effects.sync(fd)
        except BaseException:
            self.dirty.add(path)
            raise
        finally:
            with self._lock:
                self._syncing = ""
                self._lock.notify_all()
            if kept < 0:
                self.effects.close(fd)

    def forget(self, path: str) -> None:
        """Close a file that is deleted, without an fsync."""
        with self._lock:
            # Closed under a sync, its number could be another file's before the sync begins.
            self._lock.wait_for(lambda: self._syncing != path)
            fd = self.open.pop(path, -1)
            if fd >= 0:
                self.effects.close(fd)
            self.dirty.discard(path)
            self.known.pop(path, None)
            self._again.pop(path, None)

    def forget_folder(self, path: str) -> None:
        """Note that a directory was removed; nobody flushes meanwhile."""
        with self._lock:
            self.grown.discard(path)

    def check_invariants(self) -> None:
        """Assert that each open file has its own descriptor, and that not too many are open.

        Thread: any.
        """
        with self._lock:
            assert len(self.open) <= self.most, f"{len(self.open)} files are open, and {self.most} may be"
            assert len(set(self.open.values())) == len(self.open) and min(self.open.values(), default=0) >= 0

    def close(self) -> None:
        """Close all files without an fsync: code that makes a whole tree syncs it once, at its end."""
        with self._lock:
            self._lock.wait_for(lambda: not self._syncing)
            self._close_all()
            if self._disk is not None:
                self.effects.close(self._disk)
                self._disk = None

    def _close_all(self) -> None:
        """Close all files. The caller has the lock."""
        while self.open:
            self.effects.close(self.open.popitem()[1])


def _topic_folder(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))


class FileSequence:
    """One byte sequence split into files that are named by the offset of their first byte."""

    def __init__(self, files: OpenFiles, directory: str, file_size: int) -> None:
        assert file_size > 0  # `write` would never end
        self.files, self.directory, self.file_size = files, directory, file_size

    def write(self, position: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            start = position - position % self.file_size
            part = view[: start + self.file_size - position]
            self.files.write(os.path.join(self.directory, f"{start:020d}"), self.file_size, part, position - start)
            position += len(part)
            view = view[len(part) :]

    def remove(self) -> None:
        for name in self.files.effects.listdir(self.directory):
            path = os.path.join(self.directory, name)
            self.files.forget(path)
            self.files.effects.unlink(path)


class WriterState(NamedTuple):
    next: int  # queue offset of the next unit; -1 before the first
    log_begin: int  # log offset of the queue's first record; -1 before it
    holes: int  # number of units in holes so far
    ext: int  # position of the next unit of the ext queue; -1 for a queue without


class QueueWriter:
    """Writes one plain consume queue, and its ext queue if it has one."""

    def __init__(
        self, files: OpenFiles, root: str, path: str, file_size: int, ext_file_size: int, report: Report
    ) -> None:
        self.path, self.file_size, self.report = path, file_size, report
        self.units = FileSequence(files, os.path.join(root, path), file_size)
        self.ext: ExtWriter | None = None
        if ext_file_size:
            ext = path.replace("consumequeue", "consumequeue_ext", 1)
            self.ext = ExtWriter(FileSequence(files, os.path.join(root, ext), ext_file_size))
        self.next = -1  # queue offset of the next unit; -1 before the first
        self._log_begin = -1  # log offset of the queue's first record
        self._holes = 0  # number of units in holes so far
        self.count = 0  # units of records that were written here and are still there

    def clear(self) -> None:
        """Remove the files of an earlier attempt to write this queue."""
        self.units.remove()
        if self.ext is not None:
            self.ext.files.remove()
        self.next = self._log_begin = -1
        self._holes = self.count = 0

    @property
    def state(self) -> WriterState:
        return WriterState(self.next, self._log_begin, self._holes, -1 if self.ext is None else self.ext.position)

    def resume(self, state: WriterState) -> None:
        self.next, self._log_begin, self._holes = state.next, state.log_begin, state.holes
        if self.ext is not None:
            self.ext.continue_at(state.ext)

    def continue_at(self, offset: int) -> None:
        """Continue a queue on disk at this queue offset, after its last unit."""
        self.next = offset

    def rewind(self, offset: int, addresses: dict[int, int]) -> None:
        """Continue at a smaller queue offset: the units from there on are written again.

        `addresses`: log offset of a record -> address of its ext unit, which it keeps.
        """
        assert offset <= self.next
        self.next = offset
        if self.ext is not None:
            self.ext.keep(addresses)

    def place(self, offsets: memoryview, times: Sequence[int], units: memoryview, first: int, end: int) -> int:
        """Write units [first, end) of a block, in log order; return the least queue offset written.

        It is -1 if no unit was. `offsets`: int64, queue offsets. `times`: store time in ms of each unit's record.
        """
        assert 0 <= first <= end <= len(offsets)
        least = -1
        while first < end:
            offset = offsets[first]
            if offset < 0:
                self.report.note(
                    "negative_offset", f"{self.path}: a record has the queue offset {offset} and gets no unit"
                )
                first += 1
                continue
            if offset != self.next and offset_is_implausible(offsets, first, end, self.next):
                self._deny(offset, record_offset_at(units, first))
                first += 1
                continue
            if self.next >= 0 and offset < self.next:
                if offset > 0:
                    self.report.note("repeat", f"{self.path}: offset {offset} occurs twice; the first unit is kept")
                    first += 1
                    continue
                self.count = 0
                self.report.note("begun_again", f"{self.path}: offset 0 occurs again; the queue was created again")
                self.units.remove()
                self.next = -1
            run = group_units.run_length(offsets, first, end)
            if self._is_far(offset, run, record_offset_at(units, first)):
                self.report.note(
                    "far_offset", f"{self.path}: offset {offset} is too far ahead; its record gets no unit"
                )
                first += 1
                continue
            self._fill_to(offset)
            data = units[UNIT_SIZE * first : UNIT_SIZE * (first + run)]
            self.units.write(UNIT_SIZE * offset, self._with_addresses(data, times[first : first + run]))
            self.next = offset + run
            self.count += run
            least = offset if least < 0 else min(least, offset)
            first += run
        return least

    def begin_expired(self, offset: int) -> None:
        """Have a queue without units go on at an offset: its messages have all expired.

        Durability: the kernel has it.
        """
        assert self.next < 0 < offset <= LARGEST_OFFSET
        self._fill_to(offset - 1)
        self.units.write(UNIT_SIZE * (offset - 1), EXPIRED)
        self.next = offset

    def _deny(self, offset: int, physical_offset: int) -> None:
        """Report a record whose queue offset the next records contradict."""
        self.report.note("denied", f"{self.path}: offset {offset} contradicts the next record; it gets no unit")

    def _is_far(self, offset: int, run: int, physical_offset: int) -> bool:
        """Return whether a run of units has impossible queue offsets.

        The messages of a hole were in the log once. All holes together may have as many units as records fit between
        the queue's first record and this one: a record with a wrong offset (no checksum covers it) must not fill the
        disk.
        """

        if offset > LARGEST_OFFSET - run:
            return True
        if self._log_begin < 0:
            self._log_begin = physical_offset
        hole = offset - self.next if self.next >= 0 else 0
        if self._holes + hole > (physical_offset - self._log_begin) // record.MIN_SIZE + SPARE_HOLES:
            return True
        self._holes += hole
        return False

    def _fill_to(self, offset: int) -> None:
        """Write pre-blank units up to this offset: for a queue's first unit from the file's begin."""
        assert self.next <= offset  # units that are there stay
        a_file = self.file_size // UNIT_SIZE
        begin = self.next if self.next >= 0 else offset - offset % a_file
        if self.next >= 0 and begin < offset:
            self.report.note("hole", f"{self.path}: {offset - begin} offsets before {offset} have no record")
        while begin < offset:
            count = min(offset - begin, BLANKS_AT_ONCE)
            self.units.write(UNIT_SIZE * begin, PRE_BLANK * count)
            begin += count

    def _with_addresses(self, units: memoryview, times: Sequence[int]) -> bytes | memoryview:
        """Replace tags codes of units by addresses in the ext queue, if there is one."""
        if self.ext is None:
            return units
        out = bytearray(units)
        for at, time in zip(range(0, len(out), UNIT_SIZE), times, strict=True):
            unit = consume_queue.UNIT.unpack(out, at)
            out[at : at + UNIT_SIZE] = consume_queue.UNIT.pack(
                unit._replace(tags_code=self.ext.put(unit.tags_code, time, unit.physical_offset))
            )
        return bytes(out)


class ExtWriter:
    """Writes one ext queue (docs/internals/format/consume-queue-ext.md).

    Filter bitmaps belong to the broker; the log alone does not contain them.
    """

    def __init__(self, files: FileSequence) -> None:
        self.files = files
        self.position = 0  # position of the next unit
        self._kept: dict[int, int] = {}  # log offset of a record -> address of its existing unit; each is used once

    def continue_at(self, position: int) -> None:
        self.position = position

    def keep(self, addresses: dict[int, int]) -> None:
        """Keep the units of these records instead of those kept before.

        `addresses`: log offset of a record -> address of its unit.
        """
        self._kept = addresses

    def put(self, tags_code: int, store_timestamp: int, physical_offset: int = -1) -> int:
        """Append a unit, unless the record has one; return its address for the queue's unit."""
        if physical_offset in self._kept:
            return self._kept.pop(physical_offset)
        data = consume_queue_ext.encode(consume_queue_ext.ExtUnit(tags_code, store_timestamp, b""))
        room = self.files.file_size - self.position % self.files.file_size
        if len(data) > room - consume_queue_ext.FILE_END_ROOM:
            self.files.write(self.position, consume_queue_ext.FILE_END)
            self.position += room
        assert len(data) <= self.files.file_size - consume_queue_ext.FILE_END_ROOM  # the key's least value sees to it
        self.files.write(self.position, data)
        address = consume_queue_ext.address(self.position)
        self.position += len(data)
        return address


class BatchQueueWriter:
    """Appends units to one batch queue, without pre-blank units or positions by queue offset.

    Attributes:
        next: queue offset of the next message.
        count: units that were written here.
    """

    def __init__(self, files: OpenFiles, root: str, path: str, file_size: int) -> None:
        self.units = FileSequence(files, os.path.join(root, path), file_size)
        self.position = self.next = self.count = 0
        self.last = -1  # log offset of the record of the last unit; -1 before the first

    def continue_at(self, position: int, offset: int = 0, last: int = -1) -> None:
        """Continue a queue on disk: the next unit is at this byte."""
        self.position, self.next, self.last = position, offset, last

    def take(self, unit: batch_queue.BatchUnit) -> None:
        """Append a unit, unless it is there.

        Offset 0 after another unit begins a queue that was made again.
        """
        if unit.physical_offset <= self.last:
            return
        if unit.base_offset == 0 < self.next:
            self.units.remove()
            self.continue_at(0)
        if unit.base_offset >= self.next:
            self.put(unit)

    def put(self, unit: batch_queue.BatchUnit) -> None:
        """Append one unit; a file takes whole units only."""
        room = self.units.file_size - self.position % self.units.file_size
        if room < batch_queue.BATCH_UNIT_SIZE:
            self.position += room
        self.units.write(self.position, batch_queue.BATCH_UNIT.pack(unit))
        self.position += batch_queue.BATCH_UNIT_SIZE
        self.count += 1
        self.next, self.last = unit.base_offset + unit.messages, unit.physical_offset

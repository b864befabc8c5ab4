"""Makes a log file's pages present before records are stored into them.

There are two ways. *Warm-up* (`warmMapedFileEnable`) prepares a whole file before its first use and locks it in memory,
as RocketMQ does. *Populating ahead* follows a fast writer through the file and keeps its next pages ready, for a tenth
of a second of writing. It never does under SYNC_FLUSH, whose flushes would write the populated pages as zeros and have
the kernel protect them again. Both run in the allocation thread and change no byte. A call that the system refuses
costs speed, never a put: it is reported in one warning, and the rest goes on. Upstream: warmMappedFile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.memory.mapped_file import WINDOW, MappedFile

log = logging.getLogger("flintmq.warmup")

PAGE = 4096
# Bytes made present at once: long enough to be cheap, short enough that a flush, which makes present pages read-only
# again, meets few that are not used yet (experiments/2026-11-25-pages-ahead.md).
STEP = 2 << 20
AHEAD_S = 0.1  # seconds of writing to populate ahead
SLOW = STEP / AHEAD_S  # bytes a second; a slower writer takes its page faults itself


class WarmUp:
    """Warms up whole files before their first use.

    `sync_pages`: sync after this many pages (flushLeastPagesWhenWarmMapedFile), for a store that syncs each put, whose
    first syncs would otherwise write the whole file; 0: leave it to the kernel.
    """

    def __init__(self, sync_pages: int, effects: Effects = REAL) -> None:
        self.sync_pages, self.effects = sync_pages, effects
        self._warned: set[str] = set()

    def warm_up(self, file: MappedFile) -> None:
        """Allocate a new file as a whole, make all its pages present, lock it in memory.

        Raises OSError: no space, or a sync failed; the file must not be used.
        """
        began = self.effects.monotonic()
        file.allocate_all()
        dirty = 0
        for position in range(0, file.size, STEP):
            count = min(STEP, file.size - position)
            if not self._softly(file, "populated", lambda at=position, n=count: self.effects.populate(file.map, at, n)):  # type: ignore[misc]
                self._touch(file, position, count)
            self.effects.sleep(0)  # others may run
            dirty += count // PAGE
            if self.sync_pages and dirty >= self.sync_pages:
                self.effects.sync(file.fd)
                dirty = 0
        if self.sync_pages and dirty:
            self.effects.sync(file.fd)
        self._softly(file, "locked in memory", lambda: self.effects.lock_memory(file.map))
        self._softly(file, "announced to the kernel", lambda: self.effects.advise_needed(file.map))
        log.info("%s is warm after %d ms", file.path, (self.effects.monotonic() - began) * 1000)

    def retire(self, file: MappedFile) -> None:
        self._softly(file, "unlocked", lambda: self.effects.unlock_memory(file.map))

    def _touch(self, file: MappedFile, position: int, count: int) -> None:
        """Store a zero into each page, where pages cannot be populated; a new file is all zeros."""
        pages = -(-count // PAGE)
        file.view[position : position + count : PAGE] = bytes(pages)
        self.effects.wrote(file.fd, position, count)

    def _softly(self, file: MappedFile, what: str, call: Callable[[], None]) -> bool:
        """Make a call; if the system refuses it, warn the first time and return False."""
        try:
            call()
        except OSError as error:
            if what not in self._warned:
                self._warned.add(what)
                log.warning("%s: log files cannot be %s (%s); puts may be slower", file.path, what, error.strerror)
            return False
        return True


class Ahead:
    """Follows the writer of a log: allocates its next window and populates its next pages.

    The writer reports its position each time it asks a file for room (every MiB). Its rate determines how far to
    populate: as much as it needs in AHEAD_S, a window at most. For a slow writer nothing is populated: populated pages
    that are not yet used are written to disk as zeros by the next flush and must be made writable again.

    `populate`: False only allocates; for a store that syncs each put, which would write the populated pages too.
    """

    def __init__(self, effects: Effects = REAL, *, populate: bool = True) -> None:
        self.effects, self.populate = effects, populate
        self._file: MappedFile | None = None
        self._position = 0
        self._asked_at = 0.0
        self._goal = 0  # position up to which pages are wanted
        self._present = 0  # position up to which they are present

    def asked(self, file: MappedFile, position: int) -> bool:
        """Take the writer's position; return whether there is work for `ahead_once`.

        Thread: the one that holds the put lock.
        """
        now = self.effects.monotonic()
        if file is not self._file:
            self._file, self._present, self._goal = file, 0, 0
        elif self.populate:
            rate = (position - self._position) / max(now - self._asked_at, 1e-6)
            reach = min(int(rate * AHEAD_S), WINDOW) if rate >= SLOW else 0
            self._goal = min(position + reach, file.size)
        self._position, self._asked_at = position, now
        return self._position + WINDOW // 2 > file.allocated < file.size or self._goal > self._present

    def ahead_once(self) -> bool:
        """Allocate or populate one step; return whether anything was done.

        Thread: the allocation thread.
        """
        file = self._file
        if file is None or not file.hold():
            return False
        try:
            return self._allocate(file) or self._populate(file)
        finally:
            file.release()

    def _allocate(self, file: MappedFile) -> bool:
        if file.allocated >= file.size or self._position + WINDOW // 2 <= file.allocated:
            return False
        try:
            file.allocate(file.allocated + 1)
        except OSError as error:  # if the disk is full, the writer itself meets it when it comes that far
            log.info("%s: the next window cannot be allocated yet (%s)", file.path, error.strerror)
            return False
        return True

    def _populate(self, file: MappedFile) -> bool:
        begin = max(self._present, -(-self._position // PAGE) * PAGE)
        allocated = (
            file.allocated // PAGE * PAGE if file.allocated < file.size else file.size
        )  # any byte, once reopened
        if begin >= min(self._goal, allocated):
            return False
        assert begin % PAGE == 0  # or the kernel refuses, and nothing is populated any more
        count = min(STEP, allocated - begin)
        try:
            self.effects.populate(file.map, begin, count)
        except OSError as error:
            log.info("%s: pages are not populated ahead of the writer (%s)", file.path, error.strerror)
            self.populate, self._goal = False, 0
            return False
        self._present = begin + count
        return True

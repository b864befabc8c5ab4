"""Keeps zone maps of log files: which zones of 8 MiB cannot hold a wanted message.

The maps lie in the user's cache (`$XDG_CACHE_HOME/flintmq/zones`), never in the store. A map is only believed as far as
the log agrees. It must be of this very file: of its inode, and not changed since; if the file still grows, no file of
its directory came or went since. And before a zone is skipped, its first and last record are read and compared: a log
that was cut and written again below the end of a zone has another last record there. So a map that is stale costs time,
never a row; and one that cannot be read or written, or that somebody else may write, is as good as none.
"""

from __future__ import annotations

import os
import re
import stat
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from flintmq.errors import FlintError, FormatError
from flintmq.format import zone_map
from flintmq.format.zone_map import BLOCK, HEAD_OF_RECORD, TAIL_OF_ZONE, Zone
from flintmq.kernels.read import zone_keys
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.whole_file import new_file
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFile, LogFiles

LEAST_LOG = 64 << 20
"""Bytes of a log that is worth maps; a shorter one is read in a fraction of a second."""
UNUSED_DAYS = 30
"""A map that nobody used for so long is deleted."""

Key = tuple[int, ...]
"""Hashes of which a wanted message has at least one."""


def cache_folder() -> Path | None:
    """Return the directory of all zone maps; None if they are forbidden, or there is no home."""
    if os.environ.get("FLINTMQ_ZONE_MAPS", "").lower() in ("off", "0", "no", "false"):
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".cache")
    return Path(base, "flintmq", "zones")


def are_worth_it(log: LogFiles) -> bool:
    """Return whether zone maps of this log are used: it is local and large."""
    return log.effects is REAL and log.limit - log.min_offset >= LEAST_LOG


def map_path(file: LogFile) -> Path | None:
    """Return the path of a log file's map; None if there shall be none."""
    folder = cache_folder()
    if folder is None:
        return None
    directory, name = os.path.split(os.path.realpath(file.path))
    if _is_in_store(folder, directory):
        return None
    import hashlib  # loads OpenSSL

    return folder / hashlib.sha256(os.fsencode(directory)).hexdigest()[:32] / name


def can_keep() -> bool:
    """Return whether maps can be written; makes the directory for them."""
    folder = cache_folder()
    with suppress(OSError):
        return folder is not None and _make_private(folder) and os.access(folder, os.W_OK)
    return False


def _is_in_store(folder: Path, directory: str) -> bool:
    """Return whether a cache would be written into the store with this directory of log files."""
    root, name = os.path.split(directory)
    real = os.path.realpath(folder)
    return real.startswith(os.path.join(root if name == "commitlog" else directory, ""))


class ZoneMap:
    """The map of one log file: the zones that the log agrees with."""

    def __init__(self, file: LogFile, limit: int = LARGEST_OFFSET, in_use: bool = False) -> None:
        """Read the map of a log file, if there is one, and compare it with the log.

        Args:
            limit: bytes of it that belong to the log.
            in_use: whether a writer may append to it.
        """
        self.file, self.limit, self.in_use, self.path = file, limit, in_use, map_path(file)
        self.zones: list[Zone] = []
        self.identity = (0, 0)  # inode and stamp of what a walk that begins now will read
        self._fd = -1
        if self.path is None:
            return
        with suppress(OSError, FormatError, FlintError), REAL.reading(file.path) as log:
            state = os.fstat(log)
            self.identity = (state.st_ino, self._stamp(state))
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe
            own = os.fstat(self._fd)
            if not (stat.S_ISREG(own.st_mode) and _is_private(own)):
                return
            raw = os.pread(self._fd, zone_map.HEADER.size, 0)
            header = zone_map.header_of(raw, own.st_size)
            table = os.pread(self._fd, zone_map.ZONE.size * header.zones, len(raw))
            if header.inode != state.st_ino or header.stamp not in (self.identity[1], state.st_ctime_ns):
                return
            found = zone_map.decode(raw + table, own.st_size)
            limit = min(limit, state.st_size)
            self.zones = [zone for zone in found if agrees(zone, log, file.start, limit)]
            os.utime(self.path)

    def _stamp(self, state: os.stat_result) -> int:
        """Return the time at which the file, or as long as it grows the set of files, changed last."""
        return (os.stat(os.path.dirname(self.file.path)) if self.in_use else state).st_ctime_ns

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def may_have(self, zone: Zone, hashes: Key) -> bool:
        """Return whether a zone may have one of these keys or topics: one read for each."""
        for h in hashes:
            at = zone.blocks_at + BLOCK * zone_keys.block_number(h, zone.blocks)
            block = os.pread(self._fd, BLOCK, at)
            if len(block) != BLOCK or zone_keys.may_have(block, h):
                return True
        return False

    def blocks_of(self, zone: Zone) -> bytes:
        return os.pread(self._fd, BLOCK * zone.blocks, zone.blocks_at)

    def covering(self, offset: int) -> Zone | None:
        number = bisect_right(self.zones, offset, key=lambda zone: zone.begin) - 1
        return self.zones[number] if number >= 0 and offset < self.zones[number].end else None

    def save(self, new: Iterable[tuple[Zone, bytes]]) -> None:
        """Write the map with more zones. What cannot be written is left out, without an error."""
        if self.path is None:
            return
        with suppress(OSError, FormatError, FlintError):
            with REAL.reading(self.file.path) as log:
                state = os.fstat(log)
                if self.identity != (state.st_ino, self._stamp(state)):
                    return  # another file, or another set of them: what was read may not be what is there
            known = [(zone, self.blocks_of(zone)) for zone in self.zones]
            known = [(zone, blocks) for zone, blocks in known if len(blocks) == BLOCK * zone.blocks]
            both = list(_without_overlap(sorted([*known, *new], key=lambda one: one[0].begin)))
            parts = zone_map.encode(*self.identity, [zone for zone, _ in both], [blocks for _, blocks in both])
            folder = self.path.parent
            if not _make_private(folder.parent) or not _make_private(folder):
                return
            # Not synced: after a power cut its checksums are wrong, or right.
            with new_file(str(self.path), 0o600, durable=False) as part, open(part, "wb") as file:
                file.writelines(parts)
            sweep(folder.parent)


def _is_private(state: os.stat_result) -> bool:
    """Return whether nobody but this user may write a file or directory."""
    return state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_private(folder: Path) -> bool:
    """Make a directory for maps; return whether it, and what it lies in, is this user's.

    A superuser who keeps the home of another user makes none there, for that user could not use it.
    """
    if not folder.exists():
        there = next(parent for parent in folder.parents if parent.exists()).stat()
        if there.st_uid != os.geteuid() and not there.st_mode & stat.S_ISVTX:
            return False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _is_private(folder.stat())


def agrees(zone: Zone, log: int, start: int, limit: int) -> bool:
    """Return whether a log file has a zone's first and last record where the zone says."""
    if zone.begin < start or zone.end > start + limit:
        return False
    return ends_of(log, zone, start) == zone.ends


def ends_of(log: int, zone: Zone, start: int) -> int:
    """Return what the field `ends` of a zone is by the log file now."""
    tail = max(zone.last, zone.end - TAIL_OF_ZONE)
    return zone_map.ends(
        os.pread(log, HEAD_OF_RECORD, zone.begin - start),
        os.pread(log, HEAD_OF_RECORD, zone.last - start),
        os.pread(log, zone.end - tail, tail - start),
    )


def _without_overlap(zones: list[tuple[Zone, bytes]]) -> Iterator[tuple[Zone, bytes]]:
    done = -1
    for zone, blocks in zones:
        if zone.begin >= done:
            yield zone, blocks
            done = zone.end


def sweep(folder: Path) -> None:
    """Delete maps that nobody used for UNUSED_DAYS, and directories that became empty."""
    oldest = time.time() - UNUSED_DAYS * 86_400
    for inner in list(folder.iterdir()):
        if not _FOLDER.fullmatch(inner.name) or inner.is_symlink():
            continue
        with suppress(OSError):
            for path in list(inner.iterdir()):
                if _MAP.fullmatch(path.name) and path.lstat().st_mtime < oldest:
                    path.unlink()
            inner.rmdir()  # refused unless it is empty


_FOLDER = re.compile("[0-9a-f]{32}")
_MAP = re.compile(r"\d{20}(\.[0-9a-f]+\.part)?")

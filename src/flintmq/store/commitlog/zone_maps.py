"""Keeps zone maps of log files: which zones of 8 MiB cannot hold a wanted message.

The maps lie in the user's cache (`$XDG_CACHE_HOME/flintmq/zones`), never in the store. A map is only believed as far as
the log agrees: before a zone is skipped, its first and last record are read and compared. A log that was cut and
written again below the end of a zone has another last record there. So a map that is stale costs time, never a row; and
one that cannot be read or written is as good as none.
"""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from flintmq.errors import FlintError, FormatError
from flintmq.format import zone_map
from flintmq.format.zone_map import BLOCK, HEAD_OF_RECORD, Zone
from flintmq.kernels import zone_keys
from flintmq.storage.filesystem import REAL
from flintmq.store.commitlog.files import LogFile, LogFiles

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
    return folder / hashlib.sha256(os.fsencode(directory)).hexdigest()[:32] / name


class ZoneMap:
    """The map of one log file: the zones that the log agrees with.

    Attributes:
        zones: sorted by begin.
    """

    def __init__(self, file: LogFile) -> None:
        """Read the map of a log file, if there is one, and compare it with the log."""
        self.file, self.path = file, map_path(file)
        self.zones: list[Zone] = []
        self._fd = -1
        if self.path is None:
            return
        with suppress(OSError, FormatError, FlintError):
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            size = os.fstat(self._fd).st_size
            head = os.pread(self._fd, zone_map.HEADER.size, 0)
            table = os.pread(self._fd, zone_map.ZONE.size * zone_map.zones_in(head, size), len(head))
            found = zone_map.decode(head + table, size)
            with REAL.reading(file.path) as log:
                limit = os.fstat(log).st_size
                self.zones = [zone for zone in found if agrees(zone, log, file.start, limit)]
            os.utime(self.path)

    def close(self) -> None:
        """Close the map's file."""
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
        """Return the blocks of a zone.

        Raises:
            OSError: they cannot be read.
        """
        return os.pread(self._fd, BLOCK * zone.blocks, zone.blocks_at)

    def covering(self, offset: int) -> Zone | None:
        """Return the zone that holds a log offset, or None."""
        number = bisect_right(self.zones, offset, key=lambda zone: zone.begin) - 1
        return self.zones[number] if number >= 0 and offset < self.zones[number].end else None

    def save(self, new: Iterable[tuple[Zone, bytes]]) -> None:
        """Write the map with more zones. What cannot be written is left out, without an error."""
        if self.path is None:
            return
        with suppress(OSError, FormatError):
            known = [(zone, self.blocks_of(zone)) for zone in self.zones]
            known = [(zone, blocks) for zone, blocks in known if len(blocks) == BLOCK * zone.blocks]
            both = list(_without_overlap(sorted([*known, *new], key=lambda one: one[0].begin)))
            parts = zone_map.encode([zone for zone, _ in both], [blocks for _, blocks in both])
            folder = self.path.parent
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            part = folder / f"{self.path.name}.{os.urandom(8).hex()}.part"
            try:
                with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                    file.writelines(parts)
                os.replace(part, self.path)  # not synced: after a power cut its checksums are wrong, or right
            except BaseException:
                with suppress(OSError):
                    part.unlink()
                raise
            sweep(folder.parent)


def agrees(zone: Zone, log: int, start: int, limit: int) -> bool:
    """Return whether a log file has a zone's first and last record where the zone says.

    Args:
        zone: the zone.
        log: descriptor of the log file.
        start: log offset of the file's first byte.
        limit: size of the file.

    Raises:
        OSError: the file cannot be read.
    """
    if zone.begin < start or zone.end > start + limit:
        return False
    return heads_of(log, zone.begin - start, zone.last - start) == zone.heads


def heads_of(log: int, first: int, last: int) -> int:
    """Return the checksum of the heads of the records at two positions of a log file."""
    return zlib.crc32(os.pread(log, HEAD_OF_RECORD, last), zlib.crc32(os.pread(log, HEAD_OF_RECORD, first)))


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
        with suppress(OSError):
            for path in list(inner.iterdir()):
                if path.stat().st_mtime < oldest:
                    path.unlink()
            inner.rmdir()  # refused unless it is empty

"""Lets a walk skip zones without wanted messages, and sums up those that it reads.

A walk with `Zones` asks at each log file which ranges to skip (`of`), and shows each piece that it read (`take`). From
these the zone map of the file is made or continued.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flintmq.errors import FlintError
from flintmq.format import zone_map
from flintmq.format.record_view import size_at
from flintmq.format.zone_map import BLOCK, HEAD_OF_RECORD, TAIL_OF_ZONE, Zone
from flintmq.kernels.read import zone_keys
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFile, LogFiles
from flintmq.store.commitlog.zone_maps import Key, ZoneMap, are_worth_it, ends_of

if TYPE_CHECKING:
    from flintmq.store.commitlog.predicate import Predicate
    from flintmq.store.commitlog.walk import Piece

ZONE_BYTES = 8 << 20
MOST_NAMES = 256
"""Topics and keys that are looked up; with more, every zone is read."""
_ROOM = 1 << 16


@dataclass(frozen=True, slots=True)
class Skip:
    begin: int  # log offset of a record
    end: int  # log offset after a record
    first_time: int  # first_time, last_time: store times in ms of the first and the last record in it
    last_time: int


@dataclass(frozen=True)
class ZoneCondition:
    """The condition that a zone must meet to be read; parts that are None are met by each."""

    since: int | None  # least store time in ms
    until: int | None  # end of store times in ms, exclusive
    hashes: tuple[Key, ...]  # groups of hashes; of each group a zone must have one

    @staticmethod
    def of(predicate: Predicate) -> ZoneCondition | None:
        """Return the condition of a predicate; None if it excludes no zone."""
        groups = [
            _hashes(names, topic)
            for names, topic in ((predicate.named_topics, True), (predicate.any_key, False))
            if names is not None
        ]
        hashes = tuple(group for group in groups if group is not None)
        if predicate.since is None and predicate.until is None and not hashes:
            return None
        return ZoneCondition(predicate.since, predicate.until, hashes)

    def excludes(self, zone: Zone, known: ZoneMap) -> bool:
        if self.since is not None and zone.last_time < self.since:
            return True
        if self.until is not None and zone.first_time >= self.until:
            return True
        return any(not known.may_have(zone, group) for group in self.hashes)


def _hashes(names: frozenset[str], topic: bool) -> Key | None:
    if len(names) > MOST_NAMES or any("\ufffd" in name or not name for name in names):
        return None  # U+FFFD may represent bytes that cannot be enumerated; an empty key is the lack of one
    with suppress(UnicodeEncodeError):
        return tuple(zone_keys.key_hash(name.encode(), topic) for name in sorted(names))
    return None  # a lone surrogate


class Zones:
    """The zones of a log for one walk. Thread: that of its walk.

    `record`: whether to sum up what the walk reads, and to keep it in the user's cache. `zone_bytes`: least size of a
    zone that is not the last of its file; None for ZONE_BYTES.
    """

    def __init__(
        self, condition: ZoneCondition, record: bool = True, zone_bytes: int | None = None, full: bool = False
    ) -> None:
        self.condition, self.record, self.zone_bytes = condition, record, zone_bytes or ZONE_BYTES
        self.full = full
        self.skipped_bytes = 0  # of the log, so far
        self.known: ZoneMap | None = None
        self._new: list[tuple[Zone, bytes]] = []
        self._state = array("q", bytes(8 * zone_keys.STATE))
        self._hashes = array("q")
        self._begin = self._end = self._last = -1  # log offsets of the zone that is summed up; -1: none
        self._first = self._tail = b""  # begin of its first record and end of its last one, as they were read
        self._seen: list[tuple[int, bytes]] = []  # last records of its pieces: log offsets and first bytes

    def of(self, file: LogFile, limit: int, in_use: bool) -> list[Skip]:
        """Return the ranges of a log file to skip, in order; the walk enters the file.

        `limit`: bytes of it that belong to the log.
        """
        self.leave()
        try:
            self.known = ZoneMap(file, limit, in_use and not self.full)
            skips = _joined([zone for zone in self.known.zones if self.condition.excludes(zone, self.known)])
            self.skipped_bytes += sum(skip.end - skip.begin for skip in skips)
            return skips
        except (OSError, FlintError):
            return []

    def take(self, piece: Piece, settled: bool) -> None:
        """Sum up a piece of the file that the walk entered last.

        `settled`: False: its last record may still be written; properties that have not arrived are zeros.
        """
        count = piece.count if settled else piece.count - 1
        if not self.record or self.known is None or self.known.path is None or not count:
            return
        first, base, positions = 0, piece.base, piece.positions
        end = piece.end if settled else positions[count]
        if base + positions[0] != self._end:
            self._close(whole=False)
        while first < count:
            if self._begin < 0:
                covering = self.known.covering(base + positions[first])
                if covering is not None:
                    first = bisect_left(positions, covering.end - base, first, count)
                    continue
                self._begin = base + positions[first]
                self._first = bytes(piece.data[positions[first] : positions[first] + HEAD_OF_RECORD])
            limit = self._begin - (self._begin - piece.file.start) % self.zone_bytes + self.zone_bytes
            cut = bisect_left(positions, limit - base, first, count)
            if cut > first:  # else the piece before ended where the zone does
                self._sum_up(piece, first, cut)
                self._see(piece, positions[cut - 1], positions[cut] if cut < count else end)
            if cut < count:
                self._close(whole=True)
            first = cut

    def _sum_up(self, piece: Piece, first: int, end: int) -> None:
        while first < end:
            first = zone_keys.take(piece.data, piece.positions, first, end, self._state, self._hashes)
            if first < end:  # there is no room for the next record
                more = max(_ROOM, len(self._hashes), size_at(piece.data, piece.positions[first]))
                self._hashes.frombytes(bytes(8 * more))

    def _see(self, piece: Piece, last: int, end: int) -> None:
        """Keep what tells the last record so far from others at its place."""
        self._last, self._end = piece.base + last, piece.base + end
        self._tail = bytes(piece.data[max(last, end - TAIL_OF_ZONE) : end])
        self._seen.append((self._last, bytes(piece.data[last : last + HEAD_OF_RECORD])))

    def _close(self, whole: bool) -> None:
        """End the zone that is summed up; keep it if it is whole or at least half of one.

        A caller may have taken its time for each piece, and the log may have been cut and written again meanwhile. So
        the last record of each piece must still be there, and what the map says of the zone is what was read.
        """
        begin, end, self._begin, self._end = self._begin, self._end, -1, -1
        state, known, seen = self._state, self.known, self._seen
        kept = begin >= 0 and (whole or end - begin >= self.zone_bytes // 2) and not state[zone_keys.ODD]
        if kept and known is not None:
            blocks = bytearray(BLOCK * zone_map.blocks_for(state[zone_keys.USED]))
            zone_keys.fill(self._hashes, state[zone_keys.USED], blocks)
            times = state[zone_keys.FIRST_TIME], state[zone_keys.LAST_TIME]
            ends = zone_map.ends(self._first, seen[-1][1], self._tail)
            zone = Zone(begin, end, self._last, ends, state[zone_keys.RECORDS], *times, 0, 0)
            start = known.file.start
            with suppress(OSError, FlintError), REAL.reading(known.file.path) as log:
                if ends_of(log, zone, start) == ends and all(
                    os.pread(log, len(head), at - start) == head for at, head in seen
                ):
                    self._new.append((zone, bytes(blocks)))
        self._state, self._seen = array("q", bytes(8 * zone_keys.STATE)), []

    def leave(self, complete: bool = False) -> None:
        """Save what was summed up of the file that the walk entered last.

        `complete`: whether the walk came to the file's end, so that its last zone gets no more records.
        """
        if self.known is None:
            return
        self._close(complete)
        if self._new:
            self.known.save(self._new)
            self._new = []
        self.known.close()
        self.known = None


def zones_for(log: LogFiles, predicate: Predicate, record: bool = True) -> Zones | None:
    condition = ZoneCondition.of(predicate) if are_worth_it(log) else None
    return None if condition is None else Zones(condition, record)


def is_in_use(log: LogFiles, file: LogFile) -> bool:
    """Return whether a writer may append to a file: at most a spare one follows it."""
    return file.start >= log.files[-2:][0].start


def skips_of(log: LogFiles, predicate: Predicate) -> list[Skip]:
    """Return the ranges of a log that hold nothing wanted, as far as there are zone maps."""
    zones = zones_for(log, predicate, record=False)
    if zones is None:
        return []
    found = []
    for number, file in enumerate(log.files):
        after = log.files[number + 1].start if number + 1 < len(log.files) else LARGEST_OFFSET
        found += zones.of(file, after - file.start, is_in_use(log, file))
    zones.leave()
    return found


def _joined(zones: Sequence[Zone]) -> list[Skip]:
    skips: list[Skip] = []
    for zone in zones:
        before = skips[-1] if skips else None
        if before is not None and before.end == zone.begin and before.last_time <= zone.first_time:
            skips[-1] = Skip(before.begin, zone.end, before.first_time, zone.last_time)
        else:
            skips.append(Skip(zone.begin, zone.end, zone.first_time, zone.last_time))
    return skips

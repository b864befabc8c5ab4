"""Makes zone maps of the full files of a running store's log.

Files that are full no longer change, so each is read once, a moment after the next one was begun, while the page cache
still has it. Of the files that were full before the store was opened only the newest is read; the others are left to
readers: to read a log of a terabyte would take hours of the disk, and the place of other pages. The maps lie where
readers have theirs (`store/commitlog/zone_maps.py`): the store's directory stays as RocketMQ would write it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFiles
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.commitlog.zone_maps import are_worth_it, can_keep
from flintmq.store.commitlog.zones import ZoneCondition, Zones

INTERVAL_MS = 10_000  # between two files: 1 GiB takes half a second of one processor


class ZoneMapping:
    """Makes the maps of one store, a file a step. Thread: one at a time."""

    def __init__(self, listed: Callable[[], LogFiles]) -> None:
        self.listed = listed
        self.stopping: Callable[[], bool] = lambda: False  # asked from time to time; True ends a step early
        files = listed().files
        self._least = files[max(0, len(files) - 2)].start if files else 0  # log offset of the first file that counts

    def map_once(self) -> bool:
        """Read a full file that was not read yet, and keep its map.

        Thread: any, one at a time. Durability: none; a map that is lost is made again.

        Returns:
            False: the next file can wait.
        """
        log = self.listed()
        file = next((file for file in log.files[:-1] if file.start >= self._least), None)
        if file is None or not are_worth_it(log) or not can_keep():
            return False
        self._least = file.start + 1
        walk = LogWalk(replace(log, files=(file,)), begin=file.start, end=file.start + file.size, strict=False)
        every = ZoneCondition(LARGEST_OFFSET, None, ())  # what has a map already is skipped
        walk.use_zones(Zones(every, full=True))
        for _ in walk:
            if self.stopping():
                break
        return False

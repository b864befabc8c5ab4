"""Makes zone maps of the full files of a running store's log.

Files that are full no longer change, so each is read once, a moment after the next one was begun, while the page cache
still has it. The maps lie where readers have theirs (`store/commitlog/zone_maps.py`): the store's directory stays as
RocketMQ would write it.
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
    """Makes the maps of one store, a file a step.

    Args:
        listed: returns the files of the log.

    Attributes:
        stopping: asked from time to time; True ends a step early.

    Thread: one at a time.
    """

    def __init__(self, listed: Callable[[], LogFiles]) -> None:
        self.listed = listed
        self.stopping: Callable[[], bool] = lambda: False
        self._done: set[int] = set()

    def map_once(self) -> bool:
        """Read the newest full file that was not read yet, and keep its map.

        Returns:
            False: the next file can wait.

        Raises:
            StoreAccessError: the file may not be read.

        Thread: any, one at a time. Durability: none; a map that is lost is made again.
        """
        log = self.listed()
        full = [file for file in log.files[:-1] if file.start not in self._done]
        if not full or not are_worth_it(log) or not can_keep():
            return False
        file = full[-1]
        self._done = {one.start for one in log.files if one.start in self._done} | {file.start}
        walk = LogWalk(replace(log, files=(file,)), begin=file.start, end=file.start + file.size, strict=False)
        every = ZoneCondition(LARGEST_OFFSET, None, ())  # what has a map already is skipped
        walk.use_zones(Zones(every, full=True))
        for _ in walk:
            if self.stopping():
                break
        return False

"""The log of a store that this process only reads, as a listener sends it to followers.

Nobody writes the store, or another process does: then the log's end is looked for again while followers are there. Only
records that count are sent, so a torn tail is not.
"""

from __future__ import annotations

import os
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import local_only
from flintmq.store.commitlog.log_end import refuse_damaged_ends
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.listening import LogPart

LOOK_S: Final = 0.1  # seconds between two looks at a store's log


class StoredLog:
    """A store's log, read from its files.

    Thread: one at a time. Durability: nothing is ever written.
    """

    def __init__(self, path: str | os.PathLike[str], config: StoreConfig, effects: Effects = REAL) -> None:
        self._effects = effects
        self._now = Snapshot.open(local_only(path), config, effects)
        self._looked = effects.monotonic()
        refuse_damaged_ends(self._now.log, self._now.facts, self._now.log_end)
        if not self._now.log.file_size and "mappedFileSizeCommitLog" not in config.given:
            raise UsageError(
                f"{self._now.root}: the log has no file yet, so the size of its files is not known; give "
                "mappedFileSizeCommitLog"
            )
        self.file_size = self._now.log.file_size or config.mapped_file_size_commit_log

    def _look(self) -> Snapshot:
        """Return the log as it is now, or was a moment ago."""
        now = self._effects.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            later = self._now.again()
            if later.log.file_size not in (0, self.file_size):
                raise StoreError(f"{later.root}: its log files have {later.log.file_size} bytes by now; serve it again")
            self._now = later
        return self._now

    def begin(self) -> int:
        return self._look().log.min_offset

    def end(self) -> int:
        """Return the log offset after the last record that counts."""
        return self._look().end

    def open(self, offset: int) -> LogPart | None:
        file = self._now.log.find(offset)
        if file is None:
            return None
        try:
            fd = self._effects.open_read(file.path)
        except FileNotFoundError:
            return None
        return LogPart(fd, file.start, file.size, lambda: self._effects.close(fd))

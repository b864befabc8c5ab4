"""Deletes old log files, and younger ones if the disk is full.

The rules, for the log's files, oldest first, never the last one, at most ten a step:

*   in an hour of `deleteWhen`, or if the disk is fuller than `diskMaxUsedSpaceRatio`: files last written longer ago
    than `fileReservedTime`;
*   if it is fuller than `diskSpaceCleanForciblyRatio`: files of any age, if `cleanFileForciblyEnable`;
*   if it is fuller than `diskSpaceWarningLevelRatio`: the same, and no put is accepted until there is room again.

While the clock is in doubt (`Doubt`), no file is deleted for its age.

A file that is not completely on disk stays, and so does one with a record whose unit is not on disk: after a power cut
the unit could not be rebuilt, and a queue would not know its end. Queues and index are then truncated to the log's new
beginning. Upstream: CleanCommitLogService, CleanConsumeQueueService.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flintmq.config.keys import StoreConfig
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.services.expire_derived import remove
from flintmq.store.services.retention_rules import RetentionRules, RetentionVerdict, may_go

log = logging.getLogger("flintmq.retention")

FIRST_MS = 60_000  # after the start, as upstream
JUMP_MS = 3_600_000  # a clock that is set by less is trusted at once
DOUBT_S = 86_400  # how long a clock that jumped must run before files are deleted by their age


@dataclass(frozen=True, slots=True)
class Hanging:
    """A file that was removed from the log while a reader held it."""

    file: MappedFile  # the file; unmapped once nobody holds it
    rule: str
    since: float  # seconds of the monotonic clock at its removal


class Doubt:
    """Detects that the wall clock jumped against the monotonic clock, so that it is not trusted.

    Upstream trusts any clock: a moment of "04:10 in ten years" deletes a whole log. A clock that jumped by more than an
    hour, in either direction, is trusted after a day, or once it is back.

    Thread: one at a time.
    """

    def __init__(self, effects: Effects, root: str) -> None:
        self.effects, self.root = effects, root
        self._wall, self._ticks = effects.now_ms(), effects.monotonic()
        self._since: float | None = None

    def __call__(self) -> bool:
        wall, ticks = self.effects.now_ms(), self.effects.monotonic()
        jump = wall - self._wall - (ticks - self._ticks) * 1000
        if abs(jump) > JUMP_MS and self._since is None:
            self._since = ticks
            log.error(
                "%s: the clock jumped by %+.1f hours; for a day no log file is deleted for its age (correct the clock, "
                "or restart the store if it is right)", self.root, jump / JUMP_MS,
            )  # fmt: skip
        if abs(jump) > JUMP_MS and self._since is not None and ticks - self._since < DOUBT_S:
            return True
        self._wall, self._ticks, self._since = wall, ticks, None
        return False


class Retention:
    """Deletes the old files of one store.

    `dispatched`: returns the log offset below which all queue units are on disk.

    `step`: held while files are deleted. `full`: whether puts are refused because a disk is too full.

    Thread: `clean_once` any, one at a time.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        *,
        dispatched: Callable[[], int],
        paths: Sequence[str],
        root: str,
        follow: Callable[[int], None],
        config: StoreConfig,
        effects: Effects,
    ) -> None:
        self.rules = RetentionRules.of(config)
        self.commit_log, self.files = commit_log, commit_log.files
        self.dispatched, self.paths, self.root = dispatched, paths, root
        self.follow, self.config, self.effects = follow, config, effects
        self.hanging: list[Hanging] = []
        self._full_log = self._full_queues = False
        self._followed = self.files.min_offset
        self.step, self._doubt = Lock(), Doubt(effects, root)

    @property
    def full(self) -> bool:
        return self._full_log or self._full_queues

    def clean_once(self) -> bool:
        """Delete the files that may be deleted now; return False: nothing remains for this call.

        Durability: a power cut may restore a file, which is then deleted again. Raises OSError: a file could not be
        deleted; the next call tries again.
        """
        with self.step:
            verdict, doubt = self._verdict(), self._doubt()
            if verdict.reason and (verdict.forced or not doubt):
                deleted = self._delete(verdict.forced)
                if verdict.needs_space and not deleted:
                    log.warning("%s: %s, and no file can be deleted", self.root, verdict.reason)
            self._unlink_hanging()
            begin = self.hanging[0].file.start if self.hanging else self.files.min_offset
            # After the log's files. The other way round a crash leaves records without units, which a start makes
            # again.
            if begin != self._followed:
                self.follow(begin)
                self._followed = begin
        return False

    # -- when -------------------------------------------------------------------------------------------------------

    def _verdict(self) -> RetentionVerdict:
        """Apply the rules to the current moment; set or clear `full`."""
        log_used = min(self.effects.disk_used(path) for path in self.paths)
        queues_used = self.effects.disk_used(self.root)
        was_full = self.full
        self._full_log = self.rules.refuses(log_used, self._full_log)
        self._full_queues = self.rules.refuses(queues_used, self._full_queues)
        used = max(log_used, queues_used)
        if self.full != was_full:
            self.commit_log.refuse(self.full)
            log.error("%s: the disk is %d %% full, puts are %s", self.root, used,
                      "refused" if self.full else "accepted again")  # fmt: skip
        return self.rules.verdict(used, self.effects.now_ms())

    # -- what -------------------------------------------------------------------------------------------------------

    def _delete(self, forced: str) -> int:
        """Remove files from the log; return their number.

        `forced` is the rule that ignores a file's age, or empty.
        """
        deleted = 0
        while deleted < self.config.delete_file_batch_max:
            rule = forced or self._expired()
            if not rule or not self._may_go():
                break
            if deleted:
                self.effects.sleep(self.config.delete_commit_log_files_interval / 1000)
            # A put that makes a file replaces the same tuple: without the lock one of the two changes would be lost.
            with self.commit_log.lock:
                file = self.files.drop_first()
            assert not self.hanging or self.hanging[-1].file.start < file.start  # their names go in this order
            self.hanging.append(Hanging(file, rule, self.effects.monotonic()))
            deleted += 1
        return deleted

    def _expired(self) -> str:
        files = self.files.files
        written = self.effects.modified_ms(files[0].path) if files else None
        return self.rules.expired(written, self.effects.now_ms())

    def _may_go(self) -> bool:
        """Return whether the first file is not the last, and it and its queue units are on disk."""
        files = self.files.files
        # Units that are not on disk can be made from the log alone, so the log waits for them.
        safe = min(self.files.flushed_where, self.dispatched())
        return bool(files) and may_go(len(files), files[0].start + files[0].size, safe)

    def _unlink_hanging(self) -> None:
        """Delete removed files once nobody holds them.

        After destroyMapedFileIntervalForcibly the file is deleted anyway. Upstream then unmaps it under its readers;
        here they keep it mapped, and the system frees its space with their last hold.
        """
        limit = self.config.destroy_maped_file_interval_forcibly / 1000
        kept: list[Hanging] = []
        for hanging in self.hanging:
            file, held = hanging.file, hanging.file.is_held
            if (held and self.effects.monotonic() - hanging.since < limit) or kept:  # in order: a gap is damage
                kept.append(hanging)
                continue
            # Each name is durably gone before the next one goes: a power cut must not bring back a file and leave a gap
            # after it.
            remove(file.path, hanging.rule + ", still held" * held, self.effects)
            self.effects.sync_dir(os.path.dirname(file.path))
        self.hanging = kept

"""Decides which files of the log may be deleted when, from RocketMQ's keys.

Used by the engine, which deletes, and by the command that explains the plan. `retention` lists the rules in words.
Upstream: CleanCommitLogService.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from flintmq.config.keys import StoreConfig

HOUR_MS = 3_600_000
HOURS_AHEAD = 50  # two days, and one hour more for a clock that is set back


@dataclass(frozen=True)
class RetentionVerdict:
    reason: str  # why files may be deleted; empty: none may
    forced: str  # the rule that ignores their age; empty: only old ones may
    needs_space: bool


@dataclass(frozen=True)
class RetentionRules:
    """The retention rules of one store.

    Attributes:
        delete_at, force_at, refuse_at: percent of a disk above which old files are deleted at any hour, files of any
            age are deleted (if `may_force`), and puts are refused. Kept within upstream's limits.
    """

    reserved_hours: int  # fileReservedTime: a file last written longer ago is old
    hours: frozenset[int]  # deleteWhen: the hours of the day, in local time, in which old files are deleted
    delete_at: int
    force_at: int
    refuse_at: int
    may_force: bool

    @staticmethod
    def of(config: StoreConfig) -> RetentionRules:
        forcibly = min(max(config.disk_space_clean_forcibly_ratio, 30), 85)
        return RetentionRules(
            config.file_reserved_time,
            frozenset(int(text) for text in config.delete_when.split(";") if is_hour(text)),
            min(forcibly, max(config.disk_max_used_space_ratio, 10)),
            forcibly,
            min(max(config.disk_space_warning_level_ratio, 35), 90),
            config.clean_file_forcibly_enable,
        )

    def verdict(self, used: int, now_ms: int) -> RetentionVerdict:
        """Decide for a time (Unix ms) and the use of the fuller disk (percent)."""
        space = f"disk {used} % full" if used > self.delete_at else ""
        forced = space if used > self.force_at and self.may_force else ""
        hour = "an hour of deleteWhen" if self.is_time(now_ms) else ""
        return RetentionVerdict(space or hour, forced, bool(space))

    def refuses(self, used: int, refused: bool) -> bool:
        """Return whether puts are refused; once they are, until the disk is down to `force_at`."""
        return used > (self.force_at if refused else self.refuse_at)

    def is_time(self, now_ms: int) -> bool:
        """Return whether this hour, in local time, is one of deleteWhen."""
        return datetime.fromtimestamp(now_ms / 1000).hour in self.hours

    def next_time(self, from_ms: int) -> int | None:
        """Return the first moment in an hour of deleteWhen, then or later; None if there is none."""
        with suppress(ValueError, OverflowError, OSError):  # years that no calendar has
            for _ in range(HOURS_AHEAD):
                if self.is_time(from_ms):
                    return from_ms
                now = datetime.fromtimestamp(from_ms / 1000)
                from_ms += HOUR_MS - (now.minute * 60 + now.second) * 1000 - now.microsecond // 1000
        return None

    def expired(self, written_ms: int | None, now_ms: int) -> str:
        """Return the rule by which a file last written then is too old, or nothing."""
        old = written_ms is not None and self.due(written_ms) <= now_ms
        return f"older than {self.reserved_hours} h" if old else ""

    def due(self, written_ms: int) -> int:
        """Return when a file last written then is old; both in Unix milliseconds."""
        return written_ms + self.reserved_hours * HOUR_MS


def is_hour(text: str) -> bool:
    """Return whether a part of deleteWhen is an hour of the day.

    RocketMQ takes any text, and never deletes at what is none.
    """
    return text.strip().isdecimal() and int(text) < 24


def may_go(files: int, first_end: int, safe: int) -> bool:
    """Return whether the first file is not the last, is on disk and is dispatched.

    `safe`: log offset up to which everything is on disk and dispatched.
    """
    return files > 1 and first_end <= safe

"""When which file of the log goes: RocketMQ's keys as decisions, for the engine that deletes and for whoever explains.

Source: upstream CleanCommitLogService. `retention` tells the rules in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flintmq.config.keys import StoreConfig

HOUR_MS = 3_600_000
HOURS_AHEAD = 50  # of two days, and one that the clock is set back


@dataclass(frozen=True)
class RetentionVerdict:
    """Whether files are deleted at a moment.

    Attributes:
        reason: why files may go; empty: none does.
        forced: the rule by which they go whatever their age; empty: only old ones go.
        needs_space: whether it is for lack of space.
    """

    reason: str
    forced: str
    needs_space: bool


@dataclass(frozen=True)
class RetentionRules:
    """The rules of one store.

    Attributes:
        reserved_hours: fileReservedTime: what was last written longer ago is old.
        hours: deleteWhen: the hours of the day, in local time, in which old files go.
        delete_at, force_at, refuse_at: percent of a disk above which old files go at any hour, files go whatever their
            age (if `may_force`), and puts are refused. Kept within upstream's limits.
    """

    reserved_hours: int
    hours: frozenset[int]
    delete_at: int
    force_at: int
    refuse_at: int
    may_force: bool

    @staticmethod
    def of(config: StoreConfig) -> RetentionRules:
        """What a configuration says."""
        told = (text.strip() for text in config.delete_when.split(";"))
        forcibly = min(max(config.disk_space_clean_forcibly_ratio, 30), 85)
        return RetentionRules(
            config.file_reserved_time,
            frozenset(int(text) for text in told if text.isdecimal()),
            min(forcibly, max(config.disk_max_used_space_ratio, 10)),
            forcibly,
            min(max(config.disk_space_warning_level_ratio, 35), 90),
            config.clean_file_forcibly_enable,
        )

    def verdict(self, used: int, now_ms: int) -> RetentionVerdict:
        """Whether files go at this time (Unix milliseconds) while the fuller disk is used so far (percent)."""
        space = f"disk {used} % full" if used > self.delete_at else ""
        forced = space if used > self.force_at and self.may_force else ""
        hour = "an hour of deleteWhen" if self.is_time(now_ms) else ""
        return RetentionVerdict(space or hour, forced, bool(space))

    def refuses(self, used: int, refused: bool) -> bool:
        """Whether a disk is so full that puts are refused; once they are, until it is down to `force_at`."""
        return used > (self.force_at if refused else self.refuse_at)

    def is_time(self, now_ms: int) -> bool:
        """Whether this hour, in local time, is one of deleteWhen."""
        return datetime.fromtimestamp(now_ms / 1000).hour in self.hours

    def next_time(self, from_ms: int) -> int | None:
        """The first moment, then or later, in an hour of deleteWhen; None if there is none."""
        for _ in range(HOURS_AHEAD):
            if self.is_time(from_ms):
                return from_ms
            now = datetime.fromtimestamp(from_ms / 1000)
            from_ms += HOUR_MS - (now.minute * 60 + now.second) * 1000 - now.microsecond // 1000
        return None

    def expired(self, written_ms: int | None, now_ms: int) -> str:
        """The rule by which a file is too old that was last written then, or nothing."""
        old = written_ms is not None and self.due(written_ms) <= now_ms
        return f"older than {self.reserved_hours} h" if old else ""

    def due(self, written_ms: int) -> int:
        """When a file is old that was last written then; both in Unix milliseconds."""
        return written_ms + self.reserved_hours * HOUR_MS


def may_go(files: int, first_end: int, safe: int) -> bool:
    """Whether the first of so many files is not the last, and nobody needs it to become durable or dispatched.

    Args:
        files: how many the log has.
        first_end: log offset behind the first one.
        safe: log offset up to which everything is on disk and dispatched.
    """
    return files > 1 and first_end <= safe

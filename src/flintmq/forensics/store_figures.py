"""Collects the figures of one store, and keeps what need not be read again at the next look.

The first look reads what `flintmq inspect` reads. Later ones begin where the log ended before, read the queues again
only if the log, config/ or the facts of the last stop changed (or after a minute), and look up the store time of a
message only once.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import NamedTuple

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError
from flintmq.forensics.group_offsets import store_time
from flintmq.forensics.inspect import Inspection, OffsetSummary, inspect_messages
from flintmq.forensics.retention_plan import Known, RetentionPlan, plan_of
from flintmq.storage.files.store_url import identity
from flintmq.store.commitlog.anchor import KnownLog, LogAnchor, anchor_at, why_lost
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout import followed, following
from flintmq.store.layout.config_reader import is_outside
from flintmq.store.layout.directories import LOG, find_root
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup

QUEUES_AGAIN_S = 60.0
"""Seconds after which queues are read again although nothing seems to have changed."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    group: str
    topic: str
    messages: int  # number of messages after its committed offsets, over all queues
    oldest_ms: int | None  # store time of the oldest of them; None if there are none, or if it cannot be read
    outside: int = 0  # number of its queues whose committed offset is after their end, or below -1
    is_known: bool = True  # False: damage hides messages of one of these queues, so there may be more


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state of a copy of a master's log, as its follower noted it and its files show."""

    connected: bool  # a follower has the store open, and its master answers
    lag_ms: int | None = None  # ms for which the copy may lack messages of its master; None if nobody knows
    lacks: int | None = None  # bytes of the master's log that are not here; None likewise
    heard_ms: int | None = None  # when the master last sent a byte, Unix time in ms; None likewise


@dataclass(frozen=True, slots=True)
class StoreFigures:
    at_ms: int  # the moment, Unix time in ms
    seconds: float  # duration of the look
    snapshot: Snapshot
    content: Inspection  # log, topics, groups and notes
    lags: list[GroupLag]
    flush_behind: int | None  # bytes not known to be on disk; None if the files do not say it
    dispatch_behind: int  # bytes after the last dispatched record
    disk_bytes: int | None  # bytes in use on the store's file system; None on object storage
    retention: RetentionPlan | None  # what retention deletes next; None on object storage
    copy: CopyState | None = None  # how far a follower is; None: the store is no copy of a master's log


class StoreMark(NamedTuple):
    """Marks a store, to tell it from another one that takes its place.

    `directory`: device and inode of commitlog/; None on object storage. `last`: the last record; None: it had none.
    """

    directory: tuple[int, int] | None
    last: LogAnchor | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> StoreMark:
        last = snapshot.log_end.last
        return cls(_directory(snapshot), None if last is None else anchor_at(snapshot.log, last, snapshot.end))

    def is_of(self, now: Snapshot) -> bool:
        """Return whether this is that store; also False if its log lost all that it held then."""
        log, last = KnownLog(now.log, now.end), self.last
        return self.directory == _directory(now) and (
            last is None or not (log.has_expired(last) or why_lost(log, last))
        )


class StoreWatch:
    """Looks at one store again and again. Thread: one at a time."""

    def __init__(self, member: Member, config: StoreConfig) -> None:
        self.member, self._config = member, config
        self._lookup: QueueLookup | None = None
        self._mark = StoreMark(None, None)
        self._content: Inspection | None = None
        self._lags: list[GroupLag] = []
        self._queues_read = 0.0
        self._times: dict[tuple[QueueName, int], int | None] = {}
        self._cuts = Known()

    def look(self) -> StoreFigures:
        begin = time.monotonic()
        try:
            lookup, content = self._read(begin)
        except Exception:
            self._forget()  # the disk may come back as another one
            raise
        snapshot, effects = lookup.snapshot, lookup.snapshot.effects
        local = not effects.remote
        return StoreFigures(
            at_ms=effects.now_ms(),
            snapshot=snapshot,
            content=content,
            lags=self._lags,
            flush_behind=_flush_behind(snapshot),
            dispatch_behind=lookup.dispatch_behind(),
            disk_bytes=effects.disk_used_bytes(snapshot.root) if local else None,
            retention=plan_of(lookup, known=self._cuts) if local else None,
            copy=_copy_state(snapshot, content, effects.now_ms()) if local else None,
            seconds=time.monotonic() - begin,
        )

    def _read(self, now: float) -> tuple[QueueLookup, Inspection]:
        before = self._lookup
        if before is None:
            snapshot = Snapshot.open(self.member.path, self._config)
        else:
            find_root(self.member.path, self._config, before.snapshot.effects)  # the directory may be gone, or empty
            snapshot = before.snapshot.again()
            if not self._mark.is_of(snapshot) or snapshot.log.min_offset < before.snapshot.log.min_offset:
                self._forget()  # truncated, or another store
                before, snapshot = None, Snapshot.open(self.member.path, self._config)
        fresh = self._content if now - self._queues_read < QUEUES_AGAIN_S else None
        if before is not None and fresh is not None and _same(before, snapshot):
            return before, fresh
        self._lookup = lookup = QueueLookup(snapshot, before)
        self._mark = StoreMark.of(snapshot)
        self._content, self._queues_read = inspect_messages(lookup), now
        self._lags = self._all_lags(lookup, self._content)
        return lookup, self._content

    def _forget(self) -> None:
        self._lookup, self._content = None, None
        self._times.clear()
        self._cuts = Known()

    def _all_lags(self, lookup: QueueLookup, content: Inspection) -> list[GroupLag]:
        found: list[GroupLag] = []
        known, self._times = self._times, {}
        is_hidden = any(note.code == "queue-end" for note in content.notes)
        with lookup.snapshot.held():
            for group in content.groups:
                topics: dict[str, list[OffsetSummary]] = {}
                for one in group.offsets:
                    topics.setdefault(one.topic, []).append(one)
                for topic, offsets in topics.items():
                    times = [self._time(lookup, one, known) for one in offsets if one.lag]
                    oldest = min((ms for ms in times if ms is not None), default=None)
                    outside = sum(is_outside(one.offset, one.max_offset) for one in offsets)
                    if topic not in lookup.snapshot.broker.topics and not any(one.max_offset for one in offsets):
                        outside = 0  # of a deleted topic, as in `verify`
                    names = (QueueName(topic, one.queue_id) for one in offsets if is_hidden)
                    is_known = not any(lookup.lost_outside(name, thorough=False) for name in names)
                    lag = sum(one.lag for one in offsets)
                    found.append(GroupLag(group.name, topic, lag, oldest, outside, is_known))
        return found

    def _time(
        self, lookup: QueueLookup, one: OffsetSummary, known: dict[tuple[QueueName, int], int | None]
    ) -> int | None:
        """Return the store time of the first message not consumed; None if it cannot be read."""
        place = QueueName(one.topic, one.queue_id), one.max_offset - one.lag
        if place in known:
            self._times[place] = known[place]
        elif place not in self._times:
            self._times[place] = store_time(lookup, *place)
        return self._times[place]


def _directory(snapshot: Snapshot) -> tuple[int, int] | None:
    return identity(os.path.join(snapshot.root, LOG))


def _same(lookup: QueueLookup, now: Snapshot) -> bool:
    """Return whether nothing changed since a look, and nothing is to be dispatched."""
    before = lookup.snapshot
    return (
        (before.end, before.log.min_offset, len(before.log.files)) == (now.end, now.log.min_offset, len(now.log.files))
        and before.facts == now.facts
        and before.broker == now.broker
        and not lookup.dispatch_behind()
    )


def _flush_behind(snapshot: Snapshot) -> int | None:
    """Return the bytes that are not known to be on disk.

    None for a store of RocketMQ that is in use or was killed.
    """
    facts = snapshot.facts
    if facts.clean and not facts.live:
        return 0
    return None if facts.mark.flushed is None else max(0, snapshot.end - facts.mark.flushed)


def _copy_state(snapshot: Snapshot, content: Inspection, now_ms: int) -> CopyState | None:
    """Return how far a copy is; None for a store that is none, or was opened as a master since."""
    root, effects = snapshot.root, snapshot.effects
    try:
        of = followed.read(root, effects)
    except FlintError:
        return None
    if of is None or of.mastered_at is not None:
        return None
    note = following.read(root, effects)
    if note is None:
        return CopyState(False)
    connected = note.connected and content.live and note.is_fresh(now_ms)
    has_all = connected and note.caught_up
    since = max(note.complete_ms, content.log.last_time or 0)
    lag = 0 if has_all else max(0, now_ms - since) if since else None
    known = 0 if has_all else None if note.master_end < 0 else max(0, note.master_end - content.log.end)
    return CopyState(connected, lag, known, note.heard_ms or None)

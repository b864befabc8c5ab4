"""What retention would delete: which files, when and by which rule, and who has not read what is in them.

The rules are the engine's own (store/services/retention_rules.py, store/services/expire_derived.py). Nothing is deleted
here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.storage.filesystem import REAL, Effects
from flintmq.storage.store_url import local_only
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.consumequeue.reader import UnitQueue
from flintmq.store.index import reader
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.services.expire_derived import expired_index, expired_units
from flintmq.store.services.retention_rules import HOUR_MS, RetentionRules, RetentionVerdict, may_go

LAST = "stays: the log's last file is never deleted"
NEEDED = "stays: not yet on disk or dispatched as a whole"
NEVER = "stays: no hour in deleteWhen; only a full disk deletes it"
DELIVERY = "(delayed delivery)"  # which consumes the schedule topic, as config/delayOffset.json tells
BEHIND = "waits for the file before it"


@dataclass(frozen=True)
class FileFate:
    """A file of the log.

    Attributes:
        file: its path.
        start, size: log offset of its first byte; bytes.
        written: when it was last written (ms); None if it vanished meanwhile.
        when: when it goes (ms); None: never, by what is known now.
        rule: why, or why not.
    """

    file: str
    start: int
    size: int
    written: int | None
    when: int | None
    rule: str


@dataclass(frozen=True)
class Unread:
    """Messages of a queue that go with the next deletion.

    Attributes:
        topic, queue_id: of what.
        messages: that go.
        group: who consumes the topic; None: no group does, and then `unread` is all of them.
        committed: the next offset that the group wants; None if it has none in this queue.
        unread: how many of `messages` it has not consumed.
    """

    topic: str
    queue_id: int
    messages: int
    group: str | None
    committed: int | None
    unread: int


@dataclass(frozen=True)
class RetentionPlan:
    """What would be deleted.

    Attributes:
        root: of the store.
        at: the moment that this is about (ms).
        rules: what the configuration says, by name.
        used: percent of the fuller disk, of the log's and the queues'.
        refuses_puts: whether puts are refused by that.
        now: why files are deleted at `at`; empty: no file is looked at.
        files: of the log, oldest first.
        next_when: when the next deletion is (ms); None if nothing is due.
        next_files, next_bytes: what of the log goes then.
        log_begin: log offset where the log begins afterwards.
        queue_files, index_files: how many files of queues and index follow.
        unread: queues that lose messages then, by group.
    """

    root: str
    at: int
    rules: dict[str, Any]
    used: int
    refuses_puts: bool
    now: str
    files: list[FileFate]
    next_when: int | None
    next_files: int
    next_bytes: int
    log_begin: int
    queue_files: int
    index_files: int
    unread: list[Unread] = field(default_factory=list)


def explain(
    path: str | os.PathLike[str], config: StoreConfig, at_ms: int | None = None, used: int | None = None,
    effects: Effects = REAL,
) -> RetentionPlan:  # fmt: skip
    """What retention would do with a store.

    Args:
        path: of the store, which may be in use.
        config: the broker's keys: its retention is not in the store's files.
        at_ms: the moment (Unix milliseconds); None for now.
        used: percent of the disk that is used; None: as it is.
        effects: the disk and the clock.

    Raises:
        UsageError: a store on object storage, which nobody deletes from.
        NotAStoreError, UnsupportedFormatError, StoreAccessError: as for open_store.
    """
    root = directories.open_root(local_only(path), config, effects)
    lookup = QueueLookup(Snapshot(root, config, None, effects))
    rules, at = RetentionRules.of(config), effects.now_ms() if at_ms is None else at_ms
    if used is None:
        logs = [place.path for place in directories.log_directories(root, config, effects) if place.writable]
        used = max(min(effects.disk_used(log) for log in logs), effects.disk_used(root))
    verdict = rules.verdict(used, at)
    files = list(_fates(lookup.snapshot, rules, verdict, at, effects))
    moments = [fate.when for fate in files if fate.when is not None]
    first = min(moments, default=None)
    going = [fate for fate in files if first is not None and fate.when is not None and fate.when < first + HOUR_MS]
    begin = max((fate.start + fate.size for fate in going), default=lookup.snapshot.log.min_offset)
    queues = sorted(lookup.file_names())
    return RetentionPlan(
        root,
        at,
        {**asdict(rules), "hours": sorted(rules.hours), "at_once": config.delete_file_batch_max},
        used,
        rules.refuses(used, False),
        verdict.reason,
        files,
        first,
        len(going),
        sum(fate.size for fate in going),
        begin,
        sum(1 for name in queues for _ in expired_units(lookup.units(name), begin)) if going else 0,
        len(list(expired_index(reader.discover(root, config, effects), begin))) if going else 0,
        list(_unread(lookup, queues, begin)) if going else [],
    )


def _fates(
    snapshot: Snapshot, rules: RetentionRules, verdict: RetentionVerdict, at: int, effects: Effects
) -> Iterator[FileFate]:
    """Each file that the log has, as the engine goes through them: one that stays keeps all behind it."""
    end, files = snapshot.end, list(snapshot.log.files)
    files = [file for n, file in enumerate(files) if n == 0 or file.start < end]  # without those made ahead
    earliest: int | None = at
    for number, file in enumerate(files):
        written = effects.modified_ms(file.path)
        when, rule = _fate(len(files) - number, file, end, written, rules, verdict, at)
        if when is None or earliest is None:
            if earliest is None and when is not None:
                rule = BEHIND
            when = earliest = None
        else:
            when = earliest = max(when, earliest)
        yield FileFate(file.path, file.start, file.size, written, when, rule)


def _fate(
    left: int, file: LogFile, end: int, written: int | None, rules: RetentionRules, verdict: RetentionVerdict, at: int
) -> tuple[int | None, str]:
    """(when, rule) of the first of so many files."""
    if not may_go(left, file.start + file.size, end):
        return None, LAST if left == 1 else NEEDED
    if verdict.forced:
        return at, verdict.forced
    if written is None:
        return None, "stays: it cannot be told when it was written"
    due = rules.due(written)
    if verdict.reason and rules.expired(written, at):
        return at, rules.expired(written, at)
    when = max(due, at) if verdict.needs_space else rules.next_time(max(due, at))
    return when, NEVER if when is None else rules.expired(written, when)


def _unread(lookup: QueueLookup, queues: list[QueueName], begin: int) -> Iterator[Unread]:
    """What goes of each queue once the log begins at `begin`, for each group that consumes its topic."""
    broker = lookup.snapshot.broker
    groups: dict[str, list[tuple[str, dict[int, int]]]] = {}
    for (topic, group), offsets in broker.consumer_offsets.items():
        groups.setdefault(topic, []).append((group, dict(offsets)))
    for (topic, group), offset in broker.lmq_offsets.items():
        groups.setdefault(topic, []).append((group, {0: offset}))
    groups[SCHEDULE_TOPIC] = [(DELIVERY, {level - 1: offset for level, offset in broker.delay_offsets.items()})]
    for name in queues:
        first, stop, _ = lookup.file_bounds(name)
        low = min(max(_first_offset(lookup.units(name), begin, stop), first), stop)
        if low == first:
            continue
        for group, offsets in sorted(groups.get(name.topic, ())):
            at = offsets.get(name.queue_id)
            yield Unread(*name, low - first, group, at, max(0, low - max(at or 0, first)))
        if name.topic not in groups:
            yield Unread(*name, low - first, None, None, low - first)


def _first_offset(units: UnitQueue, begin: int, stop: int) -> int:
    """The first queue offset whose record stands at log offset `begin` or later; `stop` if none does."""
    number = units.first_kept(begin, units.end())
    unit = units.unit(number)
    return units.span(number, unit)[0] if unit is not None and units.points_to_record(unit) else stop

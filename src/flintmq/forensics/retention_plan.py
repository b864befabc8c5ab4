"""Lists the files that retention would delete, with times, rules and unread messages.

The rules are the engine's own (store/services/retention_rules.py, store/services/expire_derived.py). Nothing is deleted
here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import local_only
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.log_end import refuse_damaged_ends
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.consumequeue.reader import UnitQueue
from flintmq.store.dispatch.dispatcher import DispatchRules
from flintmq.store.index import reader
from flintmq.store.layout import config_reader, directories
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.layout.store_config import batch_topics
from flintmq.store.read.log_map import LogMap
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.read.undelivered import Undelivered, undelivered
from flintmq.store.services.expire_derived import expired_index, expired_units
from flintmq.store.services.retention_rules import HOUR_MS, RetentionRules, RetentionVerdict, is_hour, may_go

LAST = "stays: the log's last file is never deleted"
NEEDED = "stays: not yet on disk or dispatched as a whole"
NEVER = "stays: no hour in deleteWhen; only a full disk deletes it"
DELIVERY = "(delayed delivery)"  # consumes the schedule topic; config/delayOffset.json has its offsets
WAITS = "waits for the file before it"


@dataclass(frozen=True)
class FileFate:
    file: str
    start: int  # start, size: log offset of its first byte; bytes
    size: int
    written: int | None  # time of its last write (ms); None if it vanished meanwhile
    when: int | None  # time of its deletion (ms); None if nothing known now deletes it
    rule: str  # the reason for deleting or keeping it


@dataclass(frozen=True)
class Unread:
    """Messages of a queue that the next deletion removes."""

    topic: str
    queue_id: int
    messages: int
    group: str | None
    committed: int | None  # next offset that the group will consume; None if it has none in this queue
    unread: int


@dataclass(frozen=True)
class RetentionPlan:
    """The deletions that retention would make.

    Attributes:
        undelivered: messages of the whole store that nobody delivers, by kind.
        damaged: log files are missing, or the log's end is damaged, so that files which are not there may be due too;
            `unknown` says where.
    """

    root: str
    at: int  # the moment that the plan is for (ms)
    rules: dict[str, Any]  # the settings in force, by name
    used: int  # percent used of the fuller disk, of the log's and the queues'
    refuses_puts: bool  # whether puts are refused because of `used`
    now: str  # reason for deleting files at `at`; empty if retention does not run then
    files: list[FileFate]  # the log's files, oldest first
    next_when: int | None  # time of the next deletion (ms); None if nothing is due
    next_files: int
    next_bytes: int
    log_begin: int
    queue_files: int  # queue_files, index_files: numbers of queue and index files deleted after them
    index_files: int
    unread: list[Unread] = field(default_factory=list)  # queues that lose messages then, by group
    queues: int = 0
    unknown: list[str] = field(default_factory=list)  # why `unread` may lack something, one line each
    undelivered: list[Undelivered] = field(default_factory=list)
    damaged: bool = False


def explain(
    path: str | os.PathLike[str], config: StoreConfig, at_ms: int | None = None, used: int | None = None,
    effects: Effects = REAL,
) -> RetentionPlan:  # fmt: skip
    """Compute which files of a store retention would delete.

    Args:
        config: the broker's keys, because its retention is not recorded in the store's files.
        at_ms: the moment (Unix milliseconds); None for now.
        used: percent of the disk in use; None for the measured value.

    Raises UsageError: the moment is in a year that no calendar has.
    """
    try:
        datetime.fromtimestamp((at_ms or 0) / 1000)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{at_ms} ms is in a year that no calendar has; give a time of the years 2 to 9998") from None
    return plan_of(QueueLookup(Snapshot.open(local_only(path), config, effects)), at_ms, used)


@dataclass
class Known:
    """Facts that are found once, as the past does not change.

    `cuts`: queue -> a log offset, and the queue's first offset from there on.
    """

    cuts: dict[QueueName, tuple[int, int]] = field(default_factory=dict)
    gone: LogMap | None = None  # the queues of the log before an offset, read from the log itself


def plan_of(
    lookup: QueueLookup, at_ms: int | None = None, used: int | None = None, known: Known | None = None
) -> RetentionPlan:
    """Compute the same as `explain` for an open store on a local disk."""
    snapshot = lookup.snapshot
    root, config, effects = snapshot.root, snapshot.config, snapshot.effects
    rules, at = RetentionRules.of(config), effects.now_ms() if at_ms is None else at_ms
    used = _disk_used(snapshot) if used is None else used
    verdict = rules.verdict(used, at)
    files = list(_fates(snapshot, rules, verdict, at, effects))
    moments = [fate.when for fate in files if fate.when is not None]
    first = min(moments, default=None)
    going = [fate for fate in files if first is not None and fate.when is not None and fate.when < first + HOUR_MS]
    begin = max((fate.start + fate.size for fate in going), default=lookup.snapshot.log.min_offset)
    queues, damage = sorted(lookup.file_names()), list(_damage(lookup.snapshot))
    known = Known() if known is None else known
    unlisted = _without_files(lookup, begin, known) if going else {}
    return RetentionPlan(
        root,
        at,
        {
            **asdict(rules),
            "hours": sorted(rules.hours),
            "no_hours": [text for text in config.delete_when.split(";") if not is_hour(text)],
            "at_once": config.delete_file_batch_max,
        },
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
        [*_unread(lookup, queues, begin, known), *_unread_in_log(lookup, unlisted)] if going else [],
        len(queues) + len(unlisted),
        [*damage, *_unknown(lookup)],
        undelivered(lookup),
        bool(damage),
    )


def file_fates(snapshot: Snapshot) -> list[FileFate]:
    """Return the fate of each log file of a store on a local disk, as `plan_of` has it."""
    effects = snapshot.effects
    rules, at = RetentionRules.of(snapshot.config), effects.now_ms()
    return list(_fates(snapshot, rules, rules.verdict(_disk_used(snapshot), at), at, effects))


def _disk_used(snapshot: Snapshot) -> int:
    """Return the percent used of the fuller disk, of the log's and the queues'."""
    places = directories.log_directories(snapshot.root, snapshot.config, snapshot.effects)
    logs = [snapshot.effects.disk_used(place.path) for place in places if place.writable]
    return max(min(logs), snapshot.effects.disk_used(snapshot.root))


def _damage(snapshot: Snapshot) -> Iterator[str]:
    """Yield why files of the log may be due that are not there."""
    for begin, end in snapshot.log.gaps()[:1]:
        yield (
            f"{snapshot.log.path_at(begin)[0]}: log files are missing or too short; {end - begin} bytes from log "
            f"offset {begin} on are gone; run `flintmq verify`"
        )
    try:
        refuse_damaged_ends(snapshot.log, snapshot.facts, snapshot.log_end)
    except CorruptStoreError as error:
        yield f"{error.file}, position {error.position}: {error.reason}; run `flintmq verify`"


def _unknown(lookup: QueueLookup) -> list[str]:
    """Return why it is not known what groups have consumed, or which queues there are."""
    snapshot = lookup.snapshot
    problems = snapshot.broker.problems_of(config_reader.OFFSETS, config_reader.LMQ_OFFSETS, config_reader.DELAYS)
    found = [f"{problem.text}: what groups have consumed is not known" for problem in problems]
    for folder, what in directories.in_rocksdb(snapshot.root, snapshot.effects).items():
        if folder in directories.OFFSETS_IN_ROCKSDB:
            found.append(f"{folder}/: {what}, which FlintMQ does not read: what groups have consumed is not known")
    return found


def _without_files(lookup: QueueLookup, begin: int, known: Known) -> dict[QueueName, tuple[int, int]]:
    """Return the queue offsets [low, high) before log offset `begin` of queues without files."""
    if lookup.has_files and not lookup.without_files():
        return {}
    snapshot, gone = lookup.snapshot, known.gone
    if gone is None or (gone.begin, gone.end) != (snapshot.log.min_offset, begin):
        batches = batch_topics(snapshot.root, snapshot.effects, snapshot.broker)
        rules = DispatchRules.of(snapshot.config, batches, deletions=snapshot.deletions)
        gone = known.gone = LogMap(snapshot.log.min_offset, rules)
        gone.extend(snapshot.log, begin)
    names = set(gone.names()) - lookup.file_names()
    return {name: bounds for name in sorted(names) if (bounds := gone.bounds(name)) is not None}


def groups_of(lookup: QueueLookup) -> dict[str, list[tuple[str, dict[int, int]]]]:
    """Return topic -> (group, its offset in each queue), by name of group."""
    broker = lookup.snapshot.broker
    groups: dict[str, list[tuple[str, dict[int, int]]]] = {}
    for (topic, group), offsets in broker.consumer_offsets.items():
        groups.setdefault(topic, []).append((group, dict(offsets)))
    for (topic, group), offset in broker.lmq_offsets.items():
        groups.setdefault(topic, []).append((group, {0: offset}))
    groups[SCHEDULE_TOPIC] = [(DELIVERY, {level - 1: offset for level, offset in broker.delay_offsets.items()})]
    return {topic: sorted(found, key=itemgetter(0)) for topic, found in groups.items()}


def _unread_in_log(lookup: QueueLookup, bounds: dict[QueueName, tuple[int, int]]) -> Iterator[Unread]:
    """Yield as `_unread` for queues without files."""
    groups = groups_of(lookup)
    for name, (first, low) in bounds.items():
        yield from _of_groups(name, groups.get(name.topic), first, low)


def _of_groups(
    name: QueueName, groups: list[tuple[str, dict[int, int]]] | None, first: int, low: int
) -> Iterator[Unread]:
    """Yield what each group has not consumed of the queue offsets [first, low)."""
    for group, offsets in sorted(groups or ()):
        at = offsets.get(name.queue_id)
        yield Unread(*name, low - first, group, at, max(0, low - max(at or 0, first)))
    if groups is None:
        yield Unread(*name, low - first, None, None, low - first)


def _fates(
    snapshot: Snapshot, rules: RetentionRules, verdict: RetentionVerdict, at: int, effects: Effects
) -> Iterator[FileFate]:
    """Yield each log file's fate in the engine's order: a file that stays keeps all after it."""
    end, files = snapshot.end, list(snapshot.log.files)
    files = [file for n, file in enumerate(files) if n == 0 or file.start < end]  # without files allocated ahead
    earliest: int | None = at
    for number, file in enumerate(files):
        written = effects.modified_ms(file.path)
        when, rule = _fate(len(files) - number, file, end, written, rules, verdict, at)
        if when is None or earliest is None:
            if earliest is None and when is not None:
                rule = WAITS
            when = earliest = None
        else:
            when = earliest = max(when, earliest)
        yield FileFate(file.path, file.start, file.size, written, when, rule)


def _fate(
    left: int, file: LogFile, end: int, written: int | None, rules: RetentionRules, verdict: RetentionVerdict, at: int
) -> tuple[int | None, str]:
    """Return (when, rule) for the oldest of `left` remaining files."""
    if not may_go(left, file.start + file.size, end):
        return None, LAST if left == 1 else NEEDED
    if verdict.forced:
        return at, verdict.forced
    if written is None:
        return None, "stays: its last write time is unknown"
    due = rules.due(written)
    if verdict.reason and rules.expired(written, at):
        return at, rules.expired(written, at)
    when = max(due, at) if verdict.needs_space else rules.next_time(max(due, at))
    return when, NEVER if when is None else rules.expired(written, when)


def _unread(lookup: QueueLookup, queues: list[QueueName], begin: int, known: Known) -> Iterator[Unread]:
    """Yield the messages each queue loses once the log begins at `begin`, by consumer group."""
    groups, cuts = groups_of(lookup), known.cuts
    for name in queues:
        first, stop, _ = lookup.file_bounds(name)
        if cuts.get(name, (None,))[0] != begin:
            with lookup.units(name).held() as units:
                cut = _first_offset(units, begin, stop)
            if cut < stop:
                cuts[name] = begin, cut
            else:
                cuts.pop(name, None)
        low = min(max(cuts[name][1] if name in cuts else stop, first), stop)
        if low > first:
            yield from _of_groups(name, groups.get(name.topic), first, low)


def _first_offset(units: UnitQueue, begin: int, stop: int) -> int:
    """Return the first queue offset whose record is at log offset `begin` or later, else `stop`."""
    number = units.first_kept(begin, units.end())
    unit = units.unit(number)
    return units.span(number, unit)[0] if unit is not None and units.points_to_record(unit) else stop

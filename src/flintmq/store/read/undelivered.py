"""Counts the messages of a store that are not in their topic yet.

RocketMQ's broker brings some messages to their topic only later: when a timer is due, when a transaction is settled,
when what a pop took was not acknowledged. FlintMQ delivers delay levels and timers, and half messages once their
senders say so; so a line says it when a store with others of these is opened, inspected, or about to expire. What waits
for a timer is said only where nobody looks after it.

Upstream: TimerMessageStore (wheel and timer topic), TransactionalMessageServiceImpl.check (half and outcome topics),
PopReviveService.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, FormatError, StoreAccessError
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import HALF_GROUP, HALF_TOPIC, OUTCOME_TOPIC
from flintmq.format.text import java_decode, java_int
from flintmq.format.timer import TIMER_TOPIC, UNIT_DELETES, TimerCheck
from flintmq.message import StoredMessage
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout import config_reader, timer_files
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup, hidden_text, lacking_text
from flintmq.store.read.timer_units import timer_units

POP_TOPIC, POP_GROUP = "rmq_sys_REVIVE_LOG", "CID_RMQ_SYS_REVIVE_GROUP"
MOST_READ = 10_000  # outcomes: more leave the number of half messages an upper bound; and timers without a unit

TIMERS, HALVES, DELAYS, POPS = "timer-waiting", "halves-unsettled", "delays-waiting", "pops-unsettled"
COMPACTED = "compacted"
ByKind = defaultdict[str, list[QueueName]]
Count = Callable[[QueueLookup, list[QueueName]], tuple[int, bool]]
_TEXTS = {
    TIMERS: "messages wait for a timer: nobody delivers them until the store is opened to be written",
    HALVES: "half messages are neither committed nor rolled back: nobody gets them before their senders say so",
    DELAYS: "messages wait in delay levels that this messageDelayLevel does not have: nobody delivers them",
    POPS: "records of pop consumption are not settled: what was taken and not acknowledged comes to nobody again",
}


@dataclass(frozen=True, slots=True)
class Undelivered:
    kind: str
    messages: int | None  # None: not known, `text` says why
    exact: bool  # False: at most so many
    text: str


class _NotKnownError(Exception):
    """The number is not known: what is lost or damaged may hide some."""


def undelivered(
    lookup: QueueLookup, clean: bool | None = None, kinds: Sequence[str] = (*_TEXTS, COMPACTED)
) -> list[Undelivered]:
    """Return what waits in a store, by kind; an empty list if nothing does.

    Where damage may hide some, their number is not known, which is no error.

    `clean`: whether it stopped cleanly, before it was opened; None: as it is now.
    """
    queues, found = cache(partial(_queues, lookup)), list[Undelivered]()
    counts: dict[str, Count] = {TIMERS: partial(_timers, clean=clean), HALVES: _halves, DELAYS: _delays, POPS: _pops}
    for kind in kinds:
        try:
            if kind == COMPACTED:
                found += _compacted(lookup.snapshot)
                continue
            names, missing = (one[kind] for one in queues())
            if missing:
                raise _NotKnownError(lacking_text(missing))
            for name in names:
                if (lost := lookup.lost_outside(name, thorough=False)) is not None:
                    raise _NotKnownError(hidden_text(name, lost))
            messages, exact = counts[kind](lookup, names)
        except (StoreAccessError, CorruptStoreError, FormatError, OSError, _NotKnownError) as error:
            what = _TEXTS.get(kind, "topics are compacted").partition(":")[0]
            found.append(Undelivered(kind, None, False, f"how many {what} is not known: {error}"))
        else:
            text = f"{'' if exact else 'up to '}{messages} {_TEXTS[kind]}"
            found += [Undelivered(kind, messages, exact, text)] if messages else []
    return found


def at_opening(
    root: str, config: StoreConfig, effects: Effects, places: Iterable[tuple[bytes, int]], clean: bool
) -> list[str]:
    """Return the lines to log when a store with these queues is opened.

    Nothing is read if no queue is of such a topic, and who opens it runs timers.
    """
    names = (QueueName(java_decode(topic), queue_id) for topic, queue_id in places)
    cared_for = {TIMERS} if config.timer_wheel_enable else set()
    if _by_kind(names, len(config.delay_ms)).keys() <= cared_for:
        return []
    try:
        found = undelivered(QueueLookup(Snapshot(root, config, effects)), clean)
        return [one.text for one in found if one.kind not in cared_for]
    except (CorruptStoreError, FormatError, StoreAccessError) as error:
        return [f"what waits for a timer or for the end of a transaction is not known: {error}"]


def _by_kind(names: Iterable[QueueName], levels: int) -> ByKind:
    """Return the queues that say what somebody is to deliver, by kind."""
    found: ByKind = defaultdict(list)
    for name in names:
        kind = {TIMER_TOPIC: TIMERS, HALF_TOPIC: HALVES, OUTCOME_TOPIC: HALVES}.get(name.topic)
        if name.topic == SCHEDULE_TOPIC and name.queue_id >= levels:
            kind = DELAYS
        elif name.topic.startswith(POP_TOPIC):
            kind = POPS
        if kind is not None:
            found[kind].append(name)
    for one in found.values():
        one.sort()
    return found


def _queues(lookup: QueueLookup) -> tuple[ByKind, ByKind]:
    """Return the queues that there are, and those that lack their directory."""
    levels = len(lookup.snapshot.config.delay_ms)
    return _by_kind(lookup.names(), levels), _by_kind(lookup.without_files(), levels)


def _timers(lookup: QueueLookup, names: list[QueueName], clean: bool | None) -> tuple[int, bool]:
    """Return the messages that wait, with a unit in the timer log or not yet."""
    bounds = [lookup.bounds(name) for name in names]
    if not any(one.max > one.min for one in bounds):
        return 0, True
    usable = timer_files.usable_check(lookup.snapshot.root, lookup.snapshot.effects)
    clean = lookup.snapshot.facts.clean if clean is None else clean
    check, lost, waiting = usable or TimerCheck(), list[str](), 0
    for unit in timer_units(lookup, check, partial(_records, lookup, names[0]), lost.append):
        if usable and unit.slot_time >= check.last_read_time:
            waiting += -1 if unit.magic & UNIT_DELETES else 1
    if lost:
        raise _NotKnownError(lost[0])
    queued = sum(max(0, one.max - max(one.min, check.queue_offset)) for one in bounds)
    return max(waiting, 0) + queued, clean and (check.queue_offset > 0 or not queued)


def _records(lookup: QueueLookup, name: QueueName, begin: int | None, end: int | None) -> Iterator[StoredMessage]:
    """Yield the messages of a queue between two offsets, all of which can be read."""
    low, high, _ = lookup.bounds(name)
    low, high = max(low, begin or 0), high if end is None else min(high, end)
    for offset in range(low, high):
        if offset == low + MOST_READ:
            raise _NotKnownError(f"the timer log lacks {MOST_READ} messages or more; run `flintmq timers`")
        if (found := lookup.message(name, offset)) is None:
            raise _NotKnownError(f"offset {offset} of {name.topic} cannot be read; run `flintmq verify`")
        yield found


def _halves(lookup: QueueLookup, names: list[QueueName]) -> tuple[int, bool]:
    """Return the half messages not yet checked, without those that an outcome names."""
    offsets = lookup.snapshot.broker.consumer_offsets
    checked, outcomes = offsets.get((HALF_TOPIC, HALF_GROUP), {}), offsets.get((OUTCOME_TOPIC, HALF_GROUP), {})
    found = 0
    exact = not lookup.snapshot.broker.problems_of(config_reader.OFFSETS, config_reader.LMQ_OFFSETS)
    for name in (name for name in names if name.topic == HALF_TOPIC):
        bounds, other = lookup.bounds(name), QueueName(OUTCOME_TOPIC, name.queue_id)
        begin = max(bounds.min, checked.get(name.queue_id, 0))
        if begin >= bounds.max:
            continue
        first, stop, _ = lookup.bounds(other)
        first = max(first, outcomes.get(name.queue_id, 0))
        exact = exact and stop - first <= MOST_READ
        records = [lookup.message(other, offset) for offset in range(first, min(stop, first + MOST_READ))]
        exact = exact and None not in records
        texts = (text for record in records if record is not None for text in record.body.decode("latin-1").split(","))
        settled = {number for text in texts if (number := java_int(text, 64)) is not None}
        found += sum(offset not in settled for offset in range(begin, bounds.max))
    return found, exact


def _delays(lookup: QueueLookup, names: list[QueueName]) -> tuple[int, bool]:
    """Return the messages in delay levels that the configuration does not have."""
    found, broker = 0, lookup.snapshot.broker
    for name in names:
        bounds = lookup.bounds(name)
        found += max(0, bounds.max - max(bounds.min, broker.delay_offsets.get(name.queue_id + 1, 0)))
    return found, not broker.problems_of(config_reader.DELAYS)


def _pops(lookup: QueueLookup, names: list[QueueName]) -> tuple[int, bool]:
    found = 0
    for name in names:
        bounds = lookup.bounds(name)
        committed = lookup.snapshot.broker.consumer_offsets.get((name.topic, POP_GROUP), {}).get(name.queue_id, 0)
        found += max(0, bounds.max - max(bounds.min, committed))
    return found, False


def _compacted(snapshot: Snapshot) -> list[Undelivered]:
    folder = os.path.join(snapshot.root, "compaction", "compactionLog")
    text = f"{folder}: the last messages of compacted topics, which FlintMQ does not read; it serves the log alone"
    return [Undelivered(COMPACTED, 0, False, text)] if snapshot.effects.listdir(folder) else []

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
from collections.abc import Iterable
from dataclasses import dataclass

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, FormatError, StoreAccessError
from flintmq.format import timer
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import HALF_GROUP, HALF_TOPIC, OUTCOME_TOPIC
from flintmq.format.text import java_decode, java_int
from flintmq.format.timer import TIMER_TOPIC
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout import config_reader, timer_files
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup

POP_TOPIC, POP_GROUP = "rmq_sys_REVIVE_LOG", "CID_RMQ_SYS_REVIVE_GROUP"
MOST_OUTCOMES = 10_000  # that are read; more of them leave the number of half messages an upper bound

TIMERS, HALVES, DELAYS, POPS = "timer-waiting", "halves-unsettled", "delays-waiting", "pops-unsettled"
COMPACTED = "compacted"
_TEXTS = {
    TIMERS: "messages wait for a timer: nobody delivers them until the store is opened to be written",
    HALVES: "half messages are neither committed nor rolled back: nobody gets them before their senders say so",
    DELAYS: "messages wait in delay levels that this messageDelayLevel does not have: nobody delivers them",
    POPS: "records of pop consumption are not settled: what was taken and not acknowledged comes to nobody again",
}


@dataclass(frozen=True, slots=True)
class Undelivered:
    kind: str
    messages: int
    exact: bool  # False: at most so many
    text: str


def undelivered(lookup: QueueLookup, clean: bool | None = None) -> list[Undelivered]:
    """Return what waits in a store, by kind; an empty list if nothing does.

    `clean`: whether it stopped cleanly, before it was opened; None: as it is now.
    """
    snapshot = lookup.snapshot
    names = _by_kind(lookup.names(), len(snapshot.config.delay_ms))
    found = [
        _counted(TIMERS, *_timers(lookup, names[TIMERS], snapshot.facts.clean if clean is None else clean)),
        _counted(HALVES, *_halves(lookup, names[HALVES])),
        _counted(DELAYS, _delays(lookup, names[DELAYS]), not snapshot.broker.problems_of(config_reader.DELAYS)),
        unsettled_pops(lookup),
    ]
    folder = os.path.join(snapshot.root, "compaction", "compactionLog")
    if snapshot.effects.listdir(folder):
        text = f"{folder}: the last messages of compacted topics, which FlintMQ does not read; it serves the log alone"
        found.append(Undelivered(COMPACTED, 0, False, text))
    return [one for one in found if one is not None]


def unsettled_pops(lookup: QueueLookup) -> Undelivered | None:
    """Return the records of pops that are not settled, or None."""
    return _counted(POPS, _pops(lookup, _by_kind(lookup.names(), 0)[POPS]), False)


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


def _by_kind(names: Iterable[QueueName], levels: int) -> defaultdict[str, list[QueueName]]:
    """Return the queues whose messages somebody is to deliver, by kind."""
    found: defaultdict[str, list[QueueName]] = defaultdict(list)
    for name in names:
        kind = {TIMER_TOPIC: TIMERS, HALF_TOPIC: HALVES}.get(name.topic)
        if name.topic == SCHEDULE_TOPIC and name.queue_id >= levels:
            kind = DELAYS
        elif name.topic.startswith(POP_TOPIC):
            kind = POPS
        if kind is not None:
            found[kind].append(name)
    for one in found.values():
        one.sort()
    return found


def _counted(kind: str, messages: int, exact: bool) -> Undelivered | None:
    number = f"{messages}" if exact else f"up to {messages}"
    return Undelivered(kind, messages, exact, f"{number} {_TEXTS[kind]}") if messages else None


def _timers(lookup: QueueLookup, names: list[QueueName], clean: bool) -> tuple[int, bool]:
    """Return the messages that wait, with a unit in the timer log or not yet."""
    snapshot = lookup.snapshot
    root, effects = snapshot.root, snapshot.effects
    bounds = [lookup.bounds(name) for name in names]
    if not any(one.max > one.min for one in bounds):
        return 0, True
    check, files = timer_files.read_check(root, effects), timer_files.log_files(root, effects)
    waiting = 0
    for _, unit in timer_files.log_units(files, snapshot.end, effects):
        if unit.slot_time >= check.last_read_time:
            waiting += -1 if unit.magic & timer.UNIT_DELETES else 1
    queued = sum(max(0, one.max - max(one.min, check.queue_offset)) for one in bounds)
    return max(waiting, 0) + queued, clean and (check.queue_offset > 0 or not queued)


def _halves(lookup: QueueLookup, names: list[QueueName]) -> tuple[int, bool]:
    """Return the half messages not yet checked, without those that an outcome names."""
    offsets = lookup.snapshot.broker.consumer_offsets
    checked, outcomes = offsets.get((HALF_TOPIC, HALF_GROUP), {}), offsets.get((OUTCOME_TOPIC, HALF_GROUP), {})
    found = 0
    exact = not lookup.snapshot.broker.problems_of(config_reader.OFFSETS, config_reader.LMQ_OFFSETS)
    for name in names:
        bounds, other = lookup.bounds(name), QueueName(OUTCOME_TOPIC, name.queue_id)
        begin = max(bounds.min, checked.get(name.queue_id, 0))
        if begin >= bounds.max:
            continue
        first, stop, _ = lookup.bounds(other)
        first = max(first, outcomes.get(name.queue_id, 0))
        exact = exact and stop - first <= MOST_OUTCOMES
        records = (lookup.message(other, offset) for offset in range(first, min(stop, first + MOST_OUTCOMES)))
        texts = (text for record in records if record is not None for text in record.body.decode("latin-1").split(","))
        settled = {number for text in texts if (number := java_int(text, 64)) is not None}
        found += sum(offset not in settled for offset in range(begin, bounds.max))
    return found, exact


def _delays(lookup: QueueLookup, names: list[QueueName]) -> int:
    """Return the messages in delay levels that the configuration does not have."""
    found, offsets = 0, lookup.snapshot.broker.delay_offsets
    for name in names:
        bounds = lookup.bounds(name)
        found += max(0, bounds.max - max(bounds.min, offsets.get(name.queue_id + 1, 0)))
    return found


def _pops(lookup: QueueLookup, names: list[QueueName]) -> int:
    found = 0
    for name in names:
        bounds = lookup.bounds(name)
        committed = lookup.snapshot.broker.consumer_offsets.get((name.topic, POP_GROUP), {}).get(name.queue_id, 0)
        found += max(0, bounds.max - max(bounds.min, committed))
    return found

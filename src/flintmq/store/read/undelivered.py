"""Counts the messages of a store that nobody will deliver as long as FlintMQ runs it.

RocketMQ's broker brings some messages to their topic only later: when a timer is due, when a transaction is settled,
when what a pop took was not acknowledged. FlintMQ delivers delay levels, and half messages once their senders say so;
so a line says it when a store with others of these is opened, inspected, or about to expire.

Upstream: TimerMessageStore (wheel and timer topic), TransactionalMessageServiceImpl.check (half and outcome topics),
PopReviveService.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
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
from flintmq.store.layout import config_reader, directories
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup

POP_TOPIC, POP_GROUP = "rmq_sys_REVIVE_LOG", "CID_RMQ_SYS_REVIVE_GROUP"
MOST_OUTCOMES = 10_000  # that are read; more of them leave the number of half messages an upper bound
_BLOCK = 32_768 * timer.WHEEL_SLOT.size

TIMERS, HALVES, DELAYS, POPS = "timer-waiting", "halves-unsettled", "delays-waiting", "pops-unsettled"
COMPACTED = "compacted"
_TEXTS = {
    TIMERS: "messages wait for a timer, which FlintMQ does not run: nobody delivers them until a RocketMQ broker does",
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
        _counted(POPS, _pops(lookup, names[POPS]), False),
    ]
    folder = os.path.join(snapshot.root, "compaction", "compactionLog")
    if snapshot.effects.listdir(folder):
        text = f"{folder}: the last messages of compacted topics, which FlintMQ does not read; it serves the log alone"
        found.append(Undelivered(COMPACTED, 0, False, text))
    return [one for one in found if one is not None]


def at_opening(
    root: str, config: StoreConfig, effects: Effects, places: Iterable[tuple[bytes, int]], clean: bool
) -> list[str]:
    """Return the lines to log when a store with these queues is opened.

    Nothing is read if no queue is of such a topic.
    """
    names = (QueueName(java_decode(topic), queue_id) for topic, queue_id in places)
    if not _by_kind(names, len(config.delay_ms)):
        return []
    try:
        return [one.text for one in undelivered(QueueLookup(Snapshot(root, config, effects)), clean)]
    except (CorruptStoreError, FormatError, StoreAccessError) as error:
        return [f"what waits for a timer or for the end of a transaction is not known: {error}"]


def _by_kind(names: Iterable[QueueName], levels: int) -> defaultdict[str, list[QueueName]]:
    """Return the queues whose messages somebody is to deliver, and FlintMQ does not, by kind."""
    found: defaultdict[str, list[QueueName]] = defaultdict(list)
    for name in sorted(names):
        kind = {TIMER_TOPIC: TIMERS, HALF_TOPIC: HALVES}.get(name.topic)
        if name.topic == SCHEDULE_TOPIC and name.queue_id >= levels:
            kind = DELAYS
        elif name.topic.startswith(POP_TOPIC):
            kind = POPS
        if kind is not None:
            found[kind].append(name)
    return found


def _counted(kind: str, messages: int, exact: bool) -> Undelivered | None:
    number = f"{messages}" if exact else f"up to {messages}"
    return Undelivered(kind, messages, exact, f"{number} {_TEXTS[kind]}") if messages else None


def _timers(lookup: QueueLookup, names: list[QueueName], clean: bool) -> tuple[int, bool]:
    """Return the messages in the wheel that are not delivered, and those not in it yet."""
    snapshot = lookup.snapshot
    root, effects = snapshot.root, snapshot.effects
    try:
        data = effects.read_file(os.path.join(root, directories.CONFIG, "timercheck"), timer.TIMER_CHECK_SIZE)
        check = timer.decode_check(data or b"")
    except FormatError:
        check = timer.TimerCheck()
    bounds = [lookup.bounds(name) for name in names]
    path = os.path.join(root, "timerwheel")
    if effects.size(path) is None:  # RocketMQ makes a new one of the whole topic
        return sum(one.max - one.min for one in bounds), False
    precision = max(snapshot.config.timer_precision_ms, 1)
    slots = (slot for slot in _slots(path, effects) if slot.moment * precision >= check.last_read_time)
    waiting = max(0, sum(slot.messages for slot in slots))
    queued = sum(max(0, one.max - max(one.min, check.queue_offset)) for one in bounds)
    return waiting + queued, clean


def _slots(path: str, effects: Effects) -> Iterator[timer.WheelSlot]:
    """Yield the slots of a wheel that were ever used."""
    with effects.reading(path) as fd:
        at = 0
        while (start := effects.next_data(fd, at)) is not None and start < timer.WHEEL_SIZE:
            start -= start % timer.WHEEL_SLOT.size
            data = effects.pread(fd, min(_BLOCK, timer.WHEEL_SIZE - start), start)
            for place in range(0, len(data) - timer.WHEEL_SLOT.size + 1, timer.WHEEL_SLOT.size):
                if any(data[place : place + 8]):
                    yield timer.WHEEL_SLOT.unpack(data, place)
            at = start + max(len(data), timer.WHEEL_SLOT.size)


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

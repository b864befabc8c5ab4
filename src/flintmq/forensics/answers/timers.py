"""Lists what waits for its time: in delay levels, and for timers.

Of a delay level wait the messages of its queue from the offset of `config/delayOffset.json` on. For timers wait the
units of the timer log whose slot is not over, without those that a later unit recalls, and the records that have no
unit yet. Units say the time and the place; so only those records are read that are shown. Upstream:
ScheduleMessageService, TimerMessageStore.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.answers.answer import Answer, each_view, member_words
from flintmq.forensics.answers.reading import queue_messages
from flintmq.forensics.answers.steps import DELAY, TIMER, MessageStep, step_of
from flintmq.format import properties
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.timer import TIMER_TOPIC, UNIT_DELETES, TimerCheck
from flintmq.message import StoredMessage
from flintmq.store.layout import config_reader, timer_files
from flintmq.store.layout.directories import in_rocksdb
from flintmq.store.read.timer_units import due_ms, timer_units
from flintmq.store.view import StoreView

TIMERS_IN_ROCKSDB: Final = "rocksdbstore"
RECALLS_MAX: Final = 10_000  # that are looked at


@dataclass(frozen=True)
class WaitingMessage:
    """A message that waits for its time.

    Attributes:
        source: "delay" or "timer".
        due_ms: when it is delivered; None: the level is none of messageDelayLevel, so nobody delivers it.
        level: delay level; None of a timer.
        topic, queue_id: where it is delivered; empty and -1 if it names no topic.
        group: that gave it back: it is a retry of this group. Empty: it is delivered the first time.
        stored_ms, physical_offset: of the record in which it waits.
        broker, store: of several stores; empty for one.
    """

    source: str
    due_ms: int | None
    level: int | None
    topic: str
    queue_id: int
    group: str
    keys: str | None
    msg_id: str | None
    stored_ms: int
    physical_offset: int
    broker: str
    store: str


class _WaitingRecord(NamedTuple):
    """A record that waits, ordered by its time."""

    due_ms: int
    physical_offset: int
    record: StoredMessage | None  # None: not read yet


def timers(
    members: Sequence[Member], config: StoreConfig | None = None, *, limit: int | None = None
) -> Answer[WaitingMessage]:
    """Return what waits for its time, first what is due first.

    Counts: `delay` and `timer`, all that wait.

    Args:
        limit: at most so many of each store; None: all.

    Raises:
        NotAStoreError, StoreAccessError: as open_store.
    """
    answer = Answer[WaitingMessage](WaitingMessage)
    for member, view in each_view(members, config, answer):
        most = None if limit is None else limit + 1
        found = heapq.merge(_delayed(view, most, answer), _timed(view, most, answer), key=_moment)
        steps = [_read(view, one) for one in islice(found, limit)]
        answer.is_cut = any(_read(view, one) is not None for one in found) or answer.is_cut
        answer.rows += [_row(step, member_words(member)) for step in steps if step is not None]
        if None in steps:
            answer.lost(f"{member.path}: {steps.count(None)} messages that wait cannot be read; run `flintmq verify`")
    answer.rows.sort(key=lambda row: (row.due_ms is None, row.due_ms or 0))
    return answer


def _row(step: MessageStep, words: tuple[str, str]) -> WaitingMessage:
    level = step.stored_queue + 1 if step.source == DELAY else None
    return WaitingMessage(
        step.source or "", step.due_ms, level, step.topic, step.queue_id, step.group, step.keys, step.msg_id,
        step.store_timestamp, step.physical_offset, *words,
    )  # fmt: skip


def _read(view: StoreView, one: _WaitingRecord) -> MessageStep | None:
    record = _record(view, one)
    return None if record is None else step_of(record, view.config.delay_ms)


def _delayed(view: StoreView, limit: int | None, answer: Answer[WaitingMessage]) -> list[_WaitingRecord]:
    """Return what waits in delay levels; of each level the first, which are due first."""
    broker, delays = view.broker, view.config.delay_ms
    found = []
    view.read_log_of(SCHEDULE_TOPIC)
    for problem in broker.problems_of(config_reader.DELAYS) if view.queues(SCHEDULE_TOPIC) else ():
        answer.lost(f"{problem.text}: messages that were delivered long ago may seem to wait")
    for level, offset in broker.delay_offsets.items():
        end = view.bounds(SCHEDULE_TOPIC, level - 1)[1]
        if config_reader.is_outside(offset, end) and not view._now.snapshot.facts.live:
            place = f"delay level {level}", SCHEDULE_TOPIC, level - 1, offset, end
            answer.lost(f"{view.root}: {config_reader.OutsideOffset(config_reader.DELAYS, *place).text}")
    for queue in view.queues(SCHEDULE_TOPIC):
        begin = broker.delay_offsets.get(queue.queue_id + 1, 0)
        answer.count(DELAY, max(queue.max_offset - max(queue.min_offset, begin), 0))
        level_ms = delays[queue.queue_id] if queue.queue_id < len(delays) else 1 << 62  # nobody delivers it
        records = queue_messages(view, SCHEDULE_TOPIC, queue.queue_id, begin, answer.report)
        found += [
            _WaitingRecord(record.store_timestamp + level_ms, record.physical_offset, record)
            for record in islice(records, limit)
        ]
    return sorted(found, key=_moment)


def _timed(view: StoreView, limit: int | None, answer: Answer[WaitingMessage]) -> list[_WaitingRecord]:
    """Return what waits for timers, the first that are due."""
    snapshot = view._now.snapshot
    if TIMERS_IN_ROCKSDB in in_rocksdb(snapshot.root, snapshot.effects):
        answer.note(f"{TIMERS_IN_ROCKSDB}/: timers may be in RocksDB, which FlintMQ does not read")
    view.read_log_of(TIMER_TOPIC)
    if not view.queues(TIMER_TOPIC):
        return []
    marks: list[StoredMessage | None] = []  # what recalls a message that waits
    waiting = _in_timers(view, marks, answer)
    if limit is None:
        found = sorted(waiting, key=_moment)
    else:
        found = heapq.nsmallest(limit + RECALLS_MAX, waiting, key=_moment)
    recalled = {(due_ms(mark), mark.properties.get(properties.TIMER_DEL_UNIQKEY)) for mark in marks if mark is not None}
    return [one for one in found if not recalled or not _is_recalled(_record(view, one), recalled)][:limit]


def _in_timers(
    view: StoreView, marks: list[StoredMessage | None], answer: Answer[WaitingMessage]
) -> Iterator[_WaitingRecord]:
    """Yield what waits for timers; recalls are added to `marks`."""
    snapshot = view._now.snapshot
    usable = timer_files.usable_check(snapshot.root, snapshot.effects)
    check = usable or TimerCheck()
    files = timer_files.log_files(snapshot.root, snapshot.effects)
    if usable is None and (files or snapshot.facts.mark.flushed is None):  # FlintMQ writes it with the first unit
        lost = f"{view.root}/config/{timer_files.CHECK}: it is missing, or cannot be used"
        answer.lost(f"{lost}: messages that were delivered long ago may seem to wait")

    def records(begin: int | None, end: int | None = None) -> Iterator[StoredMessage]:
        return queue_messages(view, TIMER_TOPIC, 0, begin, answer.report, end)

    # After a kill, and while a broker runs, the last records may have a unit although the check does not say so.
    without = records(check.queue_offset)
    first = next(without, None)
    known = set[int]()
    for unit in timer_units(view._now, check, records, answer.lost):
        if first is not None and unit.physical_offset >= first.physical_offset:
            known.add(unit.physical_offset)
        if unit.slot_time < check.last_read_time:
            continue
        if unit.magic & UNIT_DELETES:
            _mark(marks, snapshot.record(unit.physical_offset), answer)
        else:
            answer.count(TIMER, 1)
            yield _WaitingRecord(unit.slot_time, unit.physical_offset, None)
    for record in chain([] if first is None else [first], without):
        if record.physical_offset in known:
            continue
        if properties.TIMER_DEL_UNIQKEY in record.properties:
            _mark(marks, record, answer)
        else:
            answer.count(TIMER, 1)
            yield _WaitingRecord(due_ms(record), record.physical_offset, record)


def _mark(marks: list[StoredMessage | None], record: StoredMessage | None, answer: Answer[WaitingMessage]) -> None:
    answer.count(TIMER, -1)
    if len(marks) < RECALLS_MAX:
        marks.append(record)
    else:
        answer.note(f"more than {RECALLS_MAX} messages were recalled; some of those that are shown may be among them")


def _moment(one: _WaitingRecord) -> tuple[int, int]:
    return one[:2]


def _record(view: StoreView, one: _WaitingRecord) -> StoredMessage | None:
    return one.record or view._now.snapshot.record(one.physical_offset)


def _is_recalled(record: StoredMessage | None, recalled: set[tuple[int, str | None]]) -> bool:
    """Return whether a message was recalled.

    5.3.3 names topic and id, later versions the id alone.
    """
    if record is None:
        return False
    due, key = due_ms(record), record.msg_id
    return (due, key) in recalled or (due, f"{record.properties.get(properties.REAL_TOPIC)}+{key}") in recalled

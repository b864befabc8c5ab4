"""Finds all records of the messages that are asked for.

By one pass over each log, or by the index.

A key, an id and a property stay with a message through all its records. So the records that hold the text are found by
its bytes, and only those are decoded. With a topic and a key the index answers, if it covers the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flintmq.errors import UsageError
from flintmq.forensics.answers.answer import Answer
from flintmq.forensics.answers.reading import first_copy, queue_messages
from flintmq.forensics.answers.steps import MessageStep, StepKind, step_of
from flintmq.format import properties
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import GIVEN_UP_TOPIC, HALF_TOPIC, OF_GROUPS, is_system_topic
from flintmq.format.text import java_encode
from flintmq.format.timer import TIMER_TOPIC
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.commitlog.zones import zones_for
from flintmq.store.read.key_query import KeyQuery
from flintmq.store.read.log_map import records_with
from flintmq.store.view import StoreView

STEPS_KEPT: Final = 1000  # of one message
SEARCHED_MAX: Final = 1 << 30  # bytes that a walk reads in the time of the searches through an index, at most
FILE_BYTES: Final = 1 << 20  # that it reads in the time of a look into one index file
WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, GIVEN_UP_TOPIC)
RECALLS: Final = properties.TIMER_DEL_UNIQKEY.encode()
_OF_FIRST = (StepKind.STORED, StepKind.WAITS, StepKind.HALF)


class PlacedStep(NamedTuple):
    store: int  # number of the store
    step: MessageStep


@dataclass(frozen=True)
class TraceAsked:
    """The messages that are asked for: those that match every given part.

    Attributes:
        key: one of its keys, or its unique id.
        id: its unique id, the id of its transaction, or the offset message id of one of its records.
        property: name and value.
        topic: that consumers ask for, not one in which it waits.
        since, until: of its first record that counts, [since, until) in ms.
        limit: at most so many messages, those that were stored first; None: all.
    """

    key: str | None = None
    id: str | None = None
    property: tuple[str, str] | None = None
    topic: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int | None = None

    def check(self) -> None:
        """Raise UsageError if nothing is asked for, or what no message can have."""
        if not (self.key or self.id or self.topic or (self.property and all(self.property))):
            raise UsageError("which messages? give --key, --id, --property NAME=VALUE, or --topic")
        if self.topic and not is_sent_to(self.topic):
            raise UsageError(
                f"{self.topic[:100]!a} is no topic that messages are sent to; name the one that consumers ask for, or "
                "use `flintmq dead`, `flintmq halves`, `flintmq timers`"
            )


def is_sent_to(topic: str) -> bool:
    """Return whether clients send messages to a topic of this name."""
    return not (topic.startswith(OF_GROUPS) or is_system_topic(topic))


@dataclass
class Collected:
    """Steps by message, in the order in which the messages were first seen.

    `place_id`: the offset message id that was asked for; other messages may have the sender's id of its message.
    """

    asked: TraceAsked
    answer: Answer[object]
    steps: dict[str, list[PlacedStep]] = field(default_factory=dict)
    place_id: str | None = None
    _other_ids: dict[str, str] = field(default_factory=dict)  # offset message id -> message, without the sender's id

    def is_beyond(self, record: StoredMessage) -> bool:
        """Return whether a record is of none of the messages that are kept."""
        return record.msg_id is not None and record.msg_id not in self.steps and RECALLS not in record.raw

    def add(self, store: int, step: MessageStep) -> None:
        asked, message = self.asked, self._other_ids.get(step.message, step.message)
        known = self.steps.get(message)
        if known is None:
            is_late = asked.until is not None and step.store_timestamp >= asked.until
            if is_late or (step.kind not in _OF_FIRST and (asked.since is not None or self.answer.is_cut)):
                return  # of a message that was not asked for
            if asked.limit is not None and len(self.steps) >= asked.limit:
                self.answer.is_cut = True
                return
            known = self.steps[message] = []
        if len(known) >= STEPS_KEPT:
            self.answer.note(f"message {message[:100]}: it has more than {STEPS_KEPT} records; the others are left out")
            return
        known.append(PlacedStep(store, step))
        if step.kind is StepKind.STORED and step.msg_id is None:
            self._other_ids[step.offset_msg_id] = message


def collect(views: Sequence[StoreView], asked: TraceAsked, answer: Answer[object]) -> Collected:
    """Find the steps of the messages that are asked for."""
    asked.check()
    found, ids, firsts = Collected(asked, answer), set[str](), list[tuple[int, StoredMessage]]()
    if asked.id:
        named = enumerate(first_copy(view, asked.id) for view in views)
        firsts = [(number, one) for number, one in named if one is not None]
        found.place_id = asked.id.upper() if firsts else None
        ids = {asked.id, asked.id.upper()} | {one.msg_id or one.offset_msg_id for _, one in firsts}
    for number, view in enumerate(views):
        seen = {record.physical_offset for store, record in firsts if store == number and not record.msg_id}
        for record in (one for store, one in firsts if store == number and not one.msg_id):
            if (step := step_of(record, view.config.delay_ms)) is not None:
                found.add(number, step)
        for record in _candidates(view, asked, ids, answer.report):
            if answer.is_cut and found.is_beyond(record):
                continue
            step = step_of(record, view.config.delay_ms)
            if step is not None and record.physical_offset not in seen and _matches(record, step, asked, ids):
                found.add(number, step)
        if not asked.topic or asked.key or asked.property:
            _add_recalls(number, view, found, answer.report)
        answer.note_end(view._now.snapshot)
    return found


def _add_recalls(number: int, view: StoreView, found: Collected, report: Report) -> None:
    """Add the recalls of messages that wait for a timer.

    A recall names the sender's id, and has no key or property of the message. Of a few messages by the index, else
    from the timer's queue.
    """
    waiting: dict[str, MessageStep] = {}
    for message, steps in found.steps.items():
        kinds = {one.step.kind for one in steps}
        if steps[-1].store == number and steps[-1].step.stored_topic == TIMER_TOPIC and StepKind.RECALL not in kinds:
            waiting[message] = steps[-1].step
    if not waiting:
        return
    if searched_bytes(view, TIMER_TOPIC, next(iter(waiting)), len(waiting)) <= SEARCHED_MAX and len(waiting) <= 100:
        records = (one for message in waiting for one in view.query(TIMER_TOPIC, message, report=report))
    else:
        first = min(step.stored_offset for step in waiting.values())
        records = (one for one in queue_messages(view, TIMER_TOPIC, 0, first, report) if RECALLS in one.raw)
    for record in records:
        step = step_of(record)
        if step is not None and step.kind is StepKind.RECALL and step.message in waiting:
            found.add(number, step)


def _matches(record: StoredMessage, step: MessageStep, asked: TraceAsked, ids: set[str]) -> bool:
    pairs = record.properties
    if asked.topic and asked.topic != step.topic:
        return False
    if asked.key and asked.key != step.msg_id and asked.key not in (step.keys or "").split(" "):
        return False
    if asked.property and pairs.get(asked.property[0]) != asked.property[1]:
        return False
    of_it = (step.message, step.msg_id, step.origin, step.offset_msg_id, pairs.get(properties.TRANSACTION_ID))
    return not ids or not ids.isdisjoint(of_it)


def _candidates(view: StoreView, asked: TraceAsked, ids: set[str], report: Report) -> Iterator[StoredMessage]:
    """Yield all records that may match, in the order of the log."""
    snapshot = view._now.snapshot
    if asked.key and asked.topic and (topics := _indexed_topics(view, asked.topic, asked.key)):
        most = 1 << 30 if asked.limit is None else asked.limit + 1
        held = (KeyQuery(snapshot, one, asked.key, asked.since, None, most, report).run() for one in topics)
        yield from sorted((record for records in held for record in records), key=lambda one: one.physical_offset)
        return
    walk = LogWalk(snapshot.log, snapshot.facts, strict=False, report=report)
    any_key = frozenset([asked.key]) if asked.key else None
    walk.use_zones(zones_for(snapshot.log, Predicate(since=asked.since, any_key=any_key)))
    selector, pattern = Selector(Predicate(since=asked.since)), _bytes_of(asked, ids)
    for piece in walk:
        piece.count = selector.select(piece)
        for at in records_with(pattern, piece):
            yield stored_message(piece.data, at)
    for lost in walk.deleted:
        report.damage(lost)


def _indexed_topics(view: StoreView, topic: str, key: str) -> list[str]:
    """Return the topics that may hold records of a topic's messages.

    None of them if a pass over the log costs less.
    """
    topics = [topic, *WAITING_TOPICS, *(name for name in view.topics() if name.startswith(OF_GROUPS))]
    most = min((view.max_physical_offset - view.min_physical_offset) // 2, SEARCHED_MAX)
    return topics if searched_bytes(view, topic, key, len(topics)) <= most else []


def bytes_to_read(view: StoreView, asked: TraceAsked) -> int:
    """Return about how many bytes of a log are read to find what is asked."""
    if asked.key and asked.topic and (topics := _indexed_topics(view, asked.topic, asked.key)):
        return searched_bytes(view, asked.topic, asked.key, len(topics))
    return view.max_physical_offset - view.min_physical_offset


def searched_bytes(view: StoreView, topic: str, key: str, searches: int) -> int:
    """Return the bytes of a log that a walk reads in the time of so many searches by key.

    Each walks through what no index covers.
    """
    spans = KeyQuery(view._now.snapshot, topic, key, None, None, 1)._spans()
    return searches * sum(span.end - span.begin if span.file is None else FILE_BYTES for span in spans)


def _bytes_of(asked: TraceAsked, ids: set[str]) -> re.Pattern[bytes]:
    """Return the bytes that each record holds that matches; nothing where they may not be UTF-8."""
    texts = sorted(ids) if ids else [asked.key or (asked.property or ("", ""))[1] or asked.topic or ""]
    if any("\ufffd" in text for text in texts):
        texts = [""]
    return re.compile(b"|".join(re.escape(java_encode(text)) for text in texts))

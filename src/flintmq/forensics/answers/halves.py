"""Lists transactions that have not ended, and on request how the others ended.

Open ones are read through the queue of half messages and the outcomes, so nothing is kept of the others but a byte.
How the others ended is asked of the log, as `trace` does: a commit is a record of its own, a rollback only an outcome.
Upstream: TransactionalMessageServiceImpl.check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flintmq.cluster.member import Member
from flintmq.config.keys import I64_MAX, StoreConfig
from flintmq.forensics.answers.answer import Answer, each_view, member_words
from flintmq.forensics.answers.collect import SEARCHED_MAX, TraceAsked, searched_bytes
from flintmq.forensics.answers.reading import outcomes, queue_messages, report_outside
from flintmq.forensics.answers.steps import TRANSACTION
from flintmq.forensics.answers.trace import COMMITTED, GIVEN_UP, HANGING, PREPARED, trace
from flintmq.format import properties
from flintmq.format.group_topics import GIVEN_UP_TOPIC, HALF_GROUP, HALF_TOPIC
from flintmq.format.record import TRANSACTION_COMMIT, TRANSACTION_MASK
from flintmq.message import StoredMessage
from flintmq.store.append.half_message import checks_of, real_place
from flintmq.store.layout import config_reader
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.view import StoreView

SEARCHES: Final = 100  # for commits that are taken to be made


@dataclass(frozen=True)
class HalfMessage:
    """One transaction.

    Attributes:
        topic, queue_id: where the message is delivered if it is committed; empty and -1 if it names no topic.
        state: prepared, hanging (its sender was asked, or is to be asked by now), committed, rolled back, or given up.
            Among those that are open, committed says that its outcome is missing.
        group: of its sender.
        born_ms: since when, by the sender's clock.
        stored_ms: store time of the first record of it that is left; of those still open of the last one.
        asked: how often its sender was asked.
        ended_ms: when it ended; None: it is open.
        physical_offset: of its last half message; of a committed one of the message.
        broker, store: of several stores; empty for one.
    """

    topic: str
    queue_id: int
    state: str
    group: str
    keys: str | None
    msg_id: str | None
    born_ms: int
    stored_ms: int
    asked: int
    ended_ms: int | None
    physical_offset: int | None
    broker: str
    store: str


def halves(
    members: Sequence[Member], config: StoreConfig | None = None, *, ended: bool = False, limit: int | None = None
) -> Answer[HalfMessage]:
    """Return the transactions that are open or were given up, oldest first.

    Counts: `records` of half messages, `open` transactions, `given up`.

    Args:
        ended: also those that were committed or rolled back. It takes a pass over the log.
        limit: at most so many of each store and kind; None: all.

    Raises:
        NotAStoreError, StoreAccessError: as open_store.
    """
    answer = Answer[HalfMessage](HalfMessage)
    for member, view in each_view(members, config, answer):
        seen = Counter[str]()
        for state, half in _unended(view, answer):
            name = "given up" if state == GIVEN_UP else "open"
            seen[name] += 1
            answer.count(name, 1)
            if ended and real_place(half) is not None:
                continue  # `trace` has it
            if limit is None or seen[name] <= limit:
                answer.rows.append(_row(member, view, half, state, answer))
            else:
                answer.is_cut = True
    if ended:
        found = trace(members, TraceAsked(property=(properties.TRAN_MSG, "true"), limit=limit), config)
        answer.is_cut = found.is_cut or answer.is_cut
        if found.report.damage_count:  # of the same logs: not added, or each place would count twice
            answer.report = found.report
        for text in found.notes:
            answer.note(text)
        answer.rows += [
            HalfMessage(
                one.topic, one.queue_id, COMMITTED if one.stored_ms is not None else one.state, one.producer, one.keys,
                one.msg_id, one.born_ms, one.first_ms, one.asked, one.ended_ms, one.physical_offset, one.broker,
                one.store,
            )
            for one in found.rows
            if one.source == TRANSACTION or one.state == GIVEN_UP
        ]  # fmt: skip
    return answer


def _unended(view: StoreView, answer: Answer[HalfMessage]) -> Iterator[tuple[str, StoredMessage]]:
    """Yield the half messages that are open, then those that were given up, with their states."""
    broker = view.broker
    view.read_log_of(HALF_TOPIC)
    view.read_log_of(GIVEN_UP_TOPIC)
    low, high = view.bounds(HALF_TOPIC, 0)
    begin = max(low, broker.consumer_offsets.get((HALF_TOPIC, HALF_GROUP), {}).get(0, 0))
    answer.count("records", high - low)
    for problem in broker.problems_of(config_reader.OFFSETS, config_reader.LMQ_OFFSETS) if high > low else ():
        answer.lost(f"{problem.text}: half messages that ended long ago may seem open")
    report_outside(view, QueueName(HALF_TOPIC, 0), begin, I64_MAX, answer.report)
    has_ended = bytearray(max(high - begin, 0))
    for _, offsets in outcomes(view, None, answer.report):
        for offset in offsets:
            if begin <= offset < high:
                has_ended[offset - begin] = 1
    now_ms, late_ms = view._now.snapshot.effects.now_ms(), view.config.transaction_time_out
    for first, stop in _open_runs(has_ended):
        for half in queue_messages(view, HALF_TOPIC, 0, begin + first, answer.report, begin + stop):
            is_late = checks_of(half) != 0 or now_ms - half.store_timestamp > late_ms
            yield HANGING if is_late else PREPARED, half
    for queue in view.queues(GIVEN_UP_TOPIC):
        for half in queue_messages(view, GIVEN_UP_TOPIC, queue.queue_id, None, answer.report):
            yield GIVEN_UP, half


def _open_runs(has_ended: bytearray) -> Iterator[tuple[int, int]]:
    """Yield [begin, end) of each run of zeros."""
    at = has_ended.find(0)
    while at >= 0:
        stop = has_ended.find(1, at)
        yield at, len(has_ended) if stop < 0 else stop
        at = -1 if stop < 0 else has_ended.find(0, stop)


def _row(member: Member, view: StoreView, half: StoredMessage, state: str, answer: Answer[HalfMessage]) -> HalfMessage:
    topic, queue_id = real_place(half) or ("", -1)
    ended = half if state == GIVEN_UP else _committed(view, half, topic, answer)
    return HalfMessage(
        topic, queue_id, COMMITTED if ended is not None and ended is not half else state,
        half.properties.get(properties.PGROUP, ""), half.keys, half.msg_id, half.born_timestamp, half.store_timestamp,
        max(checks_of(half), 0), None if ended is None else ended.store_timestamp, half.physical_offset,
        *member_words(member),
    )  # fmt: skip


def _committed(view: StoreView, half: StoredMessage, topic: str, answer: Answer[HalfMessage]) -> StoredMessage | None:
    """Return the message that was committed from a half message without an outcome.

    A kill came between the two.
    """
    key = half.msg_id
    if not topic or not key:
        answer.note("some name no topic or have no id: whether they were committed is not known")
        return None
    if searched_bytes(view, topic, key, SEARCHES) > SEARCHED_MAX:
        answer.note("the index does not cover the log: whether some of these were committed is not known; see --all")
        return None
    for one in view.query(topic, key, report=answer.report):
        is_its = (one.born_timestamp, one.born_host) == (half.born_timestamp, half.born_host)
        if is_its and one.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT:
            answer.note("some were committed, but no outcome says it: RocketMQ asks their senders about them once more")
            return one
    return None

"""Lists dead letters, and retries, with the message that each is a copy of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import MessageNotFoundError
from flintmq.forensics.answers.answer import Answer, each_view, member_words
from flintmq.forensics.answers.reading import first_copy
from flintmq.forensics.answers.steps import MessageStep, StepKind, step_of
from flintmq.forensics.topic_tail import TopicTail
from flintmq.format import config_json
from flintmq.format.group_topics import DEAD, RETRY
from flintmq.message import StoredMessage
from flintmq.store.consumer.retry import MOST_RETRIES
from flintmq.store.view import StoreView


@dataclass(frozen=True)
class DeadMessage:
    """A dead letter or a retry of a group.

    Attributes:
        is_dead: a dead letter; else a retry.
        times: how often its group gave it back, this time included.
        reason: what its properties and the group's settings tell.
        stored_ms: store time of the record; since when the group can get it again, if it is a retry.
        topic, queue_id, queue_offset, physical_offset: where the record is.
        first_topic, first_queue, first_offset, first_ms: topic, queue, queue offset and store time of its first copy;
            None (the topic: empty) where no record says it or the copy has expired.
        broker, store: of several stores; empty for one.
    """

    group: str
    is_dead: bool
    times: int
    reason: str
    stored_ms: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    keys: str | None
    msg_id: str | None
    first_topic: str
    first_queue: int | None
    first_offset: int | None
    first_ms: int | None
    broker: str
    store: str


def dead(
    members: Sequence[Member],
    config: StoreConfig | None = None,
    *,
    groups: Sequence[str] | None = None,
    retries: bool = False,
    limit: int = 1000,
) -> Answer[DeadMessage]:
    """Return the newest dead letters of each group, in the order in which they were stored.

    Counts: `dead`, and with `retries` `retries`: all that are there.

    Args:
        groups: of these; None: of all.
        retries: retries that came to their topic, too. `timers` lists those that wait.
        limit: at most so many of each topic.

    Raises:
        MessageNotFoundError: no store has a dead letter, a retry or an offset of a group, or its settings.
        NotAStoreError, StoreAccessError: as open_store.
    """
    answer, known = Answer[DeadMessage](DeadMessage), set[str]()
    for member, view in each_view(members, config, answer):
        known |= {*view.broker.groups, *(group for _, group in view.broker.consumer_offsets)}
        kinds = (DEAD, RETRY) if retries else (DEAD,)
        for name in view._now.without_files():
            if name.topic.startswith(kinds):
                view.read_log_of(name.topic)
        for topic in view.topics():
            if not topic.startswith(kinds) or not _may_be_of(topic, groups):
                continue
            rows = [_row(view, record, member) for record in _newest(view, topic, limit, answer)]
            rows = [row for row in rows if groups is None or row.group in groups]
            known |= {row.group for row in rows}
            answer.rows += rows
    if missing := sorted(set(groups or ()) - known):
        raise MessageNotFoundError(f"group {short(missing[0])}: no store knows it; `flintmq inspect` lists groups")
    answer.rows.sort(key=lambda row: (row.stored_ms, row.physical_offset))
    return answer


def _may_be_of(topic: str, groups: Sequence[str] | None) -> bool:
    name = topic.removeprefix(DEAD if topic.startswith(DEAD) else RETRY)
    return groups is None or any(name == group or name.startswith((f"{group}_", f"{group}+")) for group in groups)


def _newest(view: StoreView, topic: str, limit: int, answer: Answer[DeadMessage]) -> list[StoredMessage]:
    tail = TopicTail(view, topic, expected=True)
    found = tail.last(limit + 1)
    there = sum(queue.max_offset - queue.min_offset for queue in tail.queues)
    answer.count("dead" if topic.startswith(DEAD) else "retries", there)
    is_cut = len(found) > limit or not tail.complete
    answer.is_cut = answer.is_cut or is_cut
    answer.report.add(tail.report)
    if len(found) < there and not is_cut and not tail.report.damage_count:
        answer.lost(f"{view.root}: {there - len(found)} messages of {topic} cannot be read; run `flintmq verify`")
    return found[max(len(found) - limit, 0) :]


def _row(view: StoreView, record: StoredMessage, member: Member) -> DeadMessage:
    step = step_of(record)
    assert step is not None, "only outcomes are of no message"
    first, (broker, store) = first_copy(view, step.origin), member_words(member)
    return DeadMessage(
        group=step.group,
        is_dead=step.kind is StepKind.DEAD,
        times=step.times,
        reason=_reason(view, step),
        stored_ms=step.store_timestamp,
        topic=step.stored_topic,
        queue_id=step.stored_queue,
        queue_offset=step.stored_offset,
        physical_offset=step.physical_offset,
        keys=step.keys,
        msg_id=step.msg_id,
        first_topic=step.topic,
        first_queue=first.queue_id if first else None,
        first_offset=first.queue_offset if first else None,
        first_ms=first.store_timestamp if first else None,
        broker=broker,
        store=store,
    )


def _reason(view: StoreView, step: MessageStep) -> str:
    """Return why a message is a retry or a dead letter, as far as it is stored."""
    how = "popped and not acknowledged" if step.popped else "given back"
    if step.kind is not StepKind.DEAD:
        return how
    if step.group not in view.broker.groups:
        return f"{how} after {max(step.times - 1, 0)} retries; how many its group has is not known"
    found = config_json.integer(view.broker.groups[step.group].get("retryMaxTimes"))
    most = MOST_RETRIES if found is None else found
    if step.times > most:
        return f"{how} after {most} retries, the most that its group has"
    return f"{how} as a dead letter after {max(step.times - 1, 0)} of {most} retries"

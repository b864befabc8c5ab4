"""What became of one message: its row of `flintmq trace`.

Its other records are found by the index, or by a pass over a log of a size that a page has time for. Of a larger log
the page names the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from flintmq.cli.answers import SHOWN
from flintmq.cli.text import size
from flintmq.cluster.member import ONLY, Member
from flintmq.errors import FlintError
from flintmq.forensics.answers.collect import TraceAsked, bytes_to_read, is_sent_to
from flintmq.forensics.answers.reading import bytes_for_queues
from flintmq.forensics.answers.steps import MessageStep, StepKind, step_of
from flintmq.forensics.answers.trace import DeadLetter, Retry, Trace, trace_in
from flintmq.forensics.salvage.filler import TOPIC
from flintmq.format.group_topics import OUTCOME_TOPIC
from flintmq.format.record import TRANSACTION_MASK, TRANSACTION_PREPARED
from flintmq.message import StoredMessage
from flintmq.store.view import StoreView
from flintmq.ui.links import option
from flintmq.ui.stores import OpenStore

READ_MAX: Final = 256 << 20
"""Bytes of a log that a page reads."""
OUTCOMES_MAX: Final = 500_000
"""Outcomes of transactions that a page reads."""
NO_QUEUE: Final = "It is in no queue: no consumer gets it."


@dataclass(frozen=True)
class Became:
    """What became of a message.

    Attributes:
        row: None if it is not known; `said` says why.
        command: that tells it.
        said: what is lacking, a sentence each.
    """

    row: Trace | None = None
    command: Sequence[str] = ()
    said: list[str] = field(default_factory=list)


def became(one: OpenStore, view: StoreView, record: StoredMessage) -> Became:
    step = step_of(record, view.config.delay_ms)
    if step is None:
        return Became(said=[_no_message(record)])
    asked = _asked(step)
    names = (*option("--topic", asked.topic), *option("--key", asked.key), *option("--id", asked.id))
    words = one.command("trace", options=names)
    try:
        if what := _too_much(view, asked, step):
            return Became(None, words, [f"Not looked up here, as it takes reading {what}; the command has no limit."])
        answer = trace_in([Member(one.path, ONLY)], [view], asked)
    except FlintError as error:
        return Became(None, words, [str(error)])
    said = list(answer.notes)
    if answer.report.damage_count:
        said.append("Damage in the log may hide some of its records: Health reads all of it.")
    row = _row_of(answer.rows, step)
    if row is None:
        said.append(
            f"{len(answer.rows)} messages have its id; of which of them this record is cannot be told."
            if answer.rows
            else "No record says where it comes from."
        )
    return Became(row, words, said)


def _no_message(record: StoredMessage) -> str:
    """Say what a record is that is no step of a message."""
    if record.topic == OUTCOME_TOPIC:
        return "It says how transactions ended, and is the record of no message."
    if record.topic == TOPIC.decode():
        return f"flintmq salvage put it over damaged bytes, of which its body says where and why. {NO_QUEUE}"
    was = "prepared" if record.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED else "rolled back"
    return f"It was {was} in a transaction, as RocketMQ before 4.3 wrote it. {NO_QUEUE}"


def _asked(step: MessageStep) -> TraceAsked:
    """Return what asks for the message of a step: by its sender's id, which the index has; else by its place."""
    key = step.message if step.kind is StepKind.RECALL else step.msg_id
    if key and step.topic and is_sent_to(step.topic):
        return TraceAsked(key=key, topic=step.topic, limit=SHOWN)
    return TraceAsked(id=key or step.origin or step.offset_msg_id, limit=SHOWN)


def _too_much(view: StoreView, asked: TraceAsked, step: MessageStep) -> str:
    """Say what would be read for a message, if that is more than a page reads."""
    read = max(bytes_to_read(view, asked), bytes_for_queues(view))
    if read > READ_MAX:
        return f"{size(read)} of the log"
    if step.kind is StepKind.HALF:  # it may have ended at any time since
        count = view.bounds(OUTCOME_TOPIC, 0)[1] - view.offset_at_time(OUTCOME_TOPIC, 0, step.store_timestamp)
        return f"{count:,} outcomes of transactions" if count > OUTCOMES_MAX else ""
    return ""


def _row_of(rows: Sequence[Trace], step: MessageStep) -> Trace | None:
    """Return the row that a record is of."""
    place = step.stored_topic, step.stored_queue, step.stored_offset
    for row in rows:
        later: list[Retry | DeadLetter] = [*row.retries, *row.dead]
        if row.physical_offset == step.physical_offset or place in _places(later):
            return row
    return rows[0] if len(rows) == 1 else None


def _places(records: Sequence[Retry | DeadLetter]) -> set[tuple[str | None, int | None, int | None]]:
    return {(one.topic, one.queue_id, one.queue_offset) for one in records}

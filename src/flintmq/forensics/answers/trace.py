"""Joins the steps of each message: what became of it.

One row a message: a record in a topic that consumers ask for, with the records in which it waited before; or one that
waits still, or was rolled back. Where the sender's id came twice there are two rows, as consumers get two messages. A
retry belongs to the row that it names as its origin; one that names none, to the last row before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.answers.answer import Answer, member_words, opened
from flintmq.forensics.answers.collect import Collected, PlacedStep, TraceAsked, collect
from flintmq.forensics.answers.reading import outcomes
from flintmq.forensics.answers.steps import AFTER, TIMER, TRANSACTION, MessageStep, StepKind
from flintmq.forensics.retention_plan import FileFate, file_fates, groups_of
from flintmq.format.text import java_encode
from flintmq.store.commitlog.report import Report
from flintmq.store.layout import config_reader
from flintmq.store.layout.directories import OFFSETS_IN_ROCKSDB, in_rocksdb
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.read.undelivered import POPS, undelivered
from flintmq.store.view import StoreView

DELIVERED, WAITING, RECALLED, EXPIRED, DELETED = "delivered", "waiting", "recalled", "expired", "deleted"
PREPARED, HANGING, COMMITTED, ROLLED_BACK, GIVEN_UP = "prepared", "hanging", "committed", "rolled back", "given up"


@dataclass
class Retry:
    """One retry of a group.

    A popped message that was not acknowledged waits for nothing: it has no `waits_ms`.
    """

    group: str
    times: int  # 1 for the first retry
    waits_ms: int | None = None  # when the group gave the message back
    due_ms: int | None = None
    stored_ms: int | None = None  # since when the group can get it again; None: it still waits
    topic: str | None = None  # topic, queue_id, queue_offset: where the group gets it
    queue_id: int | None = None
    queue_offset: int | None = None
    passed: bool | None = None  # whether the group's offset is after it; None: it still waits


@dataclass(frozen=True)
class DeadLetter:
    group: str
    times: int
    stored_ms: int
    topic: str
    queue_id: int
    queue_offset: int


@dataclass(frozen=True)
class GroupPlace:
    group: str
    offset: int | None  # the next that it gets; None: it has none in this queue
    passed: bool


@dataclass(frozen=True)
class Trace:
    """Tells the life of one message.

    Attributes:
        topic, queue_id: where consumers get it; empty and -1 if no record says it.
        queue_offset, physical_offset: of the record there; None until it is there, and once its file is deleted.
        state: delivered (consumers can get it), deleted (with its topic), waiting, recalled, prepared, hanging, rolled
            back, given up (its transaction), or expired: only its retries or dead letters are left.
        source: what it came from, or waits for: "delay", "timer", "transaction"; None: stored at once.
        first_ms: store time of its first record that is left.
        due_ms: for when it waits, or waited; None if it did not, or that record has expired.
        stored_ms: since when consumers can get it.
        ended_ms: when its transaction was committed, rolled back or given up.
        asked: how often its sender was asked how its transaction ends.
        delete_ms: when retention deletes its last record in its own topic; None: nothing known now deletes it.
        delete_rule: the reason.
        producer: the group of the sender of a transaction; empty where no record says it.
        broker, store: of several stores; empty for one.
    """

    topic: str
    queue_id: int
    queue_offset: int | None
    physical_offset: int | None
    keys: str | None
    msg_id: str | None
    offset_msg_id: str | None
    state: str
    source: str | None
    first_ms: int
    born_ms: int
    due_ms: int | None
    stored_ms: int | None
    ended_ms: int | None
    asked: int
    retries: list[Retry]
    dead: list[DeadLetter]
    groups: list[GroupPlace]
    delete_ms: int | None
    delete_rule: str
    producer: str
    broker: str
    store: str


@dataclass
class Life:
    """The steps of one row."""

    stored: PlacedStep | None = None
    waits: list[PlacedStep] = field(default_factory=list)
    given_up: PlacedStep | None = None
    recalled: PlacedStep | None = None
    after: list[PlacedStep] = field(default_factory=list)  # retries and dead letters

    @property
    def half(self) -> PlacedStep | None:
        """The last half message of its transaction."""
        return self.waits[-1] if self.waits and self.waits[-1].step.kind is StepKind.HALF else None

    def has_id(self, offset_msg_id: str) -> bool:
        return any(offset_msg_id in (one.step.offset_msg_id, one.step.origin) for one in _all(self))

    @property
    def last(self) -> PlacedStep:
        """Its record in its own topic, else the last one in which it waits."""
        return self.stored or self.given_up or [*self.after, *self.waits][-1]


def trace(members: Sequence[Member], asked: TraceAsked, config: StoreConfig | None = None) -> Answer[Trace]:
    """Return what became of messages, in the order in which they were stored first.

    Raises:
        UsageError: nothing is asked for, or a topic that nobody sends to.
        NotAStoreError, StoreAccessError: as open_store.
    """
    with ExitStack() as stack:
        return trace_in(members, opened(members, config or StoreConfig(), stack), asked)


def trace_in(members: Sequence[Member], views: Sequence[StoreView], asked: TraceAsked) -> Answer[Trace]:
    """Return as `trace`, of stores that are open."""
    answer = Answer[Trace](Trace)
    facts = [Facts(member, view._now, answer) for member, view in zip(members, views, strict=True)]
    lives = lives_of(collect(views, asked, answer))  # type: ignore[arg-type]  # it adds no rows
    if asked.limit is not None and len(lives) > asked.limit:  # several have one id, such as those of a batch
        answer.is_cut = True
        del lives[asked.limit :]
    note_ends(lives, facts, views.__getitem__, answer.report)
    answer.rows += [facts[life.last.store].row(life) for life in lives]
    if answer.rows and any(view.broker.problems_of(config_reader.OFFSETS, config_reader.LMQ_OFFSETS) for view in views):
        answer.report.damage_count += 1  # who has passed them is not known
    return answer


def lives_of(found: Collected) -> list[Life]:
    lives = [life for steps in found.steps.values() for life in _lives(steps)]
    return [life for life in lives if found.place_id is None or life.has_id(found.place_id)]


def _lives(steps: list[PlacedStep]) -> Iterator[Life]:
    """Yield the rows of the records that have one message in common: by store, in order."""
    stores, lives = sorted({one.store for one in steps}), list[Life]()
    for store in stores:  # two copies of a store are two brokers
        lives += _lives_in([one for one in steps if one.store == store])
    for kind in AFTER:
        for one in steps:
            if one.step.kind is kind:
                _origin(lives, one).after.append(one)
    return iter(lives)


def _lives_in(steps: list[PlacedStep]) -> list[Life]:
    """Return the rows of one store, without what came after a delivery."""
    by_kind: defaultdict[StepKind, list[PlacedStep]] = defaultdict(list)
    chains: list[list[PlacedStep]] = []
    for one in steps:
        kind, step = one.step.kind, one.step
        if kind not in (StepKind.WAITS, StepKind.HALF):
            by_kind[kind].append(one)
        elif chains and step.is_again:
            chains[-1].append(one)
        else:
            chains.append([one])
    late = [one for one in by_kind[StepKind.STORED] if one.step.source]
    lives = [Life(stored=one) for one in by_kind[StepKind.STORED] if not one.step.source]
    lives += [Life(stored, chain or []) for stored, chain in zip_longest(late, chains)]
    lives.sort(key=lambda life: life.last.step.physical_offset)
    for one in by_kind[StepKind.GIVEN_UP]:
        _open_life(lives, TRANSACTION).given_up = one
    for one in by_kind[StepKind.RECALL]:
        if life := next((life for life in lives if life.waits and life.waits[0].step.source == TIMER), None):
            life.recalled = one
    return lives


def _open_life(lives: list[Life], source: str) -> Life:
    for life in lives:
        if life.stored is None and life.waits and life.waits[0].step.source == source and life.given_up is None:
            return life
    lives.append(Life())
    return lives[-1]


def _origin(lives: list[Life], one: PlacedStep) -> Life:
    """Return the row that a retry or a dead letter belongs to, of its own store if there is one.

    Where the broker of a message was away, its consumer sent the retry to another. A new row if the first copy has
    expired.
    """
    near = sorted(lives, key=lambda life: life.last.store != one.store)
    first = next((life for life in near if life.stored and life.stored.step.offset_msg_id == one.step.origin), None)
    before = [life for life in lives if life.last.step.physical_offset < one.step.physical_offset]
    if first is None and not before:
        lives.append(Life())
        return lives[-1]
    return first or ([life for life in before if life.last.store == one.store] or before)[-1]


def note_ends(lives: list[Life], facts: list[Facts], view_of: Callable[[int], StoreView], report: Report) -> None:
    """Look for the outcomes of the half messages that were not committed.

    `view_of`: opens the store of a number.
    """
    for number, one in enumerate(facts):
        halves = (life.half for life in lives if life.stored is None)
        mine = {half.step.stored_offset: half.step for half in halves if half and half.store == number}
        if not mine:
            continue
        since = min(step.store_timestamp for step in mine.values())
        for ended_ms, offsets in outcomes(view_of(number), since, report, one.end):
            for offset in mine.keys() & offsets:
                one.ended[offset] = ended_ms
                del mine[offset]
            if not mine:
                break


class Facts:
    """Holds facts of a store that rows need besides the log; picklable.

    `end`: no outcome after this log offset counts, whose message may not have been read.
    """

    def __init__(self, member: Member, lookup: QueueLookup, answer: Answer[Trace]) -> None:
        snapshot = lookup.snapshot
        self.member, self.now_ms = member, snapshot.effects.now_ms()
        self.late_ms = snapshot.config.transaction_time_out
        self.end, self.deletions, self.groups = snapshot.end, snapshot.deletions, groups_of(lookup)
        self.fates: list[FileFate] = [] if snapshot.effects.remote else file_fates(snapshot)
        self.ended: dict[int, int] = {}  # queue offset of a half message -> when it was ended
        for problem in snapshot.broker.problems_of(config_reader.OFFSETS, config_reader.LMQ_OFFSETS):
            answer.note(f"{problem.text}: which groups have passed a message is not known")
        for folder, what in in_rocksdb(snapshot.root, snapshot.effects).items():
            if folder in OFFSETS_IN_ROCKSDB:
                answer.note(f"{folder}/: {what}, which FlintMQ does not read: who has passed a message is not known")
        for pops in undelivered(lookup, kinds=(POPS,)):
            after = ", though the group's offset may be after it" if pops.messages else ""
            answer.note(f"{snapshot.root}: {pops.text}{after}")

    def row(self, life: Life) -> Trace:
        stored = life.stored.step if life.stored else None
        wait = life.waits[-1].step if life.waits else None
        own, named, half = stored or wait, stored or wait or life.last.step, life.half
        ended = self.ended.get(half.step.stored_offset) if half else None
        if half and (stored or life.given_up):
            ended = life.last.step.store_timestamp
        fate = self._fate(own.physical_offset) if own else None
        broker, store = member_words(self.member)
        checks = [one.step.times for one in (*life.waits, life.given_up) if one and one.step.kind in _ASKED]
        return Trace(
            topic=named.topic,
            queue_id=named.queue_id,
            queue_offset=stored.stored_offset if stored else None,
            physical_offset=own.physical_offset if own else None,
            keys=named.keys,
            msg_id=named.msg_id,
            offset_msg_id=own.offset_msg_id if own else named.origin or None,
            state=self._state(life, ended),
            source=own.source if own else None,
            first_ms=min(one.step.store_timestamp for one in _all(life)),
            born_ms=named.born_timestamp,
            due_ms=wait.due_ms if wait else None,
            stored_ms=stored.store_timestamp if stored else None,
            ended_ms=ended,
            asked=max(checks, default=0),
            retries=self._retries(life),
            dead=[_dead(one.step) for one in life.after if one.step.kind is StepKind.DEAD],
            groups=self._places(stored) if stored else [],
            delete_ms=fate.when if fate else None,
            delete_rule=fate.rule if fate else "" if own else "its first record is deleted",
            producer=next((one.step.group for one in life.waits if one.step.kind is StepKind.HALF), ""),
            broker=broker,
            store=store,
        )

    def _state(self, life: Life, ended_ms: int | None) -> str:
        if life.stored:
            step = life.stored.step
            gone = self.deletions.get(java_encode(step.topic))
            return DELETED if gone and gone.covers(step.physical_offset, step.store_timestamp) else DELIVERED
        if life.given_up:
            return GIVEN_UP
        if not life.waits:
            return EXPIRED
        last = life.waits[-1].step
        if last.kind is not StepKind.HALF:
            return RECALLED if life.recalled else WAITING
        if ended_ms is not None:
            return ROLLED_BACK
        is_late = last.times or self.now_ms - last.store_timestamp > self.late_ms
        return HANGING if is_late else PREPARED

    def offsets_in(self, topic: str, queue_id: int) -> list[int]:
        """Return the offsets of groups in a queue.

        Between two of them the same groups have passed each message.
        """
        return sorted(at for _, offsets in self.groups.get(topic, ()) if (at := offsets.get(queue_id)) is not None)

    def _places(self, stored: MessageStep) -> list[GroupPlace]:
        """Return where the groups of its topic are, against a message."""
        end = stored.stored_offset + stored.messages
        places = [(group, offsets.get(stored.stored_queue)) for group, offsets in self.groups.get(stored.topic, ())]
        return [GroupPlace(group, at, at is not None and at >= end) for group, at in places]

    def _retries(self, life: Life) -> list[Retry]:
        """Return the retries: of each the record in which it waits, and the one that the group gets."""
        found: list[Retry] = []
        waits: dict[tuple[str, int], list[Retry]] = {}
        for step in (placed.step for placed in life.after):
            times = step.times
            if step.kind is StepKind.RETRY_WAITS:
                found.append(Retry(step.group, times, step.store_timestamp, step.due_ms))
                waits.setdefault((step.group, times), []).append(found[-1])
            elif step.kind is StepKind.RETRY:
                earlier = waits.get((step.group, times))
                if not earlier:
                    found.append(Retry(step.group, times))
                one = earlier.pop(0) if earlier else found[-1]
                one.stored_ms, one.topic = step.store_timestamp, step.stored_topic
                one.queue_id, one.queue_offset = step.stored_queue, step.stored_offset
                offsets = dict(self.groups.get(step.stored_topic, ())).get(step.group, {})
                one.passed = offsets.get(step.stored_queue, -1) > step.stored_offset
        return sorted(found, key=lambda one: (one.group, one.times))

    def _fate(self, physical_offset: int) -> FileFate | None:
        at = bisect_right(self.fates, physical_offset, key=lambda fate: fate.start) - 1
        return self.fates[at] if at >= 0 else None


def _dead(step: MessageStep) -> DeadLetter:
    place = step.stored_topic, step.stored_queue, step.stored_offset
    return DeadLetter(step.group, step.times, step.store_timestamp, *place)


_ASKED = (StepKind.HALF, StepKind.GIVEN_UP)


def _all(life: Life) -> list[PlacedStep]:
    ones = (life.stored, *life.waits, life.given_up, life.recalled, *life.after)
    return [one for one in ones if one is not None]

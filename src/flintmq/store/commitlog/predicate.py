"""Selects the records of a scan by topic, queue, queue offset, store time and tags.

A predicate is applied to a record's bytes, so that no part of an unwanted record is decoded or copied. It is defined on
texts as Java decodes them; the kernel keeps a table of the topics that were judged, and asks about others.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from flintmq.errors import UsageError
from flintmq.format.text import java_decode
from flintmq.kernels.read import select as kernel
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog.walk import Piece

LEAST, MOST = -(2**63), 2**63 - 1

QueueRange = tuple[str, int, int, int]
"""Topic, queue id, least queue offset, end of queue offsets."""


@dataclass(frozen=True)
class Predicate:
    """A condition on records; parts that are None accept everything, and all parts must hold.

    Attributes:
        offsets: ranges of queue offsets (least, and the end) for these queues; other queues are not restricted. The
            position of a record is its own queue offset, of an inner batch that of its first message.
        any_key: a hint: nobody needs records that have none of these among their keys, nor as unique key. Zones of the
            log without them are skipped (flintmq.store.commitlog.zones); other records without them may pass.
    """

    topics: frozenset[str] | None = None
    topic_pattern: str | None = None  # a regular expression that the whole name of a topic matches
    queue_ids: frozenset[int] | None = None
    queues: frozenset[tuple[str, int]] | None = None  # these queues only: pairs of a topic and a queue id
    offsets: tuple[QueueRange, ...] = ()
    since: int | None = None  # least store time in ms
    until: int | None = None  # end of store times in ms, exclusive
    tags: frozenset[str] | None = None  # the property TAGS is one of these; records without it are excluded
    any_key: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a malformed pattern, or bounds that do not fit 64 bits."""
        numbers = [self.since, self.until] + [number for _, _, *ends in self.offsets for number in ends]
        if any(number is not None and not LEAST <= number <= MOST for number in numbers):
            raise UsageError("times and queue offsets must fit 64 bits")
        try:
            re.compile(self.topic_pattern or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"{self.topic_pattern!r:.80} is not a regular expression ({error})") from None

    @property
    def everything(self) -> bool:
        """True if every record is wanted."""
        return self == Predicate()

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        return None if self.topic_pattern is None else re.compile(self.topic_pattern)

    @property
    def asks_topics(self) -> bool:
        """True if the topic or the queue of a record matters."""
        parts = (self.topics, self.topic_pattern, self.queue_ids, self.queues)
        return bool(self.offsets) or any(part is not None for part in parts)

    @cached_property
    def named_topics(self) -> frozenset[str] | None:
        """The only topics that can pass, if they are given by name."""
        named = [names for names in (self.topics, _topics_of(self.queues)) if names is not None]
        return None if self._pattern is not None or not named else frozenset.intersection(*named)

    def rules(self, topic: str) -> list[tuple[int, int, int]] | None:
        """Return the rules of a topic, or None if it is not wanted.

        A rule is (queue id or ANY_QUEUE, least queue offset, end of queue offsets).
        """
        if self.topics is not None and topic not in self.topics:
            return None
        if self._pattern is not None and not self._pattern.fullmatch(topic):
            return None
        ranges = {queue: (least, stop) for name, queue, least, stop in self.offsets if name == topic}
        if self.queues is not None:
            ids = {queue for name, queue in self.queues if name == topic}
            ids = ids if self.queue_ids is None else ids & self.queue_ids
        elif self.queue_ids is not None:
            ids = set(self.queue_ids)
        else:
            return [(queue, *ends) for queue, ends in ranges.items()] + [(kernel.ANY_QUEUE, LEAST, MOST)]
        return [(queue, *ranges.get(queue, (LEAST, MOST))) for queue in sorted(ids)] or None

    def wants(self, message: StoredMessage) -> bool:
        """Apply the predicate to a decoded message: slow and clear, the reference for the kernel."""
        time = message.store_timestamp
        if (self.since is not None and time < self.since) or (self.until is not None and time >= self.until):
            return False
        for queue, least, stop in self.rules(message.topic) or ():
            if queue in (message.queue_id, kernel.ANY_QUEUE):
                return least <= message.queue_offset < stop and (self.tags is None or message.tags in self.tags)
        return False


def _topics_of(queues: frozenset[tuple[str, int]] | None) -> frozenset[str] | None:
    return None if queues is None else frozenset(topic for topic, _ in queues)


@dataclass
class _Texts:
    """Byte strings with verdicts, in the kernel's table."""

    closed: bool = False
    verdicts: dict[bytes, int] = field(default_factory=dict)
    table: array[int] = field(default_factory=lambda: array("q", (0, kernel.FREE, 0)))
    arena: bytearray = field(default_factory=lambda: bytearray(1))

    def close(self) -> None:
        """Keep all texts from now on: one that is not in the table is unwanted."""
        self.closed = True

    def add(self, text: bytes, verdict: int) -> None:
        """Add a verdict. A large open table is cleared first: it only saves repeated questions."""
        if len(self.verdicts) >= _MOST_TEXTS and not self.closed:
            self.verdicts.clear()
        self.verdicts[text] = verdict
        slots = len(self.table) // kernel.ENTRY
        if len(self.verdicts) == 1 or 2 * len(self.verdicts) > slots:
            self._rebuild(4 * len(self.verdicts))
        else:
            self._place(text, verdict)

    def _rebuild(self, least: int) -> None:
        slots = 1 << max(4, (least - 1).bit_length())
        self.table = array("q", (0, kernel.FREE, 0)) * slots
        self.arena = bytearray(1)
        for text, verdict in self.verdicts.items():
            self._place(text, verdict)

    def _place(self, text: bytes, verdict: int) -> None:
        assert 2 * len(self.verdicts) <= len(self.table) // kernel.ENTRY  # a full table would be searched for ever
        slots = len(self.table) // kernel.ENTRY
        spot = kernel.slot_of(text, slots)
        while self.table[kernel.ENTRY * spot + 1] != kernel.FREE:
            spot = (spot + 1) % slots
        self.table[kernel.ENTRY * spot : kernel.ENTRY * (spot + 1)] = array("q", (len(self.arena), len(text), verdict))
        self.arena += text


_MOST_TEXTS = 4096  # in an open table
_MOST_RULES = 65_536  # for an open table


class Selector:
    """Applies a predicate to pieces. Thread: one selector belongs to one thread."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self._rules = array("q", (kernel.END, 0, 0))
        self._topics, self._tags = _Texts(), _Texts()
        topic_mode = self._fill_topics() if predicate.asks_topics else 0
        self._tags.close()
        for tag in _encoded(predicate.tags or ()):
            self._tags.add(tag, 0)
        tag_mode = int(predicate.tags is not None)
        since = LEAST if predicate.since is None else predicate.since
        until = MOST if predicate.until is None else predicate.until - 1 if predicate.until > LEAST else LEAST
        if predicate.until is not None and predicate.until <= since:
            since, until = MOST, LEAST  # nothing
        self._query = array("q", (since, until, topic_mode, tag_mode))

    def _fill_topics(self) -> int:
        """Add topics given by name; return 2 if no other can be wanted, 1 if others must be judged."""
        named = self.predicate.named_topics
        if named is None or any("\ufffd" in topic for topic in named):
            return 1  # U+FFFD may represent bytes that cannot be enumerated
        self._topics.close()
        for raw in _encoded(named):
            self._topics.add(raw, self._judge_topic(raw))
        return 2

    def _judge_topic(self, raw: bytes) -> int:
        rules = self.predicate.rules(java_decode(raw))
        if rules is None:
            return kernel.UNWANTED
        if len(self._rules) > kernel.RULE * _MOST_RULES and not self._topics.closed:
            self._topics.verdicts.clear()
            del self._rules[kernel.RULE :]
        assert len(self._rules) % kernel.RULE == 0
        begin = len(self._rules)
        for rule in (*rules, (kernel.END, 0, 0)):
            self._rules.extend(rule)
        return begin

    def select(self, piece: Piece) -> int:
        """Move the positions of wanted records to the front; return their number."""
        if self.predicate.everything:
            return piece.count
        read = kept = 0
        topics, tags = self._topics, self._tags
        while True:
            read, kept, why = kernel.select(
                piece.data,
                piece.positions,
                read,
                kept,
                piece.count,
                self._query,
                topics.table,
                topics.arena,
                self._rules,
                tags.table,
                tags.arena,
            )
            if why == kernel.DONE:
                return kept
            assert kept <= read < piece.count  # wanted ones move to the front, over ones that were read
            message = stored_message(piece.data, piece.positions[read])
            if why == kernel.TOPIC:
                raw = bytes(message.fields.topic)
                topics.add(raw, self._judge_topic(raw))
            else:
                if message.tags in (self.predicate.tags or ()):
                    piece.positions[kept] = piece.positions[read]
                    kept += 1
                read += 1


def _encoded(texts: Iterable[str]) -> list[bytes]:
    """Encode texts as UTF-8, except those with a lone surrogate, which no decoded text has."""
    return [text.encode() for text in texts if not _SURROGATE.search(text)]


_SURROGATE = re.compile("[\ud800-\udfff]")

"""Receipts of popped messages: eight words by which a client acknowledges one.

The text is the property POP_CK of what a client gets, `extraInfo` of its requests, and gRPC's receipt handle. Clients
take it apart, so words and their order are upstream's. Upstream: ExtraInfoUtil, KeyBuilder.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from flintmq.errors import FormatError
from flintmq.format.config_json import integer
from flintmq.format.group_topics import retry_topic

OWN, RETRIES, RETRIES_V2 = "0", "1", "2"
"""Where a message is: in its topic, or in the retries of a group, whose topic has one of two names."""
ORDERED_QUEUE: Final = 999  # revive queue in receipts of groups that pop in order
WORDS: Final = 8


def pop_retry_topic(group: str, topic: str, kind: str = RETRIES) -> str:
    """Return the topic of messages of a topic that a group did not acknowledge in time."""
    return f"{retry_topic(group)}{'+' if kind == RETRIES_V2 else '_'}{topic}"


def asked_topic(group: str, topic: str) -> str:
    """Return the topic for which a group asks that gets messages of this one."""
    for kind in (RETRIES, RETRIES_V2):
        topic = topic.removeprefix(pop_retry_topic(group, "", kind))
    return topic


class Receipt(NamedTuple):
    """The name of a message that was given, by which a client acknowledges it.

    Attributes:
        start: queue offset of the first message of the queue that was given at the same time.
        popped_ms: when it was given.
        invisible_ms: for how long from then on.
        revive_queue: 0; of a group that pops in order ORDERED_QUEUE.
        kind: OWN, RETRIES or RETRIES_V2.
        broker: name of the broker.
        queue_id, offset: place of the message, in its topic or in the retries.
    """

    start: int
    popped_ms: int
    invisible_ms: int
    revive_queue: int
    kind: str
    broker: str
    queue_id: int
    offset: int

    def __str__(self) -> str:
        """Return its text."""
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a receipt's text; words after the eighth are dropped.

        Raises:
            FormatError: it is none.
        """
        words = text.split(" ")
        numbers = [integer(word) for word in (*words[:4], *words[6:WORDS])]
        if len(words) < WORDS or None in numbers or words[4] not in (OWN, RETRIES, RETRIES_V2):
            raise FormatError(f"no receipt of a popped message: {text!a:.200}", 0)
        start, popped_ms, invisible_ms, revive_queue, queue_id, offset = (number or 0 for number in numbers)
        return cls(start, popped_ms, invisible_ms, revive_queue, words[4], words[5], queue_id, offset)

    def topic(self, group: str, topic: str) -> str:
        """Return the topic that has the message.

        Args:
            topic: the one that the group asked for; clients by remoting name that of the retries.
        """
        is_retries = topic.startswith(pop_retry_topic(group, "", self.kind))
        return topic if self.kind == OWN or is_retries else pop_retry_topic(group, topic, self.kind)

"""Compares the messages of two logs whose offsets differ.

So it is after a replay, or where salvage or a filtered copy made a store anew. A first pass over both logs adds up a
digest of each message, by topic, queue and block of queue offsets. Only blocks whose sums differ are read again, in a
second pass, message by message. Places in the log, store times and store hosts are no part of a message: a move changes
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple, Protocol

from flintmq.forensics.diff.differences import Difference, Differences, Kind, altered, moved, only
from flintmq.forensics.diff.ranges import Progress
from flintmq.forensics.diff.records import content_of, pairs_of, place_of
from flintmq.format import properties
from flintmq.format.record import STORE_HOST_V6  # of the flags, it describes the store host
from flintmq.message import StoredMessage
from flintmq.store.commitlog.report import Report

BLOCK = 256  # queue offsets of a block
BLOCKS_NAMED = 4096  # blocks whose messages are compared one by one: about a million messages

SUM_MASK = (1 << 64) - 1

Block = tuple[str, int, int]


class BlockSum(NamedTuple):
    """The count of messages in a block of queue offsets, and the sum of their digests."""

    messages: int
    digests: int


class MessageReader(Protocol):
    """Reads the messages of two logs, A (0) and B (1)."""

    def sums(self, number: int, report: Report, progress: Progress | None) -> Mapping[Block, BlockSum]:
        """Return the sums of all blocks of a log; damage is reported and passed."""

    def messages_of(self, number: int, blocks: frozenset[Block]) -> list[StoredMessage]:
        """Return the messages of some blocks, in the order of the log."""


def compare_messages(
    pair: MessageReader, found: Differences, reports: tuple[Report, Report], progress: Progress | None = None
) -> tuple[int, int]:
    """Compare the messages of two logs, and return how many each has.

    A message is what has the same topic, queue and queue offset.
    """
    sums = [pair.sums(number, reports[number], progress) for number in (0, 1)]
    differing = [block for block in {**sums[0], **sums[1]} if sums[0].get(block) != sums[1].get(block)]
    named = frozenset(differing[:BLOCKS_NAMED])
    if len(differing) > len(named):
        text = f"{len(differing) - len(named)} blocks of {BLOCK} queue offsets differ, too, and were not read again"
        reports[0].note("not_named", text)
    if named:
        _name(pair.messages_of(0, named), pair.messages_of(1, named), found)
    return sum(one.messages for one in sums[0].values()), sum(one.messages for one in sums[1].values())


def sums_of(messages: Iterable[StoredMessage]) -> dict[Block, BlockSum]:
    sums: dict[Block, list[int]] = defaultdict(lambda: [0, 0])
    for message in messages:
        one = sums[block_of(message)]
        one[0] += 1
        one[1] += digest(message)
    return {block: BlockSum(count, total & SUM_MASK) for block, (count, total) in sums.items()}


def block_of(message: StoredMessage) -> Block:
    return message.topic, message.queue_id, message.queue_offset // BLOCK


def digest(message: StoredMessage) -> int:
    """Return 64 bits of everything that a move keeps: queue offset, content, flags, sender."""
    fields = message.fields
    numbers = (
        fields.queue_offset, fields.flag, fields.sys_flag & ~STORE_HOST_V6, fields.born_timestamp,
        fields.reconsume_times,
    )  # fmt: skip
    whole = blake2b(repr(numbers).encode(), digest_size=8)
    for part in (bytes(fields.born_host), bytes(fields.body), kept_properties(message)):
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return int.from_bytes(whole.digest(), "big")


def kept_properties(message: StoredMessage) -> bytes:
    """Return the properties without the checksum of the record, which depends on its place."""
    return properties.encode({name: value for name, value in message.properties.items() if name != properties.CRC32})


def _name(left: list[StoredMessage], right: list[StoredMessage], found: Differences) -> None:
    alone_a, alone_b = dict(enumerate(left)), dict(enumerate(right))
    # Equal ones first, then ones of the same content, then ones at the same place.
    keys = (lambda one: (place_of(one), digest(one)), content_of, place_of)
    pairs = [pair for key in keys for pair in pairs_of(alone_a, alone_b, key)]
    differences: list[Difference] = []
    for one, other in pairs:
        if place_of(one) != place_of(other):
            differences.append(moved(one, other))
        elif digest(one) != digest(other):
            differences.append(_altered(one, other))
    differences += [only(one, Kind.ONLY_A) for one in alone_a.values()]
    differences += [only(one, Kind.ONLY_B) for one in alone_b.values()]
    for difference in sorted(differences, key=lambda one: (one.topic or "", one.queue_id or 0, one.queue_offset or 0)):
        found.add(difference)


def _altered(one: StoredMessage, other: StoredMessage) -> Difference:
    """Return the difference of two messages at one place, in what is part of a message."""
    found = altered(one, other)
    fields = set(found.fields) - {"store_timestamp", "store_host"}
    if kept_properties(one) == kept_properties(other):
        fields.discard("properties")
    if one.fields.sys_flag & ~STORE_HOST_V6 == other.fields.sys_flag & ~STORE_HOST_V6:
        fields.discard("sys_flag")
    return replace(found, fields=tuple(name for name in found.fields if name in fields))

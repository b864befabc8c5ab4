"""Compares the messages of two logs whose offsets differ.

So it is after a replay, or where salvage or a filtered copy made a store anew. A first pass over both logs adds up a
digest of each message, by topic, queue and block of queue offsets. Only blocks whose sums differ are read again, in a
second pass, message by message. Places in the log, store times and store hosts are no part of a message: a move changes
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from hashlib import blake2b

from flintmq.forensics.diff.differences import Difference, Differences, Kind, altered, moved, only
from flintmq.forensics.diff.records import content_of, place_of
from flintmq.format import properties
from flintmq.format.record import STORE_HOST_V6  # of the flags, it describes the store host
from flintmq.format.record_view import size_at
from flintmq.message import StoredMessage
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk

BLOCK = 256  # queue offsets of a block
BLOCKS_NAMED = 4096  # blocks whose messages are compared one by one: about a million messages

Block = tuple[str, int, int]
Progress = Callable[[int, int], None]


def compare_messages(
    a: Snapshot,
    b: Snapshot,
    begins: tuple[int, int],
    found: Differences,
    reports: tuple[Report, Report],
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Compare the messages of two logs, and return how many each has.

    A message is what has the same topic, queue and queue offset.

    Args:
        a, b: the stores.
        begins: log offsets of a record in each, from which they are compared.
        found: receives what differs.
        reports: receive damage and notes of each.
        progress: called with bytes done and in all.

    Raises:
        StoreAccessError: a file may not be read.
        OSError: the disk fails.
    """
    sums: dict[Block, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    counts = [0, 0]
    steps = _Steps(a, b, begins, progress)
    for number, store in enumerate((a, b)):
        for message in messages(store, begins[number], reports[number], steps.of(number)):
            one = sums[block_of(message)]
            one[2 * number] += 1
            one[2 * number + 1] = (one[2 * number + 1] + digest(message)) & (1 << 64) - 1
            counts[number] += 1
    differing = [block for block, (n, x, m, y) in sums.items() if (n, x) != (m, y)]
    named = set(differing[:BLOCKS_NAMED])
    if len(differing) > len(named):
        text = f"{len(differing) - len(named)} blocks of {BLOCK} queue offsets differ, too, and were not read again"
        reports[0].note("not_named", text)
    if named:
        _name(a, b, begins, named, found)
    return counts[0], counts[1]


class _Steps:
    """Progress over both logs."""

    def __init__(self, a: Snapshot, b: Snapshot, begins: tuple[int, int], progress: Progress | None) -> None:
        self.sizes = a.end - begins[0], b.end - begins[1]
        self.begins, self.progress = begins, progress

    def of(self, number: int) -> Callable[[int], None]:
        """Return what is called with the log offset that a pass over one of them reached."""

        def reached(offset: int) -> None:
            if self.progress is not None:
                before = self.sizes[0] if number else 0
                self.progress(before + offset - self.begins[number], sum(self.sizes))

        return reached


def messages(
    store: Snapshot, begin: int, report: Report, reached: Callable[[int], None] | None = None
) -> Iterator[StoredMessage]:
    """Yield the messages of a log from an offset on; damage is reported and passed."""
    for piece in LogWalk(store.log, store.facts, begin, strict=False, report=report):
        for at in piece.positions[: piece.count]:
            yield StoredMessage(bytes(piece.data[at : at + size_at(piece.data, at)]))
        if reached is not None:
            reached(piece.base + piece.end)


def block_of(message: StoredMessage) -> Block:
    """Return the block of queue offsets of a message."""
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


def _name(a: Snapshot, b: Snapshot, begins: tuple[int, int], blocks: set[Block], found: Differences) -> None:
    """Compare the messages of these blocks one by one."""
    left, right = (
        [message for message in messages(store, begin, Report()) if block_of(message) in blocks]
        for store, begin in ((a, begins[0]), (b, begins[1]))
    )
    pairs, alone_a, alone_b = matched(left, right)
    differences: list[Difference] = []
    for one, other in pairs:
        if place_of(one) != place_of(other):
            differences.append(moved(one, other))
        elif digest(one) != digest(other):
            differences.append(altered(one, other))
    differences += [only(one, Kind.ONLY_A) for one in alone_a] + [only(one, Kind.ONLY_B) for one in alone_b]
    for difference in sorted(differences, key=lambda one: (one.topic or "", one.queue_id or 0, one.queue_offset or 0)):
        found.add(difference)


def matched(
    left: list[StoredMessage], right: list[StoredMessage]
) -> tuple[list[tuple[StoredMessage, StoredMessage]], list[StoredMessage], list[StoredMessage]]:
    """Pair messages, and return the rest of each side.

    Equal ones first, then ones of the same content, then ones at the same place.
    """
    pairs: list[tuple[StoredMessage, StoredMessage]] = []
    for key in (lambda one: (place_of(one), digest(one)), content_of, place_of):
        where: dict[object, list[int]] = defaultdict(list)
        for number, one in enumerate(right):
            where[key(one)].append(number)
        taken, rest = set(), []
        for one in left:
            there = where.get(key(one))
            if there:
                taken.add(there[0])
                pairs.append((one, right[there.pop(0)]))
            else:
                rest.append(one)
        left, right = rest, [one for number, one in enumerate(right) if number not in taken]
    return pairs, left, right

"""Carries the offsets of consumer groups of a store into the one that it was replayed into.

A replay keeps the order of a queue, and puts its messages after those that are there. So a group has as many messages
before it at the end of the target's queue as it had in the source, and goes on at the same message: that it is the same
is compared, and also the one before it. If not (a condition left some out, damage was skipped, others put messages
meanwhile), the group's place is left, and that is said.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.forensics.offset_changes import Move, changed
from flintmq.format.group_topics import OWN_GROUPS
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup


def carry_offsets(source: Snapshot, end: int, into: str, config: StoreConfig) -> tuple[int, list[str]]:
    """Put the groups of a replayed store where they were.

    Returns the number of places, and sentences on those that are left.

    `end`: log offset of the source up to which it was replayed.

    Raises: as `offset_changes.changed`. Durability: on return.
    """
    left: list[str] = []
    moves = list(_moves(QueueLookup(source), end, QueueLookup(Snapshot.open(into, config)), left))
    if moves:
        changed(into, config, lambda _: moves, create=True)
    return len(moves), left


def _moves(source: QueueLookup, end: int, target: QueueLookup, left: list[str]) -> Iterator[Move]:
    with source.snapshot.held():
        for group, topic, queue_id, offset in sorted(source.snapshot.broker.committed()):
            if offset < 0 or group.startswith(OWN_GROUPS):
                continue
            name = QueueName(topic, queue_id)
            first, last = source.bounds(name)[:2]
            # A source that is written meanwhile has more by now than was replayed.
            stop = first + bisect_left(range(first, last), end, key=lambda at: _place(source, name, at))
            at = min(max(offset, first), stop)
            begin, behind = target.bounds(name)[:2]
            there = behind - (stop - at)
            pairs = [(at + step, there + step) for step in (-1, 0) if first <= at + step < stop]
            if there >= begin and behind > begin and all(_same(source, target, name, *pair) for pair in pairs):
                yield Move(group, topic, queue_id, there)
            elif last > first:
                place = f"group {short(group)} has no place in queue {short(topic)}/{queue_id}"
                left.append(f"{place}: not all messages around its offset there were replayed")


def _place(lookup: QueueLookup, name: QueueName, offset: int) -> int:
    found = lookup.message(name, offset)
    return -1 if found is None else found.physical_offset


def _same(source: QueueLookup, target: QueueLookup, name: QueueName, offset: int, there: int) -> bool:
    one, other = source.message(name, offset), target.message(name, there)
    facts = [(m.msg_id, m.keys, m.born_timestamp, m.body_crc, m.tags) for m in (one, other) if m is not None]
    return len(facts) == 2 and facts[0] == facts[1]

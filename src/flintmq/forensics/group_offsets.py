"""Lists how far each consumer group has consumed each queue of a store.

Only the ends of the queues that a group has an offset of are read, and the record at that offset.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from flintmq.cluster.member import Member
from flintmq.cluster.members import Stores, find_members
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, FormatError, UsageError
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout import config_reader, directories
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup, hidden_text, lacking_text

ASK_BROKER: Final = (
    "a broker that runs tells and moves offsets itself: mqadmin consumerProgress -n NAMESRV -g GROUP, and mqadmin "
    "resetOffsetByTime -n NAMESRV -g GROUP -t TOPIC -s MS"
)
_ADDRESS: Final = re.compile(r"[\w.-]+:[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The place of a group in one queue.

    Attributes:
        offset: queue offset of the next message that it wants, as committed; -1: it has consumed nothing.
        min_offset, max_offset: of the queue: of its first message, and after its last one.
        lag: messages that are there and not consumed.
        oldest_ms: store time of the first of them, Unix time in ms; None if there is none, or it cannot be read.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int
    oldest_ms: int | None


def group_offsets(
    lookup: QueueLookup, groups: Collection[str] = (), topics: Collection[str] = ()
) -> tuple[list[GroupOffset], list[str], bool]:
    """Return the places of groups in their queues, by group, topic and queue.

    Also what may be wrong about them: sentences, and whether the places are not known, or the end of the log or of a
    queue is damaged or missing.

    `groups`, `topics`: only of these; empty: of all.

    Raises StoreAccessError: a file may not be read.
    """
    snapshot = lookup.snapshot
    rows = sorted(
        row for row in snapshot.broker.committed() if row[0] in (groups or row[:1]) and row[1] in (topics or row[1:2])
    )
    with snapshot.held():  # thousands of queues: what they have in common is opened once
        found = [_place(lookup, *row) for row in rows]
    notes = [text for topic in sorted({row.topic for row in found}) if (text := unknown_ends(lookup, topic))]
    try:
        snapshot.check_end()
    except CorruptStoreError as error:
        where = f"{error.file}, position {error.position}: {error.reason}"
        notes.append(f"{where}; run `flintmq verify`; lags count what is left")
    files = config_reader.OFFSETS, config_reader.LMQ_OFFSETS
    lacks = [one for one in snapshot.broker.problems_of(*files) if ".bak is used" not in one.instead]
    return found, [*notes_of(lookup), *notes], bool(notes or lacks)


def each_store(given: Stores, config: StoreConfig, notes: list[str]) -> Iterator[tuple[Member, QueueLookup]]:
    """Open each store that a user named, for reading.

    `notes`: gets sentences on those that are left out.

    Raises: as `refuse_address`, `find_members` and `Snapshot.open`.
    """
    for text in [given] if isinstance(given, str | os.PathLike) else given:
        refuse_address(os.fspath(text))
    report = Report()
    members = find_members(given, config, report=report)
    notes += [note.text for note in report.notes]
    for member in members:
        yield member, QueueLookup(Snapshot.open(member.path, config))


def refuse_address(path: str) -> None:
    """Raise UsageError for the address of a broker in place of a store."""
    if _ADDRESS.fullmatch(path) and not os.path.exists(path):
        raise UsageError(f"{path}: the address of a broker, and this is for a store on disk; {ASK_BROKER}")


def known_topics(lookup: QueueLookup) -> set[str]:
    """Return the topics that a store has, by its tables and its queues."""
    return {name.topic for name in lookup.names()} | set(lookup.snapshot.broker.topics)


def unknown_ends(lookup: QueueLookup, topic: str) -> str:
    """Return a sentence about queues of a topic whose ends are not known; empty: all are known.

    Such a queue has no directory beside others that have theirs, so only what the end of the log has of it is seen; or
    damage hides messages of it.
    """
    missing = lookup.names(topic) - lookup.file_names(topic) | lookup.without_files(topic)
    if missing and lookup.has_files:
        advice = "or `flintmq recover`, if they are of the last messages alone"
        return f"{lookup.snapshot.root}: {lacking_text(missing, 'offsets are not known')}, {advice}"
    hidden = ((name, lookup.lost_outside(name)) for name in sorted(lookup.names(topic)))
    return next((hidden_text(name, lost) for name, lost in hidden if lost is not None), "")


def _place(lookup: QueueLookup, group: str, topic: str, queue_id: int, offset: int) -> GroupOffset:
    name = QueueName(topic, queue_id)
    first, end, _ = lookup.bounds(name)
    lag = max(0, end - max(offset, first))
    return GroupOffset(
        group, topic, queue_id, offset, first, end, lag, store_time(lookup, name, end - lag) if lag else None
    )


def store_time(lookup: QueueLookup, name: QueueName, offset: int) -> int | None:
    """Return the store time in ms of the message at a queue offset; None if it cannot be read."""
    try:
        message = lookup.message(name, offset)
    except (CorruptStoreError, FormatError):
        return None
    return None if message is None else message.store_timestamp


def notes_of(lookup: QueueLookup) -> list[str]:
    """Return sentences on what is not known of a store's offsets."""
    snapshot = lookup.snapshot
    files = config_reader.OFFSETS, config_reader.LMQ_OFFSETS
    found = [one.text for one in snapshot.broker.problems_of(*files)]
    for folder, what in directories.in_rocksdb(snapshot.root, snapshot.effects).items():
        if folder in directories.OFFSETS_IN_ROCKSDB:
            found.append(f"{snapshot.root}/{folder}/: {what}, which FlintMQ does not read: groups may be elsewhere")
    if snapshot.facts.live:
        found.append(f"{snapshot.root}: in use: offsets are as they were last written (RocketMQ: up to 5 s ago)")
    return found

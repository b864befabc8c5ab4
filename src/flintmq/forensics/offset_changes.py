"""Moves committed offsets of groups in a store that nobody writes: all, or none.

A change is checked as a whole before a byte is written; then the file of offsets is replaced as the engine replaces it
(`store/layout/config_writer.py`), in RocketMQ's form and with its `.bak`. An offset is within its queue, so a start
leaves it as it is: the end of the log is found as a start finds it, and an unclean log is synced before, so that no
power cut takes what an offset counts as consumed.

Upstream: ConsumerOffsetManager.commitOffset, cloneOffset; AdminBrokerProcessor.resetOffsetInner, without consumers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import StoreLockedError, UnknownTopicError, UnsupportedFormatError, UsageError
from flintmq.forensics.group_offsets import ASK_BROKER, known_topics, refuse_address, unknown_ends
from flintmq.format.group_topics import GROUP_MAX, LEGAL_NAME, OF_GROUPS, OWN_GROUPS
from flintmq.storage.files.dispatch_lock import holder
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.lock import is_live
from flintmq.storage.files.store_url import local_only
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout import config_reader, directories, followed
from flintmq.store.layout.config_writer import ConfigFile, save
from flintmq.store.layout.given_sizes import open_root
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.known_topics import no_topic
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.services import groups as groups_table
from flintmq.store.services.consumer_offsets import OFFSETS, ConsumerOffsets, check_names
from flintmq.store.services.groups import Groups

FIRST: Final = "first"
LAST: Final = "last"
PEER: Final = "5.3.3"
"""The form of the files, which all versions read: that of `MessageStore`."""
_QUEUES_MAX: Final = 1 << 16  # of those that topics.json claims and that have no messages


class Move(NamedTuple):
    """A wanted place of a group: the queue offset of the next message that it shall get."""

    group: str
    topic: str
    queue_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A place of a group before and after; the queue's offsets are [min_offset, max_offset)."""

    group: str
    topic: str
    queue_id: int
    before: int | None  # None: it had no offset
    after: int
    min_offset: int
    max_offset: int


@contextmanager
def stopped_offsets(
    path: str, config: StoreConfig, *, dry_run: bool = False, effects: Effects = REAL
) -> Iterator[StoppedOffsets]:
    """Open the offsets of a store to be changed; its lock is held meanwhile, unless `dry_run`.

    Raises:
        StoreLockedError: a broker, an engine or a dispatcher has it.
        UsageError: no local directory; a copy whose follower replaces its tables; two files of offsets.
        UnsupportedFormatError: offsets or queues in RocksDB, a DLedger log.
        NotAStoreError, StoreAccessError: no store; a file of config/ is there and cannot be read.
        CorruptStoreError: damage at the end of the log, so that the ends of queues are not known.
    """
    refuse_address(path)
    root = open_root(local_only(path), config, effects)
    with ExitStack() as held:
        try:
            if dry_run and is_live(root):
                raise StoreLockedError(f"{root}: another process writes this store; stop it first")
            if not dry_run:
                held.callback(effects.lock_store(root).release)
        except StoreLockedError as error:
            raise StoreLockedError(f"{error}; {ASK_BROKER}") from None
        _refuse(root, effects)
        yield StoppedOffsets(root, _with_file(root, config, effects), effects)


def _refuse(root: str, effects: Effects) -> None:
    directories.refuse_other_kinds(root, effects)
    for folder, what in directories.in_rocksdb(root, effects).items():
        if folder in directories.OFFSETS_IN_ROCKSDB:
            raise UnsupportedFormatError(f"{root}/{folder}: {what}, which FlintMQ does not write; {ASK_BROKER}")
    if (by := holder(root)) is not None:
        raise StoreLockedError(f"{root}: {by} writes its queues; stop that one first")
    copy = followed.read(root, effects)
    if copy is not None and copy.mastered_at is None and copy.lacks != followed.NOT_ASKED:
        raise UsageError(
            f"{root}: a copy of {short(copy.master)} with its broker's offsets (--config-from), which the next "
            "`flintmq follow` would write over these; change them at that broker, or carry the copy on as a store of "
            "its own first: `flintmq recover`"
        )


def _with_file(root: str, config: StoreConfig, effects: Effects) -> StoreConfig:
    """Choose the file of offsets that a broker of this store reads."""
    names = effects.listdir(os.path.join(root, directories.CONFIG))
    if "enableLmq" in config.given or config_reader.LMQ_OFFSETS not in names:
        return config
    if config_reader.OFFSETS in names:
        both = f"{config_reader.OFFSETS} and {config_reader.LMQ_OFFSETS}"
        raise UsageError(
            f"{root}: config/ has {both}; give --set enableLmq=true or false, as the broker has, which reads one"
        )
    return config.with_keys({"enableLmq": True})


def _refuse_own(group: str) -> None:
    if group.startswith(OWN_GROUPS):
        raise UsageError(f"group {short(group)} is one of RocketMQ's own, whose offsets are not moved")


class StoppedOffsets:
    """The committed offsets of a store that nobody writes. Use `stopped_offsets`.

    Attributes:
        left: sentences on offsets of a group that `reset` and `clone` do not move, unless their topic is named.
    """

    def __init__(self, root: str, config: StoreConfig, effects: Effects) -> None:
        self.root, self.effects, self.left = root, effects, list[str]()
        snapshot = Snapshot(root, config, effects)
        snapshot.facts = replace(snapshot.facts, live=False)  # the lock is held here, or nobody holds it
        snapshot.check_end()
        self._lookup, self._queues_of = QueueLookup(snapshot), dict[str, frozenset[int]]()
        name = config_reader.LMQ_OFFSETS if config.enable_lmq else config_reader.OFFSETS
        self._files = (
            self._usable(config_reader.GROUPS, groups_table.TABLE, groups_table.FORBIDDEN),
            self._usable(name, OFFSETS),
        )
        groups = Groups(self._files[0])
        self._offsets = ConsumerOffsets(self._files[1], groups.know)
        self._groups = groups.all_settings().keys() | {group for _, group in self._offsets.of_all()}
        self._topics = known_topics(self._lookup)

    def _usable(self, name: str, *tables: str) -> ConfigFile:
        """Read a file of config/; refuse one that a change would replace by less."""
        file = ConfigFile(self.root, name, tables, self.effects, PEER)
        for one in file.problems:
            if self.effects.size(one.file) is not None:
                raise UsageError(
                    f"{one.file}, position {one.position}: {one.reason}; nothing was written: mend it, or put its .bak "
                    "in its place, or move both away to go on without what it held"
                )
            self.left.append(one.text)
        return file

    # -- what is wanted -----------------------------------------------------------------------------------------------

    def reset(self, group: str, topics: Sequence[str], to: int | str) -> list[Move]:
        """Return the moves of a group to FIRST, LAST or a store time in ms, in all queues of topics.

        A time is looked up as RocketMQ does (`StoreView.offset_at_time`): the first message stored then or later, else
        the end. Without topics they are those that the group has an offset of, without its retry topics.
        """
        topics = list(dict.fromkeys(topics)) or sorted({topic for topic, _ in self._of_group(group, topics)})
        with self._lookup.snapshot.held():
            return [
                Move(group, topic, queue_id, self._target(QueueName(topic, queue_id), to))
                for topic in topics
                for queue_id in sorted(self._queues(topic))
            ]

    def _target(self, name: QueueName, to: int | str) -> int:
        first, end = self._bounds(*name)
        return first if to == FIRST else end if to == LAST else self._lookup.offset_at_time(name, int(to))

    def clone(self, source: str, into: str, topics: Sequence[str] = ()) -> list[Move]:
        """Return the moves of a group to the places of another one, in topics as for `reset`."""
        _refuse_own(source)
        if source == into:
            raise UsageError(f"group {short(into)} is the same group; give another --into")
        return [Move(into, *place, offset) for place, offset in self._of_group(source, topics).items()]

    def _of_group(self, group: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
        """Return the offsets of a group in topics; without any, in all but its retries."""
        if group not in self._groups:
            raise UsageError(no_topic(self.root, group, sorted(self._groups), "group"))
        found = {place: at for place, at in sorted(self._offsets.of_group(group).items()) if at >= 0}
        kept = set(topics)
        for topic in topics:
            self._queues(topic)
            if topic not in {of for of, _ in found}:
                raise UsageError(f"{self.root}: group {short(group)} has no offset of topic {short(topic)}")
        for topic in sorted({of for of, _ in found if not topics}):
            if topic.startswith(OF_GROUPS):
                if topic in self._topics and (unread := sum(self._unread(topic, found))):
                    self.left.append(f"topic {short(topic)} is left: its {unread} unread messages come as before")
            elif topic in self._topics:
                kept.add(topic)
            else:
                self.left.append(f"topic {short(topic)} is left: it is gone")
        if not kept:
            why = [f"{self.root}: group {short(group)} has no offset to go by", *self.left, "name a topic: --topic"]
            raise UsageError("; ".join(why))
        return {place: at for place, at in found.items() if place[0] in kept}

    def _unread(self, topic: str, places: Mapping[tuple[str, int], int]) -> Iterator[int]:
        for queue_id in self._queues(topic):
            first, end = self._bounds(topic, queue_id)
            yield max(0, end - max(first, places.get((topic, queue_id), 0)))

    # -- the change ---------------------------------------------------------------------------------------------------

    def check(self, moves: Iterable[Move], *, create: bool = False, clamp: bool = False) -> list[OffsetChange]:
        """Return what moves change; nothing is written.

        Args:
            moves: each place at most once.
            create: make groups that are not there.
            clamp: move an offset that is outside of its queue to the queue's nearest end.

        Raises:
            UsageError: an unknown group or queue, a group of RocketMQ's own, or an offset outside of its queue.
            UnknownTopicError: an unknown topic.
        """
        try:
            return [self._change(move, create, clamp) for move in moves]
        except UsageError as error:
            raise type(error)(f"{error}; nothing was written") from None

    def _change(self, move: Move, create: bool, clamp: bool) -> OffsetChange:
        group, topic, queue_id, offset = move
        check_names(group, topic)
        _refuse_own(group)
        if group not in self._groups:
            if not create:
                none = no_topic(self.root, group, sorted(self._groups), "group")
                raise UsageError(f"{none}; --create makes a new group")
            if not LEGAL_NAME.fullmatch(group) or len(group) > GROUP_MAX:
                raise UsageError(
                    f"{short(group)} cannot be a new group's name: it has up to {GROUP_MAX} of %|a-zA-Z0-9_-"
                )
        if queue_id not in (queues := self._queues(topic)):
            has = f"{min(queues)} to {max(queues)}" if queues else "none"
            raise UsageError(f"topic {short(topic)} has no queue {queue_id}; its queues are {has}")
        first, end = self._bounds(topic, queue_id)
        after = min(max(offset, first), end) if clamp else offset
        if not first <= after <= end:
            raise UsageError(
                f"group {short(group)}: offset {offset} is outside of queue {short(topic)}/{queue_id}, where it may be "
                f"{first} to {end}"
            )
        return OffsetChange(group, topic, queue_id, self._offsets.get(group, topic, queue_id), after, first, end)

    def write(self, changes: Iterable[OffsetChange]) -> int:
        """Write what differs, of all changes or of none; return the number of places.

        Durability: on return. Raises OSError: the disk refused; the offsets are those of before.
        """
        moved = [one for one in changes if one.after != one.before]
        for one in moved:
            self._offsets.commit(one.group, one.topic, one.queue_id, one.after)
        save(self._files, self._sync_log)
        return len(moved)

    def _sync_log(self) -> bool:
        snapshot = self._lookup.snapshot
        for file in snapshot.log.files if not snapshot.facts.clean else ():
            with self.effects.reading(file.path) as fd:
                self.effects.sync(fd)
        return True

    def _bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return self._lookup.bounds(QueueName(topic, queue_id))[:2]

    def _queues(self, topic: str) -> frozenset[int]:
        """Return the queues of a topic: configured ones, and those that are there.

        Raises UnknownTopicError: it is not there. UsageError: the ends of its queues are not known.
        """
        if topic not in self._queues_of:
            if topic not in self._topics:
                raise UnknownTopicError(no_topic(self.root, topic, sorted(self._topics)))
            if unknown := unknown_ends(self._lookup, topic):
                raise UsageError(unknown)
            settings = self._lookup.snapshot.broker.topics.get(topic)
            configured = range(min(settings.read_queues, _QUEUES_MAX) if settings is not None else 0)
            there = {name.queue_id for name in self._lookup.names(topic)}
            self._queues_of[topic] = frozenset(there.union(configured))
        return self._queues_of[topic]


def changed(
    path: str,
    config: StoreConfig,
    moves_of: Callable[[StoppedOffsets], Iterable[Move]],
    *,
    create: bool = False,
    clamp: bool = False,
    dry_run: bool = False,
) -> tuple[list[OffsetChange], list[str]]:
    """Change offsets of a store.

    Returns each place that was named, and sentences on what is left.

    Raises: as `stopped_offsets`, `StoppedOffsets.check` and `write`.
    """
    with stopped_offsets(path, config, dry_run=dry_run) as offsets:
        changes = offsets.check(moves_of(offsets), create=create, clamp=clamp)
        if not dry_run:
            offsets.write(changes)
        return changes, offsets.left

"""Opens the store of a follower, after a look at what is there, and cuts its end off.

Nothing is made in a new directory before the master, and the broker whose tables are asked for, have answered. Before
the first byte is stored, `flintmq.follow` says that the directory is a copy, and of whom.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.ha.adoption import (
    check_file_size,
    check_past,
    is_new,
    known,
    note_begin,
    note_compared,
    note_cut,
    note_lacks,
)
from flintmq.ha.broker_tables import ATTEMPTS, UNSETTLED, BrokerTables
from flintmq.ha.connection import Dial
from flintmq.ha.pauses import Pauses
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.store_url import local_only
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.layout import directories
from flintmq.store.layout.followed import NOT_ASKED, Followed
from flintmq.store.layout.given_sizes import refuse_other_sizes
from flintmq.store.layout.queue_name import queue_names
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.lost_log import lost_directory

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The arguments of a `Follower`, which explains them; `config` is that of a slave."""

    path: str | os.PathLike[str]
    master: str
    begin: str | int
    config: StoreConfig
    ack: bool
    adopt: bool
    resync: bool
    confirmed: bool
    once: bool
    effects: Effects
    dial: Dial
    services: bool


class FollowerStore:
    """Opens the store of one follower.

    Thread: one; `store` may be read from any.

    Attributes:
        first_file: log offset of the broker's first file, as it last said; 0 if nobody was asked.
        unsure: from this log offset on a power cut may have taken bytes that no checksum covers; None: from nowhere.
    """

    def __init__(self, options: FollowOptions, tables: BrokerTables | None, pauses: Pauses, on_event: OnEvent) -> None:
        self._options, self._tables, self._pauses, self._on_event = options, tables, pauses, on_event
        self._effects = options.effects
        self.root = os.path.abspath(local_only(options.path))
        self.begin, self.first_file = options.begin, 0
        self._given = options.config, "5.3.3"  # what the store is opened with
        self._lacks: str | None = None  # as it was noted last
        self.store: MessageStore | None = None  # the open store; None before and after
        self.unsure: int | None = None

    def opened(self) -> MessageStore:
        if self.store is None:
            path = os.fspath(self._options.path)
            raise UsageError(f"{path}: this follower is closed, or its master has not answered yet")
        return self.store

    @property
    def file_size(self) -> int:
        """Bytes of a log file, of the store or of the one that is still to be made."""
        return self._given[0].mapped_file_size_commit_log if self.store is None else self.store.raw.file_size

    def prepare(self, patient: bool) -> bool:
        """Check the directory, and ask for the broker's tables; nothing is made.

        Returns:
            False if it was stopped before.
        """
        # First: a directory that is refused costs the broker no question.
        self.check_past()
        if self._tables is not None:
            config = self._first_tables(self._tables, patient)
            facts = self._tables.facts
            if facts is None:
                return False
            if (size := facts.file_size) is not None:
                check_file_size(self.root, size, config, self._effects)
            self._given = config, facts.peer
            self.first_file = facts.begin or 0
        return True

    def check_past(self) -> None:
        """Check that the directory is new, a copy, or to be adopted, with the sizes that were given."""
        check_past(self.root, self._given[0], self._effects, adopt=self._options.adopt)
        refuse_other_sizes(self.root, self._options.config, self._effects)

    def is_new(self) -> bool:
        lost_directory(self.root, self._given[0], self._effects)
        directories.refuse_other_kinds(self.root, self._effects)
        is_file = self._effects.size(self.root) is not None and not self._effects.is_dir(self.root)
        return not is_file and is_new(self.root, self._given[0], self._effects)

    def open(self) -> None:
        """Open the store, with the broker's tables if it is new."""
        written = [] if self._tables is None else self._tables.save(self.root)
        store = self._open()
        if self._tables is not None:
            self._tables.start(store)
        if written:
            self._on_event({"event": "metadata", "files": written})
        raw = store.raw
        self._on_event({"event": "opened", "begin": raw.begin, "end": None if raw.begin is None else raw.end})

    def note_begin(self, begin: int) -> None:
        """Note, before the first byte, that this is a copy, and of whom."""
        lacks = NOT_ASKED if self._tables is None else UNSETTLED
        now = Followed(self._options.master, begin, self.opened().raw.file_size, str(self.begin), lacks=lacks)
        note_begin(self.root, now, self._effects)

    def note_lacks(self) -> str | None:
        """Note what the copy lacks to be carried on as its master would go on."""
        begin = self.opened().raw.begin
        lacks = NOT_ASKED if self._tables is None else self._tables.lacks(begin)
        if begin is not None and lacks != self._lacks:
            note_lacks(self.root, lacks, self._effects)
            self._lacks = lacks
        return lacks

    def note_compared(self) -> None:
        """Note that the master's log agrees with all that a power cut may have changed."""
        if self.unsure is not None:
            note_compared(self.root, self._effects)
            self.unsure = None

    def cut(self, at: int) -> None:
        """Move what is stored from a log offset on to `quarantine/`, and open the store again.

        A cut that a stop interrupts is done by the next opening.
        """
        store = self.opened()
        # On disk before a record goes: after a kill the next opening cuts at the same place.
        note_cut(self.root, at, self._effects)
        self._open_again(store)

    def lay_again(self) -> list[str]:
        """Lay out queues again, and return their topics; empty: all, as a key of the layout changed.

        They are those of another kind than the broker says. The store is closed and opened again, and recovery makes
        the queues that are missing from the whole log, by the broker's present tables. A kill amid it is mended by the
        next start in the same way.
        """
        store, tables = self.opened(), self._tables
        begin = store.raw.begin or 0
        assert tables is not None
        topics = None if tables.keys else [os.fsdecode(topic) for topic in tables.stale]
        config, peer = self._given
        self._given = config.with_keys(tables.keys), peer
        # Noted before a file goes: who carries on after a kill must not take these queues for the master's.
        note_lacks(self.root, UNSETTLED, self._effects)
        self._lacks = UNSETTLED

        def remove() -> None:
            small = StoreFiles(self.root, self._effects)
            small.trust(read_facts(self.root, self._effects).mark)
            # Lowered before the files go: recovery makes no unit again that the mark calls durable.
            small.retreat(small.mark.with_units_below(begin))
            for kind in (directories.QUEUES, directories.BATCH_QUEUES, directories.EXT_QUEUES):
                for name in queue_names(self.root, kind, self._effects, topics):
                    folder = os.path.join(self.root, kind, name.topic, str(name.queue_id))
                    for file in self._effects.listdir(folder):
                        self._effects.unlink(os.path.join(folder, file))
                    self._effects.remove_folder(folder)
                    self._effects.remove_folder(os.path.dirname(folder))

        tables.laid_again()
        self._open_again(store, remove)
        return sorted(topics or [])

    def _open_again(self, store: MessageStore, between: Callable[[], None] | None = None) -> None:
        self.store = None
        store.close()
        if between is not None:
            between()
        store = self._open()
        if self._tables is not None:
            self._tables.start(store)

    def _open(self) -> MessageStore:
        """Open the store; a cut that is under way is done."""
        options, (config, peer) = self._options, self._given
        noted = known(self.root, self._effects)
        self.store = MessageStore(
            options.path,
            config,
            effects=self._effects,
            peer=peer,
            cut_at=None if noted is None else noted.cut_at,
            services=options.services,
        )
        raw = self.store.raw
        # Noted at each opening, before a record comes: nobody knows yet what the broker changed meanwhile.
        if raw.begin is not None:
            self.note_begin(raw.begin)
            self._lacks = NOT_ASKED if self._tables is None else UNSETTLED
            note_lacks(self.root, self._lacks, self._effects)
        noted = known(self.root, self._effects)
        self.unsure = None if noted is None else noted.unsure_from
        return self.store

    def _first_tables(self, tables: BrokerTables, patient: bool) -> StoreConfig:
        """Ask the broker until it answers, or a stop."""
        config, failed = self._options.config, 0
        while not self._pauses.stopping.is_set():
            try:
                config = tables.begin(self.root, config)
                break
            except (ConnectionError, TimeoutError) as error:
                failed += 1
                if failed >= ATTEMPTS and (self._options.once or not patient):
                    text = f"{one_line(error)}; give a broker's listenPort with --config-from"
                    raise UsageError(text) from error
                if failed == 1:
                    self._on_event({"event": "lost", "what": "tables", "reason": one_line(error)})
            self._pauses.take()
        self._pauses.reset()
        return config


def one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(str(text).split()) or type(error).__name__

"""Keeps a broker's tables in its follower's store: from its begin on, and each minute.

The broker is asked first: its configuration decides how queues are laid out, and its topics which ones are batch
queues. A new store gets the tables before it is opened; one that is there keeps its own until the master's log agrees
with its log, so that a refused master changes nothing. Later the broker is asked in a thread of its own, so that one
that does not answer holds up no byte of the log; the follower's thread takes the answer. A broker that is gone, or
refuses, ends the follower only the first time.

What decides on bytes of the copy, or on the next offset of a queue, and when it is asked:

    fact                                asked                                 if it changes
    types of topics (queue.type)        at the begin; each minute; and when   its queues are laid out again
                                        a record comes whose topic is not
                                        known, which dispatch holds meanwhile
    keys of the configuration           at the begin, each minute             all queues are laid out again
    next offsets of queues: messages    at the begin, and when the table of   the queue is made, or removed
    that expired, topics deleted and    topics has another version: each
    made again                          creation and deletion raises it
    begin of the broker's log           at the begin, each minute             the copy says what it lacks

Until all of this was asked, and while the copy lacks something, it says so (`lacks`).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import ReplicationError
from flintmq.format.config_json import JsonObject
from flintmq.format.text import java_encode
from flintmq.ha import metadata
from flintmq.ha.metadata import BrokerFacts
from flintmq.kernels.threads.handoff import Signal
from flintmq.remoting.client import split_address
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store.consumequeue.queue_ends import QueueEnds
from flintmq.store.layout import config_reader, directories
from flintmq.store.message_store import MessageStore

log = logging.getLogger("flintmq.ha")

EVERY_S: Final = 60.0
SOON_S: Final = 0.2
"""Seconds between two questions while a record waits for the type of its topic."""
FILE_SIZE: Final = "mappedFileSizeCommitLog"
_SIZES = "size", "num", "length"  # a key with such a word is about files, whose sizes are found in a store that exists

ATTEMPTS: Final = 3
"""Attempts to reach somebody who must answer now; in any case, lines in a row without an answer until it is refused."""
UNSETTLED: Final = "its broker has not said yet where its queues go on"

Event = dict[str, Any]
AskEnds = Callable[[str, Mapping[str, JsonObject], Iterable[tuple[bytes, int]]], QueueEnds | None]


class BrokerTables:
    """Asks one broker for its tables, and keeps them in one store.

    `stale`: topics (raw) whose queues are of another kind than the broker says; all of them must be laid out again if
    `keys` changed.

    Thread: the follower's, for every method but `knows`.
    """

    def __init__(
        self,
        address: str,
        effects: Effects,
        *,
        every_s: float = EVERY_S,
        fetch: Callable[[str], BrokerFacts] = metadata.fetch,
        ask_ends: AskEnds = metadata.queue_ends,
    ) -> None:
        split_address(address)
        self.address, self.effects = address, effects
        self.facts: BrokerFacts | None = None
        self.failed = 0  # attempts in a row that had none
        self.stale: set[bytes] = set()
        self.keys: dict[str, str] = {}  # keys of the broker's configuration, other than before; empty: none are
        self._every_s, self._fetch, self._ask_ends = every_s, fetch, ask_ends
        # Single assignments of two threads need no lock.
        self._came: BrokerFacts | Exception | None = None
        self._ends: QueueEnds | None = None  # asked, and not yet brought to the queues
        self._lacks: str | None = UNSETTLED
        self._ends_of: object = None  # version of the table of topics when queues' ends were last asked for
        self._ends_due = 0.0
        self._last: BrokerFacts | None = None  # as `facts`, before it is taken
        self._unknown: set[bytes] = set()  # topics of records that are held
        self._known: frozenset[bytes] = frozenset()
        self._asked_for: frozenset[bytes] = frozenset()  # the unknown ones when the last answer was asked for
        self._absent: frozenset[bytes] = frozenset()  # asked for after their record came, and not there: deleted since
        self._laid_out: dict[str, str] = {}  # keys with which the store was opened
        self._places: Callable[[], list[tuple[bytes, int]]] = list
        self._there = True
        self._begin = 0  # of the broker's log, as far as it is known
        self._stopping, self._turn = StopEvent(), Signal()
        self._thread: threading.Thread | None = None

    def begin(self, root: str, config: StoreConfig) -> StoreConfig:
        """Ask for the first time; nothing is written.

        A new store gets the tables from `save`, one that is there from `take`.

        Returns:
            The configuration, with the broker's values of the keys that were not given and that decide on bytes.
        """
        facts = self._fetch(self.address)
        keys = facts.store_keys
        self._laid_out = {key: value for key, value in keys.items() if key not in config.given and not _is_size(key)}
        size = int(keys.get(FILE_SIZE, config.mapped_file_size_commit_log))
        if FILE_SIZE in config.given and size != config.mapped_file_size_commit_log:
            raise ReplicationError(
                "geometry",
                f"{self.address}: its log files have {size} bytes, and {FILE_SIZE} is given as "
                f"{config.mapped_file_size_commit_log}; leave it out, and the broker's counts",
            )
        if self.effects.is_dir(os.path.join(root, directories.LOG)):
            keys = {key: value for key, value in keys.items() if not _is_size(key)}
            self._came = facts
        self.facts = self._last = facts
        return config.with_keys({key: value for key, value in keys.items() if key not in config.given})

    def save(self, root: str) -> list[str]:
        """Write the tables that came into a new store, which is not open; return what changed.

        A store that was there when the broker was asked waits for `take`. Durability: on return.
        """
        if self.facts is None or self._came is not None:
            return []
        return metadata.save(root, self.facts.tables, self.effects, self.facts.peer)

    def start(self, store: MessageStore) -> None:
        """Have the open store keep the broker's tables, and go on asking.

        May be called again, for a store that was opened again.
        """
        store.follow_tables({})
        if self._came is None and self.facts is not None:  # `save` wrote them
            self._known = _topics_of(self.facts)
        store.copied.hold_unless(self.knows)
        self._places = store.copied.places
        if self._thread is None:
            self._thread = threading.Thread(target=self._ask_again, name="flintmq-tables", daemon=True)
            self._thread.start()

    def knows(self, topic: bytes) -> bool:
        """Return whether the type of a topic is known; if not, the broker is asked soon.

        Thread: dispatch.
        """
        if topic in self._known or topic in self._absent:
            return True
        if topic not in self._unknown:
            self._unknown.add(topic)
            self._turn.set()
        return False

    def take(self, store: MessageStore, *, agreed: bool = True) -> Event | None:
        """Put what came since into the open store; return an event about it, if there is one.

        `agreed`: the master's log agrees with the store's; until then tables are kept for a later call. Durability: on
        return. Raises OSError: the disk refused; the next call goes on.
        """
        came, self._came = self._came, None
        if came is None:
            if agreed:
                self._bring_ends(store)
            return None
        if isinstance(came, BrokerFacts) and not agreed:
            # Put back for a later call, unless a newer answer came meanwhile.
            self._came = self._came or came
            return None
        if not isinstance(came, BrokerFacts):
            log.warning("%s: its topics and offsets are as before: %s", self.address, came)
            was_there, self._there = self._there, False
            return {"event": "lost", "what": "tables", "reason": str(came)} if was_there else None
        self._there, self.facts = True, came
        self._begin = max(self._begin, came.begin or 0)
        written = store.follow_tables(came.tables)
        self._known = _topics_of(came)
        # A topic is absent only by an answer that was asked for after its record had come.
        self._absent = (self._absent | self._asked_for) - self._known
        self._unknown -= self._known | self._absent
        batch = {java_encode(topic) for topic in config_reader.batch_topics_of(came.tables[config_reader.TOPICS])}
        self.stale = store.copied.of_other_kind(self._known, batch)
        keys = {key: came.store_keys[key] for key in self._laid_out if key in came.store_keys}
        self.keys = {key: value for key, value in keys.items() if value != self._laid_out[key]}
        if not self.stale and not self.keys:  # else it is asked for anew, once they are laid out again
            self._bring_ends(store)
        return {"event": "metadata", "files": written} if written else None

    def laid_again(self) -> None:
        """Note that `stale` and `keys` were followed: where queues go on must be asked for anew."""
        self._laid_out |= self.keys
        self.keys, self.stale = {}, set()
        self._lacks, self._ends, self._ends_of, self._ends_due = UNSETTLED, None, None, 0.0
        self._turn.set()

    def lacks(self, begin: int | None) -> str | None:
        """Return why a copy cannot be carried on as the broker would go on; None: it can."""
        if self._lacks is None and begin is not None and begin > self._begin:
            return f"it begins at log offset {begin}, and the broker's log at {self._begin}: groups may miss messages"
        return self._lacks

    @property
    def settled(self) -> bool:
        """True unless it is still to be found out what the copy lacks."""
        return self._lacks != UNSETTLED

    def stop(self) -> None:
        """Ask no more. A question under way is not waited for."""
        self._stopping.set()
        self._turn.set()

    def _bring_ends(self, store: MessageStore) -> None:
        """Bring the broker's ends to the queues, once they have all records that it counted."""
        ends, self._ends = self._ends, None
        if ends is None:
            return
        odd, self._begin = store.copied.agree(ends), max(self._begin, ends.begin)
        if odd is None:
            # Not all records are dispatched that the broker had counted: the next call tries again.
            self._ends = self._ends or ends
        else:
            self._lacks = None if not odd else "; ".join(odd[:3]) + (f" and {len(odd) - 3} more" if odd[3:] else "")

    def _ask_again(self) -> None:
        due = time.monotonic() + self._every_s
        while not self._stopping.is_set():
            if self._ends_due <= time.monotonic():
                self._ask_for_ends()
            self._turn.wait(min(max(due - time.monotonic(), 0), SOON_S if self._unknown else self._every_s))
            # Taken before the question: of a topic that comes during it the answer proves nothing.
            unknown, now = frozenset(self._unknown), time.monotonic()
            if self._stopping.is_set() or not (unknown or now >= due):
                continue
            due = now + self._every_s
            try:
                came = self._fetch(self.address)
                # `_came` is assigned last: who takes it reads the others then.
                self._asked_for, self.failed, self._last, self._came = unknown, 0, came, came
            except (ReplicationError, OSError) as error:
                self._came, self.failed = error, self.failed + 1
                self._stopping.wait(SOON_S)

    def _ask_for_ends(self) -> None:
        """Ask where queues go on, if topics changed since; at most once in `every_s`."""
        facts = self._last
        version = None if facts is None else facts.tables[config_reader.TOPICS].get("dataVersion")
        if facts is None or self._ends_of == (version,):
            return
        for attempt in range(ATTEMPTS):
            try:
                ends = self._ask_ends(self.address, facts.tables, self._places())
                self._ends_of, self._ends = (version,), ends
                if ends is None:
                    self._lacks = "the broker does not say where its queues go on (request 30)"
                break
            except (ReplicationError, OSError) as error:
                if attempt == ATTEMPTS - 1:
                    self._lacks = f"the broker did not say where its queues go on: {error}"
                elif self._stopping.wait(SOON_S):
                    return
        self._ends_due = time.monotonic() + self._every_s


def _is_size(key: str) -> bool:
    return any(word in key.lower() for word in _SIZES)


def _topics_of(facts: BrokerFacts) -> frozenset[bytes]:
    return frozenset(java_encode(str(topic)) for topic in facts.tables[config_reader.TOPICS]["topicConfigTable"])

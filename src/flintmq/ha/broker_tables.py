"""Keeps a broker's tables in its follower's store: from its begin on, and each minute.

The broker is asked first: its configuration decides how queues are laid out, and its topics which ones are batch
queues. A new store gets the tables before it is opened; one that is there keeps its own until the master's log agrees
with its log, so that a refused master changes nothing. Later the broker is asked in a thread of its own, so that one
that does not answer holds up no byte of the log; the follower's thread takes the answer. A broker that is gone, or
refuses, ends the follower only the first time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import ReplicationError
from flintmq.ha import metadata
from flintmq.ha.metadata import BrokerFacts
from flintmq.ha.remoting import split_address
from flintmq.storage.filesystem import Effects
from flintmq.storage.stop_event import StopEvent
from flintmq.store.layout import directories
from flintmq.store.message_store import MessageStore

log = logging.getLogger("flintmq.ha")

EVERY_S: Final = 60.0
FILE_SIZE: Final = "mappedFileSizeCommitLog"
_SIZES = "size", "num", "length"  # a key with such a word is about files, whose sizes are found in a store that exists

Event = dict[str, Any]


class BrokerTables:
    """Asks one broker for its tables, and keeps them in one store.

    Args:
        address: `HOST:PORT` of the broker's listenPort.
        effects: the disk and the clock.
        every_s: seconds between two questions.
        fetch: asks; for tests.

    Raises:
        UsageError: no address.

    Attributes:
        facts: the last answer.

    Thread: the follower's, for every method.
    """

    def __init__(
        self,
        address: str,
        effects: Effects,
        *,
        every_s: float = EVERY_S,
        fetch: Callable[[str], BrokerFacts] = metadata.fetch,
    ) -> None:
        split_address(address)
        self.address, self.effects = address, effects
        self.facts: BrokerFacts | None = None
        self._every_s, self._fetch = every_s, fetch
        self._came: BrokerFacts | Exception | None = None  # single assignments of two threads need no lock
        self._there = True
        self._stopping = StopEvent()
        self._thread: threading.Thread | None = None

    def begin(self, root: str, config: StoreConfig) -> StoreConfig:
        """Ask for the first time; nothing is written.

        A new store gets the tables from `save`, one that is there from `take`.

        Args:
            root: of the store.
            config: of the follower.

        Returns:
            The configuration, with the broker's values of the keys that were not given and that decide on bytes.

        Raises:
            ReplicationError: it refuses, cannot be followed, or has another size of log files.
            OSError: it cannot be reached.
        """
        facts = self._fetch(self.address)
        keys = facts.store_keys
        size = int(keys.get(FILE_SIZE, config.mapped_file_size_commit_log))
        if FILE_SIZE in config.given and size != config.mapped_file_size_commit_log:
            raise ReplicationError(
                "geometry",
                f"{self.address}: its log files have {size} bytes, and {FILE_SIZE} is given as "
                f"{config.mapped_file_size_commit_log}; leave it out, and the broker's counts",
            )
        if self.effects.is_dir(os.path.join(root, directories.LOG)):
            keys = {key: value for key, value in keys.items() if not any(word in key.lower() for word in _SIZES)}
            self._came = facts
        self.facts = facts
        return config.with_keys({key: value for key, value in keys.items() if key not in config.given})

    def save(self, root: str) -> list[str]:
        """Write the tables that came into a new store, which is not open.

        A store that was there when the broker was asked waits for `take`.

        Args:
            root: of the store; made if it is missing.

        Returns:
            Names of the files that changed.

        Raises:
            OSError, StoreLockedError, StoreAccessError: as for `metadata.save`.

        Durability: on return.
        """
        if self.facts is None or self._came is not None:
            return []
        return metadata.save(root, self.facts.tables, self.effects, self.facts.peer)

    def start(self, store: MessageStore) -> None:
        """Have the open store keep the broker's tables, and go on asking."""
        store.follow_tables({})
        self._thread = threading.Thread(target=self._ask_again, name="flintmq-tables", daemon=True)
        self._thread.start()

    def take(self, store: MessageStore, *, agreed: bool = True) -> Event | None:
        """Put what came since into the open store.

        Args:
            store: the copy, open in role SLAVE.
            agreed: the master's log agrees with the store's; until then tables are kept for a later call.

        Returns:
            An event about it, if there is one.

        Raises:
            StoreAccessError: a file that was not kept before is there and cannot be read.
            OSError: the disk refused; the next call goes on.

        Durability: on return.
        """
        came, self._came = self._came, None
        if came is None:
            return None
        if isinstance(came, BrokerFacts) and not agreed:
            self._came = self._came or came
            return None
        if not isinstance(came, BrokerFacts):
            log.warning("%s: its topics and offsets are as before: %s", self.address, came)
            was_there, self._there = self._there, False
            return {"event": "lost", "reason": str(came)} if was_there else None
        self._there, self.facts = True, came
        written = store.follow_tables(came.tables)
        return {"event": "metadata", "files": written} if written else None

    def stop(self) -> None:
        """Ask no more. A question under way is not waited for."""
        self._stopping.set()

    def _ask_again(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self._came = self._fetch(self.address)
            except (ReplicationError, OSError) as error:
                self._came = error

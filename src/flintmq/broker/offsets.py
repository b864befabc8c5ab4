"""Offsets of groups that a read-only broker keeps: in memory, or in a file of the user's.

A group begins where the store's own offsets are; what it commits here is never written into the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from typing import Final

from flintmq.broker.served import Asker
from flintmq.errors import FormatError, StoreAccessError, UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.storage.files.file_lock import FileLock
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.whole_file import replace_file
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout.config_reader import BrokerConfig, numbers_of

log = logging.getLogger("flintmq.broker")

SAVE_S: Final = 5.0  # from a commit to the file, as RocketMQ's brokers take
_TABLE = "offsetTable"


class KeptOffsets:
    """Offsets that groups committed here, over those that the store has.

    Thread: the loop's, but for `save`.

    Args:
        stored: returns the store's config/ as of the last look.
        file: JSON in the form of consumerOffset.json, replaced as a whole; None: memory alone.

    Attributes:
        changes: how many offsets were committed.

    Raises (when it is made):
        UsageError: the file holds something else, or another broker keeps it.
        StoreAccessError: it cannot be read, or its directory cannot be written.
    """

    def __init__(self, stored: Callable[[], BrokerConfig], file: str | None) -> None:
        self._stored, self._file = stored, file
        self._lock = None if file is None else FileLock(file, "broker")
        try:
            self._kept = {} if file is None else _read(file)
        except BaseException:
            self.close()
            raise
        self.changes = self._saved = 0

    @property
    def has_own(self) -> bool:
        """Return whether there are other offsets than the store's."""
        return bool(self._kept)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset that a group wants of a queue; None: it never committed one."""
        found = self._kept.get((topic, group), {}).get(queue_id)
        if found is not None:
            return found
        stored = self._stored()
        if group.startswith(LMQ_PREFIX):
            found = stored.lmq_offsets.get((topic, group))
        else:
            found = stored.consumer_offsets.get((topic, group), {}).get(queue_id)
        return None if found is None or found < 0 else found  # -1: the group has consumed nothing

    def moved(
        self, group: str, topic: str, queue_id: int, offset: int, by: Asker | None, *, is_new: bool = True
    ) -> int | None:
        """Return None: nobody sets offsets of groups here but they themselves."""
        return None

    def knows(self, group: str) -> bool:
        """Return whether a group committed an offset, here or in the store."""
        return any(of == group for table in (self._kept, self._stored().consumer_offsets) for _, of in table)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, by: Asker | None) -> None:
        """Note an offset. Durability: `save`."""
        self._kept.setdefault((topic, group), {})[queue_id] = offset
        self.changes += 1

    def forget(self, topics: Set[str]) -> None:
        """Drop the offsets of topics that were deleted: one that is made again begins at 0."""
        gone = [key for key in self._kept if key[0] in topics]
        for key in gone:
            del self._kept[key]
        self.changes += len(gone)

    def all(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return the offsets of all groups, (topic, group) to queue to offset."""
        found = {key: dict(queues) for key, queues in self._stored().consumer_offsets.items()}
        for key, queues in self._kept.copy().items():  # at one moment: figures are asked for by other threads
            found.setdefault(key, {}).update(queues)
        return found

    def close(self) -> None:
        """Let another broker have the file. May be called again."""
        if self._lock is not None:
            self._lock.release()

    def due(self) -> Callable[[], None] | None:
        """Return what writes the file, for another thread; None: it holds everything."""
        if self._file is None or self._saved == self.changes:
            return None
        file, changes, data = self._file, self.changes, encode(self._kept)

        def save() -> None:
            replace_file(file, data, REAL)
            self._saved = changes

        return save


def encode(offsets: dict[tuple[str, str], dict[int, int]]) -> bytes:
    """Return offsets as RocketMQ's consumerOffset.json has them."""
    return config_json.write(with_table({}, offsets))


def with_table(content: JsonObject, offsets: Mapping[tuple[str, str], Mapping[int, int]]) -> JsonObject:
    """Return the content of a consumerOffset.json with these offsets in the place of its own."""
    table: JsonObject = {
        f"{topic}@{group}": dict(sorted(queues.items())) for (topic, group), queues in sorted(offsets.items())
    }
    return {**content, _TABLE: table}


def _read(file: str) -> dict[tuple[str, str], dict[int, int]]:
    try:
        data = REAL.read_file(file, config_json.MAX_BYTES + 1)
    except OSError as error:
        raise StoreAccessError(f"{file}: cannot be read: {error.strerror or error}") from None
    if data is None:
        return {}
    try:
        table = config_json.parse(data).get(_TABLE)
    except FormatError as error:
        raise UsageError(f"{file}: no JSON of offsets ({error}); name another file, or move it away") from None
    found, wrong = dict[tuple[str, str], dict[int, int]](), not isinstance(table, dict)
    for key, queues in table.items() if isinstance(table, dict) else ():
        topic, sign, group = str(key).partition("@")
        known = numbers_of(queues)
        wrong = wrong or not sign or not known or len(known) < len(queues)
        wrong = wrong or min(known) < 0 or min(known.values()) < -1
        found[topic, group] = {queue: offset for queue, offset in known.items() if offset >= 0}
    if wrong:
        raise UsageError(f"{file}: no offsets of groups as consumerOffset.json has them; name another file")
    return found

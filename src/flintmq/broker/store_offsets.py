"""Keeps offsets of groups in the store that a broker writes, and those that an operator set."""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.store.message_store import MessageStore


class StoreOffsets:
    """Offsets of groups, kept by the store. Thread: the loop's.

    An offset that is set while consumers are there is also kept here until one of them goes on there, or wants another
    one twice: what they commit before that would undo it. Upstream: ConsumerOffsetManager.assignResetOffset.
    """

    has_own = False

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._resets: dict[tuple[str, str, int], int] = {}
        self._known = set[tuple[str, str, int]]()  # of these, those of which a consumer has an answer
        self.changes = 0

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        found = self._store.consumer_offset(group, topic, queue_id)
        return None if found is None or found < 0 else found

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        if (group, topic, queue_id) not in self._resets:
            self._store.commit_offset(group, topic, queue_id, offset)
            self.changes += 1

    def reset(self, group: str, topic: str, queue_id: int, offset: int, *, is_online: bool) -> None:
        """Set an offset, whatever the group's consumers commit until one of them knows."""
        key = group, topic, queue_id
        self._resets.pop(key, None)
        self._known.discard(key)
        self.commit(*key, offset)
        if is_online:
            self._resets[key] = offset

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether an offset was set that no consumer knows yet."""
        return (group, topic, queue_id) in self._resets

    def moved(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Return where a group must go on that wants an offset; None: there. It is returned once."""
        key = group, topic, queue_id
        found = self._resets.get(key)
        if found is None:
            return None
        if found == offset or key in self._known:
            del self._resets[key]
            self._known.discard(key)
            return None
        self._known.add(key)
        return found

    def knows(self, group: str) -> bool:
        return self._store.group(group) is not None

    def all(self) -> Mapping[tuple[str, str], Mapping[int, int]]:
        return {key: queues for key, queues in self._store.all_offsets().items() if self.knows(key[1])}

"""Deletes topics as a whole: settings, queues and offsets; their records stay in the log.

One file decides (`layout/deleted_topics.py`). Before it is written nothing is deleted; from then on everything is, as
the next start finishes what a kill has left. The steps:

1. With the put lock, so that no record of the topic comes between: make the log durable to its end, forget where queues
   ended at the last stop (`consumequeue/known_ends.py`), write the file with the log's end, and begin the topic's queue
   offsets at 0.
2. Before the next unit is written: make no units of records that the file covers, and remove the topic's queues.
3. Remove the topic from topics.json and consumerOffset.json.
4. Once all that is durable, note in the file that it is done. The entry stays until the log begins after it.

Upstream: AdminBrokerProcessor.deleteTopic, DefaultMessageStore.deleteTopics. It deletes in the order 3, 2, and notes
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flintmq.errors import StoreError
from flintmq.format.text import java_decode, java_encode
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.stats import Counters
from flintmq.store.consumequeue import known_ends
from flintmq.store.layout import deleted_topics
from flintmq.store.layout.deleted_topics import Deletion, Deletions
from flintmq.store.services.dispatch_service import DispatchService
from flintmq.store.services.housekeeping import Housekeeping

log = logging.getLogger("flintmq.topics")


class TopicDeletion:
    """Deletes the topics of one open store.

    Thread: any.

    Args:
        counters: keep what they counted of a topic.
        flush: makes the log durable up to now and returns False if it cannot.
    """

    def __init__(
        self,
        root: str,
        commit_log: CommitLog,
        dispatch: DispatchService,
        housekeeping: Housekeeping,
        *,
        deletions: Deletions,
        counters: Counters,
        flush: Callable[[], bool],
        effects: Effects,
    ) -> None:
        self.root, self.log, self.dispatch, self.housekeeping = root, commit_log, dispatch, housekeeping
        self._deletions, self._counters, self._flush, self._effects = dict(deletions), counters, flush, effects
        self._step = Lock()

    def finish(self) -> None:
        """Finish what the last stop interrupted; the queues were removed by recovery."""
        for raw in [raw for raw, one in self._deletions.items() if not one.done]:
            with self._step:
                self._forget(raw)

    def delete(self, topic: str) -> None:
        """Delete a topic; see MessageStore.delete_topic."""
        raw = java_encode(topic)
        # Retention waits, so that it finds each file that it has listed.
        with self._step, self.housekeeping.retention.step:
            self.dispatch.remove_topic(raw, lambda: self._decide(raw))
            self._forget(raw)
        log.info("%s: topic %s was deleted; records before log offset %d are left out",
                 self.root, topic, self._deletions[raw].offset)  # fmt: skip

    def _decide(self, raw: bytes) -> Deletions:
        """Write down that a topic is deleted, and begin its offsets at 0."""

        def decide() -> Deletions | None:
            offset, time = self.log.settled()
            if not self._flush():
                return None
            known_ends.forget(self.root, self._effects)  # the topic's queues end earlier from now on
            changed = self._deletions | {raw: Deletion(offset, time, done=False)}
            deleted_topics.write(self.root, changed, self._effects)
            # Nothing fails from here on.
            self._deletions = changed
            self._counters.forget(raw, self.log.next_offsets)
            self.log.begin_again(raw)
            self.housekeeping.known.batch.discard(java_decode(raw))
            return changed

        decided = self.log.locked(decide, None)
        if decided is None:
            raise StoreError(f"{self.root}: the log could not be flushed, so no topic is deleted; restart the store")
        return decided

    def _forget(self, raw: bytes) -> None:
        """Remove a topic's settings and offsets, and note that it is done."""
        self.housekeeping.forget_topic(java_decode(raw))
        done = self._deletions | {raw: self._deletions[raw]._replace(done=True)}
        deleted_topics.write(self.root, done, self._effects)
        self._deletions = done

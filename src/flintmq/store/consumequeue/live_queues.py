"""The consume queues of a running store: each unit written at its queue offset.

Units are written through the file (as upstream's putConsumeQueueDataByFileChannel) and read with pread, so a reader
sees all that is written and no map is shared. Page: docs/internals/format/consume-queue.md. Upstream:
ConsumeQueueStore, ConsumeQueue.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container
from typing import TypeAlias

from flintmq.config.keys import StoreConfig
from flintmq.format.text import java_decode, java_encode
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Condition, Lock
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.live_queue import AnyQueue, KeptUnits, RunningBatchQueue, RunningQueue
from flintmq.store.consumequeue.queue_ends import QueueEnds
from flintmq.store.consumequeue.writer import (
    LARGEST_OFFSET,
    BatchQueueWriter,
    OpenFiles,
    QueueWriter,
    offset_is_implausible,
)
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import BATCH, PLAIN, Queue, QueueName, is_path, queue_names

log = logging.getLogger("flintmq.dispatch")

Arrived: TypeAlias = list[tuple[str, int]]
"""(topic, queue id) of each queue that has news, once."""
KINDS = (directories.QUEUES, directories.BATCH_QUEUES, directories.EXT_QUEUES)
_LIGHT = LMQ_PREFIX.encode()  # light queues have no ext queue


class ConsumeQueues:
    """All queues of one running store. Thread: `take` the dispatcher only; reading any."""

    def __init__(self, root: str, config: StoreConfig, effects: Effects, report: Report) -> None:
        self.root, self.config, self.effects, self.report = root, config, effects, report
        self.files, self.kept = OpenFiles(effects), KeptUnits()
        self.plain: dict[tuple[bytes, int], RunningQueue | None] = {}
        self.batch: dict[tuple[bytes, int], RunningBatchQueue | None] = {}
        self._file_size = config.consume_queue_file_size
        self.changed, self._flushing = Condition(), Lock()
        self.arrivals = 0  # incremented with every block that readers may see
        self.removals = 0  # of queues
        self._watched: dict[bytes, list[set[int]]] = {}  # topic -> what `watch` returned
        self._callbacks: list[Callable[[Arrived], object]] = []  # replaced, never changed
        self._failed: list[Callable[[Arrived], object]] = []  # those whose error was logged

    def open_plain(self, topic: bytes, queue_id: int) -> RunningQueue | None:
        place = topic, queue_id
        if place not in self.plain:
            path, queue = Queue(PLAIN, topic, queue_id).path, None
            if path is not None:
                has_ext = self.config.enable_consume_queue_ext and not topic.startswith(_LIGHT)
                ext = self.config.mapped_file_size_consume_queue_ext if has_ext else 0
                size = self._file_size
                writer = QueueWriter(self.files, self.root, path, size, ext, self.report)
                queue = RunningQueue(
                    writer, self.root, QueueName(os.fsdecode(topic), queue_id), self.effects, self.kept
                )
            self.plain[place] = queue
        return self.plain[place]

    def open_batch(self, topic: bytes, queue_id: int) -> RunningBatchQueue | None:
        place = topic, queue_id
        if place not in self.batch:
            path, queue = Queue(BATCH, topic, queue_id).path, None
            if path is not None:
                size = self.config.mapper_file_size_batch_consume_queue
                writer = BatchQueueWriter(self.files, self.root, path, size)
                queue = RunningBatchQueue(writer, self.root, QueueName(os.fsdecode(topic), queue_id), self.effects)
            self.batch[place] = queue
        return self.batch[place]

    # -- dispatching ------------------------------------------------------------------------------------------------

    def replay_from(
        self, block: UnitBlock, dispatcher: Dispatcher, met: set[int], rewound: dict[str, RunningQueue]
    ) -> bool:
        """Move writers back so that this block's units are written over the same units or holes.

        Return whether a queue lacks units before the block's; their records are earlier in the log. `met` has the
        queues, by their numbers, of earlier blocks of this pass through the log; those of this one are added. An offset
        below theirs is another record's, which the writer reports. `rewound` gets the queues that are moved back, by
        their folders.
        """
        lacking = False
        for at, (number, first, end) in enumerate(block.queues):
            key = dispatcher.queues.keys[number]
            queue = self.open_plain(key.topic, key.queue_id)
            while queue is not None and first < end and offset_is_implausible(block.offsets, first, end, -1):
                first += 1
            block.queues[at] = number, first, end
            if first == end:
                continue
            if queue is not None and 0 <= block.offsets[first] < queue.writer.next and number not in met:
                queue.rewind(block.offsets[first])
                rewound[queue.folder] = queue
            elif queue is not None and block.offsets[first] > max(queue.writer.next, 0):
                lacking = True
            met.add(number)
        return lacking

    def agree(self, ends: QueueEnds, batch_topics: Container[bytes]) -> list[str]:
        """Have each queue without a record since `ends` was said go on where the master's does.

        All records below `ends.until` are dispatched. Returns the queues that cannot, in words. Durability: on return.
        """
        odd = []
        for place, end in ends.next.items():
            queue = self.find(*place)
            here = 0 if queue is None else queue.max_offset
            if end == here or (queue is not None and queue.last_record >= ends.since):
                continue
            if end == 0:
                self.remove(*place)
                continue
            if here == 0 and end <= LARGEST_OFFSET:
                queue = self.open_batch(*place) if place[0] in batch_topics else self.open_plain(*place)
                if queue is not None:
                    queue.begin_expired(end)
                    self._tell(*place)
                    continue
            odd.append(f"queue {java_decode(place[0])}/{place[1]} ends at {here}, the broker's at {end}")
        self.flush()
        return odd

    def remove(self, topic: bytes, queue_id: int) -> None:
        """Remove a queue: its topic was deleted. Durability: none."""
        plain, batch = self.plain.pop((topic, queue_id), None), self.batch.pop((topic, queue_id), None)
        self.removals += 1
        with self._flushing:  # a flush that has listed the files must not find them gone
            if plain is not None:
                plain.end()
                plain.writer.clear()
            if batch is not None:
                batch.writer.units.remove()
            self._remove_folders(topic, queue_id)

    def remove_topic(self, topic: bytes) -> None:
        """Remove all queues of a topic, also those that an interrupted call has left on disk.

        Durability: on return.
        """
        name = os.fsdecode(topic)
        for kind in KINDS if is_path(name) else ():
            folder = os.path.join(self.root, kind)
            for queue in queue_names(self.root, kind, self.effects, [name]):
                self.open(kind, topic, queue.queue_id)
                self.remove(topic, queue.queue_id)
            if self.effects.is_dir(folder):
                self.effects.sync_dir(folder)
        for place in [place for place in (*self.plain, *self.batch) if place[0] == topic]:
            self.remove(*place)

    def open(self, kind: str, topic: bytes, queue_id: int) -> AnyQueue | None:
        if kind == directories.BATCH_QUEUES:
            return self.open_batch(topic, queue_id)
        return self.open_plain(topic, queue_id)

    def _remove_folders(self, topic: bytes, queue_id: int) -> None:
        """Remove what is empty: RocketMQ takes an empty directory for a queue of its kind."""
        for kind in KINDS:
            path = Queue(kind, topic, queue_id).path
            for folder in () if path is None else (path, os.path.dirname(path)):
                self.effects.remove_folder(os.path.join(self.root, folder))
                if not self.effects.is_dir(os.path.join(self.root, folder)):
                    self.files.forget_folder(os.path.join(self.root, folder))

    def take(self, block: UnitBlock, dispatcher: Dispatcher) -> None:
        """Write the units of one block and make them visible to readers.

        Durability: the kernel has them.
        """
        for number, first, end in block.queues:
            key = dispatcher.queues.keys[number]
            queue = self.open_plain(key.topic, key.queue_id)
            if queue is not None and first < end:
                queue.take(block, first, end)
                self._tell(key.topic, key.queue_id)
        for number, unit in block.batch_units:
            key = dispatcher.queues.keys[number]
            batch = self.open_batch(key.topic, key.queue_id)
            if batch is not None:
                batch.take(unit)
                self._tell(key.topic, key.queue_id)
        self.wake()
        if self._callbacks:
            numbers = dict.fromkeys([number for number, first, end in block.queues if first < end])
            numbers |= dict.fromkeys([number for number, _ in block.batch_units])
            self._call([dispatcher.queues.keys[number] for number in numbers])

    def watch(self, topic: bytes) -> set[int]:
        """Return a set that gets each queue of a topic that has news from now on.

        Thread: any; take a queue out before it is read.
        """
        news: set[int] = set()
        self._watched.setdefault(topic, []).append(news)
        return news

    def on_arrival(self, callback: Callable[[Arrived], object]) -> Callable[[], None]:
        """Call a function after each block that readers may see; return what ends that.

        Thread: any; the function is called by the dispatcher.
        """
        with self.changed:
            self._callbacks = [*self._callbacks, callback]

        def end() -> None:
            with self.changed:
                self._callbacks = self._callbacks_but(callback)

        return end

    def _callbacks_but(self, ended: Callable[[Arrived], object]) -> list[Callable[[Arrived], object]]:
        return [one for one in self._callbacks if one is not ended]

    def _call(self, queues: list[Queue]) -> None:
        arrived = [(java_decode(queue.topic), queue.queue_id) for queue in queues]
        for callback in self._callbacks:
            try:
                callback(arrived)
            except Exception:
                if not any(one is callback for one in self._failed):
                    self._failed.append(callback)
                    log.exception("%s: a callback of on_arrival failed, which is logged once", self.root)

    def _tell(self, topic: bytes, queue_id: int) -> None:
        # After the end that readers see was raised, and before W6: who is woken finds the queue in the set.
        for news in self._watched.get(topic, ()):
            news.add(queue_id)

    def wake(self) -> None:
        """Wake everybody who waits for messages, or for dispatch."""
        with self.changed:
            # live_queue.py, W6: a reader compares the number with this lock before he waits, so no wake-up falls
            # between.
            self.arrivals += 1
            self.changed.notify_all()

    # -- asking -----------------------------------------------------------------------------------------------------

    def find(self, topic: bytes, queue_id: int) -> AnyQueue | None:
        return self.plain.get((topic, queue_id)) or self.batch.get((topic, queue_id))

    def begin_of(self, topic: str, queue_id: int) -> int | None:
        """Return the smallest queue offset of a queue that has or had a message, or None."""
        queue = self.plain.get((java_encode(topic), queue_id))
        return None if queue is None else queue.min_offset

    def next_offsets(self) -> dict[tuple[bytes, int], int]:
        """Return (topic, queue id) -> queue offset of the next message, for every queue."""
        found = {place: queue.max_offset for place, queue in self.plain.items() if queue is not None}
        for place, batch in self.batch.items():
            if batch is not None:
                found[place] = batch.writer.next
        return found

    def places(self) -> list[tuple[bytes, int]]:
        """Return (topic, queue id) of every queue; dispatch may add some meanwhile."""
        found: list[tuple[bytes, int]] = [place for place, queue in list(self.plain.items()) if queue is not None]
        return found + [place for place, batch in list(self.batch.items()) if batch is not None]

    def topics(self) -> list[str]:
        return sorted({java_decode(topic) for topic, _ in (*self.plain, *self.batch)})

    def flush(self) -> None:
        """Make everything that was dispatched to queues durable."""
        with self._flushing:
            self.files.flush()

    def check_invariants(self) -> None:
        """Assert what always holds of queues, open files and kept units between two blocks.

        Thread: the dispatcher's, or nobody dispatches. Retention may raise smallest offsets meanwhile.
        """
        self.files.check_invariants()
        self.kept.check_invariants()
        plain = [queue for queue in self.plain.values() if queue is not None]
        assert len({queue.folder for queue in plain}) == len(plain), "two queues write the same files"
        for kind in (self.plain, self.batch):
            for (topic, queue_id), queue in list(kind.items()):
                if queue is not None:
                    assert (os.fsencode(queue.name.topic), queue.name.queue_id) == (topic, queue_id), queue.name
                    queue.check_invariants()

    def close(self) -> None:
        self.files.close()

"""All queues of a store under comparison, by kind, with and without files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.queue_check import UnitCheck
from flintmq.forensics.verify.queue_files import Disk, UnitFiles, check_sequence
from flintmq.forensics.verify.queue_findings import QueueKind
from flintmq.format.batch_queue import BATCH_UNIT, BATCH_UNIT_SIZE, BatchUnit
from flintmq.format.consume_queue import SCHEDULE_TOPIC, UNIT_SIZE, record_offset_at
from flintmq.format.text import java_decode
from flintmq.kernels.read.group_units import run_length
from flintmq.store.consumequeue.reader import ExtQueue
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules, UnitBlock
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout import deleted_topics, directories
from flintmq.store.layout.config_reader import BrokerConfig
from flintmq.store.layout.file_geometry import common_size, queue_file_size
from flintmq.store.layout.queue_name import BATCH, Queue, QueueName, queue_names
from flintmq.store.layout.store_config import batch_topics


class Absent:
    """A queue of the log without files; small, since a damaged log can name very many."""

    __slots__ = ("count", "kind", "log_end", "name", "offset", "width")

    def __init__(self, name: QueueName, width: int, kind: str) -> None:
        self.name, self.width, self.kind = name, width, kind
        self.count = self.log_end = 0
        self.offset = -1  # log offset of the first record

    def expect(self, first: int, units: bytes, times: Sequence[int]) -> None:
        """Count units; see UnitCheck.expect."""
        if self.offset < 0:
            self.offset = record_offset_at(units)
        self.count += len(units) // self.width

    @property
    def end(self) -> int:
        """Queue offset after the last message."""
        return self.log_end


class QueueSet:
    """The queues of a store, on disk and in the log.

    Attributes:
        on_disk: the queues that have a directory, by kind; may be narrowed before anything is taken.
        count, matched: queues compared, units that agree with their record.
    """

    def __init__(self, root: str, config: StoreConfig, broker: BrokerConfig, disk: Disk, ground: Ground) -> None:
        self.root, self.config, self.broker, self.disk, self.ground = root, config, broker, disk, ground
        self.on_disk = {kind: self._names(kind) for kind in (directories.QUEUES, directories.BATCH_QUEUES)}
        # As given, else the common one of the first queues, else 0.
        self.file_sizes = {
            kind: (queue_file_size(root, kind, config, disk.effects) or 0) if names else 0
            for kind, names in self.on_disk.items()
        }
        self.topics_on_disk = {kind: {name.topic for name in names} for kind, names in self.on_disk.items()}
        batches = batch_topics(root, disk.effects, broker, self.on_disk[directories.BATCH_QUEUES])
        deletions = deleted_topics.readable(root, disk.effects)[0]
        self.rules = DispatchRules.of(config, batches, deletions=deletions)  # as far as the store shows
        # If the keys do not say it, only their directories show that a broker had light queues.
        if any(topic.startswith(LMQ_PREFIX) for topic in self.topics_on_disk[directories.QUEUES]):
            self.rules = replace(self.rules, light_queues=True)
        self.multi_dispatch = config.enable_multi_dispatch or self.rules.light_queues
        self._check_kinds()
        self.none = not any(self.on_disk.values())  # nothing to compare with, for example if only commitlog/ was copied
        self._checks: dict[int, UnitCheck | Absent | None] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._refused: set[bytes] = set()
        self.matched = self.count = 0
        self.begin: int | None = None  # log offset where the part of the log begins; None for the log's begin

    @cached_property
    def _unmet(self) -> dict[str, set[QueueName]]:
        """Queues on disk without a unit in the log yet.

        Made late, so that a task can narrow `on_disk` first.
        """
        return {kind: set(names) for kind, names in self.on_disk.items()}

    def _names(self, kind: str) -> list[QueueName]:
        try:
            return queue_names(self.root, kind, self.disk.effects)
        except StoreAccessError as error:
            folder = os.path.join(self.root, kind)
            self.ground.findings.defect(
                "queue-file-unreadable", folder, None, "directories that can be listed", str(error)
            )
            return []

    @cached_property
    def _ext_size(self) -> int:
        try:
            return queue_file_size(self.root, directories.EXT_QUEUES, self.config, self.disk.effects) or 0
        except StoreAccessError:  # the queue that cannot be listed is reported where it is compared
            return 0

    def _check_kinds(self) -> None:
        """Check that the directories are of the type that topics.json gives their topics.

        A RocketMQ without topics.json takes all queues for plain ones; here it may only be missing in a copy.
        """
        for kind, names in self.on_disk.items():
            for name in names if self.broker.topics else ():
                topic = java_decode(os.fsencode(name.topic))
                if self.broker.is_batch(topic) != (kind == directories.BATCH_QUEUES):
                    given = (
                        f"topics.json says {self.broker.type_of(topic)}"
                        if topic in self.broker.topics
                        else ("topics.json does not name the topic, so RocketMQ takes it for SimpleCQ")
                    )
                    folder = os.path.join(self.root, kind, name.topic, str(name.queue_id))
                    self.ground.findings.defect(
                        "queue-kind", folder, None, f"no queue in {kind}/: {given}", "a directory"
                    )

    # -- units from the log ---------------------------------------------------------------------------------------

    def take(self, block: UnitBlock, dispatcher: Dispatcher) -> None:
        for number, first, end in block.queues:
            check = self._check(number, dispatcher)
            while check is not None and first < end:
                stop = first + run_length(block.offsets, first, end)
                assert stop > first  # a run has one unit at least
                units = bytes(block.units[first * UNIT_SIZE : stop * UNIT_SIZE])
                check.expect(block.offsets[first], units, block.times[first:stop])
                check.log_end = max(check.log_end, block.offsets[stop - 1] + 1)
                first = stop
        for number, batch in _by_queue(block.batch_units).items():
            check = self._check(number, dispatcher)
            if check is not None:
                check.expect(0, b"".join(map(BATCH_UNIT.pack, batch)), [unit.store_timestamp for unit in batch])
                check.log_end = max(check.log_end, *(unit.base_offset + unit.messages for unit in batch))

    def _check(self, number: int, dispatcher: Dispatcher) -> UnitCheck | Absent | None:
        if self.none:
            return None
        if number not in self._checks:
            queue = dispatcher.queues.keys[number]
            self._checks[number] = self._make(queue, number in dispatcher.lmq_numbers)
        return self._checks[number]

    def _make(self, queue: Queue, light: bool) -> UnitCheck | Absent | None:
        if queue.path is None:
            if queue.topic not in self._refused and len(self._refused) < 1000:
                self._refused.add(queue.topic)
                self.ground.findings.note("topic-name", f"topic {queue.topic[:60]!r} cannot be a directory's name")
            return None
        kind, topic, queue_id = queue.path.split("/")
        name = QueueName(topic, int(queue_id))
        if name in self._unmet[kind]:
            self._unmet[kind].discard(name)
            check = self._compare(kind, name, light)
            if check.files.spans:
                return check
        self.count += 1
        return Absent(name, BATCH_UNIT_SIZE if queue.kind == BATCH else UNIT_SIZE, kind)

    def _compare(self, kind: str, name: QueueName, light: bool = False) -> UnitCheck:
        below = os.path.join(self.root, kind)
        batch = kind == directories.BATCH_QUEUES
        folder, width = os.path.join(below, name.topic, str(name.queue_id)), BATCH_UNIT_SIZE if batch else UNIT_SIZE
        files = UnitFiles(folder, below, width, self.file_sizes[kind], batch, self.disk, self.ground.findings)
        self.count += bool(files.spans)
        what = QueueKind(
            files.width, light, name.topic == SCHEDULE_TOPIC and not batch, "messageDelayLevel" in self.config.given
        )
        extension = None
        if not batch and self.disk.effects.is_dir(os.path.join(self.root, directories.EXT_QUEUES)):
            extension = ExtQueue.of(self.root, name, self.disk.effects)
            self._check_extension(extension)
        check = UnitCheck(name, files, what, self.ground, extension)
        if self.begin is not None:
            check.begin_at(self.begin)
        return check

    def _check_extension(self, extension: ExtQueue) -> None:
        """Check that the files of an extension queue have one size and no gap."""
        size = self._ext_size or common_size((file.size for file in extension.files), 0)
        files = ((file.start, file.size, file.path) for file in extension.files)
        check_sequence(files, size, self.ground.findings, "queue-file-size", "queue-gap")

    # -- a part of the log -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Report what is known at the end of a part, without judging anything after it."""
        for check in self._checks.values():
            if isinstance(check, Absent):
                self._without_files(check)
            elif check is not None:
                check.stop()

    @property
    def met(self) -> int:
        """Units that agree with their record, including those of unfinished comparisons."""
        under_way = (check.matched for check in self._checks.values() if isinstance(check, UnitCheck))
        return self.matched or sum(under_way)

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Judge what is left after the log's end, including queues without records."""
        if self.none:
            if any(self.disk.effects.listdir(os.path.join(self.root, kind)) for kind in self.on_disk):
                self.ground.findings.note("no-queues", "the directories of the queues hold no queue")
            else:
                self.ground.findings.note("no-queues", "there are no consume queues to compare; they come from the log")
            return
        for check in self._checks.values():
            if isinstance(check, Absent):
                self._without_files(check)
                self._ended(check)
            elif check is not None:
                self._with_files(check)
        for kind, names in self._unmet.items():
            for name in sorted(names):
                self._with_files(self._compare(kind, name))

    def _with_files(self, check: UnitCheck) -> None:
        if check.files.spans:
            check.finish()
            self.matched += check.matched
        self._ended(check)

    def _ended(self, check: UnitCheck | Absent) -> None:
        key = check.name.topic, check.name.queue_id
        self._ends[key] = max(self._ends.get(key, 0), check.end)

    def _without_files(self, absent: Absent) -> None:
        """Report messages in the log for a queue that has no files."""
        findings, topic = self.ground.findings, absent.name.topic
        folder = os.path.join(self.root, absent.kind, topic, str(absent.name.queue_id))
        what = f"queue {topic}/{absent.name.queue_id}: {absent.count} messages from log offset {absent.offset} on"
        configured = not self.broker.topics or java_decode(os.fsencode(topic)) in self.broker.topics
        if self.ground.is_pending(absent.offset):
            findings.note("units-pending", f"{what} wait for dispatch", folder)
        elif not configured and not any(topic in topics for topics in self.topics_on_disk.values()):
            findings.note("queue-unconfigured", f"{what}, but the topic is not configured", folder)
        else:
            findings.defect("queue-missing", folder, None, f"files for {what}", "none")

    def end_of(self, topic: str, queue_id: int) -> int | None:
        """Return the queue offset after a queue's last message; None without such a queue."""
        return self._ends.get((topic, queue_id))


def _by_queue(units: list[tuple[int, BatchUnit]]) -> dict[int, list[BatchUnit]]:
    """Group units by queue, in their order."""
    found: dict[int, list[BatchUnit]] = defaultdict(list)
    for number, unit in units:
        found[number].append(unit)
    return found

"""Summarizes the content of a store without reading all of it.

The summary has files and their sizes, topics and queues with their offsets, consumer groups and their lag, the range of
times, and the last shutdown. Queues are read by the same lookup as `open_store`, so a count is what a reader gets. Of
the log only the first record, the last file and the records after the queues' end are read; for a store that is nothing
but a log this is all of it.

Odd bytes in derived files give a note, never an error. `verify` checks whether the files agree with each other.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from flintmq.config.key_effects import without_effect
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, FlintError, FormatError, StoreAccessError
from flintmq.format import checkpoint, timer
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.end_of_log import Verdict
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.index import reader
from flintmq.store.layout import config_reader, directories, followed
from flintmq.store.layout.config_reader import BrokerConfig
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import Bounds, QueueLookup, hidden_text, lacking_text
from flintmq.store.read.undelivered import Undelivered, undelivered

MOST_PROBLEMS = 20  # notes of a kind
BROKEN = (Verdict.DAMAGE.name.lower(), Verdict.UNORDERED.name.lower())
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Folder:
    kind: str
    files: int
    bytes: int  # their sizes; sparse files count in full
    on_disk: int | None = None  # bytes that the disk allocates for them; None on object storage


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The commit log.

    `first_time`, `last_time`: store time in ms of the first and the last record; None without records.
    """

    directories: list[str]
    files: int
    file_size: int
    begin: int  # begin, end: log offsets of the first byte and after the last record
    end: int
    ending: str  # the reason why the log ends there (the names of end_of_log.Verdict, in lower case)
    first_time: int | None
    last_time: int | None
    gaps: int = 0  # number of ranges whose files are missing or too short, although others follow


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """One queue, whose `messages` offsets [min_offset, max_offset) can be read."""

    queue_id: int
    min_offset: int
    max_offset: int
    messages: int


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic, configured or only found in the store."""

    name: str
    type: str
    configured: bool | None  # whether topics.json has it; None if there is no topics.json
    messages: int
    queues: list[QueueSummary]


@dataclass(frozen=True, slots=True)
class OffsetSummary:
    """Progress of a group, or of the delivery of a delay level, in one queue."""

    topic: str
    queue_id: int
    offset: int
    max_offset: int  # queue offset after the last message
    lag: int  # messages still to consume

    @property
    def gone(self) -> int:
        """Messages that were deleted before the group had consumed them."""
        return max(self.max_offset - self.lag - max(self.offset, 0), 0)


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One consumer group: its committed offsets, and its lag over all of them."""

    name: str
    configured: bool
    lag: int
    offsets: list[OffsetSummary]


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """One index file by its header: item count, times in ms and log offsets of its range."""

    name: str
    bytes: int
    items: int
    begin_time: int
    end_time: int
    begin_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TimerSummary:
    log_files: int
    log_flushed_position: int
    last_read_time: int  # time in ms up to which messages were delivered
    queue_offset: int


@dataclass(frozen=True, slots=True)
class CopySummary:
    master: str  # address of the master's replication port
    promotable: bool  # who carries on here goes on at the offsets at which the master would
    lacks: str | None


@dataclass(frozen=True, slots=True)
class InspectNote:
    """One oddity: `code` is stable, `text` is for people."""

    code: str
    text: str


@dataclass
class Inspection:
    """The result of an inspection.

    Attributes:
        delays: delay levels and the messages still to be delivered; `queue_id` is the level - 1.
        undelivered: messages that nobody delivers, by kind; each has a note too.
    """

    root: str
    clean: bool  # whether the store stopped cleanly (no `abort`, or one that says that only queues lag)
    live: bool  # whether a process is writing it now
    log: LogSummary
    folders: list[Folder] = field(default_factory=list)
    messages: int = 0
    topics: list[TopicSummary] = field(default_factory=list)
    groups: list[GroupSummary] = field(default_factory=list)
    delays: list[OffsetSummary] = field(default_factory=list)
    index: list[IndexSummary] = field(default_factory=list)
    checkpoint: dict[str, int] | None = None  # its six numbers; None without a usable file
    timer: TimerSummary | None = None
    undelivered: list[Undelivered] = field(default_factory=list)
    copy: CopySummary | None = None  # None if the store is no copy, or was opened as a master since
    notes: list[InspectNote] = field(default_factory=list)

    @property
    def damaged(self) -> bool:
        """True if the log lacks files, or does not end where it was written to."""
        return bool(self.log.gaps) or self.log.ending in BROKEN


def inspect(
    root: str | os.PathLike[str], config: StoreConfig | None = None, *, effects: Effects | None = None
) -> Inspection:
    """Summarize the content of a store. `effects`: the disk; None chooses it by the path."""
    return _Inspector(QueueLookup(Snapshot.open(root, config, effects))).run()


def inspect_messages(lookup: QueueLookup) -> Inspection:
    """Summarize log, topics and groups of an open store; not its files, index and timer."""
    return _Inspector(lookup).run(files=False)


class _Inspector:
    def __init__(self, lookup: QueueLookup) -> None:
        self.lookup, self.snapshot = lookup, lookup.snapshot
        self.root, self.config, self.effects = self.snapshot.root, self.snapshot.config, self.snapshot.effects
        self.bounds: dict[QueueName, Bounds] = {}
        self.notes: list[InspectNote] = []
        self.links: list[str] = []
        self._gaps = self.snapshot.log.gaps()

    def run(self, files: bool = True) -> Inspection:
        """Collect everything, in an order that reads each file once; or only what concerns messages."""
        facts, report = self.snapshot.facts, Report()
        self.snapshot.find_end(report, late=True)  # first: later it is known, and nothing is noted
        topics = self._topics(self.snapshot.broker)
        found = Inspection(
            root=self.root,
            clean=facts.clean,
            live=facts.live,
            log=self._log(),
            folders=list(self._folders()) if files else [],
            messages=sum(topic.messages for topic in topics),
            topics=topics,
            groups=self._groups(self.snapshot.broker),
            delays=self._delays(self.snapshot.broker),
            index=list(self._index()) if files else [],
            checkpoint=self._checkpoint() if files else None,
            timer=self._timer() if files else None,
            undelivered=undelivered(self.lookup),
            copy=self._copy(),
        )
        for one in found.undelivered:
            self._note(one.kind, one.text)
        # A queue whose directory is a link is empty.
        advice = "a symbolic link, which is not followed; put what it names itself there"
        self._some("link", [f"{path}: {advice}" for path in self.links])
        for problem in self.snapshot.broker.problems[:MOST_PROBLEMS]:
            self._note("config", problem.text)
        if facts.lagging:
            self._note("abort", "queues or index lag the log; a start or a dispatch completes them")
        for folder, what in directories.in_rocksdb(self.root, self.effects).items():
            self._note("rocksdb", f"{folder}/: {what}, which FlintMQ does not read; the log is read")
        if idle := without_effect(self.config):
            self._note("no-effect", f"keys that have no effect in FlintMQ: {', '.join(idle)}")
        if found.log.ending != "end":
            self._note("log-end", f"the log ends in a {found.log.ending.replace('_', ' ')} at offset {found.log.end}")
        for note in report.notes:
            if note.code == "named_after":
                self._note("log-end", note.text)
        self._some("log-gap", [self._gap(*gap) for gap in self._gaps], "more gaps")
        self._note_missing_queues()
        self._note_offsets()
        found.notes = self.notes
        return found

    def _copy(self) -> CopySummary | None:
        try:
            found = followed.read(self.root, self.effects)
        except FlintError as error:
            self._note("copy", str(error))
            return None
        if found is None or found.mastered_at is not None:
            return None
        return CopySummary(found.master, found.lacks is None, found.lacks)

    def _note(self, code: str, text: str) -> None:
        self.notes.append(InspectNote(code, text))

    def _some(self, code: str, texts: Sequence[str], more: str = "more") -> None:
        for number, text in enumerate(texts[:MOST_PROBLEMS], 1):
            left = len(texts) - number if number == MOST_PROBLEMS else 0
            self._note(code, f"{text} (and {left} {more})" if left else text)

    def _gap(self, begin: int, end: int) -> str:
        first, last = self.snapshot.log.path_at(begin)[0], self.snapshot.log.path_at(end - 1)[0]
        to = "" if first == last else f" to {os.path.basename(last)}"
        return (
            f"{first}{to}: missing or too short; {end - begin} bytes from log offset {begin} on are gone; their "
            "messages are counted all the same; run `flintmq verify`"
        )

    def _note_missing_queues(self) -> None:
        """Note queues that lack their directory, and those whose ends damage hides."""
        missing = sorted(self._asked("queues", self.root, self.lookup.without_files) or ())
        if missing:
            self._note("queue-files", lacking_text(missing))
        committed = {QueueName(topic, queue_id) for _, topic, queue_id, _ in self.snapshot.broker.committed()}
        hidden = (
            (name, self.lookup.lost_outside(name, thorough=False)) for name in sorted(committed & self.bounds.keys())
        )
        self._some("queue-end", [hidden_text(name, lost) for name, lost in hidden if lost is not None])

    def _note_offsets(self) -> None:
        """Note committed offsets that are not in their queues, where the lag says nothing."""
        if not self.bounds:
            return  # the ends of the queues are not known

        def end_of(topic: str, queue_id: int) -> int | None:
            bounds = self.bounds.get(QueueName(topic, queue_id))
            return None if bounds is None else bounds.max

        found, absent = config_reader.offsets_outside(self.snapshot.broker, end_of)
        if found and self.snapshot.facts.live:  # a group may have consumed what came after the ends were read
            now = QueueLookup(self.snapshot.again(), self.lookup)
            ends = [
                self._asked("queue", one.topic, partial(now.bounds, QueueName(one.topic, one.queue_id)))
                for one in found
            ]
            found = [
                one
                for one, end in zip(found, ends, strict=True)
                if end and config_reader.is_outside(one.offset, end.max)
            ]
        self._some("offset-ahead", [one.text for one in found])
        if absent:
            self._note("offset-absent", config_reader.absent_text(absent))

    # -- files -----------------------------------------------------------------------------------------------------

    def _log(self) -> LogSummary:
        log, end = self.snapshot.log, self.snapshot.log_end
        first = record_at(log, log.min_offset)
        if first is None and end.last is not None:
            at = next_record(log, log.min_offset)
            first = record_at(log, at) if at is not None else None
        last = record_at(log, end.last) if end.last is not None else None
        return LogSummary(
            directories=[place.path for place in directories.log_directories(self.root, self.config, self.effects)],
            files=len(log.files),
            file_size=log.file_size,
            begin=log.min_offset,
            end=end.offset,
            ending=end.verdict.name.lower(),
            first_time=first.store_timestamp if first is not None else None,
            last_time=last.store_timestamp if last is not None else None,
            gaps=len(self._gaps),
        )

    def _folders(self) -> Iterator[Folder]:
        yield self._folder(directories.LOG, [(file.size, self._on_disk(file.path)) for file in self.snapshot.log.files])
        kinds = (
            directories.QUEUES,
            directories.EXT_QUEUES,
            directories.BATCH_QUEUES,
            directories.INDEX,
            "timerlog",
            directories.CONFIG,
        )
        for kind in kinds:
            sizes = list(self._sizes(os.path.join(self.root, kind), 2))
            if sizes:
                yield self._folder(kind, sizes)

    def _folder(self, kind: str, sizes: list[tuple[int, int | None]]) -> Folder:
        on_disk = None if self.effects.remote else sum(allocated or 0 for _, allocated in sizes)
        return Folder(kind, len(sizes), sum(size for size, _ in sizes), on_disk)

    def _sizes(self, folder: str, depth: int) -> Iterator[tuple[int, int | None]]:
        """Yield bytes, and bytes on the disk, of every file in a folder, `depth` levels down."""
        for entry in self._asked("folder", folder, lambda: self.effects.entries(folder)) or []:
            if entry.kind == "file":
                yield entry.size, entry.on_disk
            elif entry.kind == "folder" and depth:
                yield from self._sizes(os.path.join(folder, entry.name), depth - 1)
            elif entry.kind == "link":
                self.links.append(os.path.join(folder, entry.name))

    def _on_disk(self, path: str) -> int | None:
        """Return the bytes that a log file takes on the disk; 0 if it vanished."""
        if self.effects.remote:
            return None
        try:
            return os.stat(path, follow_symlinks=False).st_blocks * 512
        except OSError:
            return 0

    def _asked(self, code: str, path: str, ask: Callable[[], T]) -> T | None:
        """Return the answer of `ask`; note an odd or unreadable derived file and return None."""
        try:
            return ask()
        except (StoreAccessError, CorruptStoreError, FormatError, OSError) as error:
            self._note(code, f"{path}: {error}"[:300])
            return None

    # -- topics and groups -----------------------------------------------------------------------------------------

    def _topics(self, broker: BrokerConfig) -> list[TopicSummary]:
        queues: dict[str, list[QueueName]] = defaultdict(list, {topic: [] for topic in broker.topics})
        for name in self._asked("queues", self.root, self.lookup.names) or ():
            queues[name.topic].append(name)
        found, below = [], os.path.join(self.root, directories.QUEUES)
        with self.snapshot.held():  # thousands of queues: what they have in common is opened once
            for topic, names in sorted(queues.items()):
                with self.snapshot.effects.entered(os.path.join(below, topic), below):
                    found.append(self._topic(topic, sorted(names), broker))
        return found

    def _topic(self, topic: str, names: list[QueueName], broker: BrokerConfig) -> TopicSummary:
        found = []
        for name in names:
            bounds = self._asked("queue", f"{topic}/{name.queue_id}", partial(self.lookup.bounds, name))
            if bounds is not None:
                self.bounds[name] = bounds
                found.append(QueueSummary(name.queue_id, bounds.min, bounds.max, bounds.max - bounds.min))
        kind = config_reader.BATCH_TYPE if broker.is_batch(topic) else config_reader.SIMPLE_TYPE
        if names:
            kind = self._asked("queues", topic, lambda: self.lookup.type_of(topic)) or kind
        configured = topic in broker.topics if broker.topics else None
        return TopicSummary(topic, kind, configured, sum(queue.messages for queue in found), found)

    def _groups(self, broker: BrokerConfig) -> list[GroupSummary]:
        offsets: dict[str, list[OffsetSummary]] = defaultdict(list, {str(name): [] for name in broker.groups})
        for (topic, group), queues in broker.consumer_offsets.items():
            offsets[group] += [self._offset(topic, queue_id, offset) for queue_id, offset in queues.items()]
        for (topic, group), offset in broker.lmq_offsets.items():
            offsets[group].append(self._offset(topic, 0, offset))
        for found in offsets.values():
            found.sort(key=lambda one: (one.topic, one.queue_id))
        return [
            GroupSummary(group, group in broker.groups, sum(one.lag for one in found), found)
            for group, found in sorted(offsets.items())
        ]

    def _delays(self, broker: BrokerConfig) -> list[OffsetSummary]:
        levels = sorted(broker.delay_offsets.items())
        return [self._offset(SCHEDULE_TOPIC, level - 1, offset) for level, offset in levels]

    def _offset(self, topic: str, queue_id: int, offset: int) -> OffsetSummary:
        bounds = self.bounds.get(QueueName(topic, queue_id), Bounds(0, 0))
        lag = max(0, bounds.max - max(offset, bounds.min))
        return OffsetSummary(topic, queue_id, offset, bounds.max, lag)

    # -- small files -----------------------------------------------------------------------------------------------

    def _index(self) -> Iterator[IndexSummary]:
        folder = os.path.join(self.root, directories.INDEX)
        files = self._asked("index", folder, lambda: reader.discover(self.root, self.config, self.effects))
        for file in files or ():
            header = self._asked("index", file.path, file.header)
            if header is None:
                self._note("index", f"{file.path}: shorter than a header")
                continue
            times_and_offsets = header[:4]
            yield IndexSummary(os.path.basename(file.path), file.size, header.next_item - 1, *times_and_offsets)

    def _decoded(self, code: str, path: str, size: int, decode: Callable[[bytes], T]) -> T | None:
        def read() -> T | None:
            data = self.effects.read_file(path, size)
            return None if data is None else decode(data)

        return self._asked(code, path, read)

    def _checkpoint(self) -> dict[str, int] | None:
        path = os.path.join(self.root, "checkpoint")
        found = self._decoded("checkpoint", path, checkpoint.FILE_SIZE, checkpoint.decode)
        return None if found is None else found._asdict()

    def _timer(self) -> TimerSummary | None:
        path = os.path.join(self.root, directories.CONFIG, "timercheck")
        check = self._decoded("timer", path, timer.TIMER_CHECK_SIZE, timer.decode_check)
        folder = os.path.join(self.root, "timerlog")
        files = self._asked("timer", folder, lambda: self.effects.listdir(folder)) or []
        if check is None and not files:
            return None
        check = check or timer.TimerCheck()
        return TimerSummary(len(files), check.log_flushed_position, check.last_read_time, check.queue_offset)

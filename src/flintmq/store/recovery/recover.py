"""Bring a store into a state that can be written: find the log's end, cut what lies behind it, make queues and index
agree with the log.

The decision is the table of `store/commitlog/end_of_log.py`. At damage nothing is touched: the error names file and
position. A tail (torn, stale, or with holes of unordered write-back) is cut: what is valid in it is copied to
`quarantine/` first, then everything behind the end is zeroed and synced before the first append, so that it never comes
back (D4).

How much is read grows with what was not yet flushed, not with the log: the walk begins in the file that holds the
durable mark. Recovering again, or crashing on the way and recovering again, gives the same result: a cut copies before
it zeroes, and units and items are written at places that the log alone decides.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from flintmq.config.key_effects import refuse_to_write
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, LostLogError
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.record_view import store_times
from flintmq.storage.filesystem import REAL, Effects
from flintmq.storage.store_url import local_only
from flintmq.store.append.commit_log import LogState
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict
from flintmq.store.commitlog.files import LogFile, LogFiles, has_data
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import NO_FILE, REFUSED, LogWalk
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.dispatch.dispatcher import Dispatcher
from flintmq.store.index.index_service import KeyIndex, remove_unsynced
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import BrokerConfig, read_config
from flintmq.store.layout.queue_name import QueueName, queue_names
from flintmq.store.layout.small_files import StoreFiles, fsync_and_drop_cache, page_cache_lasted, written_by_flintmq
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.recovery.derived import load_derived
from flintmq.store.recovery.lost_log import lost_directory, refuse_without_log
from flintmq.store.recovery.torn_record import TORN, TornRecordSearch

log = logging.getLogger("flintmq.recovery")

MARGIN_MS = 3000  # upstream goes this much further back than the checkpoint says
PAGE = 4096
ZERO_STEP = 1 << 20


@dataclass
class Recovered:
    """What recovery found and did.

    Attributes:
        state: where the log goes on.
        verdict: what stood at its end.
        decisions: one line each, as they were logged.
        lost: the log's end was missing, and the user said to go on without it.
    """

    state: LogState
    verdict: Verdict
    decisions: list[str] = field(default_factory=list)
    lost: bool = False

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"end": self.state.end, "verdict": self.verdict.value, "decisions": self.decisions}


def recovery_scan_start(files: LogFiles, facts: StopFacts, known: Checkpoint) -> int:
    """Where recovery begins to read: the last file that surely was flushed as a whole before the last stop."""
    if facts.mark is not None:
        file = files.find(min(facts.mark, max(files.limit - 1, 0)))
        return file.start if file is not None else files.min_offset
    limit = min(known.physic_timestamp, known.logics_timestamp) - MARGIN_MS
    for file in reversed(files.files):
        first = record_at(files, file.start)
        if first is None:
            continue
        if facts.clean or (first.store_timestamp != 0 and first.store_timestamp <= limit):
            return file.start
    return files.min_offset


def begin_of_dispatch(files: LogFiles, facts: StopFacts, known: Checkpoint, listed: bool = False) -> int:
    """Give the log offset from which every unit is written again; before it, queues are known to be on disk.

    - Where the mark tells how far the log was dispatched to queues on disk: from there. After a clean stop the mark
      alone is not enough: `listed` says that the list of queues' ends is there too, by which queues that lost their
      files since are found.
    - Else, after a clean stop: the last file.
    - Else the last file whose first record was stored before the checkpoint's time of queues (D10: the log may have
      been flushed further than they were).
    """
    begin = recovery_scan_start(files, facts, known)
    marked = files.min_offset <= facts.dispatched <= (facts.mark or 0)
    if facts.clean and not (marked and listed):
        return begin
    if marked:
        return facts.dispatched
    for file in reversed(files.files):
        first = record_at(files, file.start) if file.start <= begin else None
        if first is not None and 0 < first.store_timestamp <= known.logics_timestamp - MARGIN_MS:
            return file.start
    return files.min_offset


class LogRecovery:
    """Finds the end of a log and cuts what lies behind it."""

    def __init__(self, root: str, files: LogFiles, facts: StopFacts, known: Checkpoint, effects: Effects) -> None:
        self.root, self.files, self.effects = root, files, effects
        self.facts = replace(facts, live=False)  # the lock is ours
        self.known = known
        self.decisions: list[str] = []
        self.compared = 0  # log offset from which on find_end compared all checksums
        self.lost = False  # the log's end is missing, and the user said to go on without

    def log_decision(self, text: str) -> None:
        """One log line a decision."""
        self.decisions.append(text)
        log.info("%s", text)

    def find_end(self, *, reread: bool = True, accept_lost: bool = False) -> tuple[int, int, Verdict]:
        """(log offset of the end, store time of the last record, verdict).

        Args:
            reread: after an unclean stop read from the disk what the page cache may show wrongly, which opens files
                for writing.
            accept_lost: log files that are missing at the end are no error.

        Raises:
            LostLogError: log files are missing at the end, or all of them.
            CorruptStoreError: damage below the durable mark, or between records.
        """
        try:
            refuse_without_log(self.root, self.files, self.facts)
        except LostLogError as error:
            self._accept(error, accept_lost)
        begin = self.compared = recovery_scan_start(self.files, self.facts, self.known)
        if reread and not self.facts.clean:
            self._reread(begin)
        walk = LogWalk(self.files, self.facts, begin, strict=True, cut_unordered=True)
        end, last_time = begin, 0
        # Only a store that FlintMQ alone has written is known to have no such records anywhere.
        tail = None
        if not self.facts.clean and self.facts.mark is not None:
            tail = TornRecordSearch(self.facts.mark, alone=written_by_flintmq(self.root, self.effects))
        try:
            for piece in walk:
                bad = tail.first_bad(piece) if tail is not None else None
                if bad is not None:
                    return self._bad(*bad)
                end = piece.base + piece.end
                *_, last_time = store_times(piece.data, piece.positions[piece.count - 1 :], 1)
        except LostLogError as error:
            self._accept(error, accept_lost)
        # Behind a blank the end is the next file's first byte, if that file is there; or if it was lost, because
        # without the blank a kill on the way would leave damage that is none.
        if walk.position > end and (self.lost or self.files.find(walk.position) is not None):
            end = walk.position
        verdict = walk.verdict or Verdict.END
        stop = "clean" if self.facts.clean else "unclean"
        self.log_decision(f"recovery after {stop} stop: read from {begin}, the log ends at {end} ({verdict.value})")
        return end, last_time, verdict

    def _accept(self, error: LostLogError, accept: bool) -> None:
        """Go on without what is lost, if the user said so.

        Raises:
            LostLogError: the user did not.
        """
        if not accept:
            raise error
        if not self.lost:
            self.log_decision(f"accepted as lost: {error.file}: {error.reason}")
        self.lost = True

    def _bad(self, end: int, reason: str) -> tuple[int, int, Verdict]:
        """The log ends at a record above the mark that does not count.

        Raises:
            CorruptStoreError: the record is whole and others follow, so that this is no tail.
        """
        follower = next_record(self.files, end + 1)
        file = self.files.find(end)
        if reason != TORN and follower is not None and file is not None and not self.facts.power_cut:
            raise CorruptStoreError(
                file.path, end - file.start, f"{reason}; records go on at offset {follower}", REFUSED
            )
        verdict = Verdict.TORN_TAIL if follower is None else Verdict.UNORDERED
        self.log_decision(f"recovery after unclean stop: the log ends at {end} ({verdict.value}: {reason})")
        return end, self._time_before(end), verdict

    def _time_before(self, end: int) -> int:
        """Store time of the last record before a log offset; 0 if there is none in its file or the one before."""
        time, size = 0, self.files.file_size
        for begin in (end - end % size - size, end - end % size):
            for piece in LogWalk(self.files, begin=max(begin, self.files.min_offset), end=min(end, begin + size)):
                *_, time = store_times(piece.data, piece.positions[piece.count - 1 :], 1)
        return time

    def _reread(self, begin: int) -> None:
        """Ask the disk and not the page cache, which behind the durable mark may show what never arrived."""
        mark = max(self.facts.mark or 0, begin)
        for file in self.files.files:
            if file.start + file.size <= begin:
                continue
            durable = max(mark - file.start, 0) // PAGE * PAGE
            fsync_and_drop_cache(file.path, durable, max(file.size - durable, 0), self.effects)
        for folder in sorted({os.path.dirname(file.path) for file in self.files.files}):
            self.effects.sync_dir(folder)  # the stop may have come between a file's creation and that

    def truncate_log(self, end: int) -> None:
        """Nothing may stand behind the end: copy what counts there, remove later files, zero the rest of the last one.

        Raises:
            OSError: the disk refused; the next start does it again.

        Durability: on return.
        """
        self._quarantine(end)
        for file in reversed(self.files.files):  # a kill on the way must leave no gap
            if file.start > end and file.start > self.files.min_offset:
                self.effects.unlink(file.path)
                self.effects.sync_dir(os.path.dirname(file.path))
                self.log_decision(f"removed {file.path}, which lies behind the end")
            elif file.start + file.size > end:
                self._zero(file, end - file.start)

    def _zero(self, file: LogFile, position: int) -> None:
        fd = self.effects.open_write(file.path)
        try:
            first, zeroed = position, 0
            while True:
                data = self.effects.next_data(fd, position)
                if data is None or data >= file.size:
                    break
                position = max(position, data)
                piece = self.effects.pread(fd, min(ZERO_STEP, file.size - position), position)
                if piece != bytes(len(piece)):  # a window that was allocated ahead is 64 MiB of zeros
                    self.effects.pwrite(fd, bytes(len(piece)), position)
                    zeroed += len(piece) - piece.count(0)
                position += max(len(piece), 1)
            if zeroed:
                self.effects.sync(fd)
                self.log_decision(f"zeroed {zeroed} bytes of {file.path} behind position {first}")
        finally:
            self.effects.close(fd)

    def _quarantine(self, end: int) -> None:
        """Copy every record that counts behind the end, one file for each, with a line that says where it stood."""
        folder = os.path.join(self.root, "quarantine")
        offset = next_record(self.files, end)
        while offset is not None:
            message = record_at(self.files, offset)
            if message is None:
                break
            self.effects.make_folder(folder)
            path = os.path.join(folder, f"{offset:020d}-{message.store_timestamp}.record")
            if self.effects.size(path) is None:
                fd = self.effects.create(path, 0)
                self.effects.pwrite(fd, message.raw, 0)
                self.effects.sync(fd)
                self.effects.close(fd)
                line = {"offset": offset, "size": message.size, "topic": message.topic, "cut_at": end}
                self.log_decision(f"quarantine: {json.dumps(line)}")
            offset = next_record(self.files, offset + message.size)
        if self.effects.is_dir(folder):
            self.effects.sync_dir(folder)


def without_empty_last(files: LogFiles) -> LogFiles:
    """The same files but for an empty last one, which a kill amid its creation left."""
    return replace(files, files=files.files[:-1]) if files.files and files.files[-1].size == 0 else files


def check_files(files: LogFiles, file_size: int) -> None:
    """Every file must have the one size, and none may be missing between two.

    Raises:
        CorruptStoreError: otherwise; nothing was touched.
    """
    before: LogFile | None = None
    for odd in files.odd:
        raise CorruptStoreError(odd.path, 0, NO_FILE, "put the file itself there")
    for file in files.files:
        if file.size != file_size:
            raise CorruptStoreError(
                file.path, min(file.size, file_size), f"the file has {file.size} bytes, not {file_size}",
                "set mappedFileSizeCommitLog to the store's own size, or bring the whole file back",
            )  # fmt: skip
        if before is not None and file.start != before.start + file_size:
            raise CorruptStoreError(file.path, 0, f"the file before it is missing: {before.path} ends elsewhere",
                                    "bring the missing file back")  # fmt: skip
        before = file


def offsets_of_log(root: str, files: LogFiles, dispatcher: Dispatcher, end: int) -> dict[tuple[bytes, int], int]:
    """The next queue offset of every queue: from the log, or from its files if it has no record there any more."""
    found: dict[tuple[bytes, int], int] = {}
    for piece in LogWalk(files, begin=files.min_offset, end=end):
        for block in dispatcher.blocks(piece):
            for number, _, last in block.queues:
                key = dispatcher.queues.keys[number]
                found[key.topic, key.queue_id] = block.offsets[last - 1] + 1
            for number, unit in block.batch_units:
                key = dispatcher.queues.keys[number]
                found[key.topic, key.queue_id] = unit.base_offset + unit.messages
    for name in queue_names(root, directories.QUEUES, files.effects):
        place = os.fsencode(name.topic), name.queue_id
        if place not in found:
            found[place] = plain_queue(root, name, files.effects).end()
    return found


def recover(
    root: str,
    files: LogFiles,
    facts: StopFacts,
    small: StoreFiles,
    config: StoreConfig,
    queues: ConsumeQueues | None,
    index: KeyIndex | None,
    dispatcher: Dispatcher,
    effects: Effects,
    ends: Mapping[tuple[bytes, int], int] | None = None,
    *,
    accept_lost: bool = False,
) -> Recovered:
    """Recover a store; see the module's text. The store's lock is held.

    `abort` is made once it is decided what to do, before anything is changed; one that is there tells of the boot that
    ended until the log is cut. Without `queues` the derived files are left alone (but for an index that a power cut may
    have spoilt), and the whole log is read for next queue offsets. `ends` says where queues ended once. With
    `accept_lost` a log whose last files are missing ends where its files end, and so do queues and index.

    Raises:
        LostLogError: log files are missing at the end, or all of them; nothing was touched then.
        CorruptStoreError: damage that is no tail; nothing was touched then.
        OSError: the disk refused.
    """
    check_files(files, config.mapped_file_size_commit_log)
    known = small.known
    small.believe(facts.mark, facts.dispatched, facts.indexed)
    recovery = LogRecovery(root, files, facts, known, effects)
    end, last_time, verdict = recovery.find_end(accept_lost=accept_lost)
    if recovery.lost:  # what the small files say is of a log that is no more; those on disk stay until it is done
        facts = recovery.facts = replace(facts, live=False, clean=False, mark=None, dispatched=-1, indexed=None)
        small.known = known = recovery.known = Checkpoint()
        small.believe(None, -1, None)
        recovery.compared, ends = end, None
    others = not facts.clean and not written_by_flintmq(root, effects)
    if others:  # what the mark said of queues and index is over for good
        small.write_believed()
    if not facts.clean and not page_cache_lasted(root, effects):  # before `abort` tells of this boot
        removed = remove_unsynced(root, config, effects, known.index_timestamp, facts.indexed)
        recovery.log_decision(f"{removed} index files that were not synced are made anew")
        if queues is not None:
            queues.fsync_and_drop_cache()
    if not ends:
        known_ends.forget(root, effects)
    if facts.clean and facts.mark is None:  # for the next start, if damage is met below after `abort` was made
        small.write(end, known)
    if facts.clean:
        small.make_abort()
    recovery.truncate_log(end)
    if others and facts.mark is not None:  # what others wrote was synced by find_end, and is not judged as ours is
        small.believe(end, -1, None)
        small.write_believed()
    if not facts.clean:  # not before: a kill amid the cut must not hide from the next start that the power failed
        small.make_abort()
    if queues is None:
        small.lower_dispatched(-1)  # others write queues and index from now on
        small.forget_indexed()
        state = LogState(end, last_time, offsets_of_log(root, files, dispatcher, end))
        return Recovered(state, verdict, recovery.decisions, recovery.lost)
    begin = begin_of_dispatch(files, recovery.facts, known, bool(ends))
    if index is not None:
        index.recover(end, small, files.min_offset)
    queues.files.unsure = not recovery.facts.clean
    records = load_derived(
        files, queues, index, dispatcher, end, begin, clean=recovery.facts.clean, compared=recovery.compared,
        ends=ends, tell=recovery.log_decision, lower=small.lower_dispatched,
    )  # fmt: skip
    queues.files.unsure = False
    recovery.log_decision(f"{records} records were dispatched again")
    offsets = queues.next_offsets()
    for place, told in (ends or {}).items():  # of a queue without files whose messages are all gone
        if place not in offsets:
            offsets[place] = told
    if queues is not None and files.min_offset > 0:
        for text in behind_begin(read_config(root, effects), queues.begin_of):
            recovery.decisions.append(text)
            log.warning("%s", text)
    return Recovered(LogState(end, last_time, offsets), verdict, recovery.decisions, recovery.lost)


def behind_begin(known: BrokerConfig, bounds: Callable[[str, int], int | None]) -> Iterator[str]:
    """One line for each queue of which a group has still to consume messages that are gone.

    Args:
        known: what config/ holds.
        bounds: the smallest queue offset of a queue (topic, queue id); None if there is no such queue.
    """
    least: dict[tuple[str, int], tuple[int, str]] = {}
    for (topic, group), queues in known.consumer_offsets.items():
        for queue_id, offset in queues.items():
            least[topic, queue_id] = min(least.get((topic, queue_id), (offset, group)), (offset, group))
    for (topic, queue_id), (offset, group) in sorted(least.items()):
        begin = bounds(topic, queue_id)
        if begin is not None and offset < begin:
            yield (
                f"queue {topic}/{queue_id} begins at offset {begin}, and group {group} has consumed up to {offset}: "
                f"{begin - offset} messages are gone (expired, or the log's first files are missing)"
            )


def preview(root: str, config: StoreConfig, effects: Effects = REAL, *, accept_lost: bool = False) -> dict[str, object]:
    """What `recover` would find: where the log ends and what is behind it. Writes nothing and takes no lock.

    Raises:
        NotAStoreError, UnsupportedFormatError: there is no store that can be read and written.
        ConfigError: a store that is written with these keys would not keep them.
        LostLogError: log files are missing at the end, or all of them.
        CorruptStoreError: damage that is no tail.
    """
    refuse_to_write(config)
    root = local_only(root)
    if not lost_directory(root, config, effects, accept=accept_lost):
        root = directories.open_root(root, config, effects)
        directories.refuse_rocksdb_queues(root, effects)
    now = Snapshot(root, config, effects)
    facts, known, files = now.facts, now.broker, without_empty_last(now.log)
    check_files(files, files.file_size)
    recovery = LogRecovery(root, files, facts, StoreFiles(root, effects).known, effects)
    end, _, verdict = recovery.find_end(reread=False, accept_lost=accept_lost)
    behind, offset = 0, next_record(files, end)
    while offset is not None:
        message = record_at(files, offset)
        behind += 1
        offset = next_record(files, offset + (message.size if message is not None else 1))
    last = files.find(end)
    if behind:
        cut = f"{behind} records behind the end would be copied to quarantine/ and cut"
    elif last is not None and has_data(last, effects, end - last.start):
        cut = "what stands behind the end is no whole record, and would be zeroed"
    else:
        cut = "nothing would be cut"
    decisions = [f"the last stop was {'clean' if facts.clean else 'unclean'}", cut]
    decisions += recovery.decisions[:1] if recovery.lost else []
    for file in files.files:
        if file.start > max(end, files.min_offset):
            what = "bytes behind the end" if has_data(file, effects) else "nothing yet (it was made ahead)"
            decisions.append(f"{file.path}, which holds {what}, would be removed")
    if files.min_offset > 0 and known.consumer_offsets:
        lookup = QueueLookup(now)
        there = lookup.file_names()

        def begin_of(topic: str, queue_id: int) -> int | None:
            name = QueueName(topic, queue_id)
            return lookup.bounds(name).min if name in there else None

        decisions += behind_begin(known, begin_of)
    return {"end": end, "verdict": verdict.value, "decisions": decisions}

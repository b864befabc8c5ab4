"""Copies of a store, whole or filtered, also of a store that a broker is writing.

A whole copy has the same bytes as the store up to one point of the log. The order of reading makes it safe, for the
copy then looks like a store after a power cut. First come the small files: the checkpoint names only data that is on
disk, and the consumer offsets name only messages that are in the log. Then comes the log up to its end at that moment;
these bytes never change again. Queues and index come last; they may end before that point, after it, or be half
written. If a writer was at work (or had died), the copy then recovers as the engine does after a power cut: it drops
units beyond the end of the log, makes missing ones from the log, and rebuilds index files that were not synced.

A filtered copy is a salvage of the wanted messages: a new, dense store with offsets of its own.

A copy on object storage (`store_upload`) is made from the same files. At rest they go there one by one: a full log
file from where it is, another by way of a temporary file, so that space for one is enough. A copy that must be
recovered, or is filtered, is made in a temporary directory first, for the engine writes to disks only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.forensics import rebuild
from flintmq.forensics.rebuild import Progress
from flintmq.forensics.salvage.into import Salvage, Salvaged, check_target
from flintmq.forensics.store_upload import StoreUpload, new_store
from flintmq.forensics.topic_tail import one_must_have
from flintmq.format.index import PEER_533
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.staging import bring_in, staging_for
from flintmq.storage.files.store_url import effects_for, is_remote, outside_store, store_path
from flintmq.store import arguments
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict, read_facts
from flintmq.store.commitlog.files import LogFiles, file_start
from flintmq.store.commitlog.log_end import refuse_damaged_ends
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import DamageKind, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout import directories
from flintmq.store.layout.given_sizes import open_root
from flintmq.store.layout.queue_name import refuse_other_encoding
from flintmq.store.layout.root_names import ROOT_NAMES
from flintmq.store.message_store import MessageStore
from flintmq.tabular import Summary

STAGING = "copy"
REPORT = "copy.jsonl"
CHUNK = 1 << 20
DERIVED = (directories.QUEUES, directories.EXT_QUEUES, directories.BATCH_QUEUES, directories.INDEX)
NOT_OURS = ("lock", "abort", "quarantine", "flintmq.following", directories.COPYING, directories.COPIED)
"""Files of the process that has the store open, files that a broker never reads, and those of an earlier copy."""


@dataclass
class Copied(Summary):
    """The result of a whole copy.

    Attributes:
        data_bytes: bytes that were copied; the rest of the files are holes. An object has no holes: all its bytes.
        live: whether the store was being written, had stopped uncleanly or ends in a stale tail, so that queues and
            index were recovered.
        left_out: paths that were not copied: links, anything but regular files, files that are not the log's, and files
            that vanished meanwhile.
        damages: gaps in the log, as far as names and sizes of its files and its end show them; the copy has them too.
    """

    into: str
    begin: int = 0  # begin, end: log offsets of its first byte and after its last record
    end: int = 0
    files: int = 0
    data_bytes: int = 0
    live: bool = False
    left_out: list[str] = field(default_factory=list)
    damages: list[str] = field(default_factory=list)


def copy_whole(
    root: str,
    into: str,
    config: StoreConfig | None = None,
    peer: str = PEER_533,
    progress: Progress | None = None,
) -> Copied:
    """Copy a store, at rest or live, up to the present end of its log.

    Args:
        root: the store; only read, and no lock is taken.
        into: the copy's directory, which must be missing or empty, or a URL below which there are no objects.
        config: RocketMQ's keys for settings that the files do not record.
        peer: the RocketMQ version whose habits queues and index follow when they are recovered: "5.3.3", "5.4.0" or
            "5.5.0".
        progress: called now and then with bytes of log done and in all.

    Raises:
        NotAStoreError, UnsupportedFormatError, ConfigError, StoreAccessError: the store cannot be read.
        UsageError: `into` is taken, or is inside the store.
        CorruptStoreError: the store is live or stopped uncleanly, and is damaged.
        StoreError: a log file vanished during the copy, or the copy took a message while it recovered.
        OSError: the disk is full or fails; nothing is at `into` then.
        MissingExtraError: `into` is a URL, and obstore is not installed.

    Durability: on return.
    """
    config = config or StoreConfig()
    into, root = _places(root, into, config)
    if is_remote(into):
        with _upload(root, into, config) as (target, out):
            done = _whole_upload(root, out, config, peer, progress, target)
            target.publish()
    else:
        with staging_for(into, STAGING) as staging:
            done = _Whole(root, os.path.join(staging, "store"), config, peer, progress).run()
            bring_in(staging, into)
    done.into = into
    return done


def copy_some(
    root: str,
    into: str,
    predicate: Predicate,
    config: StoreConfig | None = None,
    peer: str = PEER_533,
    progress: Progress | None = None,
    strict: bool = True,
) -> Salvaged:
    """Copy the wanted messages of a store, at rest or live, into a new and dense store.

    Physical and queue offsets begin at 0; times, hosts and message ids stay the same; configuration and committed
    offsets are translated. `copy.jsonl` in the copy maps old offsets to new ones.

    Args:
        root, into, config, peer, progress: as for copy_whole.
        predicate: selects the wanted records.
        strict: treat damage as an error; otherwise skip and report it.

    Raises:
        TypeError: `strict` is neither True nor False.
        NotAStoreError, UnsupportedFormatError, ConfigError, StoreAccessError: the store cannot be read.
        UsageError: an unknown peer, or `into` is taken or is inside the store.
        MessageNotFoundError: the store has no topic of a name that the predicate wants.
        CorruptStoreError: the store is damaged, and `strict` is set.
        OSError: the disk is full or fails; nothing is at `into` then.
        MissingExtraError: `into` is a URL, and obstore is not installed.

    Durability: on return.
    """
    arguments.flags(strict=strict)
    config = config or StoreConfig()
    into, root = _places(root, into, config)
    if is_remote(into):
        with _upload(root, into, config) as (target, out):
            halves = _Halves(progress)
            plan = rebuild.plan_of(root, out, config, peer)
            done = _wanted(Salvage(plan, out, config, halves.first, predicate, strict, REPORT), predicate)
            target.put_tree(out, halves.second)
            target.publish()
    else:
        plan = rebuild.plan_of(root, into, config, peer)
        with staging_for(into, STAGING) as staging:
            out = os.path.join(staging, "store")
            done = _wanted(Salvage(plan, out, config, progress, predicate, strict, REPORT), predicate)
            bring_in(staging, into)
    done.into, done.report = into, os.path.join(into, REPORT)
    return done


def _wanted(salvage: Salvage, predicate: Predicate) -> Salvaged:
    """Run the salvage of the wanted messages.

    Topics are looked for afterwards: a log alone names them only in its records.
    """
    done = salvage.run()
    missing = (predicate.topics or frozenset()) - {topic for topic, _ in salvage.queues.maps}
    if missing:
        one_must_have([salvage.plan.root], sorted(missing), salvage.config)
    return done


def _places(root: str, into: str, config: StoreConfig) -> tuple[str, str]:
    into = store_path(into)
    root = open_root(root, config, effects_for(root, config.s3))
    directories.refuse_rocksdb_queues(root, effects_for(root, config.s3))
    if is_remote(into):
        if is_remote(root) and f"{into}/".startswith(f"{root}/"):
            raise UsageError(f"{into} is inside the store, where this command writes nothing; give another place")
        return into, root
    into = os.path.normpath(os.path.abspath(into))
    outside_store(into, root, config)
    check_target(into)
    return into, root


@contextmanager
def _upload(root: str, into: str, config: StoreConfig) -> Iterator[tuple[StoreUpload, str]]:
    """Claim the URL of a copy; yield it with a directory, still missing, for files on their way."""
    with TemporaryDirectory(prefix="flintmq-copy-") as folder:
        outside_store(folder, root, config)
        with new_store(into, config, root, folder) as target:
            yield target, os.path.join(folder, "store")


def _whole_upload(
    root: str, out: str, config: StoreConfig, peer: str, progress: Progress | None, target: StoreUpload
) -> Copied:
    """Put a whole copy: file by file at rest, otherwise by way of a copy in the directory `out`."""
    done = _Whole(root, out, config, peer, progress, target).run()
    if done.live:  # from the begin on, or it was opened meanwhile
        target.forget()
        shutil.rmtree(out, ignore_errors=True)
        halves = _Halves(progress)
        done = _Whole(root, out, config, peer, halves.first).run()
        target.put_tree(out, halves.second)
    done.data_bytes = target.put_bytes
    return done


class _Halves:
    """Makes one progress of two passes, the copy and its upload."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._total = progress, 0

    def first(self, done: int, total: int) -> None:
        self._total = total
        if self._progress is not None:
            self._progress(done, 2 * total)

    def second(self, done: int, total: int) -> None:
        if self._progress is not None and total:
            self._progress(self._total + self._total * done // total, 2 * self._total)


def _holes(log: LogFiles, end: int) -> Iterator[str]:
    """Yield each gap between the log's files up to its end, without reading records."""
    for file, following in zip(log.files, [*(file.start for file in log.files[1:]), end], strict=False):  # or no file
        if file.start + file.size < following:
            yield f"{file.path}: nothing is there from log offset {file.start + file.size} to {following}"


def _is_text(name: str) -> bool:
    """Return whether a name can be (part of) a key: no file of a store has another."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(eq=False)
class _Whole:
    """Makes one whole copy in the directory `out`.

    With a target each file goes there and is removed from `out`, and a copy that must be recovered is given up.
    """

    root: str
    out: str
    config: StoreConfig
    peer: str
    progress: Progress | None
    target: StoreUpload | None = None

    def __post_init__(self) -> None:
        self.effects, self.done = effects_for(self.root, self.config.s3), Copied(self.out)
        self.buffer = bytearray(CHUNK)

    def run(self) -> Copied:
        """Copy small files, log, queues and index in this order, then recover the copy if needed."""
        before = Snapshot(self.root, self.config, self.effects)
        # Units of a stale tail, which is left out, would name records after the copy's end.
        stale = before.log_end.verdict is Verdict.STALE_TAIL
        if self.target is not None and (before.facts.live or not before.facts.whole or stale):
            self.done.live = True
            return self.done
        os.makedirs(os.path.join(self.out, directories.LOG))
        logs = {os.path.relpath(os.path.dirname(file.path), self.root) for file in before.log.files}
        self._tree("", skip={directories.LOG, *logs, *DERIVED, *NOT_OURS})
        self._log()
        for name in DERIVED:
            if self.effects.is_dir(os.path.join(self.root, name)):
                self._tree(name)
        after = read_facts(self.root, self.effects)
        self.done.live = stale or any(facts.live or not facts.whole for facts in (before.facts, after))
        if self.done.live or self._moved(before.facts, after):
            self.done.live = True
            if self.target is None:
                self._settle()
        return self.done

    def _moved(self, before: StopFacts, after: StopFacts) -> bool:
        """Return whether the store was opened and closed between the two readings."""
        return (before.physic_time, before.latest, before.mark) != (after.physic_time, after.latest, after.mark)

    def _log(self) -> None:
        """Copy the log's files up to the present end of the log, into one directory."""
        now, report = Snapshot(self.root, self.config, self.effects), Report()
        log, found = now.log, now.find_end(report)
        if any(damage.kind is DamageKind.END for damage in report.damages):
            refuse_damaged_ends(log, now.facts, found)
        end = found.offset
        self.done.begin, self.done.end = log.min_offset, end
        self.done.damages = [*_holes(log, end), *(f"{damage.file}: {damage.reason}" for damage in report.damages)]
        for file in log.files:
            count = min(end - file.start, file.size)
            if count <= 0:
                continue
            target = os.path.join(self.out, directories.LOG, os.path.basename(file.path))
            report_bytes = self._progress(file.start - log.min_offset, end - log.min_offset)
            if not self._file(file.path, target, count, file.size, report_bytes):
                raise StoreError(f"{file.path}: it was deleted during the copy (retention); copy again")
        known = {file.path for file in log.files}
        for folder in sorted({os.path.dirname(path) for path in known}):
            for path in (os.path.join(folder, name) for name in self.effects.listdir(folder)):
                no_log = file_start(os.path.basename(path)) is None or self.effects.size(path) is None
                if path not in known and no_log:  # other files of the log were created meanwhile
                    self.done.left_out.append(os.path.relpath(path, self.root))

    def _tree(self, inside: str, skip: set[str] | frozenset[str] = frozenset()) -> None:
        target = os.path.join(self.out, inside)
        folder = os.path.join(self.root, inside) if inside else self.root  # a URL ends in no slash
        os.makedirs(target, exist_ok=True)
        for name in sorted(set(self.effects.listdir(folder)) - skip):
            path = os.path.join(folder, name)
            if inside in DERIVED and (self.target is not None or is_remote(self.root)):  # there a name is text
                refuse_other_encoding(name)
            if not inside and name.startswith(".flintmq"):  # unfinished work of a job
                continue
            if self._leads_out(inside, name) or (self.target is not None and not _is_text(name)):
                self.done.left_out.append(os.path.join(inside, name))
            elif self.effects.is_dir(path):
                self._tree(os.path.join(inside, name))
            elif not self._file(path, os.path.join(target, name)):
                self.done.left_out.append(os.path.join(inside, name))

    def _leads_out(self, inside: str, name: str) -> bool:
        """Return whether this is a link that is not followed.

        Only a known directory of the root may be a link, for example to another disk. A store may come from anywhere,
        and the targets of its other links do not belong to it.
        """
        if is_remote(self.root) or (not inside and name in ROOT_NAMES):
            return False
        return os.path.islink(os.path.join(self.root, inside, name))

    def _progress(self, before: int, total: int) -> Callable[[int], None] | None:
        """Return a progress callback for one file, after `before` bytes of other files."""
        progress = self.progress
        return None if progress is None else lambda done: progress(before + done, total)

    def _file(
        self,
        path: str,
        target: str,
        count: int | None = None,
        size: int | None = None,
        report_bytes: Callable[[int], None] | None = None,
    ) -> bool:
        """Copy the first `count` bytes of a file (None: all); return False if it cannot be read."""
        name = os.path.relpath(target, self.out)
        try:
            if self.target is not None and count is not None and count == size and not is_remote(self.root):
                self.target.put_file(name, path)  # a full log file, which does not change any more
                self.done.files += 1
                return True
            with self.effects.reading(path) as fd:
                size = self.effects.size_of(fd) if size is None else size
                count = size if count is None else count
                assert count <= size  # what is copied is not cut off again
                with open(target, "xb") as file:
                    self._bytes(fd, file.fileno(), count, report_bytes)
                    file.truncate(size)
                    os.fsync(file.fileno())
        except FileNotFoundError:
            return False
        except StoreAccessError:
            if is_remote(self.root) or (os.path.isfile(path) and not os.path.islink(path)):
                raise
            return False  # a link, something like a directory, or a device: no part of a store
        if self.target is not None:
            self.target.put_file(name, target)
            os.unlink(target)
        self.done.files += 1
        return True

    def _bytes(self, fd: int, target: int, count: int, report_bytes: Callable[[int], None] | None = None) -> None:
        at = 0
        self.effects.will_read(fd, 0, count, sure=True)
        while at < count:
            if report_bytes is not None:
                report_bytes(at)
            data_at = self.effects.next_data(fd, at)
            if data_at is None or data_at >= count:
                return
            at = max(at, data_at // 4096 * 4096)
            got = self.effects.pread_into(fd, memoryview(self.buffer)[: min(len(self.buffer), count - at)], at)
            if not got:
                return
            data = memoryview(self.buffer)[:got]
            if data.tobytes() != bytes(got):  # far faster than any(data)
                REAL.pwrite(target, data, at)
                self.done.data_bytes += got
            at += got
        if report_bytes is not None:
            report_bytes(count)

    def _settle(self) -> None:
        """Recover the copy as after a power cut, and stop it cleanly."""
        with open(os.path.join(self.out, "abort"), "wb"):
            pass  # an empty abort file names no boot of this machine, so recovery does not trust unsynced pages
        keys = {"storePathCommitLog": "", "readOnlyCommitLogStorePaths": ""}
        own = self.config.with_keys({key: value for key, value in keys.items() if key in self.config.given})
        with MessageStore(self.out, own, peer=self.peer) as store:
            end = store.recovered.state.end
        if not end == self.done.end == self._end_now():  # for example a delayed message came due just then
            raise StoreError(
                f"{self.root}: something was put during the copy, which was to end at log offset "
                f"{self.done.end}; copy again"
            )

    def _end_now(self) -> int:
        return Snapshot(self.out, StoreConfig()).end

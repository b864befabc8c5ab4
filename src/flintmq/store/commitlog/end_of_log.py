"""Decides what it means that a walk of a log stopped, by one table.

A walk stops at the first position p that holds neither a record nor a blank record. The meaning of the stop is decided
here and nowhere else, from four facts:

*   what **follows** p: nothing; only records that are proven to be older; or others. A follower is a valid record found
    by resynchronising (magic, own offset, full check) in this file or a later one. It is older if its store time, and
    that of all after it, is below that of the last valid record, and if a fact that is no time says so too
    (`former_life`): a clock that was set back makes records with older times, and RocketMQ keeps them;
*   whether the store **stopped cleanly** (there is no `abort` file, or it says that only the queues lag);
*   whether p is below the **durable mark** M: FlintMQ's own `flintmq.mark` (exact flushed offset; void if its time
    differs from the checkpoint's, as after RocketMQ wrote), otherwise the end of the last record stored strictly before
    the checkpoint's `physicMsgTimestamp`, unless a record before p is as young as that: then the clock was set back,
    and the time says nothing of p; stale records after p do not count;
*   whether the bad bytes are **zeros**: at p itself, and up to a 512-byte boundary (a sector that was never written).
    After a power cut, which the boot id in `abort` reveals, any byte above M may be missing, zeros or not.

| follows           | stopped cleanly            | unclean, p < M | unclean, p >= M                                  |
|-------------------|----------------------------|----------------|--------------------------------------------------|
| nothing           | end (zeros) or torn tail;  | damage         | end (zeros) or torn tail                         |
|                   | damage if below our mark   |                |                                                  |
| only proven older | stale tail                 | damage         | stale tail                                       |
| others            | damage                     | damage         | unordered write-back if a sector is zero;        |
|                   |                            |                | or the power was cut; else damage                |

A walk that runs out of files below M is damage too, clean or not: files are lost (`evidence_beyond`). There the
position at which the walk arrived counts, because a mark may be after a blank record. Without a mark of our own they
are lost where a queue's last unit (`queue_evidence`) or the newest index file names a record after the end, after a
clean stop, or with the checkpoint's time, which no record of the log has. That time alone proves a loss only in a log
without any record; else it is of a clock that ran ahead. Files missing at the beginning have expired.

A log that ends within a file may lack its end too: it was put back, or is another store's. After a clean stop, without
a mark of our own, a unit after the end and a second fact (another queue, the newest index file, the checkpoint's time)
are refused to a writer, who would cut the units and with them the evidence; readers note what the index file names.

No time ends a log at a record that is valid and in its place: there the store time steps back, and the log ends only by
the same proof, as a stale tail that happens to be aligned.

One cell is stricter than the rule it comes from: below a valid `flintmq.mark` a stale tail is damage after a clean stop
too, because FlintMQ zeroes everything it truncates and so never leaves one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from flintmq.errors import FormatError
from flintmq.format import checkpoint, flintmq_mark, index
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.lock import is_live
from flintmq.store.layout.file_geometry import index_header
from flintmq.store.layout.mark import UNKNOWN, DurableMark
from flintmq.store.layout.small_files import read_abort

SECTOR = 512
LOST = "the log's end is missing"
LOST_ADVICE = "bring the files back (is the log's disk mounted? is storePathCommitLog right?), or go on without them: "
ACCEPT = "`flintmq recover STORE --accept-lost-log`"
GO_ON = f"{ACCEPT}, or `flintmq salvage STORE --in-place`"
READ_ON = "--skip-damage (failOnDataLoss=false)"


class Follows(Enum):
    """Kind of records after the position where a walk stopped."""

    NOTHING = "nothing"
    OLDER = "only older records, and that is proven"
    NOT_OLDER = "other records"


class Verdict(Enum):
    """Meaning of the position where a walk stopped."""

    END = "end of the log"
    TORN_TAIL = "torn tail"
    STALE_TAIL = "stale tail"
    UNORDERED = "unordered write-back"
    DAMAGE = "damage"


@dataclass(frozen=True, slots=True)
class StopFacts:
    """Facts of a store's small files on its last stop.

    Attributes:
        lagging: after a clean stop: queues or index, which another process makes, may lack records and not be on disk.
        mark: how far log, queues and index are on disk, from a valid `flintmq.mark`. After an unclean stop of RocketMQ
            it says nothing of queues and index.
        zeros_end: zeros at this log offset or later are the end of the log, and no record after them is searched. For
            object storage, because from a server a gigabyte of zeros would be fetched (a local disk reports its holes);
            and for later looks at a live store, whose first look has searched.
        root: of the store, to read the facts again; empty where they were not read.
    """

    clean: bool = True  # there is no `abort` file, or it says that only queues lag
    live: bool = False  # some process holds the store's lock now
    physic_time: int = 0  # the checkpoint's first field, store time in ms of the last flushed record; 0 if unknown
    mark: DurableMark = UNKNOWN
    latest: int = 0  # the youngest store time in ms in the checkpoint; 0 if unknown
    named: int | None = None  # for object storage: log offset of the last record in the newest index file, else None
    zeros_end: int | None = None
    power_cut: bool = False  # the machine was booted again since the store ran
    abort_is_ours: bool = False  # after an unclean stop: FlintMQ wrote `abort`, and nobody else has worked here since
    page_cache_lasted: bool = False  # after an unclean stop: files hold all that was written
    lagging: bool = False
    root: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        assert not self.clean or not self.abort_is_ours  # there is no `abort` then, or it says that queues lag
        assert not self.page_cache_lasted or self.abort_is_ours  # no other says which page cache it was

    @property
    def whole(self) -> bool:
        """The store stopped cleanly, with queues and index of all of its log."""
        return self.clean and not self.lagging


NO_FACTS: Final = StopFacts()
"""Nothing is known of the last stop: for a walk up to an end that the caller knows, and for a log alone."""


def decide(follows: Follows, *, clean: bool, below_mark: bool, own_mark: bool, zeros: bool, lost: bool) -> Verdict:
    """Look up the verdict in the table above."""
    if below_mark and (own_mark or not clean):
        return Verdict.DAMAGE
    if follows is Follows.NOTHING:
        return Verdict.END if zeros else Verdict.TORN_TAIL
    if follows is Follows.OLDER:
        return Verdict.STALE_TAIL
    return Verdict.UNORDERED if lost and not clean else Verdict.DAMAGE


def evidence_beyond(facts: StopFacts, position: int, youngest: int) -> str:
    """Return the evidence that the log continued after `position`; empty if there is none.

    `position` is the end of the files that are there.

    `youngest`: largest store time in ms of the log's records; 0 without records.
    """
    flushed = facts.mark.flushed
    if flushed is not None:
        if flushed <= position:
            return ""
        return f"flintmq.mark records that it was flushed up to offset {flushed}, but its files end at {position}"
    if facts.physic_time <= youngest:
        return ""
    last = f"the newest record in the log is of {youngest} ms" if youngest else "the log has no record"
    return f"the checkpoint records a flushed record of {facts.physic_time} ms, but {last}"


def zeros_to_sector(data: bytes | memoryview, position: int) -> bool:
    """Return whether the bytes include a sector that was never written.

    True if all bytes from `position` up to the next 512-byte boundary are zeros (at least four of them: no record
    begins with four zeros, but the leading zeros of a size must not count as a lost sector), or if any whole sector
    after it is.

    `data`: the bytes from the bad position on, to the next valid record or as many as are at hand.
    """
    data = bytes(data)
    first = -position % SECTOR
    if 4 <= first <= len(data) and not any(data[:first]):
        return True
    return any(not any(data[at : at + SECTOR]) for at in range(first, len(data) - SECTOR + 1, SECTOR))


def read_facts(root: str, effects: Effects = REAL) -> StopFacts:
    """Read the facts of the store at root: its small files, and whether it is live.

    Missing or short files count as "unknown". Nothing is written and no lock is taken.
    """
    physic_time, latest, mark = 0, 0, UNKNOWN
    with suppress(FormatError):  # a short checkpoint is ignored
        data = effects.read_file(os.path.join(root, "checkpoint"), checkpoint.CHECKPOINT.size) or b""
        known = checkpoint.decode(data)
        physic_time = max(0, known.physic_timestamp)
        latest = max(physic_time, known.logics_timestamp, known.index_timestamp)
    with suppress(FormatError):  # so is a missing or wrong mark
        found = flintmq_mark.decode(effects.read_file(os.path.join(root, flintmq_mark.FILE_NAME), 4096) or b"")
        if found.holds(physic_time) and found.flushed_offset >= 0:
            mark = DurableMark(found.flushed_offset, found.dispatched_offset, found.indexed)
    abort, live, named, zeros_end = read_abort(root, effects), False, None, None
    if effects.remote:
        named = last_named(root, effects)
        zeros_end = max(mark.flushed or 0, 0 if named is None else named + 1)
    else:
        live = not effects.holds_lock and is_live(root)
    if effects.remote or not (abort.clean or abort.is_ours):  # others may have changed queues and index
        mark = mark.of_log_alone()
    return StopFacts(
        abort.clean,
        live,
        physic_time,
        mark,
        latest,
        named,
        zeros_end,
        power_cut=abort.power_cut,
        abort_is_ours=abort.is_ours,
        page_cache_lasted=abort.page_cache_lasted,
        lagging=abort.lagging,
        root=root,
    )


def last_named(root: str, effects: Effects) -> int | None:
    """Return the log offset of the last record in the newest index file; None without one."""
    folder = os.path.join(root, "index")
    for name in reversed(effects.listdir(folder)):
        header = index_header(os.path.join(folder, name), effects) if index.NAME.fullmatch(name) else None
        if header is not None and header.next_item > 1:
            return header.end_physical_offset
    return None

"""Compares the items of the index files with the log's keys, and checks every chain.

Items are written in log order, over all files, so two cursors move side by side: `IndexCheck.expect` takes keys in log
order and passes over their items. A kernel does this for whole runs; it knows each slot's newest item, so every link is
proven in one pass without walking a chain. If an item and a key differ, they are compared record by record: their
places in the log show which side has one too many.

These are no defects: ranges between two files or after the last one (RocketMQ drops index files after an unclean
start), tags indexed or not (5.4.0, 5.5.0; not 5.3.3; one file can have both habits), a record entered twice where
recovery began, items of an expired part of the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.index_cursor import IndexItems
from flintmq.format import index
from flintmq.format.properties import TAGS
from flintmq.format.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from flintmq.kernels.buffers import Numbers
from flintmq.kernels.read import index_check as kernel
from flintmq.message import stored_message
from flintmq.store.commitlog.walk import Piece

CALM = 8  # records compared one by one without a defect before the kernel continues
LOOK_AHEAD = 64  # items searched for the one expected
_MISSING, _WRONG, _MOVED = range(3)


class RecordKeys(NamedTuple):
    """The index keys of one record: those that every version enters, and its tags."""

    offset: int
    time: int
    hashes: list[int]
    tags: int | None


class KeyBlock(NamedTuple):
    """Keys of the records of a piece, or of a part of it, in log order."""

    piece: Piece
    last_offset: int  # log offset of the last record that belongs to this block
    hashes: Numbers  # hashes, offsets, times: hash, log offset and store time in ms of each key
    offsets: Numbers
    times: Numbers
    keys: int

    def records(self, after: int) -> Iterator[RecordKeys]:
        """Yield every record after this log offset, with or without keys."""
        positions, base = self.piece.positions, self.piece.base
        for i in range(bisect_right(positions, after - base, 0, self.piece.count), self.piece.count):
            if positions[i] + base > self.last_offset:
                return
            yield record_keys(self.piece, positions[i])


def record_keys(piece: Piece, at: int) -> RecordKeys:
    """Return the keys of the record at data[at] of a piece, by the reference rules of `format/`."""
    message = stored_message(piece.data, at)
    topic, tags = message.topic, message.properties.get(TAGS)
    hashes = [index.key_hash(topic, key) for key in index.keys_of(message.properties, message.sys_flag)]
    entered = bool(tags) and message.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK
    tags_hash = index.key_hash(topic, f"T#{tags}") if entered else None
    return RecordKeys(message.physical_offset, message.store_timestamp, hashes, tags_hash)


class IndexCheck:
    """The index of a store under comparison.

    Attributes:
        tags: whether the last items were made by a version that indexes tags. The keys of the next block should be
            derived that way; otherwise it is compared record by record, which is slow.
    """

    def __init__(self, files: Iterable[IndexItems], ground: Ground) -> None:
        self.ground = ground
        self.tags = False
        self.items = 0  # number of items passed
        self._files = iter(files)
        self._file: IndexItems | None = None
        self._before: IndexItems | None = None  # the file before it
        self._last: RecordKeys | None = None  # the last record compared, if its keys are known
        self._uncovered: tuple[int, int, int] | None = None  # first log offset, last, keys
        self._passed: Counter[str] = Counter()
        self._next_file()

    # -- keys ------------------------------------------------------------------------------------------------------

    def expect(self, block: KeyBlock) -> None:
        """Take the keys of the records after those taken before."""
        tags = self.tags
        k = self._equal(block, 0)
        while self._file is not None and (k < block.keys or self._file.offset <= block.last_offset):
            k = self._equal(block, self._one_by_one(block, k, tags))
        if 0 < k < block.keys and block.offsets[k] == block.offsets[k - 1] and self._uncovered is None:
            k = self._cut_short(block, k)
        if k < block.keys:
            self._uncover(block.offsets[k], block.offsets[block.keys - 1], block.keys - k)
        for keys in block.records(block.last_offset - 1):
            self._last = keys

    def _cut_short(self, block: KeyBlock, k: int) -> int:
        """Compare the record that the items end in; return the first key of the next record."""
        offset = block.offsets[k]
        self._record(next(block.records(offset - 1)), k - bisect_left(block.offsets, offset, 0, k))
        return bisect_right(block.offsets, offset, k, block.keys)

    def _equal(self, block: KeyBlock, k: int) -> int:
        """Pass over keys whose items are at the cursor; return the first key that differs."""
        while k < block.keys and (file := self._file) is not None:
            if file.number == 1:
                until = bisect_left(block.offsets, file.offset, k, block.keys)
                if until == k:
                    return k
                self._uncover(block.offsets[k], block.offsets[until - 1], until - k)
                k, self._last = until, None
                continue
            data, count = file.window()
            keys = block.hashes, block.offsets, block.times, k, block.keys
            same = kernel.match(data, count, file.number, file.begin, file.heads, *keys)
            if not same:
                return k
            k, self._last = k + same, None
            self._cover()
            file.met(same, block.offsets[k - 1], block.times[k - 1])
            self._turn()
        return k

    def _one_by_one(self, block: KeyBlock, k: int, tags: bool) -> int:
        """Compare record by record from the one before key k; return the next key."""
        if self._last is not None:
            self._record(self._last, len(self._last.hashes) + self.tags)
        elif k:
            before = block.offsets[k - 1]
            self._last = next(block.records(before - 1))
            self._record(self._last, k - bisect_left(block.offsets, before, 0, k))
        calm = 0
        for keys in block.records(self._last.offset if self._last is not None else -1):
            if self._file is None:
                break
            defects = self.ground.findings.defect_count
            self._record(keys, 0)
            self._last = keys
            calm = calm + 1 if defects == self.ground.findings.defect_count else 0
            if calm > CALM and self.tags == tags:
                break
        return bisect_right(block.offsets, self._last.offset, 0, block.keys) if self._last is not None else k

    # -- one record ------------------------------------------------------------------------------------------------

    def _record(self, keys: RecordKeys, entered: int) -> None:
        """Compare a record's items; `entered` of its keys are known already (tags come last)."""
        hashes = keys.hashes
        tags_met = entered > len(hashes)
        entered, met = min(entered, len(hashes)), entered > 0
        while (file := self._at(keys.offset)) is not None:
            item = file.item
            due = hashes[entered] if entered < len(hashes) else None
            if item.physical_offset > keys.offset:
                what = _MISSING if due is None or file.number == 1 else self._ahead(file, due, keys)
                if what == _MISSING:
                    break
                entered += what == _MOVED
                continue
            met = True
            if item.key_hash == due:
                entered += 1
            elif due is None and not tags_met and item.key_hash == keys.tags:
                tags_met = True
            elif file.number == 1 and item.key_hash in hashes[entered:]:
                at = hashes.index(item.key_hash, entered)
                self._uncover(keys.offset, keys.offset, at - entered)
                entered = at + 1
            elif item.key_hash == (hashes[0] if hashes else keys.tags):
                self._passed["index-doubled"] += 1  # recovery entered the record again, from its first key on
                entered, tags_met = (1, False) if hashes else (0, True)
            elif due is None:
                self._extra("the record there has no such key")
                continue
            else:
                file.wrong("index-wrong", f"hash {due}", str(item.key_hash))
                entered += 1
                self._take(keys.time, due)
                continue
            self._take(keys.time)
        if entered < len(hashes):
            self._miss(keys, len(hashes) - entered, met)
        elif keys.tags is not None and (met or (file is not None and file.number > 1)):
            self.tags = tags_met

    def _at(self, offset: int) -> IndexItems | None:
        """Account for items before a log offset; return the file at the cursor then."""
        while (file := self._file) is not None and (place := file.offset) < offset:
            if 0 <= place < self.ground.log_begin:
                self._expired(file)
            elif place in self.ground.lost:
                self._passed["index-lost"] += 1
                self._take(None)
            else:
                self._extra("no record with this key begins there")
        return file

    def _expired(self, file: IndexItems) -> None:
        """Pass over items of a deleted part of the log, checking only their chains and order."""
        data, count = file.window()
        some = 0
        if file.number > 1:
            some = kernel.skip(data, count, file.number, file.heads, file.last_offset, self.ground.log_begin)
        if not some and file.offset < file.last_offset:
            self._extra("an item before it points further")
            return
        self._passed["index-expired"] += some or 1
        if not some:
            self._take(None)
            return
        file.met(some, index.ITEM.unpack(data, (some - 1) * index.ITEM.size).physical_offset, None)
        self._turn()

    def _ahead(self, file: IndexItems, due: int, keys: RecordKeys) -> int:
        """Decide which is wrong when a key is due, and the item at the cursor points after it.

        Returns:
            _MISSING if the key has no item; _WRONG if the item was wrong and has been passed; _MOVED if it is the key's
                item nevertheless.
        """
        item, following = file.item, list(file.peek(LOOK_AHEAD))
        if not any(other.key_hash == due and other.physical_offset == keys.offset for other in following):
            if following and following[0].physical_offset >= item.physical_offset:
                return _MISSING
            if item.key_hash == due:
                file.wrong("index-wrong", f"log offset {keys.offset}", str(item.physical_offset))
                self._take(keys.time)
                return _MOVED
            if not following:
                return _MISSING
        self._extra("no record with this key begins there")
        return _WRONG

    def _extra(self, why: str) -> None:
        file = self._file
        assert file is not None
        empty = file.empty_run()
        item = file.item
        found = f"{empty} empty items" if empty else f"hash {item.key_hash}, log offset {item.physical_offset}: {why}"
        file.wrong("index-extra", "a key of a record", found)
        file.drop(empty or 1)
        self._turn()

    def _miss(self, keys: RecordKeys, count: int, met: bool) -> None:
        """Report that the last `count` keys of a record have no item; `met`: others have one."""
        file, due = self._file, f"{count} keys of the record at log offset {keys.offset}"
        if file is not None and file.number > 1:
            file.wrong("index-missing", due, "items of later records")
            self._turn()
        elif file is None and met and self._before is not None and not self._may_end_early(keys.offset):
            self.ground.findings.defect("index-missing", self._before.path, None, due, "the items end before")
        else:
            self._uncover(keys.offset, keys.offset, count)

    def _may_end_early(self, offset: int) -> bool:
        """Return whether the items may end within a record.

        They may in a full file whose successor is missing, or after an unclean stop.
        """
        full = self._before is not None and self._before.is_full
        return full or self.ground.live or self.ground.is_pending(offset)

    # -- moving on -------------------------------------------------------------------------------------------------

    def _take(self, time: int | None, key_hash: int | None = None) -> None:
        self._cover()
        assert self._file is not None
        self._file.pass_item(time, key_hash)
        self._turn()

    def _turn(self) -> None:
        """Go on to the next file if this one has no more items, or too many wrong ones."""
        if self._file is not None and (self._file.number >= self._file.stop or self._file.hopeless):
            self._next_file()

    def _next_file(self) -> None:
        if self._file is not None:
            if self._file.hopeless:
                text = f"{self._file.path}: too many defects; the rest of the file is not checked"
                self.ground.findings.note("not-checked", text, self._file.path)
            self._file.finish()
            self.items += self._file.number - 1
            self._before = self._file
        self._file = next(self._files, None)
        if self._file is not None:
            self._file.open()

    def _uncover(self, first: int, last: int, count: int) -> None:
        before = self._uncovered
        self._uncovered = (first, last, count) if before is None else (before[0], last, before[2] + count)

    def _cover(self) -> None:
        """Report the uncovered range before a key that is covered again."""
        if self._uncovered is not None:
            first, last, count = self._uncovered
            self._uncovered = None
            self.ground.findings.note("index-uncovered", f"log offsets {first} to {last}: {count} keys without an item")
        elif self._file is not None and self._file.number == 1:
            self._file.gap = False

    # -- a part of the log -----------------------------------------------------------------------------------------

    @property
    def passed(self) -> int:
        """Items passed, including those of the present file."""
        return self.items + (self._file.number - 1 if self._file is not None else 0)

    def stop(self) -> None:
        """End the comparison with the part of the log, without judging later items."""
        self._cover()
        self._report_passed()

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self, log_end: int) -> None:
        """Judge the items left when the log has no more keys."""
        if self._last is not None:
            self._record(self._last, len(self._last.hashes) + self.tags)
        while self._at(log_end) is not None:
            self._passed["index-ghost"] += 1
            self._take(None)
        if self._uncovered is not None and self.ground.is_pending(self._uncovered[0]):
            first, _, count = self._uncovered
            self._uncovered = None
            self.ground.findings.note("index-pending", f"{count} keys from log offset {first} on wait for dispatch")
        self._cover()
        self._report_passed()

    def _report_passed(self) -> None:
        for code, count in self._passed.items():
            self.ground.findings.note(code, f"{count} index items" if code != "index-doubled" else f"{count} records")

"""What must hold of any damage to a store's files, whoever did it: readers and engine against what was written.

    whole = written(root, keys)         # before
    complaints = judge(root, whole)     # after: a line for everything that must not be

A record *stands* if its bytes are where they were, in the file of that name. Then: readers give what stands and nothing
else; what does not stand is told, or lies behind the end that they give. The engine refuses and leaves the log alone,
or opens with a prefix of what was written, and serves it; whatever stands behind that prefix is in `quarantine/`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintmq import open_store
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, FlintError
from flintmq.forensics.verify.run import Verification, verify
from flintmq.format import record
from flintmq.store.commitlog.report import Report
from flintmq.store.message_store import MessageStore
from tests.support.crashed import Clock
from tests.support.engine import tree


@dataclass(frozen=True)
class Whole:
    """A store before it was damaged.

    Attributes:
        records: log offset -> bytes of the record, in the order of the log.
        places: log offset -> (topic, queue id, queue offset).
        marked: it has a `flintmq.mark` that covers everything.
    """

    records: dict[int, bytes]
    places: dict[int, tuple[str, int, int]]
    keys: Mapping[str, Any]
    marked: bool = True

    @property
    def file_size(self) -> int:
        return int(self.keys["mappedFileSizeCommitLog"])

    def stands(self, root: Path) -> list[int]:
        """Log offsets of the records that stand, in order."""
        files = {p.name: p.read_bytes() for p in (root / "commitlog").iterdir() if p.is_file()}
        found = []
        for offset, raw in self.records.items():
            at = offset % self.file_size
            if files.get(f"{offset - at:020d}", b"")[at : at + len(raw)] == raw:
                found.append(offset)
        return found


def written(root: Path, keys: Mapping[str, Any], marked: bool = True) -> Whole:
    """Read a sound store by the slow codec."""
    records, places = {}, {}
    for path in sorted((root / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            try:
                one = record.check(data, at, int(path.name) + at, file_end=len(data))
            except record.RecordError as error:
                assert error.kind in ("BLANK", "ZERO"), error
                break
            records[one.physical_offset] = data[at : at + one.size]
            places[one.physical_offset] = one.topic.decode(), one.queue_id, one.queue_offset
            at += one.size
    return Whole(records, places, keys, marked)


def judge(root: Path, whole: Whole) -> list[str]:
    """Everything that must not be. The store itself is not changed: the engine opens a copy."""
    stands, before = whole.stands(root), tree(root, ".")
    found = _verification(root, whole)
    wrong = _readers(root, whole, stands)
    if found is not None:
        wrong += _verified(found, whole, stands)
    if tree(root, ".") != before:
        wrong.append("a reader changed the store")
    # Of queues, for instance, whose units a clean start does not compare, verify must tell.
    return [*wrong, *_engine(root, whole, stands, told=found is None or bool(found.defects))]


def _verification(root: Path, whole: Whole) -> Verification | None:
    """What `verify` finds; None where it refuses."""
    try:
        return verify(root, StoreConfig.from_keys(whole.keys))
    except FlintError:
        return None


def _readers(root: Path, whole: Whole, stands: list[int]) -> list[str]:
    wrong, report = [], Report()
    try:
        with open_store(root, set=whole.keys) as view:
            found = {m.physical_offset: m.raw for m in view.messages(strict=False, report=report)}
            strict = True
            try:
                list(view.messages())
            except CorruptStoreError:
                strict = False
            wrong += _lookups(view, whole)
    except FlintError:
        found, strict = None, False
    if found is not None:
        if any(whole.records.get(offset) != raw for offset, raw in found.items()):
            wrong.append("a reader gives what was not written")
        told = [range(d.offset, d.offset + d.lost) for d in report.damages]
        end = max((offset + len(raw) for offset, raw in found.items()), default=0)
        begin = min(found, default=0) // whole.file_size * whole.file_size  # files that are gone in front are expired
        for offset in whole.records:
            if offset in found:
                continue
            known = any(offset in lost for lost in told)
            if offset in stands and not known and not report.notes:
                wrong.append(f"a reader leaves out {offset}, which stands, and tells nothing")
            elif offset >= begin and not known and (offset < end or whole.marked) and not report.notes:
                wrong.append(f"a reader does not tell of {offset}, which is gone")
        if strict and told:
            wrong.append("the strict reader does not refuse what the lenient one tells")
    return wrong


def _verified(found: Verification, whole: Whole, stands: list[int]) -> list[str]:
    missing = [offset for offset in whole.records if offset not in stands and offset >= found.log_begin]
    if missing and whole.marked and not found.defects:
        return [f"verify tells nothing of {missing[:5]}"]
    return []


def _lookups(view: Any, whole: Whole) -> list[str]:
    """By queue offset: that message or none."""
    wrong = []
    for offset, place in [*whole.places.items()][:: max(1, len(whole.places) // 12)]:
        try:
            if view.get(*place).raw != whole.records[offset]:
                wrong.append(f"get{place} gives another record")
        except FlintError:
            continue
    return wrong


def _engine(root: Path, whole: Whole, stands: list[int], told: bool) -> list[str]:
    copy = root.parent / f"{root.name}-opened"
    shutil.copytree(root, copy, symlinks=True)
    before = tree(copy, "commitlog")
    try:
        with MessageStore(copy, config=whole.keys, effects=Clock(), unique_keys=False) as store:
            if not store.wait_dispatched(10):
                return ["dispatch does not end"]
            return _opened(store, copy, whole, stands, told)
    except FlintError as error:
        after = tree(copy, "commitlog")
        if {n: d for n, d in after.items() if d} != {n: d for n, d in before.items() if d}:
            return ["the engine refuses, and changed the log"]
        return [] if len(str(error)) < 2000 else ["the error is long"]
    finally:
        shutil.rmtree(copy)


def _opened(store: MessageStore, copy: Path, whole: Whole, stands: list[int], told: bool) -> list[str]:
    end, wrong = store.recovered.state.end, []
    begin = int(min(p.name for p in (copy / "commitlog").iterdir() if p.name.isdigit()))
    kept = {p.read_bytes() for p in (copy / "quarantine").glob("*.record")}
    for offset in stands:
        if offset >= end and whole.records[offset] not in kept:
            wrong.append(f"the engine cuts {offset}, which stands, and keeps no copy")
    if whole.marked and any(offset >= end for offset in whole.records):
        wrong.append(f"the engine ends the log at {end}, below the durable mark")
    for offset, place in whole.places.items():
        if not begin <= offset < end or offset not in stands:
            continue
        got = store.get(*place, 1)
        if got.messages and got.messages[0].raw != whole.records[offset]:
            wrong.append(f"the engine serves another record at {place}")
        if not got.messages and not told:
            wrong.append(f"the engine does not serve {place}: {got.status.name}")
    return wrong

"""One flipped bit costs at most the record it hits: every bit of records that the engine wrote.

    python -m labs.hostile.bits [--stores 20] [--seconds S] [--state FILE] [--store N] [--report
    docs/internals/reliability.md]
    python -m labs.hostile.bits --places 60          # bits of topic, queue id and queue offset alone,
    without a state

Each store has ten records of all shapes in small files, and is left as by five kinds of stops. Each bit of each record
is flipped, tried after a clean stop and after an unclean one, and judged by the slow codec. Where that says that there
is no record, all readers and the engine must say so, with file and position, and nothing else may be missing; where it
sees nothing, one field of that record alone may differ. At each hundredth flip the engine is opened, on a copy. A run
goes on behind the last store that it finished; its state is a file of the repository.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flintmq import open_store
from flintmq.errors import CorruptStoreError
from flintmq.forensics.verify.run import verify
from flintmq.format import record
from flintmq.message import GetMessageStatus
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.layout.small_files import StoreFiles
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.decisions import Decisions
from flintmq.store.recovery.find_end import EndSearch
from labs.hostile.bits_stores import CLEAN, FILE_SIZE, KILLED, RECORDS, STOPS, Quick, Store, make
from labs.torture import figures, report
from tests.support.crashed import small_and_quick

ENGINE = 100  # the whole engine is opened at each so-manieth flip
STATE = Path("labs/torture/state/bits.json")
OUTCOMES = {
    "refused": "the engine refuses, with file and position",
    "unread": "in a file that was flushed before: a start does not read it",
    "cut": "the last record, not known to be flushed: cut",
    "follower": "above the mark: the queue's last record does not follow it any more; that one is cut, and kept aside",
    "taken": "no checksum covers the field, its place in a queue; of what was dispatched again it takes others' places",
    "unseen": "no checksum covers the field: it differs, nothing else does",
}


class Trial:
    """One flipped bit of one record, tried on all stops of a store. `wrong` is what must not be, a line each."""

    def __init__(self, store: Store, number: int, byte: int, bit: int) -> None:
        self.store, self.number, self.byte, self.bit = store, number, byte, bit
        self.hit = store.records[number]
        self.file = store.path(self.hit.physical_offset)
        self.position = self.hit.physical_offset % FILE_SIZE
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.now: record.Record | None = None

    def run(self, whole: str | None = None) -> None:
        """Flip, look by all readers and the engine's decision, flip back. `whole`: open the engine after this stop."""
        with open(self.file, "r+b") as file:
            os.pwrite(file.fileno(), self._flipped(file.fileno()), self.position + self.byte)
            try:
                self.now = self._reference()
                turn = self.number + self.byte + self.bit
                clean, killed = CLEAN[turn % len(CLEAN)], KILLED[turn % len(KILLED)]
                self._one(clean)
                self._one(killed)
                if turn % 4 == 0:
                    self._verified((clean, killed)[turn // 4 % 2])
                if whole is not None:
                    self._engine(whole)
            finally:
                os.pwrite(file.fileno(), self._flipped(file.fileno()), self.position + self.byte)

    def _flipped(self, fd: int) -> bytes:
        return bytes([os.pread(fd, 1, self.position + self.byte)[0] ^ 1 << self.bit])

    def _reference(self) -> record.Record | None:
        """What the slow codec says stands there now."""
        data = self.file.read_bytes()
        try:
            return record.check(data, self.position, self.hit.physical_offset, file_end=len(data))
        except record.RecordError:
            return None

    @property
    def there(self) -> bytes:
        """The bytes at the place of the record that was hit."""
        return self.file.read_bytes()[self.position : self.position + self.hit.size]

    def complain(self, stop: str, what: str) -> None:
        """Something that must not be."""
        self.wrong.append(f"record {self.number} at {self.hit.physical_offset}, byte {self.byte}, bit {self.bit}, "
                          f"{stop}: {what}")  # fmt: skip

    @property
    def is_last(self) -> bool:
        return self.number == len(self.store.records) - 1

    def _one(self, stop: str) -> None:
        refused, told = self._readers(stop)
        decided = self._decision(stop)
        if self.now is not None and decided == "end":
            self.outcomes[stop, "unseen"] += 1
        elif decided in ("refused", "unread"):
            self.outcomes[stop, decided] += 1
        elif decided == "cut" and (self.is_last or self.now is not None):
            self.outcomes[stop, "cut" if self.is_last else "follower"] += 1
        else:
            self.complain(stop, f"the engine: {decided}, readers: refused {refused}, told {told}")

    def _readers(self, stop: str) -> tuple[bool, bool]:
        """The lenient and the strict reader of the log; (whether the strict one refused, whether anything is told)."""
        root, told_to = self.store.roots[stop], Report()
        with open_store(root, set=self.store.keys) as view:
            found = [m.raw for m in view.messages(strict=False, report=told_to)]
            try:
                strict = [m.raw for m in view.messages()]
                error = None
            except CorruptStoreError as caught:
                strict, error = None, caught
        wanted = list(self.store.raw)
        here = (str(self._path(stop)), self.position)
        told = [(d.file, d.position) for d in told_to.damages]
        tail = [n for n in told_to.notes if n.code in ("torn_tail", "stale_tail", "end")]
        if self.now is not None:
            wanted[self.number] = self.there
            self._only_one_field()
            if found != wanted and not (self.is_last and tail and found == wanted[:-1]):
                self.complain(stop, f"{len(found)} of {len(wanted)} records are read, or others than are there")
            if error is not None or told:
                self.complain(stop, f"damage where a record counts: {error or told}")
            return False, bool(tail)
        if found != wanted[: self.number] + wanted[self.number + 1 :]:
            self.complain(stop, f"{len(found)} of {len(wanted)} records are read, not all but the one that was hit")
        if told != [here] and not (self.is_last and tail):
            self.complain(stop, f"told is {told or 'nothing'}")
        if told and told_to.lost_bytes < self.hit.size:
            self.complain(stop, f"{told_to.lost_bytes} lost bytes are told of {self.hit.size}")
        if told and (error is None or (error.file, error.position) != here):
            self.complain(stop, f"the strict reader: {error}")
        if not told and strict != wanted[:-1]:
            self.complain(stop, "strict and lenient readers differ at the tail")
        return error is not None, bool(told or tail)

    def _path(self, stop: str) -> Path:
        return self.store.roots[stop] / "commitlog" / self.file.name

    def _only_one_field(self) -> None:
        assert self.now is not None
        changed = [name for name in record.Record._fields if getattr(self.now, name) != getattr(self.hit, name)]
        if len(changed) > 1 or "body" in changed:
            self.complain("-", f"fields {changed} differ and nobody sees it")

    def _decision(self, stop: str) -> str:
        """What the engine decides: "end" (of all that was written), "cut" or "refused"."""
        root = str(self.store.roots[stop])
        files = list_log(root, self.store.config, REAL)
        search = EndSearch(root, files, read_facts(root), StoreFiles(root, REAL).checkpoint, REAL, Decisions("store"))
        try:
            end, _, _ = search.find()
        except CorruptStoreError as error:
            at = (error.file, error.position)
            if at != (str(self._path(stop)), self.position) and not self._order_broken(error):
                self.complain(stop, f"the engine refuses another place: {error}")
            return "refused"
        if end in (self.store.end, -(-self.store.end // FILE_SIZE) * FILE_SIZE):
            if self.now is None and search.compared > self.hit.physical_offset:
                return "unread"
            return "end" if self.now is not None else "nothing is seen"
        behind = self.store.records[-1].physical_offset
        return "cut" if end == behind else f"cut at {end}"

    def _order_broken(self, error: CorruptStoreError) -> bool:
        """Above the mark a changed place in the queue shows at the next record of that queue."""
        return self.now is not None and "where" in str(error) and "is the next" in str(error)

    def _moved(self) -> bool:
        """Whether the record now claims another place in a queue."""
        names = ("topic", "queue_id", "queue_offset", "sys_flag", "magic")
        return self.now is not None and any(getattr(self.now, name) != getattr(self.hit, name) for name in names)

    def _verified(self, stop: str) -> None:
        found = verify(self.store.roots[stop], self.store.config)
        places = {(d.file, d.position) for d in found.defects}
        here = (str(self._path(stop)), self.position)
        reference = self._reference()
        if reference is None and here not in places and not (self.is_last and "torn-tail" in found.note_counts):
            self.complain(stop, f"verify does not tell: {found.defect_counts} {found.note_counts}")
        if reference is None and found.records != RECORDS - 1:
            self.complain(stop, f"verify counts {found.records} records")
        told = {"units-ghost", "units-pending", "queue-unconfigured"} & found.note_counts.keys()
        if reference is not None and not found.defects and not told:
            fields = ("topic", "queue_id", "queue_offset")
            if any(getattr(reference, name) != getattr(self.hit, name) for name in fields):
                self.complain(stop, "verify does not tell of a unit that leads to another queue's record")

    def _engine(self, stop: str) -> None:
        """Open the whole engine on a copy: what it serves is what it wrote, but for what was hit."""
        copy = self.store.roots[stop].parent / "copy"
        shutil.copytree(self.store.roots[stop], copy)
        before = _content(copy / "commitlog")
        try:
            with MessageStore(copy, config=self.store.keys, effects=Quick(), unique_keys=False) as store:
                assert store.wait_dispatched(10)
                self._served(stop, store, copy)
        except CorruptStoreError:
            if _content(copy / "commitlog") != before:
                self.complain(stop, "the engine refused, and changed the log")
        finally:
            shutil.rmtree(copy)

    def _served(self, stop: str, store: MessageStore, copy: Path) -> None:
        kept = {p.read_bytes() for p in (copy / "quarantine").glob("*")} if (copy / "quarantine").is_dir() else set()
        for n, r in enumerate(self.store.records):
            if n == self.number:
                continue
            got = store.get(r.topic.decode(), r.queue_id, r.queue_offset, 1)
            raw = got.messages[0].raw if got.status is GetMessageStatus.FOUND else b""
            whole = self.store.raw[n]
            if raw != whole and self._moved():
                self.outcomes[stop, "taken"] += 1
                return
            if raw != whole and whole not in kept:
                self.complain(stop, f"record {n} is not served: {got.status.name}")
        got = store.get(self.hit.topic.decode(), self.hit.queue_id, self.hit.queue_offset, 1)
        other = bool(got.messages) and got.messages[0].raw != self.there
        if other and got.messages[0].queue_offset == self.hit.queue_offset:
            self.complain(stop, "what is served is not what stands there, its checksum included")


def _content(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file() and p.name != "lock"}


def place_bytes(r: record.Record) -> list[int]:
    """The bytes of a record that hold its queue id, its queue offset and its topic."""
    topic_end = r.size - len(r.properties) - 2
    return [*range(12, 16), *range(20, 28), *range(topic_end - len(r.topic), topic_end)]


def trials(store: Store, chance: random.Random | None = None, count: int = 0, aimed: bool = False) -> Iterator[Trial]:
    """Every bit of every record, or so many that chance draws; `aimed`: only of those that place it in a queue."""
    bytes_of = place_bytes if aimed else lambda r: range(r.size)
    places = [(n, byte, bit) for n, r in enumerate(store.records) for byte in bytes_of(r) for bit in range(8)]
    for place in places if chance is None else chance.sample(places, count):
        yield Trial(store, *place)


@dataclass
class Tally:
    """What came of many trials."""

    flips: int = 0
    records: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally | Trial) -> None:
        """Add what came of others, or of one."""
        self.flips += other.flips if isinstance(other, Tally) else 1
        self.records += other.records if isinstance(other, Tally) else 0
        self.outcomes += other.outcomes
        self.wrong += other.wrong


def run(
    folder: Path, seed: int, engine: int, chance: random.Random | None = None, count: int = 0, aimed: bool = False
) -> Tally:
    """All trials of one store, or some (see `trials`)."""
    tally = Tally()
    store = make(folder, seed)
    tally.records = len(store.records)
    for n, trial in enumerate(trials(store, chance, count, aimed)):
        trial.run(STOPS[n // engine % len(STOPS)] if n % engine == 0 else None)
        tally.add(trial)
    return tally


def series(state: report.State) -> figures.Series:
    """What the run has counted: a row for each thing that the engine does, a column for each kind of stop."""
    done = state["stores"].values()
    told = {
        "bits": sum(one["flips"] for one in done), "records": sum(one["records"] for one in done), "stores": len(done),
        "wrong": sum(len(one["wrong"]) for one in done),
    }  # fmt: skip
    rows = []
    for name, text in OUTCOMES.items():
        rows.append([text, *(sum(one["outcomes"].get(f"{stop}/{name}", 0) for one in done) for stop in STOPS)])
    return figures.Series(["what the engine does", *STOPS], rows, state["commits"], told)


def go_on(state: report.State, stores: int, until: float) -> None:
    """The stores that are not done yet, for so long."""
    commit = report.commit()
    for seed in range(stores):
        if str(seed) in state["stores"]:
            continue
        if time.monotonic() > until:
            return
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="flintmq-bits-", dir=report.memory()) as folder:
            one = run(Path(folder), seed, ENGINE)
        state["stores"][str(seed)] = {
            "flips": one.flips, "records": one.records, "wrong": one.wrong,
            "outcomes": {f"{stop}/{name}": count for (stop, name), count in sorted(one.outcomes.items())},
        }  # fmt: skip
        report.note(state, commit)
        state.save()
        print(*one.wrong, f"store {seed}: {one.flips:,} flips, {len(one.wrong)} wrong, "
              f"{time.monotonic() - began:.0f} s", sep="\n", flush=True)  # fmt: skip


def try_places(stores: int, count: int) -> int:
    """Flip so many bits a store of topic, queue id and queue offset, the engine opened at each; tell what it did."""
    tally = Tally()
    for seed in range(stores):
        with tempfile.TemporaryDirectory(prefix="flintmq-bits-", dir=report.memory()) as folder:
            tally.add(run(Path(folder), seed, 1, random.Random(seed), count, aimed=True))
    print(*tally.wrong, *sorted(tally.outcomes.items()), f"{tally.flips:,} flips, {len(tally.wrong)} wrong", sep="\n")
    return 1 if tally.wrong else 0


def main() -> int:
    """The long form. 3: the time was up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no store after so long; the next call goes on"
    )
    parser.add_argument("--state", type=Path, default=STATE, help="what is done; remove it to begin again")
    parser.add_argument("--store", type=int, help="only this one, without a state")
    parser.add_argument("--places", type=int, help="so many bits a store of what places it in a queue, without a state")
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    small_and_quick(setattr)
    if words.store is not None:
        with tempfile.TemporaryDirectory(prefix="flintmq-bits-", dir=report.memory()) as folder:
            one = run(Path(folder), words.store, ENGINE)
        print(*one.wrong, f"{one.flips:,} flips, {len(one.wrong)} wrong", sep="\n")
        return 1 if one.wrong else 0
    if words.places is not None:
        return try_places(words.stores, words.places)
    state = report.State(words.state, stores={}, commits=[])
    go_on(state, words.stores, time.monotonic() + words.seconds)
    print(*figures.shown("bits", series(state)), sep="\n")
    if words.report is not None:
        figures.record(words.report, "bits", series(state))
    if any(one["wrong"] for one in state["stores"].values()):
        return 1
    return 0 if len(state["stores"]) >= words.stores else 3


if __name__ == "__main__":
    sys.exit(main())

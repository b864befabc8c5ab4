"""The same damaged directory recovered by RocketMQ and by FlintMQ (T18): the same end and the same queues, or a reason.

    python -m labs.interop.damaged [--stores 1000] [--seconds S] [--state FILE] [--peer 5.3.3] [--report FILE]

Each store is written by FlintMQ in small files, without `flintmq.mark`, and left as after a clean stop or a kill; then
one thing is done to its log (`flintmq.testing.damage`). Where the two differ it must be by one of the differences that
are on purpose, each told by what the slow codec finds in the directory, before either has opened it. It goes on where
it was stopped; its state is a file of the repository.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from flintmq.errors import CorruptStoreError
from flintmq.format import record
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing.damage import random_damage
from labs.hostile.judge import Whole, written
from labs.torture import figures, report
from tests.interop.java import VERSIONS, Java, home
from tests.support.crashed import Clock, small_and_quick
from tests.support.engine import units

KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 8192, "mappedFileSizeConsumeQueue": 400, "maxHashSlotNum": 8, "maxIndexNum": 64
}  # fmt: skip
TOPICS = ("T", "U")
STATE = Path("labs/torture/state/damaged.json")
REASONS = {
    "same": "the same end and the same queues",
    "refused": "damage with records behind it: FlintMQ refuses, RocketMQ cuts there and deletes later files",
    "checks": "a record whose place, queue offset or text is not what it must be: RocketMQ takes it",
}


def make(root: Path, number: int) -> Whole:
    """One store, damaged."""
    chance = random.Random(f"damaged {number}")
    with MessageStore(root, config=KEYS, effects=Clock(), unique_keys=False) as store:
        for n in range(chance.randrange(20, 60)):
            body = chance.randbytes(chance.choice((0, 20, 300, 900)))
            store.put(Message(chance.choice(TOPICS), body, tags="t", keys=f"k{n}", queue_id=n % 2))
    whole = written(root, KEYS, marked=False)
    for name in ("flintmq.mark", "flintmq.queues"):
        (root / name).unlink(missing_ok=True)
    if number % 2:
        (root / "abort").write_text("1")
        (root / "checkpoint").write_bytes(bytes(4096))
    random_damage(root, number, ("flip", "zero", "swap", "stale", "rubbish"), "commitlog")
    return whole


def ours(root: Path) -> tuple[int | None, dict[str, list[Any]]]:
    """(end of the log, units of each queue); None for a store that is refused."""
    try:
        with MessageStore(root, config=KEYS, effects=Clock(), unique_keys=False) as store:
            assert store.wait_dispatched(10)
            end = store.recovered.state.end
    except CorruptStoreError:
        return None, {}
    return end, _queues(root)


def theirs(root: Path, java: Java) -> tuple[int, dict[str, list[Any]]]:
    """The same of RocketMQ, which leaves units behind a queue's end in its files."""
    rows = java("dump", root, KEYS, topics=TOPICS)
    end = next(row["max_physical_offset"] for row in rows if row["kind"] == "store")
    ends = {f"{row['topic']}/{row['queue_id']}": row["max"] for row in rows if row["kind"] == "queue"}
    queues = {name: queue[: ends.get(name, 0)] for name, queue in _queues(root).items()}
    return end, {name: queue for name, queue in queues.items() if queue}


def _queues(root: Path) -> dict[str, list[Any]]:
    found = {}
    for topic in TOPICS:
        for queue_id in range(2):
            if (root / "consumequeue" / topic / str(queue_id)).is_dir():
                found[f"{topic}/{queue_id}"] = units(root, topic, queue_id)
    return {name: queue for name, queue in found.items() if queue}


def compare(folder: Path, number: int, java: Java) -> tuple[str, str]:
    """(reason, what differs) of one store; an unknown reason is "-"."""
    root = folder / "store"
    whole = make(root, number)
    for name in ("ours", "theirs"):
        shutil.copytree(root, folder / name)
    stands = whole.stands(root)
    (end, queues), (their_end, their_queues) = ours(folder / "ours"), theirs(folder / "theirs", java)
    lost = [offset for offset in whole.records if offset not in stands]
    text = f"ours {end}, theirs {their_end}, {len(lost)} records hit from {lost[:1]} on of {len(whole.records)}"
    if end is None:
        behind = any(offset > lost[0] for offset in stands) if lost else False
        return ("refused" if behind else "-"), text
    if end == their_end and queues == their_queues:
        return "same", text
    if lost and _passes(root, lost[0]):
        return "checks", text
    return "-", f"{text}; queues {'equal' if queues == their_queues else 'differ'}"


def _passes(root: Path, offset: int) -> bool:
    """Whether the slow codec takes what stands at a hit record's place but for its log offset, which RocketMQ does not
    compare: only other fields changed, or it is a whole record from elsewhere."""
    at = offset % KEYS["mappedFileSizeCommitLog"]
    data = (root / "commitlog" / f"{offset - at:020d}").read_bytes()
    try:
        record.check(data, at, record.decode(data, at).physical_offset, file_end=len(data))
    except record.RecordError:
        return False
    return True


def one(number: int, java: Java) -> tuple[str, str]:
    """`compare` in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="flintmq-damaged-", dir=report.memory()) as folder:
        return compare(Path(folder), number, java)


def run(java: Java, first: int, count: int) -> tuple[Counter[str], list[str]]:
    """So many stores; how many had which reason, and those that have none."""
    found, wrong = Counter[str](), []
    for number in range(first, first + count):
        reason, text = one(number, java)
        found[reason] += 1
        if reason == "-":
            wrong.append(f"store {number}: {text}")
    return found, wrong


def go_on(java: Java, state: report.State, stores: int, until: float) -> None:
    """The stores that are not done yet, for so long."""
    known = state["peers"].setdefault(java.version, {"done": 0, "reasons": {}, "wrong": []})
    commit = report.commit()
    while known["done"] < stores and time.monotonic() < until:
        reason, text = one(known["done"], java)
        known["reasons"][reason] = known["reasons"].get(reason, 0) + 1
        if reason == "-":
            known["wrong"].append(f"store {known['done']}: {text}")
            print(known["wrong"][-1], flush=True)
        known["done"] += 1
        report.note(state, commit)
        state.save()
        if known["done"] % 20 == 0:
            print(f"{known['done']} stores, {len(known['wrong'])} differ without a reason", flush=True)


def series(state: report.State) -> figures.Series:
    """What the run has counted: a row for each peer and reason."""
    texts = REASONS | {"-": "any other difference"}
    rows = [[peer, text, known["reasons"].get(name, 0), known["reasons"].get("-", 0) if name == "-" else 0]
            for peer, known in state["peers"].items() for name, text in texts.items()]  # fmt: skip
    return figures.Series(["peer", "what came of it", "stores", "wrong"], rows, state["commits"])


def main() -> int:
    """The long form. 3: the time was up; 4: there is no RocketMQ here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=STATE, help="what is done; remove it to begin again")
    parser.add_argument("--store", type=int, help="only this one, without a state")
    parser.add_argument("--peer", choices=VERSIONS, default=VERSIONS[0])
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    built, why = home(words.peer)
    if built is None:
        print(f"RocketMQ {words.peer}: {why}")
        return 4
    small_and_quick(setattr)
    java = Java(words.peer, built)
    if words.store is not None:
        print(*one(words.store, java), sep=": ")
        return 0
    state = report.State(words.state, peers={}, commits=[])
    go_on(java, state, words.stores, time.monotonic() + words.seconds)
    print(*figures.shown("damaged", series(state)), sep="\n")
    if words.report is not None:
        figures.record(words.report, "damaged", series(state))
    known = state["peers"][words.peer]
    return 1 if known["wrong"] else 0 if known["done"] >= words.stores else 3


if __name__ == "__main__":
    raise SystemExit(main())

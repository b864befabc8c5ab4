"""Compare the speed of two checkouts: `python experiments/house-speed/compare.py BEFORE AFTER [ROUNDS]`.

Each of BEFORE and AFTER is a checkout with a .venv of its own and compiled kernels. Each task runs in a process of its
own, alternately of both checkouts, another one first each round; a task repeats its work a few times and reports the
least processor time of one repetition (other work on the machine can only add to it). The table has the median of the
rounds of each checkout, their ratio (below 1: AFTER is faster), and the ratio of two halves of the rounds of BEFORE,
which tells how much of it is noise.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

COUNT, BODY = 200_000, 100
BIG = 1024


def least(work: Callable[[], object], repeat: int) -> float:
    """The least processor time of one call."""
    found = []
    for _ in range(repeat):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def put(scratch: Path, size: int) -> float:
    from flintmq import Message, MessageStore

    body = (bytes(range(256)) * 4)[:size]
    with MessageStore(scratch / "put", unique_keys=False) as store:

        def work() -> None:
            for _ in range(COUNT):
                store.put(Message("Bench", body, "TagA"))
            store.wait_dispatched()

        work()
        return least(work, 6)


def walk(source: Path) -> float:
    from flintmq.store.commitlog.files import LogFiles
    from flintmq.store.commitlog.walk import LogWalk

    log = LogFiles.discover([str(source / "commitlog")])

    def work() -> None:
        for _ in range(5):
            sum(piece.count for piece in LogWalk(log, access="map", piece_bytes=8 << 20))

    return least(work, 8)


def rebuild(source: Path, scratch: Path) -> float:
    from flintmq.forensics.rebuild import rebuild

    def work() -> None:
        into = Path(tempfile.mkdtemp(dir=scratch))
        rebuild(str(source), str(into / "rebuilt"))
        shutil.rmtree(into)

    return least(work, 5)


def scan(source: Path) -> float:
    from flintmq import scan_arrow

    def work() -> None:
        for _ in range(3):
            sum(batch.num_rows for batch in scan_arrow(source, access="map"))

    return least(work, 6)


def get(source: Path, batch: bool) -> float:
    """Messages of a queue by their offset: all of it in batches of 32, or 20,000 one at a time."""
    from flintmq import open_store

    with open_store(source, access="map") as view:
        queue = max(view.queues(), key=lambda q: q.max_offset)
        first, end = queue.min_offset, queue.max_offset

        def batches() -> None:
            for _ in range(4):
                offset = first
                while offset < end:
                    offset = view.read(queue.topic, queue.queue_id, offset, 32).next_offset

        def singles() -> None:
            for offset in range(first, min(end, first + 20_000)):
                view.get(queue.topic, queue.queue_id, offset)

        return least(batches if batch else singles, 5)


def get_live(scratch: Path) -> float:
    """`get` of the engine, one message a call."""
    from flintmq import Message, MessageStore

    with MessageStore(scratch / "live", unique_keys=False) as store:
        for _ in range(20_000):
            store.put(Message("Bench", b"x" * 100, "TagA"))
        store.wait_dispatched()

        def work() -> None:
            for offset in range(20_000):
                store.get("Bench", 0, offset, 1)

        return least(work, 5)


def opening(scratch: Path) -> float:
    """Open and close a store of a hundred queues, cleanly."""
    from flintmq import Message, MessageStore

    def work() -> None:
        for _ in range(10):
            MessageStore(scratch / "open").close()

    with MessageStore(scratch / "open") as store:
        for number in range(100):
            store.put(Message(f"T{number}", b"x"))
    return least(work, 4)


TASKS: dict[str, Callable[[Path, Path], float]] = {
    "put, 100 B": lambda source, scratch: put(scratch, BODY),
    "put, 1 KB": lambda source, scratch: put(scratch, BIG),
    "walk": lambda source, scratch: walk(source),
    "rebuild": rebuild,
    "scan_arrow": lambda source, scratch: scan(source),
    "read of a view, 32 a call": lambda source, scratch: get(source, True),
    "get of a view, 1 a call": lambda source, scratch: get(source, False),
    "get of the engine, 1 a call": lambda source, scratch: get_live(scratch),
    "open and close, 100 queues": lambda source, scratch: opening(scratch),
}


def child(name: str, source: Path, scratch: Path) -> None:
    """Measure one task in this process and print its processor time in seconds."""
    print(json.dumps(TASKS[name](source, scratch)))


def measured(checkout: Path, name: str, source: Path, scratch: Path) -> float:
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    words = [str(checkout / ".venv/bin/python"), __file__, "--child", name, str(source), str(scratch)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=scratch)
    if done.returncode:
        sys.exit(f"{checkout}: {name}: {done.stderr[-2000:]}")
    return float(json.loads(done.stdout))


def main(before: Path, after: Path, rounds: int) -> None:
    base = Path(tempfile.mkdtemp(prefix="house-speed-"))
    source, scratch = base / "source", base / "scratch"
    make = f"from flintmq.testing import write_store; write_store({str(source)!r}, {COUNT * 3}, body_bytes=300)"
    subprocess.run([str(before / ".venv/bin/python"), "-c", make], check=True)
    sides = {"before": before, "after": after}
    print("| task | before, s | after, s | after / before | noise | rounds |\n|---|---|---|---|---|---|", flush=True)
    for name in TASKS:
        found: dict[str, list[float]] = {"before": [], "after": []}
        for number in range(rounds):
            for side in sorted(sides, reverse=number % 2 == 0):
                found[side].append(measured(sides[side], name, source, scratch))
        middle = {side: statistics.median(times) for side, times in found.items()}
        halves = [statistics.median(found["before"][half::2]) for half in (0, 1)]
        ratio, noise = middle["after"] / middle["before"], max(halves) / min(halves)
        print(
            f"| {name} | {middle['before']:.4f} | {middle['after']:.4f} | {ratio:.3f} | {noise:.3f} | {rounds} |",
            flush=True,
        )
    shutil.rmtree(base)


if __name__ == "__main__":
    began = time.time()
    if sys.argv[1] == "--child":
        child(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute(), int(sys.argv[3]) if len(sys.argv) > 3 else 7)
        print(f"{time.time() - began:.0f} s")

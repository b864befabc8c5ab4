"""What bounds puts in Python (P1, P4, P6): pages of new files and the caller's own calls, and no store.

    python experiments/put_bound.py [--folder DIR] [--rounds 5]

Beside the Java store and FlintMQ's puts of bench/put_peer.py, in interleaved rounds, each a process of its own,
2,000,000 messages of 100 B:

- `pages`: the bytes of the records and of their queue units are copied into new mapped files, 64 KiB at a time;
- `pages, synced`: the same, while another thread syncs the log twice a second, and once at the end, as a store does;
- `calls`: a Message is made for each and given to a compiled method that does nothing;
- `calls x 4`: the same in four threads, wall clock;
- `rows`: the kernel of `put_columns` writes batches into a new mapped file: checksums, copies;
- `rows, units`: the same, and the queue units of the rows;
- `stores`: one record at a time is stored into a new mapped file, with a clock around each, while another thread
  syncs it twice a second.

Nothing is checked, encoded, numbered, dispatched or counted. What a put takes beyond the sum of `pages` and `calls` is
FlintMQ's own.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]
COUNT, RECORD, UNIT, PIECE, ROWS = 2_000_000, 207, 20, 1 << 16, 1 << 16


def new_map(folder: Path, name: str, size: int) -> mmap.mmap:
    """A file of its full size, mapped, none of its pages touched."""
    with (folder / name).open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


def pages(folder: Path) -> None:
    """Copy as many bytes as the messages have."""
    piece = os.urandom(PIECE)
    for name, size in (("log", COUNT * RECORD), ("queue", COUNT * UNIT)):
        with new_map(folder, name, size // PIECE * PIECE) as map_:
            for at in range(0, len(map_), PIECE):
                map_[at : at + PIECE] = piece


def pages_synced(folder: Path) -> None:
    """The same with a sync each half second."""
    done = threading.Event()

    def sync() -> None:
        while not (folder / "log").exists():
            done.wait(0.01)
        with (folder / "log").open("r+b") as file:
            while not done.wait(0.5):
                os.fdatasync(file.fileno())
            os.fdatasync(file.fileno())

    thread = threading.Thread(target=sync)
    thread.start()
    pages(folder)
    done.set()
    thread.join()


def calls(folder: Path, count: int = COUNT) -> None:
    """Make the messages, call something with each."""
    from flintmq import Message

    body, put = bytes(100), [].__contains__
    for _ in range(count):
        put(Message("Bench", body, "TagA", queue_id=0))


def calls_4(folder: Path) -> None:
    """The same in four threads."""
    threads = [threading.Thread(target=calls, args=(folder, COUNT // 4)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def rows(folder: Path, units: bool = False) -> None:
    """Columns into a new mapped file, and nothing around."""
    import pyarrow as pa

    from flintmq.kernels.write.fast_append import Appender, AppendTarget, QueueCounter
    from flintmq.store.append.columns import columns_of

    batch = pa.record_batch({"body": pa.array([bytes(100)] * ROWS, pa.binary())})
    appender, nexts, numbers = Appender(None, bytes(16), 1 << 20, False, 0, 0), array("q", [0]), array("i", [0])
    sizes = ("i", 4), ("q", 8), ("q", 8), ("B", UNIT)
    queue, offset, time_, unit = (array(kind, bytes(size * ROWS)) for kind, size in sizes)
    with new_map(folder, "log", COUNT * RECORD) as map_:
        file = AppendTarget()
        file.start, file.size, file.wrote, file.reserved = 0, len(map_), 0, len(map_)
        file.attach(map_)
        for _ in range(COUNT // ROWS):
            columns = columns_of(b"Bench", batch)
            columns.check(1 << 20, len(map_), False, bytearray(1 << 16))
            columns.put(appender, file, 0, 1, len(map_), {0: QueueCounter(0)}, nexts)
            if units:
                columns.units(0, ROWS, 0, 1, numbers, array("q", [0]), queue, offset, time_, memoryview(unit))
        file.detach()
        del file


def rows_units(folder: Path) -> None:
    """The same with units."""
    rows(folder, units=True)


def stores(folder: Path) -> float:
    """Microseconds that one store of a thousand exceeds."""
    record, taken, clock, done = bytes(RECORD), array("q", bytes(8 * COUNT)), time.perf_counter_ns, threading.Event()
    with new_map(folder, "log", COUNT * RECORD) as map_:

        def sync() -> None:
            with (folder / "log").open("r+b") as file:
                while not done.wait(0.5):
                    os.fdatasync(file.fileno())

        thread = threading.Thread(target=sync)
        thread.start()
        for n in range(COUNT):
            at = n * RECORD
            began = clock()
            map_[at : at + RECORD] = record
            taken[n] = clock() - began
        done.set()
        thread.join()
    return sorted(taken)[int(COUNT * 0.999)] / 1000


BARE = {
    "pages": pages,
    "pages, synced": pages_synced,
    "calls": calls,
    "calls x 4": calls_4,
    "rows": rows,
    "rows, units": rows_units,
    "stores": stores,
}


def bare(name: str, folder: Path) -> None:
    """One case in this process. Imports are not counted."""
    import pyarrow

    from flintmq.store.append import columns

    columns.columns_of(b"Bench", pyarrow.record_batch({"body": pyarrow.array([b""])}))  # this imports, too
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    late = BARE[name](folder)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": user + system, "p999_us": late}))


def main() -> None:
    """All cases in turn; a table of medians."""
    import put_lines
    from harness import Context

    parser = argparse.ArgumentParser(description="What bounds puts in Python.")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bare", choices=BARE, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.bare:
        bare(words.bare, words.folder)
        return
    folder = Path(tempfile.mkdtemp(prefix="put-bound-", dir=words.folder))
    context = Context(folder, 1024, words.rounds, False)

    def alone(name: str) -> dict:
        inner = Path(tempfile.mkdtemp(dir=folder))
        line = [sys.executable, __file__, "--bare", name, "--folder", str(inner)]
        found = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
        shutil.rmtree(inner)
        return found

    cases = {name: lambda name=name: alone(name) for name in BARE}
    cases |= {f"put, {kind}": lambda kind=kind: put_lines.flint(context, kind, 100, COUNT, 50_000)
              for kind in ("one", "four", "timed")}  # fmt: skip
    cases["java"] = lambda: put_lines.oracle(context, 100, COUNT, 400_000)
    cases["java, start"] = lambda: put_lines.oracle(context, 100, 1000, 400_000)
    cases["java x 4"] = lambda: put_lines.oracle(context, 100, COUNT, 400_000, threads=4)
    found: dict[str, list[dict]] = {name: [] for name in cases}
    for number in range(words.rounds):
        for name in list(cases)[number % len(cases) :] + list(cases)[: number % len(cases)]:
            found[name].append(cases[name]())
    shutil.rmtree(folder)
    print("| case | seconds | processor, ns each | 99.9 %, us |\n|---|---|---|---|")
    for name, runs in found.items():
        middle = {key: statistics.median(run[key] or 0 for run in runs) for key in runs[0]}
        each = round(middle["cpu"] / COUNT * 1e9)
        late = f"{middle.get('p999_us') or 0:.1f}"
        print(f"| {name} | {middle['seconds']:.2f} | {each} | {late if late != '0.0' else ''} |")


if __name__ == "__main__":
    main()

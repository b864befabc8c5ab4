"""How long opening takes after kill -9: logs of several sizes, with several amounts that were not flushed.

    python -m labs.torture.recovery_time --gib 1 5 20 --mib 64 512 [--keys each none] [--folder DIR]
    [--report FILE]

The log is made of records of 1 KB in files of 1 GiB, as by default, and flushed. Then a process puts so many bytes more
with the flusher asleep and dies. Two logs: each message has a key, or none has. The time is that of opening the store
in a process of its own: three times, each after another such kill. Page cache is as it is after a kill: warm.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from flintmq.store.message_store import MessageStore
from labs.torture import figures, report

NAME = "recovery-time"
ROWS, BODY = 8192, 920  # with its header and properties a record has some 1,020 bytes
ASLEEP = {"flushIntervalCommitLog": 3_600_000, "flushCommitLogThoroughInterval": 3_600_000,
          "flushIntervalConsumeQueue": 3_600_000, "flushConsumeQueueThoroughInterval": 3_600_000}  # fmt: skip
TIMES = 3


def batch(keys: str) -> Any:
    """Rows to put, again and again; each has a key, or none has."""
    import pyarrow as pa

    columns = {"body": pa.array([os.urandom(BODY) for _ in range(ROWS)], pa.binary())}
    if keys == "each":
        columns["keys"] = pa.array([f"key-{n}" for n in range(ROWS)])
    return pa.record_batch(columns)


def grow(root: Path, until: int, keys: str, *, die: bool) -> None:
    """In a child: put until the log ends behind `until`; close, or leave all of it unflushed and die."""
    child = os.fork()
    if child == 0:
        store = MessageStore(root, config=ASLEEP if die else {}, unique_keys=False)
        rows, number = batch(keys), 0
        while store._parts.log.end < until:
            store.put_columns(f"T{number % 4}", rows)
            number += 1
        store.wait_dispatched(600)
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        store.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == (signal.SIGKILL if die else 0), status


def opening(root: Path) -> tuple[float, list[str]]:
    """Seconds until the store can be written, and what recovery says it did."""
    read, tell = os.pipe()
    child = os.fork()
    if child == 0:
        began = time.monotonic()
        store = MessageStore(root, unique_keys=False)
        took = time.monotonic() - began
        os.write(tell, json.dumps([took, store.recovered.decisions]).encode())
        store.close()
        os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    took, decisions = json.loads(os.read(read, 65536))
    os.close(read)
    return float(took), list(decisions)


def measured(root: Path, keys: str, mib: int) -> list[Any]:
    """The rest of a row: size of the log behind it, what was not flushed, seconds, records dispatched again."""
    times = []
    for _ in range(TIMES):
        with MessageStore(root, unique_keys=False) as store:
            end = store._parts.log.end
        grow(root, end + (mib << 20), keys, die=True)
        took, decisions = opening(root)
        times.append(took)
    size = sum(path.stat().st_blocks * 512 for path in (root / "commitlog").iterdir())
    row = [f"{size / (1 << 30):.1f} GiB", f"{mib} MiB", round(statistics.median(times), 2),
           f"{min(times):.2f} to {max(times):.2f}", int(decisions[-1].split()[0])]  # fmt: skip
    print(keys, *row, decisions, flush=True)
    return row


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, nargs="+", default=[1, 5, 20])
    parser.add_argument("--mib", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--keys", choices=["each", "none"], nargs="+", default=["each", "none"])
    parser.add_argument("--folder", type=Path, default=Path("artifacts/recovery-time"), help="the store; is removed")
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    rows: list[list[Any]] = []
    try:
        for keys in words.keys:
            for gib in sorted(words.gib):
                grow(words.folder, int(gib * (1 << 30)), keys, die=False)
                for mib in words.mib:
                    rows.append([keys, f"{gib:g} GiB", *measured(words.folder, keys, mib)])
            shutil.rmtree(words.folder)
    finally:
        shutil.rmtree(words.folder, ignore_errors=True)
    head = ["keys", "log before", "log after", "not flushed", "seconds to open, median of 3", "of", "dispatched again"]
    found = figures.Series(head, rows, [report.commit()])
    print(*figures.shown(NAME, found), sep="\n")
    if words.report is not None:
        figures.record(words.report, NAME, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())

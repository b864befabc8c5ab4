"""C3, C7, C8: exports. All are whole processes, so each has a session of Spark's, or an interpreter, of its own.

C8: a writer puts messages of 200 B at a steady rate, `export --follow` brings them into a Delta table. The lag is the
age of the newest row that is in the table, looked at all the time once the export has caught up; versions are the
table's commits. The figure is the highest rate at which the lag never was above a second and the table had at most two
versions an interval. Rates rise until one fails.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from command_lines import MAIN, command
from data import orders, sized
from harness import Context, Cost, Result, measure, timed

INTERVAL, LAG = 0.5, 1.0  # seconds
RATES = (50_000, 100_000, 150_000, 200_000, 300_000, 400_000)  # messages a second
PATIENCE, SETTLE = 60.0, 3.0  # seconds until the export has caught up, and until it goes evenly
WRITER = """
import sys, threading, time
from flintmq import Message, MessageStore
path, rate, done = sys.argv[1], int(sys.argv[2]), threading.Event()
body, step = (b'{"id": 12345678, "customer": "c000123", "note": "plain"}' * 4)[:200], rate // 200
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
with MessageStore(path, unique_keys=False) as store:
    began, number = time.monotonic(), 0
    print(began, flush=True)
    while not done.is_set():
        for number in range(number, number + step):
            store.put(Message("Orders", body, "TagA", keys=f"k{number}", queue_id=number % 8))
        number += 1
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
"""


def c3(context: Context) -> dict[str, Result]:
    path, out = str(sized(context, "1KB").path), context.scratch / "out"
    words = (path, "--out", str(out))
    cases = {
        "export": timed(command(context, "export", *words)),
        "spark export": timed(command(context, "spark", "export", *words, "--master", "local[2]")),
    }
    found = measure(context, cases, before=lambda: shutil.rmtree(out, ignore_errors=True), rounds=3)
    return {"C3.command": found.result(found["spark export wall"] / found["export wall"])}


def c7(context: Context) -> dict[str, Result]:
    path, count = orders(context)
    out = context.scratch / "out"
    case = timed(command(context, "export", str(path), "--to", "delta", "--out", str(out)))
    found = measure(context, {"export": case}, warm=True, before=lambda: shutil.rmtree(out, ignore_errors=True))
    return {"C7": found.result(found["export cpu"] / (count / 1e6), rows=count)}


class Table:
    """The rows and the versions of a Delta table, by its log."""

    def __init__(self, path: Path) -> None:
        self.log, self.rows, self.versions = path / "_delta_log", 0, 0

    def look(self) -> None:
        """Read the commits that are new."""
        while (commit := self.log / f"{self.versions:020d}.json").exists():
            for line in commit.read_text(encoding="utf-8").splitlines():
                if added := json.loads(line).get("add"):
                    self.rows += json.loads(added["stats"])["numRecords"]
            self.versions += 1


def follow(folder: Path, rate: int, seconds: float) -> Cost:
    """The longest lag, and the versions an interval, of an export that follows a writer.

    The age of the newest row is reckoned by the rate, so a writer that does not keep it counts as a lag.
    """
    store, out = folder / "store", folder / "out"
    words = [sys.executable, "-c", WRITER, str(store), str(rate)]
    writer = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdin is not None and writer.stdout is not None
    began = float(writer.stdout.readline())
    words = [sys.executable, "-c", MAIN, "export", str(store), "--to", "delta", "--out", str(out), "--follow"]
    words += ["--interval", str(INTERVAL)]
    export = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    table, worst, first, watched = Table(out), 0.0, 0, float("inf")  # watched: from when on
    try:
        while (now := time.monotonic() - began) < watched + seconds:
            table.look()
            lag = now - table.rows / rate
            if watched > now:
                first = table.versions
                if table.rows and lag <= LAG:
                    watched = min(watched, now + SETTLE)
                elif now > PATIENCE:
                    return {"lag s": lag, "versions an interval": 0.0}
            else:
                worst = max(worst, lag)
            if export.poll() is not None:
                raise RuntimeError(f"the export ended with {export.returncode}")
            time.sleep(0.02)
        return {"lag s": worst, "versions an interval": (table.versions - first) / (seconds / INTERVAL)}
    finally:
        writer.stdin.close()
        writer.wait()
        export.send_signal(signal.SIGTERM)
        export.wait(60)


def c8(context: Context) -> dict[str, Result]:
    """Each round is a ladder of its own."""
    rates, seconds = ((10_000, 20_000), 3.0) if context.quick else (RATES, 12.0)

    def ladder() -> Cost:
        highest, told = 0, {"lag s": 0.0, "versions an interval": 0.0}
        for rate in rates:
            with context.folder("follow") as folder:
                cost = follow(folder, rate, seconds)
            context.say(f"  {rate:,} a second: " + ", ".join(f"{name} {value:.2f}" for name, value in cost.items()))
            if cost["lag s"] > LAG or cost["versions an interval"] > 2:
                break
            highest, told = rate, dict(cost)
        return {"rate": float(highest), **told}

    found = measure(Context(context.scratch, context.mib, min(context.rounds, 3), True), {"highest": ladder})
    return {"C8": found.result(found["highest rate"], interval=INTERVAL)}


FAMILIES = {"C3": c3, "C7": c7, "C8": c8}

"""Memory of the long jobs on a large store: `python bench/memory.py [--mib 10240] [--only sql]`.

The most resident memory that `flintmq scan --json` of a whole store takes (bar: 256 MiB), that `flintmq sql` takes for
a group-by, for a sort of all keys and for all rows into a Parquet file (512 MiB), that `flintmq export` of all of it
takes (512 MiB), and that each Spark worker takes while all of it is exported (512 MiB). Linux only: it reads /proc.
Writes bench/memory.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from flintmq.testing import Written, write_store

CLI = [sys.executable, "-c", "import sys; from flintmq.cli.app import main; sys.exit(main())"]


def peak_kib(pid: int) -> int:
    """The most resident memory a process has had, 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def workers(root: int) -> list[int]:
    """The Python processes below a process, at any depth."""
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        name, _, rest = stat.partition("(")[2].rpartition(")")
        parents.setdefault(int(rest.split()[1]), []).append(int(entry.name))
        names[int(entry.name)] = name
    found, todo = [], [root]
    while todo:
        below = parents.get(todo.pop(), [])
        todo += below
        found += [pid for pid in below if "python" in names[pid]]
    return found


class Watch:
    """Looks at all workers below this process again and again; remembers the peak of each."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            for pid in workers(os.getpid()):
                self.peaks[pid] = max(self.peaks.get(pid, 0), peak_kib(pid))


def command(what: str, bar: int, *words: str) -> dict[str, object]:
    """A command of FlintMQ's, its output into nothing."""
    began = time.perf_counter()
    process = subprocess.Popen([*CLI, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return line(what, usage.ru_maxrss / 1024, bar, time.perf_counter() - began)


def scan(written: Written) -> list[dict[str, object]]:
    """`flintmq scan --json` of everything."""
    return [command("flintmq scan --json", 256, "scan", str(written.path), "--json")]


def sql(written: Written, out: Path) -> list[dict[str, object]]:
    """`flintmq sql`: little of each row kept, every row sorted, every row with its body written."""
    sums = "select topic, queue_id, tags, count(*), sum(size), max(store_timestamp) from messages group by all"
    keys = "select keys, physical_offset from messages order by keys desc, physical_offset"
    queries = {"group-by": (sums,), "sort of all keys": (keys, "--format", "csv")}
    queries["all rows into Parquet"] = ("select * from messages", "--output", str(out))
    return [command(f"flintmq sql, {what}", 512, "sql", str(written.path), *words) for what, words in queries.items()]


def export_here(written: Written, out: Path) -> list[dict[str, object]]:
    """`flintmq export` of everything, with a thread a core."""
    found = [command("flintmq export", 512, "export", str(written.path), "--out", str(out))]
    shutil.rmtree(out)
    return found


def export(written: Written, out: Path) -> list[dict[str, object]]:
    """`flintmq spark export` in this process's session, its workers watched."""
    from flintmq.spark import session
    from flintmq.spark.jobs.export.job import export as run

    spark = session("flintmq memory", master="local[2]")
    began = time.perf_counter()
    with Watch() as watch:
        done = run(spark, str(written.path), str(out))
    assert done.rows == written.records
    seconds = time.perf_counter() - began
    spark.stop()
    return [line("a Spark worker while exporting", max(watch.peaks.values()) / 1024, 512, seconds)]


def line(what: str, mib: float, bar: int, seconds: float) -> dict[str, object]:
    print(f"{what}: {mib:.0f} MiB at most (bar {bar}), {seconds:.0f} s", flush=True)
    return {"what": what, "mib": round(mib), "bar_mib": bar, "holds": mib < bar, "seconds": round(seconds)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory of scan and export on a large store.")
    parser.add_argument("--mib", type=int, default=10_240, help="of log (10240)")
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--scratch", help="where the store goes; default: the system's temporary folder")
    parser.add_argument("--only", choices=("scan", "sql", "export", "spark"), help="leave the other lines as they were")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="flintmq-memory-", dir=given.scratch))
    try:
        count = (given.mib << 20) // (given.body_bytes + 176)
        written = write_store(
            scratch / "store", count, body_bytes=given.body_bytes, bodies="random", queues_and_index=False
        )
        runs: dict[str, Callable[[], list[dict[str, object]]]] = {
            "scan": lambda: scan(written),
            "sql": lambda: sql(written, scratch / "rows.parquet"),
            "export": lambda: export_here(written, scratch / "out"),
            "spark": lambda: export(written, scratch / "out"),
        }
        lines = [one for name, run in runs.items() if given.only in (None, name) for one in run()]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    log = {"date": date, "log_mib": given.mib, "body_bytes": given.body_bytes}
    target = Path(__file__).with_name("memory.json")
    before = json.loads(target.read_text(encoding="utf-8"))["lines"] if given.only and target.exists() else []
    measured = {one["what"] for one in lines}
    report = {"lines": [one for one in before if one["what"] not in measured] + [one | log for one in lines]}
    target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return int(not all(line["holds"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())

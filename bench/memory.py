"""Memory of the long jobs on a large store: `python bench/memory.py [--mib 10240]`.

The most resident memory that `flintmq scan --json` of a whole store takes (bar: 256 MiB), and that each Spark worker
takes while all of it is exported (bar: 512 MiB). Linux only: it reads /proc. Writes bench/memory.json.
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


def scan(written: Written) -> dict[str, object]:
    """`flintmq scan --json` into nothing."""
    began = time.perf_counter()
    words = [*CLI, "scan", str(written.path), "--json"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return line("flintmq scan --json", usage.ru_maxrss / 1024, 256, time.perf_counter() - began)


def export(written: Written, out: Path) -> dict[str, object]:
    """`flintmq spark export` in this process's session, its workers watched."""
    from flintmq.spark import session
    from flintmq.spark.jobs.export import export as run

    spark = session("flintmq memory", master="local[2]")
    began = time.perf_counter()
    with Watch() as watch:
        done = run(spark, str(written.path), str(out))
    assert done.rows == written.records
    seconds = time.perf_counter() - began
    spark.stop()
    return line("a Spark worker while exporting", max(watch.peaks.values()) / 1024, 512, seconds)


def line(what: str, mib: float, bar: int, seconds: float) -> dict[str, object]:
    print(f"{what}: {mib:.0f} MiB at most (bar {bar}), {seconds:.0f} s", flush=True)
    return {"what": what, "mib": round(mib), "bar_mib": bar, "holds": mib < bar, "seconds": round(seconds)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory of scan and export on a large store.")
    parser.add_argument("--mib", type=int, default=10_240, help="of log (10240)")
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--scratch", help="where the store goes; default: the system's temporary folder")
    parser.add_argument("--without-export", action="store_true")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="flintmq-memory-", dir=given.scratch))
    try:
        count = (given.mib << 20) // (given.body_bytes + 176)
        written = write_store(
            scratch / "store", count, body_bytes=given.body_bytes, bodies="random", queues_and_index=False
        )
        lines = [scan(written)]
        if not given.without_export:
            lines.append(export(written, scratch / "out"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    report = {"date": date, "log_mib": given.mib, "body_bytes": given.body_bytes, "lines": lines}
    target = Path(__file__).with_name("memory.json")
    target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return int(not all(line["holds"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())

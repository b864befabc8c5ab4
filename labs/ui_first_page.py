"""The first page of `flintmq ui` over a store of many queues, each time by a new process.

    python -m labs.ui_first_page [--topics 1000] [--queues 10] [--messages 20000] [--rounds 5] [--store DIR]

Each round has a line: seconds from the start of the process to the last byte of the page, of its processor time, its
most memory, and the load of the machine. It ends with 1 where the median is over 2 s or the memory over 150 MiB, and
with an error where the page names another number of queues than the store was made with. The files are in the page
cache.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from flintmq.testing import write_store
from labs.ui_tail import memory_mib

MOST_S, MOST_MIB = 2.0, 150


def first_page(store: Path, queues: int) -> tuple[float, float, float]:
    """Seconds to the page, of the process's time too, and its most memory in MiB."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "flintmq", "ui", str(store), "--listen", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        said = re.search(r"http://[^ ]*:\d+/", server.stderr.readline())
        assert said is not None, "the server did not begin"
        with urllib.request.urlopen(said[0], timeout=60) as answer:
            page = answer.read().decode()
        seconds = time.monotonic() - begun
        assert f"{queues:,} queues" in page, f"the page does not name {queues:,} queues"
        times = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return seconds, sum(map(int, times)) / os.sysconf("SC_CLK_TCK"), memory_mib(server.pid, "VmHWM")
    finally:
        server.kill()
        server.wait()


def run(store: Path, topics: int, queues: int, messages: int, rounds: int) -> int:
    if not store.exists():
        write_store(store, messages, topics=topics, queues=queues)
    found = []
    for number in range(1, rounds + 1):
        found.append(first_page(store, topics * queues))
        seconds, own, mib = found[-1]
        load = os.getloadavg()[0]
        print(
            f"round {number}: {seconds:.2f} s, {own:.2f} s of a processor, {mib:.0f} MiB, load {load:.2f}", flush=True
        )
    seconds, own = (statistics.median(one[at] for one in found) for at in (0, 1))
    mib = max(one[2] for one in found)
    print(f"{topics * queues:,} queues: median {seconds:.2f} s, {own:.2f} s of a processor, most memory {mib:.0f} MiB")
    return int(seconds > MOST_S or mib > MOST_MIB)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("topics", 1000), ("queues", 10), ("messages", 20_000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--store", type=Path, help="keep the store here, and use it again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flintmq-first-page-") as folder:
        store = asked.store or Path(folder) / "store"
        return run(store, asked.topics, asked.queues, asked.messages, asked.rounds)


if __name__ == "__main__":
    sys.exit(main())

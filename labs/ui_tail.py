"""`flintmq ui` under a fast writer: how far behind are the browsers that tail, and does its memory stay flat?

    python -m labs.ui_tail [--minutes 10] [--rate 5000] [--browsers 3]

A process puts messages whose body is the time of their put. Browsers read the events of `/0/tail`; one more takes
nothing. Each minute has a line: by how much the newest row was late when it came, by how much the row shown before it
was late just then (the worst that a person sees), and the server's memory. It ends with 1 where a browser was over a
second behind or saw nothing, or the memory of the last minute is over that of the second one by more than 8 MiB.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from flintmq import Message, MessageStore

TOPIC, LATE_S, SLACK_MIB = "Ticks", 1.0, 8


def write(path: str, rate: int) -> None:
    """Put messages until stdin ends; the last line says how many."""
    over, count, begun = threading.Event(), 0, time.monotonic()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with MessageStore(path) as store:
        while not over.is_set():
            while count < (time.monotonic() - begun) * rate:
                store.put(Message(TOPIC, b"%.6f" % time.time(), tags="T", queue_id=count % 4))
                count += 1
            time.sleep(0.002)
        print(count, round(count / (time.monotonic() - begun)))


class Browser(threading.Thread):
    """Reads events; `seen` has pairs, in s: lateness of a new row, and of the row before it at that moment."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.line, self.seen, self.newest = asked(port), list[tuple[float, float]](), 0.0

    def run(self) -> None:
        with self.line.makefile("rb") as lines:
            for line in lines:
                rows = json.loads(line[6:])["rows"] if line.startswith(b"data: {") else ()
                if rows:
                    now, before, self.newest = time.time(), self.newest, max(float(row["body"]) for row in rows)
                    self.seen.append((now - self.newest, now - before if before else 0.0))


def asked(port: int) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), 30)
    line.sendall(f"GET /0/tail/events?topic={TOPIC} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return line


def memory_mib(pid: int, what: str = "VmRSS") -> float:
    found = re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def run(folder: str, minutes: float, rate: int, browsers: int) -> int:
    store, pipe = f"{folder}/store", subprocess.PIPE
    command = [sys.executable, __file__, "--write", store, "--rate", str(rate)]
    writer = subprocess.Popen(command, stdin=pipe, stdout=pipe)
    time.sleep(3)
    command = [sys.executable, "-m", "flintmq", "ui", store, "--listen", "0"]
    server = subprocess.Popen(command, stderr=pipe, text=True)
    try:
        assert server.stderr is not None and writer.stdout is not None
        said = re.search(r":(\d+)/", server.stderr.readline())
        assert said is not None, "the server did not begin"
        port = int(said[1])
        sleeper, readers = asked(port), [Browser(port) for _ in range(browsers)]
        for one in readers:
            one.start()
        wrong, held, until = False, list[float](), time.monotonic()
        while len(held) < max(1, round(minutes)):
            until += min(60.0, 60 * minutes)
            time.sleep(max(0.0, until - time.monotonic()))
            seen = [one.seen.copy() for one in readers]
            for one, pairs in zip(readers, seen, strict=True):
                del one.seen[: len(pairs)]
            new, shown = zip(*(pair for pairs in seen for pair in pairs or [(9e9, 9e9)]), strict=True)  # nothing: late
            held.append(memory_mib(server.pid))
            wrong = wrong or max(shown) > LATE_S
            print(
                f"minute {len(held)}: new rows {statistics.median(new):.2f} s late, at most {max(new):.2f}; "
                f"shown before {max(shown):.2f}; {len(new)} events; {held[-1]:.1f} MiB",
                flush=True,
            )
        sleeper.close()
        out = writer.communicate(b"")[0].decode().split()
        print(f"{out[0]} messages, {out[1]} a second; most memory {memory_mib(server.pid, 'VmHWM'):.1f} MiB")
        return int(wrong or held[-1] > held[min(1, len(held) - 1)] + SLACK_MIB)
    finally:
        for process in (server, writer):
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--browsers", type=int, default=3)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    asked_for = parser.parse_args()
    if asked_for.write:
        write(asked_for.write, asked_for.rate)
        return 0
    with tempfile.TemporaryDirectory(prefix="flintmq-ui-tail-") as folder:
        return run(folder, asked_for.minutes, asked_for.rate, asked_for.browsers)


if __name__ == "__main__":
    sys.exit(main())

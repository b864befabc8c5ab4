"""Measures the least that `flintmq inspect` and `flintmq get` must do, with nothing of FlintMQ.

    python experiments/command_bound.py STORE

Prints the processor seconds of (1) a Python that imports only the modules of the standard library that `get` needs,
(2) one that reads of each queue of STORE the listing, the sizes, the first unit and its record, without looking at
them, and (3) the commands themselves; the least of five runs each, in turn.
"""

from __future__ import annotations

import resource
import subprocess
import sys

LIBRARY = "import re, json, logging, dataclasses, typing, pathlib, ctypes, threading, datetime"
QUEUES = """
import os, sys
root = sys.argv[1]
log = os.open(min(os.scandir(root + "/commitlog"), key=lambda entry: entry.name).path, os.O_RDONLY)
for topic in os.scandir(root + "/consumequeue"):
    for queue in os.scandir(topic.path):
        for file in os.scandir(queue.path):
            fd = os.open(file.path, os.O_RDONLY)
            os.fstat(fd)
            unit = os.pread(fd, 20, 0)
            os.pread(log, int.from_bytes(unit[8:12], "big"), int.from_bytes(unit[:8], "big"))
            os.close(fd)
"""


def seconds(words: list[str]) -> float:
    """Run a command; return the processor seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(store: str) -> None:
    """Print the table."""
    flintmq = [sys.executable, "-m", "flintmq"]
    commands = {
        "Python": [sys.executable, "-c", "pass"],
        "library": [sys.executable, "-c", LIBRARY],
        "flintmq --version": [*flintmq, "--version"],
        "each queue, read": [sys.executable, "-c", QUEUES, store],
        "flintmq inspect": [*flintmq, "inspect", store],
    }
    least = dict.fromkeys(commands, 1e9)
    for _ in range(5):
        for name, words in commands.items():
            least[name] = min(least[name], seconds(words))
    for name, taken in least.items():
        print(f"{name:20} {taken:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])

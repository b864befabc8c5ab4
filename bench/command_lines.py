"""P21: the processor time of commands that should take none: each a whole process, its start and its end included.

The bars are seconds, and for `tail --follow` a share of one processor. Python's bytecode is kept, as it is where
FlintMQ is installed, and was made by a run before the first that counts.
"""

from __future__ import annotations

import os
import resource
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import Context, Result
from start_lines import LOG_FILE, QUEUES, TOPICS, killed_store, opened_and_closed
from user_lines import MAIN

from flintmq import Message, MessageStore

FOLLOWED = 1000  # queues of the topic that `tail --follow` waits for
IDLE = 20.0  # seconds for which it is watched
QUIET = 3.0  # seconds that it may take to come to rest
TICKS = os.sysconf("SC_CLK_TCK")


def environment(context: Context) -> dict[str, str]:
    """The environment of the commands: this one's, with bytecode kept in a directory of the bench's own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(context.scratch / "bytecode")}


def seconds(context: Context, words: tuple[str, ...]) -> float:
    """The processor time of a process of Python; not by `os.times`, whose ticks are too coarse for it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment(context))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def followed(context: Context) -> Path:
    """A store whose only topic has 1,000 queues of one message."""
    path = context.scratch / "followed"
    with MessageStore(path, config={"mappedFileSizeCommitLog": LOG_FILE}, unique_keys=False) as store:
        for queue in range(FOLLOWED):
            assert store.put(Message("Followed", b"x" * 100, keys=f"k{queue}", queue_id=queue)).status.name == "PUT_OK"
    return path


@contextmanager
def follower(context: Context, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that follows all messages of the topic, and has printed the newest ten."""
    words = [sys.executable, "-c", MAIN, "tail", str(path), "Followed", "--follow"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(context))
    try:
        lines(process, 10)
        yield process
    finally:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[bytes], count: int) -> None:
    """Wait for this many lines of a process.

    Raises:
        RuntimeError: they did not come within a minute.
    """
    assert process.stdout is not None
    seen, end = 0, time.monotonic() + 60
    while seen < count:
        if not select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            raise RuntimeError(f"tail --follow printed {seen} lines of {count} in a minute")
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            raise RuntimeError(f"tail --follow ended after {seen} lines of {count}")
        seen += data.count(b"\n")


def used(process: subprocess.Popen[bytes]) -> float:
    """The processor seconds of a running process."""
    parts = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / TICKS


def idle(context: Context, path: Path) -> float:
    """The share of a processor that `tail --follow` takes while a writer has the store open and puts nothing.

    A message afterwards has to arrive: it was following all the time.
    """
    with MessageStore(path, unique_keys=False) as store, follower(context, path) as process:
        time.sleep(QUIET)
        before, begin = used(process), time.monotonic()
        time.sleep(2.0 if context.quick else IDLE)
        share = (used(process) - before) / (time.monotonic() - begin)
        store.put(Message("Followed", b"at last"))
        lines(process, 1)
    return share


def p21(context: Context) -> list[Result]:
    topics = 250 if context.quick else TOPICS
    many, small = killed_store(context, topics), followed(context)
    opened_and_closed(many)
    command = ("-c", MAIN)
    commands: dict[str, tuple[tuple[str, ...], float | None, str]] = {
        "import": (("-c", "import flintmq"), 0.06, "import flintmq"),
        "version": ((*command, "--version"), 0.12, "flintmq --version"),
        "get": ((*command, "get", str(small), "Followed", "7", "0"), 0.15, "flintmq get"),
        "query": ((*command, "query", str(small), "Followed", "k7"), 0.15, "flintmq query"),
        "inspect": ((*command, "inspect", str(many)), 1.0, f"flintmq inspect, {topics * QUEUES} queues"),
        "recover": (
            (*command, "recover", str(many), "--dry-run"),
            None,
            f"flintmq recover --dry-run, {topics * QUEUES} queues",
        ),
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    shares = []
    for number in range(-1, context.rounds):
        for name, (words, _, _) in commands.items():
            found = seconds(context, words)
            if number >= 0:
                taken[name].append(found)
        if number >= 0:
            shares.append(idle(context, small))
    results = [
        Result(f"P21.{name}", f"{what}, processor seconds", statistics.median(taken[name]), bar, at_most=True,
               moonshot=bar / 2 if bar else None, bound="imports" if not name.startswith(("ins", "rec")) else
               "a few system calls a queue", detail={"least": round(min(taken[name]), 3)})
        for name, (_, bar, what) in commands.items()
    ]  # fmt: skip
    what = f"tail --follow, {FOLLOWED} queues, nothing comes: share of a processor"
    results.append(
        Result("P21.tail", what, statistics.median(shares), 0.01, at_most=True, moonshot=0.005,
               bound="looks at the log's end, and at files that a rebuild may replace")
    )  # fmt: skip
    return results


LINES = {"P21": p21}

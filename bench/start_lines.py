"""Starting a store. P9a: unclean, until all is dispatched. P20: opening and closing many queues, clean and unclean.

P9a: each side finds the same log and what it knows of it itself: both the checkpoint, ours its durable mark too. Queues
and index are missing, so everything is validated and dispatched.

P20: a store of 10,000 queues with a message each is killed before its first checkpoint, so that every queue changed
since. Each run opens and closes a copy of it, which then was stopped cleanly, and opens and closes it again.
The bars are of processor time inside our process, from before the store is opened until it is closed.
"""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import java
from data import SIZES, sized, store
from harness import Context, Result, Unavailable, figures, measure, once
from rebuild_lines import less

SCRIPT = """
import sys
from flintmq import MessageStore
with MessageStore(sys.argv[1], unique_keys=False) as store:
    assert store.wait_dispatched()
"""


def ours(path: Path) -> None:
    """Open the store in a process of its own, wait until it is dispatched, close it (Java closes its, too)."""
    subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True, capture_output=True)


def stopped(path: Path) -> dict[str, bytes]:
    """What a store that was flushed and then killed has besides its log, by name."""
    java.strip(path)
    ours(path)
    return {name: (path / name).read_bytes() for name in ("checkpoint", "flintmq.mark")} | {"abort": b"1"}


def p9a(context: Context) -> list[Result]:
    """Starting on a tiny log is taken off."""
    java.home(context)
    results = []
    tiny = java.log_only(context, store(context, "tiny", 100, mib=1).path, "tiny-java")
    for size in SIZES:
        copy = java.log_only(context, sized(context, size).path, f"java-{size}")
        kept = {path: stopped(path) for path in (copy, tiny)}

        def crashed(kept: dict[Path, dict[str, bytes]] = kept) -> None:
            for path, files in kept.items():
                java.strip(path)
                for name, data in files.items():
                    (path / name).write_bytes(data)

        samples = measure(
            context,
            {
                "java": lambda copy=copy: java.oracle(context, "rebuild", copy),  # type: ignore[misc]
                "flintmq": lambda copy=copy: ours(copy),  # type: ignore[misc]
                "java start": lambda: java.oracle(context, "rebuild", tiny),
                "flintmq start": lambda: ours(tiny),
            },
            before=crashed,
        )
        for path in kept:
            java.strip(path)
        peer, own = less(samples["java"], samples["java start"]), less(samples["flintmq"], samples["flintmq start"])
        what = f"unclean start, {context.mib} MiB of log, {size} bodies, until dispatched: Java's time / ours"
        results.append(
            Result(f"P9a.{size}", what, peer.wall / own.wall, 10.0, moonshot=25,
                   bound="validation, then cache misses of index insertion", detail=figures(samples))
        )  # fmt: skip
    return results


TOPICS, QUEUES, LOG_FILE = 2500, 4, 64 << 20  # of the store of P20, and bytes of its log files
FILL = """
import os, signal, sys
from flintmq import Message, MessageStore
path, topics, queues = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
keys = {"flushIntervalConsumeQueue": 1 << 30, "mappedFileSizeCommitLog": int(sys.argv[4])}
store = MessageStore(path, config=keys, unique_keys=False)
for topic in range(topics):
    for queue in range(queues):
        assert store.put(Message(f"topic-{topic:05d}", b"x" * 100, queue_id=queue)).status.name == "PUT_OK"
assert store.wait_dispatched()
os.kill(os.getpid(), signal.SIGKILL)
"""
OPEN_AND_CLOSE = """
import json, sys, time
from flintmq import MessageStore
begin = time.process_time()
store = MessageStore(sys.argv[1], unique_keys=False)
opened = time.process_time()
store.close()
print(json.dumps({"open": opened - begin, "close": time.process_time() - opened}))
"""
KINDS = ("killed", "clean")  # in the order in which a copy is one and then the other
SECONDS = {"clean": (2.0, 1.0), "killed": (3.0, 1.5)}  # bar and moonshot


def killed_store(context: Context, topics: int) -> Path:
    """A store that was killed after its last message was dispatched and before its first checkpoint."""
    path = context.scratch / f"killed-{topics}"
    context.say(f"  making a store of {topics * QUEUES} queues")
    words = [sys.executable, "-c", FILL, str(path), str(topics), str(QUEUES), str(LOG_FILE)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the store was not filled: {done.stderr.strip()[-500:]}")
    return path


def opened_and_closed(path: Path) -> dict[str, float]:
    """Processor seconds of opening and closing a store, inside a process of its own."""
    words = [sys.executable, "-c", OPEN_AND_CLOSE, str(path)]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return found


def again(killed: Path) -> Path:
    """A copy of a killed store, sparse as it is, whose files are not on disk either."""
    copy = killed.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(killed), str(copy)], check=True)
    return copy


def of_java(context: Context, killed: Path, small: Path) -> dict[str, float] | None:
    """Processor seconds of Java's process for each kind of stop, without its start-up; None without Java."""
    try:
        java.home(context)
    except Unavailable as missing:
        context.say(f"  without Java: {missing}")
        return None

    def seconds(store: Path) -> dict[str, float]:
        copy = again(store)
        return {
            kind: once(lambda: java.oracle(context, "rebuild", copy, {"mappedFileSizeCommitLog": LOG_FILE})).cpu
            for kind in KINDS
        }

    start = seconds(small)
    return {kind: found - start[kind] for kind, found in seconds(killed).items()}


def p20(context: Context) -> list[Result]:
    """Rounds in which ours and Java's take turns; Java opens the same bytes, and knows its checkpoint alone."""
    topics = 250 if context.quick else TOPICS
    killed, small = killed_store(context, topics), killed_store(context, 1)
    inside: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    whole: dict[str, list[float]] = {kind: [] for kind in KINDS}
    peers: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(context.rounds):
        copy = again(killed)
        for kind in KINDS:

            def ours(kind: str = kind, copy: Path = copy) -> None:
                inside[kind].append(opened_and_closed(copy))

            whole[kind].append(once(ours).cpu)
        for kind, seconds in (of_java(context, killed, small) or {}).items():
            peers[kind].append(seconds)
    results = []
    for kind, (bar, moonshot) in SECONDS.items():
        own = statistics.median(run["open"] + run["close"] for run in inside[kind])
        detail = {part: round(statistics.median(run[part] for run in inside[kind]), 3) for part in ("open", "close")}
        detail["whole process"] = round(statistics.median(whole[kind]), 3)
        what = f"opening and closing a {kind} store of {topics * QUEUES} queues, processor "
        bound = "some ten system calls a queue" + (", and two syncs" if kind == "killed" else "")
        peer = statistics.median(peers[kind]) if peers[kind] else 0.0
        if peer > 0:  # few queues take Java no longer than its start varies
            detail["java"] = round(peer, 3)
            results.append(
                Result(f"P20.{kind}.java", what + "time: ours / Java's without its start", own / peer, 0.5,
                       at_most=True, bound=bound, detail=detail)
            )  # fmt: skip
        results.append(
            Result(
                f"P20.{kind}", what + "seconds", own, bar, at_most=True, moonshot=moonshot, bound=bound, detail=detail
            )
        )
    return results


LINES = {"P9a": p9a, "P20": p20}

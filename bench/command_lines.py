"""P21, U1, U3, U6, U7: commands, each a whole process from its start to its end, beside a tool on the same bytes.

Python's bytecode is kept, as it is where FlintMQ is installed, and was made by a run before the first that counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from data import OVERHEAD, files, orders, warm
from harness import Context, Result, measure, timed
from start_lines import LOG_FILE, again, many_queues, opened_and_closed

from flintmq import Message, MessageStore, open_store
from flintmq.testing import Written, write_store

BODY = 1024
FILE = 16 << 20  # of the log: other tools read the whole of a file
MAIN = "import sys; from flintmq.__main__ import main; sys.exit(main())"  # what the script `flintmq` does
GROUP_BY = "select topic, count(*), sum(size) from messages group by topic"
Results = dict[str, Result]


def flintmq(context: Context, *words: str, text: bool = False) -> str:
    """Run a command in a process of its own; return what it printed, if that is asked for."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(context.scratch / "bytecode")
    out = subprocess.PIPE if text else subprocess.DEVNULL
    done = subprocess.run([sys.executable, "-c", MAIN, *words], stdout=out, stderr=subprocess.PIPE, text=True,
                          env=environment, check=False)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"flintmq {words[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout or ""


def command(context: Context, *words: str) -> Callable[[], str]:
    """The same, to be called."""
    return partial(flintmq, context, *words)


def run(*words: str) -> str:
    """Run a tool; return what it printed."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def kept(context: Context) -> Written:
    """The store of U1 and U3: bodies of words, from a seed; its files are full but the last one."""
    if "user" not in context.stores:
        context.say(f"  making user: {context.mib} MiB of log with {BODY} B bodies")
        count = (context.mib << 20) // (BODY + OVERHEAD)
        context.stores["user"] = write_store(
            context.scratch / "user", count, body_bytes=BODY, commit_log_file_size=FILE
        )
    written: Written = context.stores["user"]
    warm(written)
    return written


def paths(written: Written) -> list[str]:
    """The log files that hold records."""
    return [str(path) for path, _ in files(written)]


def u1(context: Context) -> Results:
    """Each finds the same message, by some words of its body; grep knows no records, and no compressed bodies."""
    written = kept(context)
    with open_store(written.path) as view:
        queue = view.queues()[0]
        [message] = view.read(queue.topic, queue.queue_id, queue.max_offset // 2, 1)
    text, logs = message.body[100:260].decode(), paths(written)  # a shorter text may come twice in a body
    scan = ("scan", str(written.path), "--grep", text)
    count = flintmq(context, *scan, "--json", text=True).count("\n")
    assert 1 <= count == run("grep", "-a", "-o", "-F", text, *logs).count(text), (text, count)
    cases = {"flintmq": timed(command(context, *scan))}
    tools = {"grep": ("grep", "-a", "-c", "-F"), "ripgrep": ("rg", "-a", "-c", "-F")}
    for name, words in tools.items():
        if shutil.which(words[0]):
            cases[name] = timed(partial(run, *words, text, *logs))
    found = measure(context, cases, warm=True)
    return {"U1.wall": found.result(found["flintmq wall"] / found.best(*(f"{name} wall" for name in list(cases)[1:])))}


def u3(context: Context) -> Results:
    """Verify compares queues and index with the log; sha256sum only sums up the log's bytes."""
    written = kept(context)
    cases = {
        "flintmq": timed(command(context, "verify", str(written.path))),
        "sha256sum": timed(partial(run, "sha256sum", *paths(written))),
    }
    found = measure(context, cases, warm=True)
    return {"U3.wall": found.result(found["flintmq wall"] / found["sha256sum wall"])}


def u6(context: Context) -> Results:
    path, count = orders(context)
    found = measure(context, {"scan": timed(command(context, "scan", str(path), "--json"))}, warm=True)
    return {"U6": found.result(found["scan wall"] / (count / 1e6), messages=count)}


def u7(context: Context) -> Results:
    path, count = orders(context)
    found = measure(context, {"sql": timed(command(context, "sql", str(path), GROUP_BY))}, warm=True)
    return {"U7": found.result(found["sql wall"], messages=count)}


def p21(context: Context) -> Results:
    small, many = context.scratch / "small", again(many_queues(context))  # line 15 needs the killed one
    with MessageStore(small, config={"mappedFileSizeCommitLog": LOG_FILE}, unique_keys=False) as store:
        for queue in range(1000):
            store.put(Message("Orders", b"x" * 100, keys=f"k{queue}", queue_id=queue))
    opened_and_closed(many)
    commands = {
        "get": ("get", str(small), "Orders", "7", "0"),
        "query": ("query", str(small), "Orders", "k7"),
        "version": ("--version",),
        "inspect": ("inspect", str(many)),
    }
    found = measure(context, {name: timed(command(context, *words)) for name, words in commands.items()}, warm=True)
    return {f"P21.{name}": found.result(found[f"{name} cpu"]) for name in commands}


FAMILIES = {"U1": u1, "U3": u3, "U6": u6, "U7": u7, "P21": p21}

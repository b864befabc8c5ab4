"""P16: memory of a process that has a store and puts. M1: of commands that go through a large store.

P16: what belongs to no mapped file, as the store itself tells. M1: the most resident memory of the process, which does
not grow with the log: 16 GiB of it here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable

from command_lines import GROUP_BY
from data import OVERHEAD
from harness import Context, Cost, Result, Unavailable, measure
from start_lines import script

from flintmq.testing import write_store

BODY, LARGE = 1024, 16  # bytes; times `mib`
MIB = 1 << 20
PUTTING = """
import json, sys, time
from flintmq import Message, MessageStore
with MessageStore(sys.argv[1], unique_keys=False) as store:
    store.put(Message("Bench", b"x"))
    time.sleep(1)
    idle = store.stats().memory_bytes
    most = 0
    for number in range(int(sys.argv[2])):
        store.put(Message(f"Bench{number % 8}", bytes(1000), tags="TagA", keys=f"k{number}", queue_id=number % 16))
        if number % 1000 == 0:
            most = max(most, store.stats().memory_bytes)
    store.wait_dispatched(600)
    print(json.dumps({"idle": idle, "load": max(most, store.stats().memory_bytes)}))
"""
COMMAND = r"""
import re, sys
from flintmq.__main__ import main
try:
    sys.exit(main())
finally:
    print(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""


def p16(context: Context) -> dict[str, Result]:
    count = 20_000 if context.quick else 500_000

    def putting() -> Cost:
        with context.folder("memory") as path:
            found: Cost = json.loads(script(PUTTING, str(path), str(count)))
        if not found["idle"]:
            raise Unavailable("this system does not tell what memory a process has (Linux does)")
        return {name: value / MIB for name, value in found.items()}

    found = measure(context, {"MiB": putting})
    return {f"P16.{name}": found.result(found[f"MiB {name}"], puts=count) for name in ("idle", "load")}


def resident(*words: str) -> Cost:
    """The most resident memory of a command; not by `wait4`, which counts what this process had when it made it."""
    line = [sys.executable, "-c", COMMAND, *words]
    done = subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True)
    return {"MiB": int(done.stderr.split()[-1]) / 1024}


def m1(context: Context) -> dict[str, Result]:
    """Once each: the most that a process takes hardly differs."""
    path, out = context.scratch / "large", context.scratch / "large-out"
    count = (LARGE * context.mib << 20) // (BODY + OVERHEAD)
    context.say(f"  making large: {LARGE * context.mib} MiB of log with {BODY} B bodies")
    write_store(path, count, body_bytes=BODY, bodies="random", queues_and_index=False)
    cases: dict[str, Callable[[], Cost]] = {
        "sql": lambda: resident("sql", str(path), GROUP_BY),
        "export": lambda: resident("export", str(path), "--out", str(out)),
    }
    once = Context(context.scratch, context.mib, 1, context.quick)
    try:
        found = measure(once, cases)
    finally:
        for made in (path, out):
            shutil.rmtree(made, ignore_errors=True)
    return {f"M1.{name}": found.result(found[f"{name} MiB"], MiB=LARGE * context.mib) for name in cases}


FAMILIES = {"P16": p16, "M1": m1}

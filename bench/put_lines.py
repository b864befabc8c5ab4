"""P1, P3, P4, P6: what a put costs, against Java's store under its default configuration (ASYNC_FLUSH, mapped files).
P22: a put of a message that came from a client, against one without its address.

All are processes of their own that put into a new store, dispatch and index included. Java's processor time is the
difference of a long run and one that only warms up, so neither its start nor its compiler counts; its wall clock is
what the oracle tells for the messages behind the warm-up, the wait for dispatch included.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import java
from harness import Case, Context, Cost, Result, Unavailable, measure, used
from put_peer import POOL

PEER = Path(__file__).resolve().parent / "put_peer.py"
RECORD = 91 + len("Bench") + len("TAGS\x01TagA\x02")  # bytes of a record beside its body
WARM, JAVA_WARM = 50_000, 400_000
Results = dict[str, Result]


def flint(context: Context, kind: str, size: int, count: int, warm: int = WARM) -> Cost:
    """One run of put_peer."""
    with context.folder("put-flint") as path:
        words = [sys.executable, str(PEER), str(path / "store"), kind, str(size), str(count), str(warm)]
        found: Cost = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        return found


def oracle(
    context: Context, size: int, count: int, warm: int = JAVA_WARM, threads: int = 1, pool: bool = False
) -> Cost:
    """One run of Java's, with what the whole process took. Its pool has as many buffers as ours."""
    with context.folder("put-java") as path:
        words = ["--size", size, "--count", count, "--warmup", warm, "--threads", threads]
        before = used(resource.RUSAGE_CHILDREN)
        [row] = java.oracle(context, "bench", path, POOL if pool else None, *map(str, words))
        if row["failed"]:
            raise RuntimeError(f"{row['failed']} puts of Java's failed")
        return {
            "seconds": row["seconds"] + row["dispatch_lag_seconds"],
            "cpu": used(resource.RUSAGE_CHILDREN) - before,
            "p999_us": row.get("p999_us") or 0.0,
        }


def small(context: Context) -> int:
    """How many messages of 100 B."""
    return 300_000 if context.quick else 2_000_000


def p1(context: Context) -> Results:
    """The cases are of Java's store twice, one run of them is of its warm-up alone."""
    cases: dict[str, Case] = {}
    for end, pool in (("", False), ("+pool", True)):
        cases |= {
            f"java{end}": partial(oracle, context, 100, small(context), pool=pool),
            f"start{end}": partial(oracle, context, 100, 1000, pool=pool),
            f"one{end}": partial(flint, context, f"one{end}", 100, small(context)),
        }
    found = measure(context, cases)
    return {
        f"P1.{name}": found.result(found[f"one{end} cpu"] / (found[f"java{end} cpu"] - found[f"start{end} cpu"]))
        for name, end in (("mapped", ""), ("pool", "+pool"))
    }


def p22(context: Context) -> Results:
    kinds = {"without": "one", "with": "one+host"}
    found = measure(context, {name: partial(flint, context, kind, 100, small(context)) for name, kind in kinds.items()})
    return {"P22": found.result(found["with cpu"] / found["without cpu"], messages=small(context))}


def p3(context: Context) -> Results:
    count = context.mib * (1 << 20) // (RECORD + 1024) + 1
    warm = 100_000 if context.quick else JAVA_WARM
    cases = {"java": partial(oracle, context, 1024, count, warm), "one": partial(flint, context, "one", 1024, count)}
    found = measure(context, cases)
    return {"P3.mapped": found.result(found["java seconds"] / found["one seconds"])}


def p4(context: Context) -> Results:
    cases = {
        "java": partial(oracle, context, 100, small(context), threads=4),
        "four": partial(flint, context, "four", 100, small(context)),
    }
    found = measure(context, cases)
    return {"P4": found.result(found["java seconds"] / found["four seconds"])}


def p6(context: Context) -> Results:
    cases = {
        "java": partial(oracle, context, 100, small(context)),
        "timed": partial(flint, context, "timed", 100, small(context)),
    }
    found = measure(context, cases)
    if not found["java p999_us"].figure:
        raise Unavailable("this build of the oracle does not tell p999_us; build it anew")
    return {"P6.mapped.p999": found.result(found["timed p999_us"] / found["java p999_us"])}


FAMILIES = {"P1": p1, "P22": p22, "P3": p3, "P4": p4, "P6": p6}

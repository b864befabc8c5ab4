"""P1 to P6: what a put costs, against Java's store under its default configuration (ASYNC_FLUSH, mapped files).

Both sides are processes of their own that put into a new store, dispatch and index included. Java's processor time is
the difference of a long run and one that only warms up, so neither its start nor its compiler counts; its wall clock is
what the oracle tells for the messages behind the warm-up, the wait for dispatch included.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import java
from harness import Context, Result, Unavailable
from put_peer import POOL

PEER = Path(__file__).resolve().parent / "put_peer.py"
RECORD = 91 + len("Bench") + len("TAGS\x01TagA\x02")  # bytes of a record beside its body
LATE = {"p999_us": "a thousand", "p9999_us": "ten thousand"}
Cost = dict[str, Any]  # seconds, user, system: of all messages; p999_us of one


def flint(
    context: Context,
    kind: str,
    size: int,
    count: int,
    warm: int,
    python: str = sys.executable,
    extra: Mapping[str, str] | None = None,
) -> Cost:
    """One run of put_peer; `extra` is added to its environment."""
    store = context.scratch / "put-flint"
    words = [python, str(PEER), str(store), kind, str(size), str(count), str(warm)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | dict(extra or {}))
    shutil.rmtree(store)
    found: Cost = json.loads(done.stdout)
    return found


def oracle(context: Context, size: int, count: int, warm: int, threads: int = 1, pool: bool = False) -> Cost:
    """One run of Java's, with what the whole process took. Its pool has as many buffers as ours."""
    store = context.scratch / "put-java"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    words = ["--size", size, "--count", count, "--warmup", warm, "--threads", threads]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    [row] = java.oracle(context, "bench", store, POOL if pool else None, *map(str, words))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(store)
    if row["failed"]:
        raise RuntimeError(f"{row['failed']} puts of Java's failed")
    return {
        "seconds": row["seconds"] + row["dispatch_lag_seconds"],
        "user": after.ru_utime - before.ru_utime,
        "system": after.ru_stime - before.ru_stime,
        "p999_us": row.get("p999_us"),
        "p9999_us": row.get("p9999_us"),
    }


def rounds(context: Context, cases: Mapping[str, Callable[[], Cost]]) -> dict[str, Cost]:
    """Medians of interleaved rounds, another case beginning each time."""
    names, found = list(cases), {name: list[Cost]() for name in cases}
    for number in range(context.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(cases[name]())
    firsts = [costs[0] for costs in found.values()]
    keys = [key for key in firsts[0] if all(cost[key] is not None for cost in firsts)]
    return {name: {key: statistics.median(c[key] for c in costs) for key in keys} for name, costs in found.items()}


def small(context: Context) -> dict[str, dict[str, float]]:
    """Microseconds a message of 100 B: Java, single puts, columns; the first two with the pool as well. Measured once
    for P1, P2 and P5."""
    if "put.small" not in context.shared:
        count, warm = (300_000, 400_000) if context.quick else (2_000_000, 400_000)
        cases: dict[str, Callable[[], Cost]] = {"columns": lambda: flint(context, "columns", 100, count, 65_536)}
        for end, pool in (("", False), ("+pool", True)):
            cases |= {
                f"java{end}": lambda pool=pool: oracle(context, 100, count, warm, pool=pool),  # type: ignore[misc]
                f"start{end}": lambda pool=pool: oracle(context, 100, 1000, warm, pool=pool),  # type: ignore[misc]
                f"one{end}": lambda end=end: flint(context, f"one{end}", 100, count, 50_000),  # type: ignore[misc]
            }
        cost = rounds(context, cases)
        for end in ("", "+pool"):
            start = cost.pop(f"start{end}")
            cost[f"java{end}"] = {key: cost[f"java{end}"][key] - start[key] for key in ("user", "system")}
        rows = {name: count // 65_536 * 65_536 if name == "columns" else count for name in cost}
        context.shared["put.small"] = {
            name: {key: value / rows[name] * 1e6 for key, value in found.items() if value is not None}
            for name, found in cost.items()
        }
    found: dict[str, dict[str, float]] = context.shared["put.small"]
    return found


def detail(cost: dict[str, dict[str, float]], *names: str) -> dict[str, float]:
    return {f"{name}_{key}_us": round(cost[name][key], 4) for name in names for key in ("user", "system")}


def p1(context: Context) -> list[Result]:
    cost, results = small(context), []
    for name, end, bar in (("mapped", "", 1 / 4), ("pool", "+pool", 1 / 8)):
        sides = f"one{end}", f"java{end}"
        one, peer = (cost[side]["user"] + cost[side]["system"] for side in sides)
        what = f"put 100 B, one at a time, {name}, processor time / that of Java's{' pool' if end else ''}"
        results.append(
            Result(f"P1.{name}", what, one / peer, bar, True, 1 / 12, "getting pages from the kernel; calls of Python",
                   detail(cost, *sides))
        )  # fmt: skip
    return results


def p1u(context: Context) -> list[Result]:
    """What the default costs: each message gets a unique key."""
    count = 300_000 if context.quick else 2_000_000
    kinds = {"without": "one", "with": "one+unique"}
    cost = rounds(
        context,
        {name: lambda kind=kind: flint(context, kind, 100, count, 50_000) for name, kind in kinds.items()},  # type: ignore[misc]
    )
    micros = {name: (found["user"] + found["system"]) / count * 1e6 for name, found in cost.items()}
    return [
        Result("P1u", "put 100 B, one at a time, mapped: processor time with unique keys / without",
               micros["with"] / micros["without"], at_most=True, bound="42 bytes and an index entry more",
               detail={f"{name}_us": round(value, 4) for name, value in micros.items()})
    ]  # fmt: skip


def p2(context: Context) -> list[Result]:
    cost = small(context)
    ratio = cost["one"]["user"] / cost["java"]["user"]
    return [
        Result("P2.mapped", "the same, user time alone", ratio, 1 / 8, at_most=True, moonshot=1 / 14,
               bound="the call of a method of Python's, dispatch", detail=detail(cost, "one", "java"))
    ]  # fmt: skip


def p3(context: Context) -> list[Result]:
    count = context.mib * (1 << 20) // (RECORD + 1024) + 1
    warm, results = 400_000 if not context.quick else 100_000, []
    for name, kind, pool, bar in (
        ("mapped", "one", False, 2.0),
        ("pool", "one+pool", True, 2.5),
    ):
        cost = rounds(
            context,
            {
                "java": lambda pool=pool: oracle(context, 1024, count, warm, pool=pool),  # type: ignore[misc]
                "flint": lambda kind=kind: flint(context, kind, 1024, count, 50_000),  # type: ignore[misc]
            },
        )
        ratio = cost["java"]["seconds"] / cost["flint"]["seconds"]
        seconds = {side: round(cost[side]["seconds"], 3) for side in cost}
        results.append(
            Result(f"P3.{name}", f"put 1 KB, {context.mib} MiB, {name}, dispatch included: speed / Java's", ratio, bar,
                   moonshot=10.0, bound="getting pages from the kernel", detail=seconds)
        )  # fmt: skip
    return results


def p4(context: Context) -> list[Result]:
    count, warm = (400_000, 400_000) if context.quick else (2_000_000, 400_000)
    cost = rounds(
        context,
        {
            "java": lambda: oracle(context, 100, count, warm, threads=4),
            "flint": lambda: flint(context, "four", 100, count, 50_000),
        },
    )
    ratio = cost["java"]["seconds"] / cost["flint"]["seconds"]
    seconds = {name: round(cost[name]["seconds"], 3) for name in cost}
    return [
        Result("P4", "put 100 B in four threads: speed / Java's", ratio, 5.0, moonshot=15.0,
               bound="the interpreter's lock: four threads put as one", detail=seconds)
    ]  # fmt: skip


def p4t(context: Context) -> list[Result]:
    """1, 2 and 4 putting threads; with the lock that puts take where there is no GIL, and on such an interpreter.

    FLINTMQ_FREE_THREADED names the interpreter: a free-threaded one in whose environment flintmq is installed.
    """
    count = 400_000 if context.quick else 2_000_000
    free = os.environ.get("FLINTMQ_FREE_THREADED")
    sides: dict[str, tuple[str, dict[str, str]]] = {
        "here": (sys.executable, {}),
        "here, own lock": (sys.executable, {"FLINTMQ_PUT_LOCK": "1"}),
    }
    if free:
        sides["no GIL"] = (free, {"PYTHON_GIL": "0"})
    else:
        print("P4t: no figures without a GIL: FLINTMQ_FREE_THREADED names no interpreter", file=sys.stderr)
    cases: dict[str, Callable[..., Cost]] = {
        f"{side} {kind}": lambda python=python, extra=extra, kind=kind: flint(
            context, kind, 100, count, 50_000, python, extra
        )
        for side, (python, extra) in sides.items()
        for kind in ("one", "two", "four")
    }
    cost = rounds(context, cases)
    detail = {f"{name} s": round(found["seconds"], 3) for name, found in cost.items()}
    bound = "the GIL" if free is None else "the lock of the appender"
    return [
        Result(f"P4t.{kind}.{side.replace(' ', '-').replace(',', '')}",
               f"put 100 B in {kind} threads, {side}: speed / one thread here",
               cost["here one"]["seconds"] / cost[f"{side} {kind}"]["seconds"], bound=bound, detail=detail)
        for side in sides
        for kind in ("one", "two", "four")
    ]  # fmt: skip


def p5(context: Context) -> list[Result]:
    cost = small(context)
    ratio = cost["columns"]["user"] / cost["java"]["user"]
    return [
        Result("P5", "put 100 B from Arrow columns, user time / that of Java's single puts", ratio, 1 / 50,
               at_most=True, bound="dispatch, which reads every record again", detail=detail(cost, "columns", "java"))
    ]  # fmt: skip


def p6(context: Context) -> list[Result]:
    count, warm = (400_000, 400_000) if context.quick else (2_000_000, 400_000)
    cost = rounds(
        context,
        {
            "java": lambda: oracle(context, 100, count, warm),
            "mapped": lambda: flint(context, "timed", 100, count, 50_000),
            "pool": lambda: flint(context, "timed+pool", 100, count, 50_000),
        },
    )
    if "p999_us" not in cost["java"]:
        raise Unavailable("this build of the oracle does not tell p999_us; build it anew")
    # Java's p99.99 only where its oracle tells it; ours is in the detail in any case.
    micros = {f"{name}_{key}": round(found[key], 2) for name, found in cost.items() for key in LATE if key in found}
    what = "put 100 B while the log is flushed and dispatched: the longest of "
    return [
        Result(f"P6.{name}.{key.removesuffix('_us')}", f"{what}{LATE[key]}, {name} / Java's",
               cost[name][key] / cost["java"][key], bar, at_most=True,
               bound="page supply and write-back", detail=micros)
        for name, bar in (("mapped", 1.0), ("pool", 0.1))
        for key in LATE
        if key in cost["java"]
    ]  # fmt: skip


LINES = {"P1": p1, "P1u": p1u, "P2": p2, "P3": p3, "P4": p4, "P4t": p4t, "P5": p5, "P6": p6}

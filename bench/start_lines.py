"""P9a: a store that was stopped uncleanly, from the start of the process until everything is dispatched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import java
from data import SIZES, sized, store
from harness import Context, Result, figures, measure
from rebuild_lines import less

SCRIPT = """
import sys
from flintmq import MessageStore
with MessageStore(sys.argv[1]) as store:
    assert store.wait_dispatched()
"""


def ours(path: Path) -> None:
    """Open the store in a process of its own, wait until it is dispatched, close it (Java closes its, too)."""
    subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True, capture_output=True)


def p9a(context: Context) -> list[Result]:
    """Both find a log, an `abort` file, and neither queues nor index; starting on a tiny log is taken off."""
    java.home(context)
    results = []
    tiny = java.log_only(context, store(context, "tiny", 100, mib=1).path, "tiny-java")
    for size in SIZES:
        copy = java.log_only(context, sized(context, size).path, f"java-{size}")

        def crashed(copy: Path = copy) -> None:
            for path in (copy, tiny):
                java.strip(path)
                (path / "abort").write_text("1")

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
        crashed()
        peer, own = less(samples["java"], samples["java start"]), less(samples["flintmq"], samples["flintmq start"])
        what = f"unclean start, {context.mib} MiB of log, {size} bodies, until dispatched: Java's time / ours"
        results.append(
            Result(f"P9a.{size}", what, peer.wall / own.wall, 10.0, moonshot=25,
                   bound="validation, then cache misses of index insertion", detail=figures(samples))
        )  # fmt: skip
    return results


LINES = {"P9a": p9a}
